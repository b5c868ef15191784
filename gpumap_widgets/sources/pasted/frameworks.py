"""Programs that list CUDA devices: deviceQuery, TensorFlow, JAX, llama.cpp, Ollama, torch loops and others.

Their numbers are CUDA ordinals. Each row of `LOGS` is one way to print a device; adding a program adds a row. Groups:
``n`` the ordinal, ``name``, ``bus`` an address or ``dom``/``dec``/``dev`` its parts in decimal (``hex`` for a bus in
hexadecimal), ``cc`` the capability, ``mem`` the memory with its unit or ``mb`` without, ``sm``, ``uuid``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ...identity import is_full_uuid
from .cleaning import Text
from .names import is_gpu_name
from .records import BUS, Numbering, Record, Section, known, mib, number, regions

_NAME = r"(?P<name>[^\n,|\"'()\[\]]{1,60}?(?:\([^()\n]{1,20}\))?[^\n,|\"'()\[\]]{0,30}?)"
_LOOSE_UUID = r"\b(?:GPU-)?(?P<uuid>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\b"
_CC = r"[Cc]ompute [Cc]apability:?\s{1,9}(?P<cc>\d{1,2}\.\d)"


class Log(NamedTuple):
    """A way to print a CUDA device."""

    program: str
    words: tuple[str, ...]
    """What the pattern of the head begins with: it is tried where one of these stands."""
    head: re.Pattern[str]
    """Where a device begins."""
    rest: tuple[re.Pattern[str], ...] = ()
    """What may follow before the next device."""


def _log(program: str, words: str | tuple[str, ...], head: str, *rest: str) -> Log:
    words = (words,) if isinstance(words, str) else words
    return Log(program, words, re.compile(head), tuple(re.compile(pattern) for pattern in rest))


LOGS = (
    _log(
        "deviceQuery",
        "Device ",
        r"\bDevice\s{1,9}(?P<n>\d{1,3}):\s{1,9}[\"'](?P<name>[^\"'\n]{1,80})[\"']",
        r"CUDA Capability Major/Minor version number:\s{1,99}(?P<cc>\d{1,2}\.\d)",
        r"Total amount of global memory:\s{1,99}(?P<mem>\d{1,7}\sMBytes)",
        r"\((?P<sm>\d{1,4})\)\s{0,3}Multiprocessors",
        r"PCI Domain ID / Bus ID / location ID:\s{1,99}(?P<dom>\d{1,9})\s{0,3}/\s{0,3}(?P<dec>\d{1,3})\s{0,3}/\s{0,3}(?P<dev>\d{1,3})",
        r"Device PCI Bus ID / PCI location ID:\s{1,99}(?P<dec>\d{1,3})\s{0,3}/\s{0,3}(?P<dev>\d{1,3})",
    ),
    _log(
        "TensorFlow log",
        "Found device ",
        r"Found device (?P<n>\d{1,3}) with properties:",
        r"name:\s{1,9}(?P<name>[^\n]{1,80}?)(?=\s{1,9}(?:major|computeCapability|pciBusID)\b|\n)",
        r"major:\s{0,9}(?P<major>\d{1,2})\s{1,9}minor:\s{0,9}(?P<minor>\d)\b",
        r"computeCapability:\s{0,9}(?P<cc>\d{1,2}\.\d)",
        rf"pciBusID:?\s{{0,9}}(?P<bus>{BUS})",
        r"(?:[Tt]otal ?[Mm]emory|deviceMemorySize):\s{0,9}(?P<mem>[\d.]{1,9}\s?[GM]iB)",
        r"coreCount:\s{0,9}(?P<sm>\d{1,4})\b",
    ),
    _log(
        "TensorFlow log",
        "device:",
        rf"\bdevice:\s{{1,9}}(?P<n>\d{{1,3}}),\s{{1,9}}name:\s{{1,9}}(?P<name>[^,\n]{{1,60}}(?:\n[^,\n]{{1,40}})?),"
        rf"\s{{1,9}}pci\s{{1,9}}bus\s{{1,9}}id:\s{{1,9}}(?P<bus>{BUS})(?:,\s{{1,9}}compute\s{{1,9}}capability:\s{{1,9}}(?P<cc>\d{{1,2}}\.\d))?",
    ),
    _log(
        "XLA log",
        "StreamExecutor device",
        rf"StreamExecutor device \((?P<n>\d{{1,3}})\):\s{{1,9}}{_NAME},\s{{1,9}}{_CC}",
    ),
    _log(
        "llama.cpp log",
        "Device ",
        rf"\bDevice (?P<n>\d{{1,3}}):\s{{1,9}}{_NAME},\s{{1,9}}{_CC}(?:[^\n]{{0,80}}?VRAM:\s{{1,9}}(?P<mem>\d{{1,7}} MiB))?",
    ),
    _log(
        "llama.cpp log",
        "using device CUDA",
        rf"using device CUDA(?P<n>\d{{1,3}}) \({_NAME}\)(?:\s{{1,9}}\((?P<bus>{BUS})\))?",
    ),
    _log(
        "llama.cpp log",
        "CUDA",
        rf"\bCUDA(?P<n>\d{{1,3}}):\s{{1,9}}{_NAME}\s{{1,9}}\((?P<mem>\d{{1,7}} MiB), \d{{1,7}} MiB free",
    ),
    _log(
        "CUDA sample",
        "Device",
        r"\bDevice:?\s{1,9}(?P<n>\d{1,3}),\s{1,9}(?P<name>[^,\n]{1,60}),\s{1,9}pciBusID:\s{0,9}(?P<hex>[0-9a-f]{1,2}),"
        r"\s{1,9}pciDeviceID:\s{0,9}(?P<hexdev>[0-9a-f]{1,2})(?:,\s{1,9}pciDomainID:\s{0,9}(?P<hexdom>[0-9a-f]{1,8}))?",
    ),
    _log(
        "NCCL test",
        "device ",
        r"\bdevice\s{1,9}(?P<n>\d{1,3}) \[(?:0x(?P<hex>[0-9a-f]{1,2})|(?P<place>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}))\]\s{1,9}(?P<name>[^\n]{1,60})",
    ),
    _log(
        "torch device properties",
        "_CudaDeviceProperties(",
        r"_CudaDeviceProperties\(name='(?P<name>[^'\n]{1,80})'",
        r"\bmajor=(?P<major>\d{1,2}),\s{1,9}minor=(?P<minor>\d)",
        r"\btotal_memory=(?P<mem>\d{1,7}MB)",
        r"\bmulti_processor_count=(?P<sm>\d{1,4})",
        r"\buuid=(?P<uuid>[0-9a-f-]{36})",
        r"\bpci_bus_id=(?P<dec>\d{1,3}),\s{1,9}pci_device_id=(?P<dev>\d{1,3})(?:,\s{1,9}pci_domain_id=(?P<dom>\d{1,9}))?",
    ),
    _log(
        "numba.cuda.detect",
        "id ",
        r"\bid (?P<n>\d{1,3})\s{1,40}b?'(?P<name>[^'\n]{1,60})'",
        r"(?i:compute capability):\s{1,9}(?P<cc>\d{1,2}\.\d)",
        r"(?i:pci device id):\s{1,9}(?P<dev>\d{1,3})\s{1,40}(?i:pci bus id):\s{1,9}(?P<dec>\d{1,3})",
        r"UUID:\s{1,9}(?P<uuid>GPU-[0-9a-fA-F-]{36})",
    ),
    _log(
        "cupy.show_config",
        "Device ",
        r"\bDevice (?P<n>\d{1,3}) Name\s{0,40}:\s{1,9}(?P<name>[^\n]{1,60})",
        r"Device \d{1,3} PCI Bus ID\s{0,40}:\s{1,9}(?P<bus>[0-9A-Fa-f:]{4,14}\.[0-7])",
    ),
    _log(
        "YOLO log",
        "CUDA:",
        r"\bCUDA:(?P<n>\d{1,3}) \((?P<name>[^,()\n]{1,60}(?:\([^()\n]{1,20}\))?), (?P<mem>\d{1,7}(?:\.\d)? ?Mi?B)\)",
    ),
    _log(
        "cuda:i loop",
        "cuda:",
        rf"\bcuda:(?P<n>\d{{1,3}})[)\]'\"]?\s{{0,9}}(?:[:=|-]|->|is)?>?\s{{0,9}}['\"]?{_NAME}(?=['\",(\[|\n]|\s{{2}}|\s-|$)",
        _LOOSE_UUID,
    ),
    _log(
        "list of CUDA devices",
        ("Device", "device", "DEVICE"),
        rf"\b(?i:device)\s{{0,2}}#?(?P<n>\d{{1,3}})\s{{0,2}}(?:[:=]|->|-|is)\s{{0,9}}['\"]?{_NAME}(?=['\",(\[|\n]|\s-|$)",
        _LOOSE_UUID,
    ),
    _log("jax.devices()", ("CudaDevice(", "GpuDevice("), r"(?:Cuda|Gpu)Device\(id=(?P<n>\d{1,3})"),
    _log("TensorFlow device list", "PhysicalDevice(", r"PhysicalDevice\(name='/physical_device:GPU:(?P<n>\d{1,3})'"),
)
"""Most telling first: where several rows read the same devices, the first one's ordinals count."""

_OLLAMA = re.compile(r"msg=\"inference compute\"(?:(?!msg=)[^\x00]){0,600}")
_OLLAMA_KEYS = {
    "n": re.compile(r"\bname=\"?CUDA(\d{1,3})\b"),
    "uuid": re.compile(r"\bid=(GPU-[0-9a-fA-F-]{36})"),
    "name": re.compile(r"\b(?:description|(?<!_)name)=\"([^\"\n]{1,80})\""),
    "bus": re.compile(rf"\bpci_id=\"?({BUS})"),
    "cc": re.compile(r"\bcompute=(\d{1,2}\.\d)"),
    "mem": re.compile(r"\btotal=\"([\d.]{1,9} [GM]iB)\""),
}
_DETECTED = re.compile(r"(?:Detected|found|Found) (\d{1,3}) CUDA[ -](?:[Cc]apable )?[Dd]evices?")
_NUMBERED = re.compile(
    rf"[ \t]{{0,20}}[\[(]?(?P<n>\d{{1,3}})[\])]?\s{{0,2}}(?:[:=)]|->)?[ \t]{{1,9}}['\"]?{_NAME}(?=['\",(\[|\n]|\s-|$)"
)
"""A bare number and a name on a line of their own."""
_NAMELESS = ("jax.devices()", "TensorFlow device list")
_MOST = 5000
"""Devices that are read of one program: more are a log that repeats itself."""
LOOSE = ("list of CUDA devices", "cuda:i loop")
"""Patterns so wide that they may meet the lines of other tools."""


def read(text: Text) -> Iterator[Section]:
    """A section for every way of printing devices that occurs; looser ones only where no stricter one does."""
    found = False
    for log in LOGS:
        if found and log.program in (*LOOSE, *_NAMELESS):
            continue
        section = _devices(text, log.program, _heads(text, log), log.rest)
        found |= bool(section.records)
        if section.records:
            yield section
    if not found:
        numbered = [match for begin in text.starts if (match := _NUMBERED.match(text.joined, begin))]
        section = _devices(text, LOOSE[0], numbered, (re.compile(_LOOSE_UUID),))
        if section.records:
            yield section
    if "inference compute" in text.lower:
        yield from _ollama(text)


def _heads(text: Text, log: Log) -> list[re.Match[str]]:
    found = (match for at in text.places(*log.words) if (match := log.head.match(text.joined, at)))
    return list(islice(found, _MOST))


def _devices(text: Text, program: str, heads: Sequence[re.Match[str]], rest: Sequence[re.Pattern[str]]) -> Section:
    section = Section(program, Numbering.CUDA, weak=program in LOOSE)
    joined = text.joined
    for place, (head, end) in enumerate(regions(heads, len(joined))):
        if "name" in head.re.groupindex and not is_gpu_name(head["name"]):
            continue
        record = Record()
        _take(record, head, text, place)
        for pattern in rest:
            begin = head.end()
            if match := pattern.search(joined, begin, min(end, begin + 6000)):
                _take(record, match, text, place)
        if program in _NAMELESS or is_gpu_name(record.values.get("name", "")):
            section.add(record)
    if section.records and (announced := _DETECTED.search(joined)):
        section.announced = number(announced[1])
    return section


def _take(record: Record, match: re.Match[str], text: Text, place: int) -> None:
    found = {key: value for key, value in match.groupdict().items() if value is not None}
    line = text.line_at(match.start())
    if record.number is None:
        record.number = number(found.get("n")) if "n" in found else place
    record.put("name", known(found.get("name")), line)
    record.put("pci_bus_id", _address(found), line)
    if "cc" in found:
        major, _, minor = found["cc"].partition(".")
        record.put("compute_capability", (int(major), int(minor)), line)
    elif "major" in found:
        record.put("compute_capability", (int(found["major"]), int(found["minor"])), line)
    if "mem" in found:
        record.put("memory_mib", mib(found["mem"]), line)
    record.put("sm_count", number(found.get("sm")), line)
    if "uuid" in found:
        uuid = found["uuid"] if found["uuid"].startswith("GPU-") else f"GPU-{found['uuid']}"
        record.put("uuid", uuid if is_full_uuid(uuid) else None, line)


def _address(found: dict[str, str]) -> str | None:
    if "bus" in found:
        return found["bus"]
    if "place" in found:
        return f"{found['place']}.0"
    if "dec" in found:
        parts = [int(found.get(key, "0")) for key in ("dom", "dec", "dev")]
    elif "hex" in found:
        parts = [int(found.get(key, "0"), 16) for key in ("hexdom", "hex", "hexdev")]
    else:
        return None
    domain, bus, device = parts
    return f"{domain:08X}:{bus:02X}:{device:02X}.0" if bus < 256 and device < 32 and domain < 1 << 32 else None


def _ollama(text: Text) -> Iterator[Section]:
    """Ollama prints devices without a number, in the order that CUDA gave."""
    section = Section("Ollama log", Numbering.CUDA)
    for place, row in enumerate(_OLLAMA.finditer(text.joined)):
        found = {key: match[1] for key, pattern in _OLLAMA_KEYS.items() if (match := pattern.search(row[0]))}
        record = Record(number(found.get("n", str(place))))
        line = text.line_at(row.start())
        record.put("name", known(found.get("name")), line)
        record.put("uuid", found.get("uuid"), line)
        record.put("pci_bus_id", found.get("bus"), line)
        record.put("memory_mib", mib(found.get("mem", "")), line)
        if is_gpu_name(found.get("name", "")):
            section.add(record)
    if section.records:
        yield section
