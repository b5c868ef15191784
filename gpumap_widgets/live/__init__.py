"""Live: ask the hardware. Real torch, in a kernel of its own, says which GPU is ``cuda:i``.

Loads nothing heavy: jupyter_client is imported when a run starts, torch only ever in the run's own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..frozen import FrozenDict
from ..mapping import Message, Observation, Prediction
from ..sources.remembered import remember

if TYPE_CHECKING:
    from .kernel import Run

__all__ = ["Run", "observe", "run_for"]


def run_for(prediction: Prediction, kernel_name: str | None = None, timeout: float = 60.0, **options: Any) -> Run:
    """A run, not started yet, in the environment of the prediction's first process; ``options`` as for `Run`.

    Raises ValueError when the prediction has nothing to run: its launcher or runtime would refuse.
    """
    from .kernel import Run

    if prediction.error is not None or not prediction.processes:
        raise ValueError(prediction.error or "no process")
    return Run(prediction.processes[0].env, kernel_name, timeout, **options)


def observe(prediction: Prediction, kernel_name: str | None = None, timeout: float = 60.0) -> Observation:
    """Run the first process of a prediction for real and say which devices torch saw there. Blocks until then.

    ``kernel_name``: a Jupyter kernelspec; None for the interpreter of this process. ``timeout`` in seconds, for
    everything together. Never raises for what goes wrong in the run: that is `Observation.problem`.
    """
    if prediction.error is not None or not prediction.processes:
        reason = FrozenDict({"reason": prediction.error or ""})
        return Observation(problem=Message("live.refused", reason), kernel_name=kernel_name or "")
    observation = run_for(prediction, kernel_name, timeout).start().result()
    remember(observation, prediction.scenario.topology)
    return observation


def __getattr__(name: str) -> Any:
    if name == "Run":
        from .kernel import Run

        return Run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
