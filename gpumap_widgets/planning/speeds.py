"""How fast GPUs are beside each other, from their specifications: as a range, since nobody knows what limits a step.

A step may be limited by any of the rows of `LIMITS`, or in parts by several. When a step does a share of its work at
each limit, its time on one GPU over its time on another lies between the smallest and the largest quotient of the
single limits (a mediant lies between its fractions). So the hull of the quotients holds whatever the mix is, as long as
both GPUs reach their quoted peaks alike. They need not: a card that is held below its boost clock by its power limit
is slower than any of this says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..catalog import Model, look_up
from ..frozen import FrozenDict
from ..topology import Gpu
from .ranges import UNKNOWN, Range, exactly, hull

DTYPES = ("float32", "float16", "bfloat16")
"""Types of which the table of models tells something."""
BOUNDS = ("compute", "memory")
_UNSURE = 1.25
"""Factor by which a figure that the table calls unsure may be off, either way. A choice: of the flagged figures with a
second source, most differ by 5 to 15 %."""
_POWER = 2.0
"""Factor by which a laptop's power limit may hold a GPU below its quoted speed. A choice, for limits of 35 to 150 W."""
_DOUBLE_RATE = frozenset({(5, 3), (6, 0), (6, 2), (7, 5)})
"""Capabilities that can do FP16 at twice the FP32 rate without tensor cores; on the others frameworks compute in FP32.
CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"."""


class Limit(NamedTuple):
    """One thing that may limit a step."""

    bound: str
    """``compute`` or ``memory``."""
    dtypes: tuple[str, ...]
    speed: Callable[[Model, tuple[int, int]], Range]
    """TFLOP/s, or GB/s of memory, of a model with a capability."""
    source: str


class Rates(NamedTuple):
    """How fast one GPU is at each limit. No limit at all: it is not known."""

    kind: str
    """Equal for GPUs of one model: whatever their true speed is, it is the same."""
    by_limit: Mapping[str, Range]

    @property
    def known(self) -> bool:
        """Whether every limit has two ends."""
        return bool(self.by_limit) and all(rate.known for rate in self.by_limit.values())

    @property
    def typical(self) -> float:
        """One number to order GPUs by: the geometric mean over the limits. NaN when not known."""
        if not self.known:
            return math.nan
        return math.exp(sum(math.log(rate.middle) for rate in self.by_limit.values()) / len(self.by_limit))


def _figure(model: Model, field: str) -> Range:
    """A figure of the table, wider where the table is not sure."""
    value = getattr(model, field)
    if value is None:
        return UNKNOWN
    if field not in model.unsure:
        return exactly(float(value))
    low = _POWER if any(word in model.name for word in ("Laptop", "Mobile", "Max-Q")) else _UNSURE
    return Range(value / low, value * _UNSURE)


def _fp32(model: Model, _: tuple[int, int]) -> Range:
    return _figure(model, "fp32_tflops")


def _tensor(model: Model, capability: tuple[int, int]) -> Range:
    if model.fp16_tensor_tflops == 0:
        fp32 = _fp32(model, capability)
        return Range(fp32.low, fp32.high * (2 if capability in _DOUBLE_RATE else 1))
    return _figure(model, "fp16_tensor_tflops")


def _tensor_fp32(model: Model, capability: tuple[int, int]) -> Range:
    """GeForce cards halve the rate when they accumulate in FP32. Of others, those whose figure is not sure may too."""
    full = _tensor(model, capability)
    if model.fp16_tensor_tflops == 0 or model.fp16_tensor_tflops is None:
        return full
    if "GeForce" in model.name:
        return full.times(0.5)
    return Range(full.low / 2, full.high) if "fp16_tensor_tflops" in model.unsure else full


def _bfloat16(model: Model, capability: tuple[int, int]) -> Range:
    """No native type before capability 8.0: how slow the detour is nobody tells, but it beats no FP32."""
    return _tensor_fp32(model, capability) if capability >= (8, 0) else Range(0.0, _fp32(model, capability).high)


def _tf32(model: Model, capability: tuple[int, int]) -> Range:
    """TF32 runs at half the FP16 rate, from capability 8.0 on; before, FP32 is what there is."""
    fp32 = _fp32(model, capability)
    if capability < (8, 0) or not model.fp16_tensor_tflops:
        return fp32
    tensor = _tensor_fp32(model, capability).times(0.5)
    return Range(max(tensor.low, fp32.low), max(tensor.high, fp32.high))


def _memory(model: Model, _: tuple[int, int]) -> Range:
    return _figure(model, "bandwidth_gbs")


_TABLE = "catalog.csv"
LIMITS: Mapping[str, Limit] = {
    "tensor-fp16": Limit("compute", ("float16",), _tensor, f"{_TABLE}: FP16 tensor peak, FP16 accumulation"),
    "tensor-fp32": Limit("compute", ("float16",), _tensor_fp32, f"{_TABLE}: FP16 tensor peak, FP32 accumulation"),
    "tensor-bf16": Limit("compute", ("bfloat16",), _bfloat16, f"{_TABLE}; native from compute capability 8.0 on"),
    "fp32": Limit("compute", ("float32",), _fp32, f"{_TABLE}: FP32 peak of the CUDA cores"),
    "tf32": Limit("compute", ("float32",), _tf32, f"{_TABLE}; TF32 at half the FP16 rate (NVIDIA A100 white paper)"),
    "memory": Limit("memory", DTYPES, _memory, f"{_TABLE}: memory bandwidth"),
}
"""What may limit a step. A row whose type is asked for counts; without a type, all but those of bfloat16."""


def limits(dtype: str | None, bound: str | None) -> tuple[str, ...]:
    """Keys of the rows that may limit a step in this type; ``bound`` narrows them to one kind."""
    wanted = (dtype,) if dtype else ("float32", "float16")
    return tuple(key for key, row in LIMITS.items() if set(wanted) & set(row.dtypes) and bound in (None, row.bound))


def rates_of(gpu: Gpu, dtype: str | None = None, bound: str | None = None) -> Rates:
    """The quoted speeds of a GPU. Without any when it is in no table, or is cut into MIG instances."""
    model = look_up(gpu.name, gpu.memory_mib) if gpu.name else None
    capability = gpu.compute_capability or (model.compute_capability if model else None)
    if model is None or capability is None or gpu.mig_mode:
        return Rates(f"unknown {gpu.uuid or gpu.pci_bus_id or gpu.nvml_index or id(gpu)}", FrozenDict())
    found = {key: LIMITS[key].speed(model, capability) for key in limits(dtype, bound)}
    return Rates(f"{model.name} {model.memory_gb}", FrozenDict(found))


def relative_times(rates: Sequence[Rates], reference: int) -> list[Range]:
    """Time of the same work on each GPU over that on one of them, the reference."""
    own = rates[reference]
    return [_relative(own, other) for other in rates]


def _relative(own: Rates, other: Rates) -> Range:
    if own.kind == other.kind:
        return exactly(1.0)
    shared = own.by_limit.keys() & other.by_limit.keys()
    return hull(own.by_limit[key].over(other.by_limit[key]) for key in shared)


def fastest(rates: Sequence[Rates]) -> int | None:
    """The GPU that is fastest by its typical speed, the first of equals; None when no speed is known."""
    known = [i for i, one in enumerate(rates) if one.known]
    return max(known, key=lambda i: (rates[i].typical, -i), default=None)
