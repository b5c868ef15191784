"""Rows of ``nvidia-smi --query-gpu`` without header and command: what their columns may be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...catalog import look_up
from .columns import SIZE
from .names import is_cut, looks_like_gpu
from .records import BUS, driver, mib, number

_BUS = re.compile(BUS)
_NOTHING = re.compile(r"\[(?:N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost)\]", re.IGNORECASE)
_NEAR = 0.12
"""Total memory in nvidia-smi lies below the nominal size by less than this share (ECC, firmware, page tables)."""
_MOST_GPUS = 256


def typed(cell: str) -> str:
    """What a cell without a heading can be: uuid, bus, size, number, driver, nothing, name or other."""
    if cell.startswith("GPU-"):
        return "uuid"
    if _BUS.fullmatch(cell):
        return "bus"
    if SIZE.fullmatch(cell):
        return "size"
    if cell.isascii() and cell.isdigit():
        return "number"
    if _NOTHING.fullmatch(cell):
        return "nothing"
    if cell.count(".") == 2 and driver(cell):
        return "driver"
    return "name" if looks_like_gpu(cell) else "other"


def row_like(cells: Sequence[str]) -> bool:
    """Whether cells are a row about a GPU; rows about processes have UUIDs and sizes too, but no name of a GPU."""
    kinds = [typed(cell) for cell in cells]
    sure = sum(kind not in ("other", "name") for kind in kinds)
    names = kinds.count("name")
    if kinds.count("uuid") > 1 or kinds.count("bus") > 1:
        return False
    if "name" not in kinds:
        indices = [int(cell) for cell, kind in zip(cells, kinds, strict=True) if kind == "number"]
        return "uuid" in kinds and "other" not in kinds and len(kinds) > 1 and max(indices, default=0) < _MOST_GPUS
    if "uuid" in kinds or "bus" in kinds:
        return True
    return names == 1 and sure > 0 and 2 * (sure + 1) > len(kinds)


def says_nothing(cells: Sequence[str]) -> bool:
    """Whether a row among others has values that are not available, and numbers only: a GPU that does not answer."""
    kinds = {typed(cell) for cell in cells}
    return "nothing" in kinds and kinds <= {"nothing", "number"}


def guess_fields(rows: Sequence[Sequence[str]]) -> list[str]:
    """Headings for rows that have none; "" for a column that cannot be told."""
    columns = list(zip(*rows, strict=True))
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
    """The first column that counts up by one, or the one at either end that counts up; for one row, a small number there."""
    if len(columns[0]) == 1:
        ends = [i for i in (0, len(kinds) - 1) if kinds[i] == "number" and len(columns[i][0]) < 3]
        return ends[0] if ends else None
    for i, column in enumerate(columns):
        if kinds[i] == "number" and all(cell.isdigit() and len(cell) < 4 for cell in column):
            values = [int(cell) for cell in column]
            at_the_end = i in (0, len(columns) - 1) and values == sorted(set(values))
            if at_the_end or values == list(range(values[0], values[0] + len(values))):
                return i
    return None


def _memory_column(
    columns: Sequence[Sequence[str]], kinds: Sequence[str], names: Sequence[str], index: int | None
) -> int | None:
    """The column of total memory: near what the catalogue says of the models, else the largest of several sizes."""
    models = [None if is_cut(name) else look_up(name) for name in names]
    nominal = [model.memory_mib if model else None for model in models]
    candidates = [i for i, kind in enumerate(kinds) if kind == "size" or (kind == "number" and i != index)]
    for i in candidates:
        values = [mib(cell) or number(cell) or 0 for cell in columns[i]]
        near = [want is None or abs(v - want) <= _NEAR * want for v, want in zip(values, nominal, strict=False)]
        if any(nominal) and all(near):
            return i
    sizes = [i for i in candidates if kinds[i] == "size"]
    if any(nominal) or not sizes:
        return None
    largest = max(sizes, key=lambda i: mib(columns[i][0]) or 0)
    for row in range(len(columns[0])):
        if any((mib(columns[i][row]) or 0) > (mib(columns[largest][row]) or 0) for i in sizes):
            return None
    return largest
