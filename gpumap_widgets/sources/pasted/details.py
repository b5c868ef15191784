"""``nvidia-smi -q`` and ``nvidia-smi -q -x``: the long reports, as text and as XML.

Both are read by their keys, region by region, not by indentation or by a parser: so a report that was cut, squeezed or
taken out of its frame still tells what is there, and no entity of an XML text is ever expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...errors import UnreadableTopology
from ...identity import is_full_uuid
from ...topology import MigInstance
from .clean import Text
from .records import BUS, Numbering, Record, Section, driver, known, lost, mib, number, regions, whole_uuid

_GPU = re.compile(rf"\bGPU\s{{1,9}}({BUS})(?=\s{{0,9}}\n|\s{{1,99}}Product Name|\s{{0,9}}$|\s{{1,99}}[A-Z][\w /]{{2,40}}:)")
_LABEL = re.compile(r"\s{1,99}[A-Z][\w /().-]{1,40}?\s{0,99}:\s")
_TOP = {
    "driver": re.compile(r"\b(?:Driver|KMD) Version\s{0,99}:\s{0,99}(\d[\d.]{1,20})"),
    "attached": re.compile(r"Attached GPUs\s{0,99}:\s{0,99}(\d{1,4})\b"),
}
_KEYS: Mapping[str, re.Pattern[str]] = {
    "name": re.compile(r"Product Name\s{0,99}:[ \t]{0,99}([^\n]{0,100})"),
    "uuid": re.compile(r"GPU UUID\s{0,99}:\s{0,99}(\S{1,60})"),
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
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,80})((?:\s[^<>]{0,400})?)>([^<]{0,400})")
_ID = re.compile(rf"id\s{{0,9}}=\s{{0,9}}[\"']({BUS})")
_HOSTILE = re.compile(r"<!ENTITY|<!DOCTYPE[^<>\[]{0,400}\[", re.IGNORECASE)


def read_text(text: Text) -> Iterator[Section]:
    """The report as text."""
    joined = text.joined
    heads = list(_GPU.finditer(joined))
    section: Section | None = None
    for head, end in regions(heads, len(joined)):
        before = joined[max(0, head.start() - 2000) : head.start()]
        top = {key: match for key, pattern in _TOP.items() for match in list(pattern.finditer(before))[-1:]}
        if section is None or "attached" in top:  # a new report begins
            if section is not None and section.records:
                yield _numbered(section, joined)
            section = Section("nvidia-smi -q", Numbering.ROW)
            section.driver_version = driver(top["driver"][1]) if "driver" in top else None
            section.announced = number(top["attached"][1]) if "attached" in top else None
        record = _text_record(text, head, end, section)
        if len(record.values) > 1:
            section.records.append(record)
    if section is not None and section.records:
        yield _numbered(section, joined)


def _text_record(text: Text, head: re.Match[str], end: int, section: Section) -> Record:
    joined = text.joined
    record = Record()
    record.put("pci_bus_id", head[1], text.line_at(head.start()))
    migs = list(_MIG.finditer(joined, head.end(), end))
    rest = end
    if migs:
        stop = _END_OF_MIGS.search(joined, migs[-1].end(), end)
        rest = stop.start() if stop else end
        for mig, mig_end in regions(migs, rest):
            _add_mig(record, _text_mig(joined, mig, mig_end), text.line_at(mig.start()))
    # The board's own values stand before its MIG devices or behind them: theirs must not be taken for its.
    spans = [(head.end(), migs[0].start()), (rest, end)] if migs else [(head.end(), end)]
    for key, pattern in _KEYS.items():
        for begin, stop_at in spans:
            if match := pattern.search(joined, begin, stop_at):
                _put(record, section, key, match[1], text.line_at(match.start(1)))
                break
    status = joined[head.end() : min(end, head.end() + 600)]
    record.put("problem", lost(status), text.line_at(head.end()))
    return record


def _put(record: Record, section: Section, key: str, value: str, line: int) -> None:
    if key == "name":
        label = _LABEL.search(value)  # a report squeezed onto one line: the next label follows the name
        record.put("name", known(_without_label(value[: label.start()]) if label else value), line)
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


def _without_label(value: str) -> str:
    return value.partition(" Product Brand")[0]


def _text_mig(joined: str, mig: re.Match[str], end: int) -> MigInstance:
    found = {key: pattern.search(joined, mig.end(), end) for key, pattern in _MIG_KEYS.items()}
    return MigInstance(
        uuid=found["uuid"][1] if found["uuid"] else None,
        gpu_instance_id=number(found["gi"][1]) if found["gi"] else None,
        compute_instance_id=number(found["ci"][1]) if found["ci"] else None,
        memory_mib=mib(found["memory"][1]) if found["memory"] else None,
        mig_index=number(mig[1]),
    )


def _add_mig(record: Record, mig: MigInstance, line: int) -> None:
    record.put("mig_mode", True, line)
    record.lines.setdefault("mig_instances", line)
    record.migs.append(mig)


def _numbered(section: Section, joined: str) -> Section:
    """Places are numbers only when all GPUs are there, or the paste was cut behind the first ones."""
    announced = section.announced
    if announced is not None and announced > len(section.records):
        last_whole = joined.rstrip().endswith(("</nvidia_smi_log>", "</gpu>")) or "Processes" in joined[-4000:]
        chosen = last_whole or section.shape.endswith("-x") or section.records[0].values.get("minor_number") not in (None, 0)
        if chosen:
            section.numbering = Numbering.UNPLACED
    return section


def read_xml(text: Text) -> Iterator[Section]:
    """The report as XML.

    Raises UnreadableTopology for a document that declares entities of its own: no report does.
    """
    if _HOSTILE.search(text.joined):
        raise UnreadableTopology(
            "The XML declares entities, which nvidia-smi never does.", remedy="Paste the output of nvidia-smi -q -x as it is."
        )
    section = Section("nvidia-smi -q -x", Numbering.ROW)
    record: Record | None = None
    mig: dict[str, str] | None = None
    mig_line = 0
    path: list[str] = []
    for tag in _TAG.finditer(text.joined):
        closing, name, attributes, value = tag[1], tag[2], tag[3], tag[4].strip()
        if closing:
            if name == "mig_device" and mig is not None and record is not None:
                _add_mig(record, _xml_mig(mig), mig_line)
                mig = None
            elif name == "gpu" and record is not None:
                section.records.append(record)
                record = None
            elif name == "nvidia_smi_log":
                if section.records:
                    yield _numbered(section, text.joined)
                section, path = Section("nvidia-smi -q -x", Numbering.ROW), []
            while path and path.pop() != name:
                pass
            continue
        line = text.line_at(tag.start())
        parent = path[-1] if path else ""
        if not attributes.endswith("/"):
            path.append(name)
            del path[:-32]
        if name == "gpu":
            if record is not None:
                section.records.append(record)
            record, mig = Record(), None
            address = _ID.search(attributes)
            record.put("pci_bus_id", address[1] if address else None, line)
        elif name == "mig_device":
            mig, mig_line = {}, line
        elif mig is not None:
            mig.setdefault(f"{parent}/{name}" if name == "total" else name, value)
        elif record is None:
            if name == "driver_version":
                section.driver_version = driver(value)
            elif name == "attached_gpus":
                section.announced = number(value)
        else:
            _xml_value(record, section, parent, name, value, line)
    if record is not None:
        record.cut = True
        section.records.append(record)
    if section.records:
        yield _numbered(section, text.joined)


_XML_KEYS = {
    ("gpu", "product_name"): "name",
    ("gpu", "uuid"): "uuid",
    ("gpu", "minor_number"): "minor",
    ("fb_memory_usage", "total"): "memory",
    ("memory_usage", "total"): "memory",
    ("mig_mode", "current_mig"): "mig",
    ("driver_model", "current_dm"): "model",
}


def _xml_value(record: Record, section: Section, parent: str, name: str, value: str, line: int) -> None:
    key = _XML_KEYS.get((parent, name))
    if key is None and name in ("pci_bus_id", "product_name", "uuid", "minor_number"):
        key = {"pci_bus_id": "bus", "product_name": "name", "uuid": "uuid", "minor_number": "minor"}[name]
    if key == "bus":
        record.put("pci_bus_id", value if re.fullmatch(BUS, value) else None, line)
    elif key == "mig" and value not in ("Enabled", "Disabled"):
        return
    elif key == "model" and value not in ("WDDM", "TCC", "MCDM"):
        return
    elif key is not None:
        _put(record, section, key, value, line)
    record.put("problem", lost(value), line)


def _xml_mig(values: Mapping[str, str]) -> MigInstance:
    uuid = values.get("uuid", "")
    return MigInstance(
        uuid=uuid if uuid.startswith("MIG-") and is_full_uuid(uuid) else None,
        gpu_instance_id=number(values.get("gpu_instance_id")),
        compute_instance_id=number(values.get("compute_instance_id")),
        memory_mib=mib(values.get("fb_memory_usage/total", "")),
        mig_index=number(values.get("index")),
    )
