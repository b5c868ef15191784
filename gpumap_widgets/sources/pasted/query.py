"""``nvidia-smi --query-gpu=… --format=csv``: with a header, with the command in sight, or with neither."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .clean import Text
from .columns import PLAIN, TELLING, fill, guess_fields, plausible, row_like, typed
from .records import Numbering, Record, Section, mib, number, whole_uuid

_COMMAND = re.compile(r"--query-gpu(?:=|\s{1,9})[\"']?([a-zA-Z0-9_.,]{1,8000})")
_CHOSEN = re.compile(r"\s(?:-i|--id)(?:=|\s{0,9})(\d{1,3})(?:\s|$)")
_END_OF_COMMAND = re.compile(r"--format\s{0,3}[= ]\s{0,3}[\"']?csv(?:,\w{1,10}){0,2}[\"']?")
_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]{1,80})(?:\s{0,9}\[[^\]]{1,8}\])?")
_MARKS = " \t\"'`|*\\"
_WRAPS = 60
"""A row is put together again from at most so many lines: 202 columns in a mail of 72 characters need about 50."""


@dataclass
class _Block:
    """Rows under known headings."""

    fields: list[str]
    separator: str
    section: Section = field(default_factory=lambda: Section("nvidia-smi --query-gpu", Numbering.ROW))
    started: tuple[int, str, int] | None = None
    """A row that is not complete yet: its line, what is there, how many lines it has."""
    seen: set[str] = field(default_factory=set)


def read(text: Text) -> Iterator[Section]:
    """The rows behind a header; without one, rows in the columns of the command; without both, guessed columns."""
    block: _Block | None = None
    command: list[str] = []
    chosen: int | None = None
    loose: list[tuple[int, list[str]]] = []
    header_parts: list[str] = []
    for at, line in _pseudo_lines(text):
        if "--query-" in line:
            asked = _COMMAND.search(line)
            command = asked[1].strip(",").split(",") if asked else []
            choice = _CHOSEN.search(line)
            chosen = int(choice[1]) if choice else None
            continue
        if header_parts:
            header_parts.append(line)
            if line.endswith(","):
                continue
            line, header_parts = " ".join(header_parts), []
        found = _header(line)
        if found and line.endswith(","):
            header_parts = [line]
            continue
        if found:
            if block:
                yield from _closed(block, chosen)
            fields, separator, rest = found
            block = _Block(fields, separator)
            if rest:
                _take(block, at, separator.join(rest))
            continue
        if block and _take(block, at, line):
            continue
        if block:
            yield from _closed(block, chosen)
            block = None
        cells = _cells(line, ",") if "," in line else []
        if len(command) > 1 and _fits(command, cells):
            block = _Block(command, ",")
            _take(block, at, line)
        elif len(command) == 1 and plausible(command, [line.strip(_MARKS)]) and command[0] in TELLING:
            block = _Block(command, ",")
            _take(block, at, line)
        elif 2 <= len(cells) <= 400:
            loose.append((at, cells))
    if block:
        yield from _closed(block, chosen)
    yield from _guessed(loose)


def _pseudo_lines(text: Text) -> Iterator[tuple[int, str]]:
    """Lines, where a command and what it printed stand on lines of their own."""
    for at, line in zip(text.numbers, text.lines, strict=True):
        if "--format" in line and (end := _END_OF_COMMAND.search(line)):
            yield at, line[: end.end()]
            if line[end.end() :].strip():
                yield at, line[end.end() :]
        else:
            yield at, line


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip(_MARKS) for cell in line.strip(" \t|").split(separator)]


def _header(line: str) -> tuple[list[str], str, list[str]] | None:
    """Field names, separator and what follows on the same line, if the line begins with column headings."""
    if not ("name" in line or "index" in line or "uuid" in line or "bus_id" in line or "memory." in line):
        return None
    separator = next((s for s in (",", "\t", "|", ";") if s in line.strip(" \t|")), ",")
    fields: list[str] = []
    rest: list[str] = []
    cells = _cells(line, separator)
    for place, cell in enumerate(cells):
        match = _FIELD.match(cell)
        if match is None or not (match.end() == len(cell) or cell[match.end()] == " "):
            if cell == "" and place == len(cells) - 1:
                break
            return None
        if match[1] not in PLAIN and "." not in match[1] and "_" not in match[1]:
            return None
        fields.append(match[1])
        if match.end() < len(cell):
            rest = [cell[match.end() :].strip(), *cells[place + 1 :]]
            break
    if not TELLING.intersection(fields) or "pid" in fields or "process_name" in fields:
        return None
    if rest and len(fields) == 1:
        return None
    return fields, separator, rest


def _fits(fields: Sequence[str], cells: list[str]) -> bool:
    return any(True for _ in _rows(fields, cells))


def _rows(fields: Sequence[str], cells: list[str]) -> Iterator[list[str]]:
    """The rows that cells make up under headings: one, or several that were squeezed onto one line."""
    width = len(fields)
    if len(cells) == width:
        if plausible(fields, cells):
            yield cells
    elif width > 1 and len(cells) > width and (len(cells) - 1) % (width - 1) == 0:
        row: list[str] = []
        rows = []
        for cell in cells:
            if len(row) == width - 1 and len(rows) < (len(cells) - 1) // (width - 1) - 1:
                last, first = _two_cells(cell, fields[0])
                rows.append([*row, last])
                row = [first]
            else:
                row.append(cell)
        rows.append(row)
        if all(plausible(fields, r) for r in rows):
            yield from rows


def _two_cells(cell: str, first_field: str) -> tuple[str, str]:
    """The last cell of one row and the first of the next, when the line break between them is gone."""
    words = cell.split()
    if len(words) < 2:
        return cell, ""
    if first_field in ("index", "count") or first_field.endswith("uuid") or "bus_id" in first_field:
        return " ".join(words[:-1]), words[-1]
    end = 1
    if cell.startswith("["):
        end = next((i + 1 for i, word in enumerate(words) if word.endswith("]")), 1)
    elif words[1] in ("MiB", "%", "W", "MHz", "C"):
        end = 2
    return " ".join(words[:end]), " ".join(words[end:])


def _take(block: _Block, at: int, line: str) -> bool:
    """Add the row or rows of a line; False when the line does not belong to the block."""
    if set(line) <= set("|-: +=\t"):
        return True
    rows = list(_rows(block.fields, _cells(line, block.separator)))
    if rows:
        block.started = None
        for row in rows:
            _add(block, at, row)
        return True
    if block.started:
        first, begun, count = block.started
        both = f"{begun} {line}"
        cells = _cells(both, block.separator)
        rows = list(_rows(block.fields, cells))
        if rows:
            block.started = None
            for row in rows:
                _add(block, first, row)
            return True
        if len(cells) < len(block.fields) and count < _WRAPS:
            block.started = (first, both, count + 1)
            return True
        return False
    cells = _cells(line, block.separator)
    if len(cells) < len(block.fields) and len(block.fields) > 1 and plausible(block.fields, cells[:-1]):
        block.started = (at, line, 1)
        return True
    return False


def _add(block: _Block, at: int, row: Sequence[str]) -> None:
    record = Record()
    for name, cell in zip(block.fields, row, strict=False):
        fill(record, block.section, name, cell, at)
    key = str(record.values.get("uuid") or record.values.get("pci_bus_id") or "")
    if key and key in block.seen:  # the same board again, as nvidia-smi --loop prints it
        return
    block.seen.add(key)
    block.section.records.append(record)


def _closed(block: _Block, chosen: int | None) -> Iterator[Section]:
    section = block.section
    if block.started:
        at, begun, _ = block.started
        cells = _cells(begun, block.separator)
        if not (cells and (whole_uuid(cells[-1]) or (mib(cells[-1]) and block.fields[len(cells) - 1] == "memory.total"))):
            cells = cells[:-1]  # who knows how much of the last one is there
        if cells:
            _add(block, at, cells)
            section.records[-1].cut = True
            section.notes.append(f"The row in line {at} is cut: {len(cells)} of {len(block.fields)} cells are complete.")
    _number(section, chosen)
    if section.records:
        yield section


def _number(section: Section, chosen: int | None) -> None:
    if any(record.number is not None for record in section.records):
        section.numbering = Numbering.NVML
    elif chosen is not None and len(section.records) == 1:
        section.numbering = Numbering.NVML
        section.records[0].number = chosen
        section.notes.append(f"GPU {chosen}: its number is that of the command.")
    elif chosen is not None or (section.announced or 0) > len(section.records):
        section.numbering = Numbering.UNPLACED


def _guessed(loose: Sequence[tuple[int, list[str]]]) -> Iterator[Section]:
    """Rows without headings and command: neighbours with as many cells, their columns told by what is in them."""
    group: list[tuple[int, list[str]]] = []
    for at, cells in loose:
        cells = [cells[0].rpartition(": ")[2].strip(_MARKS), *(cell.partition(" (")[0] if cell.startswith("[") else cell
                                                              for cell in cells[1:])]
        if not row_like([typed(cell) for cell in cells]):
            continue
        if group and len(group[-1][1]) != len(cells):
            yield from _group(group)
            group = []
        group.append((at, cells))
    if group:
        yield from _group(group)


def _group(group: Sequence[tuple[int, list[str]]]) -> Iterator[Section]:
    fields = guess_fields([cells for _, cells in group])
    block = _Block(fields, ",")
    for at, cells in group:
        _add(block, at, cells)
    told = ", ".join(name for name in fields if name)
    block.section.notes.append(f"The rows have no header: their columns were told by their contents ({told}).")
    yield from _closed(block, None)
