"""Tasks, and a plan of which GPU each of them gets, as values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..errors import ImpossiblePlan
from ..mapping import Message
from ..scenario import Scenario
from ..tasks import Task, TaskTable
from ..texts import one_line, say
from ..topology import Gpu, Topology

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a task may be called: it stands in a table, in file names and in a shell."""
MOST = 64
"""Copies of tasks that are planned at once."""


class LatencyClass(NamedTuple):
    """How much the time of a task counts."""

    weight: float
    """Of its own time beside that of others."""
    alone: bool
    """Whether it shares its GPU with nothing: CUDA isolates no process on a GPU from another."""


LATENCY: Mapping[str, LatencyClass] = {
    "interactive": LatencyClass(4.0, alone=True),
    "service": LatencyClass(2.0, alone=False),
    "batch": LatencyClass(1.0, alone=False),
}
"""Classes, most urgent first. The weights are a choice; when not all fit, the most urgent are placed first."""


@dataclass(frozen=True)
class Workload:
    """One thing to run, on one GPU a copy."""

    name: str
    memory_mib: int = 0
    """GPU memory that a copy takes, its CUDA context aside; 0 for next to nothing."""
    work: float = 1.0
    """How much a copy has to do, relative to the other tasks."""
    latency: str = "service"
    """``interactive`` (alone on its GPU), ``service`` or ``batch``."""
    copies: int = 1
    """How many processes, each on a GPU of its own."""
    command: str = ""
    """What starts a copy, as a shell takes it; it is never run here."""

    def __post_init__(self) -> None:
        whole = isinstance(self.memory_mib, int) and isinstance(self.copies, int)
        sound = whole and 0 <= self.memory_mib < 2**40 and 1 <= self.copies <= MOST and 0 < self.work < 1e9
        if not NAME.fullmatch(self.name) or not sound or self.latency not in LATENCY:
            said = say("task.odd", task=repr(self.name)[:80], classes=", ".join(LATENCY), most=MOST)
            raise ImpossiblePlan(said)


class Copy(NamedTuple):
    """One process of a task."""

    task: Workload
    number: int
    """From 0 on."""

    @property
    def name(self) -> str:
        """``embed``, or ``embed-0`` and ``embed-1`` where there are several."""
        return self.task.name if self.task.copies == 1 else f"{self.task.name}-{self.number}"


@dataclass(frozen=True)
class Placed:
    """One copy of a task and the GPU that it gets."""

    copy: Copy
    gpu: Gpu | None
    """None when it gets none."""
    position: int | None
    """Of the GPU in the machine."""
    env: Mapping[str, str]
    """What makes that GPU its cuda:0, and the only one that it sees; empty where it gets none."""
    certainty: Certainty
    """How sure it is that these variables do that."""
    reason: Message
    shares_with: tuple[str, ...] = ()
    """Names of the copies on the same GPU."""

    @property
    def name(self) -> str:
        """Of the copy."""
        return self.copy.name

    @property
    def command(self) -> str:
        """The task's command with the variables in front, as a POSIX shell takes it; "" where it gets no GPU."""
        if self.gpu is None:
            return ""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), self.copy.task.command]).strip()


@dataclass(frozen=True)
class TaskPlan:
    """Tasks on GPUs."""

    topology: Topology
    placed: tuple[Placed, ...]
    """Every copy of every task, in the order of the tasks."""
    proven: bool
    """Whether no other assignment is better; False when the search was stopped before it knew."""
    notes: tuple[Message, ...] = ()

    @property
    def unplaced(self) -> tuple[Placed, ...]:
        """The copies that get no GPU."""
        return tuple(one for one in self.placed if one.gpu is None)

    def on(self, position: int) -> tuple[Placed, ...]:
        """The copies on a GPU."""
        return tuple(one for one in self.placed if one.position == position)

    def scenario(self, name: str) -> Scenario:
        """A process of a task as a scenario, for `resolve` and the explorer. Raises KeyError for a name that is none."""
        found = {one.name: one for one in self.placed}
        return Scenario.from_env(self.topology, found[name].env)

    @property
    def table(self) -> TaskTable:
        """The copies that get a GPU whose UUID is known, as a table of tasks with the reasons as comments."""
        rows = (one for one in self.placed if one.gpu is not None and one.gpu.uuid)
        return TaskTable(
            tuple(
                Task(
                    one.name,
                    (one.gpu.uuid,),
                    one.copy.task.command,
                    comment=one_line(f"{one.gpu.short_name}: {one.reason}"),
                )
                for one in rows
                if one.gpu is not None and one.gpu.uuid
            )
        )

    def to_text(self) -> str:
        """That table as text, ``name uuid  # reason``, which `read_tasks` reads; whatever is left out as a comment."""
        left = [one for one in self.placed if one.gpu is None or not one.gpu.uuid]
        why = (one.reason if one.gpu is None else say("task.no-uuid", gpu=one.gpu.label) for one in left)
        return self.table.to_text() + "".join(
            f"# {one.name}: {one_line(str(said))}\n" for one, said in zip(left, why, strict=True)
        )

    def __str__(self) -> str:
        from ..views.plan_text import tasks_text

        return tasks_text(self)

    def _repr_html_(self) -> str:
        from ..views.plan_html import tasks_page

        return tasks_page(self)

    def to_frame(self) -> Any:
        """pandas: a row for every copy of a task."""
        from ..views.frames import tasks_frame

        return tasks_frame(self)
