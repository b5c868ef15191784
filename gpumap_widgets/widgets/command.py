"""The command that is typed, the layers that it means, and which of its workers is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..commands.facts import OddFacts, facts_text, read_facts
from ..layers import LAYERS
from ..scenario import Layer, Scenario
from ..sources.scenes import SCENES
from ..texts import say
from ..views import html
from .store import State

MOST_LAYERS = 24
"""More layers than this are named, not listed one by one."""
_WRAP = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 12px"}


class CommandPanel:
    """A box for a command, one for facts that it does not tell, examples, and the stack of layers below.

    ``change`` is called with a new state. The stack is the truth: a command is read into it once, when it is entered.
    """

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._shown: tuple[Layer, ...] | None = None
        self.text = w.Textarea(
            placeholder=say("ui.command-hint"),
            rows=1,
            continuous_update=False,
            layout={"flex": "1 1 420px", "width": "auto"},
        )
        self.text.description = say("ui.command")
        self.facts = w.Text(
            placeholder=say("ui.facts-hint"), continuous_update=False, layout={"flex": "1 1 240px", "width": "auto"}
        )
        self.facts.description = say("ui.facts")
        self.read = w.Button(
            description=say("ui.command-read"), tooltip=say("ui.command-read-tip"), layout={"width": "80px"}
        )
        self.examples = w.Dropdown(
            options=[(say("ui.examples"), ""), *((scene.title, key) for key, scene in SCENES.items())],
            layout={"width": "200px"},
        )
        self.worker = w.Dropdown(options=[("", 0)], description=say("ui.worker"), layout={"width": "auto"})
        self.rows = w.VBox([], layout={"width": "100%"})
        self.about = w.HTML(layout={"width": "auto"})
        for widget, css in (
            (self.text, "command"),
            (self.facts, "facts"),
            (self.read, "command-read"),
            (self.examples, "examples"),
            (self.worker, "worker"),
            (self.rows, "stack"),
            (self.about, "about"),
        ):
            widget.add_class(f"gpumap-{css}")
        for widget in (self.text, self.facts, self.worker):
            widget.style.description_width = "initial"
        self.box = w.VBox(
            [
                w.HBox([self.text, self.read, self.examples], layout=_WRAP),
                w.HBox([self.facts], layout=_WRAP),
                self.about,
                self.rows,
            ],
            layout={"width": "100%"},
        )
        self.text.observe(lambda _: self._entered(), "value")
        self.facts.observe(lambda _: self._entered(), "value")
        self.read.on_click(lambda _: self._entered(again=True))
        self.examples.observe(self._example, "value")
        self.worker.observe(self._worker, "value")
        self._syncing = False

    # --- reading -----------------------------------------------------------------------------------------------------

    def _entered(self, *, again: bool = False) -> None:
        state = self._current()
        command, facts = self.text.value, self.facts.value
        if self._syncing or (not again and (command, facts) == (state.command, state.facts)):
            return
        try:
            assume = read_facts(facts)
        except OddFacts as exc:
            self._change(state.typed(command, facts).saying(say("ui.facts-odd", at=exc.at)))
            return
        self._change(state.typed(command, facts).edited(commanded(state.scenario, command, assume)))

    def _example(self, change: Any) -> None:
        if self._syncing or not change.new:
            return
        scene = SCENES[change.new]
        state = self._current().typed(scene.command, facts_text(scene.assume))
        self._change(state.edited(scene.scenario(), scene.machine).about(change.new))

    def _worker(self, change: Any) -> None:
        if not self._syncing and change.new is not None:
            self._change(self._current().showing(change.new))

    # --- the stack ---------------------------------------------------------------------------------------------------

    def show(self, state: State) -> None:
        """Write a state into the widgets."""
        self._syncing = True
        try:
            self._write(state)
        finally:
            self._syncing = False

    def _write(self, state: State) -> None:
        layers = state.scenario.layers
        values: Mapping[Any, Mapping[str, Any]] = {
            self.text: {"value": state.command, "rows": min(8, max(1, state.command.count("\n") + 1))},
            self.facts: {"value": state.facts},
            self.examples: {"value": state.scene if state.scene in SCENES else ""},
            self.worker: _workers(state),
        }
        for widget, traits in values.items():
            for name, value in traits.items():
                if getattr(widget, name) != value:
                    setattr(widget, name, value)
        many = len(state.prediction.processes) > 1
        self.worker.layout.display = "" if many else "none"
        scene = SCENES.get(state.scene)
        self.about.value = html.tag("div", escape(scene.about), "gpumap-note") if scene else ""
        if layers != self._shown:
            self._shown = layers
            self._stack(layers)

    def _stack(self, layers: tuple[Layer, ...]) -> None:
        old = self.rows.children
        listed = layers if len(layers) > 1 else ()  # the plain environment has its own controls above
        self.rows.children = [self._row(place, layer, len(layers)) for place, layer in enumerate(listed[:MOST_LAYERS])]
        for row in old:
            for part in row.children:
                part.close()
            row.close()

    def _row(self, place: int, layer: Layer, count: int) -> Any:
        on = w.Checkbox(
            value=layer.enabled, indent=False, description=html.layer_title(layer), layout={"width": "auto"}
        )
        on.add_class("gpumap-layer-on")
        said = w.HTML(html.layer_html(layer), layout={"flex": "1 1 200px", "width": "auto"})
        up = _button("arrow-up", "ui.layer-up", disabled=place == 0)
        down = _button("arrow-down", "ui.layer-down", disabled=place == count - 1)
        edit = w.Text(
            value=json.dumps(layer.to_dict()["options"], ensure_ascii=False),
            continuous_update=False,
            description=say("ui.layer-options"),
            layout={"display": "none", "flex": "1 1 100%", "width": "auto"},
        )
        edit.style.description_width = "initial"
        edit.add_class("gpumap-layer-options")
        pen = _button("pencil", "ui.layer-edit")
        pen.on_click(lambda _: setattr(edit.layout, "display", "" if edit.layout.display == "none" else "none"))
        on.observe(lambda change: self._replace(place, Layer(layer.kind, layer.options, change.new)), "value")
        up.on_click(lambda _: self._swap(place - 1))
        down.on_click(lambda _: self._swap(place))
        edit.observe(partial(self._edited, place, layer), "value")
        row = w.HBox([on, said, up, down, pen, edit], layout={**_WRAP, "width": "100%"})
        row.add_class("gpumap-layer")
        return row

    def _edited(self, place: int, layer: Layer, change: Any) -> None:
        state = self._current()
        try:
            new = Layer.from_dict({"kind": layer.kind, "options": json.loads(change.new), "enabled": layer.enabled})
        except (ValueError, TypeError, RecursionError) as exc:
            self._change(state.saying(say("ui.layer-odd", why=str(exc))))
            return
        problem = LAYERS[new.kind].problem(new.options) if new.kind in LAYERS else None
        if problem:
            self._change(state.saying(say("ui.layer-odd", why=problem)))
            return
        self._replace(place, new)

    def _replace(self, place: int, layer: Layer) -> None:
        state = self._current()
        layers = list(state.scenario.layers)
        layers[place] = layer
        self._change(state.edited(Scenario(state.scenario.topology, tuple(layers))))

    def _swap(self, place: int) -> None:
        state = self._current()
        layers = list(state.scenario.layers)
        layers[place : place + 2] = reversed(layers[place : place + 2])
        self._change(state.edited(Scenario(state.scenario.topology, tuple(layers))))


def commanded(scenario: Scenario, command: str, assume: Mapping[str, Any]) -> Scenario:
    """The scenario of a command typed in the shell whose variables the present scenario holds outermost."""
    shell = (
        scenario.layers[0].options.get("set", {})
        if scenario.layers and scenario.layers[0].kind == "environment"
        else {}
    )
    return Scenario.from_command(scenario.topology, command, shell, assume)


def _workers(state: State) -> Mapping[str, Any]:
    names = [(one.label or str(k), k) for k, one in enumerate(state.prediction.processes)] or [("", 0)]
    return {"options": names, "value": state.shown_worker}


def _button(icon: str, key: str, *, disabled: bool = False) -> Any:
    return w.Button(icon=icon, tooltip=say(key), disabled=disabled, layout={"width": "34px"})
