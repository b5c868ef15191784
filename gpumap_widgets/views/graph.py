"""The map as a drawing: columns of chips and the lines between them, as plain data. No plotly here."""

from __future__ import annotations

from typing import NamedTuple

from ..certainty import Certainty
from ..explanation import score_text
from ..mapping import Comparison, Prediction, Process
from ..scenario import CUDA_DEVICE_ORDER
from ..texts import say
from ..topology import Gpu, Topology
from .rows import MARKS, memory_text, sentence
from .text import number

MOST_ROWS = 32
_NAME = 18
_SUB = 26
SMI, ORDER, LIST, PROCESS = range(4)


class Chip(NamedTuple):
    """One box."""

    column: int
    row: int
    lead: str
    """The number in front; "" for none."""
    title: str
    sub: str
    hover: str
    position: int | None
    """The GPU that it shows, as a position in ``topology.gpus``; None for a token that names none."""
    faded: bool


class Line(NamedTuple):
    """One line between two neighbouring columns."""

    position: int
    column: int
    row: int
    to_row: int
    certain: bool
    faded: bool


class Stub(NamedTuple):
    """A line that ends: a GPU that goes no further."""

    position: int
    column: int
    row: int
    label: str


class GraphSpec(NamedTuple):
    """What to draw. Column c, row r; row 0 is on top."""

    heads: tuple[tuple[str, str], ...]
    """Title and subtitle of each column."""
    chips: tuple[Chip, ...]
    lines: tuple[Line, ...]
    stubs: tuple[Stub, ...]
    rows: int
    alt: str
    """The same in words."""


def short(text: str, width: int) -> str:
    """At most ``width`` characters, the end cut with an ellipsis."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def graph(prediction: Prediction, comparison: Comparison | None = None) -> GraphSpec:
    """The drawing of the first process of a prediction; with a comparison, what torch said on the last column."""
    topology = prediction.scenario.topology
    alt = say("graph.alt", sentence=sentence(prediction))
    if not prediction.processes:
        return GraphSpec((), (), (), (), 1, alt)
    process = prediction.processes[0]
    chips = [*_smi_chips(topology, process), *_order_chips(topology, process)]
    chips += _list_chips(process)
    chips += _process_chips(process, comparison)
    lines, stubs = _lines(topology, process)
    rows = max((chip.row + 1 for chip in chips), default=1)
    return GraphSpec(_heads(topology, process), tuple(chips), tuple(lines), tuple(stubs), rows, alt)


def _heads(topology: Topology, process: Process) -> tuple[tuple[str, str], ...]:
    value = process.env.get(CUDA_DEVICE_ORDER)
    numbered = all(gpu.nvml_index is not None for gpu in topology.gpus)
    listed = process.reading.value
    shown = say("graph.list-unset") if listed is None else listed or say("graph.list-empty")
    n = len(process.devices)
    return (
        (say("graph.smi"), say("graph.smi-sub" if numbered else "graph.smi-sub-text")),
        (say("graph.order"), say("graph.order-sub-unset") if value is None else short(value, _SUB)),
        (say("graph.list"), short(shown, _SUB)),
        (say("graph.process"), f"{n} device{'' if n == 1 else 's'}"),
    )


def _used(process: Process) -> set[int]:
    return {device.position for device in process.devices}


def _hover(gpu: Gpu) -> str:
    parts = [gpu.label, gpu.pci_bus_id, gpu.uuid, memory_text(gpu.memory_mib)]
    parts.append(f"nvidia-smi {gpu.nvml_index}" if gpu.nvml_index is not None else None)
    return "\n".join(part for part in parts if part)


def _more(column: int, left: int) -> list[Chip]:
    """The chip that says that there is more than fits."""
    return [Chip(column, MOST_ROWS, "", say("graph.more", n=left), "", "", None, True)] if left > 0 else []


def _smi_chips(topology: Topology, process: Process) -> list[Chip]:
    used = _used(process)
    chips = []
    for row, gpu in enumerate(topology.gpus[:MOST_ROWS]):
        sub = say("graph.unusable") if gpu.problem else _where(gpu)
        title = short(gpu.short_name, _NAME)
        chips.append(Chip(SMI, row, number(gpu.nvml_index), title, sub, _hover(gpu), row, row not in used))
    return chips + _more(SMI, len(topology.gpus) - MOST_ROWS)


def _where(gpu: Gpu) -> str:
    return " · ".join(part for part in (gpu.pci.short if gpu.pci else "", memory_text(gpu.memory_mib)) if part)


def _order_chips(topology: Topology, process: Process) -> list[Chip]:
    used = _used(process)
    scored = process.order.rule == "weights"
    chips = []
    for place, position in enumerate(process.order.places[:MOST_ROWS]):
        gpu = topology.gpus[position]
        sub = (score_text(gpu) if scored else None) or _where(gpu)
        title = short(gpu.short_name, _NAME)
        chips.append(Chip(ORDER, place, str(place), title, sub, _hover(gpu), position, position not in used))
    return chips + _more(ORDER, len(process.order.places) - MOST_ROWS)


def _list_chips(process: Process) -> list[Chip]:
    reading = process.reading
    if reading.value is None:
        title, sub = say("graph.token-unset"), say("graph.token-unset-sub")
        return [
            Chip(LIST, d.ordinal, "", title, sub, _hover(d.gpu), d.position, False) for d in process.devices[:MOST_ROWS]
        ]
    by_token = {d.token: d for d in process.devices}
    stop = reading.stop
    chips = []
    for i, token in enumerate(reading.tokens[:MOST_ROWS]):
        title = say("graph.token", token=short(token.text, _NAME - 2))
        device = by_token.get(i)
        if device is not None:
            key = "graph.token-uuid" if token.text.strip().startswith(("GPU-", "MIG-")) else "graph.token-kept"
            sub = say(key, place=device.place)
            chips.append(Chip(LIST, i, "", title, sub, _hover(device.gpu), device.position, False))
            continue
        ends = stop is not None and i == stop.token
        key = "ignored" if not ends else "empties" if stop is not None and stop.empties else "stop"
        if stop is not None and stop.empties and i < stop.token:
            key = "again" if i == stop.other else "lost"
        chips.append(Chip(LIST, i, "✗" if ends else "", title, say(f"graph.token-{key}"), token.text, None, not ends))
    return chips + _more(LIST, len(reading.tokens) - MOST_ROWS)


def _process_chips(process: Process, comparison: Comparison | None) -> list[Chip]:
    edges = {edge.ordinal: edge for edge in comparison.edges} if comparison else {}
    chips = []
    for device in process.devices[:MOST_ROWS]:
        gpu = device.gpu
        index = f" · nvidia-smi {gpu.nvml_index}" if gpu.nvml_index is not None else ""
        sub = (device.mig.profile or "MIG") + " " + gpu.short_name if device.mig else gpu.short_name
        sub = short(sub, _SUB + 4 - len(index)) + index
        edge = edges.get(device.ordinal)
        lead = ""
        if edge is not None:
            lead = MARKS[edge.verdict]
            seen = edge.observed.name if edge.observed and edge.observed.name else say("graph.no-device")
            names = {"seen": Gpu(name=seen).short_name, "foretold": short(gpu.short_name, 11)}
            sub = short(say(f"graph.{edge.verdict.replace(' ', '-')}", **names), _SUB)
        row = device.token if device.token is not None and device.token < MOST_ROWS else device.ordinal
        chips.append(Chip(PROCESS, row, lead, f"cuda:{device.ordinal}", sub, _hover(gpu), device.position, False))
    return chips + _more(PROCESS, len(process.devices) - MOST_ROWS)


def _lines(topology: Topology, process: Process) -> tuple[list[Line], list[Stub]]:
    used = {device.position: device for device in process.devices}
    lines, stubs = [], []
    for place, (position, sure) in enumerate(zip(process.order.places, process.order.certainties, strict=True)):
        if max(place, position) >= MOST_ROWS:
            continue
        device = used.get(position)
        lines.append(Line(position, SMI, position, place, sure is Certainty.CERTAIN, device is None))
        if device is None:
            stubs.append(Stub(position, ORDER, place, say("graph.hidden")))
    reading = process.reading
    for device, pick in zip(process.devices, reading.picks, strict=True):
        row = device.token if device.token is not None else device.ordinal
        if max(row, device.place) >= MOST_ROWS:
            continue
        certain = reading.basis_of(pick).certainty is Certainty.CERTAIN
        lines.append(Line(device.position, ORDER, device.place, row, certain, faded=False))
        lines.append(Line(device.position, LIST, row, row, certain=True, faded=False))
    for position, gpu in enumerate(topology.gpus[:MOST_ROWS]):
        if gpu.problem:
            stubs.append(Stub(position, SMI, position, say("graph.unusable")))
    return lines, stubs
