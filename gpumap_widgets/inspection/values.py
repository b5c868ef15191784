"""Which values of the two variables a driver used: those whose prediction is what it shows."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..identity import bare_uuid
from ..mapping import Message, ObservedDevice, Prediction, message
from ..resolver import resolve
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from ..topology import Topology
from .driver import NOT_STARTED, STARTED

Variables = Mapping[str, str]
_BOTH = (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES)


def as_c_reads() -> Variables | None:
    """The two variables as getenv(3) has them."""
    if sys.platform == "win32":
        return None
    try:
        getenv = ctypes.CDLL(None).getenv
    except (OSError, AttributeError):
        return None
    getenv.restype, getenv.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    values = {name: getenv(name.encode()) for name in _BOTH}
    return FrozenDict({name: os.fsdecode(value) for name, value in values.items() if value is not None})


def both_of(env: Variables) -> dict[str, str]:
    """The two variables alone."""
    return {name: env[name] for name in _BOTH if name in env}


def predicted(machine: Topology, env: Variables) -> Prediction:
    """What these values lead to on this machine."""
    return resolve(Scenario.from_env(machine, env))


def used_values(
    state: str, machine: Topology | None, candidates: Mapping[str, Variables | None], seen: tuple[ObservedDevice, ...]
) -> tuple[str | None, Message, Certainty]:
    """Which values lead to the devices that are there. A third value in between is never ruled out: likely at most."""
    if state == NOT_STARTED:
        return None, message("inspect.used.not-yet"), Certainty.CERTAIN
    known = {name: both_of(env) for name, env in candidates.items() if env is not None}
    if state != STARTED or machine is None or not seen:
        return None, message("inspect.used.unknown"), Certainty.UNKNOWN
    fits = {name: _fits(machine, env, seen) for name, env in known.items()}
    fitting = [name for name, fit in fits.items() if fit]
    if not fitting:
        refuted = all(fit is False for fit in fits.values())
        key = "inspect.used.neither" if refuted else "inspect.used.unknown"
        return None, message(key), Certainty.LIKELY if refuted else Certainty.UNKNOWN
    values = {tuple(sorted(known[name].items())) for name in fitting}
    name = fitting[0]
    if len({tuple(sorted(env.items())) for env in known.values()}) == 1:
        return name, message("inspect.used.same"), Certainty.LIKELY
    if len(values) > 1:
        return None, message("inspect.used.either"), Certainty.UNKNOWN
    others = [fit for other, fit in fits.items() if other not in fitting]
    certainty = Certainty.LIKELY if all(fit is False for fit in others) else Certainty.GUESS
    return name, message(f"inspect.used.{name.replace('_', '-')}"), certainty


def _fits(machine: Topology, env: Variables, seen: tuple[ObservedDevice, ...]) -> bool | None:
    """Whether values lead to these devices; None where the prediction is too weak to say that they do not."""
    prediction = predicted(machine, env)
    foretold = [(d.mig.uuid if d.mig else d.gpu.uuid) for d in prediction.processes[0].devices]
    if None in foretold or any(device.uuid is None for device in seen):
        return None
    if [bare_uuid(uuid or "") for uuid in foretold] == [device.uuid for device in seen]:
        return True
    return False if prediction.certainty in (Certainty.CERTAIN, Certainty.LIKELY) else None
