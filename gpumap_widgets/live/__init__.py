"""Live: ask the hardware. The driver, and real torch, each in a process of its own, say which GPU is ``cuda:i``.

Loads nothing heavy: jupyter_client is imported when a run starts, torch only ever in the run's own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..frozen import FrozenDict
from ..mapping import Message, Observation, Prediction
from ..sources.remembered import remember

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Run", "observe", "run_for"]


def run_for(
    prediction: Prediction, kernel_name: str | None = None, timeout: float = 60.0, *, worker: int = 0, **options: Any
) -> Run:
    """A run, not started yet, in the environment of one of the prediction's processes; ``options`` as for `Run`.

    Raises ValueError when the prediction has nothing to run: its launcher or runtime would refuse.
    """
    from .run import Run

    if prediction.error is not None or not prediction.processes:
        raise ValueError(prediction.error or "no process")
    return Run(prediction.processes[worker].env, kernel_name, timeout, **options)


def observe(
    prediction: Prediction,
    kernel_name: str | None = None,
    timeout: float = 60.0,
    *,
    witnesses: tuple[str, ...] = ("driver", "torch"),
    worker: int = 0,
) -> Observation:
    """Run one process of a prediction for real and say which devices it has there. Blocks until then.

    What torch said, with what the driver said in ``others``; ``witnesses=("driver",)`` asks the driver alone, which
    takes a tenth of the time. ``worker``: which process, by its place in the prediction. ``kernel_name``: a Jupyter kernelspec for torch; None for the interpreter of this
    process. ``timeout`` in seconds, for everything together. Never raises for what goes wrong in the run: that is
    `Observation.problem`. Raises ValueError for a witness that cannot be asked.
    """
    if not witnesses or not {*witnesses} <= {"driver", "torch"}:
        raise ValueError(f"witnesses are driver and torch, not {witnesses!r}")
    if prediction.error is not None or not prediction.processes:
        reason = FrozenDict({"reason": prediction.error or ""})
        return Observation(problem=Message("live.refused", reason), kernel_name=kernel_name or "")
    run = run_for(prediction, kernel_name, timeout, witnesses=witnesses, worker=worker)
    observation = run.start().result()
    remember(observation, prediction.scenario.topology)
    return observation


def __getattr__(name: str) -> Any:
    if name == "Run":
        from .run import Run

        return Run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
