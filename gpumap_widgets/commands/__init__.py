"""A command as text, read into layers: taken apart as a shell would, recognised by the table of layers, never run.

What cannot be read becomes a layer of kind ``unreadable``, whose prediction says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..scenario import Layer
from . import compose, dockerfile, kubernetes
from .recognise import layers_of
from .shell import LONGEST, Unreadable, read_script
from .statements import Shell

__all__ = ["READERS", "read_command"]

Reader = Callable[[str, Mapping[str, str], Mapping[str, Any]], tuple[Layer, ...]]
READERS: tuple[tuple[Callable[[str], bool], Reader], ...] = (
    (kubernetes.looks_like, kubernetes.read),
    (compose.looks_like, compose.read),
    (dockerfile.looks_like, dockerfile.read),
)
"""Texts that are no command: whether a text looks like one, and how it is read, ``(text, env, assume) -> layers``."""


def read_command(
    command: str, env: Mapping[str, str | None] | None = None, assume: Mapping[str, Any] | None = None
) -> tuple[Layer, ...]:
    """The layers of a command, outermost first, without the environment that it is typed in.

    ``env`` and ``assume`` as in `Scenario.from_command`. Never raises on odd text.
    """
    if len(command) > LONGEST:
        return (Layer("unreadable", {"why": "long"}),)
    held = {name: value for name, value in (env or {}).items() if value is not None}
    try:
        for looks_like, read in READERS:
            if looks_like(command):
                return read(command, held, dict(assume or {}))
        return layers_of(read_script(command), Shell(held), dict(assume or {}))
    except Unreadable as exc:
        return (Layer("unreadable", {"why": exc.why, "at": exc.at}),)
