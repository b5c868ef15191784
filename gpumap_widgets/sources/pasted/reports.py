"""``nvidia-smi -q``: the long report as text.

It is read by its labels, region by region, not by indentation: so a report that was cut, squeezed onto one line or
filtered by grep still tells what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...topology import MigInstance
from .cleaning import Text
from .names import rejoined
from .records import (
    BUS,
    Numbering,
    Record,
    Section,
    cut_name,
    driver,
    known,
    lost,
    mib,
    number,
    regions,
    whole_uuid,
)

_GPU = re.compile(
    rf"\bGPU\s{{1,9}}({BUS})(?=\s{{0,9}}\n|\s{{1,99}}Product Name|\s{{0,9}}$|\s{{1,99}}[A-Z][\w /]{{2,40}}:)"
)
_FILTERED = re.compile(r"(Product Name|GPU UUID|Minor Number|Bus Id)[ \t]{0,99}:")
_LABEL = re.compile(r"\s(?:Product (?:Brand|Architecture)|Display (?:Mode|Attached))\b")
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version\s{0,99}:\s{0,99}(\d[\d.]{1,20})")
_ATTACHED = re.compile(r"Attached GPUs\s{0,99}:\s{0,99}(\d{1,4})\b")
_KEYS: Mapping[str, re.Pattern[str]] = {
    "bus": re.compile(rf"Bus Id\s{{0,99}}:\s{{0,99}}({BUS})\b"),
    "name": re.compile(
        r"Product Name\s{0,99}:[ \t]{0,99}([^:\n]{0,100}(?:\n[^:\n]{0,40})?(?=\s{1,99}Product [BA])|[^\n]{0,100})"
    ),
    "uuid": re.compile(r"GPU UUID\s{0,99}:\s{0,99}(GPU-[0-9a-fA-F-]{1,36})"),
    "minor": re.compile(r"Minor Number\s{0,99}:\s{0,99}(\d{1,3}|N/A)\b"),
    "memory": re.compile(r"(?:FB )?Memory Usage\s{1,99}Total\s{0,99}:\s{0,99}(\d{1,9} ?[KMG]i?B)\b"),
    "mig": re.compile(r"MIG Mode\s{1,99}Current\s{0,99}:\s{0,99}(Enabled|Disabled)\b"),
    "model": re.compile(r"Driver Model\s{1,99}Current\s{0,99}:\s{0,99}(WDDM|TCC|MCDM)\b"),
    "numa": re.compile(r"NUMA Node(?: ID)?\s{0,99}:\s{0,99}(\d{1,4})\b"),
}
_MIG = re.compile(r"MIG Device\s{1,99}Index\s{0,99}:\s{0,99}(\d{1,3})")
_END_OF_MIGS = re.compile(r"(?:Accounting Mode|Driver Model|Serial Number|GPU UUID|Minor Number)\s{0,99}[:\n]")
_MIG_KEYS = {
    "gi": re.compile(r"GPU Instance ID\s{0,99}:\s{0,99}(\d{1,3})"),
    "ci": re.compile(r"Compute Instance ID\s{0,99}:\s{0,99}(\d{1,3})"),
    "uuid": re.compile(r"(MIG-[0-9a-fA-F-]{36})"),
    "memory": re.compile(r"FB Memory Usage\s{1,99}Total\s{0,99}:\s{0,99}(\d{1,9} ?MiB)"),
}


def read(text: Text) -> Iterator[Section]:
    """A section for every report."""
    joined = text.joined
    section: Section | None = None
    last = 0
    for head, end in regions(list(_GPU.finditer(joined)) or _filtered(text), len(joined)):
        before = joined[max(last, head.start() - 2000) : head.start()]
        attached = [match[1] for match in _ATTACHED.finditer(before)]
        if section is None or attached:  # a new report begins
            yield from _finished(section, joined[last : head.start()])
            versions = [match[1] for match in _DRIVER.finditer(before)]
            section = Section("nvidia-smi -q", Numbering.ROW, driver_version=driver(versions[-1]) if versions else None)
            section.announced = number(attached[-1]) if attached else None
        last = head.end()
        record = _record(text, head, end, section)
        if len(record.values) > (head.re is _GPU):
            section.add(record)
    yield from _finished(section, joined[last:])


def _finished(section: Section | None, rest: str) -> Iterator[Section]:
    """A report with all its GPUs; ``rest`` is the part about the last one."""
    if section is not None and section.records:
        place(section, cut="Processes" not in rest)
        yield section


def place(section: Section, *, cut: bool) -> None:
    """The place in a report is nvidia-smi's number, unless the report is about some of the GPUs only (-i)."""
    missing = (section.announced or 0) > len(section.records)
    if missing and not (cut and section.records[0].values.get("minor_number", 0) == 0):
        section.numbering = Numbering.UNPLACED


def _filtered(text: Text) -> list[re.Match[str]]:
    """Without the headings of the GPUs, as grep leaves it: every occurrence of the first label begins a GPU."""
    labels = [] if "bus location" in text.lower else list(_FILTERED.finditer(text.joined))
    return [match for match in labels if match[1] == labels[0][1]]


def _record(text: Text, head: re.Match[str], end: int, section: Section) -> Record:
    joined = text.joined
    record = Record()
    start = head.end() if head.re is _GPU else head.start()
    if head.re is _GPU:
        record.put("pci_bus_id", head[1], text.line_at(head.start()))
    migs = list(_MIG.finditer(joined, start, end))
    rest = end
    if migs:
        stop = _END_OF_MIGS.search(joined, migs[-1].end(), end)
        rest = stop.start() if stop else end
        for mig, mig_end in regions(migs, rest):
            record.add_mig(_mig(joined, mig, mig_end), text.line_at(mig.start()))
    # The board's own values stand before its MIG devices or behind them: theirs must not be taken for its.
    spans = [(start, migs[0].start()), (rest, end)] if migs else [(start, end)]
    for key, pattern in _KEYS.items():
        for begin, stop_at in spans:
            if match := pattern.search(joined, begin, stop_at):
                put_value(record, section, key, match[1], text.line_at(match.start(1)), cut=match.end(1) == len(joined))
                break
    status = joined[head.end() : min(end, head.end() + 600)]
    record.put("problem", lost(status), text.line_at(head.end()))
    return record


def put_value(record: Record, section: Section, key: str, value: str, line: int, *, cut: bool = False) -> None:
    """Put the value of one of `_KEYS` where it belongs."""
    if key == "name":
        # In a report squeezed onto one line the next label follows the name.
        record.put("name", cut_name(value) if cut else known(rejoined(_LABEL.split(value)[0])), line)
    elif key == "bus":
        record.put("pci_bus_id", value, line)
    elif key == "uuid":
        record.put("uuid", whole_uuid(value), line)
    elif key == "minor":
        record.put("minor_number", number(value), line)
    elif key == "memory":
        record.put("memory_mib", mib(value), line)
    elif key == "mig":
        record.put("mig_mode", value == "Enabled", line)
    elif key == "numa":
        record.put("numa_node", number(value), line)
    elif key == "model":
        section.platform = "windows"


def _mig(joined: str, mig: re.Match[str], end: int) -> MigInstance:
    found = {key: pattern.search(joined, mig.end(), end) for key, pattern in _MIG_KEYS.items()}
    return MigInstance(
        uuid=found["uuid"][1] if found["uuid"] else None,
        gpu_instance_id=number(found["gi"][1]) if found["gi"] else None,
        compute_instance_id=number(found["ci"][1]) if found["ci"] else None,
        memory_mib=mib(found["memory"][1]) if found["memory"] else None,
        mig_index=number(mig[1]),
    )
