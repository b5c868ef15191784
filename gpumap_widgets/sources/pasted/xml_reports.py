"""``nvidia-smi -q -x``: the long report as XML.

It is read tag by tag and not by an XML parser: so a document that was cut or has no frame still tells what is there,
and no entity is ever expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...errors import UnreadableTopology
from ...identity import is_full_uuid
from ...topology import MigInstance
from .cleaning import Text
from .records import BUS, WINDOWS_MODES, Numbering, Record, Section, driver, lost, mib, number
from .reports import place, put_value

_TAG = re.compile(
    r"<(/?)(nvidia_smi_log|gpu|mig_device|product_name|uuid|minor_number|pci_bus_id|total|current_mig|current_dm|index"
    r"|(?:\w{1,30}_)?memory_usage|gpu_instance_id|compute_instance_id|driver_version|attached_gpus)"
    r"((?:\s[^<>]{0,200})?)>([^<]{0,200})(?=<)"
)
"""The tags that say something here, with a complete value: a report has some hundred others for every GPU."""
_ID = re.compile(rf"id\s{{0,9}}=\s{{0,9}}[\"']({BUS})")
_KEYS = {
    "product_name": "name",
    "uuid": "uuid",
    "minor_number": "minor",
    "pci_bus_id": "bus",
    "fb_memory_usage/total": "memory",
    "memory_usage/total": "memory",
    "current_mig": "mig",
    "current_dm": "model",
}
"""Tag to the key of the same value in the report as text; a total counts by what it is the total of."""
_HOSTILE = re.compile(r"<!ENTITY|<!DOCTYPE[^<>\[]{0,400}\[", re.IGNORECASE)


def read(text: Text) -> Iterator[Section]:
    """The report as XML.

    Raises UnreadableTopology for a document that declares entities of its own: no report does.
    """
    if _HOSTILE.search(text.joined):
        raise UnreadableTopology(
            "The XML declares entities, which nvidia-smi never does.",
            remedy="Paste the output of nvidia-smi -q -x as it is.",
        )
    reader = _Reader(text)
    for tag in _TAG.finditer(text.joined):
        if tag[1]:
            yield from reader.close(tag[2])
        else:
            reader.open(tag)
    yield from reader.close("nvidia_smi_log")


class _Reader:
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
            self.record.add_mig(_mig(self.mig), self.mig_line)
            self.mig = None
        elif name == "gpu":
            self._finish_gpu()
        elif name == "nvidia_smi_log":
            self._finish_gpu()
            if self.section.records:
                place(self.section, cut=False)
                yield self.section
            self.section = Section("nvidia-smi -q -x", Numbering.ROW)

    def _finish_gpu(self) -> None:
        if self.record is not None and self.record.values:
            self.section.add(self.record)
        self.record, self.mig, self.area = None, None, ""

    def _value(self, record: Record, name: str, value: str, line: int) -> None:
        key = _KEYS.get(f"{self.area}/total" if name == "total" else name)
        if key == "bus" and not re.fullmatch(BUS, value):
            return
        if key == "mig" and value not in ("Enabled", "Disabled"):
            return
        if key == "model" and value not in WINDOWS_MODES:
            return
        if key is not None:
            put_value(record, self.section, key, value, line)
            record.put("problem", lost(value), line)


def _mig(values: Mapping[str, str]) -> MigInstance:
    uuid = values.get("uuid", "")
    return MigInstance(
        uuid=uuid if uuid.startswith("MIG-") and is_full_uuid(uuid) else None,
        gpu_instance_id=number(values.get("gpu_instance_id")),
        compute_instance_id=number(values.get("compute_instance_id")),
        memory_mib=mib(values.get("fb_memory_usage/total", "")),
        mig_index=number(values.get("index")),
    )
