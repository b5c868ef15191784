"""Figures as people say them: three digits, a range where it is one, "at least" and "unknown" where an end is open."""

from __future__ import annotations

import math

from ..texts import say
from .ranges import Range


def digits(value: float, significant: int = 3) -> str:
    """A positive number with so many digits that count, never in powers of ten: ``13.2``, ``0.746``, ``3``."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "∞"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):.{max(0, places)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share in per cent: one place below ten, none above: ``7.6``, ``98``."""
    value = share * 100
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def _worded(range_: Range, one: str, two: tuple[str, str], unit: str) -> str:
    if range_.exact or (two[0] == two[1] and range_.known):
        return say("amount.exact", value=one, unit=unit)
    if range_.known:
        return say("amount.range", low=two[0], high=two[1], unit=unit)
    if math.isfinite(range_.high):
        return say("amount.at-most", value=two[1], unit=unit)
    return say("amount.at-least", value=two[0], unit=unit) if range_.low > 0 else say("amount.unknown")


def amount(range_: Range, unit: str = "", significant: int = 3) -> str:
    """A figure with its unit: ``13.2 s``, ``2.5 to 5.1 s``, ``at least 13.2 s``, ``unknown``."""
    low, high = digits(range_.low, significant), digits(range_.high, significant)
    return _worded(range_, low, (low, high), f" {unit}" if unit else "").strip()


def times(range_: Range) -> str:
    """A factor, two digits: ``3.3``, ``1.5 to 3.4``."""
    return amount(range_, "", 2)


def share(range_: Range) -> str:
    """A share in per cent: ``7.6 %``, ``8 to 40 %``."""
    if range_.low <= 0 and range_.high >= 1:
        return say("amount.unknown")
    low, high = percent(range_.low), percent(range_.high)
    known = Range(max(range_.low, 1e-12), range_.high)  # nothing is a share like any other
    return _worded(range_ if range_.exact else known, low, (low, high), " %")


def more(range_: Range) -> str:
    """What a factor wins over 1, in per cent: ``23 %`` for 1.23; 0 where it wins nothing."""
    return share(Range(max(0.0, range_.low - 1), max(0.0, range_.high - 1)))
