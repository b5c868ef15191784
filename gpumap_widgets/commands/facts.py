"""Facts that no command line tells, as a person writes them: ``allocated=1,2 constrain_devices=yes torch=2.9``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FACT = re.compile(r"([A-Za-z_][\w-]*)\s*=\s*([^\s;]*)[\s;]*", re.ASCII)
_LISTS = frozenset({"allocated"})
_WORDS: Mapping[str, bool] = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


class OddFacts(ValueError):
    """The text is no list of facts; ``at`` is where it stops being one."""

    def __init__(self, at: str) -> None:
        super().__init__(at)
        self.at = at


def read_facts(text: str) -> dict[str, Any]:
    """``name=value`` pairs as the ``assume`` of `Scenario.from_command`. Raises OddFacts for any other text.

    Whole numbers, ``yes`` and ``no`` become values of their type; ``allocated`` is a list of nvidia-smi indices.
    """
    found: dict[str, Any] = {}
    at, text = 0, text.strip()
    while at < len(text):
        match = _FACT.match(text, at)
        if match is None:
            raise OddFacts(text[at : at + 40])
        name = match[1].replace("-", "_")
        found[name] = _value(name, match[2])
        at = match.end()
    return found


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        entries = [entry for entry in text.split(",") if entry]
        if not all(entry.isascii() and entry.isdigit() and len(entry) < len("100000") for entry in entries):
            raise OddFacts(f"{name}={text}"[:40])
        return tuple(int(entry) for entry in entries)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.isascii() and text.isdigit() and len(text) < len("1000000000"):
        return int(text)
    return text


def facts_text(assume: Mapping[str, Any]) -> str:
    """The inverse of `read_facts`, for facts of these types."""
    return " ".join(f"{name}={_shown(value)}" for name, value in assume.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
