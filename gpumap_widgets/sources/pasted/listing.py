"""``nvidia-smi -L``: one line a GPU, indented lines for its MIG devices; and torch's collect_env, which quotes it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ...identity import is_full_uuid
from ...topology import MigInstance
from .clean import Text
from .names import looks_like_gpu
from .records import Numbering, Record, Section, driver, known, lost, number, regions, whole_uuid

_GPU = re.compile(r"\bGPU\s{0,9}#?(\d{1,3})\s{0,9}:(?!\s{0,9}[0-9A-Fa-f]{2,8}:)", re.IGNORECASE)
_IDENTITY = re.compile(r"\\?\s{0,99}\(\s{0,9}(UUID|S/N|Serial(?: Number)?)\s{0,9}:\s{0,9}([^)\n]{0,80})(\)?)", re.IGNORECASE)
_MIG = re.compile(
    r"\bMIG\s{1,99}(\S{1,30})\s{1,99}Device\s{1,99}(\d{1,3})\s{0,9}:"
    r"(?:\s{0,99}\\?\s{0,99}\(\s{0,9}UUID\s{0,9}:\s{0,9}([^)\s]{0,99}))?"
)
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-fA-F-]{36})/(\d{1,3})/(\d{1,3})")
_END_OF_NAME = re.compile(r"\n|\\n|Nvidia driver version|cuDNN version|HIP runtime|[|;,\"]|\s[-–]\s|\s\(|\sMIG\s", re.IGNORECASE)
_DRIVER = re.compile(r"Nvidia driver version:\s{0,9}(\S{1,30})", re.IGNORECASE)
_COMMAND = re.compile(r"nvidia-smi(?:\.exe)?\s{1,9}(?:-L|--list-gpus)\b")
_FRAMEWORK = re.compile(r"\btorch|\bcuda(?!\s?version)|tensorflow|\bjax", re.IGNORECASE)


def read(text: Text) -> Iterator[Section]:
    """The listed GPUs; without UUIDs only where the names look like GPUs."""
    joined = text.joined
    collected = "gpu models and configuration" in text.lower
    section = Section("torch.utils.collect_env" if collected else "nvidia-smi -L", Numbering.NVML)
    heads = list(_GPU.finditer(joined))
    any_identity = False
    places: list[int] = []
    for head, end in regions(heads, len(joined)):
        record, identified = _one(text, head, min(end, head.end() + 400))
        if record is not None:
            any_identity |= identified
            section.records.append(record)
            places.append(head.start())
    _attach_migs(text, section, places)
    if collected and (version := _DRIVER.search(joined)):
        section.driver_version = driver(version[1])
    if not (any_identity or collected or _COMMAND.search(joined)):
        _decide_whose_numbers(text, section)
    if section.records:
        yield section


def _one(text: Text, head: re.Match[str], end: int) -> tuple[Record | None, bool]:
    joined = text.joined
    record = Record(number(head[1]))
    line = text.line_at(head.start())
    record.put("nvml_index", record.number, line)
    identity = _IDENTITY.search(joined, head.end(), end)
    if identity is None:
        name = joined[head.end() : end].strip(" \t")
        stop = _END_OF_NAME.search(name)
        name = name[: stop.start()] if stop else name
        record.put("problem", lost(joined[head.end() : end].split("\n")[0]), line)
        if not looks_like_gpu(name) and "problem" not in record.values:
            return None, False
        if name.endswith("...") or end == len(joined) and not stop:
            record.cut = not record.values.get("problem")
        record.put("name", known(name) if looks_like_gpu(name) else None, line)
        return record, False
    name = joined[head.end() : identity.start()]
    if len(name) > 160 or name.count("\n") > 2:
        return None, False
    record.put("name", known(name.replace("\\\n", " ")), line)
    if identity[1].upper() == "UUID":
        record.put("uuid", whole_uuid(identity[2]), text.line_at(identity.start(2)))
        record.cut = not identity[3] and "uuid" not in record.values
    return record, True


def _attach_migs(text: Text, section: Section, places: list[int]) -> None:
    """Give every MIG line to the GPU above it; the old identifiers name their GPU themselves."""
    by_uuid = {record.values.get("uuid"): record for record in section.records}
    for match in _MIG.finditer(text.joined):
        line = text.line_at(match.start())
        uuid = match[3] or None
        old = _OLD_MIG.fullmatch(uuid) if uuid else None
        owner = by_uuid.get(old[1]) if old else None
        if owner is None:
            above = bisect_right(places, match.start())
            owner = section.records[above - 1] if above else None
        if owner is None:
            section.notes.append(f"Line {line} shows a MIG device, but the line of its GPU is missing.")
            continue
        owner.put("mig_mode", True, line)
        owner.lines.setdefault("mig_instances", line)
        owner.migs.append(
            MigInstance(
                uuid=uuid if uuid and (old or (is_full_uuid(uuid) and uuid.startswith("MIG-"))) else None,
                profile=match[1],
                gpu_instance_id=number(old[2]) if old else None,
                compute_instance_id=number(old[3]) if old else None,
                mig_index=number(match[2]),
            )
        )


def _decide_whose_numbers(text: Text, section: Section) -> None:
    """``GPU 0: name`` without a UUID is printed by nvidia-smi -L through filters, but by loops over CUDA devices too."""
    if _FRAMEWORK.search(text.joined):
        section.shape, section.numbering = "list of CUDA devices", Numbering.CUDA
        for record in section.records:
            record.values.pop("nvml_index", None)
            record.lines.pop("nvml_index", None)
    elif section.records:
        section.notes.append("The list has no UUIDs; its numbers are taken for those of nvidia-smi -L.")
