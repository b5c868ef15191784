"""What a person sees of machines, predictions and comparisons: text, HTML, frames, the drawing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.mapping import Comparison, Edge, Message, Observation, ObservedDevice, Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from gpumap_widgets.views.drawing import MOST_ROWS, Columns, short
from gpumap_widgets.views.graph import graph
from gpumap_widgets.views.html import findings_html, steps_html, table_html, tag, tokens_html
from gpumap_widgets.views.palette import HUES, STYLE, colour
from gpumap_widgets.views.rows import certainty_text, doubt, memory_text, prediction_rows, sentence
from gpumap_widgets.views.text import number, short_uuid
from tests.conftest import MIXED, SLICES, UUIDS, equal, listed, predict, split

LOST = replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="the GPU is lost."), *MIXED.gpus[1:]))
BARE = Topology((Gpu(), Gpu(name="Tesla T4"), Gpu(3, "NVIDIA RTX A6000"), Gpu(None, "4090", pci_bus_id="1:5E:00.0")))
ERROR = resolve(Scenario(MIXED, (Layer("teleport"),)))
PREDICTIONS = {
    "mixed": predict(MIXED),
    "list": predict(MIXED, "1,2"),
    "by address": predict(MIXED, "1,2", "PCI_BUS_ID"),
    "empty": predict(MIXED, ""),
    "cut": predict(equal(8), "5,6,7,8"),
    "emptied": predict(equal(8), "1,1,3"),
    "unknown": predict(MIXED, "010,GPU-a0", "odd"),
    "lost": predict(LOST, "0"),
    "mig": predict(split(), SLICES[1]),
    "mig unset": predict(split()),
    "no gpu": predict(Topology()),
    "bare": predict(BARE, "0,1,2,3"),
    "many": predict(equal(40)),
    "a long list": predict(equal(40), listed(range(40))),
    "error": ERROR,
}


PLAIN = Columns(0, None, 1, 2, 3, None)
SMI, ORDER, LIST, PROCESS = PLAIN.smi, PLAIN.order, PLAIN.list, PLAIN.process


def compared(prediction: Prediction, *observed: ObservedDevice | None, **changes: object) -> Comparison:
    """A comparison by hand: device by device, what was seen (None: it did not show)."""
    devices = prediction.processes[0].devices
    edges = []
    for ordinal in range(max(len(devices), len(observed))):
        foretold = devices[ordinal] if ordinal < len(devices) else None
        seen = observed[ordinal] if ordinal < len(observed) else None
        agrees = foretold is not None and seen is not None and (foretold.gpu.uuid or "")[4:] == seen.uuid
        reason = None if agrees else Message("compare.missing", FrozenDict({"ordinal": ordinal, "foretold": "another"}))
        edges.append(Edge(None, ordinal, foretold, seen, "agrees" if agrees else "differs", reason))
    verdict = "confirmed" if all(edge.verdict == "agrees" for edge in edges) else "refuted"
    seen_there = Observation(
        tuple(one for one in observed if one),
        env=FrozenDict({"CUDA_VISIBLE_DEVICES": prediction.scenario.visible_devices or ""}),
        versions=FrozenDict({"torch": "2.14.1"}),
        seconds=FrozenDict({"total": 1.5}),
        started="2026-01-01T00:00:00+00:00",
    )
    whole = Comparison(
        prediction,
        seen_there,
        verdict,
        Message("compare.confirmed", FrozenDict({"count": len(edges)})),
        tuple(edges),
        "uuid",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def seen(ordinal: int, gpu: Gpu) -> ObservedDevice:
    return ObservedDevice(
        ordinal, (gpu.uuid or "")[4:], gpu.name, gpu.pci_bus_id, gpu.memory_mib, gpu.compute_capability
    )


AGREES = compared(PREDICTIONS["list"], seen(0, MIXED.gpus[0]), seen(1, MIXED.gpus[2]))
DIFFERS = compared(PREDICTIONS["list"], seen(0, MIXED.gpus[1]), None, seen(2, MIXED.gpus[3]))


# ---- HTML that a browser can trust ----


class Page(HTMLParser):
    """Reads a page strictly: every element is closed in its turn."""

    VOID = frozenset({"br", "hr", "img", "input", "meta", "link"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.text: list[str] = []
        self.cells: list[int] = []
        self.feed(html)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag == "tr":
            self.cells.append(0)
        if tag in ("td", "th") and self.cells:
            self.cells[-1] += 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def said(self) -> str:
        return "".join(self.text)


def pages(prediction: Prediction) -> Iterator[str]:
    """Everything in HTML that there is about a prediction."""
    yield prediction._repr_html_()
    yield prediction.scenario.topology._repr_html_()
    yield steps_html(prediction.steps)
    yield findings_html(prediction.findings)
    yield from (tokens_html(process) for process in prediction.processes)


@pytest.mark.parametrize("name", PREDICTIONS)
def test_pages_are_well_formed(name: str) -> None:
    for html in pages(PREDICTIONS[name]):
        page = Page(html)
        assert set(page.elements) <= {"style", "div", "p", "strong", "span", "table", "caption", "thead", "tbody", "tr", "th", "td",
                                      "ol", "ul", "li", "code", "h3", "h4"}  # fmt: skip
        assert not any(attribute.startswith("on") for attribute in page.attributes)


@pytest.mark.parametrize(
    "comparison", [AGREES, DIFFERS, compared(PREDICTIONS["empty"])], ids=["agrees", "differs", "nothing"]
)
def test_pages_of_comparisons_are_well_formed(comparison: Comparison) -> None:
    assert Page(comparison._repr_html_()).elements["style"] == 1
    rows = Page(table_html(comparison.prediction, comparison))
    assert len(set(rows.cells)) == 1, "every row has the cells that the head has"


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)" x="',
    "close": "</td></tr></table><h1>mine</h1>",
    "comment": "<!-- ",
    "entity": "&lt;b&gt; &amp; &#60;",
    "style": "</style><style>*{display:none}",
    "ansi": "\x1b[2J\x1b[31mred\x07",
    "newlines": "a\r\nb\u2028c\u0085d",
    "right to left": "\u202eevil\u2066",
    "nul": "a\x00b",
    "long": "<" * 3_000,
    "template": "{index} {0} %(name)s ${HOME}",
}


def hostile(text: str) -> list[Prediction]:
    """Machines and values that hold a text wherever one can be."""
    gpus = (
        Gpu(0, text, text, "01:00.0", 1024),
        Gpu(1, text, UUIDS[1], "02:00.0", problem=text),
        Gpu(
            2,
            text,
            UUIDS[2],
            "03:00.0",
            mig_instances=(MigInstance(f"MIG-{text}", text, 1, 0), MigInstance(SLICES[0], text)),
        ),
    )
    machine = Topology(gpus, driver_version=text, source=text, notes=(text,))
    return [
        predict(machine, value, order)
        for value in (text, None, f"0,{text}", f"{UUIDS[2]},{text}", f"MIG-{text}")
        for order in (text, None)
    ]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_from_outside_stays_text_in_html(text: str) -> None:
    for prediction in hostile(text):
        for html in pages(prediction):
            page = Page(html)
            assert page.elements["script"] == page.elements["h1"] == page.elements["b"] == 0
            assert page.elements["style"] <= 1
            assert not {"onmouseover", "x"} & set(page.attributes)
    shown = Page(predict(Topology((Gpu(0, text, None, "01:00.0"),)), None)._repr_html_()).said
    assert text.strip()[:20].replace("\r\n", "\n") in shown.replace("\r\n", "\n") or "\x00" in text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_from_outside_cannot_move_the_cursor(text: str) -> None:
    for prediction in hostile(text):
        assert all(c.isprintable() or c == "\n" for c in str(prediction))
    table = str(Topology((Gpu(0, text, text, problem=text),), notes=(text,)))
    assert all(c.isprintable() or c == "\n" for c in table)
    assert all(
        c.isprintable() or c == "\n"
        for c in str(compared(PREDICTIONS["list"], ObservedDevice(0, text, text, text, None, None)))
    )


@pytest.mark.parametrize("field", ["source", "driver_version"])
def test_the_title_of_a_machine_cannot_move_the_cursor(field: str) -> None:
    title = str(replace(MIXED, **{field: "\x1b[2J535\u202e"}))
    assert all(c.isprintable() or c == "\n" for c in title)


def test_escaping_happens_once() -> None:
    assert tag("td", "&lt;", title='a"b<c') == '<td title="a&quot;b&lt;c">&lt;</td>'
    assert tag("td", "") == "<td></td>"
    assert tag("div", "x", "css", aria_live="polite") == '<div class="css" aria-live="polite">x</div>'
    html = predict(Topology((Gpu(0, "R&D <1>"),)), None)._repr_html_()
    assert "R&amp;D &lt;1&gt;" in html
    assert "&amp;amp;" not in html


# ---- one truth in all views ----


@pytest.mark.parametrize("name", [name for name in PREDICTIONS if name != "error"])
def test_text_html_and_frame_say_the_same(name: str) -> None:
    prediction = PREDICTIONS[name]
    rows = prediction_rows(prediction)
    frame = prediction.to_frame()
    page = Page(prediction._repr_html_())
    assert len(frame) == len(rows)
    assert list(frame["ordinal"].dropna()) == [row.ordinal for row in rows if row.ordinal is not None]
    assert page.elements["tr"] == len(rows) + 1 or not rows
    assert sentence(prediction) in unescape(page.said)
    plain = str(prediction)
    assert plain.startswith(sentence(prediction))
    assert certainty_text(prediction) in plain
    assert len(plain.split("\n")) == len(rows) + (3 if rows else 2) + 2 * bool(prediction.processes[0].reading.stop)
    for device in prediction.processes[0].devices:
        assert f"cuda:{device.ordinal}" in plain


def test_the_sentence() -> None:
    assert sentence(PREDICTIONS["list"]).startswith(
        "cuda:0 is the Tesla T4 (nvidia-smi 0, bus 5E), cuda:1 the Tesla T4 (nvidia-smi 2, bus AF)."
    )
    assert "RTX 4090" in sentence(PREDICTIONS["list"])  # it is hidden
    assert sentence(PREDICTIONS["empty"]) == sentence(PREDICTIONS["emptied"]) == "No CUDA device is visible."
    assert "no GPU" in sentence(PREDICTIONS["no gpu"])
    assert "teleport" in sentence(ERROR)
    assert "and 36 more" in sentence(PREDICTIONS["many"])
    assert "MIG 2g.10gb of " in sentence(PREDICTIONS["mig"])
    assert sentence(PREDICTIONS["bare"]).count("the ") >= 4


def test_the_certainty_in_words() -> None:
    assert certainty_text(PREDICTIONS["by address"]) == "Certain."
    assert certainty_text(PREDICTIONS["mixed"]).startswith("Likely: ")
    assert certainty_text(PREDICTIONS["unknown"]).startswith("Unknown: ")
    assert certainty_text(predict(Topology.of("3090", "3090 Ti"))).startswith("A guess: ")
    assert doubt(PREDICTIONS["by address"]) == doubt(ERROR) == ""
    assert "base" in doubt(predict(MIXED, "010", "PCI_BUS_ID"))


@pytest.mark.parametrize("name", [name for name, p in PREDICTIONS.items() if p.processes and p.certainty != "certain"])
def test_what_is_not_certain_says_why(name: str) -> None:
    assert len(doubt(PREDICTIONS[name])) > 10


def test_rows() -> None:
    rows = prediction_rows(PREDICTIONS["cut"])
    assert [(row.ordinal, row.position, row.token) for row in rows[:3]] == [(0, 5, "5"), (1, 6, "6"), (2, 7, "7")]
    assert [row.ordinal for row in rows[3:]] == [None] * 5
    assert all(row.reason for row in rows[3:])
    verdicts = [row.verdict for row in prediction_rows(AGREES.prediction, AGREES)]
    assert verdicts == ["agrees", "agrees", None, None]
    (first, *_) = prediction_rows(PREDICTIONS["mig"])
    assert (first.mig, first.gpu.nvml_index) == (split().gpus[0].mig_instances[1], 0)


# ---- text ----


def test_a_machine_as_text() -> None:
    lines = str(MIXED).split("\n")
    assert lines[0] == "4 GPUs (preset “mixed”, driver 535.104.05)"
    assert lines[2].split()[:3] == ["0", "Tesla", "T4"]
    assert len({len(line.rstrip()) <= 120 for line in lines}) == 1
    assert len(lines) == 6
    assert str(Topology((Gpu(0, "x"),))).startswith("1 GPU (described)")
    assert str(Topology(notes=("a note",))).endswith("a note")
    assert "usable" in str(LOST)
    assert "usable" not in str(MIXED)


def test_columns_that_are_empty_are_left_out() -> None:
    assert "UUID" not in str(Topology.of("Tesla T4"))
    assert "PCI" not in str(predict(Topology.of("Tesla T4")))
    assert "PCI" in str(PREDICTIONS["mixed"])


@pytest.mark.parametrize(
    ("mib", "text"), [(None, ""), (0, "0 MiB"), (512, "512 MiB"), (15360, "15 GB"), (24564, "24 GB"), (81920, "80 GB")]
)
def test_memory(mib: int | None, text: str) -> None:
    assert memory_text(mib) == text


def test_small_pieces() -> None:
    assert [number(value) for value in (None, 0, 7)] == ["", "0", "7"]
    assert short_uuid(None) == ""
    assert short_uuid("GPU-1234") == "GPU-1234"
    assert short_uuid(UUIDS[0]) == "GPU-3f8a1c27…"
    assert short("exactly", 7) == "exactly"
    assert short("a bit longer", 7) == "a bit…"


@pytest.mark.parametrize(
    ("value", "stop", "mark"),
    [
        ("5,6,7,8", "8", "^"),
        ("2,,1", "", "^"),
        ("1,1,3", "1", "^"),
        ("0, foo ,1", " foo ", "^^^^^"),
        ("-1", "-1", "^^"),
    ],
)
def test_a_mark_stands_under_the_entry_that_ends_the_list(value: str, stop: str, mark: str) -> None:
    lines = str(predict(equal(8), value)).split("\n")
    shown = next(line for line in lines if line.endswith(f"={value}"))
    under = lines[lines.index(shown) + 1]
    token = predict(equal(8), value).processes[0].reading.stop.token  # type: ignore[union-attr]
    start = shown.index("=") + 1 + sum(len(text) + 1 for text in value.split(",")[:token])
    assert value.split(",")[token] == stop
    assert under[:start].strip() == ""
    assert under[start:].split(" ")[0] == mark


def test_a_mark_stands_under_its_entry_in_a_long_list_too() -> None:
    plain = str(predict(equal(8), listed([*range(8), *["x"] * 4000, "end"])))
    (value, under) = next(
        pair for pair in itertools.pairwise(plain.split("\n")) if pair[0].startswith("CUDA_VISIBLE_DEVICES=")
    )
    assert len(value) < 200
    assert value[under.index("^")] == "x"
    late = str(predict(equal(3000), listed([*range(2000), "x", 5])))
    (value, under) = next(
        pair for pair in itertools.pairwise(late.split("\n")) if pair[0].startswith("CUDA_VISIBLE_DEVICES=")
    )
    assert value[under.index("^")] == "x"
    assert len(value) < 200


def test_a_list_that_ends_well_has_no_mark() -> None:
    for name in ("mixed", "list", "empty", "mig"):
        assert "^" not in str(PREDICTIONS[name])


def test_a_comparison_as_text() -> None:
    assert str(AGREES).startswith("confirmed: ")
    plain = str(DIFFERS)
    assert plain.startswith("refuted: ")
    assert len(plain.split("\n")) == 1 + 1 + 3
    assert "RTX 4090" in plain
    assert str(compared(PREDICTIONS["empty"])).count("\n") == 0


# ---- HTML ----


def test_the_token_that_ends_the_list_is_marked() -> None:
    html = tokens_html(PREDICTIONS["cut"].processes[0])
    assert html.count("gpumap-read") == 3
    assert html.count("gpumap-stop") == 1
    assert "only 8 GPUs" in html
    assert tokens_html(PREDICTIONS["list"].processes[0]) == ""
    assert tokens_html(PREDICTIONS["empty"].processes[0]) == ""
    emptied = tokens_html(PREDICTIONS["emptied"].processes[0])
    assert emptied.count("gpumap-unread") == 2
    assert emptied.count("gpumap-stop") == 1
    assert "&nbsp;" in tokens_html(predict(MIXED, "0,,1").processes[0])


def test_certainty_is_never_told_by_colour_alone() -> None:
    page = Page(PREDICTIONS["mixed"]._repr_html_())
    assert page.said.count("likely") >= 4
    assert "role" in page.attributes
    assert "aria-live" in page.attributes
    assert page.elements["caption"] == 1


def test_verdicts_have_a_sign_and_a_word() -> None:
    agrees, differs = Page(AGREES._repr_html_()).said, Page(DIFFERS._repr_html_()).said
    assert agrees.count("✓") >= 3
    assert "agrees" in agrees
    assert "✗ differs" in differs
    assert "torch 2.14.1" in agrees
    simulated = replace(AGREES, observation=replace(AGREES.observation, simulated=True))
    assert "simulated" in Page(simulated._repr_html_()).said
    assert "simulated" not in agrees


def test_large_tables_are_cut_and_say_so() -> None:
    big = predict(equal(2000))
    page = Page(big._repr_html_())
    assert page.elements["tr"] < 600
    assert "to_frame()" in page.said
    assert len(big.to_frame()) == 2000
    assert Page(equal(2000)._repr_html_()).elements["tr"] < 600
    assert len(steps_html(big.steps)) < 400_000
    long = tokens_html(predict(equal(2), ",".join(["0", "x"] * 5000)).processes[0])
    assert Page(long).said.endswith(".")
    assert "…" in long
    assert len(long) < 20_000


def test_steps_and_findings() -> None:
    prediction = PREDICTIONS["cut"]
    page = Page(steps_html(prediction.steps))
    assert page.elements["li"] == len(prediction.steps)
    found = Page(findings_html(prediction.findings))
    assert found.elements["li"] == len(prediction.findings) == 1
    assert prediction.findings[0].message in found.said
    assert (prediction.findings[0].remedy or "?") in found.said
    assert Page(findings_html(())).elements["li"] == 0
    assert Page(steps_html(())).said == ""


# ---- frames ----


def test_a_machine_as_a_frame() -> None:
    frame = MIXED.to_frame()
    assert list(frame["nvml_index"]) == [0, 1, 2, 3]
    assert list(frame["compute_capability"]) == ["7.5", "8.9", "7.5", "7.5"]
    assert str(frame["memory_mib"].dtype) == "Int64"
    assert list(split().to_frame()["mig_instances"]) == [2, 0]
    assert BARE.to_frame()["nvml_index"].isna().sum() == 3
    assert list(Topology().to_frame().columns) == list(frame.columns)


def test_a_prediction_as_a_frame() -> None:
    frame = PREDICTIONS["list"].to_frame()
    assert list(frame["ordinal"].fillna(-1)) == [0, 1, -1, -1]
    assert list(frame["nvml_index"]) == [0, 2, 1, 3]
    assert list(frame["entry"][:2]) == ["1", "2"]
    assert list(frame["certainty"][:2]) == ["likely", "likely"]
    assert frame["reason"].isna().sum() == 2
    assert set(frame["uuid"]) == {gpu.uuid for gpu in MIXED.gpus}
    assert str(frame["ordinal"].dtype) == "Int64"
    for name in ("empty", "no gpu", "error", "mig"):
        assert list(PREDICTIONS[name].to_frame().columns) == list(frame.columns)
        assert {k: str(v) for k, v in PREDICTIONS[name].to_frame().dtypes.items() if k == "ordinal"} == {
            "ordinal": "Int64"
        }
    assert list(PREDICTIONS["mig"].to_frame()["mig_uuid"].dropna()) == [SLICES[1]]


def test_a_comparison_as_a_frame() -> None:
    frame = DIFFERS.to_frame()
    assert list(frame["ordinal"]) == [0, 1, 2]
    assert list(frame["verdict"]) == ["differs"] * 3
    assert frame["seen_name"].isna().sum() == 1
    assert frame["nvml_index"].isna().sum() == 1
    assert list(AGREES.to_frame()["verdict"]) == ["agrees", "agrees"]
    assert len(compared(PREDICTIONS["empty"]).to_frame()) == 0


# ---- the drawing ----


@pytest.mark.parametrize("name", PREDICTIONS)
def test_the_drawing_holds_together(name: str) -> None:
    prediction = PREDICTIONS[name]
    spec = graph(prediction)
    assert sentence(prediction) in spec.alt
    if not prediction.processes:
        assert spec.chips == spec.lines == spec.stubs == ()
        return
    process = prediction.processes[0]
    places = Counter((chip.column, chip.row) for chip in spec.chips)
    assert max(places.values(), default=1) == 1, "two boxes in one place"
    assert all(0 <= chip.row < spec.rows for chip in spec.chips)
    boxes = {(chip.column, chip.row): chip for chip in spec.chips}
    for line in spec.lines:
        start, end = boxes[line.column, line.row], boxes[line.column + 1, line.to_row]
        assert start.position == end.position == line.position
    for stub in spec.stubs:
        assert boxes[stub.column, stub.row].position == stub.position
    shown = [chip for chip in spec.chips if chip.column == PROCESS and chip.position is not None]
    assert [chip.title for chip in shown] == [f"cuda:{device.ordinal}" for device in process.devices[:MOST_ROWS]]
    assert [chip.position for chip in shown] == [device.position for device in process.devices[:MOST_ROWS]]
    assert len(spec.heads) == 4


def test_the_drawing_of_the_tutorial() -> None:
    spec = graph(PREDICTIONS["list"])
    smi = [chip for chip in spec.chips if chip.column == SMI]
    order = [chip for chip in spec.chips if chip.column == ORDER]
    tokens = [chip for chip in spec.chips if chip.column == LIST]
    assert [chip.lead for chip in smi] == ["0", "1", "2", "3"]
    assert [chip.faded for chip in smi] == [False, True, False, True]
    assert [chip.position for chip in order] == [1, 0, 2, 3]
    assert "128 SM × 2 = 256" in order[0].sub
    assert [chip.position for chip in tokens] == [0, 2]
    assert not any(line.certain for line in spec.lines if line.column == SMI)
    assert all(line.certain for line in graph(PREDICTIONS["by address"]).lines)
    assert {stub.position for stub in spec.stubs} == {1, 3}


def test_the_drawing_of_lists_that_go_wrong() -> None:
    cut = [chip for chip in graph(PREDICTIONS["cut"]).chips if chip.column == LIST]
    assert [chip.lead for chip in cut] == ["", "", "", "✗"]
    emptied = [chip for chip in graph(PREDICTIONS["emptied"]).chips if chip.column == LIST]
    assert [chip.lead for chip in emptied] == ["", "✗", ""]
    assert all(chip.position is None for chip in emptied)
    assert [chip for chip in graph(PREDICTIONS["empty"]).chips if chip.column in (LIST, PROCESS)] == []
    lost = graph(PREDICTIONS["lost"])
    assert (SMI, 0) in {(stub.column, stub.row) for stub in lost.stubs}


def test_the_drawing_says_what_torch_said() -> None:
    ends = [chip for chip in graph(PREDICTIONS["list"], DIFFERS).chips if chip.column == PROCESS]
    assert "4090" in ends[0].sub
    assert "✗" in ends[0].lead + ends[0].sub
    ends = [chip for chip in graph(PREDICTIONS["list"], AGREES).chips if chip.column == PROCESS]
    assert all("✓" in chip.lead + chip.sub for chip in ends)


def test_the_drawing_of_a_large_machine_is_cut_and_says_so() -> None:
    for prediction in (PREDICTIONS["many"], predict(equal(500), listed(reversed(range(500))))):
        spec = graph(prediction)
        assert spec.rows <= MOST_ROWS + 1
        assert sum(chip.row == MOST_ROWS for chip in spec.chips) >= 3
        assert all(max(line.row, line.to_row) < MOST_ROWS for line in spec.lines)


# ---- colours ----


def test_a_gpu_keeps_its_colour() -> None:
    assert colour(0) == HUES[0]
    assert len({colour(i) for i in range(8)}) == 8
    assert colour(8) == colour(0)
    assert STYLE.count("{") == STYLE.count("}")
    assert "</" not in STYLE
