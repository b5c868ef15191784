"""A comparison as HTML: the verdict, each cuda number by each witness, and how every witness came to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ..identity import PciBusId
from ..mapping import Comparison, Device, Edge, Message, Observation, ObservedDevice
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..texts import say
from ..topology import Gpu
from .html import MOST_ROWS, badge, cell, page, swatch, table, tag
from .rows import MARKS
from .text import short_uuid

_SIGNS = {"confirmed": "✓", "refuted": "✗", "not checked": "–"}
_PARTS = ("kernel", "torch", "cuda", "nvml")
"""The parts of a run's time that are shown, in their order."""


def comparison_html(comparison: Comparison) -> str:
    """A comparison as a rich display."""
    return page(result_html(comparison))


def result_html(comparison: Comparison) -> str:
    """All of it: verdict, edges, witnesses, circumstances."""
    return verdict_html(comparison) + edges_html(comparison) + witnesses_html(comparison) + run_html(comparison)


def verdict_html(comparison: Comparison) -> str:
    """The verdict, its first sentence beside it, the others below; labelled when it came from a simulated driver."""
    first, *rest = _sentences(comparison.reason)
    label = tag("strong", escape(f"{_SIGNS[comparison.verdict]} {say('verdict.' + comparison.verdict)}"))
    simulated = badge(say("verdict.simulated")) if comparison.simulated else ""
    lines = [tag("p", f"{label} {simulated} {escape(_shortened(first.text(), comparison.verdict))}")]
    lines += [_line(one, comparison) for one in rest]
    css = f"gpumap-verdict gpumap-verdict-{comparison.verdict.replace(' ', '-')}"
    return tag("div", "".join(lines), css, role="status")


def _sentences(reason: Message) -> list[Message]:
    """The single messages that a reason is chained of."""
    found = []
    while reason.key == "compare.two":
        found.append(reason.fields["first"])
        reason = reason.fields["second"]
    return [*found, reason]


def _line(said: Message, comparison: Comparison) -> str:
    """A sentence below the verdict; a rule that failed stands out, with its source small."""
    failed = comparison.failed
    if said.key != "compare.rule" or failed is None:
        return tag("p", escape(said.text()), "gpumap-note")
    rule = f"{tag('strong', escape(say('verdict.rule')))} {escape(failed.message.text())}"
    return tag("p", rule + " " + tag("span", escape(failed.source), "gpumap-source"), "gpumap-rule")


def _shortened(text: str, verdict: str) -> str:
    """A first sentence without the verdict that it begins with: that stands in front already."""
    rest = text.removeprefix(say("verdict." + verdict)).removeprefix(":").strip()
    return rest[:1].upper() + rest[1:]


# --- cuda numbers ----------------------------------------------------------------------------------------------------


def edges_html(comparison: Comparison) -> str:
    """Each cuda number: what was foretold, and what each witness says; "" where there is none."""
    edges = comparison.edges
    if not edges:
        return ""
    names = tuple(dict.fromkeys(part.observation.witness for part in comparison.each))
    ranks = any(edge.rank is not None for edge in edges)
    heads = [say(f"column.{name}") for name in (*(("rank",) if ranks else ()), "ordinal", "foretold")]
    heads += [*(say(f"column.witness-{name}") for name in names), say("column.uuid")]
    gpus = comparison.prediction.scenario.topology.gpus
    rows = []
    for edge in edges[: MOST_ROWS + 1]:
        cells = [cell("" if edge.rank is None else str(edge.rank))] if ranks else []
        cells.append(tag("th", escape(f"cuda:{edge.ordinal}"), scope="row"))
        cells.append(_foretold(edge.predicted))
        cells += [_said(_by(edge, name, comparison), gpus) for name in names]
        cells.append(_uuid(edge))
        rows.append(tag("tr", "".join(cells)))
    return table(say("caption.comparison"), heads, rows)


def _by(edge: Edge, witness: str, comparison: Comparison) -> Edge | None:
    return edge.by.get(witness) if comparison.parts else edge


def _foretold(device: Device | None) -> str:
    if device is None:
        return cell(say("cell.none"))
    return tag(
        "td", _named(device.gpu, device.position, device.mig.profile or "" if device.mig else None), "gpumap-gpu"
    )


def _uuid(edge: Edge) -> str:
    device = edge.predicted
    uuid = None if device is None else device.mig.uuid if device.mig else device.gpu.uuid
    return cell(short_uuid(uuid), "gpumap-code", uuid or "")


def _named(gpu: Gpu, position: int, profile: str | None = None) -> str:
    """A GPU as two phrases that stay whole each: name, and where it is as far as that is known."""
    name = gpu.short_name if profile is None else say("cell.mig", name=gpu.short_name, profile=profile)
    index = say("cell.nvidia-smi", index=gpu.nvml_index) if gpu.nvml_index is not None else ""
    where = " · ".join(part for part in (index, gpu.pci.short if gpu.pci else "") if part)
    return tag("span", swatch(position) + escape(name)) + " " + tag("span", escape(where), "gpumap-label")


def _said(edge: Edge | None, gpus: tuple[Gpu, ...]) -> str:
    """What one witness says of a number: one word where it agrees, the GPU below it where it differs."""
    if edge is None:
        return cell(f"{MARKS['not checked']} {say('cell.not-checked')}", "gpumap-not-checked")
    css, mark = f"gpumap-{edge.verdict.replace(' ', '-')}", MARKS[edge.verdict]
    if edge.verdict != "differs":
        return cell(f"{mark} {say('cell.' + edge.verdict.replace(' ', '-'))}", css, _hover(edge.observed))
    named = escape(f"{mark} {say('cell.differs')}") + "<br>"
    if edge.observed is None:
        named += escape(say("cell.no-device"))
    elif edge.seen_position is None:
        named += escape(_stranger(edge.observed))
    else:
        named += _named(gpus[edge.seen_position], edge.seen_position)
    return tag("td", named, f"gpumap-gpu {css}", title=_hover(edge.observed))


def _stranger(device: ObservedDevice) -> str:
    pci = PciBusId.parse(device.pci_bus_id) if device.pci_bus_id else None
    named = Gpu(name=device.name).short_name
    return f"{named} · {pci.short}" if pci else named


def _hover(device: ObservedDevice | None) -> str:
    if device is None:
        return ""
    return "\n".join(part for part in (device.name, device.pci_bus_id, device.uuid) if part)


# --- witnesses -------------------------------------------------------------------------------------------------------


def witnesses_html(comparison: Comparison) -> str:
    """Who was asked, what the answer was, how long each part of it took, and by which versions.

    Workers with the same answer share a line.
    """
    groups: dict[tuple[str, str, str], list[Observation]] = {}
    for part in comparison.each:
        seen = part.observation
        groups.setdefault((seen.witness, _answer(seen), _how(seen)), []).append(seen)
    rows = []
    for (witness, answer, how), same in list(groups.items())[: MOST_ROWS + 1]:
        longest = max(same, key=lambda seen: seen.seconds.get("total", 0.0))
        cells = [
            tag("th", escape(say(f"column.witness-{witness}") + _ranks(same)), scope="row"),
            tag("td", escape(answer), "gpumap-wrap gpumap-answer"),
            tag("td", _time(longest), "gpumap-time"),
            tag("td", escape(how), "gpumap-wrap"),
        ]
        rows.append(tag("tr", "".join(cells)))
    heads = [say(f"column.{name}") for name in ("witness", "answer", "took", "how")]
    return table(say("caption.witnesses"), heads, rows)


def _ranks(same: Sequence[Observation]) -> str:
    ranks = sorted(seen.rank for seen in same if seen.rank is not None)
    if not ranks:
        return ""
    if len(ranks) == 1:
        return " " + say("cell.rank", rank=ranks[0])
    whole = ranks == list(range(ranks[0], ranks[-1] + 1))
    return " " + say("cell.ranks", ranks=f"{ranks[0]}–{ranks[-1]}" if whole else ", ".join(map(str, ranks)))


def _answer(seen: Observation) -> str:
    if seen.problem is not None:
        return seen.problem.text()
    n = len(seen.devices)
    return say("cell.devices-none" if n == 0 else "cell.devices-one" if n == 1 else "cell.devices", n=n)


def _time(seen: Observation) -> str:
    """The whole time in front, its parts small beside it."""
    total = seen.seconds.get("total")
    if total is None:
        return ""
    parts = [say(f"took.{name}", s=seconds(seen.seconds[name])) for name in _PARTS if name in seen.seconds]
    small = tag("span", escape(", ".join(parts)), "gpumap-label")
    return f"{tag('strong', escape(seconds(total)))} {small}"


def seconds(value: float) -> str:
    """A time with two digits that count: ``60 ms``, ``1.2 s``, ``13 s``."""
    if value < 0.0995:
        return say("took.ms", n=f"{1000 * value:.0f}" if value >= 0.00095 else "<1")
    return say("took.s", n=f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2f}")


def _how(seen: Observation) -> str:
    parts = [say(f"version.{name}", version=version) for name, version in seen.versions.items() if name != "python"]
    if seen.ran:
        parts.append(say("how.launched", launcher=", ".join(seen.ran)))
    elif seen.witness == "torch":
        fresh = say("how.kernel", name=seen.kernel_name) if seen.kernel_name else say("how.fresh")
        parts.append(say("how.warm") if seen.warm else fresh)
    return " · ".join(parts)


# --- circumstances ---------------------------------------------------------------------------------------------------


def run_html(comparison: Comparison) -> str:
    """When, under which values of the two variables, and what was gone through."""
    each = [part.observation for part in comparison.each]
    ran = [seen for seen in each if seen.env] or each[:1]
    layers = ", ".join(say("evidence.cuda") if kind == "cuda" else kind for kind in comparison.exercised)
    lines = [say("evidence.exercised", layers=layers)] if comparison.exercised else []
    lines += [_inside(ran[0].env)] if comparison.exercised else []
    lines += [say("evidence.started", time=each[0].started.replace("T", " "))] if each[0].started else []
    return "".join(tag("p", escape(line), "gpumap-note") for line in lines)


def _inside(env: Mapping[str, str]) -> str:
    both = ", ".join(f"{k}={env[k]}" for k in (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES) if k in env)
    return say("evidence.env", env=both or say("evidence.env-none"))
