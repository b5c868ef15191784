"""What the readers hand on: records of boards, each value with the line that it stood in.

A record is what one place of one output says about one board. It is not yet a `Gpu`: the same board may occur in
several outputs of a paste, each of which knows another part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any

from ...identity import PciBusId, is_full_uuid
from ...topology import MigInstance, Platform
from .cleaning import Text


class Numbering(IntEnum):
    """Which list the number of a record belongs to; a smaller one is believed first."""

    NVML = 0
    """nvidia-smi's own number, printed."""
    ROW = 1
    """The output follows nvidia-smi's list but prints no number: the place in the output is the number."""
    UNPLACED = 2
    """Boards of nvidia-smi's list, but the output may be a part of it: no number follows."""
    CUDA = 3
    """An ordinal of the process that printed it."""
    ADDRESS = 4
    """The operating system's list: nvidia-smi's number follows from the order of the addresses at best."""


@dataclass
class Record:
    """One board as one place of the text describes it."""

    number: int | None = None
    """Number as printed (or implied) in the numbering of its section."""
    values: dict[str, Any] = field(default_factory=dict)
    """By the field names of `Gpu`; only what is known."""
    lines: dict[str, int] = field(default_factory=dict)
    """The line of the user's text each value stood in."""
    migs: list[MigInstance] = field(default_factory=list)
    cut: bool = False
    """The text ends inside this record."""
    masked: bool = False
    """A UUID stands there, but it is cut or made unreadable."""

    def put(self, name: str, value: Any, line: int) -> None:
        """Keep the first known value of a field: outputs say the general before the particular."""
        if value is not None and name not in self.values:
            self.values[name] = value
            self.lines[name] = line

    def add_mig(self, mig: MigInstance, line: int) -> None:
        """A MIG device of this board, unless it was listed already."""
        self.put("mig_mode", True, line)
        self.lines.setdefault("mig_instances", line)
        if mig not in self.migs[-64:]:
            self.migs.append(mig)

    @property
    def address(self) -> PciBusId | None:
        """The PCI address as comparable integers."""
        bus = self.values.get("pci_bus_id")
        return PciBusId.parse(bus) if bus else None


_MOST_NOTES = 12


@dataclass
class Section:
    """The boards that one output of one tool lists, in its order."""

    shape: str
    numbering: Numbering
    records: list[Record] = field(default_factory=list)
    driver_version: str | None = None
    platform: Platform | None = None
    announced: int | None = None
    """How many boards the output says there are, where it says so."""
    notes: list[str] = field(default_factory=list)
    host: str | None = None
    """Label of the machine whose lines these are, where lines carry one."""
    weak: bool = False
    """Read from lines that may mean something else: it never speaks for another machine."""
    _seen: dict[object, Record] = field(default_factory=dict, repr=False)

    def misread(self, line: int) -> None:
        """Note a line that looks like data, but was not understood."""
        self.notes.append(f"Line {line} looks like a row of this {self.shape}, but was not understood.")
        del self.notes[_MOST_NOTES:]

    def add(self, record: Record) -> Record:
        """Append a record that says anything new, else return the one that said it: tools in a loop repeat themselves."""
        said = (record.number, tuple(record.values.items()), tuple(record.migs))
        if said not in self._seen:
            self._seen[said] = record
            self.records.append(record)
        return self._seen[said]


Reader = Callable[[Text], Iterator[Section]]


@dataclass(frozen=True)
class Shape:
    """A row of the table of readers."""

    name: str
    hints: tuple[str, ...]
    """The reader is asked only about texts that hold one of these (lower case)."""
    read: Reader


WINDOWS_MODES = ("WDDM", "TCC", "MCDM")
"""Driver models of Windows."""
BUS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
"""A complete PCI address inside a larger pattern; a cut one must not match."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?([KMGT]i?B|[MG]Bytes|B)\b", re.IGNORECASE)
_MIB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "b": 1 / 1048576}
_NOTHING = re.compile(
    r"\[?(?:n/?a|not supported|not available|unknown(?: error)?|insufficient permissions|none|null"
    r"|gpu is lost|gpu requires reset|err!?|error|requested functionality has been deprecated|-|)\]?",
    re.IGNORECASE,
)
_CUT_MODE = re.compile(r"\s(?:O|Of|N|N/|W|WD|WDD|T|TC|E|ER|ERR)$")
_LEAST_OF_A_NAME = 4
_LOST = re.compile(r"gpu is lost|fallen off the bus|gpu requires reset", re.IGNORECASE)


def mib(text: str) -> int | None:
    """``15360 MiB``, ``95.59GiB``, ``22912 MB`` in MiB. These tools write MB and GB where they count in binary."""
    match = _SIZE.search(text)
    if match is None:
        return None
    return int(float(match[1]) * _MIB[match[2][0].lower()])


@lru_cache(maxsize=2048)
def known(text: str | None) -> str | None:
    """The value of a cell with blanks squeezed; None for the many ways to say that there is none."""
    value = " ".join((text or "").split()).strip("\"'`")
    return None if _NOTHING.fullmatch(value) else value


def cut_name(text: str) -> str | None:
    """A name at whose end the text ends: with the three points that say so; None when too little is left of it."""
    name = (known(_CUT_MODE.sub("", text.split("   ", maxsplit=1)[0].rstrip())) or "").rstrip(". ")
    return f"{name}..." if len(name) >= _LEAST_OF_A_NAME else None


def whole_uuid(text: str | None) -> str | None:
    """A complete GPU UUID; None for a cut or masked one."""
    value = (text or "").strip()
    return value if value.startswith("GPU-") and is_full_uuid(value) else None


def number(text: str | None) -> int | None:
    """A small decimal number."""
    value = (text or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


def lost(text: str) -> str | None:
    """The reason a text gives why a board does not answer."""
    match = _LOST.search(text)
    return f"The text says of it: {match[0]}." if match else None


def driver(text: str | None) -> str | None:
    """A driver version such as ``535.104.05``; None for anything else (newer tools write "Deprecated" there)."""
    value = (text or "").strip()
    return value if re.fullmatch(r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?", value, re.ASCII) else None


def regions(matches: Sequence[re.Match[str]], end: int) -> Iterator[tuple[re.Match[str], int]]:
    """Each match with where the next one begins: what belongs to it lies between."""
    for place, match in enumerate(matches):
        yield match, matches[place + 1].start() if place + 1 < len(matches) else end
