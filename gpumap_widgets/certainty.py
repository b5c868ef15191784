"""How sure a statement is, and what backs it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum


class Certainty(StrEnum):
    """How sure a prediction is. Ordered: ``least`` picks the weakest.

    ``certain``: NVIDIA documents it. ``likely``: read in source or seen in reports that all agree. ``guess``: the best
    rule says so, evidence is thin. ``unknown``: no source tells; what is shown is only the most plausible reading.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"
    UNKNOWN = "unknown"

    @property
    def rank(self) -> int:
        """0 for certain, 3 for unknown."""
        return _RANK[self]


_RANK = {certainty: rank for rank, certainty in enumerate(Certainty)}


def least(certainties: Iterable[Certainty]) -> Certainty:
    """The weakest of some certainties; certain when there is none."""
    return max(certainties, key=_RANK.__getitem__, default=Certainty.CERTAIN)


class Basis(IntEnum):
    """What backs a rule, strongest first."""

    DOCUMENTED = 0
    SOURCE = 1
    REPORTED = 2
    INFERRED = 3
    UNKNOWN = 4

    @property
    def certainty(self) -> Certainty:
        """What may be claimed on this basis: documented is certain, no source is unknown, the rest likely at most."""
        return _CLAIM[self]


_CLAIM = {
    Basis.DOCUMENTED: Certainty.CERTAIN,
    Basis.SOURCE: Certainty.LIKELY,
    Basis.REPORTED: Certainty.LIKELY,
    Basis.INFERRED: Certainty.LIKELY,
    Basis.UNKNOWN: Certainty.UNKNOWN,
}
