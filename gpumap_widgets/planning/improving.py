"""A good assignment to start the search from: greedy, then no move of one job and no exchange of two makes it cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .jobs import SAME, Chosen, Job, Place, cost_of, grows, joins


def greedy(jobs: Sequence[Job], places: Sequence[Place], *, share: bool) -> Chosen:
    """Each job in turn goes where it adds least."""
    held: list[list[Job]] = [[] for _ in places]
    found: Chosen = []
    for job in jobs:
        open_ = [
            (grows(job, held[g], place), g) for g, place in enumerate(places) if joins(job, held[g], place, share=share)
        ]
        g = min(open_)[1] if open_ else None
        if g is not None:
            held[g].append(job)
        found.append(g)
    return found


def improved(jobs: Sequence[Job], places: Sequence[Place], start: Chosen, *, share: bool) -> Chosen:
    """An assignment that no move of one job and no exchange of two makes cheaper: a good start of the search."""
    best, least, better = list(start), cost_of(jobs, places, start), True
    while better:
        better = False
        for move in _moves(len(jobs), len(places)):
            other = _moved(best, *move[:2], exchange=move[2])
            cost = cost_of(jobs, places, other) if other != best else least
            if cost < least * (1 - SAME) and _sound(jobs, places, other, share=share):
                best, least, better = other, cost, True
    return best


def _moves(jobs: int, places: int) -> Iterator[tuple[int, int, bool]]:
    for i in range(jobs):
        yield from ((i, g, False) for g in range(places))
        yield from ((i, j, True) for j in range(i))


def _moved(chosen: Chosen, i: int, target: int, *, exchange: bool) -> Chosen:
    """Job i on GPU ``target``, or exchanged with job ``target``."""
    other = list(chosen)
    if exchange:
        other[i], other[target] = other[target], other[i]
    else:
        other[i] = target
    return other


def _sound(jobs: Sequence[Job], places: Sequence[Place], chosen: Chosen, *, share: bool) -> bool:
    held: list[list[Job]] = [[] for _ in places]
    for job, g in zip(jobs, chosen, strict=True):
        if g is not None:
            if not joins(job, held[g], places[g], share=share):
                return False
            held[g].append(job)
    return True
