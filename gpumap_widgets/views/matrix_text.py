"""The matrix of workers as text."""

from __future__ import annotations

from collections.abc import Sequence

from ..certainty import Certainty
from ..explanation import clip
from ..job_findings import numbered
from ..texts import one_line, say
from .matrix import HIDDEN, OUTSIDE, SEES, UNUSABLE, USES, Block, Cell, Line, Matrix

SIGNS = {USES: "*", SEES: " ", HIDDEN: "-", OUTSIDE: "/", UNUSABLE: "!"}
"""What a GPU is to a worker, as one character; the legend has the word."""
DOUBTS = {Certainty.CERTAIN: "", Certainty.LIKELY: "~", Certainty.GUESS: "??", Certainty.UNKNOWN: "?"}
_NAME = 14
_LABEL = 36


def matrix_text(matrix: Matrix) -> str:
    """A table a block: who, then one column a GPU; below it what the signs mean."""
    parts = [_block(block, marked=matrix.mixed) for block in matrix.blocks]
    legend = _legend(matrix)
    return "\n\n".join(parts) + (f"\n{legend}" if legend else "")


def cell_text(cell: Cell, *, marked: bool = False) -> str:
    """``*cuda:1``: the GPU is cuda:1 there, and used; `SIGNS` has the signs, `DOUBTS` the marks behind."""
    if not cell.ordinals:
        return SIGNS[cell.state]
    doubt = DOUBTS[cell.certainty] if marked else ""
    return SIGNS[cell.state] + ",".join(device_texts(cell)) + doubt


def device_texts(cell: Cell) -> list[str]:
    """The devices of a cell, the used ones of several MIG devices marked."""
    names = [f"cuda:{i}" for i in cell.ordinals]
    if cell.profiles:
        names = [f"{name} ({profile})" for name, profile in zip(names, cell.profiles, strict=False)]
    if len(names) > 1 and cell.used:
        names = [("*" if i in cell.used else "") + name for i, name in zip(cell.ordinals, names, strict=True)]
    return names


def line_notes(line: Line) -> list[str]:
    """What else is to be said of a row."""
    key = "matrix.missing" if len(line.missing) == 1 else "matrix.missing-many"
    return [say(key, ordinals=numbered(line.missing))] if line.missing else []


def _block(block: Block, *, marked: bool) -> str:
    head = [[say("matrix.corner"), *(_index(i) for i in (gpu.nvml_index for gpu in block.gpus))]]
    head.append(["", *("" if block.model else clip(gpu.short_name, _NAME) for gpu in block.gpus)])
    head.append(["", *(gpu.pci.short if gpu.pci else "" for gpu in block.gpus)])
    head = [row for k, row in enumerate(head) if k == 0 or any(row)]
    rows = [
        [clip(line.label, _LABEL), *(cell_text(cell, marked=marked) for cell in line.cells), *line_notes(line)]
        for line in block.lines
    ]
    title = [one_line(", ".join(filter(None, (block.label, block.model))))] if block.label or block.model else []
    error = [say("sentence.error", error=one_line(block.error))] if block.error else []
    return "\n".join([*title, *_aligned([*head, *rows]), *error])


def _index(index: int | None) -> str:
    return say("cell.none") if index is None else str(index)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns under each other; a row may have a note behind the last."""
    count = len(rows[0])
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in shown) for i in range(count)]
    lines = []
    for row in shown:
        cells = [row[0].ljust(widths[0]), *(text.ljust(w) for text, w in zip(row[1:count], widths[1:], strict=True))]
        lines.append("  ".join([*cells, *row[count:]]).rstrip())
    return lines


def _legend(matrix: Matrix) -> str:
    """The signs that occur."""
    cells = list(matrix.cells())
    states = {cell.state for cell in cells}
    parts = [f"{SIGNS[state]} {say(f'matrix.{state}')}" for state in SIGNS if state in states and state != SEES]
    if matrix.mixed:
        sure = {cell.certainty for cell in cells if cell.ordinals}
        parts += [f"{mark} {certainty}" for certainty, mark in DOUBTS.items() if mark and certainty in sure]
    return "   ".join(parts)
