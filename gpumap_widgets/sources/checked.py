"""Plain data from outside, checked field by field before anything is made of it: types, ranges, lengths, repeats.

Whoever reads a format catches `OddData` and says it in the words of that format.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..texts import one_line, say

MOST = 4096
"""Most entries of an object."""
Spec = range | int | type[bool]
"""A whole number in a range, a text of at most so many characters, or a flag."""


class OddData(ValueError):
    """Why a text is none of the format that is read."""

    def __init__(self, why: str, kind: str = "broken") -> None:
        super().__init__(why)
        self.why = why
        """In a few words."""
        self.kind = kind
        """``broken`` (damaged), ``not-json`` or ``too-large``."""


def object_in(text: str, limit: int, called: str) -> dict[str, Any]:
    """The JSON object between the outermost braces of a text; ``called``: its name in a complaint. Raises OddData."""
    if len(text) > limit:
        raise OddData("", "too-large")
    start, stop = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[max(start, 0) : stop], object_pairs_hook=_unique, parse_constant=_no_number)
    except OddData:
        raise
    except RecursionError as exc:
        raise OddData(say("capsule.too-deep")) from exc
    except ValueError as exc:
        raise OddData(str(exc), "not-json") from exc
    return object_of(data, called)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise OddData(say("capsule.duplicate", name=shortened(twice)))
    return data


def _no_number(word: str) -> None:
    raise OddData(say("capsule.no-number", word=word))


def fields_of(data: Mapping[str, Any], specs: Mapping[str, Spec], at: str) -> dict[str, Any]:
    """The known fields of an object, each checked; null is as good as absent, unknown ones are left out."""
    where = f"{at}." if at else ""
    known = (name for name in specs if data.get(name) is not None)
    return {name: value_of(data[name], specs[name], where + name) for name in known}


def value_of(value: Any, spec: Spec, where: str) -> Any:
    """The value, if it is what ``spec`` says. Raises OddData, which names the place ``where``."""
    if isinstance(spec, range):
        sound, wanted = type(value) is int and value in spec, "whole"
    elif isinstance(spec, int):
        sound, wanted = type(value) is str and len(value) <= spec, "text"
    else:
        sound, wanted = type(value) is bool, "flag"
    if sound:
        return value
    low, high = (spec.start, spec.stop - 1) if isinstance(spec, range) else (0, 0)
    raise wrong(where, value, say(f"capsule.wanted.{wanted}", low=low, high=high, limit=spec))


def object_of(value: Any, where: str) -> dict[str, Any]:
    """The value, if it is an object of sound size. Raises OddData."""
    if type(value) is not dict or len(value) > MOST:
        raise wrong(where, value, say("capsule.wanted.object", limit=MOST))
    return value


def list_of(value: Any, where: str, limit: int) -> list[tuple[str, Any]]:
    """The entries of a list, each with its place in words."""
    if type(value) is not list or len(value) > limit:
        raise wrong(where, value, say("capsule.wanted.list", limit=limit))
    return [(f"{where}[{i}]", entry) for i, entry in enumerate(value)]


def wrong(where: str, value: object, wanted: str) -> OddData:
    """The error for a value that is not what is wanted there."""
    return OddData(say("capsule.wrong-type", where=shortened(where), got=shown(value), wanted=wanted))


def shown(value: object) -> str:
    """A value of any kind in a few harmless words."""
    if isinstance(value, str):
        return say("capsule.got.text", text=shortened(value))
    if isinstance(value, list | dict):
        return say("capsule.got.list" if isinstance(value, list) else "capsule.got.object")
    return say("capsule.got.number", number=shortened(json.dumps(value)))


def shortened(text: str) -> str:
    """A text from outside in a few characters that can be printed."""
    shown = one_line(text[:60])
    return f"{shown}…" if len(text) > len(shown) else shown


def is_time(text: str) -> bool:
    """Whether it is an ISO time with its zone."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
