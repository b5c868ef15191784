"""``nvidia-smi --query-gpu=… --format=csv``: with a header, with the command in sight, or with neither."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .clean import Text
from .columns import FIELDS, fill, guess_fields
from .names import looks_like_gpu
from .records import Numbering, Record, Section

_COMMAND = re.compile(r"--query-gpu(?:=|\s{1,9})[\"']?([a-z_.,A-Z0-9\s]{1,8000})")
_CHOSEN = re.compile(r"nvidia-smi[^\n|;&]{0,400}?\s(?:-i|--id)(?:=|\s{0,9})([0-9a-zA-Z:.,-]{1,200})")
_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]{1,80})(?:\s{0,9}\[[^\]]{1,8}\])?")
_CELL_MARKS = re.compile(r"^[\s\"'`|*-]+|[\s\"'`|\\]+$")
_PROSE = re.compile(r".*:\s{1,9}")


def read(text: Text) -> Iterator[Section]:
    """The rows behind a header; without one, rows in the columns of the command; without both, guessed columns."""
    fields: list[str] = []
    separator = ","
    section: Section | None = None
    loose: list[tuple[int, list[str]]] = []
    pending: tuple[int, list[str]] | None = None
    for line, at in zip(text.lines, text.numbers, strict=True):
        found = _header(line)
        if found is not None:
            if section is not None:
                yield from _finished(text, section, fields, pending)
            separator, fields, rest = found
            section, pending = Section("nvidia-smi --query-gpu", Numbering.ROW), None
            for row in _unglued(rest, fields):
                _add_row(section, fields, row, at)
            continue
        if section is None:
            loose.append((at, line)) if "," in line else None
            continue
        ...
    yield from ()
