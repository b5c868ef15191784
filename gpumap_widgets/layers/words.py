"""Words of a command line, as a shell hands them to a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Word(NamedTuple):
    """One word with its quotes taken off."""

    text: str
    """Literal text; where ``open``, a template: ``${NAME}``, ``${NAME:-default}``, ``$$`` for a dollar."""
    open: bool = False
    """It names variables whose values only the process that is started will have."""
    unknown: bool = False
    """It holds something that only a shell could work out (a command substitution); ``text`` is its source."""


_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_]\w*)(?P<default>:?-[^{}]*)?\})", re.ASCII)


def fill(template: str, env: Mapping[str, str]) -> str:
    """A template of a `Word` with the variables of an environment; an unset one becomes nothing, as in a shell."""

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if name is None:
            return "$"
        held = env.get(name)
        if default is not None and (held is None or (default.startswith(":") and not held)):
            return default.lstrip(":")[1:]
        return held or ""

    return _VARIABLE.sub(value, template)


def started(rest: tuple[Word, ...], *, python: bool = True, module: bool = False) -> tuple[Word, ...]:
    """The command that a launcher starts: a script or a module by Python, or a program as it is; () for nothing."""
    first = (Word("python"), *((Word("-m"),) if module else ())) if python else ()
    return (*first, *rest) if rest else ()


def variables(template: str) -> tuple[str, ...]:
    """Names of the variables in a template, in order."""
    return tuple(found["name"] for found in _VARIABLE.finditer(template) if found["name"])
