"""A plan of tasks as a drawing: the memory of every GPU, and who takes it."""

from __future__ import annotations

from ..planning.tasks import Placed, TaskPlan
from ..planning.wording import digits
from ..texts import say
from .drawing import short
from .plan_shapes import MOST_ROWS, Box, Canvas, Label, PlanDrawing
from .rows import memory_text

_MAP = (26.0, 100.0)


def tasks_drawing(plan: TaskPlan) -> PlanDrawing:
    """Every GPU as a frame as long as its memory, the tasks in it; what has no GPU below."""
    canvas = Canvas()
    gpus = plan.topology.gpus
    left, right = _MAP
    room = max((gpu.memory_mib or 0 for gpu in gpus), default=0) or 1
    scale = (right - left) / room
    canvas.labels.append(Label(0, 0, say("plan.draw.gpus"), strong=True))
    canvas.labels.append(Label(left, 0, say("plan.draw.map"), strong=True))
    for i, gpu in enumerate(gpus[:MOST_ROWS]):
        row, held = i + 1, plan.on(i)
        where = gpu.pci.short if gpu.pci else ""
        sub = " · ".join(part for part in (where, memory_text(gpu.memory_mib)) if part)
        lead = "" if gpu.nvml_index is None else f"{gpu.nvml_index}  "
        canvas.labels.append(Label(0, row, f"{lead}{short(gpu.short_name, 24)}\n{sub}"))
        end = left + (gpu.memory_mib or room * 0.15) * scale
        canvas.boxes.append(Box(left, end, row, i, "frame" if gpu.memory_mib else "missing", gpu.label))
        start = left
        for placed in held:
            stop = min(end, start + max(placed.copy.task.memory_mib * scale, 1.2))
            canvas.boxes.append(Box(start, stop, row, i, "task", _task_hover(placed)))
            start = stop
        text = " · ".join(_task_label(placed) for placed in held) or say("plan.draw.free")
        canvas.labels.append(Label(left + 1, row, short(text, 110), strong=bool(held), small=not held))
    row = min(len(gpus), MOST_ROWS) + 1
    if plan.unplaced:
        canvas.labels.append(Label(0, row, say("plan.draw.nowhere")))
        canvas.boxes.append(Box(left, right, row, None, "missing", "\n".join(map(_task_hover, plan.unplaced))))
        canvas.labels.append(Label(left + 1, row, short(" · ".join(map(_task_label, plan.unplaced)), 110), strong=True))
        row += 1
    said = "; ".join(
        f"{placed.name}: {placed.gpu.label if placed.gpu else '-'} ({placed.reason})" for placed in plan.placed
    )
    return canvas.drawing(row, said)


def _task_label(placed: Placed) -> str:
    memory = placed.copy.task.memory_mib
    return f"{placed.name} ({memory_text(memory)})" if memory else placed.name


def _task_hover(placed: Placed) -> str:
    task = placed.copy.task
    return f"{_task_label(placed)} · {say('plan.draw.work', work=digits(task.work), latency=task.latency)}\n{placed.reason}"
