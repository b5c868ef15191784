"""What a benchmark gives: figures, each with its baseline, its budget and whether it is kept; and how they print."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Aspect = Literal["median", "p90", "ratio", "extra", "most"]
"""What of a figure a budget limits; ``extra`` is what it takes over its baseline, ``most`` its largest value."""


class Skipped(Exception):
    """Raised by a benchmark that cannot run here; its text is the reason."""


def median(values: Sequence[float]) -> float:
    """The middle one; NaN for none."""
    return statistics.median(values) if values else math.nan


def p90(values: Sequence[float]) -> float:
    """The value that nine tenths do not exceed (nearest rank); NaN for none."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else math.nan


@dataclass(frozen=True)
class Budget:
    """A limit, and what it limits."""

    limit: float
    on: Aspect
    goal: float | None = None
    """What we would like; nothing fails for missing it."""

    def text(self, unit: str) -> str:
        """The budget in a few characters: ``ratio ≤ 20 (goal 10)``."""
        sign = {"ratio": "ratio ", "p90": "p90 ", "extra": "+", "median": "", "most": ""}[self.on]
        tail = "" if self.on == "ratio" or not unit else f" {unit}"
        goal = f" (goal {self.goal:g})" if self.goal is not None else ""
        return f"{sign}≤ {self.limit:g}{tail}{goal}"


@dataclass(frozen=True)
class Figure:
    """One line of the table. ``base`` holds the baseline's samples, taken in turn with ``values`` (pairs where both
    have the same number of samples)."""

    what: str
    unit: str
    values: Sequence[float]
    baseline: str = ""
    base: Sequence[float] = ()
    budget: Budget | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """Anything more that the JSON should hold."""

    @property
    def paired(self) -> bool:
        """Whether sample i and baseline sample i were taken side by side."""
        return len(self.values) == len(self.base)

    @property
    def ratio(self) -> float | None:
        """Times the baseline: the median over pairs, or of the medians; None without a baseline."""
        if not self.base:
            return None
        if self.paired:
            return median([value / base for value, base in zip(self.values, self.base, strict=True)])
        return median(self.values) / median(self.base)

    @property
    def extra(self) -> float | None:
        """What it takes over the baseline: the median over pairs, or of the medians; None without a baseline."""
        if not self.base:
            return None
        if self.paired:
            return median([value - base for value, base in zip(self.values, self.base, strict=True)])
        return median(self.values) - median(self.base)

    def judged(self) -> float | None:
        """The number that the budget limits; None without a budget."""
        if self.budget is None:
            return None
        found = {
            "median": median(self.values),
            "p90": p90(self.values),
            "ratio": self.ratio,
            "extra": self.extra,
            "most": max(self.values, default=math.nan),
        }
        return found[self.budget.on]

    @property
    def verdict(self) -> str:
        """``ok``, ``over``, or "" without a budget. A figure that could not be taken is over."""
        judged = self.judged()
        if self.budget is None:
            return ""
        return "ok" if judged is not None and judged <= self.budget.limit else "over"

    def as_json(self) -> dict[str, Any]:
        """The line as plain data."""
        budget = self.budget
        return {
            "what": self.what,
            "unit": self.unit,
            "n": len(self.values),
            "median": median(self.values),
            "p90": p90(self.values),
            "least": min(self.values, default=math.nan),
            "most": max(self.values, default=math.nan),
            "baseline": self.baseline or None,
            "baseline_median": median(self.base) if self.base else None,
            "baseline_p90": p90(self.base) if self.base else None,
            "ratio": self.ratio,
            "extra": self.extra,
            "budget": None if budget is None else {"limit": budget.limit, "on": budget.on, "goal": budget.goal},
            "judged": self.judged(),
            "verdict": self.verdict or None,
            **self.details,
        }


@dataclass(frozen=True)
class Result:
    """What one benchmark found."""

    figures: Sequence[Figure]
    notes: Sequence[str] = ()
    """Sentences that belong under the table."""


def number(value: float | None) -> str:
    """Three digits that count, without powers of ten."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


_HEADS = ("what", "n", "median", "p90", "", "baseline", "median", "ratio", "budget", "")
_LEFT = (0, 4, 5, 8, 9)


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, one a line."""
    rows = [_HEADS]
    for f in figures:
        rows.append(
            (
                f.what,
                str(len(f.values)),
                number(median(f.values)),
                number(p90(f.values)),
                f.unit,
                f.baseline,
                number(median(f.base)) if f.base else "",
                number(f.ratio) if f.base else "",
                f.budget.text(f.unit) if f.budget else "",
                f.verdict,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    lines = [
        "  ".join(
            cell.ljust(w) if i in _LEFT else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)
