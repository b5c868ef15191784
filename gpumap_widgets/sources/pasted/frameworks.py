"""Programs that list CUDA devices: the reader of the table `LOGS`, and of Ollama's lines, which have keys.

A log shows ordinals of its process, which may have run under settings that the log does not show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ...identity import is_full_uuid
from .cleaning import Text
from .logs import LOGS, LOOSE, LOOSE_UUID, NAMELESS, NUMBERED, Log
from .names import is_gpu_name
from .records import BUS, Numbering, Record, Section, known, mib, number, regions

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
_MOST = 5000
"""Devices that are read of one program: more are a log that repeats itself."""


def read(text: Text) -> Iterator[Section]:
    """A section for every way of printing devices that occurs; looser ones only where no stricter one does."""
    found = False
    for log in LOGS:
        if found and log.program in (*LOOSE, *NAMELESS):
            continue
        section = _devices(text, log.program, _heads(text, log), log.rest)
        found |= bool(section.records)
        if section.records:
            yield section
    if not found:
        yield from _list_of_names(text)
        numbered = [match for begin in text.starts if (match := NUMBERED.match(text.joined, begin))]
        section = _devices(text, LOOSE[0], numbered, (LOOSE_UUID,))
        if section.records:
            yield section
    if "inference compute" in text.lower:
        yield from _ollama(text)


def _list_of_names(text: Text) -> Iterator[Section]:
    """``['Tesla T4', 'Tesla P4']``: a Python list of names in the order of the ordinals."""
    section = Section(LOOSE[0], Numbering.CUDA, weak=True)
    for at in text.places("['", '["')[:_MOST]:
        end = text.joined.find("]", at, at + 4000)
        names = [name.strip(" '\"") for name in text.joined[at + 1 : end].split(",")] if end > 0 else []
        if names and all(is_gpu_name(name) for name in names) and not section.records:
            for ordinal, name in enumerate(names):
                record = Record(ordinal)
                record.put("name", name, text.line_at(at))
                section.records.append(record)
    if section.records:
        yield section


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
        if program in NAMELESS or is_gpu_name(record.values.get("name", "")):
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
