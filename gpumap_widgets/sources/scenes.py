"""Examples that are one click away: a machine, a command, the facts that it does not tell, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..frozen import FrozenDict
from ..scenario import Scenario
from .presets import preset

_NONE: Mapping[str, Any] = FrozenDict()
_PCI: Mapping[str, str] = FrozenDict({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


class Scene(NamedTuple):
    """One example."""

    title: str
    machine: str
    """Key of a preset."""
    command: str
    about: str
    """What to look at, in a sentence."""
    env: Mapping[str, str] = _NONE
    """Variables of the shell that it is typed in."""
    assume: Mapping[str, Any] = _NONE

    def scenario(self) -> Scenario:
        """The example as a scenario."""
        return Scenario.from_command(preset(self.machine), self.command, self.env, self.assume)


SCENES: Mapping[str, Scene] = {
    "services": Scene(
        "Four services, a GPU each",
        "mixed",
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
        + "".join(f"CUDA_VISIBLE_DEVICES={i} python service.py --port 800{i} &\n" for i in range(4))
        + "wait",
        "Every service calls its GPU cuda:0.",
    ),
    "torchrun": Scene(
        "torchrun, four workers",
        "mixed",
        "torchrun --nproc-per-node=4 train.py",
        "torchrun changes no GPU variable: every rank sees all four and takes cuda:LOCAL_RANK.",
    ),
    "no-set-device": Scene(
        "torchrun, no set_device",
        "mixed",
        "torchrun --nproc-per-node=4 train.py",
        "A script that never selects a device puts every rank on cuda:0.",
        assume=FrozenDict({"set_device": False}),
    ),
}
"""Key → example."""
