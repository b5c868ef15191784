"""Choosing a machine: this one, a preset, or pasted text."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..errors import GpumapError
from ..explanation import counted
from ..sources.capsule import Capsule
from ..sources.nvml import this_machine
from ..sources.pasted import merge, read
from ..sources.presets import PRESETS, preset
from ..texts import say
from ..topology import Topology
from ..views import html
from .store import State

THIS, GIVEN, PASTED = "this", "given", "pasted"
_OVERTAKEN = 2.0
"""Seconds within which a text that comes behind a press belongs to it: the front end sends the two on separate ways."""


class MachinePicker:
    """A list of machines and a box to paste into. ``change`` is called with a new state."""

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._press = (float("-inf"), False)
        """When a button was pressed with nothing new to read, and whether it was the one that adds."""
        self._last_read = ""
        self._own: dict[str, Topology] = {}
        """Machines that are no preset, by their key in the list: kept, so that one can come back to them."""
        self.choice = w.Dropdown(
            options=[("", "")], description=say("ui.machine"), layout={"flex": "1 1 320px", "width": "auto"}
        )
        self.choice.style.description_width = "initial"
        self.toggle = w.ToggleButton(description=say("ui.paste"), tooltip=say("ui.paste-tip"), layout={"width": "90px"})
        self.refresh = w.Button(icon="refresh", tooltip=say("ui.refresh-tip"), layout={"width": "42px"})
        self.text = w.Textarea(
            placeholder=say("ui.paste-hint"), rows=7, layout={"width": "100%"}, continuous_update=False
        )
        self.text.description = say("ui.paste-label")
        self.text.style.description_width = "initial"
        self.read = w.Button(description=say("ui.read"), button_style="primary", layout={"width": "90px"})
        self.add = w.Button(description=say("ui.add"), tooltip=say("ui.add-tip"), layout={"width": "180px"})
        self.preview = w.HTML(layout={"width": "auto"})
        self.load = w.FileUpload(description=say("ui.load"), accept=".json,.txt,.log", layout={"width": "150px"})
        self.save = w.HTML()
        wrap = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}
        buttons = w.HBox([self.read, self.add, self.load, self.save], layout=wrap)
        self.box = w.VBox([self.text, buttons, self.preview], layout={"display": "none"})
        for widget, css in (
            (self.choice, "machine"),
            (self.toggle, "paste-toggle"),
            (self.text, "paste"),
            (self.refresh, "refresh"),
            (self.read, "read"),
            (self.add, "add"),
            (self.preview, "preview"),
            (self.load, "load"),
            (self.save, "save"),
        ):
            widget.add_class(f"gpumap-{css}")
        self.toggle.observe(self._toggled, "value")
        self.refresh.on_click(lambda _: self._change(self.chosen(self._current(), THIS)))
        self.read.on_click(lambda _: self._pressed(add=False))
        self.add.on_click(lambda _: self._pressed(add=True))
        self.text.observe(self._arrived, "value")
        self.load.observe(self._loaded, "value")

    def chosen(self, state: State, key: str) -> State:
        """The state after a machine was chosen from the list; a machine that cannot be had leaves all as it is."""
        try:
            machine = self._own.get(key) if key != THIS else this_machine()
            if machine is None:
                machine = preset(key)
        except GpumapError as exc:
            return state.saying(str(exc))
        self._own[key] = machine
        return state.edited(state.scenario.with_topology(machine), key)

    def traits(self, state: State) -> dict[str, Any]:
        """Which traits the list has in a state."""
        if state.machine not in PRESETS:
            self._own[state.machine] = state.scenario.topology
        own = self._own.get(THIS)
        this = say("ui.machine-simulated" if own is not None and own.simulated else "ui.machine-this")
        options = [(this, THIS), *((row.title, key) for key, row in PRESETS.items())]
        for key in (GIVEN, PASTED):
            if key in self._own:
                options.append((say(f"ui.machine-{key}", source=self._own[key].source), key))
        if self.toggle.value:
            self._offer(state)
        return {"options": options, "value": state.machine}

    def _toggled(self, change: Any) -> None:
        self.box.layout.display = "" if change.new else "none"
        self._offer(self._current())

    def _offer(self, state: State) -> None:
        """A link that saves the machine and its settings as a capsule, while the box is open."""
        text = Capsule(state.scenario.topology, state.scenario.environment).to_json() if self.toggle.value else ""
        link = html.tag(
            "a", escape(say("ui.save")), href=f"data:application/json,{quote(text)}", download="machine capsule.json"
        )
        self.save.value = link if text else ""

    def _loaded(self, change: Any) -> None:
        """A file is text like any other: it goes into the box, where it can be seen, and is read."""
        for upload in change.new[:1]:
            self.text.value = bytes(upload["content"]).decode("utf-8-sig", errors="replace")
            self.load.value = ()
            self._read(add=False)

    def _pressed(self, *, add: bool) -> None:
        """Read; a press can overtake the text that it is about, then the text is read when it arrives."""
        new = self.text.value != self._last_read
        self._press = (float("-inf") if new else time.monotonic(), add)
        self._read(add=add)

    def _arrived(self, _: Any) -> None:
        pressed, add = self._press
        if time.monotonic() - pressed < _OVERTAKEN:
            self._read(add=add)

    def _read(self, *, add: bool) -> None:
        """Read the text: as a machine of its own, or to fill what is not known of the one that is shown."""
        state, self._last_read = self._current(), self.text.value
        try:
            reading = read(self._last_read)
            machine = merge(state.scenario.topology, reading.topology) if add else reading.topology
        except GpumapError as exc:
            self.preview.value = ""
            self._change(state.saying(str(exc)))
            return
        self.preview.value = html.reading_html(reading.topology, reading.origins)
        said = say("ui.read-ok", count=counted(len(reading.topology.gpus)), source=reading.topology.source)
        self._change(state.edited(state.scenario.with_topology(machine), PASTED, said))
