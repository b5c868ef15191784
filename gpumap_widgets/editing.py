"""Edits of a scenario that a person makes with a pointer: pure functions from a prediction to a new value."""

from __future__ import annotations

from .mapping import Prediction


def toggle(prediction: Prediction, position: int) -> str | None:
    """The value of CUDA_VISIBLE_DEVICES after a click on a GPU: hidden if it was visible, visible if it was hidden.

    A list of UUIDs stays one. A GPU is added behind the last entry that counts, so that an entry which ends the list
    stays where it is and stays wrong. None where a click cannot help: the list is emptied by a repeat, the GPU cannot
    be used, or it is a MIG machine, where a whole GPU is no entry.
    """
    if not prediction.processes:
        return None
    process = prediction.processes[0]
    order, reading = process.order.places, process.reading
    if position not in order or (reading.stop and reading.stop.empties) or any(d.mig for d in process.devices):
        return None
    gpu = prediction.scenario.topology.gpus[position]
    place = str(order.index(position))
    if reading.value is None:
        return ",".join(str(i) for i, p in enumerate(order) if p != position)
    entries = [token.text for token in reading.tokens]
    naming = [d.token for d in process.devices if d.position == position and d.token is not None]
    if naming:
        return ",".join(text for i, text in enumerate(entries) if i not in naming)
    end = reading.stop.token if reading.stop else len(entries)
    by_uuid = bool(entries) and entries[0].startswith("GPU-") and gpu.uuid is not None
    entries.insert(end, gpu.uuid if by_uuid and gpu.uuid else place)
    return ",".join(entries)
