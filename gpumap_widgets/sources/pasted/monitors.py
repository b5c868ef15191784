"""``nvidia-smi topo -m`` and gpustat: lists in which every GPU has a line of its own and nvidia-smi's number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .cleaning import Text
from .names import looks_like_gpu
from .records import Numbering, Record, Section, driver, known, mib, number, regions, whole_uuid

_LINKS = r"X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV\d{1,2}|OK|NS|CNS|TNS|GNS|-"
_TOPO_ROW = re.compile(rf"GPU(\d{{1,3}})[ \t]{{1,99}}(?:{_LINKS})(?=\s|$)")
_NUMA = re.compile(r"NUMA\s{1,20}Affinity")
_CELL = re.compile(rf"(?:{_LINKS})")
_GPUSTAT_ROW = re.compile(
    r"\[(\d{1,3})\][ \t]{0,40}([^|\n\[\]]{1,80}?)[ \t]{0,80}\|([^|\n]{0,120})(?:\|\s{0,40}(\d{1,9}|\?{1,3})\s{0,9}/\s{0,9}(\d{1,9}|\?{1,3})\s{0,3}MB)?"
)
_TEMPERATURE = re.compile(r"\?\?|\d\s{0,3}(?:['\u00b0\u00ba]\s?C?|C\b)|%|ERR")
_GPUSTAT_HEAD = re.compile(
    r"^[ \t]{0,40}([\w.-]{1,80})[ \t]{1,40}\w{3} \w{3} [ \d]?\d \d\d:\d\d:\d\d \d{4}(?:[ \t]{1,40}(\d[\d.]{2,15}))?",
    re.MULTILINE,
)


_NVTOP = re.compile(r"Device (\d{1,3})\s{1,9}\[([^\]\n]{2,80})\]\s{1,9}(?:PCIe|Integrated)")
_NVTOP_MEMORY = re.compile(r"MEM\[[^\]\n]{0,200}?/(\d{1,4}(?:\.\d{1,4})?[GM]i)\]", re.IGNORECASE)


def read_topo(text: Text) -> Iterator[Section]:
    """The rows of the link matrix: numbers, and NUMA nodes where a column has them."""
    section = Section("nvidia-smi topo -m", Numbering.NVML)
    joined = text.joined
    with_numa = _NUMA.search(joined) is not None
    for row, end in regions(list(_TOPO_ROW.finditer(joined)), len(joined)):
        record = Record(number(row[1]))
        line = text.line_at(row.start(1))
        record.put("nvml_index", record.number, line)
        rest = [cell for cell in joined[row.end() : min(end, row.end() + 4000)].split() if not _CELL.fullmatch(cell)]
        if with_numa and len(rest) > 1 and rest[1].isdigit():
            record.put("numa_node", number(rest[1]), line)
        section.add(record)
    if section.records:
        yield section


def read_gpustat(text: Text) -> Iterator[Section]:
    """Lines such as ``[0] Tesla T4 | 33'C, 0 % | 10 / 15109 MB |``; a section for every host."""
    heads = list(_GPUSTAT_HEAD.finditer(text.joined))
    sections = [Section("gpustat", Numbering.NVML)]
    at = 0
    for row in _GPUSTAT_ROW.finditer(text.joined):
        if not _TEMPERATURE.search(row[3]):
            continue
        while at < len(heads) and heads[at].start() < row.start():
            head = heads[at]
            sections.append(Section("gpustat", Numbering.NVML, driver_version=driver(head[2]), host=head[1]))
            at += 1
        section = sections[-1]
        record = Record(number(row[1]))
        line = text.line_at(row.start(1))
        record.put("nvml_index", record.number, line)
        record.put("name", known(row[2]), line)
        record.put("memory_mib", number(row[5]), line)
        record.cut = row[4] is None
        section.add(record)
    for section in sections:
        if section.records:
            yield section


def read_nvtop(text: Text) -> Iterator[Section]:
    """Nvtop's screen. It counts the devices of all vendors, so its numbers are nvidia-smi's only among NVIDIA's."""
    section = Section("nvtop", Numbering.NVML)
    joined = text.joined
    for head, end in regions([m for at in text.places("Device ") if (m := _NVTOP.match(joined, at))], len(joined)):
        if not looks_like_gpu(head[2]):
            return
        record = Record(number(head[1]))
        line = text.line_at(head.start())
        record.put("nvml_index", record.number, line)
        record.put("name", known(head[2]), line)
        if memory := _NVTOP_MEMORY.search(joined, head.end(), min(end, head.end() + 2000)):
            record.put("memory_mib", mib(f"{memory[1]}B"), text.line_at(memory.start()))
        section.add(record)
    if section.records:
        yield section


def read_json(text: Text) -> Iterator[Section]:
    """``gpustat --json``: a document with a list named gpus."""
    start, end = text.joined.find("{"), text.joined.rfind("}")
    try:
        document = json.loads(text.joined[start : end + 1])
    except (ValueError, RecursionError):
        return
    rows = document.get("gpus") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        return
    section = Section("gpustat --json", Numbering.NVML, driver_version=driver(str(document.get("driver_version", ""))))
    line = text.line_at(start)
    for row in rows:
        if isinstance(row, dict) and looks_like_gpu(str(row.get("name", ""))):
            section.add(_json_record(row, line))
    if section.records:
        yield section


def _json_record(row: dict[str, Any], line: int) -> Record:
    record = Record(number(str(row.get("index", ""))))
    record.put("nvml_index", record.number, line)
    record.put("name", known(str(row["name"])), line)
    record.put("uuid", whole_uuid(str(row.get("uuid", ""))), line)
    record.put("memory_mib", mib(f"{row.get('memory.total', '')} MiB"), line)
    return record
