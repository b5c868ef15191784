"""How rows of the table say what they did and what they refuse."""

from __future__ import annotations

from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from .base import MOST_PROCESSES, Outcome

_QUOTED = 80


def quoted(text: object) -> str:
    """A text from outside as a sentence may quote it."""
    plain = str(text)
    return plain if len(plain) <= _QUOTED else f"{plain[:_QUOTED]}…"


class Teller:
    """The steps and refusals of one tool: its family and its source are the same in all of them."""

    def __init__(self, family: str, source: str) -> None:
        self._family, self._source = family, source

    def step(self, key: str, certainty: Certainty = Certainty.CERTAIN, /, source: str = "", **fields: Any) -> Step:
        """What the tool did, as a key of `texts` and its fields."""
        shown = {name: quoted(value) if isinstance(value, str) else value for name, value in fields.items()}
        return Step(self._family, Message, (key, FrozenDict(shown)), certainty, source or self._source)

    @staticmethod
    def refused(
        key: str, steps: tuple[Step, ...] = (), certainty: Certainty = Certainty.CERTAIN, /, **fields: Any
    ) -> Outcome:
        """What the tool refuses, in its own words."""
        shown = {name: quoted(value) if isinstance(value, str) else value for name, value in fields.items()}
        return Outcome((), steps, error=Message(key, FrozenDict(shown)), certainty=certainty)


def crowd(count: int) -> Outcome | None:
    """A refusal where more processes would start than are drawn; None for a number that is."""
    if count <= MOST_PROCESSES:
        return None
    return Teller.refused("error.too-many-processes", (), Certainty.UNKNOWN, most=MOST_PROCESSES)
