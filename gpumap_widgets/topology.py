"""A machine: which GPUs it has, in which order NVML counts them, and where we know that from.

Frozen values. ``None`` always means "not known": a text that shows no UUID gives GPUs without one, never an invented
one. Everything that is derived from a machine and worth keeping (its CUDA order, an index of its UUIDs) lives in a
memo that is no part of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from .catalog import look_up
from .errors import ImpossibleMachine
from .identity import PciBusId, normal_pci

Platform = Literal["linux", "windows", "wsl"]
T = TypeVar("T")
_MEMO_LIMIT = 256
"""Derived values kept a machine; only a caller that asks for endless subsets ever reaches it."""
PLATFORMS: tuple[Platform, ...] = ("linux", "windows", "wsl")


@dataclass(frozen=True)
class MigInstance:
    """A MIG slice (a compute instance) of a GPU. Source of the terms: NVIDIA MIG User Guide."""

    uuid: str | None = None
    """``MIG-…``, complete; None when the source does not show it."""
    profile: str | None = None
    """For example ``3g.20gb``."""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    memory_mib: int | None = None
    mig_index: int | None = None
    """Number of the MIG device under its GPU, as nvidia-smi prints it (gaps are possible)."""


@dataclass(frozen=True)
class Gpu:
    """A physical GPU, the board, as the operating system has it."""

    nvml_index: int | None = None
    """Place in NVML's and nvidia-smi's list."""
    name: str | None = None
    uuid: str | None = None
    """``GPU-`` and 36 characters."""
    pci_bus_id: str | None = None
    """NVML's spelling, ``00000000:5E:00.0``; any spelling is accepted and normalised."""
    memory_mib: int | None = None
    """Total memory as nvidia-smi reports it, in MiB."""
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    """Number of streaming multiprocessors."""
    minor_number: int | None = None
    """The N of ``/dev/nvidiaN``: neither the NVML index nor a CUDA ordinal."""
    numa_node: int | None = None
    mig_mode: bool | None = None
    """Whether MIG mode is on; None when unknown."""
    mig_instances: tuple[MigInstance, ...] = ()
    problem: str | None = None
    """Why this GPU cannot be used (lost, no permission, …), in one sentence; None for a GPU without a known problem."""

    def __post_init__(self) -> None:
        if self.pci_bus_id is not None:
            object.__setattr__(self, "pci_bus_id", normal_pci(self.pci_bus_id))
        if self.mig_instances and self.mig_mode is None:
            object.__setattr__(self, "mig_mode", True)

    @property
    def pci(self) -> PciBusId | None:
        """The address as comparable integers."""
        return PciBusId.parse(self.pci_bus_id) if self.pci_bus_id else None

    @property
    def label(self) -> str:
        """The name, or what is said where there is none."""
        return self.name or "unnamed GPU"

    @property
    def short_name(self) -> str:
        """The name without the vendor: ``RTX 4090`` for ``NVIDIA GeForce RTX 4090``."""
        return self.label.removeprefix("NVIDIA ").removeprefix("GeForce ")


@dataclass(frozen=True)
class Topology:
    """A machine: its GPUs and what the order of CUDA rests on.

    ``gpus`` stand in NVML order where the source has NVML numbers, else in the order of the source.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    """For example ``535.104.05``."""
    platform: Platform = "linux"
    default_order: tuple[int, ...] | None = None
    """CUDA's own order as positions in ``gpus``, where a source printed or measured it; else None."""
    default_order_measured: bool = False
    """True when a probe that set the environment itself saw ``default_order``; a log does not show its environment."""
    default_order_date: str | None = None
    """ISO time at which it was measured; None where it was not, or nobody noted when."""
    source: str = "described"
    """Where the machine comes from, in a few words: ``nvidia-smi -L``, ``NVML on this machine``, ``preset``."""
    simulated: bool = False
    """True when a simulated driver told it: then it says nothing about hardware."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a reader should know about the reading: what was missing, what was left out."""
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.platform not in PLATFORMS:
            raise ImpossibleMachine(
                f"Unknown platform {self.platform!r}.", remedy=f"Use one of {', '.join(PLATFORMS)}."
            )
        order = self.default_order
        if order is not None:
            object.__setattr__(self, "default_order", tuple(order))
            if len(set(order)) != len(order) or not all(0 <= i < len(self.gpus) for i in order):
                raise ImpossibleMachine(f"default_order {order} is not made of distinct positions in gpus.")
        for what, values in (
            ("PCI address", (g.pci_bus_id for g in self.gpus)),
            ("UUID", (g.uuid for g in self.gpus)),
            ("NVML index", (g.nvml_index for g in self.gpus)),
            ("MIG UUID", (m.uuid for g in self.gpus for m in g.mig_instances)),
        ):
            _refuse_repeats(what, values)

    def __hash__(self) -> int:
        return self.memo("hash", lambda: hash((self.gpus, self.driver_version, self.platform, self.default_order)))

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """Something derived from this machine, made once. Never part of the value; `dataclasses.replace` drops it."""
        try:
            return self._memo[key]  # type: ignore[no-any-return]
        except KeyError:
            if len(self._memo) >= _MEMO_LIMIT:
                self._memo.clear()
            return self._memo.setdefault(key, make())  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memo": {}}

    @property
    def driver_major(self) -> int | None:
        """The number before the first point of the driver version; None when unknown."""
        head = (self.driver_version or "").split(".")[0]
        return int(head) if head.isascii() and head.isdigit() else None

    @property
    def usable(self) -> tuple[int, ...]:
        """Positions of the GPUs that a process can open: those without a known problem."""
        return self.memo("usable", lambda: tuple(i for i, gpu in enumerate(self.gpus) if gpu.problem is None))

    @property
    def every(self) -> tuple[int, ...]:
        """Positions of all GPUs, those that cannot be used included."""
        return self.memo("every", lambda: tuple(range(len(self.gpus))))

    @classmethod
    def of(
        cls,
        *names: str,
        pci_bus_ids: Sequence[str | None] | None = None,
        driver_version: str | None = None,
        platform: Platform = "linux",
        source: str = "names",
    ) -> Topology:
        """A machine by the names of its GPUs in PCI order; none at all is a machine without GPUs.

        Capability, SM count and memory are looked up loosely in the catalogue; an unknown name is allowed and simply
        has none of them. ``pci_bus_ids`` in any spelling, one a name.
        Raises ImpossibleMachine when the lengths differ or an address is none or repeats.
        """
        if pci_bus_ids is not None and len(pci_bus_ids) != len(names):
            raise ImpossibleMachine(f"{len(names)} names, but {len(pci_bus_ids)} PCI addresses.")
        buses = pci_bus_ids or [None] * len(names)
        gpus = tuple(
            from_catalogue(Gpu(nvml_index=i, name=name, pci_bus_id=bus))
            for i, (name, bus) in enumerate(zip(names, buses, strict=True))
        )
        return cls(gpus, driver_version=driver_version, platform=platform, source=source)

    @classmethod
    def from_text(cls, text: str) -> Topology:
        """A machine from whatever a user can paste; see `gpumap_widgets.sources.pasted`.

        Raises UnreadableTopology, with the reason and what to paste instead.
        """
        from .sources.pasted import read_topology

        return read_topology(text)

    def __str__(self) -> str:
        from .views.text import topology_text

        return topology_text(self)

    def _repr_html_(self) -> str:
        from .views.html import topology_html

        return topology_html(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row a GPU."""
        from .views.frames import topology_frame

        return topology_frame(self)


def from_catalogue(gpu: Gpu) -> Gpu:
    """The same GPU with capability, SM count and memory filled from the catalogue where they were unknown."""
    model = look_up(gpu.name, gpu.memory_mib) if gpu.name else None
    if model is None:
        return gpu
    return replace(
        gpu,
        compute_capability=gpu.compute_capability or model.compute_capability,
        sm_count=gpu.sm_count if gpu.sm_count is not None else model.sm_count,
        memory_mib=gpu.memory_mib if gpu.memory_mib is not None else model.memory_mib,
    )


def _refuse_repeats(what: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value is not None and value in seen:
            raise ImpossibleMachine(
                f"The {what} {value} occurs twice: this is not one machine.",
                remedy="Describe one machine at a time.",
            )
        seen.add(value)
