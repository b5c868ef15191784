"""The rows of every table, and the sentence that says the same: computed once, printed by all views."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..job_findings import named, worker_name
from ..mapping import Comparison, Device, Edge, Prediction, Process
from ..texts import say
from ..topology import Gpu, MigInstance

MARKS = {"agrees": "✓", "differs": "✗", "not checked": "–", "unknown": "?"}
"""Verdict → sign; the word always stands beside it."""
_NAMED_IN_SENTENCE = 4
_MOST_INDICES = 8


class Row(NamedTuple):
    """One line of the table of a prediction: an ordinal of a process, or a GPU that it does not see."""

    rank: int | None
    local_rank: int | None
    ordinal: int | None
    """None for a hidden GPU."""
    gpu: Gpu
    mig: MigInstance | None
    certainty: Certainty
    token: str | None
    """The entry of the list that named it."""
    reason: str | None
    """Why it is hidden; None for a visible one."""
    position: int
    verdict: str | None = None
    """``agrees``, ``differs`` or ``not checked`` where there is a comparison."""
    worker: str = ""
    """What its process is called; "" where it is the only one."""
    node_rank: int | None = None
    uses: bool | None = None
    """Whether its process uses it by a convention; None where nothing tells, or nothing is to be used."""


def prediction_rows(prediction: Prediction, comparison: Comparison | None = None) -> list[Row]:
    """A row for every (process, ordinal), then one for every hidden GPU of that process."""
    edges = {(edge.rank, edge.ordinal): edge for edge in comparison.edges} if comparison else {}
    several = len(prediction.processes) > 1
    rows: list[Row] = []
    for number, process in enumerate(prediction.processes):
        name = worker_name(process, number) if several else process.label
        for row in _process_rows(prediction, process, edges):
            used = None if row.ordinal is None or process.chosen is None else row.ordinal in process.chosen
            rows.append(row._replace(worker=name, node_rank=process.node_rank, uses=used))
    return rows


def _process_rows(prediction: Prediction, process: Process, edges: dict[tuple[int | None, int], Edge]) -> list[Row]:
    rows = []
    for device in process.devices:
        edge = edges.get((process.rank, device.ordinal))
        token = None if device.token is None else process.reading.tokens[device.token].text
        rows.append(
            Row(
                process.rank,
                process.local_rank,
                device.ordinal,
                device.gpu,
                device.mig,
                device.certainty,
                token,
                None,
                device.position,
                edge.verdict if edge else None,
            )
        )
    gpus = prediction.scenario.topology.gpus
    for position in process.hidden:
        reason = say("cell.hidden")
        rows.append(
            Row(process.rank, process.local_rank, None, gpus[position], None, process.certainty, None, reason, position)
        )
    for position, gpu in enumerate(gpus):
        if gpu.problem:
            reason = f"{say('cell.hidden-unusable')}: {gpu.problem}"
            rows.append(
                Row(process.rank, process.local_rank, None, gpu, None, Certainty.UNKNOWN, None, reason, position)
            )
    return rows


def memory_text(mib: int | None) -> str:
    """Memory as people say it: ``15 GB`` for 15360 MiB; "" when unknown."""
    if mib is None:
        return ""
    return say("memory.mib", mib=mib) if mib < 1000 else say("memory.gb", gb=round(mib / 1024))


def sentence(prediction: Prediction) -> str:
    """The map in words: what cuda:0 is, what is hidden; of several processes, which GPU each uses."""
    if prediction.error is not None:
        return say("sentence.error", error=prediction.error)
    if len(prediction.processes) > 1:
        return _workers_sentence(prediction)
    process = prediction.processes[0]
    if not process.order.places:
        return say("sentence.no-gpu")
    if not process.devices:
        return say("sentence.none")
    shown = process.devices[:_NAMED_IN_SENTENCE]
    parts = [
        say("sentence.next" if i else "sentence.first", ordinal=d.ordinal, gpu=_named(d)) for i, d in enumerate(shown)
    ]
    if len(process.devices) > len(shown):
        parts.append(say("sentence.more", n=len(process.devices) - len(shown)))
    said = [say("sentence.end", parts=", ".join(parts))]
    said += _hidden(prediction, process.hidden)
    return " ".join(said)


def _workers_sentence(prediction: Prediction) -> str:
    """Who uses what, those that use the same drawn together."""
    processes = prediction.processes
    nodes = len({process.node_rank for process in processes})
    groups: dict[Any, list[str]] = {}
    for number, process in enumerate(processes):
        groups.setdefault(_use(process), []).append(worker_name(process, number))
    parts = [_use_text(use, workers) for use, workers in list(groups.items())[:_NAMED_IN_SENTENCE]]
    if len(groups) > len(parts):
        parts.append(say("sentence.more", n=sum(map(len, list(groups.values())[len(parts) :]))))
    hidden = set.intersection(*(set(process.hidden) for process in processes))
    key = "sentence.workers-nodes" if nodes > 1 else "sentence.workers"
    said = say(key, n=len(processes), nodes=nodes, parts="; ".join(parts))
    return " ".join([said, *_hidden(prediction, hidden)])


def _use(process: Process) -> tuple[str, int, Device | None]:
    """What a process does by its convention: key of a sentence, ordinal, device."""
    if process.missing:
        return "worker-missing", 0, None
    if not process.devices:
        return "worker-none", 0, None
    if process.chosen is None and len(process.devices) > 1:
        return "worker-sees", 0, _bare(process.devices[0])
    ordinal = process.uses[0] if process.uses else 0
    return "worker-uses", ordinal, _bare(process.devices[ordinal])


def _bare(device: Device) -> Device:
    """The device without what lists of different processes differ in."""
    return device._replace(token=None, certainty=Certainty.CERTAIN)


def _use_text(use: tuple[str, int, Device | None], workers: list[str]) -> str:
    kind, ordinal, device = use
    key = "workers-use" if kind == "worker-uses" and len(workers) > 1 else kind
    fields = {"workers": named(workers), "ordinal": ordinal, "gpu": _named(device) if device else ""}
    return say(f"sentence.{key}", **fields)


def _hidden(prediction: Prediction, positions: Collection[int]) -> list[str]:
    """What is said of GPUs that nobody sees: a sentence, or none."""
    if not positions:
        return []
    groups = _hidden_groups(prediction, positions)
    names = ", ".join(groups[:_NAMED_IN_SENTENCE])
    if len(groups) > _NAMED_IN_SENTENCE:
        names += ", " + say("sentence.more", n=len(groups) - _NAMED_IN_SENTENCE)
    return [say("sentence.hidden-one" if len(positions) == 1 else "sentence.hidden-many", gpus=names)]


def _hidden_groups(prediction: Prediction, positions: Iterable[int]) -> list[str]:
    """The hidden GPUs, those of one model together: ``6 × A100 (nvidia-smi 0, 2, 4 …)``."""
    by_name: dict[str, list[int | None]] = {}
    for position in sorted(positions):
        gpu = prediction.scenario.topology.gpus[position]
        by_name.setdefault(gpu.short_name, []).append(gpu.nvml_index)
    groups = []
    for name, indices in by_name.items():
        known = [str(i) for i in indices if i is not None]
        shown = ", ".join(known[:_MOST_INDICES]) + (" …" if len(known) > _MOST_INDICES else "")
        key = "bare" if not known else "single" if len(indices) == 1 else "group"
        groups.append(
            name
            if key == "bare" and len(indices) == 1
            else say(f"sentence.hidden-{key}", n=len(indices), name=name, indices=shown)
        )
    return groups


def _named(device: Device) -> str:
    gpu, pci = device.gpu, device.gpu.pci
    key = "gpu" if pci and gpu.nvml_index is not None else "gpu-no-bus" if gpu.nvml_index is not None else "gpu-bare"
    if pci and gpu.nvml_index is None:
        key = "gpu-no-index"
    bus = f"{pci.domain:04X}:{pci.bus:02X}" if pci and pci.domain else f"{pci.bus:02X}" if pci else None
    said = say(f"sentence.{key}", name=gpu.short_name, index=gpu.nvml_index, bus=bus)
    mig = device.mig
    return say("gpu.mig", profile=mig.profile or mig.uuid or "?", gpu=said) if mig else said


def certainty_text(prediction: Prediction) -> str:
    """How sure it is, and what the doubt is."""
    key = f"sentence.{prediction.certainty}"
    return say(key, why=doubt(prediction)) if prediction.certainty is not Certainty.CERTAIN else say(key)


def doubt(prediction: Prediction) -> str:
    """The strongest reason why a prediction is not certain; "" when it is."""
    if not prediction.processes or prediction.certainty is Certainty.CERTAIN:
        return ""
    worker = next((k for k, one in enumerate(prediction.processes) if one.certainty is prediction.certainty), 0)
    process = prediction.processes[worker]
    weakest = [s for s in prediction.steps_of(worker) if s.certainty is prediction.certainty]
    steps = [s for s in weakest if s.stage in ("order", "list")] or weakest
    listed = [s for s in steps if s.stage == "list" and process.reading.basis.certainty is prediction.certainty]
    listed.sort(key=lambda s: s.message.key not in ("step.token.empties", "step.token.stop"))  # these weigh most
    said = listed[:1] or [s for s in steps if s.message.key.startswith("doubt.")][:1] or steps[:1]
    return said[0].message.text() if said else ""
