"""How a Ray node hands out its GPUs: slots by number, shared ones where a fraction is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from ..scenario import CUDA_VISIBLE_DEVICES
from .base import View

_GRAIN = 10_000
"""Ray counts in steps of a ten-thousandth."""


def original_ids(view: View) -> list[str] | None:
    """The entries of the list that Ray was started with; None where it is unset. ``NoDevFiles`` counts as empty."""
    listed = view.env.get(CUDA_VISIBLE_DEVICES)
    if listed is None:
        return None
    return [] if listed in ("", "NoDevFiles") else listed.split(",")


def python_set(slots: Iterable[int]) -> list[int]:
    """Whole numbers in the order in which CPython lists a set of them, as Ray does (run: 7, 8, 9 → 8, 9, 7)."""
    return list(set(slots))


class NodePool:
    """The free slots of a node (ray 2.60, run): a fraction takes the fullest slot that has room, whole numbers free ones."""

    def __init__(self, count: int) -> None:
        self._free = [_GRAIN] * count

    def take(self, amount: float) -> tuple[int, ...] | None:
        """The slots that a worker gets; None where it has to wait."""
        wanted = round(amount * _GRAIN)
        if wanted <= 0:
            return ()
        if wanted >= _GRAIN:
            free = [slot for slot, left in enumerate(self._free) if left == _GRAIN]
            held = free[: wanted // _GRAIN]
            if len(held) < wanted // _GRAIN:
                return None
            for slot in held:
                self._free[slot] = 0
            return tuple(held)
        room = [(left, slot) for slot, left in enumerate(self._free) if left >= wanted]
        if not room:
            return None
        _, slot = min(room)
        self._free[slot] -= wanted
        return (slot,)
