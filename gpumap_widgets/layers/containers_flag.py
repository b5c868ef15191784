"""The value of ``docker run --gpus``, taken apart as the docker CLI does: one line of CSV, keys and counts.

Source: docker/cli opts/gpus.go; docker 28.2.2 run against a daemon that recorded the requests.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..frozen import FrozenDict
from ..mapping import Message

_WHOLE = re.compile(r"[+-]?\d+\Z", re.ASCII)
_KEYS = ("driver", "count", "device", "capabilities", "options")


class Request(NamedTuple):
    """One device request, as the daemon gets it."""

    number: int = 0
    """-1 for all; 0 where the ids say which."""
    ids: tuple[str, ...] = ()
    driver: str = ""
    capabilities: tuple[str, ...] = ("gpu",)


class Refused(NamedTuple):
    """Why a value is none."""

    why: Message


def _refused(key: str, /, **fields: Any) -> Refused:
    return Refused(Message(key, FrozenDict(fields)))


def read_gpus(value: str) -> Request | Refused:
    """What ``--gpus`` asks the daemon for, or what the CLI says to it. Never raises."""
    fields = read_fields(value)
    if isinstance(fields, Refused):
        return fields
    request, seen = Request(), set[str]()
    for field in fields:
        key, equals, given = field.partition("=")
        if key in seen:
            return _refused("docker.gpus.once", key=key)
        seen.add(key)
        if not equals or key == "count":
            count = _count(given if equals else key)
            if isinstance(count, Refused):
                return count
            seen.add("count")
            request = request._replace(number=count)
        elif key == "driver":
            request = request._replace(driver=given)
        elif key == "device":
            request = request._replace(ids=tuple(given.split(",")))
        elif key == "capabilities":
            request = request._replace(capabilities=(*given.split(","), "gpu"))
        elif key not in _KEYS:
            return _refused("docker.gpus.key", key=key, field=field)
    if "count" not in seen and "device" not in seen:
        request = request._replace(number=1)
    return request


def _count(text: str) -> int | Refused:
    if text == "all":
        return -1
    if not _WHOLE.match(text):
        return _refused("docker.gpus.count", text=text)
    if len(text) > len("+9223372036854775807") or not -(2**63) <= int(text) < 2**63:
        return _refused("docker.gpus.range", text=text)
    return int(text)


def read_fields(text: str) -> list[str] | Refused:
    """The fields of the first line of CSV that is not empty, as Go's encoding/csv reads it."""
    text = text.replace("\r\n", "\n").lstrip("\n")
    if not text:
        return _refused("docker.gpus.eof")
    fields: list[str] = []
    at = 0
    while True:
        if text.startswith('"', at):
            found = _quoted(text, at + 1)
        else:
            end = next((i for i in range(at, len(text)) if text[i] in ",\n"), len(text))
            quote = text.find('"', at, end)
            found = (text[at:end], end) if quote < 0 else _refused("docker.gpus.bare-quote", column=quote + 1)
        if isinstance(found, Refused):
            return found
        field, at = found
        fields.append(field)
        if at >= len(text) or text[at] == "\n":
            return fields
        at += 1


def _quoted(text: str, at: int) -> tuple[str, int] | Refused:
    """A field in quotes from behind the first one, and where it ends."""
    pieces: list[str] = []
    while True:
        end = text.find('"', at)
        if end < 0:
            return _refused("docker.gpus.quote", column=len(text) + 1)
        pieces.append(text[at:end])
        after = text[end + 1 : end + 2]
        if after != '"':
            closed = after in ("", ",", "\n")
            return ("".join(pieces), end + 1) if closed else _refused("docker.gpus.quote", column=end + 1)
        pieces.append('"')
        at = end + 2
