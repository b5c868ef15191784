"""The controls that edit a scenario, one factory a field: the control, how it is read, how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..device_order import DOCUMENTED_VALUES
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..texts import say
from .store import State

_MOST_TAGS = 128
UNSET, EMPTY, LIST = "unset", "empty", "list"


class Control(NamedTuple):
    """A widget bound to a field."""

    widget: Any
    read: Callable[[State, Any], State]
    """The state after the widget's ``value`` became this."""
    write: Callable[[State], Mapping[str, Any]]
    """Which traits the widget has in a state, in the order in which they must be set."""


def _set(state: State, name: str, value: str | None) -> State:
    return state.with_variable(name, value)


def order_control() -> Control:
    """CUDA_DEVICE_ORDER as a group of radio buttons; an undocumented value gets a button of its own."""
    documented = [(say("ui.order-unset"), None), *((value, value) for value in DOCUMENTED_VALUES)]

    def write(state: State) -> Mapping[str, Any]:
        value = state.env.get(CUDA_DEVICE_ORDER)
        odd = value is not None and value not in DOCUMENTED_VALUES
        return {"options": [*documented, (f"“{value}”", value)] if odd else documented, "value": value}

    widget = w.RadioButtons(options=documented, value=None, description=say("ui.order"), layout={"width": "auto"})
    widget.style.description_width = "initial"
    widget.add_class("gpumap-order")
    return Control(widget, lambda state, value: _set(state, CUDA_DEVICE_ORDER, value), write)


def state_control() -> Control:
    """Whether CUDA_VISIBLE_DEVICES is unset, empty or a list: three different things to CUDA."""
    last = {"list": ""}

    def read(state: State, value: str) -> State:
        if value != LIST:
            return _set(state, CUDA_VISIBLE_DEVICES, None if value == UNSET else "")
        places = state.shown.processes[0].order.places if state.prediction.processes else ()
        everything = ",".join(str(i) for i in range(len(places)))
        return _set(state, CUDA_VISIBLE_DEVICES, last["list"] or everything)

    def write(state: State) -> Mapping[str, Any]:
        value = state.env.get(CUDA_VISIBLE_DEVICES)
        if value:
            last["list"] = value  # a list that was put away comes back when the list is chosen again
        return {"value": UNSET if value is None else LIST if value else EMPTY}

    options = [(say(f"ui.state-{key}"), key) for key in (UNSET, EMPTY, LIST)]
    widget = w.RadioButtons(options=options, value=UNSET, description=say("ui.state"), layout={"width": "auto"})
    widget.style.description_width = "initial"
    widget.add_class("gpumap-state")
    return Control(widget, read, write)


def _empty_sign(value: str | None) -> str:
    """How an empty entry shows as a tag, which cannot be empty: a sign that is no entry of the list itself."""
    entries = (value or "").split(",")
    return next(sign for n in range(1, len(entries) + 2) if (sign := "∅" * n) not in entries)


def _too_many(value: str | None) -> bool:
    """Whether a list is too long for tags; it is edited as text then."""
    return value is not None and value.count(",") >= _MOST_TAGS


def tags_control() -> Control:
    """The entries of the list as tags that can be dragged; what they join to is the value, to the letter."""

    def read(state: State, value: list[str]) -> State:
        now = state.env.get(CUDA_VISIBLE_DEVICES)
        if (not value and now is None) or _too_many(now):
            return state
        sign = _empty_sign(now)
        return _set(state, CUDA_VISIBLE_DEVICES, ",".join("" if tag == sign else tag for tag in value))

    def write(state: State) -> Mapping[str, Any]:
        value = state.env.get(CUDA_VISIBLE_DEVICES)
        if _too_many(value):
            return {"placeholder": say("ui.tags-many"), "value": []}
        sign = _empty_sign(value)
        return {"placeholder": say("ui.tags"), "value": [entry or sign for entry in value.split(",")] if value else []}

    widget = w.TagsInput(
        value=[], allow_duplicates=True, placeholder=say("ui.tags"), layout={"flex": "1 1 220px", "width": "auto"}
    )
    widget.add_class("gpumap-tags")
    return Control(widget, read, write)


def raw_control() -> Control:
    """The value of CUDA_VISIBLE_DEVICES as raw text: exactly what the process gets."""

    def read(state: State, value: str) -> State:
        if value == "" and state.env.get(CUDA_VISIBLE_DEVICES) is None:
            return state
        return _set(state, CUDA_VISIBLE_DEVICES, value)

    def write(state: State) -> Mapping[str, Any]:
        value = state.env.get(CUDA_VISIBLE_DEVICES)
        hint = say("ui.raw-hint") if value is None else say("ui.raw-hint-empty")
        return {"placeholder": hint, "value": value or ""}

    widget = w.Text(description=say("ui.raw"), layout={"flex": "1 1 220px", "width": "auto", "min_width": "180px"})
    widget.style.description_width = "initial"
    widget.add_class("gpumap-raw")
    return Control(widget, read, write)


CONTROLS: Mapping[str, Callable[[], Control]] = {
    "order": order_control,
    "state": state_control,
    "tags": tags_control,
    "raw": raw_control,
}
"""Field → factory."""
