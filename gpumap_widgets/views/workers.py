"""Many workers as HTML: the matrix workers × GPUs, and a prediction with it."""

from __future__ import annotations

from html import escape

from ..certainty import Certainty
from ..explanation import clip
from ..mapping import Prediction
from ..texts import say
from ..topology import Gpu
from .html import MOST_ROWS, page, sentence_html, swatch, table_html, tag
from .matrix import HIDDEN, OUTSIDE, SEES, UNUSABLE, USES, Block, Cell, Line, Matrix, matrix
from .matrix_text import device_texts, line_notes
from .palette import colour
from .rows import memory_text

MARKS = {USES: "●", SEES: "○", HIDDEN: "·", OUTSIDE: "⊘", UNUSABLE: "✗"}
"""What a GPU is to a worker, as a shape; the word is there for a screen reader, and in the legend."""

_LABEL = 40


def prediction_html(prediction: Prediction) -> str:
    """A prediction as a rich display: the sentence, and the table; of several processes the matrix."""
    if len(prediction.processes) < 2:
        return page(sentence_html(prediction) + table_html(prediction))
    return page(sentence_html(prediction) + matrix_html(matrix(prediction)))


def matrix_page(shown: Matrix) -> str:
    """A matrix as a rich display."""
    return page(matrix_html(shown))


def matrix_html(shown: Matrix) -> str:
    """A table for every kind of host: a row for workers that are alike, a column a GPU. Heads stay in sight."""
    return "".join(map(_block, shown.blocks)) + _legend(shown)


def _block(block: Block) -> str:
    title = ", ".join(filter(None, (block.label, block.model)))
    head = tag("h4", escape(title), "gpumap-matrix-title") if title else ""
    if block.error is not None:
        return head + tag("p", escape(say("sentence.error", error=block.error)), "gpumap-bad")
    rows = [_line(block, line) for line in block.lines[:MOST_ROWS]]
    if len(block.lines) > len(rows):
        more = escape(say("cell.more", n=len(block.lines) - len(rows)))
        rows.append(tag("tr", tag("td", more, colspan=str(len(block.gpus) + 1))))
    corner = tag(
        "th",
        escape(f"{say('matrix.corner')} →") + tag("span", escape(say("matrix.workers")), "gpumap-sub"),
        scope="col",
    )
    heads = "".join(_gpu(gpu, position, block) for gpu, position in zip(block.gpus, block.positions, strict=True))
    caption = tag("caption", escape(say("matrix.caption")), "gpumap-hidden-text")
    body = f"{caption}<thead>{tag('tr', corner + heads)}</thead><tbody>{''.join(rows)}</tbody>"
    table = tag("div", tag("table", body), "gpumap-matrix", tabindex="0", role="region", aria_label=title or "matrix")
    return head + table + _members(block)


def _gpu(gpu: Gpu, position: int, block: Block) -> str:
    """The head of a column: nvidia-smi number, model where they differ, address."""
    index = say("cell.none") if gpu.nvml_index is None else str(gpu.nvml_index)
    said = tag("span", escape(f"{say('matrix.corner')} "), "gpumap-hidden-text")
    parts = [tag("strong", f"{swatch(position)}{said}{escape(index)}")]
    name = gpu.short_name if not block.model else ""
    memory = memory_text(gpu.memory_mib) if name else ""
    for text in (name, " · ".join(filter(None, (gpu.pci.short if gpu.pci else "", memory)))):
        if text:
            parts.append(tag("span", escape(text), "gpumap-sub"))
    title = " · ".join(filter(None, (gpu.label, gpu.uuid if len(block.hosts) < 2 else None)))
    return tag("th", "".join(parts), scope="col", title=title)


def _line(block: Block, line: Line) -> str:
    notes = "".join(tag("span", f"✗ {escape(note)}", "gpumap-sub gpumap-bad") for note in line_notes(line))
    head = tag("th", escape(clip(line.label, _LABEL)) + notes, scope="row", title=line.label)
    cells = zip(line.cells, block.positions, strict=True)
    return tag("tr", head + "".join(_cell(cell, position) for cell, position in cells))


def _cell(cell: Cell, position: int) -> str:
    mark = tag("span", MARKS[cell.state], "gpumap-mark", aria_hidden="true")
    word = tag("span", escape(say(f"matrix.{cell.state}")), "gpumap-hidden-text")
    if not cell.ordinals:
        return tag("td", mark + word, "gpumap-gone", title=say(f"matrix.{cell.state}"))
    names = escape(", ".join(device_texts(cell)))
    if cell.certainty is not Certainty.CERTAIN:
        sure = tag("span", f", {escape(cell.certainty)}", "gpumap-hidden-text")
        names = tag("span", names, f"gpumap-sure-{cell.certainty}") + sure
    own = f"--gm-own:{colour(position)}" if cell.state == USES else ""
    title = f"{say(f'matrix.{cell.state}')}, {cell.certainty}"
    return tag("td", f"{mark}{names} {word}", f"gpumap-{cell.state}", style=own, title=title)


def _members(block: Block) -> str:
    """Which worker is on which of the hosts that are drawn together; to be opened."""
    if len(block.members) < 2:
        return ""
    shown = block.members[:MOST_ROWS]
    items = [tag("li", f"{escape(host)}: {escape(Line(workers, ()).label)}") for host, workers in shown]
    if len(block.members) > len(shown):
        items.append(tag("li", escape(say("cell.more", n=len(block.members) - len(shown)))))
    summary = tag("summary", escape(say("matrix.members")))
    return tag("details", summary + tag("ul", "".join(items), "gpumap-note"), "gpumap-members")


def _legend(shown: Matrix) -> str:
    """The shapes that occur, with their words."""
    cells = list(shown.cells())
    states = {cell.state for cell in cells}
    words = [f"{MARKS[state]} {say(f'matrix.{state}')}" for state in MARKS if state in states]
    if any(cell.certainty is not Certainty.CERTAIN for cell in cells if cell.ordinals):
        words.append(say("matrix.legend"))
    return tag("p", escape("   ".join(words)), "gpumap-note gpumap-legend") if words else ""
