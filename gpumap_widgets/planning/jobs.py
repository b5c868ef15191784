"""Jobs, places, what an assignment of the one to the other costs, and which are allowed.

What is minimised: the sum over jobs of weight × own time, plus the time that jobs on one GPU wait for each other. Jobs
that share a GPU run one piece each, in fair time slices as CUDA gives them to processes: two of them wait for each
other min(work, work') each. All of it over the speed of the GPU. A job that is placed nowhere costs its penalty, which
exceeds whatever its placement could cost.

With one job a GPU this is the assignment problem. With several it still is one as long as memory suffices: on a GPU the
k-th largest job waits for, and is waited for by, k - 1 larger ones, each for its own work, so that it costs
(weight + 2 (k - 1)) × work / speed, wherever the rest goes (Bruno, Coffman and Sethi, CACM 17 (1974), have this for jobs
in a row). Memory, jobs that share with nobody and copies that must part are left to a search over the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SAME = 1e-9
"""Relative difference below which two costs are equal."""


class Job(NamedTuple):
    """One thing to place."""

    work: float
    weight: float
    memory: int
    """MiB."""
    alone: bool
    """Whether it takes no other job beside it."""
    penalty: float
    """Cost of placing it nowhere."""
    family: int
    """Jobs of one family, copies of one task, are equal and never share a GPU."""


class Place(NamedTuple):
    """One GPU to place onto."""

    speed: float
    memory: int
    """MiB that jobs may take; jobs that need none always fit."""


Chosen = list[int | None]
"""GPU of each job; None for one that is placed nowhere."""


def cost_of(jobs: Sequence[Job], places: Sequence[Place], chosen: Sequence[int | None]) -> float:
    """What an assignment costs; it need not be allowed."""
    total = 0.0
    for i, (job, place) in enumerate(zip(jobs, chosen, strict=True)):
        if place is None:
            total += job.penalty
        else:
            waits = sum(min(job.work, jobs[j].work) for j, other in enumerate(chosen) if other == place and j != i)
            total += (job.weight * job.work + waits) / places[place].speed
    return total


def fits(job: Job, place: Place) -> bool:
    """Whether a job fits onto an empty GPU."""
    return job.memory <= place.memory or job.memory == 0


def joins(job: Job, others: Sequence[Job], place: Place, *, share: bool) -> bool:
    """Whether a job may be put beside others on a GPU."""
    if not fits(job, place):
        return False
    if not others:
        return True
    if not share or job.alone or any(other.alone or other.family == job.family for other in others):
        return False
    return job.memory == 0 or job.memory + sum(other.memory for other in others) <= place.memory


def grows(job: Job, others: Sequence[Job], place: Place) -> float:
    """What a job adds on a GPU: its own time, and the waiting for and of those that are there."""
    return (job.weight * job.work + 2 * sum(min(job.work, other.work) for other in others)) / place.speed
