"""The chips of the map: one column after the other."""

from __future__ import annotations

from ..explanation import score_text
from ..mapping import Comparison, Device, Prediction, Process
from ..texts import say
from ..topology import Gpu, Topology
from .drawing import MOST_ROWS, Chip, Columns, short
from .rows import MARKS, memory_text
from .text import number

_NAME = 18
SUB = 26


def make_chips(
    prediction: Prediction, process: Process, comparison: Comparison | None, at: Columns
) -> tuple[Chip, ...]:
    """Every chip of the map of one process."""
    topology = prediction.scenario.topology
    found = [*_smi_chips(topology, process, at), *_container_chips(topology, process, at)]
    found += [*_order_chips(topology, process, at), *_list_chips(process, at)]
    return (*found, *_process_chips(process, comparison, at), *_rank_chips(prediction, process, at))


def _used(process: Process) -> set[int]:
    return {device.position for device in process.devices}


def _hover(gpu: Gpu) -> str:
    parts = [gpu.label, gpu.pci_bus_id, gpu.uuid, memory_text(gpu.memory_mib)]
    parts.append(f"nvidia-smi {gpu.nvml_index}" if gpu.nvml_index is not None else None)
    return "\n".join(part for part in parts if part)


def _more(column: int, left: int) -> list[Chip]:
    """The chip that says that there is more than fits."""
    return [Chip(column, MOST_ROWS, "", say("graph.more", n=left), "", "", None, True)] if left > 0 else []


def _smi_chips(topology: Topology, process: Process, at: Columns) -> list[Chip]:
    used = _used(process)
    made = []
    for row, gpu in enumerate(topology.gpus[:MOST_ROWS]):
        sub = say("graph.unusable") if gpu.problem else _where(gpu)
        title = short(gpu.short_name, _NAME)
        made.append(Chip(at.smi, row, number(gpu.nvml_index), title, sub, _hover(gpu), row, row not in used))
    return made + _more(at.smi, len(topology.gpus) - MOST_ROWS)


def _container_chips(topology: Topology, process: Process, at: Columns) -> list[Chip]:
    """The GPUs that are left, with the numbers that nvidia-smi gives them inside."""
    if at.container is None:
        return []
    used = _used(process)
    made = []
    for row, position in enumerate(sorted(process.accessible)[:MOST_ROWS]):
        gpu = topology.gpus[position]
        index = "" if gpu.nvml_index is None else say("graph.container-host", index=gpu.nvml_index)
        title = short(gpu.short_name, _NAME)
        made.append(Chip(at.container, row, str(row), title, index, _hover(gpu), position, position not in used))
    return made + _more(at.container, len(process.accessible) - MOST_ROWS)


def _where(gpu: Gpu) -> str:
    return " · ".join(part for part in (gpu.pci.short if gpu.pci else "", memory_text(gpu.memory_mib)) if part)


def _order_chips(topology: Topology, process: Process, at: Columns) -> list[Chip]:
    used = _used(process)
    scored = process.order.rule == "weights"
    made = []
    for place, position in enumerate(process.order.places[:MOST_ROWS]):
        gpu = topology.gpus[position]
        sub = (score_text(gpu) if scored else None) or _where(gpu)
        title = short(gpu.short_name, _NAME)
        made.append(Chip(at.order, place, str(place), title, sub, _hover(gpu), position, position not in used))
    return made + _more(at.order, len(process.order.places) - MOST_ROWS)


def _list_chips(process: Process, at: Columns) -> list[Chip]:
    reading = process.reading
    if reading.value is None:
        title, sub = say("graph.token-unset"), say("graph.token-unset-sub")
        return [
            Chip(at.list, d.ordinal, "", title, sub, _hover(d.gpu), d.position, False)
            for d in process.devices[:MOST_ROWS]
        ]
    by_token = {d.token: d for d in process.devices}
    stop = reading.stop
    made = []
    for i, token in enumerate(reading.tokens[:MOST_ROWS]):
        title = say("graph.token", token=short(token.text, _NAME - 2))
        device = by_token.get(i)
        if device is not None:
            key = "graph.token-uuid" if token.text.strip().startswith(("GPU-", "MIG-")) else "graph.token-kept"
            sub = say(key, place=device.place)
            made.append(Chip(at.list, i, "", title, sub, _hover(device.gpu), device.position, False))
            continue
        ends = stop is not None and i == stop.token
        key = "ignored" if not ends else "empties" if stop is not None and stop.empties else "stop"
        if stop is not None and stop.empties and i < stop.token:
            key = "again" if i == stop.other else "lost"
        made.append(Chip(at.list, i, "✗" if ends else "", title, say(f"graph.token-{key}"), token.text, None, not ends))
    return made + _more(at.list, len(reading.tokens) - MOST_ROWS)


def _process_chips(process: Process, comparison: Comparison | None, at: Columns) -> list[Chip]:
    own = [edge for edge in comparison.edges if edge.rank == process.rank] if comparison else []
    edges = {edge.ordinal: edge for edge in own}
    made = []
    for device in process.devices[:MOST_ROWS]:
        gpu = device.gpu
        index = f" · nvidia-smi {gpu.nvml_index}" if gpu.nvml_index is not None else ""
        sub = (device.mig.profile or "MIG") + " " + gpu.short_name if device.mig else gpu.short_name
        sub = short(sub, SUB + 4 - len(index)) + index
        edge = edges.get(device.ordinal)
        lead = ""
        if edge is not None:
            lead = MARKS[edge.verdict]
            seen = edge.observed.name if edge.observed and edge.observed.name else say("graph.no-device")
            names = {"seen": Gpu(name=seen).short_name, "foretold": short(gpu.short_name, 11)}
            sub = short(say(f"graph.{edge.verdict.replace(' ', '-')}", **names), SUB)
        made.append(
            Chip(at.process, row_of(device), lead, f"cuda:{device.ordinal}", sub, _hover(gpu), device.position, False)
        )
    return made + _more(at.process, len(process.devices) - MOST_ROWS)


def row_of(device: Device) -> int:
    """The row of a CUDA number: beside the entry of the list that named it."""
    return device.token if device.token is not None and device.token < MOST_ROWS else device.ordinal


def _rank_chips(prediction: Prediction, process: Process, at: Columns) -> list[Chip]:
    """The workers, each with the GPU that it uses; the one whose map is shown is marked."""
    if at.ranks is None:
        return []
    made = []
    for row, one in enumerate(prediction.processes[:MOST_ROWS]):
        lead = "▸" if one is process and len(prediction.processes) > 1 else ""
        title = short(one.label or say("graph.process"), _NAME)
        used = [one.devices[i] for i in one.uses]
        if one.missing:
            sub, position = say("graph.rank-missing", ordinal=one.missing[0]), None
        elif not used:
            sub, position = say("graph.no-device"), None
        else:
            sub, position = _uses(used), used[0].position
        hover = "\n".join(_hover(device.gpu) for device in used[:1])
        made.append(Chip(at.ranks, row, lead, title, sub, hover, position, False))
    return made + _more(at.ranks, len(prediction.processes) - MOST_ROWS)


def _uses(used: list[Device]) -> str:
    first, last = used[0], used[-1]
    if len(used) > 1:
        whole = [d.ordinal for d in used] == list(range(first.ordinal, last.ordinal + 1))
        joined = f"{first.ordinal}–{last.ordinal}" if whole else ",".join(str(d.ordinal) for d in used)
        return short(f"cuda:{joined}", SUB)
    index = f" · nvidia-smi {first.gpu.nvml_index}" if first.gpu.nvml_index is not None else ""
    return f"cuda:{first.ordinal}{index}"
