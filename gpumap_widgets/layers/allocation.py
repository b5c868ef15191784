"""What a scheduler gives to a job: GPUs by nvidia-smi number, as far as somebody tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..mapping import Step
from ..topology import Topology
from .base import View
from .telling import Teller


class Allocation(NamedTuple):
    """The GPUs of a job on one node."""

    positions: tuple[int, ...]
    """Positions in ``topology.gpus``, in nvidia-smi order."""
    certainty: Certainty
    steps: tuple[Step, ...]


def allocation(view: View, options: Mapping[str, Any], topology: Topology, count: int, tell: Teller) -> Allocation:
    """The allocated GPUs: those that ``allocated`` names, else the first ``count``, which nobody knows."""
    left = view.left(topology)
    numbers = {topology.gpus[i].nvml_index: i for i in left}
    given: Sequence[int] | None = options.get("allocated")
    if given is None:
        which = left[:count]
        if len(which) == len(left):
            return Allocation(which, Certainty.CERTAIN, ())  # all of them: there is nothing to choose
        return Allocation(which, Certainty.UNKNOWN, (tell.step("step.scheduler.unallocated", Certainty.UNKNOWN),))
    missing = [number for number in given if number not in numbers]
    said = tuple(tell.step("step.scheduler.not-there", Certainty.UNKNOWN, number=number) for number in missing)
    found = tuple(sorted(numbers[number] for number in dict.fromkeys(given) if number in numbers))
    return Allocation(found, Certainty.UNKNOWN if missing else Certainty.CERTAIN, said)


def numbers_of(topology: Topology, positions: Sequence[int]) -> str:
    """nvidia-smi numbers with commas between them; the position where a machine tells none."""
    found = ((topology.gpus[i].nvml_index, i) for i in positions)
    return ",".join(str(position if index is None else index) for index, position in found)


def uuids_of(topology: Topology, positions: Sequence[int]) -> str | None:
    """UUIDs with commas between them; None where a machine does not tell one."""
    found = [topology.gpus[i].uuid for i in positions]
    return None if None in found else ",".join(str(one) for one in found)
