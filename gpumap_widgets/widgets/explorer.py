"""The explorer: layout, binding, close. Every decision is made by the model; here it is only shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

import ipywidgets as w  # noqa: TID251 - widgets/ is the place
import traitlets

from ..beliefs import believed_orders
from ..editing import toggle
from ..errors import GpumapError
from ..mapping import Comparison, Prediction
from ..readings import tool_readings
from ..resolver import resolve
from ..scenario import CUDA_VISIBLE_DEVICES, Scenario
from ..sources.presets import PRESETS, preset
from ..texts import say
from ..topology import Topology
from ..views import html
from ..views.graph import graph
from ..views.palette import STYLE
from .command import CommandPanel
from .controls import CONTROLS, Control
from .fit import Fit
from .fix import FixPanel
from .graph import figure_widget, on_gpu_click, redraw
from .live import LivePanel
from .machine import GIVEN, THIS, MachinePicker
from .plan import PlanPanel
from .store import State, Store

_TABS = ("table", "steps", "findings", "fix", "tools", "live", "plan")
_VIEWS = ("table", "steps", "findings", "tools")
"""Tabs that are one view."""
_LAZY: Mapping[str, Callable[[Prediction], str]] = {
    "steps": lambda shown: html.steps_html(shown.steps),
    "tools": lambda prediction: html.tools_html(tool_readings(prediction), believed_orders(prediction)),
}
"""Tabs that are written only while they are open: an edit pays for what is seen."""


class Explorer(w.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Which physical GPU is cuda:0 under these settings: change them and watch.

    ``scenario`` (settable), ``prediction`` and ``comparison`` are traits that can be observed. `close` leaves no
    widget, thread or process behind. ``scenario_or_topology`` None takes this machine's GPUs, or, where there is no
    NVIDIA driver, the tutorials' mixed machine.
    """

    scenario = traitlets.Instance(Scenario)
    prediction = traitlets.Instance(Prediction)
    comparison = traitlets.Instance(Comparison, allow_none=True)

    def __init__(self, scenario_or_topology: Scenario | Topology | None = None, **kwargs: Any) -> None:
        """Raises TypeError for anything that is neither a machine nor a scenario."""
        state = _first_state(scenario_or_topology)
        self._store = Store(state)
        self._syncing = False
        super().__init__(scenario=state.scenario, prediction=state.prediction, comparison=None, **kwargs)
        self._controls: dict[str, Control] = {name: make() for name, make in CONTROLS.items()}
        self._machine = MachinePicker(lambda: self._store.state, self._change)
        self._controls["machine"] = Control(self._machine.choice, self._machine.chosen, self._machine.traits)
        self._command = CommandPanel(lambda: self._store.state, self._change)
        self._fix = FixPanel(lambda: self._store.state, self._change)
        self._expect = w.Checkbox(value=True, description=say("ui.expect"), indent=False, layout={"width": "auto"})
        self._expect.add_class("gpumap-expect")
        self._live = LivePanel(lambda: self._store.state, self._change)
        self._html = {name: w.HTML() for name in ("notice", "tokens", "sentence", "expected", *_VIEWS)}
        self._figure = figure_widget(graph(state.prediction))
        self._fit = Fit()
        self._plan = PlanPanel(lambda: self._store.state)
        panels = {"fix": self._fix.box, "live": self._live.box, "plan": self._plan.box}
        self._tabs = w.Tab(children=[panels.get(name) or self._html[name] for name in _TABS])
        self._lay_out()
        self._bind()
        self._show(state)

    # --- layout ------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        wrap = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}
        field = {name: control.widget for name, control in self._controls.items()}
        graph_box = w.Box([self._figure, self._fit], layout={"width": "100%", "display": "block"})
        graph_box.add_class("gpumap-graph")
        self.children = [
            w.HTML(f"<style>{STYLE}</style>", layout={"height": "0", "margin": "0", "display": "none"}),
            w.HBox(
                [field["machine"], self._machine.refresh, self._machine.toggle, self._live.start, self._live.cancel],
                layout=wrap,
            ),
            self._machine.box,
            self._command.box,
            self._html["notice"],
            w.HBox([field["order"], field["state"]], layout={**wrap, "grid_gap": "4px 40px"}),
            w.HBox([field["tags"], field["raw"]], layout=wrap),
            self._html["tokens"],
            self._html["sentence"],
            w.HBox([self._command.worker, self._expect, self._html["expected"]], layout=wrap),
            graph_box,
            self._tabs,
        ]
        for name, view in self._html.items():
            view.add_class(f"gpumap-view-{name}")
            view.layout.width = "auto"
        self.layout.width = "100%"
        self.add_class("gpumap")

    # --- binding -----------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        for control in self._controls.values():
            control.widget.observe(partial(self._edited, control), "value")
        on_gpu_click(self._figure, self._clicked)
        self._tabs.observe(self._tab_changed, "selected_index")
        self._expect.observe(lambda _: self._show(self._store.state), "value")
        self._store.observe(lambda change: self._show(change.new), "state")
        self.observe(self._set_from_outside, "scenario")

    def _edited(self, control: Control, change: Any) -> None:
        with self._store.lock:
            if not self._syncing:
                self._change(control.read(self._store.state, change.new))

    def _clicked(self, position: int) -> None:
        with self._store.lock:
            state = self._store.state
            value = toggle(state.prediction, position, state.shown_worker)
            if value is None:
                self._change(state.saying(say("ui.click-refused")))
            else:
                self._change(state.with_variable(CUDA_VISIBLE_DEVICES, value))

    def _set_from_outside(self, change: Any) -> None:
        with self._store.lock:
            if not self._syncing:
                state = self._store.state
                known = change.new.topology == state.scenario.topology
                self._change(state.edited(change.new, state.machine if known else GIVEN))

    def _change(self, state: State) -> None:
        """Take on a new state and show it: the one way in, from any thread."""
        with self._store.lock:
            same = state == self._store.state
            self._store.state = state
            if same:
                self._show(state)  # a control may hold what the state refused: put it right

    # --- showing -----------------------------------------------------------------------------------------------------

    def _show(self, state: State) -> None:
        """Write a state into the widgets: one render an edit."""
        with self._store.lock:
            self._syncing = True
            try:
                self._write(state)
            finally:
                self._syncing = False
            self._store.renders += 1

    def _write(self, state: State) -> None:
        prediction = state.prediction
        self.scenario, self.prediction, self.comparison = state.scenario, prediction, state.comparison
        for control in self._controls.values():
            for name, value in control.write(state).items():
                if getattr(control.widget, name) != value:
                    setattr(control.widget, name, value)
        shown = state.shown
        process = shown.processes[0] if shown.processes else None
        self._html["notice"].value = (
            html.tag("div", escape(state.notice), "gpumap-note", role="status") if state.notice else ""
        )
        further_in = html.further_in_html(process, state.env) if process else ""
        self._html["tokens"].value = further_in + (html.tokens_html(process) if process else "")
        self._html["sentence"].value = html.sentence_html(shown)
        self._html["table"].value = html.table_html(shown, state.comparison)
        self._open_tab()
        self._html["findings"].value = html.findings_html(prediction.findings)
        thought = state.thought if self._expect.value else None
        drawing = graph(prediction, state.comparison, state.shown_worker, thought.prediction if thought else None)
        self._html["expected"].value = html.expected_html(thought, state.shown_worker) if thought else ""
        self._command.show(state)
        redraw(self._figure, drawing)
        self._fit.alt = drawing.alt
        self._live.show(state)
        n = len(prediction.findings)
        titles = [say(f"ui.tab-{name}") for name in _TABS]
        titles[2] = say("ui.tab-findings-n", n=n) if n else titles[2]
        if list(self._tabs.titles) != titles:
            self._tabs.titles = titles

    def _open_tab(self) -> None:
        """Write the tab that is open; a lazy one that is not open holds nothing, rather than something outdated."""
        opened = _TABS[self._tabs.selected_index or 0]
        self._plan.show(opened=opened == "plan")
        for name, make in _LAZY.items():
            self._html[name].value = make(self._store.state.shown) if name == opened else ""
        self._fix.show(self._store.state, opened=opened == "fix")

    def _tab_changed(self, _: Any) -> None:
        with self._store.lock:
            self._open_tab()

    def close(self) -> None:
        """Stop a run, and close every widget that belongs to the explorer, layouts and styles too."""
        if "_live" not in self.__dict__:
            return  # it never stood: what it was given was refused
        self._live.close()
        self._plan.close()
        self._store.unobserve_all()
        family = {id(widget): widget for widget in _family(self)}  # a figure cannot be hashed
        for widget in family.values():
            if widget is not self:
                widget.unobserve_all()
                widget.close()
        super().close()


def _family(widget: Any) -> Iterator[Any]:
    """A widget and every widget that hangs on it: children, layouts, styles."""
    yield widget
    for name in widget.keys:
        value = getattr(widget, name, None)
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, w.Widget):
                yield from _family(part)


def _first_state(given: Scenario | Topology | None) -> State:
    if isinstance(given, Scenario):
        return State(resolve(given), GIVEN)
    if isinstance(given, Topology):
        return State(resolve(Scenario.from_env(given, {})), GIVEN)
    if given is not None:
        raise TypeError(say("ui.what", kind=type(given).__name__))
    try:
        from ..sources.nvml import this_machine

        machine = this_machine()
    except GpumapError:
        machine = Topology()
    if machine.gpus:
        return State(resolve(Scenario.from_env(machine, {})), THIS)
    first = next(iter(PRESETS))
    return State(resolve(Scenario.from_env(preset(first), {})), first)
