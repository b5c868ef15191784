"""Measuring from the explorer: what it would do is said first, and nothing runs before the user has agreed to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..errors import GpumapError
from ..measuring.orders import Order, order_for
from ..measuring.running import MeasureRun
from ..planning.measured import Measurements
from ..planning.wording import amount
from ..sources.capsule import Capsule
from ..texts import say
from ..views import html

_WRAP = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}
_TICK = 0.3
"""Seconds between two looks at a run."""
_GOING = 10.0
"""Seconds that a killed process may take to go when the explorer closes."""


class MeasurePanel:
    """A button that opens it, the question, the consent, the run, its figures. ``changed`` is called with new figures."""

    def __init__(self, changed: Callable[[], None], dtype: Callable[[], str]) -> None:
        self._changed, self._dtype = changed, dtype
        self._lock = threading.Lock()
        self._order: Order | None = None
        self._run: MeasureRun | None = None
        self.measurements: Measurements | None = None
        """What was measured or loaded; None before."""
        self.toggle = w.ToggleButton(
            description=say("ui.measure"), tooltip=say("ui.measure-tip"), icon="tachometer", layout={"width": "130px"}
        )
        self.question, self.view, self.save = (w.HTML(layout={"width": "auto"}) for _ in range(3))
        self.agree = w.Checkbox(description=say("ui.measure-agree"), indent=False, layout={"width": "auto"})
        self.start = w.Button(description=say("ui.measure-start"), button_style="primary", disabled=True)
        self.cancel = w.Button(description=say("ui.cancel"), icon="stop", disabled=True)
        self.load = w.FileUpload(description=say("ui.measure-load"), accept=".json", layout={"width": "200px"})
        row = w.HBox([self.agree, self.start, self.cancel, self.load, self.save], layout=_WRAP)
        self.box = w.VBox([self.question, row, self.view], layout={"display": "none"})
        for name in ("toggle", "question", "view", "save", "agree", "start", "cancel", "load"):
            getattr(self, name).add_class(f"gpumap-measure-{name}")
        self.toggle.observe(lambda change: self._opened(opened=change.new), "value")
        self.agree.observe(lambda _: self._enable(), "value")
        self.load.observe(self._loaded, "value")
        self.start.on_click(lambda _: self._begin())
        self.cancel.on_click(lambda _: self._stop())

    def _opened(self, *, opened: bool) -> None:
        """Ask what there is to measure, and say it; agreeing counts for just that."""
        self.box.layout.display = "" if opened else "none"
        if opened and self._run is None:
            self._ask()

    def _ask(self) -> None:
        self.agree.value = False
        try:
            self._order = order_for(None, dtype=self._dtype() or "float16")
        except GpumapError as exc:
            self._order = None
            said = str(exc)
        else:
            said = self._order.said
        self.question.value = html.tag("p", escape(said), "gpumap-note")
        self._enable()

    def _enable(self) -> None:
        running = self._run is not None
        self.start.disabled = running or self._order is None or not self.agree.value
        self.cancel.disabled = not running

    def _begin(self) -> None:
        """Start what was agreed to."""
        with self._lock:
            if self._order is None or not self.agree.value or self._run is not None:
                return
            run = self._run = MeasureRun(self._order, on_done=self._done)
        run.start()
        self._enable()
        threading.Thread(target=self._tick, args=(run,), name="gpumap-measure-clock", daemon=True).start()

    def _tick(self, run: MeasureRun) -> None:
        while self._run is run:
            target = run.order.targets[run.at]
            counts = {"at": run.at + 1, "n": len(run.order.targets)}
            said = say("ui.measure-running", name=target.name or target.device, seconds=run.elapsed, **counts)
            self.view.value = html.tag("div", escape(said), "gpumap-verdict", role="status")
            if run.wait(_TICK):
                return

    def _done(self, run: MeasureRun) -> None:
        """Called on the run's own thread when its last process is gone."""
        with self._lock:
            if self._run is not run:
                return  # the explorer was closed
            self._run = None
        self._take(run.measurements)
        self._ask()

    def _take(self, found: Measurements | None) -> None:
        self.measurements = found
        self.view.value = figures_html(found) if found is not None else ""
        self._changed()

    def _stop(self) -> None:
        run = self._run
        if run is not None:
            run.cancel()

    def _loaded(self, change: Any) -> None:
        """Take the figures of a capsule."""
        for upload in change.new[:1]:
            text = bytes(upload["content"]).decode("utf-8-sig", errors="replace")
            self.load.value = ()
            try:
                found = Capsule.from_json(text).measured
                said = say("ui.measure-none") if found is None else ""
            except GpumapError as exc:
                found, said = None, str(exc)
            if found is not None:
                self._take(found)
            else:
                self.view.value = html.tag("p", escape(said), "gpumap-note", role="status")

    def close(self) -> None:
        """Kill a run and wait until its process is gone."""
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            run.cancel()
            run.wait(_GOING)


def figures_html(found: Measurements) -> str:
    """What was measured, as a table."""
    rows = []
    for row in found.rows:
        figures = [row.tflops, row.copy_gbs, row.step_seconds]
        units = ("TFLOP/s", "GB/s", "s")
        shown = [amount(f, unit) if f is not None else "" for f, unit in zip(figures, units, strict=True)]
        rows.append((row.name or row.device, *shown, row.problem or ""))
    versions = ", ".join(f"{name} {value}" for name, value in found.versions.items())
    said = say("ui.measure-taken", taken=found.taken or "?", dtype=found.dtype, versions=versions)
    columns = ("name", "tflops", "copy", "own-step", "plan-note")
    return html.plain_table(say("caption.measured"), columns, rows) + html.tag("p", escape(said), "gpumap-note")
