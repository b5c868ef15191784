"""The table of nvidia-smi, of every driver generation, and nvitop's, which imitates it.

Rows are found by their second cell (the PCI address with the display state), not by line: so a table that was
squeezed onto one line, wrapped, prefixed or boxed reads like a whole one. Source of the layouts: tables printed by
drivers 331 to 610 (narrow and wide, TCC/WDDM and Driver-Model columns, MIG, unified memory, Jetson).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from ...topology import MigInstance
from .cleaning import Text
from .names import rejoined
from .records import BUS, WINDOWS_MODES, Numbering, Record, Section, cut_name, driver, known, lost, mib, number, regions

_MODES = r"On|Off|N/A|ERR!|WDDM|TCC|MCDM|Enabled|Disabled|Yes|No"
_HIDDEN_BUS = r"[0-9A-FXx*?]{4,8}:[0-9A-FXx*?]{2}:[0-9A-FXx*?]{2}\.[0-7Xx*?]"
_SECOND_CELL = re.compile(
    rf"\|\s{{0,99}}(?=[0-9A-Fa-fNEUGXx*\[])"
    rf"(?:({BUS})\b|(?:N/A|ERR!|\[?Unknown Error\]?|GPU is lost|{_HIDDEN_BUS})(?=\s{{1,99}}(?:{_MODES})\s{{0,99}}\|))"
)
_FIRST_CELL = re.compile(rf"(?:(\d{{1,3}})\.?\s{{1,99}})?(\S[^|]{{0,120}}?)(?:\s{{1,99}}({_MODES}))?", re.DOTALL)
_BARE_ROW = re.compile(  # the bars got lost: index, name, mode, address, display
    rf"\s{{0,99}}(\d{{1,3}})[ \t]{{1,99}}(\S[^|\n]{{0,60}}?)[ \t]{{1,99}}({_MODES})[ \t]{{1,99}}({BUS})[ \t]{{1,99}}(?:{_MODES})\b"
)
_COMPACT_ROW = re.compile(  # nvitop's compact screen: no name and no address
    r"\|\s{0,99}(\d{1,3})\s{1,99}(?:\d{1,3}%|N/A|MAX)\s{1,99}\d{1,3}C\s{1,99}P\d{1,2}\s{1,99}[\d.N/A]{1,6}W? / [\d.N/A]{1,6}W?\s{0,99}(?=\|)"
)
_RULER = re.compile(r"[+|]?[-=]{3,}[-=+|]{0,400}")
_VERSIONS = re.compile(
    r"(?:NVIDIA-SMI|NVITOP)\s{1,99}(\S{1,30})\s{1,99}(?:Driver|KMD)\s{1,9}Version:\s{0,99}(\S{1,30})", re.IGNORECASE
)
_MEMORY = re.compile(r"\d\s?[KMG]i?B\s{0,99}/\s{0,99}(\d{1,9}(?:\.\d{1,4})?\s?[MG]i?B)\b")
_MIG_MODE = re.compile(r"(Enabled|Disabled)\*?\s{0,99}\|")
_MIG_ROW = re.compile(
    r"(?:\||\n(?=[\d \t/NA]{7,60}\|\s{0,99}\d{1,9}\s?MiB))\s{0,99}(\d{1,3})\s{1,99}(\d{1,3}|N/A)\s{1,99}(\d{1,3}|N/A)\s{1,99}(\d{1,3})\s{0,99}\|"
    r"(?:\s{0,99}\d{1,9}\s?MiB\s{0,99}/\s{0,99}(\d{1,9}\s?MiB)\b)?"
)
_PROCESS = re.compile(
    r"\|\s{1,20}(\d{1,3})\s{1,20}(?:(?:N/A|\d{1,3})\s{1,9}(?:N/A|\d{1,3})\s{1,30})?\d{1,9}\s{1,20}[CGM+]{1,5}\s"
)
_LAST_ROW = re.compile(
    rf"\s{{0,99}}\|?\s{{0,99}}(\d{{1,3}})\s{{1,99}}(\S[^|]{{0,120}}?)(?:\s{{1,99}}(?:{_MODES}))?\s{{0,99}}(\|.*)?",
    re.DOTALL,
)
_SPAN = 4000
"""A row ends at the latest so many characters behind its address, however it was prefixed and wrapped."""


def read(text: Text) -> Iterator[Section]:
    """One section for every table that has rows or at least MIG rows."""
    titles = text.places("NVIDIA-SMI ", "NVITOP ")
    bounds = [0, *(title for title in titles[1:]), len(text.joined)]
    stops = text.places("rocesses:", "MIG devices", "GPU instances:", "NVIDIA-SMI ", "NVITOP ")
    for place in range(len(bounds) - 1):
        table = _Table(text, bounds[place], bounds[place + 1], stops)
        if place < len(titles):
            table.read_versions(titles[place])
        table.read_rows()
        table.read_migs()
        if table.section.records:
            yield table.section


class _Table:
    """One table: the region of the text between its title and the next one."""

    def __init__(self, text: Text, start: int, end: int, stops: list[int]) -> None:
        self.text, self.start, self.end, self.stops = text, start, end, stops
        self.section = Section("nvidia-smi table", Numbering.NVML)
        self.rows_from = start

    def read_versions(self, title: int) -> None:
        """The line above the columns."""
        header = _VERSIONS.match(self.text.joined, title)
        if header is None:
            return
        self.rows_from = header.end()
        tool, version = driver(header[1]), driver(header[2])
        self.section.driver_version = version
        if header[0][:6].upper() == "NVITOP":
            self.section.shape = "nvitop"
        elif tool and version and tool != version and "Persistence-M" in self.text.joined[title : title + 900]:
            # Linux columns, yet nvidia-smi and the driver differ: under WSL the driver is that of Windows.
            self.section.platform = "wsl"
            self.section.notes.append(
                f"nvidia-smi is {tool}, the driver {version}: read as WSL, where the driver is Windows'."
            )

    def read_rows(self) -> None:
        """The rows of GPUs, in one of three forms, and a last one that is cut."""
        joined = self.text.joined
        anchors = list(_SECOND_CELL.finditer(joined, self.start, self.end))
        last = self.start
        for anchor, region_end in regions(anchors, self.end):
            record = self._first_cell(last, anchor)
            if record is not None:
                # The first cell of the next row stands before its address and must not count for this one.
                next_row = joined.rfind("|", anchor.end(), region_end) if region_end < self.end else region_end
                self._rest_of_row(record, anchor.end(), max(next_row, anchor.end()))
                self.section.add(record)
                last = anchor.end()
            elif anchor[1]:
                self.section.misread(self.text.line_at(anchor.start(1)))
        if not self.section.records:
            self._rows_without_bars()
        if not self.section.records and self.section.shape == "nvitop":
            self._compact_rows()
        self._cut_row(max(last, self.rows_from))
        self._compare_with_processes(last)

    def _first_cell(self, floor: int, anchor: re.Match[str]) -> Record | None:
        text, joined = self.text, self.text.joined
        begin = max(floor, anchor.start() - 320)
        cell = joined[max(begin, joined.rfind("|", begin, anchor.start()) + 1) : anchor.start()]
        if "--" in cell or "==" in cell:
            cell = _RULER.split(cell)[-1]
        lines = cell.rstrip().split("\n")
        tries = [_FIRST_CELL.fullmatch("\n".join(lines[-count:]).strip()) for count in range(1, min(len(lines), 4) + 1)]
        found = [match for match in tries if match is not None]
        match = next((match for match in found if match[1] is not None), found[0] if found else None)
        if match is None:
            return None
        if match[1] is None and (match[3] is None or self.section.records or anchor.start() > 400):
            return None  # only a paste that begins inside a row may lack the number
        record = Record(number(match[1]))
        line = text.line_at(anchor.start() - 1)
        record.put("nvml_index", record.number, line)
        self._name(record, match[2], line)
        if anchor[1]:
            record.put("pci_bus_id", anchor[1], text.line_at(anchor.start(1)))
        if match[3] in WINDOWS_MODES:
            self.section.platform = "windows"
        return record

    def _name(self, record: Record, cell: str, line: int) -> None:
        record.put("name", known(rejoined(cell)), line)
        if "name" not in record.values:
            record.put(
                "problem", lost(cell) or f"nvidia-smi prints {' '.join(cell.split())} in place of its name.", line
            )

    def _rest_of_row(self, record: Record, start: int, end: int) -> None:
        stop = bisect_left(self.stops, start)
        end = min(end, start + _SPAN, self.stops[stop] if stop < len(self.stops) else end)
        text, joined = self.text, self.text.joined
        if memory := _MEMORY.search(joined, start, end):
            record.put("memory_mib", mib(memory[1]), text.line_at(memory.start(1)))
        if mode := _MIG_MODE.search(joined, start, end):
            record.put("mig_mode", mode[1] == "Enabled", text.line_at(mode.start(1)))
        row = joined[start:end]
        if "ERR!" in row or "lost" in row or "reset" in row:
            problem = lost(row) or (
                "nvidia-smi prints ERR! for its values: it does not answer." if row.count("ERR!") > 2 else None
            )
            record.put("problem", problem, text.line_at(start))

    def _rows_without_bars(self) -> None:
        rows = []
        for mode in (" Off", " On", " N/A", " WDDM", " TCC"):
            for begin, finish in self.text.having(mode):
                if self.start <= begin < self.end and (row := _BARE_ROW.match(self.text.joined, begin, finish)):
                    rows.append(row)
        rows = sorted({row.start(): row for row in rows}.values(), key=lambda row: row.start())
        for row, region_end in regions(rows, self.end):
            record = Record(number(row[1]))
            line = self.text.line_at(row.start(1))
            record.put("nvml_index", record.number, line)
            self._name(record, row[2], line)
            record.put("pci_bus_id", row[4], line)
            if row[3] in WINDOWS_MODES:
                self.section.platform = "windows"
            self._rest_of_row(record, row.end(), region_end)
            self.section.add(record)

    def _compact_rows(self) -> None:
        rows = list(_COMPACT_ROW.finditer(self.text.joined, self.start, self.end))
        for row, region_end in regions(rows, self.end):
            record = Record(number(row[1]))
            record.put("nvml_index", record.number, self.text.line_at(row.start(1)))
            self._rest_of_row(record, row.end(), region_end)
            self.section.add(record)

    def _cut_row(self, start: int) -> None:
        """A last row that stops before its address is complete."""
        joined = self.text.joined
        if self.end != len(joined) or bisect_left(self.stops, start) < len(self.stops):
            return
        if not (self.section.records or self.section.driver_version):
            return
        rulers = list(_RULER.finditer(joined, max(start, self.end - 2000), self.end))
        if not rulers or self.end - rulers[-1].end() > 400:
            return
        match = _LAST_ROW.fullmatch(joined[rulers[-1].end() : self.end])
        if match is None or (match[3] or "").count("|") > 1:
            return
        line = self.text.line_at(rulers[-1].end() + match.start(1))
        record = Record(number(match[1]), cut=True)
        if any(other.number == record.number for other in self.section.records):
            return
        record.put("nvml_index", record.number, line)
        whole = match[3] or joined[match.end(2) + rulers[-1].end() : self.end].strip()
        record.put("name", known(match[2]) if whole else cut_name(match[2]), line)
        self.section.add(record)
        self.section.notes.append(f"The text ends inside the row of GPU {record.number} (line {line}).")

    def _compare_with_processes(self, start: int) -> None:
        """The box of processes names GPUs by number: one without a row shows that rows are missing."""
        heading = self.text.joined.find("rocesses:", start, self.end)
        if heading < 0 or not self.section.records:
            return
        named = {int(row[1]) for row in _PROCESS.finditer(self.text.joined, heading, self.end)}
        missing = sorted(named - {record.number for record in self.section.records})[:8]
        if missing:
            numbers = ", ".join(map(str, missing))
            self.section.notes.append(f"The processes name GPU {numbers}, which has no row: the table is not whole.")

    def read_migs(self) -> None:
        """The rows of the MIG table; they name their GPU by number."""
        text, joined = self.text, self.text.joined
        heading = joined.find("MIG devices", self.start, self.end)
        if (
            heading < 0
            and "MIG Dev" not in joined[self.start : self.end]
            and "MIG |" not in joined[self.start : self.end]
        ):
            return
        by_number = {record.number: record for record in self.section.records}
        headless = [record for record in self.section.records if record.number is None]
        for row in _MIG_ROW.finditer(joined, max(heading, self.start), self.end):
            owner = number(row[1])
            line = text.line_at(row.start(1))
            record = by_number.get(owner)
            if record is None and len(headless) == 1:
                # The paste begins inside the row of this GPU; its MIG rows still name its number.
                record = headless.pop()
                record.number = owner
            elif record is None:
                record = Record(owner)
                self.section.records.append(record)
            record.put("nvml_index", owner, line)
            by_number[owner] = record
            memory = mib(row[5]) if row[5] else None
            record.add_mig(MigInstance(None, None, number(row[2]), number(row[3]), memory, number(row[4])), line)
