"""The table that says which task runs on which GPUs: ``name uuid,uuid  # comment``, one task a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..explanation import clip, message
from ..mapping import Message
from ..texts import say
from ..topology import Gpu

_LIMIT = 1_000_000
"""Longest text that is read, in characters."""
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class TableRow(NamedTuple):
    """One task of a table."""

    name: str
    uuids: tuple[str, ...]
    comment: str
    line: int
    """Where it stands, from 1 on."""


class Table(NamedTuple):
    """What a text says."""

    rows: tuple[TableRow, ...]
    problems: tuple[Message, ...]
    """Lines that are no row, with the reason."""


def table_text(rows: Iterable[tuple[str, Gpu | None, str]]) -> str:
    """The table of some tasks. A task without a GPU, or on one without a UUID, is a comment that says why."""
    lines = []
    for name, gpu, reason in rows:
        if gpu is None or gpu.uuid is None:
            why = reason if gpu is None else say("task.no-uuid", gpu=gpu.label)
            lines.append(f"# {name}: {_one_line(why)}")
        else:
            lines.append(f"{name} {gpu.uuid}  # {_one_line(f'{gpu.short_name}: {reason}')}")
    return "".join(f"{line}\n" for line in lines)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def read_task_table(text: str) -> Table:
    """The rows of a table, and what is wrong with the lines that are none. Never raises.

    A name is one that a task may have, UUIDs are full ones (``GPU-…``, ``MIG-…``), none twice in a row; a name stands
    once. Empty lines and what follows ``#`` say nothing.
    """
    rows: list[TableRow] = []
    problems: list[Message] = []
    if len(text) > _LIMIT:
        return Table((), (message("task.table-long", limit=_LIMIT),))
    names: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        said, _, comment = line.partition("#")
        words = said.split(None, 1)
        if not words:
            continue
        uuids = tuple(part.strip() for part in words[1].split(",")) if len(words) == 2 else ()
        problem = _problem(words[0], uuids, names)
        if problem is not None:
            problems.append(message("task.table-line", line=number, why=problem))
            continue
        names.add(words[0])
        rows.append(TableRow(words[0], uuids, comment.strip(), number))
    return Table(tuple(rows), tuple(problems))


def _problem(name: str, uuids: tuple[str, ...], names: set[str]) -> Message | None:
    if not _NAME.fullmatch(name):
        return message("task.table-name", name=clip(name))
    if name in names:
        return message("task.table-again", name=name)
    odd = next((uuid for uuid in uuids if not _UUID.fullmatch(uuid)), None if uuids else "")
    if odd is not None:
        return message("task.table-uuid", uuid=clip(odd)) if odd else message("task.table-none", name=name)
    return message("task.table-twice", name=name) if len(set(uuids)) < len(uuids) else None
