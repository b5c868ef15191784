"""``nvidia-smi --query-gpu=… --format=csv``: with a header, with the command in sight, or with neither."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .cleaning import Text
from .columns import MARKS, Block, cells_of, header_in, headings_only
from .guessing import guess_fields, row_like, says_nothing, typed
from .records import Section
from .squeezed import unglued

_COMMAND = re.compile(r"--query-gpu(?:=|\s{1,9})[\"']?([a-zA-Z0-9_.,]{1,8000})")
_CHOSEN = re.compile(r"\s(?:-i|--id)(?:=|\s{0,9})(\d{1,3})(?:\s|$)")
_MOST_CELLS = 400
_MOST_LINES = 200
_END_OF_COMMAND = re.compile(r"--format\s{0,3}[= ]\s{0,3}[\"']?csv(?:,\w{1,10}){0,2}[\"']?")


def read(text: Text) -> Iterator[Section]:
    """The rows behind a header; without one, rows in the columns of the command; without both, guessed columns."""
    reader = _Lines()
    for at, line in _pseudo_lines(text):
        yield from reader.take(at, line)
    yield from reader.finish()


class _Lines:
    """What was seen so far: the command, the block that is open, rows that belong to none."""

    def __init__(self) -> None:
        self.block: Block | None = None
        self.asked: list[str] = []
        self.chosen: int | None = None
        self.header: list[str] = []
        self.header_at = 1
        self.open_row = False
        self.loose: list[tuple[int, list[str]]] = []

    def take(self, at: int, line: str) -> Iterator[Section]:
        """One line; yields the block that it ends."""
        if "--query-" in line:
            self._open()
            self._command(line)
            return
        if self.header:
            goes_on = line.startswith("[") or (self.header[-1].endswith(",") and headings_only(line))
            if goes_on and len(self.header) < _MOST_LINES:
                self.header.append(line)
                return
            self._open()
        if header_in(line) or (line.endswith(",") and headings_only(line)):
            yield from self._close()
            self.header, self.header_at = [line], at
        elif not (self.block and self.block.take(at, line)):
            yield from self._close()
            self._begin(at, line)

    def _open(self) -> None:
        """A block under the heading that was collected line by line: mailers wrap it too."""
        found, self.header = header_in(" ".join(self.header)) if self.header else None, []
        if found:
            fields, separator, rest = found
            self.block = Block(fields, separator)
            if rest:  # the rows follow on the same line
                self.block.take(self.header_at, separator.join(rest))

    def finish(self) -> Iterator[Section]:
        """The last block, then the rows without headings."""
        self._open()
        yield from self._close()
        yield from _guessed(self.loose)

    def _command(self, line: str) -> None:
        asked, chosen = _COMMAND.search(line), _CHOSEN.search(line)
        self.asked = asked[1].strip(",").split(",") if asked else []
        self.chosen = int(chosen[1]) if chosen else None

    def _begin(self, at: int, line: str) -> None:
        """A line outside of a block: a row of the command, or one to be guessed."""
        if self.asked:
            block = Block(self.asked, ",")
            if block.take(at, line) and (block.section.records or block.begun):
                self.block = block
                return
        if self.open_row and self.loose and len(self.loose[-1][1]) < _MOST_CELLS:
            first, cells = self.loose.pop()
            self.loose.append((first, [*cells[:-1], *cells_of(line, ",")]))
        elif self.loose and line.strip() == "MiB":  # wrapped before the unit
            self.loose[-1][1][-1] += " MiB"
        elif "," in line and "|" not in line and 2 <= len(cells := cells_of(line, ",")) <= 4000:
            self.loose.append((at, cells))
        self.open_row = line.endswith(",")

    def _close(self) -> Iterator[Section]:
        if self.block is not None:
            section = self.block.close(self.chosen)
            self.block = None
            if section.records:
                yield section


def _pseudo_lines(text: Text) -> Iterator[tuple[int, str]]:
    """Lines, where a command and what it printed stand on lines of their own."""
    for at, line in zip(text.numbers, text.lines, strict=True):
        if "--format" in line and (end := _END_OF_COMMAND.search(line)):
            yield at, line[: end.end()]
            if line[end.end() :].strip():
                yield at, line[end.end() :]
        else:
            yield at, line


def _guessed(loose: Sequence[tuple[int, list[str]]]) -> Iterator[Section]:
    """Rows without headings and command: neighbours with as many cells, their columns told by what is in them."""
    group: list[tuple[int, list[str]]] = []
    for at, found in loose:
        found[0] = found[0].rpartition(": ")[2].strip(MARKS)
        cells = [cell.partition(" (")[0] if cell.startswith("[") else cell for cell in found]
        if group and len(cells) < len(group[-1][1]) and at == loose[-1][0] == group[-1][0] + 1:
            yield from _group(group, cut=(at, cells))
            return
        if not row_like(cells) and not (group and len(group[-1][1]) == len(cells) and says_nothing(cells)):
            yield from _squeezed(at, cells)
            continue
        if group and len(group[-1][1]) != len(cells):
            yield from _group(group)
            group = []
        group.append((at, cells))
    if group:
        yield from _group(group)


def _squeezed(at: int, cells: list[str]) -> Iterator[Section]:
    """Rows on one line: the telling cells come again after as many cells as a row has, less the one that is shared."""
    kinds = [typed(cell) for cell in cells]
    for kind in ("uuid", "bus", "name"):
        places = [place for place, found in enumerate(kinds) if found == kind]
        if len(places) > 1 and (step := places[1] - places[0]) > 0 and (len(cells) - 1) % step == 0:
            rows = unglued(cells, step, "index" if cells[0].isdigit() else "name")
            if all(row_like(row) for row in rows):
                yield from _group([(at, row) for row in rows])
                return


def _group(group: Sequence[tuple[int, list[str]]], cut: tuple[int, list[str]] | None = None) -> Iterator[Section]:
    fields = guess_fields([cells for _, cells in group])
    block = Block(fields, ",")
    for at, cells in group:
        block.add(at, cells)
    if cut is not None:
        block.begun = (cut[0], ", ".join(cut[1]), 1)
    told = ", ".join(name for name in fields if name)
    block.section.notes.append(f"The rows have no header: their columns were told by their contents ({told}).")
    section = block.close(None)
    if section.records:
        yield section
