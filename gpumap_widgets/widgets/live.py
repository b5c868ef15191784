"""The Live panel: start a run, show that it runs, take it back, show the verdict. Nothing goes through Output widgets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..comparison import compare
from ..live import observe, run_for
from ..live.kernel import kernel_names
from ..live.run import Run
from ..live.spare import SPARES
from ..mapping import Observation
from ..texts import say
from ..views import html
from ..views.verdicts import result_html
from .store import State

_TICK = 0.2
"""Seconds between two looks at a run: the elapsed time that is shown."""
_OVERTAKEN = 0.3
"""Seconds within which an edit that comes behind a press belongs to it: the front end sends the two on separate ways."""
_GOING = 10.0
"""Seconds that a killed process may take to go when the explorer closes."""


class LivePanel:
    """Button, Cancel, choices and verdict. ``change`` is called with the state that carries a verdict.

    The driver's verdict is shown while torch is still asked; torch's joins it.
    """

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._asked: State | None = None
        """The state whose settings run."""
        self._stopped = ""
        self._closed = False
        self.start = w.Button(
            description=say("ui.live"), icon="play", button_style="primary", tooltip=say("ui.live-tip")
        )
        self.cancel = w.Button(description=say("ui.cancel"), icon="stop", disabled=True)
        for button in (self.start, self.cancel):
            button.layout.width = "96px"
        names = [(say("ui.kernel-own"), ""), *((name, name) for name in kernel_names())]
        self.kernel = w.Dropdown(options=names, value="", description=say("ui.kernel"), layout={"width": "auto"})
        self.limit = w.BoundedFloatText(
            value=60, min=1, max=3600, step=10, description=say("ui.limit"), layout={"width": "180px"}
        )
        self.warm = w.Checkbox(
            value=True, description=say("ui.warm"), tooltip=say("ui.warm-tip"), indent=False, layout={"width": "auto"}
        )
        for widget in (self.kernel, self.limit):
            widget.style.description_width = "initial"
        self.progress, self.view = w.HTML(layout={"width": "auto"}), w.HTML(layout={"width": "auto"})
        choices = w.HBox([self.kernel, self.limit, self.warm], layout={"flex_flow": "row wrap", "grid_gap": "4px 16px"})
        result = w.VBox([self.progress, self.view])
        self.box = w.VBox([choices, result])
        for widget, css in (
            (self.start, "live"),
            (self.cancel, "cancel"),
            (result, "view-live"),
            (self.kernel, "kernel"),
            (self.limit, "limit"),
            (self.warm, "warm"),
        ):
            widget.add_class(f"gpumap-{css}")
        self.start.on_click(lambda _: self._begin())
        self.cancel.on_click(lambda _: self._cancel())
        self.warm.observe(lambda _: self._keep_warm(), "value")

    # --- running -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Run the settings that are shown; a run under way gives way."""
        state = self._current()
        self._take_back()
        prediction = state.prediction
        if prediction.error is not None or not prediction.processes:
            self._change(state.compared(compare(prediction, observe(prediction))))
            return
        named, limit = self.kernel.value or None, float(self.limit.value)
        spares = SPARES if self.warm.value else None
        run = run_for(prediction, named, limit, on_done=self._done, on_driver=self._driver, spares=spares)
        with self._lock:
            self._run, self._asked = run, state
        self._change(state.compared(None))
        run.start()
        self.cancel.disabled = False
        self._say_running(run)
        threading.Thread(target=self._tick, args=(run,), name="gpumap-live-clock", daemon=True).start()
        self._keep_warm()

    def _keep_warm(self) -> None:
        """Have a kernel wait, from the first run on and as long as that is wanted."""
        if self.warm.value and not self._closed:
            SPARES.want(self)
        else:
            SPARES.enough(self)

    def _tick(self, run: Run) -> None:
        """Show the elapsed time until the run has ended or is no longer ours."""
        while not run.wait(_TICK):
            if self._run is not run:
                return
            self._say_running(run)

    def _say_running(self, run: Run) -> None:
        with self._lock:
            if self._run is run:
                key = "ui.live-running" if run.driver is None else "ui.live-torch"
                said = escape(say(key, seconds=run.elapsed))
                self.progress.value = html.tag("p", said, "gpumap-note gpumap-running", role="status")

    def _driver(self, run: Run) -> None:
        """Called on a thread of the run as soon as the driver has answered: show that much."""
        if run.driver is not None:
            self._show_result(run, run.driver, last=False)

    def _done(self, run: Run) -> None:
        """Called on the run's own thread when it has ended in whatever way."""
        if run.observation is not None:
            self._show_result(run, run.observation, last=True)

    def _show_result(self, run: Run, observation: Observation, *, last: bool) -> None:
        with self._lock:
            if self._run is not run or self._asked is None:
                return  # it was taken back
            asked = self._asked
            if last:
                self._run, self._asked = None, None
                self.progress.value = ""
        if last:
            self.cancel.disabled = True
        now = self._current()
        if now.scenario == asked.scenario:
            self._change(now.compared(compare(asked.prediction, observation)))

    def _cancel(self) -> None:
        """Kill the run; that it was cancelled is its answer."""
        with self._lock:
            run = self._run
        if run is not None:
            run.cancel()

    def _take_back(self, said: str = "") -> Run | None:
        """Kill the run, if there is one, and forget it: its answer is to another question."""
        with self._lock:
            run, self._run, self._asked = self._run, None, None
            self._stopped = said
            self.progress.value = ""
        if run is not None:
            run.cancel()
            self.cancel.disabled = True
        return run

    # --- showing -----------------------------------------------------------------------------------------------------

    def show(self, state: State) -> None:
        """Show the verdict of a state; an edit under way of a run stops the run, since it answers another question."""
        with self._lock:
            changed = self._asked is not None and self._asked.scenario != state.scenario
            run = self._run
            running = run is not None
        if changed and run is not None and run.elapsed < _OVERTAKEN:
            self._begin()
            return
        if changed:
            self._take_back(say("ui.live-changed"))
            running = False
        if state.comparison is not None:
            self.view.value = result_html(state.comparison)
        elif running:
            self.view.value = ""
        else:
            self.view.value = html.tag("p", escape(self._stopped or say("ui.live-idle")), "gpumap-note")
            self._stopped = ""

    def close(self) -> None:
        """Kill a run and the kernel that waits, and wait until their processes are gone."""
        self._closed = True
        run = self._take_back()
        if run is not None:
            run.wait(_GOING)
        SPARES.enough(self)
