"""Plans as HTML. Everything that comes from outside is escaped; colours follow Jupyter's theme variables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..mapping import Message
from ..planning.data_parallel import DataParallelPlan
from ..planning.tasks import TaskPlan
from ..texts import say
from .html import cell, page, swatch, table, tag
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
    ways = []
    for row in way_rows(plan):
        cells = [tag("th", escape(row.way), scope="row"), *(cell(text) for text in row[1:-1])]
        ways.append(tag("tr", "".join([*cells, cell(row.note, "gpumap-wrap")]), "gpumap-faded" if row.note else ""))
    workers = []
    for worker, (name, *rest) in zip(plan.workers, worker_rows(plan), strict=True):
        first = tag("th", swatch(worker.position) + escape(name), scope="row")
        workers.append(tag("tr", first + "".join(cell(text) for text in rest)))
    return (
        table(say("caption.ways"), WAY_COLUMNS, ways)
        + table(say("caption.plan-gpus"), WORKER_COLUMNS, workers)
        + _notes(plan.notes)
    )


def tasks_html(plan: TaskPlan) -> str:
    """Every copy of a task, and what a reader should know."""
    rows = []
    for placed in plan.placed:
        name, where, uuid, *rest = task_row(placed)
        mark = swatch(placed.position) if placed.position is not None else ""
        cells = [tag("th", escape(name), scope="row"), tag("td", mark + escape(where))]
        cells += [cell(short_uuid(uuid), "gpumap-code", uuid), *(cell(text) for text in rest[:-1])]
        cells.append(cell(rest[-1], "gpumap-wrap"))
        rows.append(tag("tr", "".join(cells), "" if placed.gpu else "gpumap-faded"))
    return table(say("caption.tasks"), TASK_COLUMNS, rows) + _notes(plan.notes)


def _notes(notes: Sequence[Message]) -> str:
    return "".join(tag("p", escape(str(note)), "gpumap-note") for note in notes)
