"""Columns of ``nvidia-smi --query-gpu``: the header, and the rows under it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .names import looks_like_gpu
from .records import BUS, WINDOWS_MODES, Numbering, Record, Section, driver, known, lost, mib, number, whole_uuid
from .squeezed import unglued

MARKS = " \t\"'`|*\\"
"""What may stand around a cell."""
_PLAIN = frozenset(["index", "name", "uuid", "serial", "count", "timestamp", "pstate", "hostname"])
_TELLING = frozenset(["index", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "memory.total"])
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_USED = _TELLING | {"compute_cap", "mig.mode.current", "driver_version", "driver_model.current", "count"}
_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]{1,80})(?:\s{0,9}\[[^\]]{1,8}\])?")
_HEADER_WORDS = re.compile(r"name|index|uuid|bus_id|memory\.")
_BUS = re.compile(BUS)
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,4})?(?: ?[KMGT]i?B)?")
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")
SIZE = re.compile(r"\d{1,9} ?MiB")
"""A cell with a memory size."""
_LONG_ROW = 12
_WRAPS = 60
"""A row is put together again from at most so many lines: 202 columns in a mail of 72 characters need about 50."""


def cells_of(line: str, separator: str) -> list[str]:
    """The cells of a line without the marks around them."""
    return [cell.strip(MARKS) for cell in line.strip(" \t|").split(separator)]


def header_in(line: str) -> tuple[list[str], str, list[str]] | None:
    """Field names, separator and what follows on the same line, if the line begins with column headings."""
    if not _HEADER_WORDS.search(line, 0, 4000):
        return None
    separator = next((s for s in (",", "\t", "|", ";") if s in line.strip(" \t|")), ",")
    fields: list[str] = []
    rest: list[str] = []
    cells = cells_of(line, separator)
    for place, cell in enumerate(cells):
        if not cell and place == len(cells) - 1:
            break
        match = _FIELD.match(cell)
        if match is None or cell[match.end() : match.end() + 1] not in ("", " "):
            return None
        if match[1] not in _PLAIN and "." not in match[1] and "_" not in match[1]:
            return None
        fields.append(match[1])
        if match.end() < len(cell):  # the first row follows on the same line
            rest = [cell[match.end() :].strip(), *cells[place + 1 :]]
            break
    if not _TELLING.intersection(fields) or "pid" in fields or "process_name" in fields or (rest and len(fields) == 1):
        return None
    return fields, separator, rest


def headings_only(line: str) -> bool:
    """Whether a line is a piece of a header: names of fields with their units, and nothing else."""
    cells = [cell for cell in cells_of(line, ",") if cell] if line[:1].islower() or line[:1] == "[" else []
    fields = [cell for cell in cells if _FIELD.fullmatch(cell)]
    return bool(fields) and all(cell.startswith("[") for cell in cells if cell not in fields)


class Block:
    """Rows under known headings."""

    def __init__(self, fields: Sequence[str], separator: str) -> None:
        self.width, self.separator = len(fields), separator
        self.first = fields[0]
        self.used = [(i, _ALIASES.get(name, name)) for i, name in enumerate(fields) if name in _USED]
        self.section = Section("nvidia-smi --query-gpu", Numbering.ROW)
        self.begun: tuple[int, str, int] | None = None
        """A row that is not complete yet: its line, what is there, how many lines it has."""
        self.seen: set[str] = set()
        self.with_units = False

    def take(self, at: int, line: str) -> bool:
        """Add the row or rows of a line; False when the line does not belong here."""
        rows = self._whole(line)
        if not rows and not line.strip("|-: +=\t"):
            return True  # a ruler
        if self.begun and not rows and self._go_on(line):
            return True
        self._end_row()
        for row in rows:
            self.add(at, row)
        if rows or self._begin(at, line):
            return True
        if self.width > 2 and line.count(self.separator) == self.width - 1:
            self.section.misread(at)
        return False

    def _whole(self, line: str) -> list[list[str]]:
        """The rows of a line; none when it ends with a comma, behind which a row goes on."""
        return [] if line.endswith(",") else list(self._rows(cells_of(line, self.separator)))

    def _begin(self, at: int, line: str) -> bool:
        """Whether a line is the beginning of a row that was wrapped, or of one that is cut."""
        cells = cells_of(line, self.separator)
        # The first row stands where a row is expected; later, a line must name a GPU to be the beginning of one,
        # unless rows are so long that the name may stand on another line.
        strict = bool(self.section.records) and self.width < _LONG_ROW
        if 1 < self.width >= len(cells) and self._plausible(cells[:-1], part=strict):
            self.begun = (at, line, 1)
        return self.begun is not None

    def _go_on(self, line: str) -> bool:
        """Whether a line is the next piece of the row that was begun."""
        at, before, count = self.begun or (0, "", 0)
        for glue in (" ", ""):  # mailers break between words, terminals anywhere
            if rows := self._whole(f"{before}{glue}{line}"):
                self.begun = None
                for row in rows:
                    self.add(at, row)
                return True
        both = f"{before} {line}"
        if count < _WRAPS and both.count(self.separator) < self.width:
            self.begun = (at, both, count + 1)
            return True
        return False

    def _end_row(self) -> None:
        """A row that does not go on is whole if only its last cell is empty."""
        if self.begun:
            at, line, _ = self.begun
            for row in self._rows(cells_of(line, self.separator)):
                self.add(at, row)
        self.begun = None

    def add(self, at: int, row: Sequence[str]) -> None:
        """One row, unless it shows a board again, as nvidia-smi --loop does."""
        record = Record()
        for place, name in self.used:
            if place >= len(row):
                break
            if name == "memory.total":
                bare = row[place].isdigit()
                self.with_units |= not bare
                if bare and self.with_units:
                    continue  # a cell that is cut before its unit may be cut inside its number
            _fill(record, self.section, name, row[place], at)
            if name == "name" and "error" in row[place].lower():
                record.put("problem", f"nvidia-smi prints {row[place]} in place of its name.", at)
        said = " ".join(row) if any("lost" in cell or "reset" in cell for cell in row) else ""
        record.put("problem", lost(said), at)
        key = record.values.get("uuid") or record.values.get("pci_bus_id")
        if key is None and record.number is None:
            self.section.records.append(record)  # rows that are alike may be several boards
        elif record.number is not None or key not in self.seen:
            self.section.add(record)
        if key is not None:
            self.seen.add(key)

    def close(self, chosen: int | None) -> Section:
        """The section, numbered; ``chosen`` is the GPU that the command asked for."""
        section = self.section
        if self.begun:
            at, line, _ = self.begun
            cells = cells_of(line, self.separator)
            if not (whole_uuid(cells[-1]) or SIZE.fullmatch(cells[-1])):
                cells = cells[:-1]  # who knows how much of the last one is there
            if self._plausible(cells, part=True):
                self.add(at, cells)
                section.notes.append(f"The row in line {at} is cut: {len(cells)} of {self.width} cells are complete.")
        if any(record.number is not None for record in section.records):
            section.numbering = Numbering.NVML
        elif chosen is not None and len(section.records) == 1:
            section.numbering = Numbering.NVML
            section.records[0].number = chosen
            section.notes.append(f"The number of GPU {chosen} is that of the command.")
        elif chosen is not None or (section.announced or 0) > len(section.records):
            section.numbering = Numbering.UNPLACED
        return section

    def _rows(self, cells: list[str]) -> Iterator[list[str]]:
        """The rows that cells make up: one, or several that were squeezed onto one line."""
        step = self.width - 1
        if len(cells) == self.width:
            if self._plausible(cells):
                yield cells
        elif step > 0 and len(cells) > self.width and (len(cells) - 1) % step == 0:
            rows = unglued(cells, step, self.first)
            if all(self._plausible(row) for row in rows):
                yield from rows

    def _plausible(self, cells: Sequence[str], *, part: bool = False) -> bool:
        """Whether cells can be a row here, or the beginning of one; prose with as many commas is not."""
        told = 0
        strict = part or self.width < 3
        for place, kind in self.used:
            if place >= len(cells):
                break
            cell = cells[place]
            if known(cell) is None:
                continue
            told += kind in ("name", "uuid", "pci.bus_id") or not part
            if kind in ("index", "count") and not cell.isdigit():
                return False
            if kind == "uuid" and not cell.startswith("GPU-"):
                return False
            if kind == "pci.bus_id" and not _BUS.fullmatch(cell):
                return False
            if kind == "name" and not (looks_like_gpu(cell) if strict else len(cell) <= 80 and not cell.isdigit()):
                return False
            if kind == "memory.total" and not _AMOUNT.fullmatch(cell):
                return False
        return told > 0 or any(lost(cell) for cell in cells)


def _fill(record: Record, section: Section, field: str, cell: str, line: int) -> None:
    if field == "index":
        record.number = number(cell)
        record.put("nvml_index", record.number, line)
    elif field == "name":
        record.put("name", known(cell), line)
    elif field == "uuid":
        record.put("uuid", whole_uuid(cell), line)
    elif field == "pci.bus_id":
        record.put("pci_bus_id", cell if _BUS.fullmatch(cell) else None, line)
    elif field == "memory.total":
        record.put("memory_mib", number(cell) if cell.isdigit() else mib(cell), line)
    elif field == "compute_cap" and (capability := _CAPABILITY.fullmatch(cell)):
        record.put("compute_capability", (int(capability[1]), int(capability[2])), line)
    elif field == "mig.mode.current" and cell in ("Enabled", "Disabled"):
        record.put("mig_mode", cell == "Enabled", line)
    elif field == "driver_version":
        section.driver_version = section.driver_version or driver(cell)
    elif field == "driver_model.current" and cell in WINDOWS_MODES:
        section.platform = "windows"
    elif field == "count":
        section.announced = number(cell) or section.announced
