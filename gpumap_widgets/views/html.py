"""Values as HTML. Everything that comes from outside is escaped; colours follow Jupyter's theme variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from ..beliefs import Belief
from ..error_messages import MessageReading
from ..expectation import Expectation
from ..explanation import clip, gpu_name, stop_reason
from ..mapping import Comparison, Finding, Prediction, Process, Step
from ..readings import ToolReading
from ..remedies import Remedy
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, ENVIRONMENT, Layer
from ..texts import say
from ..topology import Topology
from .palette import STYLE, colour
from .rows import MARKS, Row, certainty_text, memory_text, prediction_rows, sentence
from .text import number, short_uuid

MOST_ROWS = 512
_MOST_TOKENS = 64
_MOST_INDICES = 16


def tag(name: str, inner: str, css: str = "", **attributes: str) -> str:
    """An element with escaped attributes; ``inner`` is HTML already."""
    given = {"class": css, **{k.replace("_", "-"): v for k, v in attributes.items()}}
    attrs = "".join(f' {k}="{escape(v)}"' for k, v in given.items() if v)
    return f"<{name}{attrs}>{inner}</{name}>"


def page(inner: str) -> str:
    """A fragment with the style that it needs, for a rich display outside the explorer."""
    return f"<style>{STYLE}</style>{tag('div', inner, 'gpumap gpumap-output')}"


def _table(caption: str, columns: Sequence[str], rows: Iterable[str]) -> str:
    """A table whose columns are keys of their heads."""
    return table(caption, [say(f"column.{c}") for c in columns], rows)


def table(caption: str, columns: Sequence[str], rows: Iterable[str]) -> str:
    """A table that scrolls in itself; ``rows`` are HTML already."""
    head = "".join(tag("th", escape(column), scope="col") for column in columns)
    body = list(rows) or [tag("tr", tag("td", escape(say("cell.no-rows")), colspan=str(len(columns))), "gpumap-faded")]
    shown = body[:MOST_ROWS]
    if len(body) > len(shown):
        more = escape(say("cell.more", n=len(body) - len(shown)))
        shown.append(tag("tr", tag("td", more, colspan=str(len(columns)))))
    caption_html = tag("caption", escape(caption), "gpumap-hidden-text")
    inner = tag(
        "table", f"{caption_html}<thead>{tag('tr', head)}</thead><tbody>{''.join(shown)}</tbody>", "gpumap-table"
    )
    return tag("div", inner, "gpumap-scroll")


def cell(text: str, css: str = "", title: str = "") -> str:
    """A cell of a table, escaped."""
    return tag("td", escape(text), css, title=title)


def plain_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; ``columns`` are keys of their heads."""
    return _table(caption, columns, (tag("tr", "".join(cell(text, "gpumap-wrap") for text in row)) for row in rows))


class Marked(NamedTuple):
    """A row that is about a GPU: its head, and texts."""

    position: int | None
    """Of the GPU whose colour stands before the head; None for none."""
    cells: Sequence[str]
    faded: bool = False


def marked_table(caption: str, columns: Sequence[str], rows: Iterable[Marked]) -> str:
    """A table of texts, each row with the colour of its GPU; the last column may wrap."""
    shown = []
    for row in rows:
        mark = "" if row.position is None else swatch(row.position)
        head = tag("th", mark + escape(row.cells[0]), scope="row")
        rest = "".join(map(cell, row.cells[1:-1])) + cell(row.cells[-1], "gpumap-wrap")
        shown.append(tag("tr", head + rest, "gpumap-faded" if row.faded else ""))
    return _table(caption, columns, shown)


def swatch(position: int) -> str:
    """The colour of a GPU as a small square."""
    return tag("span", "", "gpumap-swatch", style=f"background:{colour(position)}", aria_hidden="true")


def badge(text: str) -> str:
    """A word with a border around it."""
    return tag("span", escape(text), "gpumap-badge")


def certainty_badge(certainty: str) -> str:
    """A certainty as a word with a shape of its own, never by colour alone."""
    return tag("span", escape(certainty), f"gpumap-badge gpumap-{escape(certainty)}")


# --- machine ---------------------------------------------------------------------------------------------------------


def topology_html(topology: Topology) -> str:
    """A machine as a table."""
    problems = any(gpu.problem for gpu in topology.gpus)
    columns = ["nvml_index", "name", "pci", "uuid", "memory", *(["problem"] if problems else [])]
    rows = []
    for position, gpu in enumerate(topology.gpus[: MOST_ROWS + 1]):
        cells = [
            cell(number(gpu.nvml_index)),
            tag("td", swatch(position) + escape(gpu.label)),
            cell(gpu.pci.short if gpu.pci else "", "gpumap-code"),
            cell(gpu.uuid or "", "gpumap-code"),
            cell(memory_text(gpu.memory_mib)),
        ]
        if problems:
            cells.append(cell(gpu.problem or say("cell.usable")))
        rows.append(tag("tr", "".join(cells), "gpumap-faded" if gpu.problem else ""))
    driver = f", driver {topology.driver_version}" if topology.driver_version else ""
    title = tag("p", escape(f"{topology.source}{driver}"), "gpumap-note")
    notes = "".join(tag("p", escape(note), "gpumap-note") for note in topology.notes)
    return page(title + _table(say("caption.machine"), columns, rows) + notes)


_READ_FIELDS = ("nvml_index", "name", "pci_bus_id", "uuid", "memory_mib")


def reading_html(topology: Topology, origins: Sequence[Mapping[str, int]]) -> str:
    """What was understood of a pasted text, row by row: each value with the line of the text that it stood in."""
    rows = []
    for position, gpu in enumerate(topology.gpus[: MOST_ROWS + 1]):
        lines = origins[position] if position < len(origins) else {}
        shown = (
            gpu.nvml_index,
            gpu.name,
            gpu.pci.short if gpu.pci else None,
            short_uuid(gpu.uuid) or None,
            gpu.memory_mib,
        )
        cells = []
        for name, value in zip(_READ_FIELDS, shown, strict=True):
            line = lines.get(name)
            where = (
                tag("span", escape(say("read.line", line=line)), "gpumap-source") if line and value is not None else ""
            )
            text = say("read.missing") if value is None else str(value)
            cells.append(tag("td", f"{escape(text)} {where}", "gpumap-missing" if value is None else ""))
        rows.append(tag("tr", "".join(cells)))
    columns = ("nvml_index", "name", "pci", "uuid", "memory_mib")
    notes = "".join(tag("p", escape(note), "gpumap-note") for note in topology.notes)
    return _table(say("caption.read"), columns, rows) + notes


# --- prediction ------------------------------------------------------------------------------------------------------


def sentence_html(prediction: Prediction) -> str:
    """The sentence with its certainty."""
    said = tag("strong", escape(sentence(prediction)))
    sure = "" if prediction.error else " " + tag("span", escape(certainty_text(prediction)), "gpumap-why")
    css = f"gpumap-sentence gpumap-edge-{prediction.certainty}"
    return tag("div", said + sure, css, role="status", aria_live="polite")


def table_html(prediction: Prediction, comparison: Comparison | None = None) -> str:
    """The map as a table; with a comparison, what torch said beside it."""
    columns = ["ordinal", "nvml_index", "name", "pci", "uuid", "memory", "certainty"]
    if len(prediction.processes) > 1:
        columns.insert(0, "rank")
    if comparison is not None:
        columns.append(_verdict_column(comparison))
    rows = prediction_rows(prediction, comparison)
    return _table(say("caption.prediction"), columns, [_row(row, columns) for row in rows[: MOST_ROWS + 1]])


def _row(row: Row, columns: Sequence[str]) -> str:
    mig = f" · MIG {row.mig.profile or ''}" if row.mig else ""
    cells = {
        "rank": cell(number(row.rank)),
        "ordinal": tag("th", escape(say("cell.none") if row.ordinal is None else f"cuda:{row.ordinal}"), scope="row"),
        "nvml_index": cell(number(row.gpu.nvml_index)),
        "name": tag("td", swatch(row.position) + escape(row.gpu.label + mig)),
        "pci": cell(row.gpu.pci.short if row.gpu.pci else "", "gpumap-code"),
        "uuid": _uuid_cell(row),
        "memory": cell(memory_text((row.mig.memory_mib if row.mig else None) or row.gpu.memory_mib)),
        "certainty": cell(row.reason) if row.reason else tag("td", certainty_badge(row.certainty)),
        "verdict": _verdict_cell(row.verdict),
    }
    cells["verdict-simulated"] = cells["verdict"]
    return tag("tr", "".join(cells[c] for c in columns), "gpumap-faded" if row.ordinal is None else "")


def _verdict_column(comparison: Comparison) -> str:
    """The head of the verdicts: whatever rests on a simulated driver says so."""
    return "verdict-simulated" if comparison.simulated else "verdict"


def _uuid_cell(row: Row) -> str:
    uuid = row.mig.uuid if row.mig else row.gpu.uuid
    return cell(short_uuid(uuid), "gpumap-code", uuid or "")


def _verdict_cell(verdict: str | None) -> str:
    return cell(f"{MARKS[verdict]} {verdict}", f"gpumap-{verdict.replace(' ', '-')}") if verdict else cell("")


def tokens_html(process: Process) -> str:
    """The raw value with a mark under each token that did not count, and the reason beside it; "" when all is well."""
    reading = process.reading
    stop = reading.stop
    if stop is None:
        return ""
    first = max(0, stop.token - _MOST_TOKENS // 2)  # of a long list, what stands around the mark
    parts = []
    for i, token in enumerate(reading.tokens[first : first + _MOST_TOKENS], start=first):
        css = "gpumap-stop" if i == stop.token else "gpumap-unread" if i > stop.token or stop.empties else "gpumap-read"
        parts.append(tag("span", escape(clip(token.text)) or "&nbsp;", css))
    before, behind = "…," if first else "", ",…" if len(reading.tokens) > first + _MOST_TOKENS else ""
    code = tag("code", before + ",".join(parts) + behind)
    key = "tokens.empties" if stop.empties else "tokens.stop"
    said = say(key, token=clip(reading.tokens[stop.token].text), why=stop_reason(process))
    return tag("div", f"{code} {tag('span', escape(said), 'gpumap-why')}", "gpumap-tokens", role="alert")


def steps_html(steps: Sequence[Step]) -> str:
    """The steps under the stage that they belong to, each with how sure it is; a source is named where it changes."""
    parts = []
    for stage, group in groupby(steps[:MOST_ROWS], key=lambda step: step.stage):
        items, last = [], ""
        for step in group:
            source = tag("span", escape(step.source), "gpumap-source") if step.source != last else ""
            badge = certainty_badge(step.certainty) if step.certainty != "certain" else ""
            items.append(tag("li", f"{escape(str(step))} {badge} {source}"))
            last = step.source
        parts.append(tag("h4", escape(say(f"stage.{stage}"))) + tag("ol", "".join(items), "gpumap-steps"))
    return tag("div", "".join(parts), "gpumap-stages")


def findings_html(findings: Sequence[Finding]) -> str:
    """The findings, or that there are none."""
    if not findings:
        return tag("p", escape(say("findings.none")), "gpumap-note")
    items = []
    for f in findings:
        fix = tag("div", escape(f.remedy), "gpumap-remedy") if f.remedy else ""
        source = tag("span", escape(f.source), "gpumap-source")
        head = tag("strong", escape(say(f"severity.{f.severity}")))
        items.append(
            tag("li", f"{head} {escape(f.message)} {source}{fix}", f"gpumap-finding gpumap-{escape(f.severity)}")
        )
    return tag("ul", "".join(items), "gpumap-findings")


def layer_title(layer: Layer) -> str:
    """What a layer is called in a stack."""
    return str(layer.options.get("via") or layer.kind) if layer.kind == ENVIRONMENT else layer.kind


def layer_html(layer: Layer) -> str:
    """The options of a layer in one line."""
    if layer.kind == ENVIRONMENT:
        words = [f"{name}={value}" for name, value in layer.options.get("set", {}).items()]
        words += [f"{name}={value}" for name, value in layer.options.get("expand", {}).items()]
        words += [say("layer.unset", name=name) for name in layer.options.get("unset", ())]
    elif layer.kind == "jobs":
        words = [say("layer.jobs", n=len(layer.options.get("jobs", ())))]
    else:
        words = [f"{name}={_option(value)}" for name, value in layer.options.items() if value not in (None, False, ())]
    text = clip("  ".join(words) or say("layer.plain"), 160)
    return tag("code", escape(text), "" if layer.enabled else "gpumap-faded")


def _option(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_option, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_option(one)}" for name, one in value.items())
    return "yes" if value is True else str(value)


def further_in_html(process: Process, env: Mapping[str, str]) -> str:
    """What a layer further in makes of the two variables, where that is not what the controls show; "" elsewhere."""
    names = [name for name in (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES) if process.env.get(name) != env.get(name)]
    if not names:
        return ""
    values = [(name, process.env.get(name)) for name in names]
    shown = [say("layer.unset", name=name) if value is None else f"{name}={clip(value)}" for name, value in values]
    return tag("div", escape(say("layer.further-in", values=", ".join(shown))), "gpumap-note gpumap-further-in")


def expected_html(thought: Expectation, worker: int) -> str:
    """What one may have expected, in a sentence, with the source of the correction."""
    shown = thought.prediction.processes
    if worker >= len(shown):
        return ""
    process = shown[worker]
    parts = [f"cuda:{d.ordinal} = {gpu_name(d.gpu)}" for d in (process.devices[i] for i in process.uses[:4])]
    said = say(f"expected.{thought.belief}", parts=", ".join(parts) or say("sentence.none"))
    return tag(
        "div", escape(said) + tag("span", escape(thought.source), "gpumap-source"), "gpumap-note gpumap-expected"
    )


def note_html(text: str) -> str:
    """A line of small print."""
    return tag("div", escape(text), "gpumap-note")


def remedies_html(found: Sequence[Remedy]) -> str:
    """What to type, by UUID and by number, each with what its user must know."""
    parts = []
    for one in found:
        head = escape(say(f"form.{one.form}"))
        if one.text is None:
            parts.append(tag("div", f"{head}: {escape(str(one.why))}", "gpumap-note"))
            continue
        body = tag("pre", tag("code", escape(one.text)), "gpumap-text", tabindex="0")
        notes = "".join(tag("li", escape(str(caveat))) for caveat in one.caveats)
        parts.append(f"{tag('h4', head + ' ' + certainty_badge(one.certainty))}{body}{tag('ul', notes, 'gpumap-note')}")
    return tag("div", "".join(parts), "gpumap-remedies-list")


def messages_html(found: Sequence[MessageReading], topology: Topology) -> str:
    """What error messages mean, each with the GPUs that it speaks of."""
    items = []
    for one in found:
        swatches = "".join(swatch(position) + escape(topology.gpus[position].short_name) for position in one.positions)
        who = tag("div", swatches + " " + certainty_badge(one.certainty)) if one.positions else ""
        said = tag("div", escape(one.said.text()) + tag("span", escape(one.source), "gpumap-source"))
        fix = tag("div", escape(one.fix.text()), "gpumap-remedy")
        quote = tag("code", escape(clip(one.quote, 160)))
        items.append(tag("li", f"{quote}{who}{said}{fix}", "gpumap-finding"))
    return tag("ul", "".join(items), "gpumap-findings") if items else ""


def _agreement(*, agrees: bool | None) -> str:
    key = "unknown" if agrees is None else "agrees" if agrees else "differs"
    return cell(f"{MARKS[key]} {say('agreement.' + key)}", f"gpumap-{key}")


def _indices(indices: Sequence[int | None]) -> str:
    shown = ", ".join(say("cell.none") if i is None else str(i) for i in indices[:_MOST_INDICES])
    return shown + (" …" if len(indices) > _MOST_INDICES else "")


def tools_html(found: Sequence[ToolReading], believed: Sequence[Belief]) -> str:
    """What other tools make of the same values, and what would follow from the orders that people believe in."""
    rows = []
    for one in found:
        note = f"{escape(str(one.note))} {tag('span', escape(one.source), 'gpumap-source')}"
        cells = [
            tag("th", escape(one.tool), scope="row", title=str(one.how)),
            cell(one.shown, "gpumap-code gpumap-wrap"),
            _agreement(agrees=one.agrees_with_driver),
            tag("td", note, "gpumap-wrap"),
        ]
        rows.append(tag("tr", "".join(cells)))
    parts = [_table(say("caption.tools"), ("tool", "shown", "agreement", "note"), rows)]
    if believed:
        rows = [
            tag(
                "tr",
                tag("th", escape(say(f"belief.{one.rule}")), scope="row")
                + cell(_indices(one.nvml_indices), "gpumap-code")
                + _agreement(agrees=one.agrees)
                + cell(one.evidence, "gpumap-wrap"),
            )
            for one in believed
        ]
        parts.append(tag("h4", escape(say("caption.beliefs"))))
        parts.append(_table(say("caption.beliefs"), ("belief", "indices", "agreement", "evidence"), rows))
    return tag("div", "".join(parts), "gpumap-stages")
