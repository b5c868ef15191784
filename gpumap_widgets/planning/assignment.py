"""Which job goes onto which GPU: exact, by the assignment problem and a search that its answers keep short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .hungarian import cheapest
from .improving import greedy, improved
from .jobs import SAME, Chosen, Job, Place, cost_of, grows, joins

NODES = 2000
"""Steps after which the search gives up proving that nothing is better: about a second."""


class Assignment(NamedTuple):
    """What was found."""

    places: tuple[int | None, ...]
    """GPU of each job; None for one that is placed nowhere."""
    proven: bool
    """Whether nothing is cheaper; False when the search was stopped."""


def assign(jobs: Sequence[Job], places: Sequence[Place], *, share: bool, nodes: int = NODES) -> Assignment:
    """The cheapest assignment of jobs to GPUs; ``share`` allows several on one GPU."""
    order = sorted(range(len(jobs)), key=lambda i: (-jobs[i].penalty, -jobs[i].memory, jobs[i].family, i))
    search = _Search([jobs[i] for i in order], places, share=share, nodes=nodes)
    found: Chosen = [None] * len(jobs)
    for i, place in zip(order, search.run(), strict=True):
        found[i] = place
    return Assignment(tuple(found), search.left > 0)


class _Search:
    """Depth first over the jobs, the most important and largest first."""

    def __init__(self, jobs: Sequence[Job], places: Sequence[Place], *, share: bool, nodes: int) -> None:
        self.jobs, self.places, self.share, self.left = jobs, places, share, nodes
        self.never = 4 * sum(job.penalty for job in jobs) + 1
        self.held: list[list[Job]] = [[] for _ in places]
        self.chosen: Chosen = []
        self.best: Chosen = []
        self.least = float("inf")

    def run(self) -> Chosen:
        self.best = improved(self.jobs, self.places, greedy(self.jobs, self.places, share=self.share), share=self.share)
        self.least = cost_of(self.jobs, self.places, self.best)
        self._down(0.0)
        return self.best

    def _better(self, cost: float) -> bool:
        return cost < self.least * (1 - SAME)

    def _down(self, spent: float) -> None:
        """Place the rest of the jobs, the cost of those that are placed being ``spent``."""
        self.left -= 1
        if self.left <= 0 or not self._better(spent + self._rest()):
            return
        rest, relaxed = self._relaxed()
        if not self._better(spent + rest):
            return
        if self._allowed(relaxed):
            self.best, self.least = [*self.chosen, *relaxed], spent + rest
            return
        i = len(self.chosen)
        for place, added in self._choices(i, relaxed[0]):
            self.chosen.append(place)
            if place is not None:
                self.held[place].append(self.jobs[i])
            self._down(spent + added)
            self.chosen.pop()
            if place is not None:
                self.held[place].pop()

    def _choices(self, i: int, first: int | None) -> list[tuple[int | None, float]]:
        """Where a job may go, with what it adds to the cost; what the relaxed problem says comes first.

        Of GPUs that are equal and still empty the first stands for all. Equal jobs take GPUs in rising order.
        """
        job, least = self.jobs[i], -1
        if i and self.jobs[i - 1] == job:
            before = self.chosen[i - 1]
            least = len(self.places) if before is None else before
        seen: set[Place] = set()
        found: list[tuple[int | None, float]] = []
        for g, place in enumerate(self.places):
            if g > least and (self.held[g] or place not in seen) and self._joins(job, g):
                found.append((g, grows(job, self.held[g], place)))
            if not self.held[g]:
                seen.add(place)
        found.sort(key=lambda choice: (choice[0] != first, choice[1]))
        nowhere: tuple[int | None, float] = (None, job.penalty)
        return [nowhere, *found] if first is None else [*found, nowhere]

    def _joins(self, job: Job, g: int) -> bool:
        return joins(job, self.held[g], self.places[g], share=self.share)

    def _open(self, job: Job) -> Iterator[int]:
        return (g for g in range(len(self.places)) if self._joins(job, g))

    def _rest(self) -> float:
        """What the jobs that are left cost at least: each the cheapest that it can have beside those that are placed."""
        left = self.jobs[len(self.chosen) :]
        return sum(
            min((grows(job, self.held[g], self.places[g]) for g in self._open(job)), default=job.penalty)
            for job in left
        )

    def _relaxed(self) -> tuple[float, Chosen]:
        """The cheapest places of the jobs that are left, if they could stand beside each other at will.

        Each GPU has slots; the k-th of them costs a job 2 (k - 1) × its work more. No assignment costs less.
        """
        left = self.jobs[len(self.chosen) :]
        if not left:
            return 0.0, []
        deep = [self._depths(g, left) for g in range(len(self.places))]
        slots = [(g, k) for g, depths in enumerate(deep) for k in range(max(depths, default=0))]
        table = []
        for i, job in enumerate(left):
            base = [grows(job, self.held[g], place) for g, place in enumerate(self.places)]
            row = [
                base[g] + 2 * k * job.work / self.places[g].speed if k < deep[g][i] else self.never for g, k in slots
            ]
            table.append([*row, *(job.penalty if j == i else self.never for j in range(len(left)))])
        found = cheapest(table)
        cost = sum(table[i][j] for i, j in enumerate(found))
        return cost, [slots[j][0] if j < len(slots) else None for j in found]

    def _depths(self, g: int, left: Sequence[Job]) -> list[int]:
        """How many of the jobs that are left can be on a GPU together, at most, each of them among these."""
        room = self.places[g].memory - sum(job.memory for job in self.held[g])
        fit = [self._joins(job, g) for job in left]
        sizes = sorted((job.memory, i) for i, job in enumerate(left) if fit[i] and not job.alone)
        return [self._beside(i, job, sizes, room) if fit[i] else 0 for i, job in enumerate(left)]

    def _beside(self, i: int, job: Job, sizes: Sequence[tuple[int, int]], room: int) -> int:
        count = 1
        if job.alone or not self.share:
            return count
        room -= job.memory
        for size, j in sizes:
            room -= size
            if j == i:
                room += size
            elif size and room < 0:
                break
            else:
                count += 1
        return count

    def _allowed(self, relaxed: Sequence[int | None]) -> bool:
        """Whether places of the jobs that are left can be had all at once."""
        held = [list(jobs) for jobs in self.held]
        for job, g in zip(self.jobs[len(self.chosen) :], relaxed, strict=True):
            if g is not None:
                if not joins(job, held[g], self.places[g], share=self.share):
                    return False
                held[g].append(job)
        return True
