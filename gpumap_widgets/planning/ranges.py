"""What is known of a figure: a lowest and a highest value. An estimate is never a bare number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class Range(NamedTuple):
    """A figure between ``low`` and ``high``, both included. Equal ends: an exact figure. (0, ∞): unknown."""

    low: float
    high: float

    @property
    def exact(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    @property
    def known(self) -> bool:
        """Whether both ends are told by something."""
        return self.low > 0 and math.isfinite(self.high)

    @property
    def middle(self) -> float:
        """One number to plan with: the geometric mean, as far from the one end as from the other by factor.

        NaN where an end is not known.
        """
        if self.exact:
            return self.low
        return math.sqrt(self.low) * math.sqrt(self.high) if self.known else math.nan

    def times(self, factor: float) -> Range:
        """Both ends times a positive factor."""
        return Range(self.low * factor, self.high * factor)

    def over(self, other: Range) -> Range:
        """The quotient, when the two do not depend on each other."""
        return Range(_quotient(self.low, other.high, 0.0), _quotient(self.high, other.low, math.inf))


UNKNOWN = Range(0.0, math.inf)


def exactly(value: float) -> Range:
    """A figure that is one number."""
    return Range(value, value)


def hull(ranges: Iterable[Range]) -> Range:
    """The smallest range that holds all of them; unknown when there is none."""
    found = list(ranges)
    return Range(min(r.low for r in found), max(r.high for r in found)) if found else UNKNOWN


def _quotient(upper: float, lower: float, otherwise: float) -> float:
    if lower == 0 or (math.isinf(upper) and math.isinf(lower)):
        return otherwise
    return upper / lower
