"""The footprint, on request only: a little memory on each ``cuda:i``, and where NVML says that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..frozen import FrozenDict
from ..mapping import Message, Observation, Prediction
from .children import Child
from .environment import complete_environment
from .job import Job
from .program import IMPRINT


def footprint(prediction: Prediction, timeout: float = 60.0, *, worker: int = 0) -> Observation:
    """Hold a small, distinct amount of memory on each device of one process (by its place in the prediction), one after the other, for a moment,
    and let NVML say on which physical GPU it shows. Blocks until then. `compare` takes it beside any other observation.

    It needs no UUID from the driver. It needs a context on each GPU (some hundred MiB for a moment) and 16 MiB more for
    each further number. Where NVML is missing or hides processes, as in most containers, `Observation.problem` says so.
    """
    if prediction.error is not None or not prediction.processes:
        said = Message("live.refused", FrozenDict({"reason": prediction.error or ""}))
        return Observation(problem=said, witness="footprint")
    return Mark(prediction.processes[worker].env, timeout).start().result()


class Mark(Job):
    """One footprint."""

    thread_name = "gpumap-live-footprint"

    def __init__(
        self, env: Mapping[str, str], timeout: float = 60.0, on_done: Callable[[Mark], object] | None = None
    ) -> None:
        """As for `Job`."""
        super().__init__(env, timeout, on_done)
        self._child: Child | None = None

    def cancel(self) -> None:
        """End it; what it holds is released with its process."""
        super().cancel()
        if self._child is not None:
            self._child.stop(_cancelled(self.elapsed))

    def _answer(self) -> Observation:
        complete = complete_environment(self._inherited, self.env)
        self._child = Child(IMPRINT, "report_footprint", complete, self.timeout, tuple(self.env))
        if self._cancelled.is_set():
            self._child.stop(_cancelled(self.elapsed))
        facts = self._child.facts(within=self.timeout)
        seen = self._observed(facts, witness="footprint")
        if isinstance(facts, Message):
            return seen
        problem = _problem(facts)
        if problem is not None:
            return replace(seen, problem=problem, devices=())
        marks = facts["footprint"]
        if not marks:
            return seen
        held = ", ".join(f"cuda:{mark['ordinal']} {mark['mib']} MiB" for mark in marks)
        note = Message("live.footprint-held", FrozenDict({"held": held, "pid": facts["pid"]}))
        return replace(seen, problem=None, notes=(note,))


def _cancelled(elapsed: float) -> Message:
    return Message("live.cancelled", FrozenDict({"seconds": f"{elapsed:.1f}"}))


_REASONS = {
    "unclear": "live.footprint-unclear",
    "context": "live.footprint-context",
    "memory": "live.footprint-memory",
}


def _problem(facts: Mapping[str, Any]) -> Message | None:
    """Why there is no footprint; None where there is one, or where the driver's own reason stands."""
    if not facts.get("libcuda") or facts.get("cuinit") or not facts.get("count"):
        return None  # said by the driver's code
    if "present" not in facts:
        return Message("live.footprint-no-nvml", FrozenDict({"error": facts.get("nvml_error", "?")}))
    for mark in facts["footprint"]:
        if "error" not in mark:
            continue
        what, code, name = mark["error"]
        fields = {"ordinal": mark["ordinal"], "mib": mark["mib"], "code": code, "name": name}
        if what == "hidden":
            kind = facts.get("container")
            return Message("live.footprint-hidden-in" if kind else "live.footprint-hidden", FrozenDict({"kind": kind}))
        return Message(_REASONS[what], FrozenDict(fields))
    return None
