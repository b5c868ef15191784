"""Plain settings at the top of a config file: YAML as tools write it, or JSON. Nested settings are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .shapes import whole

_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?", re.ASCII)
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None}


def read_settings(text: str) -> dict[str, Any] | None:
    """The plain settings of a config file; None for a text that is none. Nested settings are left out."""
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return {k: v for k, v in found.items() if not isinstance(v, Mapping | list)}
    settings: dict[str, Any] = {}
    for line in text.splitlines():
        if not line.strip() or line[0] in " \t#-":
            continue
        matched = _LINE.fullmatch(line.rstrip())
        if matched is None:
            return None
        settings[matched[1]] = _scalar((matched[2] or "").strip())
    return settings


def _scalar(text: str) -> Any:
    """A YAML scalar of one line: quoted text, a number, a word."""
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    plain = text.partition(" #")[0].strip()
    if plain.lower() in _WORDS or not plain:
        return _WORDS.get(plain.lower())
    number = whole(plain) if plain.isascii() and "_" not in plain else None
    return plain if number is None else number
