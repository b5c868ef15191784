"""What is worth saying about several processes at once: who sits on whose GPU, what nobody uses.

The processes of a prediction and those of a running job are judged alike: each is a `Seat`, whoever told it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .diagnosis import FindingRule
from .explanation import device_name, gpu_name
from .frozen import FrozenDict
from .mapping import Finding, Message, Prediction, Process, message
from .texts import say

MOST_NAMED = 8
"""More than so many workers, GPUs or groups are counted, not named."""
Fields = Mapping[str, Any]


class Seat(NamedTuple):
    """A process at the device that it uses."""

    worker: str
    """What it is called: ``rank 3``."""
    gpu: Hashable
    """What tells the device apart from all others; None where it is not known."""
    name: str
    """The device as a sentence names it."""
    ordinal: int | None
    """The i of its ``cuda:i``."""
    sees: int | None
    """How many CUDA devices the process sees."""


def shared(seats: Iterable[Seat]) -> list[list[Seat]]:
    """Groups of workers on one device; a GPU's MIG devices are devices of their own."""
    groups: dict[Hashable, list[Seat]] = {}
    for seat in seats:
        if seat.gpu is not None:
            groups.setdefault(seat.gpu, []).append(seat)
    return [group for group in groups.values() if len({seat.worker for seat in group}) > 1]


def not_selected(group: Sequence[Seat]) -> bool:
    """Whether workers on one device are there because none selected any: all on cuda:0 with others in sight."""
    return all(seat.ordinal == 0 and (seat.sees or 0) > 1 for seat in group)


def named(workers: Sequence[str]) -> str:
    """Workers in a few words: ``ranks 0–3, 8``, ``actor 0, actor 1 and 5 more``."""
    if len(workers) == 1:
        return workers[0]
    numbers = [int(w.removeprefix("rank ")) for w in workers if w.startswith("rank ") and w[len("rank ") :].isdigit()]
    if len(numbers) == len(workers):
        return say("jobs.ranks", ranks=numbered(numbers))
    return listed(workers)


def listed(texts: Sequence[str], most: int = MOST_NAMED) -> str:
    """Texts one after the other; of many only the first, and how many more there are."""
    shown = ", ".join(texts[:most])
    return say("jobs.more", shown=shown, n=len(texts) - most) if len(texts) > most else shown


def numbered(numbers: Iterable[int]) -> str:
    """Numbers with runs drawn together: ``0–3, 8``; equal steps too: ``0, 8 … 56``."""
    rest = sorted(set(numbers))
    step = rest[1] - rest[0] if len(rest) > 1 else 0
    if step > 1 and len(rest) > 3 and all(b - a == step for a, b in pairwise(rest)):
        return f"{rest[0]}, {rest[1]} … {rest[-1]}"
    runs: list[list[int]] = []
    for number in rest:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in runs]
    if len(texts) <= MOST_NAMED:
        return ", ".join(texts)
    return say("jobs.many", first=", ".join(texts[:3]), last=texts[-1], n=len(rest))


# --- the rules, for seats ---------------------------------------------------------------------------------------------


def crowded(seats: Sequence[Seat]) -> Fields | None:
    """Workers on one device, where they did not get there by selecting none."""
    return _groups([group for group in shared(seats) if not not_selected(group)])


def unselected(seats: Sequence[Seat]) -> Fields | None:
    """Workers that share cuda:0 while each sees others."""
    return _groups([group for group in shared(seats) if not_selected(group)])


def _groups(groups: Sequence[Sequence[Seat]]) -> Fields | None:
    if not groups:
        return None
    said = [message("jobs.on", workers=named([s.worker for s in group]), gpu=group[0].name) for group in groups]
    more = message("jobs.more-groups", n=len(groups) - 3) if len(groups) > 3 else ""
    return FrozenDict({"groups": "; ".join(map(str, said[:3])) + str(more)})


# --- predictions ------------------------------------------------------------------------------------------------------


def seats_of(prediction: Prediction) -> list[Seat]:
    """The devices that the processes use for certain: by a convention, or because there is only one."""
    seats = []
    for number, process in enumerate(prediction.processes):
        if process.chosen is not None or len(process.devices) == 1:
            label = worker_name(process, number)
            count = len(process.devices)
            for device in (process.devices[i] for i in process.uses):
                key = (process.node_rank, device.position, device.mig)
                seats.append(Seat(label, key, device_name(device), device.ordinal, count))
    return seats


def worker_name(process: Process, number: int) -> str:
    """What a process is called, by its place where it has no name."""
    return process.label or say("jobs.process", n=number + 1)


def _several(prediction: Prediction) -> list[Seat]:
    return seats_of(prediction) if len(prediction.processes) > 1 else []


def _crowded(prediction: Prediction, _: Process) -> Fields | None:
    return crowded(_several(prediction))


def _unselected(prediction: Prediction, _: Process) -> Fields | None:
    return unselected(_several(prediction))


def _missing(prediction: Prediction, _: Process) -> Fields | None:
    """An ordinal that a worker's convention asks for and that it does not have."""
    asked = [
        say(
            "jobs.wants",
            worker=worker_name(p, n),
            devices=listed([f"cuda:{i}" for i in p.missing]),
            count=len(p.devices),
        )
        for n, p in enumerate(prediction.processes)
        if p.missing
    ]
    most = min((len(p.devices) for p in prediction.processes if p.missing), default=0)
    return FrozenDict({"asked": listed(asked, 4), "most": most}) if asked else None


def _by_default(prediction: Prediction, _: Process) -> Fields | None:
    """Programs that nothing assigns a device and that share the one which CUDA takes then."""
    seats = [
        Seat(
            worker_name(p, n),
            (p.node_rank, p.devices[0].position, p.devices[0].mig),
            device_name(p.devices[0]),
            0,
            len(p.devices),
        )
        for n, p in enumerate(prediction.processes)
        if p.chosen is None and len(p.devices) > 1
    ]
    return _groups(shared(seats))


def _unused(prediction: Prediction, _: Process) -> Fields | None:
    """GPUs that workers see and none of them uses; nothing where one might use any of those that it sees."""
    processes = prediction.processes
    if len(processes) < 2 or any(p.chosen is None and len(p.devices) > 1 for p in processes):
        return None
    used = {process.devices[i].position for process in processes for i in process.uses}
    seen = {device.position for process in processes for device in process.devices}
    gpus = prediction.scenario.topology.gpus
    idle = [gpu_name(gpus[position]) for position in sorted(seen - used)]
    return FrozenDict({"gpus": listed(idle), "n": len(idle)}) if idle else None


RULES: tuple[FindingRule, ...] = (
    FindingRule("ordinal-missing", "error", _missing, True, "CUDA: cudaErrorInvalidDevice, “invalid device ordinal”"),
    FindingRule(
        "no-set-device", "error", _unselected, True, "tritonbench pull request 869; pytorch pull request 68666"
    ),
    FindingRule("workers-on-one-gpu", "warning", _crowded, True, "NCCL: “Duplicate GPU detected”; pytorch PR 68666"),
    FindingRule("shared-by-default", "info", _by_default, True, "CUDA Runtime API, cudaSetDevice: device 0 by default"),
    FindingRule("gpus-nobody-uses", "info", _unused, False, "the workers' own convention"),
)
"""Most harmful first. The sentences are ``finding.<code>`` and ``remedy.<code>`` in `texts`."""


def diagnose_job(prediction: Prediction) -> tuple[Finding, ...]:
    """What the processes of a prediction together give rise to, most harmful first."""
    if not prediction.processes:
        return ()
    return tuple(_found(prediction))


def _found(prediction: Prediction) -> Iterator[Finding]:
    for rule in RULES:
        fields = rule.when(prediction, prediction.processes[0])
        if fields is not None:
            yield finding(rule.code, rule.severity, fields, rule.source, remedy=rule.remedy)


def finding(code: str, severity: str, fields: Fields, source: str, *, remedy: bool) -> Finding:
    """A finding with the sentences of its code."""
    fix: Message | None = message(f"remedy.{code}", **fields) if remedy else None
    return Finding(code, severity, message(f"finding.{code}", **fields), fix, source)
