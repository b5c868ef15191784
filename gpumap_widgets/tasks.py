"""Which task gets which GPUs: a table as text, read, checked against a machine, and made into layers. Pure.

Two forms. One line a task, comments behind ``#``::

    train_a   GPU-b1e18600-…               # the 4090
    serve     GPU-a0e15e00-…,GPU-c2e1af00-…

or TOML, a table a task::

    [train_a]
    gpus = ["GPU-b1e18600-…"]
    command = "python train.py"
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import UnreadableTasks
from .explanation import gpu_name
from .frozen import FrozenDict
from .identity import PrefixIndex
from .layers import environment
from .mapping import Finding, message
from .scenario import CUDA_VISIBLE_DEVICES, Layer, Scenario
from .topology import Topology

_LONGEST = 1_000_000
_NAME = re.compile(r"[\w.-]{1,80}\Z")
_SOURCE = "CUDA Programming Guide 5.2.1.1: a UUID names a GPU whatever the order"


@dataclass(frozen=True)
class Task:
    """One task and the GPUs that it is to have, in the order of their CUDA numbers."""

    name: str
    gpus: tuple[str, ...]
    """UUIDs, or beginnings that only one GPU has."""
    command: str = ""
    """What it runs; "" where the table does not say."""
    env: Mapping[str, str] = field(default_factory=FrozenDict)
    """Variables of its own."""
    comment: str = ""
    line: int | None = None
    """Where it stands in the text."""


@dataclass(frozen=True)
class TaskTable:
    """Tasks in the order of the text; names do not repeat."""

    tasks: tuple[Task, ...] = ()

    def __getitem__(self, name: str) -> Task:
        """A task by name. Raises KeyError for one that is not there."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise KeyError(name)

    def to_text(self) -> str:
        """The table in its plain form; `read_tasks` gives names, GPUs and comments back."""
        width = max((len(task.name) for task in self.tasks), default=0)
        lines = (f"{t.name:<{width}}  {','.join(t.gpus)}{f'  # {t.comment}' if t.comment else ''}" for t in self.tasks)
        return "".join(f"{line}\n" for line in lines)

    def scenario(self, topology: Topology) -> Scenario:
        """All tasks side by side on a machine."""
        jobs = [[environment(variables(task), via=task.name).to_dict()] for task in self.tasks]
        return Scenario(topology, (environment(), Layer("jobs", {"jobs": jobs})))


def variables(task: Task) -> Mapping[str, str]:
    """What the environment of a task has beside what it inherits."""
    return {**task.env, CUDA_VISIBLE_DEVICES: ",".join(task.gpus)}


def read_tasks(text: str) -> TaskTable:
    """A table of tasks from text, in either form. Raises UnreadableTasks, with the line and the reason."""
    if len(text) > _LONGEST:
        raise UnreadableTasks("This is too long for a table of tasks.")
    text = text.removeprefix("\ufeff")
    rows = list(_toml(text) if re.search(r"^\s*\[[^\]\n]+\]\s*$", text, re.MULTILINE) else _lines(text))
    for name, count in Counter(task.name for task in rows).items():
        if count > 1:
            raise UnreadableTasks(f"The task {name} stands there {count} times.", remedy="Give every task one line.")
    if not rows:
        raise UnreadableTasks("There is no task in this text.", remedy="Write “name GPU-uuid,GPU-uuid” in a line.")
    return TaskTable(tuple(rows))


def _lines(text: str) -> Iterator[Task]:
    for number, line in enumerate(text.splitlines(), 1):
        content, _, comment = line.partition("#")
        if not content.strip():
            continue
        name, *rest = content.split(None, 1)
        gpus = tuple(entry.strip() for entry in rest[0].split(",")) if rest else ()
        yield _task(name, gpus, f"Line {number}", comment=comment.strip(), line=number)


def _toml(text: str) -> Iterator[Task]:
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise UnreadableTasks(f"This is no TOML: {exc}") from exc
    for name, row in tables.items():
        if not isinstance(row, dict):
            raise UnreadableTasks(f"{name} is no table.", remedy=f"Write “[{name}]” above its keys.")
        odd = set(row) - {"gpus", "command", "env", "comment"}
        if odd:
            raise UnreadableTasks(f"The task {name} has a key that nobody reads: {min(odd)}.")
        gpus, env = row.get("gpus"), row.get("env", {})
        if not isinstance(gpus, list) or not isinstance(env, dict):
            raise UnreadableTasks(f"The task {name} has no list “gpus”, or its “env” is no table.")
        texts = [*gpus, *env.values(), row.get("command", ""), row.get("comment", "")]
        if any(not isinstance(value, str) for value in texts):
            raise UnreadableTasks(f"The task {name} has a value that is no text.")
        extra: dict[str, Any] = {"command": row.get("command", ""), "comment": row.get("comment", "")}
        yield _task(name, tuple(gpus), f"The task {name}", env=FrozenDict(env), **extra)


def _task(name: str, gpus: tuple[str, ...], where: str, **extra: Any) -> Task:
    if not _NAME.match(name):
        raise UnreadableTasks(f"{where}: “{name[:80]}” is no name of a task.", remedy="Use letters, digits, . _ -")
    if not gpus or not all(gpus):
        raise UnreadableTasks(f"{where}: {name} names no GPU.", remedy="Write UUIDs with commas between them.")
    for entry in gpus:
        if not entry.startswith(("GPU-", "MIG-")) or any(c.isspace() for c in entry):
            raise UnreadableTasks(
                f"{where}: “{entry[:80]}” is no UUID.",
                remedy="A UUID begins with GPU- or MIG-; nvidia-smi -L lists them. Indices change with the order.",
            )
    return Task(name, gpus, **extra)


def check_tasks(table: TaskTable, topology: Topology) -> tuple[Finding, ...]:
    """What is wrong with a table on a machine: a GPU that is missing, doubled, ambiguous or unusable. () when nothing is."""
    known = [gpu.uuid for gpu in topology.gpus] + [m.uuid for gpu in topology.gpus for m in gpu.mig_instances]
    index = PrefixIndex(known)
    found: list[Finding] = []
    owners: dict[int, str] = {}
    for task in table.tasks:
        for entry in task.gpus:
            places = [exact] if (exact := index.place_of(entry)) is not None else index.starting_with(entry)
            if len(places) != 1:
                code = "unknown" if not places else "ambiguous"
                found.append(_finding(code, task=task.name, gpu=entry, n=len(places)))
                continue
            (place,) = places
            if place in owners:
                found.append(_finding("doubled", task=task.name, gpu=entry, other=owners[place]))
            owners.setdefault(place, task.name)
            if place < len(topology.gpus) and (problem := topology.gpus[place].problem):
                name = gpu_name(topology.gpus[place])
                found.append(_finding("unusable", task=task.name, gpu=name, problem=problem))
    return tuple(found)


def _finding(code: str, **fields: Any) -> Finding:
    said, fix = message(f"tasks.gpu-{code}", **fields), message(f"tasks.fix-{code}", **fields)
    return Finding(f"task-gpu-{code}", "error", said, fix, _SOURCE)
