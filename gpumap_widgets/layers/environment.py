"""Environment variables set for a process: the plainest layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..topology import Topology
from .base import LayerRow, View

_QUOTED = 200
"""How much of a value a sentence quotes."""
_SOURCE = "POSIX environ; both variables are read once, at cuInit, in no order of their own"


def apply(view: View, options: Mapping[str, Any], _: Topology) -> tuple[tuple[View, ...], tuple[Step, ...]]:
    """Set the variables in ``options["set"]``."""
    changes: Mapping[str, str] = options.get("set", FrozenDict())
    steps = tuple(
        Step("environment", _set, (name, value), Certainty.CERTAIN, _SOURCE)
        for name, value in changes.items()
        if name in (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES)
    )
    return (view.with_env(changes),), steps


def _set(name: str, value: str) -> Message:
    shown = value if len(value) <= _QUOTED else f"{value[:_QUOTED]}…"
    return Message("step.set" if value else "step.set-empty", FrozenDict({"name": name, "value": shown}))


def problem(options: Mapping[str, Any]) -> str | None:
    """Options hold one mapping, ``set``, from names to texts."""
    given = options.get("set", FrozenDict())
    if not isinstance(given, Mapping):
        return f"“set” is {given!r}, no mapping"
    odd = [name for name, value in given.items() if not isinstance(value, str)]
    return f"the value of {odd[0]} is {given[odd[0]]!r}, no text" if odd else None


ENVIRONMENT_ROW = LayerRow(apply, problem, _SOURCE)
