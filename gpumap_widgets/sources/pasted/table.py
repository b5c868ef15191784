"""The table of nvidia-smi, of every driver generation, and nvitop's, which imitates it.

Rows are found by their second cell (the PCI address with the display state), not by line: so a table that was
squeezed onto one line, wrapped, prefixed or boxed reads like a whole one. Source of the layouts: tables printed by
drivers 331 to 610 (narrow and wide, TCC/WDDM and Driver-Model columns, MIG, unified memory, Jetson).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...topology import MigInstance
from .clean import Text
from .records import BUS, Numbering, Record, Section, driver, known, lost, mib, number, regions

_MODES = r"On|Off|N/A|ERR!|WDDM|TCC|MCDM|Enabled|Disabled|Yes|No"
_SECOND_CELL = re.compile(
    rf"\|\s{{0,99}}(?:({BUS})\b|(?:N/A|ERR!|\[?Unknown Error\]?|GPU is lost)(?=\s{{1,99}}(?:{_MODES})\s{{0,99}}\|))"
)
_FIRST_CELL = re.compile(
    rf"(?:(\d{{1,3}})\s{{1,99}})?(\S[^|]{{0,120}}?)\s{{1,99}}({_MODES})", re.DOTALL
)
_BARE_ROW = re.compile(  # the bars got lost: index, name, mode, address, display
    rf"(?:^|\n|\s)(\d{{1,3}})[ \t]{{1,99}}(\S[^|\n]{{0,60}}?)[ \t]{{1,99}}({_MODES})[ \t]{{1,99}}({BUS})[ \t]{{1,99}}(?:{_MODES})\b"
)
_RULER = re.compile(r"[+|]?[-=]{3,}[-=+|]{0,400}")
_HEADER = re.compile(
    r"(?:NVIDIA-SMI|NVITOP)\s{1,99}(\S{1,30})\s{1,99}(?:Driver|KMD)\s{1,9}Version:\s{0,99}(\S{1,30})", re.IGNORECASE
)
_STOP = re.compile(r"(?:Compute )?Processes:|MIG devices:|NVIDIA-SMI\s{1,99}\d|GPU instances:", re.IGNORECASE)
_MEMORY = re.compile(r"\d(?:\.\d{1,4})?\s?[KMG]i?B\s{0,99}/\s{0,99}(\d{1,9}(?:\.\d{1,4})?\s?[MG]i?B)\b")
_MIG_MODE = re.compile(r"\|\s{0,99}(?:\w{1,12}\s{1,99}){0,3}?(Enabled|Disabled)\s{0,99}\*?\s{0,99}\|")
_MIG_ROW = re.compile(
    r"\|\s{0,99}(\d{1,3})\s{1,99}(\d{1,3}|N/A)\s{1,99}(\d{1,3}|N/A)\s{1,99}(\d{1,3})\s{0,99}\|"
    r"(?:\s{0,99}\d{1,9}\s?MiB\s{0,99}/\s{0,99}(\d{1,9}\s?MiB)\b)?"
)
_LAST_ROW = re.compile(rf"\s{{0,99}}\|?\s{{0,99}}(\d{{1,3}})\s{{1,99}}(\S[^|]{{0,120}}?)(?:\s{{1,99}}(?:{_MODES}))?\s{{0,99}}(\|.*)?",
                       re.DOTALL)


def read(text: Text) -> Iterator[Section]:
    """One section for every table that has rows or at least MIG rows."""
    joined = text.joined
    headers = [match for match in _HEADER.finditer(joined)]
    bounds = [0] + [match.start() for match in headers[1:]] + [len(joined)]
    for place in range(len(bounds) - 1):
        header = headers[place] if place < len(headers) else None
        yield from _one_table(text, bounds[place], bounds[place + 1], header)


def _one_table(text: Text, start: int, end: int, header: re.Match[str] | None) -> Iterator[Section]:
    joined = text.joined
    section = Section("nvidia-smi table", Numbering.NVML)
    if header is not None:
        _read_header(section, header, joined[header.end() : header.end() + 600])
    anchors = list(_SECOND_CELL.finditer(joined, start, end))
    last = start
    for anchor, region_end in regions(anchors, end):
        record = _first_cell(text, joined, last, anchor, section)
        if record is None:
            continue
        stop = _STOP.search(joined, anchor.end(), region_end)
        _rest_of_row(text, record, anchor.end(), stop.start() if stop else region_end)
        section.records.append(record)
        last = anchor.end()
    if not section.records:
        _bare_rows(text, start, end, section)
    _cut_row(text, max(last, header.end() if header else start), end, section)
    _mig_rows(text, start, end, section)
    if section.records:
        yield section


def _read_header(section: Section, header: re.Match[str], rest: str) -> None:
    tool, version = driver(header[1]), driver(header[2])
    section.driver_version = version
    if header[0][:6].upper() == "NVITOP":
        section.shape = "nvitop"
    elif tool and version and tool != version and "Persistence-M" in rest:
        # Linux columns, yet nvidia-smi and driver differ: under WSL the driver is that of Windows.
        section.platform = "wsl"
        section.notes.append(f"nvidia-smi is {tool}, the driver {version}: read as WSL, where the driver is Windows'.")


def _first_cell(text: Text, joined: str, floor: int, anchor: re.Match[str], section: Section) -> Record | None:
    head = joined[max(floor, anchor.start() - 320) : anchor.start()].rstrip()
    head = _RULER.split(head)[-1]
    cell = head.rpartition("|")[2]
    lines = cell.split("\n")
    for count in range(1, min(len(lines), 4) + 1):
        match = _FIRST_CELL.fullmatch("\n".join(lines[-count:]).strip())
        if match is not None and (match[1] is not None or count == len(lines)):
            break
    else:
        return None
    if match[1] is None and (section.records or anchor.start() > 400):
        return None  # only a paste that begins inside a row may lack the number
    record = Record(number(match[1]))
    line = text.line_at(anchor.start() - 1)
    if match[1]:
        record.put("nvml_index", record.number, line)
    record.put("name", known(match[2]), line)
    if anchor[1]:
        record.put("pci_bus_id", anchor[1], text.line_at(anchor.start(1)))
    if match[3] in ("WDDM", "TCC", "MCDM"):
        section.platform = "windows"
    if record.values.get("name") is None or lost(match[2]):
        record.put("problem", lost(match[2]) or f"nvidia-smi prints {' '.join(match[2].split())} in place of its name.", line)
    return record


def _rest_of_row(text: Text, record: Record, start: int, end: int) -> None:
    end = min(end, start + 4000)
    joined = text.joined
    if memory := _MEMORY.search(joined, start, end):
        record.put("memory_mib", mib(memory[1]), text.line_at(memory.start(1)))
    if mode := _MIG_MODE.search(joined, start, end):
        record.put("mig_mode", mode[1] == "Enabled", text.line_at(mode.start(1)))
    row = joined[start:end]
    if row.count("ERR!") >= 3 or (reason := lost(row)):
        line = text.line_at(start)
        record.put("problem", lost(row) or "nvidia-smi prints ERR! for its values: the GPU does not answer.", line)


def _bare_rows(text: Text, start: int, end: int, section: Section) -> None:
    rows = list(_BARE_ROW.finditer(text.joined, start, end))
    for row, row_end in regions(rows, end):
        record = Record(number(row[1]))
        line = text.line_at(row.start(1))
        record.put("nvml_index", record.number, line)
        record.put("name", known(row[2]), line)
        record.put("pci_bus_id", row[4], line)
        if row[3] in ("WDDM", "TCC", "MCDM"):
            section.platform = "windows"
        stop = _STOP.search(text.joined, row.end(), row_end)
        _rest_of_row(text, record, row.end(), stop.start() if stop else row_end)
        section.records.append(record)


def _cut_row(text: Text, start: int, end: int, section: Section) -> None:
    """A last row that stops before its address is complete."""
    joined = text.joined
    if end != len(joined) or _STOP.search(joined, start, end) or not (section.records or section.driver_version):
        return
    ruler = None
    for ruler in _RULER.finditer(joined, start, end):
        pass
    if ruler is None or end - ruler.end() > 400:
        return
    match = _LAST_ROW.fullmatch(joined[ruler.end() : end])
    if match is None or (match[3] or "").count("|") > 1:
        return
    line = text.line_at(ruler.end() + match.start(1))
    record = Record(number(match[1]), cut=True)
    if any(other.number == record.number for other in section.records):
        return
    record.put("nvml_index", record.number, line)
    record.put("name", known(match[2]), line)
    section.records.append(record)
    section.notes.append(f"The text ends inside the row of GPU {record.number} (line {line}).")


def _mig_rows(text: Text, start: int, end: int, section: Section) -> None:
    heading = text.joined.find("MIG devices", start, end)
    if heading < 0 and "MIG" not in text.joined[start:end]:
        return
    by_number = {record.number: record for record in section.records}
    headless = [record for record in section.records if record.number is None]
    for row in _MIG_ROW.finditer(text.joined, max(heading, start), end):
        owner = number(row[1])
        line = text.line_at(row.start(1))
        record = by_number.get(owner)
        if record is None and len(headless) == 1:
            # The paste begins inside the row of this GPU; its MIG rows still name its number.
            record = headless.pop()
            record.number = owner
            record.put("nvml_index", owner, line)
        elif record is None:
            record = Record(owner)
            record.put("nvml_index", owner, line)
            section.records.append(record)
        by_number[owner] = record
        record.put("mig_mode", True, line)
        record.lines.setdefault("mig_instances", line)
        record.migs.append(
            MigInstance(
                gpu_instance_id=number(row[2]),
                compute_instance_id=number(row[3]),
                mig_index=number(row[4]),
                memory_mib=mib(row[5]) if row[5] else None,
            )
        )
