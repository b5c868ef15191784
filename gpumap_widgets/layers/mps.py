"""MPS: a server that counts the GPUs once, and clients that count what it serves.

Source: NVIDIA Multi-Process Service documentation, 5.2.1 CUDA_VISIBLE_DEVICES: a list that is set before the control
daemon starts is applied by the server, and its clients see those devices numbered from 0; a client that keeps the same
numbers gets an error. NVIDIA recommends UUIDs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from . import variables
from .base import LayerRow, Outcome, Recognised, View
from .cuda import process_of
from .options import Option, Options
from .words import Word

MPS = "NVIDIA MPS documentation, 5.2.1 CUDA_VISIBLE_DEVICES"
_CONTROL = Options([Option("-d", 0, key="daemon"), Option("-f", 0), Option("-multiuser-server", 0)], cluster=False)


def _step(key: str, certainty: Certainty, **fields: Any) -> Step:
    return Step("scheduler", Message, (key, FrozenDict(fields)), certainty, MPS)


def apply_mps(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A control daemon is started here: what follows are its clients."""
    env = {name: value for name, value in view.env.items() if name not in options.get("unset", ())}
    server = process_of(topology, replace(view, env=FrozenDict({**env, **options.get("set", {})})))
    served = tuple(dict.fromkeys(device.position for device in server.devices))
    sliced = any(device.mig for device in server.devices)
    certainty = Certainty.UNKNOWN if sliced else server.certainty
    value = server.env.get(CUDA_VISIBLE_DEVICES)
    names = ", ".join(f"{n}: {topology.gpus[i].short_name}" for n, i in enumerate(served[:8]))
    key = "step.mps.all" if value is None else "step.mps.list" if served else "step.mps.none"
    said = _step(key, certainty, value=variables.clip(value or ""), gpus=names)
    return Outcome((replace(view, served=served).doubted(certainty),), (said,))


def believed_mps(view: View, _: Mapping[str, Any], __: Topology) -> Outcome:
    """The popular belief: a client's list means what it means without MPS."""
    return Outcome((view,))


def client_refused(topology: Topology, view: View) -> Message | None:
    """What a client of MPS is refused: a number that the server does not serve."""
    if view.served is None:
        return None
    process = process_of(topology, view)
    stop = process.reading.stop
    if stop is None or stop.rule != "out-of-range":
        return None
    fields = {"value": variables.clip(process.reading.value or ""), "count": len(view.served)}
    return Message("error.mps.client", FrozenDict(fields))


def mps_daemon(visible_devices: str | None = None, **variables_: str) -> Layer:
    """``nvidia-cuda-mps-control -d`` in the environment of this place: everything inside is a client of that server.

    ``visible_devices``: its CUDA_VISIBLE_DEVICES, where it differs; other variables by their names.
    """
    given = variables_ if visible_devices is None else {**variables_, CUDA_VISIBLE_DEVICES: visible_devices}
    return Layer("mps", {"set": given} if given else {})


def _recognise(words: tuple[Word, ...], _: Mapping[str, Any]) -> Recognised:
    """The daemon with ``-d``; without it the program only talks to one that runs."""
    found = _CONTROL.parse(words[1:])
    return Recognised((Layer("mps"),)) if found.has("daemon") else Recognised((), idle=True)


def problem(options: Mapping[str, Any]) -> str | None:
    """``set`` is a mapping of texts, ``unset`` a list of names."""
    return variables.problem({key: value for key, value in options.items() if key in ("set", "unset")})


ROWS: Mapping[str, LayerRow] = {
    "mps": LayerRow(
        apply_mps,
        MPS,
        problem,
        "scheduler",
        programs=("nvidia-cuda-mps-control",),
        recognise=_recognise,
        believed=believed_mps,
        lasting=True,
    ),
}
