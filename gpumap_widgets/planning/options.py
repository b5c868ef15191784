"""Ways of spreading a training step over GPUs, and what each of them costs. Facts and formulas: see `step_time`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ..mapping import Message
from .ranges import UNKNOWN, Range, exactly
from .workers import Worker

EQUAL, BALANCED, FASTEST, ALIKE, ALONE = "equal", "balanced", "fastest", "alike", "alone"
"""Kinds of ways: all with equal batches; all with batches by speed; only the fastest few, by speed; GPUs of one model
with equal batches; one GPU by itself."""


@dataclass(frozen=True)
class Exchange:
    """The all-reduce of the gradients."""

    gradient_bytes: float = 0.0
    bandwidth: Range | None = None
    """Bytes a second and rank; None when it is not known."""
    overlap: float = 0.0
    """Share of it that is hidden behind computing, 0 to 1."""

    @property
    def counted(self) -> bool:
        """Whether it takes part in the times of a plan."""
        return self.bandwidth is not None or self.gradient_bytes == 0

    def seconds(self, gpus: int) -> Range:
        """How long so many GPUs wait for it: 2 (n - 1) / n × bytes / bandwidth, less what is hidden.

        At best: nccl-tests, PERFORMANCE.md, for a ring or a tree without latency.
        """
        if self.bandwidth is None or gpus < 2 or self.gradient_bytes == 0:
            return exactly(0.0)
        volume = 2 * (gpus - 1) / gpus * self.gradient_bytes * (1 - self.overlap)
        return Range(volume / self.bandwidth.high, volume / self.bandwidth.low)


class Setting(NamedTuple):
    """What all ways of spreading a step are judged by."""

    workers: tuple[Worker, ...]
    batch: int
    """Samples a GPU and step with equal batches."""
    exchange: Exchange
    best: Worker | None
    """The GPU that is fastest by itself; None where no speed is known."""

    @property
    def samples(self) -> int:
        """Samples a step of all."""
        return self.batch * len(self.workers)

    @property
    def known(self) -> bool:
        """Whether the speed of every GPU is."""
        return all(worker.seconds.known for worker in self.workers)


_NEXT_TO_NOTHING, _AS_GOOD_AS = 1e-250, 1e-200
"""Stands for a time of which no lower end is known, and what counts as nothing among figures made of it."""


class Part(NamedTuple):
    """What one GPU does in a step."""

    worker: Worker
    samples: int
    compute: Range
    """Seconds for its samples."""
    busy: Range
    """Share of the step in which it computes."""

    @property
    def idle(self) -> Range:
        """Share of the step in which it waits, for the others or for the exchange."""
        return Range(1 - self.busy.high, 1 - self.busy.low)


@dataclass(frozen=True)
class Option:
    """One way of spreading the work."""

    kind: str
    """``equal``, ``balanced``, ``fastest``, ``alike`` or ``alone``."""
    parts: tuple[Part, ...]
    """The GPUs that take part; one with no samples waits and exchanges."""
    step: Range
    """Seconds of a step: the longest part and the exchange."""
    exchange: Range
    """Seconds of it that are exchange."""
    throughput: Range
    """Samples a second."""
    gain: Range
    """Throughput over that of the best GPU alone."""
    typical: float
    """Seconds of a step with the one number that each GPU is planned with; NaN where a speed is not known."""
    problem: Message | None = None
    """Why it cannot be done as asked; None when it can."""

    @property
    def samples(self) -> int:
        """Samples a step."""
        return sum(part.samples for part in self.parts)

    @property
    def batches(self) -> tuple[int, ...]:
        """Samples a step, by GPU."""
        return tuple(part.samples for part in self.parts)


def step_time(times: Sequence[float], parts: Sequence[int], batch: int, exchange: float) -> float:
    """Seconds of a step: the GPU that is last, then the exchange.

    A GPU that takes t for a batch of b takes t × k / b for k samples: time grows with samples alone, which holds while
    every part fills its GPU.
    """
    return max(t * k / batch for t, k in zip(times, parts, strict=True)) + exchange


Figure = Callable[[Sequence[float], float], float]
"""A figure of a plan, from the step times of all its GPUs and the seconds of an exchange."""


def spread(workers: Sequence[Worker], figure: Figure, exchange: Range, up: frozenset[str] | None = None) -> Range:
    """The range of a figure that is monotone in every time and in the exchange.

    It grows with the times of the kinds in ``up`` and falls with all others and with the exchange; ``up`` None: it
    grows with all of them. So its ends are taken at two corners, and GPUs of one kind move together.
    """

    def at(*, top: bool) -> float:
        rising = [up is None or worker.kind in up for worker in workers]
        ends = [w.seconds.high if rise is top else w.seconds.low for w, rise in zip(workers, rising, strict=True)]
        times = [max(end, _NEXT_TO_NOTHING) for end in ends]
        return figure(times, exchange.high if (up is None) is top else exchange.low)

    low, high = at(top=False), at(top=True)
    return Range(0.0 if math.isnan(low) or low < _AS_GOOD_AS else low, _open(high))


def _open(high: float) -> float:
    return math.inf if math.isnan(high) or high > 1 / _AS_GOOD_AS else high


def option(kind: str, chosen: Sequence[Worker], samples: Sequence[int], setting: Setting) -> Option:
    """The figures of one way: these GPUs, each with so many samples."""
    batch, total = setting.batch, sum(samples)
    waits = setting.exchange.seconds(len(chosen))

    def step(times: Sequence[float], wait: float) -> float:
        return max(step_time(times, samples, batch, wait), _NEXT_TO_NOTHING)

    def busy(times: Sequence[float], wait: float, i: int = 0) -> float:
        return times[i] * samples[i] / batch / step(times, wait)

    def gain(times: Sequence[float], wait: float) -> float:
        return (total / step(times[:-1], wait)) / (batch / times[-1])

    length = spread(chosen, step, waits)
    parts = []
    for i, (worker, count) in enumerate(zip(chosen, samples, strict=True)):
        own = frozenset({worker.kind})
        share = spread(chosen, partial(busy, i=i), waits, own) if count else exactly(0.0)
        compute = worker.seconds.times(count / batch) if count else exactly(0.0)
        parts.append(Part(worker, count, compute, Range(share.low, min(1.0, share.high))))
    best = setting.best
    wins = spread([*chosen, best], gain, waits, frozenset({best.kind})) if best is not None else UNKNOWN
    typical = step([worker.typical for worker in chosen], waits.middle)
    return Option(kind, tuple(parts), length, waits, exactly(float(total)).over(length), wins, typical)
