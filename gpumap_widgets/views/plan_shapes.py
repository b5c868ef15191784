"""What a drawing of a plan is made of: boxes, lines and labels as plain data. No plotly here.

x runs from 0 to 100 over the width, y in rows from the top down; a box is centred on its row.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_ROWS = 24
HALF = 0.31
"""Half the height of a bar, in rows."""


class Box(NamedTuple):
    """A rectangle."""

    x0: float
    x1: float
    row: float
    position: int | None
    """The GPU whose colour it has; None for one without a colour."""
    style: str
    """``busy``, ``wait``, ``exchange``, ``bar``, ``frame``, ``task`` or ``missing``."""
    hover: str = ""


class Rule(NamedTuple):
    """A straight line."""

    x0: float
    x1: float
    row0: float
    row1: float
    style: str
    """``grid`` or ``range``."""


class Label(NamedTuple):
    """A text, its left edge, middle or right edge at x."""

    x: float
    row: float
    text: str
    anchor: str = "left"
    small: bool = False
    strong: bool = False


class PlanDrawing(NamedTuple):
    """What to draw."""

    boxes: tuple[Box, ...]
    rules: tuple[Rule, ...]
    labels: tuple[Label, ...]
    rows: float
    alt: str
    """The same in words."""


class Canvas:
    """Boxes, lines and labels as they come."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.rules: list[Rule] = []
        self.labels: list[Label] = []

    def drawing(self, rows: float, alt: str) -> PlanDrawing:
        """The finished drawing."""
        return PlanDrawing(tuple(self.boxes), tuple(self.rules), tuple(self.labels), rows, alt)
