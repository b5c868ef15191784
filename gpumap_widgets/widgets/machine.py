"""Choosing a machine: this one, a preset, or pasted text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..errors import GpumapError
from ..explanation import counted
from ..sources.nvml import this_machine
from ..sources.presets import PRESETS, preset
from ..texts import say
from ..topology import Topology
from .store import State

THIS, GIVEN, PASTED = "this", "given", "pasted"


class MachinePicker:
    """A list of machines and a box to paste into. ``change`` is called with a new state."""

    def __init__(self, current: Callable[[], State], change: Callable[[State], None]) -> None:
        self._current, self._change = current, change
        self._own: dict[str, Topology] = {}
        """Machines that are no preset, by their key in the list: kept, so that one can come back to them."""
        self.choice = w.Dropdown(
            options=[("", "")], description=say("ui.machine"), layout={"flex": "1 1 320px", "width": "auto"}
        )
        self.choice.style.description_width = "initial"
        self.toggle = w.ToggleButton(description=say("ui.paste"), tooltip=say("ui.paste-tip"), layout={"width": "90px"})
        self.text = w.Textarea(
            placeholder=say("ui.paste-hint"), rows=7, layout={"width": "100%"}, continuous_update=False
        )
        self.text.description = say("ui.paste-label")
        self.text.style.description_width = "initial"
        self.read = w.Button(description=say("ui.read"), button_style="primary", layout={"width": "90px"})
        self.box = w.VBox([self.text, self.read], layout={"display": "none"})
        for widget, css in (
            (self.choice, "machine"),
            (self.toggle, "paste-toggle"),
            (self.text, "paste"),
            (self.read, "read"),
        ):
            widget.add_class(f"gpumap-{css}")
        self.toggle.observe(self._toggled, "value")
        self.read.on_click(self._read)

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
        options = [(say("ui.machine-this"), THIS), *((row.title, key) for key, row in PRESETS.items())]
        for key in (GIVEN, PASTED):
            if key in self._own:
                options.append((say(f"ui.machine-{key}", source=self._own[key].source), key))
        return {"options": options, "value": state.machine}

    def _toggled(self, change: Any) -> None:
        self.box.layout.display = "" if change.new else "none"

    def _read(self, _: Any) -> None:
        state = self._current()
        try:
            machine = Topology.from_text(self.text.value)
        except GpumapError as exc:
            self._change(state.saying(str(exc)))
            return
        said = say("ui.read-ok", count=counted(len(machine.gpus)), source=machine.source)
        notice = " ".join([said, *machine.notes])
        self._change(state.edited(state.scenario.with_topology(machine), PASTED, notice))
