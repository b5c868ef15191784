"""What a drawing of the map is made of: columns of chips and the lines between them, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from ..mapping import Prediction, Process

MOST_ROWS = 32


@dataclass(frozen=True)
class Columns:
    """Where each column stands; None for one that this map does not have."""

    smi: int
    container: int | None
    """What containers and cgroups leave."""
    order: int
    list: int
    process: int
    ranks: int | None
    """The workers of a launcher."""

    @property
    def width(self) -> int:
        """How many there are."""
        return sum(getattr(self, one.name) is not None for one in fields(self))


def columns(prediction: Prediction, process: Process) -> Columns:
    """The columns that a map needs: a container only where one takes GPUs away, ranks only where somebody chooses."""
    places = iter(range(len(fields(Columns))))
    boxed = process.accessible != prediction.scenario.topology.usable
    ranked = len(prediction.processes) > 1 or process.chosen is not None
    return Columns(
        next(places),
        next(places) if boxed else None,
        next(places),
        next(places),
        next(places),
        next(places) if ranked else None,
    )


class Chip(NamedTuple):
    """One box."""

    column: int
    row: int
    lead: str
    """The number in front; "" for none."""
    title: str
    sub: str
    hover: str
    position: int | None
    """The GPU that it shows, as a position in ``topology.gpus``; None for a token that names none."""
    faded: bool


class Line(NamedTuple):
    """One line between two neighbouring columns."""

    position: int
    column: int
    row: int
    to_row: int
    certain: bool
    faded: bool


class Expected(NamedTuple):
    """What one may have expected: a faint line from a GPU to the number that it does not have."""

    position: int
    row: int
    column: int
    to_row: int


class Stub(NamedTuple):
    """A line that ends: a GPU that goes no further."""

    position: int
    column: int
    row: int
    label: str


class GraphSpec(NamedTuple):
    """What to draw. Column c, row r; row 0 is on top."""

    heads: tuple[tuple[str, str], ...]
    """Title and subtitle of each column."""
    chips: tuple[Chip, ...]
    lines: tuple[Line, ...]
    stubs: tuple[Stub, ...]
    rows: int
    alt: str
    """The same in words."""
    columns: Columns = Columns(0, None, 1, 2, 3, None)
    expected: tuple[Expected, ...] = ()


def short(text: str, width: int) -> str:
    """At most ``width`` characters, the end cut with an ellipsis."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
