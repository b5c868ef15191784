"""From an edit to what the eye sees: JupyterLab in a real browser, an explorer with 8 GPUs, and a bare HTML widget beside
it as control. All clocks are the page's own.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from tests.lab import FLAGS, Page, chromium, lab_server, notebook

from .figures import Budget, Figure, Result, Skipped, median, number

SAMPLES = 100
BUDGET = Budget(100, "p90")
LISTS = (
    "0,1,2,3,4,5,6,7",
    "7,6,5,4,3,2,1,0",
    "3,1,0,2,6,7,5,4",
    "5,2,7,4,1,6,0,3",
    "2,0,1,3",
    "6,4,2,0,7,5,3,1",
    "1,3,9,0",
    "4,7,1,6,3,0,5,2",
)
"""What the raw text goes through, again and again; one of them is cut."""
ORDERS = ("FASTEST_FIRST", "PCI_BUS_ID")
_EXPLORER = """
from benchmarks.machines import machine
import gpumap_widgets as gm
explorer = gm.Explorer(gm.Scenario.from_env(machine(8), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "0,2,1,5"}))
explorer
"""
_CONTROL = """
import ipywidgets as w
switch, shown = w.ToggleButton(description="control"), w.HTML("no")
switch.add_class("bench-switch"), shown.add_class("bench-shown")
switch.observe(lambda change: setattr(shown, "value", f"<b>{'yes' if change.new else 'no'}</b>"), "value")
w.VBox([switch, shown])
"""
_SPY = """
(() => {
  const Native = window.WebSocket, frames = (window.benchFrames = []);
  const header = data => {
    if (typeof data === "string") return JSON.parse(data).header;
    const view = new DataView(data), at = i => Number(view.getBigUint64(8 * (i + 1), true));
    return JSON.parse(new TextDecoder().decode(new Uint8Array(data, at(1), at(2) - at(1))));
  };
  const note = (way, data) => frames.push({
    at: performance.now(), way, data,
    bytes: typeof data === "string" ? new TextEncoder().encode(data).length : data.byteLength });
  window.benchRead = part => part.map(({ at, way, bytes, data }) => {
    const { msg_type, date } = header(data);
    return { at, way, bytes, kind: msg_type, made: Date.parse(date) - performance.timeOrigin };
  });
  window.WebSocket = class extends Native {
    constructor(url, protocols) {
      super(url, protocols);
      this.bench = String(url).includes("/api/kernels/");
      if (this.bench) this.addEventListener("message", e => note("in", e.data));
    }
    send(data) { if (this.bench) note("out", data); super.send(data); }
  };
})();
"""
"""Notes every frame on the kernel's connection; their headers are read later, outside the measured time. A header has
the time at which the message was made, by the clock of the same machine."""
_HARNESS = """
window.bench = (() => {
  const one = css => document.querySelector(css);
  const parts = {
    sentence: { root: () => one(".gpumap-view-sentence"), seen: e => e.innerHTML },
    table: { root: () => one(".gpumap-view-table"), seen: e => e.innerHTML },
    graph: {
      root: () => one(".gpumap-graph .js-plotly-plot"),
      seen: e => [...e.querySelectorAll(".shapelayer path")]
        .map(p => p.getAttribute("d") + p.getAttribute("style")).join("|") +
        [...e.querySelectorAll(".textpoint text")].map(t => t.textContent).join("|"),
    },
    control: { root: () => one(".bench-shown"), seen: e => e.innerHTML },
  };
  const edits = {
    order: value => {
      const label = [...document.querySelectorAll(".gpumap-order label")].find(l => l.innerText.trim() === value);
      const input = label.querySelector("input");
      return () => input.click();
    },
    raw: value => {
      const input = one(".gpumap-raw input");
      const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
      return () => { set.call(input, value); input.dispatchEvent(new Event("input", { bubbles: true })); };
    },
    control: () => { const button = one(".bench-switch"); return () => button.click(); },
  };
  const quiet = async (ms = 150) => {
    for (;;) {
      const n = window.benchFrames.length;
      await new Promise(done => setTimeout(done, ms));
      if (window.benchFrames.length === n) return;
    }
  };
  const look = names => Object.fromEntries(names.map(n => [n, parts[n].seen(parts[n].root())]));
  // Make an edit and wait: what is seen when all is quiet.
  const learn = async (kind, value, names) => { edits[kind](value)(); await quiet(400); return look(names); };
  // Make an edit; times until each part shows what is wanted, and until the frame that shows the last of them.
  const sample = async (kind, value, wanted) => {
    await quiet();
    const names = Object.keys(wanted), before = look(names);
    const same = names.filter(n => before[n] === wanted[n]);
    if (same.length) return { error: `the edit does not change: ${same}` };
    const act = edits[kind](value), at = {};
    window.benchFrames.length = 0;
    let finish;
    const shown = new Promise(done => { finish = done; });
    const observers = names.map(name => {
      const observer = new MutationObserver(() => {
        if (name in at || parts[name].seen(parts[name].root()) !== wanted[name]) return;
        at[name] = performance.now();
        observer.disconnect();
        if (Object.keys(at).length === names.length) requestAnimationFrame(() => finish(performance.now()));
      });
      observer.observe(parts[name].root(), { subtree: true, childList: true, characterData: true, attributes: true });
      return observer;
    });
    const t0 = performance.now();
    act();
    const end = await Promise.race([shown, new Promise(done => setTimeout(done, 10000, null))]);
    observers.forEach(o => o.disconnect());
    await quiet();
    const frames = window.benchRead(window.benchFrames).map(f => ({ ...f, at: f.at - t0, made: f.made - t0 }));
    window.benchFrames.length = 0;
    const now = look(names), wrong = names.filter(n => now[n] !== wanted[n]);
    if (end === null || wrong.length) return { error: `not shown: ${names.filter(n => !(n in at))}; in the end: ${wrong}` };
    return { took: end - t0, at: Object.fromEntries(names.map(n => [n, at[n] - t0])), frames };
  };
  return { learn, sample, look, quiet };
})();
"""
_VIEWS = ("sentence", "table", "graph")
Sample = dict[str, Any]


def _browser() -> str:
    """Where chromium is. Raises Skipped when something that is needed is not installed."""
    for module in ("playwright", "jupyterlab", "ipykernel"):
        if find_spec(module) is None:
            raise Skipped(f"{module} is not installed")
    path = chromium()
    if path is None:
        raise Skipped("chromium is not installed")
    return path


class _Session:
    """The page of one notebook, with what each edit leads to."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wanted: dict[tuple[str, str], dict[str, str]] = {}

    def learn(self, kind: str, value: str, views: Sequence[str]) -> None:
        """Make an edit once and keep what it leads to."""
        self.wanted[kind, value] = self.page.page.evaluate(
            "([kind, value, views]) => bench.learn(kind, value, views)", [kind, value, list(views)]
        )

    def sample(self, kind: str, value: str) -> Sample:
        """Make an edit and measure it. Raises RuntimeError when what was wanted is not shown."""
        found: Sample = self.page.page.evaluate(
            "([kind, value, wanted]) => bench.sample(kind, value, wanted)", [kind, value, self.wanted[kind, value]]
        )
        if "error" in found:
            raise RuntimeError(f"{kind} {value!r}: {found['error']}; console: {self.page.errors}")
        return found


def _measure(session: _Session, count: int) -> dict[str, list[Sample]]:
    """Samples of each kind of edit, in turn: the raw text, the control, and once the text is done the order."""
    found: dict[str, list[Sample]] = {"raw": [], "order": [], "control": []}
    flips = 0

    def control() -> None:
        nonlocal flips
        flips += 1
        found["control"].append(session.sample("control", ("no", "yes")[flips % 2]))

    for value in ("yes", "no"):
        session.learn("control", value, ["control"])
    for kind, values in (("raw", LISTS), ("order", ORDERS)):
        for value in (*values, *values):  # the second round finds everything warm, and leaves the last in place
            session.learn(kind, value, _VIEWS)
        for i in range(count):
            found[kind].append(session.sample(kind, values[i % len(values)]))
            if i % 2:
                control()
    return found


def _took(samples: Sequence[Sample]) -> list[float]:
    return [s["took"] for s in samples]


def _frames(sample: Sample, way: str, kind: str | None = None) -> list[dict[str, Any]]:
    return [f for f in sample["frames"] if f["way"] == way and kind in (None, f["kind"])]


def _answer(sample: Sample) -> list[dict[str, Any]]:
    """The updates that the kernel makes for the edit itself, before it is idle again; more are echoes of the page."""
    frames = _frames(sample, "in")
    idle = [i for i, frame in enumerate(frames) if frame["kind"] == "status"][1]
    return [frame for frame in frames[:idle] if frame["kind"] == "comm_msg"]


def _stages(samples: Sequence[Sample]) -> list[tuple[str, list[float]]]:
    """When each thing happens, all counted from the edit: on the page, in the kernel, on the page again."""
    rows: list[tuple[str, list[float]]] = [
        ("sent to the kernel", [_frames(s, "out")[0]["at"] for s in samples]),
        ("the kernel begins", [_frames(s, "in", "status")[0]["made"] for s in samples]),
        ("first update made by the kernel", [_frames(s, "in", "comm_msg")[0]["made"] for s in samples]),
        ("last update made by the kernel", [_answer(s)[-1]["made"] for s in samples]),
        ("last update arrives", [_answer(s)[-1]["at"] for s in samples]),
    ]
    for name in samples[0]["at"]:
        rows.append((f"{name} in the document", [s["at"][name] for s in samples]))
    return rows


def _traffic(name: str, samples: Sequence[Sample]) -> list[Figure]:
    figures = []
    for way, said in (("out", "to the kernel"), ("in", "from the kernel")):
        figures.append(Figure(f"{name}: messages {said}", "", [float(len(_frames(s, way))) for s in samples]))
        sizes = [sum(f["bytes"] for f in _frames(s, way)) / 1000 for s in samples]
        figures.append(Figure(f"{name}: bytes {said}", "kB", sizes))
    return figures


def _kinds(samples: Sequence[Sample]) -> str:
    """How many messages of each kind an edit makes, on average."""
    counts = Counter((f["way"], f["kind"]) for f in chain.from_iterable(s["frames"] for s in samples))
    return ", ".join(f"{kind} {way} {number(n / len(samples))}" for (way, kind), n in counts.most_common())


def _result(found: dict[str, list[Sample]]) -> Result:
    control = _took(found["control"])
    floor = "bare HTML widget"
    figures, notes = [], []
    for kind, name in (("raw", "list typed"), ("order", "order toggled")):
        samples = found[kind]
        details = {"samples": [{k: s[k] for k in ("took", "at")} for s in samples]}
        figures.append(
            Figure(f"{name} → sentence, table, graph", "ms", _took(samples), floor, control, BUDGET, details)
        )
        figures += [Figure(f"  {stage}, from the edit", "ms", times) for stage, times in _stages(samples)]
    figures.append(Figure(f"{floor} toggled → its text", "ms", control))
    figures += [Figure(f"  {stage}, from the edit", "ms", times) for stage, times in _stages(found["control"])]
    for kind, name in (("raw", "list typed"), ("order", "order toggled"), ("control", floor)):
        figures += _traffic(name, found[kind])
        notes.append(f"messages of one edit, {name}: {_kinds(found[kind])}")
    both = _took(found["raw"] + found["order"])
    notes.append(f"over the {floor}: {median(both) - median(control):.0f} ms (of the medians)")
    return Result(figures, notes)


def run(*, full: bool) -> Result:
    """One session for everything: what the machine does besides hits the explorer and the control alike."""
    path = _browser()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, lab_server(Path(name)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            tab = browser.new_context(viewport={"width": 1400, "height": 1500}).new_page()
            tab.set_default_timeout(60_000)
            tab.add_init_script(_SPY)
            page = Page(tab, address, notebook(Path(name), "bench.ipynb", _EXPLORER, _CONTROL))
            page.run_all()
            tab.wait_for_selector(".bench-switch")
            tab.evaluate(_HARNESS)
            tab.evaluate("() => bench.quiet(1000)")
            return _result(_measure(_Session(page), SAMPLES * (3 if full else 1)))
        finally:
            browser.close()
