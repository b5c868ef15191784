"""A plan of data parallel as a drawing: time lines of a step, and every way as a bar."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..planning.advice import seconds
from ..planning.data_parallel import DataParallelPlan
from ..planning.options import ALONE, BALANCED, Option, Part
from ..planning.wording import amount, digits, share, times
from ..texts import say
from .drawing import short
from .plan_rows import place, way_name
from .plan_shapes import MOST_ROWS, Box, Canvas, Label, PlanDrawing, Rule

_LEFT, _FIRST, _SECOND = (0.0, 17.0), (18.0, 57.0), (61.0, 100.0)
"""Where names, and the time lines of the two splits, begin and end."""
_BAR = 0.62
"""Share of a time line's width that the longest step takes; the rest is for what stands behind the bars."""
_WAYS = (29.0, 90.0)


class _Axis(NamedTuple):
    """A time line: where it begins, how long a second is, and the longest time on it."""

    left: float
    scale: float
    longest: float

    def at(self, time: float) -> float:
        """Where a time stands."""
        return self.left + min(time, self.longest) * self.scale


def plan_drawing(plan: DataParallelPlan) -> PlanDrawing:
    """The time line of a step with equal batches beside one with batches by speed, then every way as a bar."""
    canvas = Canvas()
    shown = plan.workers[:MOST_ROWS]
    for i, worker in enumerate(shown):
        name, where = short(worker.name, 20), short(place(worker), 20)
        canvas.labels.append(Label(_LEFT[0], i + 2, f"{name}\n{where}", small=False))
        canvas.boxes.append(Box(_LEFT[1] - 0.5, _LEFT[1], i + 2, worker.position, "busy"))
    longest = max((x for x in (plan.equal.typical, *_typical(plan)) if math.isfinite(x)), default=0.0)
    split = plan.balanced
    _time_line(canvas, plan, plan.equal, _axis(_FIRST, longest))
    if split is not None and split.problem is None:
        _time_line(canvas, plan, split, _axis(_SECOND, longest))
    elif len(plan.workers) > 1:
        why = str(split.problem) if split is not None else say("plan.draw.unknown")
        canvas.labels.append(Label(_SECOND[0], 0, say("plan.draw.balanced"), strong=True))
        canvas.labels.append(Label(_SECOND[0], 1, short(why, 60), small=True))
    row = len(shown) + 2.0
    if len(plan.workers) > len(shown):
        canvas.labels.append(Label(_LEFT[0], row, say("graph.more", n=len(plan.workers) - len(shown)), small=True))
        row += 1
    row = _ways(canvas, plan, row + 1.2) if plan.best is not None and len(plan.workers) > 1 else row
    return canvas.drawing(row, " ".join(map(str, plan.advice)))


def _typical(plan: DataParallelPlan) -> Iterator[float]:
    yield from (option.typical for option in plan.options if option.kind != ALONE and option.problem is None)
    yield from (worker.typical for worker in plan.workers)


def _axis(span: tuple[float, float], longest: float) -> _Axis:
    return _Axis(span[0], (span[1] - span[0]) * _BAR / longest if longest else 0.0, longest)


def _time_line(canvas: Canvas, plan: DataParallelPlan, option: Option, axis: _Axis) -> None:
    """One step of all GPUs: what each computes, how long it waits, the exchange."""
    title = say("plan.draw.balanced" if option.kind == BALANCED else "plan.draw.equal")
    canvas.labels.append(Label(axis.left, 0, title, strong=True))
    rate = "" if plan.relative else " · " + amount(option.throughput, say("plan.draw.rate"))
    canvas.labels.append(Label(axis.left, 1, say("plan.draw.step", step=seconds(plan, option.step)) + rate, small=True))
    for i, part in enumerate(option.parts[:MOST_ROWS]):
        row, hover, position = i + 2, _hover(plan, part), part.worker.position
        end = axis.left + 8
        for start, stop, style in _phases(plan, option, part):
            end = axis.at(stop)
            if end - axis.at(start) > 1e-3:
                canvas.boxes.append(Box(axis.at(start), end, row, position, style, hover))
        if not part.worker.seconds.known:
            canvas.boxes.append(Box(axis.left, end, row, position, "missing", hover))
        elif not part.compute.exact:
            canvas.rules.append(Rule(axis.at(part.compute.low), axis.at(part.compute.high), row, row, "range"))
        canvas.labels.append(Label(end + 1, row, _said(option, part), small=True))
    _ticks(canvas, plan, axis, len(option.parts[:MOST_ROWS]) + 2)


def _said(option: Option, part: Part) -> str:
    if not part.worker.seconds.known:
        return say("amount.unknown")
    busy = share(part.busy)
    n = digits(part.samples, 9)
    return say("plan.draw.counted", n=n, share=busy) if option.kind == BALANCED else say("plan.draw.busy", share=busy)


def _phases(plan: DataParallelPlan, option: Option, part: Part) -> list[tuple[float, float, str]]:
    """What a GPU does from when to when: computes, waits for the last, exchanges."""
    if not part.worker.seconds.known:
        return []
    compute = part.worker.typical * part.samples / plan.setting.batch
    step = option.typical if math.isfinite(option.typical) else compute
    last = max(compute, step - option.exchange.middle)
    return [(0.0, compute, "busy"), (compute, last, "wait"), (last, step, "exchange")]


def _hover(plan: DataParallelPlan, part: Part) -> str:
    worker = part.worker
    lines = [f"{worker.gpu.label} · {place(worker)}", say("plan.draw.samples", n=digits(part.samples, 9))]
    lines.append(say("plan.draw.computes", seconds=seconds(plan, part.compute), share=share(part.busy)))
    lines.append(say("plan.draw.source", source=say(f"plan.source.{worker.source}")))
    return "\n".join(lines)


def _ticks(canvas: Canvas, plan: DataParallelPlan, axis: _Axis, row: int) -> None:
    unit = say("plan.unit-relative" if plan.relative else "plan.unit")
    for tick in ticks(axis.longest) if axis.longest else ():
        x = axis.at(tick)
        canvas.rules.append(Rule(x, x, 1.55, row - 0.45, "grid"))
        canvas.labels.append(Label(x, row - 0.15, f"{digits(tick)} {unit}" if tick else "0", "middle", small=True))


def ticks(longest: float) -> Sequence[float]:
    """Round numbers from 0 on, three to five of them, none above the longest."""
    step = 10.0 ** math.floor(math.log10(longest))
    step = next(step * k for k in (0.2, 0.25, 0.5, 1, 2, 5) if longest / (step * k) < 4.5)
    return [i * step for i in range(int(longest / step * (1 + 1e-9)) + 1)]


def _ways(canvas: Canvas, plan: DataParallelPlan, row: float) -> float:
    """Every way as a bar over the best GPU alone; the row behind the last."""
    best = plan.best
    assert best is not None
    canvas.labels.append(Label(0, row, say("plan.draw.ways", best=best.name), strong=True))
    rows: list[Option] = []
    seen: set[object] = set()
    for option in plan.options:
        first = option.parts[0].worker
        key = (first.gpu.label, first.typical, first.limit) if option.kind == ALONE else option.kind + str(len(rows))
        if key not in seen:
            rows.append(option)
            seen.add(key)
    rows = rows[:MOST_ROWS]
    typical = [_factor(plan, option) for option in rows]
    top = max([1.0, *(x for x in typical if math.isfinite(x)), *(o.gain.high for o in rows if o.gain.known)])
    left, right = _WAYS
    scale = (right - left) / top
    for i, (option, factor) in enumerate(zip(rows, typical, strict=True)):
        at = row + 1 + i
        name = way_name(plan, option)
        canvas.labels.append(Label(0, at, short(name, 34)))
        end = left
        style = "missing" if option.problem else "bar"
        own = option.parts[0].worker.position if option.kind == ALONE else None
        hover = "\n".join([name, say("plan.draw.gain", gain=times(option.gain)), str(option.problem or "")]).strip()
        if math.isfinite(factor):
            end = left + factor * scale
            canvas.boxes.append(Box(left, end, at, own, style, hover))
        if option.gain.known and not option.gain.exact:
            canvas.rules.append(Rule(left + option.gain.low * scale, left + option.gain.high * scale, at, at, "range"))
            end = max(end, left + option.gain.high * scale)
        said = say("plan.draw.impossible") if option.problem else times(option.gain)
        canvas.labels.append(Label(end + 0.8, at, said, small=True))
    canvas.rules.append(Rule(left + scale, left + scale, row + 0.55, row + len(rows) + 0.45, "grid"))
    return row + len(rows) + 1


def _factor(plan: DataParallelPlan, option: Option) -> float:
    best = plan.best
    assert best is not None
    return option.samples / option.typical / (plan.setting.batch / best.typical)
