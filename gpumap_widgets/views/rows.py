"""The rows of every table, and the sentence that says the same: computed once, printed by all views."""

from __future__ import annotations

from typing import NamedTuple

from ..certainty import Certainty
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


def prediction_rows(prediction: Prediction, comparison: Comparison | None = None) -> list[Row]:
    """A row for every (process, ordinal), then one for every hidden GPU of that process."""
    edges = {(edge.rank, edge.ordinal): edge for edge in comparison.edges} if comparison else {}
    return [row for process in prediction.processes for row in _process_rows(prediction, process, edges)]


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
    """The map of the first process in words: what cuda:0 is, what is hidden."""
    if prediction.error is not None:
        return say("sentence.error", error=prediction.error)
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
    if process.hidden:
        groups = _hidden_groups(prediction, process)
        names = ", ".join(groups[:_NAMED_IN_SENTENCE])
        if len(groups) > _NAMED_IN_SENTENCE:
            names += ", " + say("sentence.more", n=len(groups) - _NAMED_IN_SENTENCE)
        said.append(say("sentence.hidden-one" if len(process.hidden) == 1 else "sentence.hidden-many", gpus=names))
    return " ".join(said)


def _hidden_groups(prediction: Prediction, process: Process) -> list[str]:
    """The hidden GPUs, those of one model together: ``6 × A100 (nvidia-smi 0, 2, 4 …)``."""
    by_name: dict[str, list[int | None]] = {}
    for position in sorted(process.hidden):
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
    process = prediction.processes[0]
    steps = [s for s in prediction.steps if s.certainty is prediction.certainty and s.stage in ("order", "list")]
    listed = [s for s in steps if s.stage == "list" and process.reading.basis.certainty is prediction.certainty]
    listed.sort(key=lambda s: s.message.key not in ("step.token.empties", "step.token.stop"))  # these weigh most
    said = listed[:1] or [s for s in steps if s.message.key.startswith("doubt.")][:1] or steps[:1]
    return said[0].message.text() if said else ""
