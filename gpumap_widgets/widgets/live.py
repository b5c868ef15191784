"""The Live panel: start a run, show that it runs, take it back, show the verdict. Nothing goes through Output widgets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..comparison import compare, observations_in
from ..live import observe, run_for
from ..live.job import Job
from ..live.kernel import kernel_names
from ..live.launch import Launch, start_of
from ..live.marks import Mark
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
    """Buttons, Cancel, choices and verdict. ``change`` is called with the state that carries a verdict.

    The driver's verdict is shown while torch is still asked; torch's joins it.
    """

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._lock = threading.Lock()
        self._job: Job | None = None
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
        self.footprint = w.Button(description=say("ui.footprint"), tooltip=say("ui.footprint-tip"))
        self.launch = w.Button(tooltip=say("ui.launch-tip"))
        names = [(say("ui.kernel-own"), ""), *((name, name) for name in kernel_names())]
        self.kernel = w.Dropdown(options=names, value="", description=say("ui.kernel"))
        self.limit = w.BoundedFloatText(value=60, min=1, max=3600, step=10, description=say("ui.limit"))
        self.warm = w.Checkbox(value=True, description=say("ui.warm"), tooltip=say("ui.warm-tip"), indent=False)
        self.progress, self.view = w.HTML(), w.HTML()
        self.box = self._laid_out()
        self.start.on_click(lambda _: self._begin())
        self.cancel.on_click(lambda _: self._cancel())
        self.footprint.on_click(lambda _: self._begin_footprint())
        self.launch.on_click(lambda _: self._begin_launch())
        self.warm.observe(lambda _: self._keep_warm(), "value")

    def _laid_out(self) -> w.VBox:
        for widget in (self.kernel, self.warm, self.progress, self.view, self.footprint, self.launch):
            widget.layout.width = "auto"
        self.limit.layout.width = "180px"
        for widget in (self.kernel, self.limit):
            widget.style.description_width = "initial"
        parts = [self.kernel, self.limit, self.warm, self.footprint, self.launch]
        choices = w.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"})
        result = w.VBox([self.progress, self.view])
        named = {"live": self.start, "cancel": self.cancel, "view-live": result, "kernel": self.kernel}
        named |= {"limit": self.limit, "warm": self.warm, "footprint": self.footprint, "launch": self.launch}
        for css, widget in named.items():
            widget.add_class(f"gpumap-{css}")
        return w.VBox([choices, result])

    # --- running -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Run the settings that are shown, of the process that is shown; a run under way gives way."""
        state = self._current()
        self._take_back()
        prediction = state.prediction
        if prediction.error is not None or not prediction.processes:
            self._change(state.compared(compare(prediction, observe(prediction))))
            return
        named, limit = self.kernel.value or None, float(self.limit.value)
        spares = SPARES if self.warm.value else None
        told: dict[str, Any] = {
            "on_done": self._done,
            "on_driver": self._driver,
            "spares": spares,
            "worker": state.shown_worker,
        }
        run = run_for(prediction, named, limit, **told)
        self._run(run, state.compared(None))
        self._keep_warm()

    def _begin_footprint(self) -> None:
        """Look for the footprint of the settings that are shown, beside what was heard of them already."""
        state = self._current()
        self._take_back()
        if state.prediction.processes:
            self._run(Mark(state.shown.processes[0].env, float(self.limit.value), self._done), state)

    def _begin_launch(self) -> None:
        """Start the launcher of the settings that are shown."""
        state = self._current()
        self._take_back()
        found = start_of(state.prediction)
        if found is not None:
            self._run(Launch(found.command, found.env, float(self.limit.value), self._done), state.compared(None))

    def _run(self, job: Job, state: State) -> None:
        with self._lock:
            self._job, self._asked = job, state
        self._change(state)
        job.start()
        self.cancel.disabled = False
        self._say_running(job)
        threading.Thread(target=self._tick, args=(job,), name="gpumap-live-clock", daemon=True).start()

    def _keep_warm(self) -> None:
        """Have a kernel wait, from the first run on and as long as that is wanted."""
        if self.warm.value and not self._closed:
            SPARES.want(self)
        else:
            SPARES.enough(self)

    def _tick(self, job: Job) -> None:
        """Show the elapsed time until the run has ended or is no longer ours."""
        while not job.wait(_TICK):
            if self._job is not job:
                return
            self._say_running(job)

    def _say_running(self, job: Job) -> None:
        with self._lock:
            if self._job is job:
                key = "ui.live-torch" if getattr(job, "driver", None) is not None else "ui.live-running"
                said = escape(say(key, seconds=job.elapsed))
                self.progress.value = html.tag("p", said, "gpumap-note gpumap-running", role="status")

    def _driver(self, run: Run) -> None:
        """Called on a thread of the run as soon as the driver has answered: show that much."""
        if run.driver is not None:
            self._show_result(run, run.driver, last=False)

    def _done(self, job: Job) -> None:
        """Called on the run's own thread when it has ended in whatever way."""
        if job.observation is not None:
            self._show_result(job, job.observation, last=True)

    def _show_result(self, job: Job, observation: Observation, *, last: bool) -> None:
        with self._lock:
            if self._job is not job or self._asked is None:
                return  # it was taken back
            asked = self._asked
            if last:
                self._job, self._asked = None, None
                self.progress.value = ""
        if last:
            self.cancel.disabled = True
        now = self._current()
        if now.scenario == asked.scenario:
            heard = observations_in(asked.comparison) if asked.comparison is not None else ()
            before = tuple(one for one in heard if one.witness != observation.witness)
            self._change(now.compared(compare(asked.prediction, observation, *before)))

    def _cancel(self) -> None:
        """Kill the run; that it was cancelled is its answer."""
        with self._lock:
            job = self._job
        if job is not None:
            job.cancel()

    def _take_back(self, said: str = "") -> Job | None:
        """Kill the run, if there is one, and forget it: its answer is to another question."""
        with self._lock:
            job, self._job, self._asked = self._job, None, None
            self._stopped = said
            self.progress.value = ""
        if job is not None:
            job.cancel()
            self.cancel.disabled = True
        return job

    # --- showing -----------------------------------------------------------------------------------------------------

    def show(self, state: State) -> None:
        """Show the verdict of a state; an edit under way of a run stops the run, since it answers another question."""
        with self._lock:
            changed = self._asked is not None and self._asked.scenario != state.scenario
            job = self._job
            running = job is not None
        if changed and isinstance(job, Run) and job.elapsed < _OVERTAKEN:
            self._begin()
            return
        if changed:
            self._take_back(say("ui.live-changed"))
            running = False
        self._offer_launch(state)
        if state.comparison is not None:
            self.view.value = result_html(state.comparison)
        elif running:
            self.view.value = ""
        else:
            self.view.value = html.tag("p", escape(self._stopped or say("ui.live-idle")), "gpumap-note")
            self._stopped = ""

    def _offer_launch(self, state: State) -> None:
        found = start_of(state.prediction)
        self.launch.layout.display = None if found else "none"
        if found:
            self.launch.description = say("ui.launch", launcher=found.kind)

    def close(self) -> None:
        """Kill a run and the kernel that waits, and wait until their processes are gone."""
        self._closed = True
        job = self._take_back()
        if job is not None:
            job.wait(_GOING)
        SPARES.enough(self)
