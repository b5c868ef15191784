"""Plans as plain text: what `print` shows."""

from __future__ import annotations

from ..planning.data_parallel import DataParallelPlan
from ..planning.tasks import TaskPlan
from ..texts import say
from .plain import grid, printable
from .plan_rows import TASK_COLUMNS, WAY_COLUMNS, WORKER_COLUMNS, task_row, way_rows, worker_rows
from .text import short_uuid


def plan_text(plan: DataParallelPlan) -> str:
    """What it costs and what to do, every way, every GPU, and what the figures rest on."""
    lines = [*map(str, plan.advice)]
    lines += ["", grid(_heads(WAY_COLUMNS), way_rows(plan)), "", grid(_heads(WORKER_COLUMNS), worker_rows(plan))]
    lines += ["", *map(str, plan.notes)] if plan.notes else []
    return printable(lines)


def tasks_text(plan: TaskPlan) -> str:
    """The plan as a table, and what a reader should know."""
    rows = [task_row(placed) for placed in plan.placed]
    short = [(*row[:2], short_uuid(row[2] or None), *row[3:]) for row in rows]
    return printable([grid(_heads(TASK_COLUMNS), short), *map(str, plan.notes)])


def _heads(columns: tuple[str, ...]) -> list[str]:
    return [say(f"column.{name}") for name in columns]
