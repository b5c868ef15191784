"""The few exceptions of the package.

CUDA does not raise on odd values of its variables, so neither does the model: an odd value is a result with a
reason. What is left for exceptions is text that cannot be read, machines that cannot exist, and kernels that die.
Each error carries its fields and, where there is one, a remedy that a person can act on.
"""

from __future__ import annotations


class GpumapError(Exception):
    """Base of every error that this package raises on purpose.

    ``remedy`` says in one sentence what the user can do; it is part of ``str(error)``.
    """

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message} {remedy}" if remedy else message)


class UnreadableTopology(GpumapError, ValueError):
    """A text does not describe the GPUs of one machine; the message says why, the remedy what to paste instead."""


class ImpossibleMachine(GpumapError, ValueError):
    """A description contradicts itself: two GPUs at one PCI address, one UUID twice, an order that is no permutation."""


class UnreadableScenario(GpumapError, ValueError):
    """JSON or a share code that does not describe a scenario."""


class UnreadableRecording(GpumapError, ValueError):
    """A file that is no recording of a live run; the message says why."""


class NoDriver(GpumapError):
    """This machine has no usable NVIDIA management library; the message says which step failed."""


class UnreadableTasks(GpumapError, ValueError):
    """A text is no table of tasks."""


class ImpossiblePlan(GpumapError, ValueError):
    """A plan is asked for with figures that cannot be: a negative time, a batch of nothing, two tasks of one name."""
