"""A run of the past."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..comparison import compare
from ..mapping import Comparison, Message, Observation, Prediction, message
from ..texts import say

MARK, SCHEMA = "gpumap_recording", 1


@dataclass(frozen=True)
class Recording:
    """A run of the past."""

    prediction: Prediction
    """By the rules of this release."""
    observation: Observation
    recorded: str
    """ISO time with zone at which it was saved."""
    host: str | None = None
    user: str | None = None
    release: str | None = None
    """Of this package, when it was saved."""
    verdict: str | None = None
    """Which it had then."""
    reason: str | None = None
    foretold: tuple[str | None, ...] = ()
    """UUIDs by ordinal, as they were foretold then."""
    mask: str | None = None
    """Which salt its names are masked with (a fingerprint of it); None for real names."""

    @cached_property
    def comparison(self) -> Comparison:
        """What was seen, beside what this release foretells."""
        return compare(self.prediction, self.observation)

    @property
    def rules_changed(self) -> bool:
        """Whether this release foretells other devices than the one that made it did."""
        return self.foretold != foretold_by(self.prediction)

    @property
    def label(self) -> Message:
        """What must stand wherever it is shown: that it is a recording, its date, its host."""
        when = self.observation.started or self.recorded
        key = "recording.label-simulated" if self.observation.simulated else "recording.label"
        return message(key, date=when[:16].replace("T", " "), host=self.host or say("recording.no-host"))

    def __str__(self) -> str:
        changed = [say("recording.rules-changed", release=self.release or "?")] if self.rules_changed else []
        return "\n".join((self.label.text(), *changed, str(self.comparison)))


def foretold_by(prediction: Prediction) -> tuple[str | None, ...]:
    """UUIDs of its first process by ordinal; None where one is not known."""
    shown = prediction.processes[0].devices if prediction.processes else ()
    return tuple(device.mig.uuid if device.mig else device.gpu.uuid for device in shown)
