"""Edits of a scenario that a person makes with a pointer: pure functions from a prediction to a new value."""

from __future__ import annotations

from collections.abc import Mapping

from .frozen import FrozenDict
from .layers import LAYERS, environment
from .mapping import Prediction, Process
from .resolver import resolve
from .scenario import CUDA_VISIBLE_DEVICES, Layer, Scenario


def environment_at_hand(scenario: Scenario) -> Mapping[str, str]:
    """The variables set in the place where an edit belongs: the innermost that a container does not throw away."""
    place = scenario.innermost(_fresh(scenario.layers))
    return FrozenDict() if place is None else scenario.layers[place].options.get("set", FrozenDict())


def with_variables(scenario: Scenario, **changes: str | None) -> Scenario:
    """The scenario with variables set, or unset where None, in that place.

    Behind a container that starts with an environment of its own there may be none yet: then a layer is added there.
    """
    start = _fresh(scenario.layers)
    place = scenario.innermost(start)
    layers = list(scenario.layers)
    if place is None:
        given = {name: value for name, value in changes.items() if value is not None}
        layers.insert(start, environment(given))
        return Scenario(scenario.topology, tuple(layers))
    inner, outer = Scenario(scenario.topology, tuple(layers[: place + 1])), layers[place + 1 :]
    return Scenario(scenario.topology, (*inner.with_env(**changes).layers, *outer))


def _fresh(layers: tuple[Layer, ...]) -> int:
    """The place behind the last layer that starts with an environment of its own."""
    found = [i + 1 for i, layer in enumerate(layers) if layer.enabled and (row := LAYERS.get(layer.kind)) and row.fresh]
    return found[-1] if found else 0


def toggle(prediction: Prediction, position: int, worker: int = 0) -> str | None:
    """The value of CUDA_VISIBLE_DEVICES after a click on a GPU: hidden if it was visible, visible if it was hidden.

    A list of UUIDs stays one. A GPU is added behind the last entry that counts, so that an entry which ends the list
    stays where it is and stays wrong. Every proposal is checked by resolving it: None where a click cannot change just
    this GPU, because the list is emptied by a repeat, the GPU cannot be used, or a MIG device is no whole GPU.
    """
    if not prediction.processes:
        return None
    process = prediction.processes[worker]
    if position not in process.order.places or (process.reading.stop and process.reading.stop.empties):
        return None
    value = _proposal(prediction, process, position)
    after = resolve(with_variables(prediction.scenario, **{CUDA_VISIBLE_DEVICES: value}))
    return (
        value
        if worker < len(after.processes) and _shown(after.processes[worker]) == _shown(process) ^ {(position, None)}
        else None
    )


def _shown(process: Process) -> set[tuple[int, int | None]]:
    picks = zip(process.devices, process.reading.picks, strict=True)
    return {(device.position, pick.mig) for device, pick in picks}


def _proposal(prediction: Prediction, process: Process, position: int) -> str:
    """The value that should do it."""
    order, reading = process.order.places, process.reading
    if reading.value is None:
        return ",".join(str(i) for i, p in enumerate(order) if p != position)
    entries = [token.text for token in reading.tokens]
    naming = [d.token for d in process.devices if d.position == position and d.token is not None]
    if naming:
        return ",".join(text for i, text in enumerate(entries) if i not in naming)
    uuid = prediction.scenario.topology.gpus[position].uuid
    by_uuid = bool(entries) and entries[0].startswith("GPU-") and uuid is not None
    entries.insert(
        reading.stop.token if reading.stop else len(entries), uuid if by_uuid and uuid else str(order.index(position))
    )
    return ",".join(entries)
