"""``nvidia-smi -L``: one line a GPU, indented lines for its MIG devices; and torch's collect_env, which quotes it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ...identity import is_full_uuid
from ...topology import MigInstance
from .cleaning import Text
from .names import is_gpu_name
from .records import BUS, Numbering, Record, Section, driver, known, lost, number, regions, whole_uuid

_GPU = re.compile(r"GPU\s{0,9}#?(\d{1,3})\s{0,9}:(?!\s{0,9}[0-9A-Fa-f]{2,8}:)(?!\s{0,9}GPU)")
_IDENTITY = re.compile(
    r"\\?\s{0,99}\(\s{0,9}(UUID|S/N|Serial(?: Number)?)\s{0,9}:\s{0,9}([^)\n]{0,80})(\)?)", re.IGNORECASE
)
_MIG = re.compile(
    r"MIG\s{1,99}(\S{1,30})\s{1,99}Device\s{1,99}(\d{1,3})\s{0,9}:"
    r"(?:\s{0,99}\\?\s{0,99}\(\s{0,9}UUID\s{0,9}:\s{0,9}([^)\s]{0,99}))?"
)
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-fA-F-]{36})/(\d{1,3})/(\d{1,3})")
_END_OF_NAME = re.compile(
    r"\n|\\n|Nvidia driver version|cuDNN version|HIP runtime|[|;,\"]|\s-\s|\s\(|\sMIG\s|\s(?:and|or|is|it|has|on|in|at|for|to)\s",
    re.IGNORECASE,
)
_ADDRESS = re.compile(BUS)
_DRIVER = re.compile(r"Nvidia driver version:\s{0,9}(\S{1,30})(?=\s)", re.IGNORECASE)
_COMMAND = re.compile(r"nvidia-smi(?:\.exe)?\s{1,9}(?:-L|--list-gpus)\b")
_FRAMEWORKS = ("torch", "cuda:", "cuda.", "cuda device", "tensorflow", "jax")


def read(text: Text) -> Iterator[Section]:
    """The listed GPUs; without UUIDs only where the names look like GPUs."""
    joined = text.joined
    section = Section("nvidia-smi -L", Numbering.NVML)
    owners: list[Record] = []
    places: list[int] = []
    for head, end in regions(list(_GPU.finditer(joined)), len(joined)):
        record = _one(text, head, min(end, head.end() + 400)) if end - head.end() > 2 else None
        if record is not None:
            owners.append(section.add(record))
            places.append(head.start())
    _attach_migs(text, section, owners, places)
    if not section.records:
        return
    if "gpu models and configuration" in text.lower:
        section.shape = "torch.utils.collect_env"
        version = _DRIVER.search(joined)
        section.driver_version = driver(version[1]) if version else None
    elif not (any("uuid" in r.values or r.masked for r in section.records) or _COMMAND.search(joined)):
        _decide_whose_numbers(text, section)
    yield section


def _one(text: Text, head: re.Match[str], end: int) -> Record | None:
    joined = text.joined
    record = Record(number(head[1]))
    line = text.line_at(head.start())
    record.put("nvml_index", record.number, line)
    identity = _IDENTITY.search(joined, head.end(), end)
    if identity is not None:
        name = joined[head.end() : identity.start()]
        if len(name) > 160 or name.count("\n") > 2:
            return None
        record.put("name", known(name.replace("\\\n", " ")), line)
        record.put("uuid", whole_uuid(identity[2]), text.line_at(identity.start(2)))
        record.masked = "uuid" not in record.values
        return record
    said = joined[head.end() : end]
    stop = _END_OF_NAME.search(said.lstrip())
    name = said.lstrip()[: stop.start()] if stop else said.lstrip()
    record.put("problem", lost(said.split("\n")[0]), line)
    if "device handle" in said and (address := _ADDRESS.search(said)):
        record.put("pci_bus_id", address[0], line)
    if is_gpu_name(name):
        record.put("name", known(name), line)
    return record if len(record.values) > 1 else None


def _attach_migs(text: Text, section: Section, owners: list[Record], places: list[int]) -> None:
    """Give every MIG line to the GPU above it; the old identifiers name their GPU themselves."""
    by_uuid = {record.values.get("uuid"): record for record in section.records}
    for match in _MIG.finditer(text.joined):
        line = text.line_at(match.start())
        uuid = match[3] or None
        old = _OLD_MIG.fullmatch(uuid) if uuid else None
        owner = by_uuid.get(old[1]) if old else None
        if owner is None and (above := bisect_right(places, match.start())):
            owner = owners[above - 1]
        if owner is None:
            section.notes.append(f"Line {line} shows a MIG device, but the line of its GPU is missing.")
            continue
        complete = uuid if uuid and (old or (uuid.startswith("MIG-") and is_full_uuid(uuid))) else None
        instance, compute = (number(old[2]), number(old[3])) if old else (None, None)
        owner.add_mig(MigInstance(complete, match[1], instance, compute, None, number(match[2])), line)


def _decide_whose_numbers(text: Text, section: Section) -> None:
    """``GPU 0: name`` without a UUID is printed by nvidia-smi -L through filters, but by loops over CUDA devices too."""
    if any(word in text.lower for word in _FRAMEWORKS):
        section.shape, section.numbering = "list of CUDA devices", Numbering.CUDA
        for record in section.records:
            record.values.pop("nvml_index", None)
            record.lines.pop("nvml_index", None)
    else:
        section.notes.append("The list has no UUIDs; its numbers are taken for those of nvidia-smi -L.")
