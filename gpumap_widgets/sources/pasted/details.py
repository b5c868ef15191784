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
from .cleaning import Text
from .records import BUS, WINDOWS_MODES, Numbering, Record, Section, driver, known, lost, mib, number, regions, whole_uuid

_GPU = re.compile(rf"\bGPU\s{{1,9}}({BUS})(?=\s{{0,9}}\n|\s{{1,99}}Product Name|\s{{0,9}}$|\s{{1,99}}[A-Z][\w /]{{2,40}}:)")
_FILTERED = re.compile(r"(?:Product Name|GPU UUID|Minor Number|Bus Id)[ \t]{0,99}:")
_LABEL = re.compile(r"\s{1,99}[A-Z][\w /().-]{1,40}?\s{0,99}:\s")
_TOP = {
    "driver": re.compile(r"\b(?:Driver|KMD) Version\s{0,99}:\s{0,99}(\d[\d.]{1,20})"),
    "attached": re.compile(r"Attached GPUs\s{0,99}:\s{0,99}(\d{1,4})\b"),
}
_KEYS: Mapping[str, re.Pattern[str]] = {
    "bus": re.compile(rf"Bus Id\s{{0,99}}:\s{{0,99}}({BUS})\b"),
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
_TAG = re.compile(
    r"<(/?)(nvidia_smi_log|gpu|mig_device|product_name|uuid|minor_number|pci_bus_id|total|current_mig|current_dm|index"
    r"|(?:\w{1,30}_)?memory_usage|gpu_instance_id|compute_instance_id|driver_version|attached_gpus)"
    r"((?:\s[^<>]{0,200})?)>([^<]{0,200})"
)
"""The tags that say something here: a report has some hundred others for every GPU."""
_ID = re.compile(rf"id\s{{0,9}}=\s{{0,9}}[\"']({BUS})")
_HOSTILE = re.compile(r"<!ENTITY|<!DOCTYPE[^<>\[]{0,400}\[", re.IGNORECASE)


def read_text(text: Text) -> Iterator[Section]:
    """The report as text."""
    joined = text.joined
    heads = list(_GPU.finditer(joined)) or _filtered(joined)
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
        if len(record.values) > (head.re is _GPU):
            section.add(record)
    if section is not None and section.records:
        yield _numbered(section, joined)


def _filtered(joined: str) -> list[re.Match[str]]:
    """Without the headings of the GPUs, as grep leaves it: the first label that comes again begins a GPU."""
    labels = list(_FILTERED.finditer(joined))
    return [match for match in labels if match[0].split(":")[0] == labels[0][0].split(":")[0]]


def _text_record(text: Text, head: re.Match[str], end: int, section: Section) -> Record:
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
            record.add_mig(_text_mig(joined, mig, mig_end), text.line_at(mig.start()))
    # The board's own values stand before its MIG devices or behind them: theirs must not be taken for its.
    spans = [(start, migs[0].start()), (rest, end)] if migs else [(start, end)]
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
    reader = _XmlReader(text)
    for tag in _TAG.finditer(text.joined):
        if tag[1]:
            yield from reader.close(tag[2])
        else:
            reader.open(tag)
    yield from reader.close("nvidia_smi_log")


class _XmlReader:
    """Collects GPUs from tags in their order; that the document is whole is not asked for."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.section = Section("nvidia-smi -q -x", Numbering.ROW)
        self.record: Record | None = None
        self.mig: dict[str, str] | None = None
        self.mig_line = 0
        self.area = ""

    def open(self, tag: re.Match[str]) -> None:
        """A tag with the text behind it."""
        name, value = tag[2], tag[4].strip()
        if name == "gpu" and self.record is not None and not self.record.values and not tag[3]:
            return
        line = self.text.line_at(tag.start())
        if name == "gpu":
            self._finish_gpu()
            self.record = Record()
            address = _ID.search(tag[3])
            self.record.put("pci_bus_id", address[1] if address else None, line)
        elif name == "mig_device":
            self.mig, self.mig_line = {}, line
        elif name.endswith("memory_usage"):
            self.area = name
        elif self.mig is not None:
            self.mig.setdefault(f"{self.area}/total" if name == "total" else name, value)
        elif self.record is not None:
            self._value(self.record, name, value, line)
        elif name == "driver_version":
            self.section.driver_version = driver(value)
        elif name == "attached_gpus":
            self.section.announced = number(value)

    def close(self, name: str) -> Iterator[Section]:
        """An end tag; a section when it ends the report."""
        if name == "mig_device" and self.mig is not None and self.record is not None:
            self.record.add_mig(_xml_mig(self.mig), self.mig_line)
            self.mig = None
        elif name == "gpu":
            self._finish_gpu()
        elif name == "nvidia_smi_log":
            self._finish_gpu()
            if self.section.records:
                yield _numbered(self.section, self.text.joined)
            self.section = Section("nvidia-smi -q -x", Numbering.ROW)

    def _finish_gpu(self) -> None:
        if self.record is not None and self.record.values:
            self.section.add(self.record)
        self.record, self.mig, self.area = None, None, ""

    def _value(self, record: Record, name: str, value: str, line: int) -> None:
        key = _XML_KEYS.get(f"{self.area}/total" if name == "total" else name)
        if key == "bus" and not re.fullmatch(BUS, value):
            return
        if key == "mig" and value not in ("Enabled", "Disabled"):
            return
        if key == "model" and value not in WINDOWS_MODES:
            return
        if key is not None:
            _put(record, self.section, key, value, line)
            record.put("problem", lost(value), line)


_XML_KEYS = {
    "product_name": "name",
    "uuid": "uuid",
    "minor_number": "minor",
    "pci_bus_id": "bus",
    "fb_memory_usage/total": "memory",
    "memory_usage/total": "memory",
    "current_mig": "mig",
    "current_dm": "model",
}


def _xml_mig(values: Mapping[str, str]) -> MigInstance:
    uuid = values.get("uuid", "")
    return MigInstance(
        uuid=uuid if uuid.startswith("MIG-") and is_full_uuid(uuid) else None,
        gpu_instance_id=number(values.get("gpu_instance_id")),
        compute_instance_id=number(values.get("compute_instance_id")),
        memory_mib=mib(values.get("fb_memory_usage/total", "")),
        mig_index=number(values.get("index")),
    )
