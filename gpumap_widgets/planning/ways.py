"""Which ways of spreading a step make sense on some GPUs, and the most that any of them could win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ..mapping import message
from .options import ALIKE, ALONE, BALANCED, EQUAL, FASTEST, Option, Setting, option, spread
from .ranges import UNKNOWN, Range, exactly
from .splitting import balanced, even_time
from .workers import Worker

_SAME = 1e-9


def best_alone(workers: Sequence[Worker]) -> Worker | None:
    """The GPU that is fastest by itself, the first of equals; None where no speed is known."""
    known = [worker for worker in workers if worker.seconds.known]
    return min(known, key=lambda worker: worker.typical, default=None)


def ways(setting: Setting) -> tuple[Option, ...]:
    """Every way that makes sense: all with equal batches, then the others."""
    workers = setting.workers
    found = [_even(EQUAL, workers, setting)]
    if len(workers) == 1:
        return tuple(found)
    if setting.known:
        everybody = _by_speed(BALANCED, workers, setting)
        found += [everybody, *_few(setting, everybody)]
    order = sorted(workers, key=lambda worker: (worker.gpu.label, worker.position))
    for _, same in groupby(order, key=lambda worker: worker.gpu.label):
        alike = tuple(same)
        if 1 < len(alike) < len(workers):
            found.append(_even(ALIKE, alike, setting))
    return (*found, *(_even(ALONE, (worker,), setting) for worker in workers))


def _even(kind: str, chosen: Sequence[Worker], setting: Setting) -> Option:
    batch = setting.batch
    made = option(kind, chosen, [batch] * len(chosen), setting)
    tight = [worker for worker in chosen if worker.limit is not None and worker.limit < batch]
    if not tight:
        return made
    least = min(tight, key=lambda worker: worker.limit or 0)
    return replace(made, problem=message("plan.problem.batch", batch=batch, gpu=least.name, limit=least.limit))


def _by_speed(kind: str, chosen: Sequence[Worker], setting: Setting) -> Option:
    limits = [worker.limit for worker in chosen]
    parts = balanced(setting.samples, [worker.typical / setting.batch for worker in chosen], limits)
    if parts is not None:
        return option(kind, chosen, parts, setting)
    fit = [limit or 0 for limit in limits]
    made = option(kind, chosen, fit, setting)
    return replace(made, problem=message("plan.problem.samples", samples=setting.samples, fit=sum(fit)))


def _few(setting: Setting, everybody: Option) -> list[Option]:
    """The fastest few, where leaving out the rest is quicker than having all: they have less to exchange."""
    order = sorted(setting.workers, key=lambda worker: worker.typical)
    few = [_by_speed(FASTEST, order[:n], setting) for n in range(2, len(order))]
    quickest = min((one for one in few if one.problem is None), key=lambda one: one.typical, default=None)
    if quickest is None:
        return []
    return [quickest] if everybody.problem or quickest.typical < everybody.typical * (1 - _SAME) else []


def ideal_split(setting: Setting) -> tuple[Range, Range]:
    """The most that a split can win over the best GPU alone, if samples could be cut, and the exchange that eats it up."""
    workers, batch, best = setting.workers, setting.batch, setting.best
    if best is None or not setting.known:
        return UNKNOWN, UNKNOWN
    limits = [worker.limit for worker in workers]

    def together(times: Sequence[float]) -> float:
        return even_time(setting.samples, [t / batch for t in times[:-1]], limits)

    def gain(times: Sequence[float], wait: float) -> float:
        return len(workers) * times[-1] / (together(times) + wait)

    def left(times: Sequence[float], _: float) -> float:
        return len(workers) * times[-1] - together(times)

    every, own = [*workers, best], frozenset({best.kind})
    even = spread(every, left, exactly(0.0), own)
    wins = spread(every, gain, setting.exchange.seconds(len(workers)), own)
    return wins, Range(max(0.0, even.low), max(0.0, even.high))
