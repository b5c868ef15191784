"""JAX and TensorFlow: filters on the CUDA ordinals of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Process
from ..scenario import Layer
from ..strength import strength
from ..topology import Topology
from .base import LayerRow, Outcome, View
from .cuda import process_of
from .shapes import NUMBERS, SWITCH, TEXT, shaped, whole
from .telling import Teller

# --- JAX --------------------------------------------------------------------------------------------------------------

_JAX = "jax 0.10.2 _src/distributed.py and _src/clusters; XLA xla_gpu_client_options.h; read"
_jax = Teller("framework", _JAX)
_LOCAL_IDS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


def jax(local_device_ids: Sequence[int] | int | None = None, *, distributed: bool = False) -> Layer:
    """A process that uses JAX. ``local_device_ids``: of ``jax.distributed.initialize``, a filter on CUDA ordinals.

    ``distributed``: True where ``jax.distributed.initialize()`` is called without them: under Slurm and Open MPI JAX
    then takes the ordinal of the process's local rank.
    """
    ids = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
    options: dict[str, Any] = {"distributed": distributed or ids is not None}
    return Layer("jax", options if ids is None else {**options, "local_device_ids": list(ids)})


def _apply_jax(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    count = len(process_of(topology, view).devices)
    asked, said = options.get("local_device_ids"), []
    local = next((view.env[name] for name in _LOCAL_IDS if name in view.env), None)
    if asked is None and options.get("distributed") and local is not None and whole(local) is not None:
        asked = (whole(local),)
        said.append(_jax.step("step.jax.cluster", ordinal=asked[0]))
    if not count:
        return Outcome((replace(view, chosen=()),), (_jax.step("step.jax.cpu"),))
    if asked is None:
        return Outcome((replace(view, chosen=tuple(range(count))),), (_jax.step("step.jax.all", count=count),))
    chosen = tuple(sorted(set(asked)))
    said.append(_jax.step("step.jax.ids", ordinals=", ".join(f"cuda:{i}" for i in chosen)))
    missing = [i for i in chosen if not 0 <= i < count]
    if missing:
        said.append(_jax.step("step.jax.missing", Certainty.LIKELY, ordinal=missing[0], count=count))
    return Outcome((replace(view, chosen=chosen),), tuple(said))


# --- TensorFlow -------------------------------------------------------------------------------------------------------

_TF = "tensorflow core/protobuf/config.proto and gpu_device.cc of an old revision, read"
_tf = Teller("framework", _TF)
_MIN_SMS = 8
_MIN_NAME = "TF_MIN_GPU_MULTIPROCESSOR_COUNT"


def tensorflow(visible_device_list: str | Sequence[int] = "") -> Layer:
    """A process that uses TensorFlow. ``visible_device_list``: of GPUOptions, as text or numbers: CUDA ordinals, in order."""
    given = visible_device_list
    return Layer("tensorflow", {"visible": given if isinstance(given, str) else ",".join(map(str, given))})


def _apply_tf(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    process = process_of(topology, view)
    count, text = len(process.devices), str(options.get("visible", ""))
    if not count:
        return Outcome((replace(view, chosen=()),), (_tf.step("step.tf.cpu"),))
    asked: list[int] = []
    for entry in text.split(",") if text.strip() else []:
        number = whole(entry.strip())
        if number is None:
            return _tf.refused("error.tf.entry", asked=text)
        if not 0 <= number < count:
            return _tf.refused("error.tf.range", asked=number, count=count)
        if number in asked:
            return _tf.refused("error.tf.twice", asked=number)
        asked.append(number)
    kept, dropped = _strong(view, process, asked or list(range(count)))
    shown = ", ".join(f"/GPU:{k} = cuda:{i}" for k, i in enumerate(kept)) or "–"
    said = [_tf.step("step.tf.list" if asked else "step.tf.all", Certainty.LIKELY, devices=shown)]
    said += [_tf.step("step.tf.weak", Certainty.LIKELY, ordinal=i) for i in dropped]
    return Outcome((replace(view, chosen=tuple(kept)),), tuple(said))


def _strong(view: View, process: Process, asked: list[int]) -> tuple[list[int], list[int]]:
    """Those that have SMs enough: with several visible, TensorFlow ignores GPUs with fewer than 8, or than the best has."""
    sms = {i: strength(process.devices[i].gpu).sm_count for i in asked}
    known = [value for value in sms.values() if value is not None]
    if len(asked) < 2 or not known:
        return asked, []
    given = whole(view.env.get(_MIN_NAME, ""))
    least = given if given is not None and given > 0 else min(_MIN_SMS, max(known))
    dropped = [i for i in asked if (sms[i] if sms[i] is not None else least) < least]  # type: ignore[operator]
    return [i for i in asked if i not in dropped], dropped


ROWS: Mapping[str, LayerRow] = {
    "jax": LayerRow(_apply_jax, _JAX, shaped(local_device_ids=NUMBERS, distributed=SWITCH), "framework"),
    "tensorflow": LayerRow(_apply_tf, _TF, shaped(visible=TEXT), "framework"),
}
