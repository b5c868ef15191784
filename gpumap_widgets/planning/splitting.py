"""Dividing a batch among GPUs of different speed: whole samples, none over its limit, the slowest part as short as can be."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

_SHY = 1 - 1e-9
"""Keeps the start of the search below the optimum in spite of rounding."""


def even_time(samples: float, seconds: Sequence[float], limits: Sequence[int | None]) -> float:
    """The time for which all GPUs that are not at their limit work, if samples could be cut. ∞ when they do not fit.

    ``seconds`` a sample, by GPU. Without limits: samples / Σ (1 / seconds).
    """
    left, rates = float(samples), {i: 1 / s for i, s in enumerate(seconds)}
    ends = sorted((limit * seconds[i], i) for i, limit in enumerate(limits) if limit is not None)
    for end, i in ends:  # those that reach their limit first take just that
        total = sum(rates.values())
        if total > 0 and left / total <= end:
            return left / total
        left -= limits[i] or 0
        del rates[i]
    longest = ends[-1][0] if ends else 0.0
    if rates:
        return max(longest, left / sum(rates.values()))
    return longest if left <= samples * (1 - _SHY) else math.inf


def balanced(samples: int, seconds: Sequence[float], limits: Sequence[int | None]) -> tuple[int, ...] | None:
    """How many samples each GPU takes so that the longest part is shortest; None when they do not all fit.

    ``seconds`` a sample, by GPU, positive and finite; ``limits`` samples that fit, None for any number. Exact: no other
    whole numbers give a shorter longest part. The time of the longest part is one of k × seconds; what is certainly
    below it is dealt out at once, the rest goes one by one to the GPU that is done first with it.
    """
    if all(limit is not None for limit in limits) and sum(limit or 0 for limit in limits) < samples:
        return None
    start = even_time(samples, seconds, limits) * _SHY
    parts = [_most(int(start / s), limit) for s, limit in zip(seconds, limits, strict=True)]
    queue = [((parts[i] + 1) * s, i) for i, s in enumerate(seconds) if _room(parts[i], limits[i])]
    heapq.heapify(queue)
    for _ in range(samples - sum(parts)):
        _, i = heapq.heappop(queue)
        parts[i] += 1
        if _room(parts[i], limits[i]):
            heapq.heappush(queue, ((parts[i] + 1) * seconds[i], i))
    return tuple(parts)


def _most(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


def _room(count: int, limit: int | None) -> bool:
    return limit is None or count < limit
