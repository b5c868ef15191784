"""The assignment problem: every row gets a column of its own, at the least cost."""

from __future__ import annotations

import math
from collections.abc import Sequence


def cheapest(costs: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """The column of each row, by shortest augmenting paths, O(rows² × columns); no more rows than columns.

    ``costs`` finite. Kuhn 1955 and Munkres 1957, in the form of Jonker and Volgenant, Computing 38 (1987).
    """
    height, width = len(costs), len(costs[0]) if costs else 0
    u, v = [0.0] * height, [0.0] * width
    owner = [-1] * width
    for row in range(height):
        least, came = [math.inf] * width, [-1] * width
        done: list[int] = []
        open_ = set(range(width))
        current, last = row, -1
        reached = 0.0
        while True:
            prices, price = costs[current], u[current]
            for j in open_:
                detour = reached + prices[j] - price - v[j]
                if detour < least[j]:
                    least[j], came[j] = detour, last
            last = min(open_, key=lambda j: (least[j], j))
            reached = least[last]
            open_.discard(last)
            if owner[last] < 0:
                break
            done.append(last)
            current = owner[last]
        u[row] += reached
        for j in done:
            u[owner[j]] += reached - least[j]
            v[j] -= reached - least[j]
        while came[last] >= 0:
            owner[last] = owner[came[last]]
            last = came[last]
        owner[last] = row
    columns = [-1] * height
    for j, i in enumerate(owner):
        if i >= 0:
            columns[i] = j
    return tuple(columns)
