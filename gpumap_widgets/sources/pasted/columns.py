"""Columns of ``nvidia-smi --query-gpu``: what each says about a board, and what a column without a heading may be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...catalog import look_up
from .names import is_cut, looks_like_gpu
from .records import BUS, Record, Section, driver, known, lost, mib, number, whole_uuid

PLAIN = frozenset(["index", "name", "uuid", "serial", "count", "timestamp", "pstate", "hostname"])
"""Query names without a point or an underscore."""
TELLING = frozenset(["index", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "memory.total"])
"""A heading without one of these lists no GPUs."""
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_BUS = re.compile(BUS)
_SIZE = re.compile(r"\d{1,9} ?MiB")
_NOTHING = re.compile(r"\[(?:N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost)\]", re.IGNORECASE)
_NEAR = 0.12
"""Total memory in nvidia-smi lies below the nominal size by less than this share (ECC, firmware, page tables)."""


def fill(record: Record, section: Section, field: str, cell: str, line: int) -> None:
    """Put one cell where it belongs; cells that say nothing about the board's identity are passed over."""
    field = _ALIASES.get(field, field)
    if field == "index":
        record.number = number(cell)
        record.put("nvml_index", record.number, line)
    elif field == "name":
        record.put("name", known(cell), line)
    elif field == "uuid":
        record.put("uuid", whole_uuid(cell), line)
    elif field == "pci.bus_id":
        record.put("pci_bus_id", cell if _BUS.fullmatch(cell) else None, line)
    elif field == "memory.total":
        record.put("memory_mib", mib(cell) if not cell.isdigit() else number(cell), line)
    elif field == "compute_cap" and re.fullmatch(r"\d{1,2}\.\d", cell):
        record.put("compute_capability", (int(cell.split(".")[0]), int(cell.split(".")[1])), line)
    elif field == "mig.mode.current" and cell in ("Enabled", "Disabled"):
        record.put("mig_mode", cell == "Enabled", line)
    elif field == "driver_version":
        section.driver_version = section.driver_version or driver(cell)
    elif field == "driver_model.current" and cell in ("WDDM", "TCC", "MCDM"):
        section.platform = "windows"
    elif field == "count":
        section.announced = number(cell) or section.announced
    record.put("problem", lost(cell), line)


def plausible(fields: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether cells can be a row under these headings; prose that happens to have as many commas is not."""
    told = 0
    for field, cell in zip(fields, cells, strict=False):
        kind = _ALIASES.get(field, field)
        nothing = known(cell) is None
        if kind == "index" and not (cell.isdigit() or nothing):
            return False
        if kind == "uuid" and not (cell.startswith("GPU-") or nothing):
            return False
        if kind == "pci.bus_id" and not (_BUS.fullmatch(cell) or nothing):
            return False
        if kind == "name" and not (nothing or (len(cell) <= 80 and any(c.isalpha() for c in cell))):
            return False
        if kind == "name" and len(fields) < 3 and not looks_like_gpu(cell):
            return False
        told += not nothing
    return told > 0 or bool(lost(" ".join(cells)))


def typed(cell: str) -> str:
    """What a cell without a heading can be: uuid, bus, size, number, driver, nothing, name or other."""
    if cell.startswith("GPU-"):
        return "uuid"
    if _BUS.fullmatch(cell):
        return "bus"
    if _SIZE.fullmatch(cell):
        return "size"
    if cell.isascii() and cell.isdigit():
        return "number"
    if _NOTHING.fullmatch(cell):
        return "nothing"
    if driver(cell) and cell.count(".") == 2:
        return "driver"
    return "name" if looks_like_gpu(cell) else "other"


def row_like(kinds: Sequence[str]) -> bool:
    """Whether cells of these kinds are a row about a GPU."""
    sure = sum(kind not in ("other", "name") for kind in kinds)
    names = kinds.count("name")
    if "uuid" in kinds or ("bus" in kinds and names):
        return len(kinds) > 1
    return names == 1 and sure > 0 and 2 * (sure + 1) > len(kinds)


def guess_fields(rows: Sequence[Sequence[str]]) -> list[str]:
    """Headings for rows that have none; "" for a column that cannot be told."""
    width = len(rows[0])
    columns = [[row[i] for row in rows] for i in range(width)]
    kinds = [_column_kind(column) for column in columns]
    fields = [{"uuid": "uuid", "bus": "pci.bus_id", "driver": "driver_version"}.get(kind, "") for kind in kinds]
    if "name" in kinds:
        fields[kinds.index("name")] = "name"
    index = _index_column(columns, kinds)
    if index is not None:
        fields[index] = "index"
    memory = _memory_column(columns, kinds, columns[fields.index("name")] if "name" in fields else [], index)
    if memory is not None:
        fields[memory] = "memory.total"
    return fields


def _column_kind(column: Sequence[str]) -> str:
    kinds = {typed(cell) for cell in column} - {"nothing"}
    return kinds.pop() if len(kinds) == 1 else "other"


def _index_column(columns: Sequence[Sequence[str]], kinds: Sequence[str]) -> int | None:
    """The first column that counts up by one; for a single row, a small number at either end."""
    if len(columns[0]) == 1:
        ends = [i for i in (0, len(kinds) - 1) if kinds[i] == "number" and int(columns[i][0]) < 64]
        return ends[0] if ends else None
    for i, column in enumerate(columns):
        if kinds[i] == "number" and all(cell.isdigit() and len(cell) < 4 for cell in column):
            values = [int(cell) for cell in column]
            if values == list(range(values[0], values[0] + len(values))):
                return i
    return None


def _memory_column(
    columns: Sequence[Sequence[str]], kinds: Sequence[str], names: Sequence[str], index: int | None
) -> int | None:
    """The column of total memory: near what the catalogue says of the models, else the largest of several sizes."""
    nominal = [model.memory_mib if not is_cut(n) and (model := look_up(n)) else None for n in names]
    sizes = [i for i, kind in enumerate(kinds) if kind == "size" or (kind == "number" and i != index)]
    for i in sizes:
        values = [mib(cell) or number(cell) or 0 for cell in columns[i]]
        if any(nominal) and all(want is None or abs(v - want) <= _NEAR * want for v, want in zip(values, nominal, strict=True)):
            return i
    sizes = [i for i in sizes if kinds[i] == "size"]
    if any(nominal) or not sizes:
        return None
    largest = max(sizes, key=lambda i: mib(columns[i][0]) or 0)
    for row in range(len(columns[0])):
        if any((mib(columns[i][row]) or 0) > (mib(columns[largest][row]) or 0) for i in sizes):
            return None
    return largest
