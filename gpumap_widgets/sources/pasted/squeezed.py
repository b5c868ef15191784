"""Rows of CSV that were squeezed onto one line: the line ends between them are gone, the commas are left."""

from __future__ import annotations

from collections.abc import Sequence


def unglued(cells: Sequence[str], step: int, first_field: str) -> list[list[str]]:
    """Rows of ``step + 1`` cells from one line, where the last cell of each row and the first of the next are one."""
    rows, row = [], [cells[0]]
    for place, cell in enumerate(cells[1:], 1):
        if place % step == 0 and place < len(cells) - 1:
            last, first = _two_cells(cell, first_field)
            rows.append([*row, last])
            row = [first]
        else:
            row.append(cell)
    return [*rows, row]


def _two_cells(cell: str, first_field: str) -> tuple[str, str]:
    """The last cell of one row and the first of the next, when the line break between them is gone."""
    words = cell.split()
    if len(words) < 2:
        return cell, ""
    if first_field in ("index", "count") or "uuid" in first_field or "bus_id" in first_field:
        return " ".join(words[:-1]), words[-1]
    end = 1
    if cell.startswith("["):
        end = next((i + 1 for i, word in enumerate(words) if word.endswith("]")), 1)
    elif words[1] in ("MiB", "%", "W", "MHz", "C"):
        end = 2
    return " ".join(words[:end]), " ".join(words[end:])
