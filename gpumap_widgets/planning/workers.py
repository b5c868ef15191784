"""The GPUs of a plan, each with the time that a step takes on it, and where that time comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import ImpossiblePlan
from ..mapping import Prediction
from ..texts import say
from ..topology import Gpu, Topology, from_catalogue
from .measured import Measurements, measured_rates
from .ranges import UNKNOWN, Range, exactly
from .speeds import BOUNDS, DTYPES, Rates, fastest, rates_of, relative_times

Devices = Topology | Prediction | Sequence[Gpu | str]
Seconds = float | tuple[float, float] | None
"""A step time in seconds, its lowest and highest value, or None where it is not known."""
GIVEN, MEASURED, SPECIFICATIONS, NOTHING = "given", "measured", "specifications", "unknown"
CONTEXT_MIB = 512
"""What the CUDA context of a process takes of a GPU. A choice: 300 to 600 MiB are usual."""
FRAGMENTS_MIB = 512
"""What nobody can use of a GPU, as an allocator leaves it in pieces. A choice."""


class Worker(NamedTuple):
    """One GPU of a plan."""

    gpu: Gpu
    position: int
    """Its place in the machine, or in the list that was given; its colour."""
    seconds: Range
    """Of one step with the batch of the plan on this GPU alone."""
    typical: float
    """One number in that range to plan with; NaN where the speed is not known."""
    source: str
    """``given``, ``measured``, ``specifications`` or ``unknown``."""
    kind: str
    """Equal for GPUs whose true speed, whatever it is, is the same."""
    limit: int | None
    """Samples that fit into its memory; None where no limit is known."""

    @property
    def name(self) -> str:
        """The model, without the vendor."""
        return self.gpu.short_name


class Timing(NamedTuple):
    """The step time of one GPU."""

    seconds: Range
    typical: float
    source: str
    kind: str


def located(devices: Devices) -> list[tuple[int, Gpu]]:
    """The GPUs that are meant, each with its position.

    Of a machine all that can be used; of a prediction those that its processes use, in their order; names are looked
    up in the catalogue. Raises ImpossiblePlan when there is none.
    """
    if isinstance(devices, Topology):
        found = [(i, devices.gpus[i]) for i in devices.usable]
    elif isinstance(devices, Prediction):
        gpus = devices.scenario.topology.gpus
        used = [p.devices[o].position for p in devices.processes for o in p.uses if o < len(p.devices)]
        found = [(i, gpus[i]) for i in dict.fromkeys(used)]
    else:
        found = list(enumerate(from_catalogue(Gpu(name=d)) if isinstance(d, str) else d for d in devices))
    if not found:
        raise ImpossiblePlan(say("plan.no-gpu"), remedy=say("plan.no-gpu-remedy"))
    return found


def all_rates(
    gpus: Sequence[Gpu], dtype: str | None, bound: str | None, measured: Measurements | None
) -> tuple[list[Rates], str]:
    """The speeds of all GPUs, and their source: measured where all were, since a peak cannot stand beside a measurement.

    Raises ImpossiblePlan for a type or a bound that is none.
    """
    if dtype not in (None, *DTYPES) or bound not in (None, *BOUNDS):
        said = say("plan.odd-choice", dtypes=", ".join(DTYPES), bounds=", ".join(BOUNDS))
        raise ImpossiblePlan(said)
    if measured is not None:
        found = [measured_rates(measured, gpu, dtype, bound) for gpu in gpus]
        if None not in found:
            return [rates for rates in found if rates is not None], MEASURED
    return [rates_of(gpu, dtype, bound) for gpu in gpus], SPECIFICATIONS


def timings(
    gpus: Sequence[Gpu],
    step_seconds: Seconds | Sequence[Seconds],
    rates: Sequence[Rates],
    source: str,
    measured: Measurements | None,
) -> tuple[list[Timing], bool]:
    """The step time of every GPU, and whether times are only multiples of the fastest GPU's, as nothing tells a second.

    As given; else measured with the user's own function; else by ``rates`` beside a GPU whose time is known.
    """
    given = _given(step_seconds, len(gpus), fastest(rates))
    found: list[Timing | None] = [Timing(t, t.middle, GIVEN, f"own {i}") if t else None for i, t in enumerate(given)]
    for i, gpu in enumerate(gpus):
        row = measured.of(gpu) if measured is not None else None
        if found[i] is None and row is not None and row.step_seconds is not None:
            found[i] = Timing(row.step_seconds, row.step_seconds.middle, MEASURED, f"own {i}")
    timed = [i for i, timing in enumerate(found) if timing is not None and rates[i].known]
    relative = all(timing is None for timing in found)
    anchor = fastest(rates) if relative else max(timed, key=lambda i: (rates[i].typical, -i), default=None)
    unit = (found[anchor] if anchor is not None else None) or Timing(exactly(1.0), 1.0, source, "unit")
    shares = relative_times(rates, anchor) if anchor is not None else [UNKNOWN] * len(gpus)
    own = rates[anchor].typical if anchor is not None else math.nan
    return [
        timing or _derived(unit, share, own, rate, source)
        for timing, share, rate in zip(found, shares, rates, strict=True)
    ], relative


def _derived(unit: Timing, share: Range, own: float, rates: Rates, source: str) -> Timing:
    """The time of a GPU from that of the unit, which is ``own`` fast."""
    seconds = Range(unit.seconds.low * share.low, unit.seconds.high * share.high)
    typical = unit.typical * own / rates.typical if seconds.known else math.nan
    return Timing(seconds, typical, source if rates.by_limit else NOTHING, rates.kind)


def _given(step_seconds: Seconds | Sequence[Seconds], count: int, first: int | None) -> list[Range | None]:
    """What was given, by GPU; one number is the time of the fastest."""
    if step_seconds is None:
        return [None] * count
    if isinstance(step_seconds, int | float):
        if first is None:
            raise ImpossiblePlan(say("plan.no-fastest"), remedy=say("plan.no-fastest-remedy"))
        return [_time(step_seconds) if i == first else None for i in range(count)]
    if len(step_seconds) != count:
        raise ImpossiblePlan(say("plan.lengths", what="step_seconds", n=len(step_seconds), gpus=count))
    return [None if one is None else _time(one) for one in step_seconds]


def _time(value: float | tuple[float, float]) -> Range:
    low, high = value if isinstance(value, tuple) else (value, value)
    if not (isinstance(low, int | float) and isinstance(high, int | float) and 0 < low <= high < math.inf):
        raise ImpossiblePlan(say("plan.odd-time", value=value))
    return Range(float(low), float(high))


def samples_that_fit(gpu: Gpu, model_bytes: float, sample_bytes: float) -> int | None:
    """How many samples fit beside the model in a GPU's memory; None where its memory is not known."""
    if gpu.memory_mib is None or sample_bytes <= 0:
        return None
    room = (gpu.memory_mib - CONTEXT_MIB - FRAGMENTS_MIB) * 2**20 - model_bytes
    return max(0, int(room // sample_bytes))
