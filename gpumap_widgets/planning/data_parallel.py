"""Data parallel on unequal GPUs: what a step costs, who waits, and what another split would win.

Model: every GPU computes the gradients of its samples, then all exchange them; a step is as long as its longest part
and the exchange. Time on a GPU grows with its samples. Input, start-up and everything that is not in a step are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import ImpossiblePlan
from ..mapping import Message
from ..texts import say
from .advice import advise, doubts
from .measured import Measurements
from .options import ALONE, BALANCED, Exchange, Option, Setting
from .ranges import Range, exactly
from .ways import best_alone, ideal_split, ways
from .workers import Devices, Seconds, Worker, all_rates, located, samples_that_fit, timings


@dataclass(frozen=True)
class DataParallelPlan:
    """What data parallel costs on these GPUs, beside every other way of using them."""

    setting: Setting
    options: tuple[Option, ...]
    """All with equal batches first, then all by speed, the fastest few, GPUs of one model, each alone."""
    relative: bool
    """Whether times are multiples of the step of the fastest GPU, because nothing tells a second."""
    ideal: Range
    """The most that any split can win over the best GPU alone, as a factor, if samples could be cut; unknown where a
    speed is."""
    break_even: Range
    """Seconds of exchange above which the best GPU alone beats every split of as many samples."""
    notes: tuple[Message, ...] = ()
    """What a reader should know about the figures."""

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The GPUs, with their step times."""
        return self.setting.workers

    @property
    def best(self) -> Worker | None:
        """The GPU that is fastest by itself; None where no speed is known."""
        return self.setting.best

    @property
    def equal(self) -> Option:
        """All GPUs with equal batches: what DistributedDataParallel does by itself."""
        return self.options[0]

    @property
    def balanced(self) -> Option | None:
        """All GPUs with batches by their speed; None where the speed of one is not known, or there is but one GPU."""
        return next((one for one in self.options if one.kind == BALANCED), None)

    @property
    def alone(self) -> tuple[Option, ...]:
        """Each GPU by itself."""
        return tuple(one for one in self.options if one.kind == ALONE)

    @cached_property
    def advice(self) -> tuple[Message, ...]:
        """What it costs and what to do, in a few sentences."""
        return advise(self)

    def __str__(self) -> str:
        from ..views.plan_text import plan_text

        return plan_text(self)

    def _repr_html_(self) -> str:
        from ..views.plan_html import plan_html

        return plan_html(self)

    def to_frame(self) -> Any:
        """pandas: a row for every way and GPU that takes part in it; figures as lowest and highest."""
        from ..views.frames import plan_frame

        return plan_frame(self)


def plan_data_parallel(
    devices: Devices,
    step_seconds: float | Sequence[Seconds] | None = None,
    *,
    batch: int = 32,
    gradient_bytes: float = 0.0,
    bandwidth: float | tuple[float, float] | None = None,
    overlap: float = 0.0,
    dtype: str | None = None,
    bound: str | None = None,
    model_bytes: float = 0.0,
    sample_bytes: float = 0.0,
    limits: Sequence[int | None] | None = None,
    measured: Measurements | None = None,
) -> DataParallelPlan:
    """What data parallel costs on these GPUs, and what would be better.

    ``devices``: a machine, a prediction (the GPUs that its processes use), GPUs, or names of models.
    ``step_seconds``: seconds of a step with ``batch`` samples on each GPU by itself, in the order of the devices, as a
    number, as (lowest, highest), or None for one that is not known; or one number, that of the fastest. What is missing
    is taken from ``measured``, then from the specifications, as a range.
    ``gradient_bytes``: what is exchanged a step, usually parameters × bytes of their type. ``bandwidth``: bytes a
    second and rank that the all-reduce reaches (NCCL's bus bandwidth). ``overlap``: share of the exchange that is
    hidden behind computing.
    ``dtype`` (float32, float16, bfloat16) and ``bound`` (compute, memory) narrow an estimate from specifications.
    ``model_bytes`` and ``sample_bytes`` limit the batch by the memory of each GPU; ``limits`` says how many samples fit
    instead, by device.

    Raises ImpossiblePlan for figures that cannot be.
    """
    sizes = {"gradient_bytes": gradient_bytes, "model_bytes": model_bytes, "sample_bytes": sample_bytes}
    _check(batch, overlap, bandwidth, **sizes)
    gpus = located(devices)
    bare = [gpu for _, gpu in gpus]
    fits = list(limits) if limits is not None else [samples_that_fit(gpu, model_bytes, sample_bytes) for gpu in bare]
    if len(fits) != len(gpus):
        raise ImpossiblePlan(say("plan.lengths", what="limits", n=len(fits), gpus=len(gpus)))
    rates, source = all_rates(bare, dtype, bound, measured)
    times, relative = timings(bare, step_seconds, rates, source, measured)
    workers = tuple(
        Worker(gpu, position, *timing, limit) for (position, gpu), timing, limit in zip(gpus, times, fits, strict=True)
    )
    width = None if bandwidth is None or relative else _pair(bandwidth)
    exchange = Exchange(float(gradient_bytes), width, float(overlap))
    setting = Setting(workers, batch, exchange, best_alone(workers))
    ideal, even = ideal_split(setting)
    facts = {"relative": relative, "wished": bandwidth is not None, "limited": sample_bytes > 0}
    notes = tuple(doubts(setting, measured, **facts))
    return DataParallelPlan(setting, ways(setting), relative, ideal, even, notes)


def _pair(value: float | tuple[float, float]) -> Range:
    return Range(*map(float, value)) if isinstance(value, tuple) else exactly(float(value))


def _check(batch: int, overlap: float, bandwidth: float | tuple[float, float] | None, **sizes: float) -> None:
    """Refuse figures that cannot be."""
    if not isinstance(batch, int) or not 1 <= batch <= 10**9:
        raise ImpossiblePlan(say("plan.odd-batch", value=batch))
    for name, value in sizes.items():
        if not 0 <= value < math.inf:
            raise ImpossiblePlan(say("plan.odd-bytes", what=name, value=value))
    if bandwidth is not None and not 0 < _pair(bandwidth).low <= _pair(bandwidth).high < math.inf:
        raise ImpossiblePlan(say("plan.odd-bandwidth", value=bandwidth))
    if not 0 <= overlap <= 1:
        raise ImpossiblePlan(say("plan.odd-overlap", value=overlap))
