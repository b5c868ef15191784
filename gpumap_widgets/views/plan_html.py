"""Plans as HTML. Everything that comes from outside is escaped; colours follow Jupyter's theme variables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..mapping import Message
from ..planning.data_parallel import DataParallelPlan
from ..planning.tasks import TaskPlan
from ..texts import say
from .html import Marked, marked_table, page, tag
from .plan_rows import TASK_COLUMNS, WAY_COLUMNS, WORKER_COLUMNS, task_row, way_rows, worker_rows
from .text import short_uuid


def plan_html(plan: DataParallelPlan) -> str:
    """A plan as a rich display."""
    return page(advice_html(plan) + tables_html(plan))


def tasks_page(plan: TaskPlan) -> str:
    """A plan of tasks as a rich display."""
    return page(tasks_html(plan))


def advice_html(plan: DataParallelPlan) -> str:
    """What it costs, and what to do: the first sentence strong."""
    first, *others = plan.advice
    said = tag("strong", escape(str(first))) + "".join(f" {escape(str(message))}" for message in others)
    return tag("div", said, "gpumap-sentence", role="status", aria_live="polite")


def tables_html(plan: DataParallelPlan) -> str:
    """Every way, every GPU, and what the figures rest on."""
    ways = [Marked(None, row, bool(row.note)) for row in way_rows(plan)]
    workers = [Marked(w.position, row) for w, row in zip(plan.workers, worker_rows(plan), strict=True)]
    return (
        marked_table(say("caption.ways"), WAY_COLUMNS, ways)
        + marked_table(say("caption.plan-gpus"), WORKER_COLUMNS, workers)
        + _notes(plan.notes)
    )


def tasks_html(plan: TaskPlan) -> str:
    """Every copy of a task, and what a reader should know."""
    rows = []
    for placed in plan.placed:
        name, where, uuid, *rest = task_row(placed)
        cells = (name, where, short_uuid(uuid or None), *rest)
        rows.append(Marked(placed.position, cells, placed.gpu is None))
    return marked_table(say("caption.tasks"), TASK_COLUMNS, rows) + _notes(plan.notes)


def _notes(notes: Sequence[Message]) -> str:
    return "".join(tag("p", escape(str(note)), "gpumap-note") for note in notes)
