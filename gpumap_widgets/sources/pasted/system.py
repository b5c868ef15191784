"""What the operating system lists: ``lspci`` and ``/proc/driver/nvidia/gpus``. Addresses, but no number of nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .cleaning import Text
from .names import rejoined
from .records import BUS, Numbering, Record, Section, driver, known, number, regions, whole_uuid

_CLASS = r"VGA compatible controller|3D controller|Display controller|Non-VGA unclassified device"
_LSPCI = re.compile(
    rf"({BUS})\s{{1,9}}\"?(?:{_CLASS})\"?(?:\s\[03[0-9a-f]{{2}}\])?:?\"?\s{{1,9}}\"?NVIDIA(?: Corporation)?\b\"?",
    re.IGNORECASE,
)
_NUMERIC = re.compile(rf"({BUS})\s{{1,9}}03[0-9a-f]{{2}}:\s(10de:[0-9a-f]{{4}})")
_NAME = re.compile(r"\[([^\[\]]{2,100})\](?!\s{0,3}:)")
_ID = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4})?")
_END_OF_DEVICE = re.compile(rf"\n(?!\s{{0,9}}\[)|\s{BUS}\s")
_OWN_LINE = re.compile(r"\s{0,9}(?:Subsystem|Flags|Control|Kernel|DeviceName|Physical Slot)\b")
_KERNEL_DRIVER = re.compile(r"Kernel driver in use:\s{0,9}([\w-]{1,40})")
_NEXT_DEVICE = re.compile(rf"\n(?:{BUS})\s")
_MODEL = re.compile(r"\bModel:[ \t]{1,20}([^\n]{1,100}?)(?=\s{0,9}\n|\s{1,9}IRQ:|\s{0,9}$)")
_PROC = {
    "pci_bus_id": re.compile(rf"Bus Location:\s{{0,20}}({BUS})\b"),
    "uuid": re.compile(r"GPU UUID:\s{0,20}(\S{1,60})"),
    "minor_number": re.compile(r"Device Minor:\s{0,20}(\d{1,3})\b"),
    "excluded": re.compile(r"GPU (?:Excluded|Blacklisted):\s{0,20}(Yes)\b"),
}
_PROC_PATH = re.compile(rf"/proc/driver/nvidia/gpus/({BUS})")
_VERSION = re.compile(r"NVRM version:[^\n]{0,100}?Kernel Module[^\n]{0,40}?\s(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")


def read_lspci(text: Text) -> Iterator[Section]:
    """The NVIDIA display devices; other vendors' are left out."""
    section = Section("lspci", Numbering.ADDRESS)
    joined = text.joined
    devices = [d for begin, end in text.having("ontroller") for d in _LSPCI.finditer(joined, begin, end)]
    devices += [d for begin, end in text.having("10de:") for d in _NUMERIC.finditer(joined, begin, end)]
    devices.sort(key=lambda device: device.start())
    for device, end in regions(devices, len(joined)):
        record = Record()
        line = text.line_at(device.start(1))
        record.put("pci_bus_id", device[1], line)
        lines = _END_OF_DEVICE.split(joined[device.end() : min(end, device.end() + 400)])
        said = lines[0]
        if ("]" not in said or said.count("[") > said.count("]")) and not _OWN_LINE.match(" ".join(lines[1:2])):
            said = "\n".join(lines[:2])  # wrapped before or inside the name
        names = [name for name in _NAME.findall(said) if not _ID.fullmatch(name)]
        record.put("name", known(rejoined(names[0])) if names else None, line)
        used = None
        if "Kernel driver" in joined[device.end() : min(end, device.end() + 2000)]:
            following = _NEXT_DEVICE.search(joined, device.end(), end)
            used = _KERNEL_DRIVER.search(joined, device.end(), following.start() if following else end)
        if used and used[1] != "nvidia":
            record.put(
                "problem", f"The kernel driver in use is {used[1]}: nvidia-smi and CUDA do not see this GPU.", line
            )
        section.add(record)
    if section.records:
        yield section


def read_proc(text: Text) -> Iterator[Section]:
    """The information files of the driver, one a GPU."""
    section = Section("/proc/driver/nvidia", Numbering.ADDRESS)
    joined = text.joined
    if version := _VERSION.search(joined):
        section.driver_version = driver(version[1])
    for model, next_model in regions(list(_MODEL.finditer(joined)), len(joined)):
        end = min(next_model, model.end() + 2000)
        record = Record()
        record.put("name", known(model[1]), text.line_at(model.start()))
        for field, pattern in _PROC.items():
            match = pattern.search(joined, model.end(), end)
            if match is None:
                continue
            line = text.line_at(match.start())
            if field == "excluded":
                record.put("problem", "The driver excludes this GPU.", line)
            elif field == "minor_number":
                record.put(field, number(match[1]), line)
            else:
                record.put(field, whole_uuid(match[1]) if field == "uuid" else match[1], line)
        if len(record.values) > 1:
            section.add(record)
    if section.records:
        yield section
