"""What an explorer holds: one frozen state, and the one mutable object that carries it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import traitlets

from ..mapping import Comparison, Prediction
from ..resolver import resolve
from ..scenario import Scenario


@dataclass(frozen=True)
class State:
    """Everything that the explorer shows."""

    prediction: Prediction
    machine: str
    """Which entry of the machine list is chosen: a preset's key, ``this``, ``given`` or ``pasted``."""
    comparison: Comparison | None = None
    notice: str = ""
    """Something to say about the last action; "" for nothing."""

    @property
    def scenario(self) -> Scenario:
        """The scenario that is shown."""
        return self.prediction.scenario

    def edited(self, scenario: Scenario, machine: str | None = None, notice: str = "") -> State:
        """The state after an edit: resolved anew; a verdict on other settings is dropped."""
        return State(resolve(scenario), machine or self.machine, None, notice)

    def compared(self, comparison: Comparison | None) -> State:
        """The state with a verdict, or without one."""
        return replace(self, comparison=comparison)

    def saying(self, notice: str) -> State:
        """The state with a notice."""
        return replace(self, notice=notice)


class Store(traitlets.HasTraits):  # type: ignore[misc]  # traitlets has no types
    """Carries the state. Callbacks may come from any thread, so every change happens under one lock."""

    state = traitlets.Instance(State)

    def __init__(self, state: State, **kwargs: Any) -> None:
        super().__init__(state=state, **kwargs)
        self.lock = RLock()
        self.renders = 0
        """How often a change was shown; the tests hold one edit to one."""
