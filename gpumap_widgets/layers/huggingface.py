"""Hugging Face: the Trainer without a launcher, and ``device_map``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..scenario import Layer
from ..topology import Topology
from .base import LayerRow, Outcome, View
from .cuda import device_count, process_of
from .shapes import TEXT_OR_NUMBER, shaped, whole
from .telling import Teller

_TRAINER = "transformers 5.24.0 training_args.py _setup_devices; accelerate 1.15.0 state.py; read"
_MAP = "transformers 5.24.0 integrations/accelerate.py check_and_set_device_map and get_balanced_memory; read"
_BALANCE = 0.75
"""torch nn/parallel/data_parallel.py warns where the smallest GPU has less than this share of the largest."""
_trainer, _map = Teller("framework", _TRAINER), Teller("framework", _MAP)
_SPREAD = ("auto", "balanced", "balanced_low_0", "sequential")


def hf_trainer() -> Layer:
    """A script with transformers' ``Trainer``: DataParallel over all GPUs without a launcher, one GPU a rank with one."""
    return Layer("hf_trainer")


def device_map(value: str | int = "auto") -> Layer:
    """``from_pretrained(…, device_map=value)``: ``auto``, ``balanced``, ``sequential``, ``cuda``, ``cuda:1``, 1, ``cpu``."""
    return Layer("device_map", {"value": value})


def _local_rank(view: View) -> int | None:
    """LOCAL_RANK; None where it is unset, -1 or no number."""
    local = whole(view.env.get("LOCAL_RANK", "-1"))
    return None if local is None or local == -1 else local


def _apply_trainer(view: View, _: Mapping[str, Any], topology: Topology) -> Outcome:
    process = process_of(topology, view)
    count, local = len(process.devices), _local_rank(view)
    if not count:
        return Outcome((replace(view, chosen=()),), (_trainer.step("step.hf.cpu"),))
    if local is not None:
        said = _trainer.step("step.hf.rank", ordinal=local % count)
        return Outcome((replace(view, chosen=(local % count,)),), (said,))
    steps = [_trainer.step("step.hf.parallel" if count > 1 else "step.hf.one", count=count)]
    memory = [device.gpu.memory_mib for device in process.devices]
    known = [size for size in memory if size]
    if len(known) == count and min(known) < _BALANCE * max(known):
        steps.append(_trainer.step("step.hf.imbalance", least=min(known), most=max(known)))
    return Outcome((replace(view, chosen=tuple(range(count))),), tuple(steps))


def _believed_first(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: a script that is started plainly trains on cuda:0 alone."""
    outcome = _apply_trainer(view, options, topology)
    return outcome._replace(views=tuple(replace(one, chosen=(one.chosen or ())[:1]) for one in outcome.views))


def _apply_map(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    value = options.get("value", "auto")
    count = device_count(topology, view)
    if value in _SPREAD:
        chosen = tuple(range(count))
        key = "step.hf.map" if count > 1 else "step.hf.map-one" if count else "step.hf.cpu"
        steps = [_map.step(key, Certainty.LIKELY if count > 1 else Certainty.CERTAIN, value=value, count=count)]
        if count > 1 and _local_rank(view) is not None:
            steps.append(_map.step("step.hf.map-every-rank"))
        return Outcome((replace(view, chosen=chosen),), tuple(steps))
    if isinstance(value, int):
        if value < 0:
            return _map.refused("error.hf.negative")
        return Outcome((replace(view, chosen=(value,)),), (_map.step("step.hf.device", ordinal=value),))
    kind, colon, number = str(value).partition(":")
    ordinal = (_local_rank(view) or 0) if not colon else whole(number)
    if kind in ("cpu", "disk", "meta", "mps", "xpu"):
        return Outcome((replace(view, chosen=()),), (_map.step("step.hf.cpu"),))
    if kind != "cuda" or ordinal is None or ordinal < 0:
        return _map.refused("error.hf.map", asked=str(value))
    return Outcome((replace(view, chosen=(ordinal,)),), (_map.step("step.hf.device", ordinal=ordinal),))


ROWS: Mapping[str, LayerRow] = {
    "hf_trainer": LayerRow(_apply_trainer, _TRAINER, family="framework", believed=_believed_first),
    "device_map": LayerRow(_apply_map, _MAP, shaped(value=TEXT_OR_NUMBER), "framework"),
}
