"""systemd units as text: the environment that a service starts with, and the command that it starts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ..layers import environment
from ..scenario import Layer, is_relevant

_SECTION = re.compile(r"^\s*\[Service\]\s*$", re.MULTILINE)
_LINE = re.compile(r"^\s*(Environment|EnvironmentFile|UnsetEnvironment|PassEnvironment|ExecStart)\s*=\s*(.*)$")
_COMMAND_PREFIX = "@-:+!"


def looks_like(text: str) -> bool:
    """Whether a text is a unit or a drop-in of a service."""
    return _SECTION.search(text) is not None


def reader(read_shell: Callable[[str, Mapping[str, str], Mapping[str, Any]], tuple[Layer, ...]]) -> Any:
    """How a unit is read; ``read_shell`` reads the command behind ExecStart.

    A service inherits nothing from a shell: its environment starts empty (systemd.exec).
    """

    def read(text: str, _: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
        given: dict[str, str] = {}
        unknown: dict[str, None] = {}
        command = ""
        files = assume.get("files") or {}
        for line in text.replace("\\\n", " ").splitlines():
            found = _LINE.match(line)
            if found is None:
                continue
            key, value = found[1], found[2].strip()
            if key == "ExecStart":
                command = value.lstrip(_COMMAND_PREFIX)
            elif key == "Environment":
                given |= _assignments(value) if value else {}
            elif key == "UnsetEnvironment":
                given = {name: held for name, held in given.items() if name not in value.split()}
            elif key == "EnvironmentFile":
                content = files.get(value.lstrip("-")) if isinstance(files, Mapping) else None
                given |= _file(content) if isinstance(content, str) else {}
                unknown |= {} if isinstance(content, str) else {"CUDA_VISIBLE_DEVICES": None}
        known = {name: held for name, held in given.items() if is_relevant(name)}
        lost = tuple(name for name in unknown if name not in known)
        layer = environment(known, clear=True, unknown=lost, via="systemd")
        return (layer, *(read_shell(command, {}, assume) if command else ()))

    return read


def _assignments(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _file(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    return {k: v for line in lines if line and line[0] not in "#;" for k, v in _assignments(line).items()}
