"""Environment variables set for a process: the plainest layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, ENVIRONMENT, Layer, is_relevant
from ..topology import Topology
from .base import LayerRow, Outcome, View
from .words import fill, variables

_QUOTED = 200
"""How much of a value a sentence quotes."""
_SOURCE = "POSIX environ; both variables are read once, at cuInit, in no order of their own"
_NOTHING: Mapping[str, str] = FrozenDict()


def apply(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    """Change the environment.

    ``clear``: start from nothing (``env -i``), but for the names of ``keep``. ``unset``: names. ``default``: values for
    what is unset (``os.environ.setdefault``). ``set``: values. ``expand``: values that name variables of the process
    itself. ``unknown``: names whose values only a shell could work out. ``late``: True when CUDA has started by then,
    so that nothing changes. ``via``: what does it, in a word or two.
    """
    if options.get("late"):
        return Outcome((view,), tuple(_late(options)))
    kept = options.get("keep", ())
    before = {name: view.env[name] for name in kept if name in view.env} if options.get("clear") else view.env
    steps = [] if not options.get("clear") else [_step("step.env.clear", {})]
    changes: dict[str, str | None] = dict.fromkeys(options.get("unset", ()))
    steps += [_step("step.env.unset", {"name": name}) for name in changes if name in before and _shown(name)]
    for name, value in options.get("default", _NOTHING).items():
        held = before.get(name)
        if held is None:
            changes[name] = value
            steps += _set(name, value)
        elif _shown(name):
            steps.append(_step("step.env.kept", {"name": name, "value": clip(held), "given": clip(value)}))
    given = {**options.get("set", _NOTHING)}
    given |= {name: fill(text, before) for name, text in options.get("expand", _NOTHING).items()}
    for name, value in given.items():
        changes[name] = value
        steps += _set(name, value, before.get(name))
    unknown = [name for name in options.get("unknown", ()) if is_relevant(name)]
    steps += [_step("step.env.unknown", {"name": name}, Certainty.UNKNOWN) for name in unknown]
    new = replace(view, env=before).with_env(changes)
    return Outcome((new.doubted(Certainty.UNKNOWN) if any(map(_shown, unknown)) else new,), tuple(steps))


def _shown(name: str) -> bool:
    return name in (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES)


def _set(name: str, value: str, before: str | None = None) -> list[Step]:
    if not _shown(name):
        return []
    if before is not None and before != value:
        return [_step("step.set-over", {"name": name, "value": clip(value), "before": clip(before)})]
    return [_step("step.set" if value else "step.set-empty", {"name": name, "value": clip(value)})]


def _late(options: Mapping[str, Any]) -> list[Step]:
    named = {**options.get("set", _NOTHING), **options.get("default", _NOTHING), **options.get("expand", _NOTHING)}
    return [_step("step.env.late", {"name": n, "value": clip(v)}) for n, v in named.items() if _shown(n)]


def clip(value: str) -> str:
    """A value as a sentence quotes it: its end left out where it is very long."""
    return value if len(value) <= _QUOTED else f"{value[:_QUOTED]}…"


def _step(key: str, fields: Mapping[str, Any], certainty: Certainty = Certainty.CERTAIN) -> Step:
    return Step("environment", Message, (key, FrozenDict(fields)), certainty, _SOURCE)


_MAPPINGS = ("set", "default", "expand")
_NAMES = ("unset", "unknown", "keep")


def problem(options: Mapping[str, Any]) -> str | None:
    """``set``, ``default`` and ``expand`` are mappings from names to texts, ``unset`` and ``unknown`` lists of names."""
    for key in _MAPPINGS:
        given = options.get(key, _NOTHING)
        if not isinstance(given, Mapping):
            return f"“{key}” is {given!r}, no mapping"
        odd = [name for name, value in given.items() if not isinstance(value, str)]
        if odd:
            return f"the value of {odd[0]} is {given[odd[0]]!r}, no text"
    for key in _NAMES:
        names = options.get(key, ())
        if not isinstance(names, tuple) or any(not isinstance(name, str) for name in names):
            return f"“{key}” is {names!r}, no list of names"
    return None


def environment(
    set: Mapping[str, str] = _NOTHING,  # noqa: A002 - the name of the option
    **options: Any,
) -> Layer:
    """A layer that changes variables; the options are those of `apply`."""
    return Layer(ENVIRONMENT, {"set": set, **{k: v for k, v in options.items() if v}})


def needed(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Variables whose values ``expand`` asks for."""
    return tuple(name for text in options.get("expand", _NOTHING).values() for name in variables(text))


ENVIRONMENT_ROW = LayerRow(apply, _SOURCE, problem, "environment")
