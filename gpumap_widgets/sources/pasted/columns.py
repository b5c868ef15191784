"""Columns of ``nvidia-smi --query-gpu``: the header, the rows under it, and what a column without a heading may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...catalog import look_up
from .names import is_cut, looks_like_gpu
from .records import BUS, WINDOWS_MODES, Numbering, Record, Section, driver, known, lost, mib, number, whole_uuid

MARKS = " \t\"'`|*\\"
"""What may stand around a cell."""
_PLAIN = frozenset(["index", "name", "uuid", "serial", "count", "timestamp", "pstate", "hostname"])
_TELLING = frozenset(["index", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "memory.total"])
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_USED = _TELLING | {"compute_cap", "mig.mode.current", "driver_version", "driver_model.current", "count"}
_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]{1,80})(?:\s{0,9}\[[^\]]{1,8}\])?")
_HEADER_WORDS = re.compile(r"name|index|uuid|bus_id|memory\.")
_BUS = re.compile(BUS)
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")
_SIZE = re.compile(r"\d{1,9} ?MiB")
_NOTHING = re.compile(r"\[(?:N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost)\]", re.IGNORECASE)
_NEAR = 0.12
"""Total memory in nvidia-smi lies below the nominal size by less than this share (ECC, firmware, page tables)."""
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

    def take(self, at: int, line: str) -> bool:
        """Add the row or rows of a line; False when the line does not belong here."""
        rows = list(self._rows(cells_of(line, self.separator)))
        if not rows and not line.strip("|-: +=\t"):
            return True  # a ruler
        if not rows and self.begun:
            at, before, count = self.begun
            line = f"{before} {line}"
            rows = list(self._rows(cells_of(line, self.separator)))
            if not rows and count < _WRAPS and line.count(self.separator) < self.width - 1:
                self.begun = (at, line, count + 1)
                return True
        elif not rows and self.width > 1:
            cells = cells_of(line, self.separator)
            if len(cells) < self.width and self._plausible(cells[:-1]):
                self.begun = (at, line, 1)
                return True
        for row in rows:
            self.begun = None
            self.add(at, row)
        return bool(rows)

    def add(self, at: int, row: Sequence[str]) -> None:
        """One row, unless it shows a board again, as nvidia-smi --loop does."""
        record = Record()
        for place, name in self.used:
            if place < len(row):
                _fill(record, self.section, name, row[place], at)
        said = " ".join(row) if any("lost" in cell or "reset" in cell for cell in row) else ""
        record.put("problem", lost(said), at)
        key = record.values.get("uuid") or record.values.get("pci_bus_id")
        if key is None and record.number is None:
            self.section.records.append(record)
        elif key not in self.seen:
            self.section.add(record)
        if key is not None:
            self.seen.add(key)

    def close(self, chosen: int | None) -> Section:
        """The section, numbered; ``chosen`` is the GPU that the command asked for."""
        section = self.section
        if self.begun:
            at, line, _ = self.begun
            cells = cells_of(line, self.separator)
            if not (whole_uuid(cells[-1]) or _SIZE.fullmatch(cells[-1])):
                cells = cells[:-1]  # who knows how much of the last one is there
            if self._plausible(cells):
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
            rows, row = [], [cells[0]]
            for place, cell in enumerate(cells[1:], 1):
                if place % step == 0 and place < len(cells) - 1:
                    last, first = _two_cells(cell, self.first)
                    rows.append([*row, last])
                    row = [first]
                else:
                    row.append(cell)
            rows.append(row)
            if all(self._plausible(row) for row in rows):
                yield from rows

    def _plausible(self, cells: Sequence[str]) -> bool:
        """Whether cells can be a row here; prose that happens to have as many commas is not."""
        told = 0
        for place, kind in self.used:
            if place >= len(cells):
                break
            cell = cells[place]
            if known(cell) is None:
                continue
            told += 1
            if kind in ("index", "count") and not cell.isdigit():
                return False
            if kind == "uuid" and not cell.startswith("GPU-"):
                return False
            if kind == "pci.bus_id" and not _BUS.fullmatch(cell):
                return False
            if kind == "name" and not (looks_like_gpu(cell) if self.width < 3 else len(cell) <= 80 and not cell.isdigit()):
                return False
            if kind == "memory.total" and not cell[:1].isdigit():
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


def _two_cells(cell: str, first_field: str) -> tuple[str, str]:
    """The last cell of one row and the first of the next, when the line break between them is gone."""
    words = cell.split()
    if len(words) < 2:
        return cell, ""
    if first_field in ("index", "count") or "uuid" in first_field or "bus_id" in first_field:
        return " ".join(words[:-1]), words[-1]
    end = 1
    if cell.startswith("["):
        end = next((i + 1 for i, word in enumerate(words) if word.endswith("]")), 1)
    elif words[1] in ("MiB", "%", "W", "MHz", "C"):
        end = 2
    return " ".join(words[:end]), " ".join(words[end:])


def typed(cell: str) -> str:
    """What a cell without a heading can be: uuid, bus, size, number, driver, nothing, name or other."""
    if cell.startswith("GPU-"):
        return "uuid"
    if _BUS.fullmatch(cell):
        return "bus"
    if _SIZE.fullmatch(cell):
        return "size"
    if cell.isascii() and cell.isdigit():
        return "number"
    if _NOTHING.fullmatch(cell):
        return "nothing"
    if cell.count(".") == 2 and driver(cell):
        return "driver"
    return "name" if looks_like_gpu(cell) else "other"


def row_like(kinds: Sequence[str]) -> bool:
    """Whether cells of these kinds are a row about a GPU."""
    sure = sum(kind not in ("other", "name") for kind in kinds)
    names = kinds.count("name")
    if "uuid" in kinds or ("bus" in kinds and names):
        return len(kinds) > 1
    return names == 1 and sure > 0 and 2 * (sure + 1) > len(kinds)


def guess_fields(rows: Sequence[Sequence[str]]) -> list[str]:
    """Headings for rows that have none; "" for a column that cannot be told."""
    columns = list(zip(*rows, strict=True))
    kinds = [_column_kind(column) for column in columns]
    fields = [{"uuid": "uuid", "bus": "pci.bus_id", "driver": "driver_version"}.get(kind, "") for kind in kinds]
    if "name" in kinds:
        fields[kinds.index("name")] = "name"
    index = _index_column(columns, kinds)
    if index is not None:
        fields[index] = "index"
    memory = _memory_column(columns, kinds, columns[fields.index("name")] if "name" in fields else [], index)
    if memory is not None:
        fields[memory] = "memory.total"
    return fields


def _column_kind(column: Sequence[str]) -> str:
    kinds = {typed(cell) for cell in column} - {"nothing"}
    return kinds.pop() if len(kinds) == 1 else "other"


def _index_column(columns: Sequence[Sequence[str]], kinds: Sequence[str]) -> int | None:
    """The first column that counts up by one; for a single row, a small number at either end."""
    if len(columns[0]) == 1:
        ends = [i for i in (0, len(kinds) - 1) if kinds[i] == "number" and len(columns[i][0]) < 3]
        return ends[0] if ends else None
    for i, column in enumerate(columns):
        if kinds[i] == "number" and all(cell.isdigit() and len(cell) < 4 for cell in column):
            values = [int(cell) for cell in column]
            if values == list(range(values[0], values[0] + len(values))):
                return i
    return None


def _memory_column(
    columns: Sequence[Sequence[str]], kinds: Sequence[str], names: Sequence[str], index: int | None
) -> int | None:
    """The column of total memory: near what the catalogue says of the models, else the largest of several sizes."""
    models = [None if is_cut(name) else look_up(name) for name in names]
    nominal = [model.memory_mib if model else None for model in models]
    candidates = [i for i, kind in enumerate(kinds) if kind == "size" or (kind == "number" and i != index)]
    for i in candidates:
        values = [mib(cell) or number(cell) or 0 for cell in columns[i]]
        near = [want is None or abs(v - want) <= _NEAR * want for v, want in zip(values, nominal, strict=False)]
        if any(nominal) and all(near):
            return i
    sizes = [i for i in candidates if kinds[i] == "size"]
    if any(nominal) or not sizes:
        return None
    largest = max(sizes, key=lambda i: mib(columns[i][0]) or 0)
    for row in range(len(columns[0])):
        if any((mib(columns[i][row]) or 0) > (mib(columns[largest][row]) or 0) for i in sizes):
            return None
    return largest
