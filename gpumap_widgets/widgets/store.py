"""What an explorer holds: one frozen state, and the one mutable object that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import traitlets

from ..editing import environment_at_hand, with_variables
from ..expectation import Expectation, expected_map
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
    command: str = ""
    """What stands in the command box; the layers are the truth, and may have been changed since."""
    facts: str = ""
    """What stands in the box of facts that no command line tells."""
    scene: str = ""
    """The example that was chosen; "" once something was changed."""
    before: State | None = None
    """What a text that was applied took the place of; None where nothing was applied, or something was changed since."""
    worker: int = 0
    """Which process is shown, by its place in the prediction."""

    @property
    def scenario(self) -> Scenario:
        """The scenario that is shown."""
        return self.prediction.scenario

    @property
    def shown_worker(self) -> int:
        """The process that is shown, of those that there are."""
        return min(self.worker, max(0, len(self.prediction.processes) - 1))

    @property
    def shown(self) -> Prediction:
        """The prediction as far as it is about the process that is shown."""
        return self.prediction.focus(self.shown_worker) if self.prediction.processes else self.prediction

    @property
    def thought(self) -> Expectation | None:
        """The map that is drawn faintly: the one before a text was applied, else what one may have expected."""
        if self.before is not None and self.before.prediction.processes:
            return Expectation("before", self.before.prediction, "")
        return expected_map(self.prediction)

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that the controls show and edit."""
        return environment_at_hand(self.scenario)

    def edited(self, scenario: Scenario, machine: str | None = None, notice: str = "") -> State:
        """The state after an edit: resolved anew; a verdict on other settings is dropped."""
        return replace(
            self,
            prediction=resolve(scenario),
            machine=machine or self.machine,
            comparison=None,
            notice=notice,
            scene="",
            before=None,
        )

    def replaced(self, scenario: Scenario, command: str) -> State:
        """The state after a text was applied; `before` leads back."""
        new = self.typed(command, "").edited(scenario)
        return replace(new, before=replace(self, before=None))

    def with_variable(self, name: str, value: str | None) -> State:
        """The state after a variable was set, or unset where None, in the place that the controls show."""
        return self.edited(with_variables(self.scenario, **{name: value}))

    def typed(self, command: str, facts: str) -> State:
        """The state with another text in the boxes."""
        return replace(self, command=command, facts=facts)

    def about(self, scene: str) -> State:
        """The state as that of an example."""
        return replace(self, scene=scene)

    def showing(self, worker: int) -> State:
        """The state with another process shown."""
        return replace(self, worker=worker)

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
