"""What one may have expected of a scenario: the map that a popular and wrong belief leads to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .device_order import rank
from .layers import LAYERS
from .mapping import Prediction
from .resolver import resolve, resolve_believed


@dataclass(frozen=True)
class Expectation:
    """A map that somebody may have had in mind."""

    belief: str
    """What it rests on; the sentence is ``expected.<belief>``."""
    prediction: Prediction
    source: str
    """Where it is shown to be wrong."""


def expected_map(prediction: Prediction) -> Expectation | None:
    """The map of the belief that is nearest at hand; None where there is none, or where it comes out the same.

    ``layer``: what people take a launcher or container to do. ``nvidia-smi``: that CUDA counts as nvidia-smi does.
    """
    if not prediction.processes:
        return None
    scenario = prediction.scenario
    believed = [layer.kind for layer in scenario.layers if layer.enabled and LAYERS[layer.kind].believed]
    if believed:
        thought = resolve_believed(scenario)
        if _uses(thought) != _uses(prediction):
            return Expectation("layer", thought, LAYERS[believed[-1]].source)
    machine = scenario.topology
    if any(gpu.nvml_index is None for gpu in machine.gpus) or prediction.processes[0].order.rule == "pci":
        return None
    as_listed = replace(machine, default_order=rank(machine, "pci"), default_order_measured=True)
    thought = resolve(scenario.with_topology(as_listed))
    if _maps(thought) == _maps(prediction):
        return None
    return Expectation("nvidia-smi", thought, "CUDA Programming Guide 5.2.1.2; NVML documentation, device index")


def _maps(prediction: Prediction) -> list[tuple[int | None, ...]]:
    return [process.nvml_indices for process in prediction.processes]


def _uses(prediction: Prediction) -> list[list[int | None]]:
    return [[process.nvml_indices[i] for i in process.uses] for process in prediction.processes]
