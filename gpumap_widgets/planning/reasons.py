"""Why a task stands where it stands, or nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..mapping import Message, message
from ..topology import Gpu
from .tasks import LATENCY, Copy
from .wording import digits

_SAME = 1.001
"""Factor within which speeds count as equal."""


@dataclass(frozen=True)
class Candidates:
    """A planned case: copies, GPUs, and who got which."""

    copies: Sequence[Copy]
    gpus: Sequence[Gpu]
    speeds: Sequence[float]
    """Over that of the slowest."""
    memory: Sequence[int]
    """MiB that tasks may take; 0 where it is not known."""
    chosen: Sequence[int | None]
    share: bool

    def fitting(self, i: int) -> list[int]:
        """GPUs whose memory is enough for a copy alone."""
        need = self.copies[i].task.memory_mib
        return [g for g, room in enumerate(self.memory) if need == 0 or need <= room]

    def beside(self, i: int) -> list[int]:
        """The other copies on its GPU."""
        own = self.chosen[i]
        return [j for j, place in enumerate(self.chosen) if place == own and j != i and own is not None]


def placed_reason(case: Candidates, i: int) -> Message:
    """Why a copy has its GPU."""
    own = case.chosen[i]
    assert own is not None
    copy, fitting = case.copies[i], case.fitting(i)
    beside = case.beside(i)
    why = _alone_reason(case, i, own, fitting)
    if beside:
        return message("task.why.shares", why=why, others=", ".join(case.copies[j].name for j in beside))
    return message("task.why.interactive", why=why) if LATENCY[copy.task.latency].alone else why


def _alone_reason(case: Candidates, i: int, own: int, fitting: Sequence[int]) -> Message:
    need = case.copies[i].task.memory_mib
    if len(case.gpus) == 1:
        return message("task.why.one")
    if len(fitting) == 1:
        return message("task.why.memory", need=need, room=case.memory[own])
    faster = [g for g in fitting if case.speeds[g] > case.speeds[own] * _SAME]
    slower = [g for g in fitting if case.speeds[g] * _SAME < case.speeds[own]]
    if not faster and not slower:
        return message("task.why.equal", n=len(fitting))
    if not faster:
        factor = digits(case.speeds[own] / min(case.speeds[g] for g in fitting), 2)
        return message("task.why.fastest", n=len(fitting), factor=factor)
    holders = [j for j, place in enumerate(case.chosen) if place in faster]
    if holders:
        heaviest = max(holders, key=lambda j: _pull(case.copies[j]))
        return message(
            "task.why.leaves", gpu=case.gpus[case.chosen[heaviest] or 0].short_name, task=case.copies[heaviest].name
        )
    return message("task.why.cheapest")


def _pull(copy: Copy) -> float:
    return LATENCY[copy.task.latency].weight * copy.task.work


def unplaced_reason(case: Candidates, i: int) -> Message:
    """Why a copy has no GPU."""
    task = case.copies[i].task
    fitting = case.fitting(i)
    if not case.gpus:
        return message("task.why-not.no-gpu")
    if not fitting:
        largest = max(range(len(case.gpus)), key=lambda g: case.memory[g])
        if not case.memory[largest]:
            return message("task.why-not.unknown")
        room, gpu = case.memory[largest], case.gpus[largest].short_name
        return message("task.why-not.memory", need=task.memory_mib, room=room, gpu=gpu)
    holders = ", ".join(copy.name for j, copy in enumerate(case.copies) if case.chosen[j] in fitting)
    return message("task.why-not.taken-sharing" if case.share else "task.why-not.taken", n=len(fitting), tasks=holders)
