"""What to type for a wanted map, and what an error message means here."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..error_messages import read_messages
from ..remedies import VIAS, NoRemedy, Remedy, remedies
from ..scenario import Scenario
from ..texts import say
from ..topology import Topology
from ..views import html
from .store import State

_WRAP = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}


class FixPanel:
    """Tags of wanted GPUs, a place to type, the texts for it; a box for an error message.

    ``change`` is called with a new state when a text is applied or taken back.
    """

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._found: tuple[Remedy, ...] = ()
        self._syncing = False
        self.want = w.TagsInput(value=[], allow_duplicates=False, layout={"flex": "1 1 320px", "width": "auto"})
        self.via = w.Dropdown(
            options=[(say(f"via.{key}"), key) for key in VIAS], description=say("ui.via"), layout={"width": "auto"}
        )
        self.via.style.description_width = "initial"
        self.texts = w.HTML(layout={"width": "auto"})
        self.apply = w.Button(description=say("ui.apply"), tooltip=say("ui.apply-tip"), button_style="primary")
        self.undo = w.Button(description=say("ui.undo"), tooltip=say("ui.undo-tip"), disabled=True)
        self.error = w.Textarea(
            placeholder=say("ui.error-hint"), rows=3, continuous_update=False, layout={"width": "100%"}
        )
        self.error.description = say("ui.error")
        self.error.style.description_width = "initial"
        self.reading = w.HTML(layout={"width": "auto"})
        label = w.HTML(html.tag("span", say("ui.want"), "gpumap-label"))
        self.box = w.VBox(
            [
                w.HBox([label, self.want, self.via, self.apply, self.undo], layout=_WRAP),
                self.texts,
                self.error,
                self.reading,
            ]
        )
        for widget, css in (
            (self.want, "want"),
            (self.via, "via"),
            (self.texts, "remedies"),
            (self.apply, "apply"),
            (self.undo, "undo"),
            (self.error, "error"),
            (self.reading, "error-reading"),
        ):
            widget.add_class(f"gpumap-{css}")
        self.want.observe(lambda _: self._show_texts(), "value")
        self.via.observe(lambda _: self._show_texts(), "value")
        self.error.observe(lambda _: self._show_reading(), "value")
        self.apply.on_click(lambda _: self._apply())
        self.undo.on_click(lambda _: self._undo())

    def show(self, state: State, *, opened: bool) -> None:
        """Write a state into the widgets. What is typed stays; what is wanted follows the map until it is touched."""
        tags = _tags(state.scenario.topology)
        now = [tags[i] for i in _shown(state)]
        self._syncing = True
        try:
            if list(self.want.allowed_tags) != list(tags):
                self.want.value, self.want.allowed_tags = [], list(tags)
                self.want.value = now
            elif opened and not self.want.value:
                self.want.value = now
        finally:
            self._syncing = False
        self.undo.disabled = state.before is None
        if opened:
            self._show_texts()
            self._show_reading()

    def _show_texts(self) -> None:
        if self._syncing:
            return
        topology = self._current().scenario.topology
        tags = _tags(topology)
        want = [topology.gpus[tags.index(tag)] for tag in self.want.value if tag in tags]
        try:
            self._found = remedies(topology, want, self.via.value)
        except NoRemedy as exc:
            self._found = ()
            self.texts.value = html.note_html(str(exc))
        else:
            self.texts.value = html.remedies_html(self._found)
        self.apply.disabled = all(one.text is None for one in self._found)

    def _show_reading(self) -> None:
        state = self._current()
        text = self.error.value
        found = read_messages(text, state.prediction, state.shown_worker) if text.strip() else ()
        unknown = html.note_html(say("ui.error-unknown")) if text.strip() and not found else ""
        self.reading.value = html.messages_html(found, state.scenario.topology) + unknown

    def _apply(self) -> None:
        """Put the first text that works into the command box, as if it had been typed there."""
        state = self._current()
        best = next((one for one in self._found if one.text is not None), None)
        if best is None or best.text is None or best.prediction is None:
            return
        layers = best.prediction.scenario.layers
        self._change(state.replaced(Scenario(state.scenario.topology, layers), best.text))

    def _undo(self) -> None:
        before = self._current().before
        if before is not None:
            self._change(before)


def _tags(topology: Topology) -> list[str]:
    """What the GPUs of a machine are called in the box: number and name, told apart where both are the same."""
    names = []
    for position, gpu in enumerate(topology.gpus):
        number = position if gpu.nvml_index is None else gpu.nvml_index
        names.append(f"{number}: {gpu.short_name}")
    return [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names)]


def _shown(state: State) -> list[int]:
    processes = state.shown.processes
    return list(dict.fromkeys(device.position for device in processes[0].devices)) if processes else []
