"""What values the options of a layer may have, as a table; a row's ``problem`` is made of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_LARGEST = 10**15
_QUOTED = 60
_LONGEST_NUMBER = 20
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)


class Shape(NamedTuple):
    """One kind of value."""

    fits: Callable[[Any], bool]
    otherwise: str
    """What a value that does not fit is not: ``no text``."""


def _number(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _amount(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value < _LARGEST


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(map(fits, value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


TEXT = Shape(_text, "no text")
NUMBER = Shape(_number, "no whole number")
SWITCH = Shape(lambda value: isinstance(value, bool), "neither true nor false")
TEXTS = Shape(_list_of(_text), "no list of texts")
NUMBERS = Shape(_list_of(_number), "no list of whole numbers")
AMOUNTS = Shape(_list_of(_amount), "no list of amounts")
TEXT_OR_NUMBER = Shape(lambda value: _text(value) or _number(value), "neither text nor a whole number")
TABLE = Shape(
    lambda value: isinstance(value, Mapping) and all(map(_text, value)) and all(map(_text, value.values())),
    "no table of texts",
)


def shaped(**shapes: Shape) -> Callable[[Mapping[str, Any]], str | None]:
    """A row's ``problem``: the first option whose value does not fit; None where all do. Absent or None always fits."""
    shapes = {"unrecognised": TEXTS, "expand": TABLE, "unknown": TABLE, **shapes}

    def problem(options: Mapping[str, Any]) -> str | None:
        for key, shape in shapes.items():
            value = options.get(key)
            if value is not None and not shape.fits(value):
                shown = repr(value)
                shown = shown if len(shown) <= _QUOTED else f"{shown[:_QUOTED]}…"
                return f"“{key}” is {shown}, {shape.otherwise}"
        return None

    return problem


def whole(text: str) -> int | None:
    """What Python's ``int()`` makes of a text; None where it raises, or where the number is absurd."""
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < _LARGEST else None


def count_of(text: str | None) -> int | None:
    """A plain count in at most five ASCII digits, as an option gives it; None for any other text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < len("100000") else None


def amount_of(text: str) -> float | None:
    """An amount such as ``0.5``; None for any other text."""
    return float(text) if _AMOUNT.fullmatch(text.strip()) else None


def number_of(value: Any) -> int | None:
    """A whole number that is given as one or as text; None for anything else."""
    return value if _number(value) else whole(value) if isinstance(value, str) else None


def facts(assume: Mapping[str, Any], **shapes: Shape) -> dict[str, Any]:
    """What ``assume`` says of these options. Values of another type are passed over; a number may stand for its text."""
    found = {}
    for key, shape in shapes.items():
        value = assume.get(key)
        value = str(value) if shape is TEXT and type(value) in (int, float) else value
        value = tuple(value) if isinstance(value, list) else value
        if value is not None and shape.fits(value):
            found[key] = value
    return found


def texts_of(assume: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """A table of texts in ``assume``, such as ``files``: path → what the file says."""
    table = assume.get(name)
    return {k: v for k, v in table.items() if _text(k) and _text(v)} if isinstance(table, Mapping) else {}


_VERSION = re.compile(r"v?(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?", re.ASCII)


def version(text: Any) -> tuple[int, int, int] | None:
    """``2.9.1+cu130`` as numbers; None for a text that does not begin like a version."""
    found = _VERSION.match(text) if isinstance(text, str) else None
    return None if found is None else (int(found[1]), int(found[2] or 0), int(found[3] or 0))


def older(text: Any, than: tuple[int, int, int]) -> bool:
    """Whether a version is known and older than another; an unknown one is taken as the newest."""
    known = version(text)
    return known is not None and known < than
