"""What a person types for a plan: step times, and tasks. Read in bounds; what cannot be read is said, not repaired."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..errors import ImpossiblePlan
from ..explanation import clip
from ..mapping import Message, message
from .tasks import LATENCY, Workload
from .workers import Seconds

_LIMIT = 100_000
_MOST_LINES = 1000
_NUMBER = r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}"
_TIME = re.compile(rf"(?P<low>{_NUMBER})(?:\s*(?:-|–|\.\.|to)\s*(?P<high>{_NUMBER}))?(?:\s*(?P<unit>m?s))?")
_MEMORY = re.compile(rf"(?P<size>{_NUMBER})\s*(?P<unit>[kmgt]?i?b?)", re.IGNORECASE)
_MIB = {"": 1, "m": 1, "g": 1024, "t": 1024 * 1024, "k": 1 / 1024}


class Times(NamedTuple):
    """Step times as typed."""

    seconds: float | tuple[Seconds, ...] | None
    """None for nothing, a number for one (that of the fastest GPU), else one for each GPU."""
    problem: Message | None = None


class Workloads(NamedTuple):
    """Tasks as typed."""

    tasks: tuple[Workload, ...]
    problems: tuple[Message, ...]
    """Lines that are no task, each with its number and reason."""


def read_times(text: str) -> Times:
    """Step times from ``13.0, 1.0, 13.2-14 s, ?``: numbers, ranges, ``?`` for one that is not known, ``ms`` too."""
    parts = [part.strip() for part in re.split(r"[,;\n]", text[:_LIMIT])] if text.strip() else []
    found: list[Seconds] = []
    for part in parts:
        if part in ("?", ""):
            found.append(None)
            continue
        match = _TIME.fullmatch(part)
        if match is None:
            return Times(None, message("plan.typed.time", text=clip(part)))
        unit = 0.001 if match["unit"] == "ms" else 1.0
        low, high = (float(match[key] or match["low"]) * unit for key in ("low", "high"))
        if not 0 < low <= high < math.inf:
            return Times(None, message("plan.typed.time", text=clip(part)))
        found.append(low if low == high else (low, high))
    if len(found) == 1 and isinstance(found[0], float):
        return Times(found[0])
    return Times(tuple(found) if found else None)


def read_workloads(text: str) -> Workloads:
    """Tasks, one a line: ``name memory=20GB work=10 class=batch copies=3 -- command``; ``#`` starts a comment.

    Every part but the name may be left out. Memory is in GB (1024 MiB) or MiB, as its unit says; the command is taken
    as it stands and never run.
    """
    tasks: list[Workload] = []
    problems: list[Message] = []
    for number, line in enumerate(text[:_LIMIT].splitlines()[:_MOST_LINES], 1):
        head, _, command = line.partition(" -- ")
        words = head.partition("#")[0].split()
        if not words:
            continue
        found = _workload(words, command.strip() if "#" not in head else "")
        if isinstance(found, Workload) and found.name in {task.name for task in tasks}:
            found = message("task.twice", name=found.name)
        if isinstance(found, Workload):
            tasks.append(found)
        else:
            problems.append(message("plan.typed.line", line=number, why=found))
    return Workloads(tuple(tasks), tuple(problems))


def _workload(words: list[str], command: str) -> Workload | Message:
    memory, work, latency, copies = 0, 1.0, "service", 1
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "memory" and (match := _MEMORY.fullmatch(value)):
            memory = math.ceil(float(match["size"]) * _MIB[match["unit"].lower().rstrip("ib")])
        elif key == "work" and re.fullmatch(_NUMBER, value):
            work = float(value)
        elif key == "class" and value in LATENCY:
            latency = value
        elif key == "copies" and re.fullmatch(r"\d{1,4}", value):
            copies = int(value)
        else:
            return message("plan.typed.word", word=clip(word), classes=", ".join(LATENCY))
    try:
        return Workload(words[0], memory, work, latency, copies, command)
    except ImpossiblePlan as exc:
        return message("plan.typed.odd", why=exc.message)
