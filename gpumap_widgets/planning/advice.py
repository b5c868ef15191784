"""What a plan comes to in words: what a step costs, what to do instead, and what the figures rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..mapping import Message, message
from ..texts import say
from .measured import Measurements
from .options import BALANCED, FASTEST, Option, Setting
from .ranges import Range
from .speeds import Rates, rates_of, relative_times
from .wording import amount, digits, more, percent, share, times
from .workers import GIVEN, MEASURED, SPECIFICATIONS, Worker

if TYPE_CHECKING:
    from .data_parallel import DataParallelPlan

_WORTH = 1.05
"""A gain below this factor is not worth a change: within what steps differ from one to the next. A choice."""
_ALIKE = 1.05
"""GPUs whose times differ by less than this factor count as equal. A choice."""


def seconds(plan: DataParallelPlan, value: Range) -> str:
    """A time in seconds, or as a multiple of the fastest GPU's step."""
    return say("plan.relative", amount=amount(value)) if plan.relative else amount(value, say("plan.unit"))


def advise(plan: DataParallelPlan) -> tuple[Message, ...]:
    """The cost of equal batches, then what to do; the first sentence that fits of each."""
    unknown = [worker for worker in plan.workers if not worker.seconds.known]
    if unknown:
        return tuple(_unknown(plan, unknown))
    if len(plan.workers) == 1:
        return (message("plan.one", gpu=plan.workers[0].name, seconds=seconds(plan, plan.workers[0].seconds)),)
    return (*_cost(plan), *_remedy(plan))


def _unknown(plan: DataParallelPlan, unknown: Sequence[Worker]) -> Iterator[Message]:
    names = Counter(worker.gpu.label for worker in unknown)
    yield message("plan.unknown", gpus=", ".join(f"{n} × {name}" if n > 1 else name for name, n in names.items()))
    if plan.equal.step.low > 0 and len(plan.workers) > 1:
        yield message("plan.unknown-least", seconds=seconds(plan, Range(plan.equal.step.low, float("inf"))))


def _cost(plan: DataParallelPlan) -> Iterator[Message]:
    """What a step with equal batches costs, and who waits."""
    equal, slowest = plan.equal, max(plan.workers, key=lambda worker: worker.typical)
    best = plan.best
    assert best is not None
    n = len(plan.workers)
    step = seconds(plan, equal.step)
    if slowest.typical < best.typical * _ALIKE:
        idlest = max(equal.parts, key=lambda part: part.idle.high)
        yield message("plan.cost-alike", step=step, idle=share(idlest.idle))
        return
    part = next(part for part in equal.parts if part.worker is best)
    yield message("plan.cost", step=step, slowest=slowest.name, n=n, best=best.name, busy=share(part.busy))


def _remedy(plan: DataParallelPlan) -> Iterator[Message]:
    """What to do: the quickest way that is worth it, with how sure that is."""
    best = plan.best
    assert best is not None
    ways = [one for one in plan.options if one.problem is None]
    alone = next((one for one in plan.alone if one.parts[0].worker is best), None)
    split = max((one for one in ways if one.kind in (BALANCED, FASTEST)), key=_speed, default=None)
    equal = plan.equal
    if equal.problem is not None:
        yield message("plan.equal-impossible", why=equal.problem)
    elif alone is not None and alone.problem is None and equal.gain.high < 1:
        yield message("plan.alone-beats", best=best.name, times=times(_inverse(equal.gain)), n=len(plan.workers))
    elif equal.gain.low < 1 < equal.gain.high:
        yield message("plan.alone-unclear", best=best.name, times=times(equal.gain), n=len(plan.workers))
    if split is None:
        problem = plan.balanced.problem if plan.balanced else None
        yield message("plan.no-split", why=problem) if problem else message("plan.nothing")
        return
    yield from _split(plan, split, best)


def _split(plan: DataParallelPlan, split: Option, best: Worker) -> Iterator[Message]:
    """What a split by speed wins, over equal batches and over the best GPU alone."""
    over_equal = (split.samples / split.typical) / (plan.equal.samples / plan.equal.typical)
    worth_equal = plan.equal.problem is not None or over_equal >= _WORTH
    if not worth_equal:
        wins = over_equal >= 1.005
        yield message("plan.keep-equal", gain=percent(over_equal - 1)) if wins else message("plan.keep")
        return
    if plan.ideal.high < _WORTH:
        yield message("plan.use-alone", best=best.name, gain=more(plan.ideal))
        return
    batches = " : ".join(str(part.samples) for part in split.parts)
    names = ", ".join(part.worker.name for part in split.parts)
    over = digits(over_equal, 2) if split.step.exact else say("amount.about", value=digits(over_equal, 2))
    key = "plan.split-few" if split.kind == FASTEST else "plan.split"
    yield message(key, batches=batches, gpus=names, step=seconds(plan, split.step), over=over)
    most = "plan.split-most" if plan.ideal.exact else "plan.split-range"
    yield message(most if plan.ideal.low >= _WORTH else "plan.split-unclear", best=best.name, gain=more(plan.ideal))
    if not plan.relative and plan.break_even.high > 0:
        yield message("plan.break-even", seconds=seconds(plan, plan.break_even), samples=plan.equal.samples)
    yield message("plan.weights")


def _speed(one: Option) -> float:
    return one.samples / one.typical


def _inverse(factor: Range) -> Range:
    return Range(1 / factor.high, 1 / factor.low if factor.low else float("inf"))


def doubts(
    setting: Setting, measured: Measurements | None, *, relative: bool, wished: bool, limited: bool
) -> Iterator[Message]:
    """What a reader should know about the figures. ``wished``: a bandwidth was given; ``limited``: memory counts."""
    workers, exchange = setting.workers, setting.exchange
    sources = {worker.source for worker in workers}
    if SPECIFICATIONS in sources:
        yield message("plan.note.specifications")
    if measured is not None and SPECIFICATIONS in sources:
        yield message("plan.note.not-measured")
    if measured is not None and measured.simulated and MEASURED in sources:
        yield message("plan.note.simulated")
    if relative:
        yield message("plan.note.relative")
    if exchange.gradient_bytes and not exchange.counted:
        yield message("plan.note.no-seconds" if relative and wished else "plan.note.no-bandwidth")
    nameless = [worker.gpu.label for worker in workers if worker.limit is None]
    if limited and nameless:
        yield message("plan.note.no-memory", gpus=", ".join(dict.fromkeys(nameless)))
    yield from _implausible(workers)


def _implausible(workers: Sequence[Worker]) -> Iterator[Message]:
    """The given times beside the specifications: a quotient outside of every quoted one is worth a look."""
    timed = [worker for worker in workers if worker.source == GIVEN and worker.seconds.known]
    best = min(timed, key=lambda worker: worker.typical, default=None)
    said: set[str] = set()
    for worker in timed:
        if best is None or worker.gpu.label in said:
            continue
        quoted = _quoted(best, worker)
        seen = worker.seconds.over(best.seconds)
        if quoted is not None and seen.low > quoted.high:
            said.add(worker.gpu.label)
            yield message(
                "plan.note.implausible", gpu=worker.name, best=best.name, seen=times(seen), quoted=times(quoted)
            )


def _quoted(best: Worker, worker: Worker) -> Range | None:
    rates: list[Rates] = [rates_of(best.gpu), rates_of(worker.gpu)]
    if rates[0].kind == rates[1].kind or not all(rate.known for rate in rates):
        return None
    return relative_times(rates, 0)[1]
