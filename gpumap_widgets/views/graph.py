"""The map as a drawing: columns of chips and the lines between them, as plain data. No plotly here."""

from __future__ import annotations

from ..certainty import Certainty
from ..mapping import Comparison, Prediction, Process
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..texts import say
from ..topology import Topology
from .chips import SUB, make_chips, row_of
from .drawing import MOST_ROWS, Columns, Expected, GraphSpec, Line, Stub, columns, short
from .rows import sentence

__all__ = ["GraphSpec", "graph"]


def graph(
    prediction: Prediction,
    comparison: Comparison | None = None,
    worker: int = 0,
    expected: Prediction | None = None,
) -> GraphSpec:
    """The drawing of one process of a prediction; with a comparison, what torch said beside its numbers.

    ``expected``: what a popular belief would give, drawn faintly where it differs.
    """
    topology = prediction.scenario.topology
    alt = say("graph.alt", sentence=sentence(prediction))
    if not prediction.processes:
        return GraphSpec((), (), (), (), 1, alt)
    worker = min(worker, len(prediction.processes) - 1)
    process = prediction.processes[worker]
    at = columns(prediction, process)
    boxes = make_chips(prediction, process, comparison, at)
    lines, stubs = _lines(topology, process, at)
    lines += _rank_lines(prediction, process, at)
    rows = max((chip.row + 1 for chip in boxes), default=1)
    thought = _expected(prediction, expected, worker, at) if expected is not None else ()
    return GraphSpec(_heads(prediction, process, at), boxes, tuple(lines), tuple(stubs), rows, alt, at, tuple(thought))


def _heads(prediction: Prediction, process: Process, at: Columns) -> tuple[tuple[str, str], ...]:
    topology = prediction.scenario.topology
    value = process.env.get(CUDA_DEVICE_ORDER)
    numbered = all(gpu.nvml_index is not None for gpu in topology.gpus)
    listed = process.reading.value
    shown = say("graph.list-unset") if listed is None else listed or say("graph.list-empty")
    n = len(process.devices)
    boxed = ((say("graph.container"), say("graph.container-sub", n=len(process.accessible))),)
    ranked = ((say("graph.ranks"), say("graph.ranks-sub", n=len(prediction.processes))),)
    return (
        (say("graph.smi"), say("graph.smi-sub" if numbered else "graph.smi-sub-text")),
        *(boxed if at.container is not None else ()),
        (say("graph.order"), say("graph.order-sub-unset") if value is None else short(value, SUB)),
        (say("graph.list"), short(shown, SUB)),
        (process.label or say("graph.process"), f"{n} device{'' if n == 1 else 's'}"),
        *(ranked if at.ranks is not None else ()),
    )


def _rank_lines(prediction: Prediction, process: Process, at: Columns) -> list[Line]:
    """From the numbers of this process to the workers that have the same ones."""
    if at.ranks is None:
        return []
    lines = []
    for row, one in enumerate(prediction.processes[:MOST_ROWS]):
        if one is not process and (
            one.devices != process.devices or one.env.get(CUDA_VISIBLE_DEVICES) != process.env.get(CUDA_VISIBLE_DEVICES)
        ):
            continue
        for device in (one.devices[i] for i in one.uses):
            if row_of(device) < MOST_ROWS:
                certain = device.certainty is Certainty.CERTAIN
                lines.append(Line(device.position, at.process, row_of(device), row, certain, faded=False))
    return lines


def _expected(prediction: Prediction, expected: Prediction, worker: int, at: Columns) -> list[Expected]:
    """Where a belief leads elsewhere: to the workers where there are some, else to the numbers."""
    if at.ranks is not None:
        pairs = zip(prediction.processes[:MOST_ROWS], expected.processes, strict=False)
        found = [(_first(now), _first(then), row) for row, (now, then) in enumerate(pairs)]
        thought = [(then, row) for now, then, row in found if then is not None and now != then]
        return [Expected(position, position, at.ranks, row) for position, row in thought if position < MOST_ROWS]
    process = prediction.processes[worker]
    if worker >= len(expected.processes):
        return []
    both = zip(process.devices, expected.processes[worker].devices, strict=False)
    return [
        Expected(then.position, then.position, at.process, row_of(now))
        for now, then in both
        if then.position != now.position and max(then.position, row_of(now)) < MOST_ROWS
    ]


def _first(process: Process) -> int | None:
    """The GPU that a process uses first."""
    return process.devices[process.uses[0]].position if process.uses else None


def _lines(topology: Topology, process: Process, at: Columns) -> tuple[list[Line], list[Stub]]:
    used = {device.position: device for device in process.devices}
    lines, stubs = [], []
    inside = {position: row for row, position in enumerate(sorted(process.accessible)[:MOST_ROWS])}
    if at.container is not None:
        for position, row in inside.items():
            if position < MOST_ROWS:
                lines.append(Line(position, at.smi, position, row, certain=True, faded=position not in used))
    for place, (position, sure) in enumerate(zip(process.order.places, process.order.certainties, strict=True)):
        if max(place, position) >= MOST_ROWS or (at.container is not None and position not in inside):
            continue
        device = used.get(position)
        start, row = (at.smi, position) if at.container is None else (at.container, inside[position])
        lines.append(Line(position, start, row, place, sure is Certainty.CERTAIN, device is None))
        if device is None:
            stubs.append(Stub(position, at.order, place, say("graph.hidden")))
    reading = process.reading
    for device, pick in zip(process.devices, reading.picks, strict=True):
        row = device.token if device.token is not None else device.ordinal
        if max(row, device.place) >= MOST_ROWS:
            continue
        certain = reading.basis_of(pick).certainty is Certainty.CERTAIN
        lines.append(Line(device.position, at.order, device.place, row, certain, faded=False))
        lines.append(Line(device.position, at.list, row, row, certain=True, faded=False))
    for position, gpu in enumerate(topology.gpus[:MOST_ROWS]):
        if gpu.problem:
            stubs.append(Stub(position, at.smi, position, say("graph.unusable")))
        elif at.container is not None and position not in inside:
            stubs.append(Stub(position, at.smi, position, say("graph.container-out")))
    return lines, stubs
