"""The rows of every table of a plan: computed once, printed by all views."""

from __future__ import annotations

from typing import NamedTuple

from ..planning.data_parallel import DataParallelPlan
from ..planning.options import ALIKE, ALONE, Option, Part
from ..planning.ranges import Range
from ..planning.tasks import Placed
from ..planning.wording import amount, digits, share, times
from ..planning.workers import Worker
from ..texts import say
from .rows import memory_text
from .text import number

WAY_COLUMNS = ("way", "step", "throughput", "gain", "batches", "plan-note")
WORKER_COLUMNS = ("name", "step-alone", "source", "busy-equal", "idle-equal", "batch-speed", "busy-speed")
TASK_COLUMNS = ("task", "name", "uuid", "task-memory", "work", "latency", "why")


class WayRow(NamedTuple):
    """One way of spreading a step, in words."""

    way: str
    step: str
    throughput: str
    gain: str
    batches: str
    note: str


def way_name(plan: DataParallelPlan, option: Option) -> str:
    """A way in words: ``all 4, equal batches``; two GPUs of one model are told apart."""
    first = option.parts[0].worker
    if option.kind == ALONE and sum(worker.gpu.label == first.gpu.label for worker in plan.workers) > 1:
        return say("plan.way.alone-at", gpu=first.name, at=place(first))
    name = first.name if option.kind in (ALIKE, ALONE) else ""
    return say(f"plan.way.{option.kind}", **({"gpu": name} if name else {}), n=len(option.parts))


def place(worker: Worker) -> str:
    """Where a GPU is, as short as can be: its bus, its nvidia-smi number, or its place in the list."""
    if worker.gpu.pci:
        return worker.gpu.pci.short
    index = worker.gpu.nvml_index
    return say("plan.at-index", index=index) if index is not None else say("plan.at-place", place=worker.position)


def way_rows(plan: DataParallelPlan) -> list[WayRow]:
    """A row for every way; equal GPUs by themselves once."""
    rows, seen = [], set()
    for option in plan.options:
        first = option.parts[0].worker
        alike = (first.gpu.label, first.seconds, first.limit)
        if option.kind == ALONE and alike in seen:
            continue
        if option.kind == ALONE:
            seen.add(alike)
        rows.append(
            WayRow(
                way_name(plan, option),
                _seconds(plan, option.step),
                amount(option.throughput, say("plan.rate")) if not plan.relative else "",
                times(option.gain),
                " : ".join(digits(part.samples, 9) for part in option.parts),
                str(option.problem) if option.problem else "",
            )
        )
    return rows


def _seconds(plan: DataParallelPlan, value: Range) -> str:
    return amount(value, say("plan.unit-relative" if plan.relative else "plan.unit"))


def worker_rows(plan: DataParallelPlan) -> list[tuple[str, ...]]:
    """A row for every GPU: what it takes alone, and what it does with equal batches and with batches by speed."""
    split = plan.balanced
    rows: list[tuple[str, ...]] = []
    for i, (worker, part) in enumerate(zip(plan.workers, plan.equal.parts, strict=True)):
        other: Part | None = split.parts[i] if split is not None and split.problem is None else None
        rows.append(
            (
                worker.name,
                _seconds(plan, worker.seconds),
                say(f"plan.source.{worker.source}"),
                share(part.busy),
                share(part.idle),
                digits(other.samples, 9) if other else "",
                share(other.busy) if other else "",
            )
        )
    return rows


def task_row(placed: Placed) -> tuple[str, ...]:
    """A copy of a task, in words."""
    task, gpu = placed.copy.task, placed.gpu
    where = say("cell.none")
    if gpu is not None:
        where = gpu.short_name + (f" (nvidia-smi {number(gpu.nvml_index)})" if gpu.nvml_index is not None else "")
    return (
        placed.name,
        where,
        (gpu.uuid or "") if gpu else "",
        memory_text(task.memory_mib) if task.memory_mib else "",
        digits(task.work),
        task.latency,
        str(placed.reason),
    )
