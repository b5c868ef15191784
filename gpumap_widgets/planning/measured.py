"""What was measured on GPUs, as values: speeds in one type, and seconds of a step of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..frozen import FrozenDict
from ..identity import bare_uuid
from ..topology import Gpu
from .ranges import Range
from .speeds import Rates


class Measurement(NamedTuple):
    """One device, measured. A range holds all repetitions but the slowest and the quickest tenth of them."""

    device: str
    """UUID of the GPU; ``cpu:0`` for a processor."""
    name: str | None
    tflops: Range | None = None
    """Products of square matrices in the type asked for, 10¹² operations a second; None when it did not work."""
    copy_gbs: Range | None = None
    """Copies within the device's memory, 10⁹ bytes read and written a second."""
    step_seconds: Range | None = None
    """One call of the user's function; None without one."""
    problem: str | None = None
    """Why there is nothing, or not everything; None when all went well."""
    others: int | None = None
    """Processes that were on the GPU before: they make it slower than it is. None where nobody could tell."""


@dataclass(frozen=True)
class Measurements:
    """All devices of one run."""

    rows: tuple[Measurement, ...]
    dtype: str = "float16"
    """Type of the matrices, as torch names it."""
    seconds: float = 0.0
    """How long each device was busy at most."""
    taken: str | None = None
    """ISO time with zone."""
    versions: Mapping[str, str] = field(default_factory=FrozenDict)
    """``python``, ``torch``, ``cuda`` (that torch was built for)."""
    simulated: bool = False
    """True when a simulated driver stood in: the figures say nothing about hardware."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "versions", FrozenDict(self.versions))

    def of(self, gpu: Gpu) -> Measurement | None:
        """That of a GPU, by UUID; by name for a device without one, where just one has that name."""
        if gpu.uuid:
            return next((row for row in self.rows if bare_uuid(row.device) == bare_uuid(gpu.uuid)), None)
        named = [row for row in self.rows if gpu.name is not None and gpu.name in (row.device, row.name)]
        return named[0] if len(named) == 1 else None


def measured_rates(measured: Measurements, gpu: Gpu, dtype: str | None, bound: str | None) -> Rates | None:
    """The measured speeds of a GPU; None when it was not measured, or in another type than asked for."""
    row = measured.of(gpu)
    if row is None or row.tflops is None or row.copy_gbs is None or dtype not in (None, measured.dtype):
        return None
    found = {"compute": row.tflops, "memory": row.copy_gbs}
    return Rates(f"measured {row.device}", FrozenDict({k: v for k, v in found.items() if bound in (None, k)}))
