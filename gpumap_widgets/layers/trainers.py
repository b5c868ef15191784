"""Lightning: which ordinals its Trainer takes, and how many processes it starts for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Message, Step
from ..scenario import CUDA_DEVICE_ORDER, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, View
from .cuda import device_count
from .lightning_devices import parse_devices
from .shapes import NUMBER, NUMBERS, SWITCH, TEXT, TEXT_OR_NUMBER, Shape, shaped, whole
from .telling import Teller, crowd

_SOURCE = (
    "lightning 2.6.6: device parser run; accelerator_connector.py, subprocess_script.py, accelerators/cuda.py read"
)
_tell = Teller("framework", _SOURCE)
_IN_PROCESS = ("ddp_spawn", "ddp_fork", "ddp_notebook")
"""Strategies whose workers are forked or spawned: they are given no LOCAL_RANK."""
_FAMILIES = ("ddp", "fsdp", "deepspeed", "auto", "model_parallel", "single_device")
_CPU = ("cpu", "tpu", "mps", "hpu")


def lightning(
    devices: int | str | Sequence[int] = "auto",
    *,
    strategy: str = "auto",
    accelerator: str = "auto",
    num_nodes: int = 1,
    notebook: bool = False,
) -> Layer:
    """``Trainer(devices=…, strategy=…)`` (or ``Fabric``) of Lightning, in a script that is started plainly or by torchrun.

    ``devices``: as Lightning takes it: ``2`` and ``"2"`` are counts, ``[2]`` and ``"2,"`` lists, ``-1`` all, ``"auto"``.
    ``notebook``: in a notebook ``"auto"`` is one device.
    """
    given = devices if isinstance(devices, int | str) else list(devices)
    options = {"devices": given, "strategy": strategy, "accelerator": accelerator, "num_nodes": num_nodes}
    return Layer("lightning", {**options, "notebook": notebook})


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    devices, nodes = options.get("devices", "auto"), options.get("num_nodes", 1)
    strategy, accelerator = str(options.get("strategy", "auto")).lower(), str(options.get("accelerator", "auto"))
    if not strategy.startswith(_FAMILIES):
        return _tell.refused("error.lightning.strategy", (), Certainty.LIKELY, asked=strategy)
    count = device_count(topology, view)
    if nodes is not None and nodes < 1:
        return _tell.refused("error.lightning.nodes", asked=nodes)
    if devices in ((), 0, "0"):
        return _tell.refused("error.lightning.none", asked=repr(devices))
    if accelerator not in (*_CPU, "auto", "gpu", "cuda"):
        return _tell.refused("error.lightning.accelerator", asked=accelerator)
    if accelerator in _CPU or (accelerator == "auto" and not count):
        return Outcome((replace(view, chosen=()),), (_tell.step("step.lightning.cpu"),))
    if not count:
        return _tell.refused("error.lightning.no-backend")
    if devices == "auto":
        devices = 1 if options.get("notebook") and count > 1 else count
    elastic = "GROUP_RANK" in view.env
    ordinals = parse_devices(devices, count, elastic=elastic)
    if isinstance(ordinals, Message):
        return Outcome((), error=ordinals)
    asked = _tell.step(_key(options.get("devices", "auto")), asked=repr(devices), ordinals=_listed(ordinals))
    told: tuple[Step, ...] = (asked, _tell.step("step.lightning.late"))
    single = strategy == "single_device" or (strategy == "auto" and len(ordinals) == 1 and nodes == 1)
    if single:
        shared = (_tell.step("step.lightning.single", ordinal=ordinals[0]),)
        return Outcome((replace(view, chosen=(ordinals[0],)),), (*told, *shared))
    started = _started_outside(view, elastic=elastic)
    if started is not None:
        return _worker(view, ordinals, started, nodes or 1, told, elastic=elastic)
    return crowd(len(ordinals)) or _launch(view, ordinals, strategy, nodes or 1, told)


def _key(devices: Any) -> str:
    if devices == "auto" or devices in (-1, "-1"):
        return "step.lightning.all"
    listed = isinstance(devices, tuple) or (isinstance(devices, str) and "," in devices)
    return "step.lightning.list" if listed else "step.lightning.count"


def _listed(ordinals: tuple[int, ...]) -> str:
    return ", ".join(f"cuda:{i}" for i in ordinals)


def _started_outside(view: View, *, elastic: bool) -> int | None:
    """The local rank where something else starts the processes; None where Lightning does."""
    env = view.env
    if not elastic and "SLURM_NTASKS" in env and env.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        return whole(env.get("SLURM_LOCALID", "0")) or 0
    return whole(env["LOCAL_RANK"]) if "LOCAL_RANK" in env else None


def _worker(
    view: View, ordinals: tuple[int, ...], local: int, nodes: int, told: tuple[Step, ...], *, elastic: bool
) -> Outcome:
    """One process that somebody else started: it takes the ordinal at its local rank."""
    world = whole(view.env.get("WORLD_SIZE", ""))
    if elastic and world is not None and world != len(ordinals) * nodes:
        return _tell.refused("error.lightning.world", told, devices=len(ordinals), nodes=nodes, world=world)
    if not 0 <= local < len(ordinals):
        return _tell.refused("error.lightning.rank", told, local=local, devices=len(ordinals))
    return Outcome((replace(view, chosen=(ordinals[local],)),), told)


def _launch(view: View, ordinals: tuple[int, ...], strategy: str, nodes: int, told: tuple[Step, ...]) -> Outcome:
    """Lightning starts the other processes itself, and is the first of them."""
    size, node = len(ordinals), whole(view.env.get("NODE_RANK", view.env.get("GROUP_RANK", "0"))) or 0
    views = []
    for k, ordinal in enumerate(ordinals):
        ranks = {"LOCAL_RANK": str(k), "NODE_RANK": str(node), "WORLD_SIZE": str(size * nodes)}
        worker = view if strategy in _IN_PROCESS else view.with_env(ranks)
        several = node if nodes > 1 else view.node_rank
        views.append(replace(worker, rank=node * size + k, local_rank=k, node_rank=several, chosen=(ordinal,)))
    return Outcome(tuple(views), (*told, _tell.step("step.lightning", count=size)))


def _believed(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: ``devices="2"`` is GPU 2, and the numbers are those of nvidia-smi."""
    devices = options.get("devices", "auto")
    number = whole(devices) if isinstance(devices, str) else None
    asked = (number,) if number is not None and number >= 0 else devices
    plain = view.with_env({CUDA_DEVICE_ORDER: "PCI_BUS_ID"})
    outcome = _apply(plain, {**options, "devices": asked}, topology)
    return outcome if outcome.views else _apply(view, options, topology)


_DEVICES = Shape(lambda v: TEXT_OR_NUMBER.fits(v) or NUMBERS.fits(v), "no number, text or list of numbers")
ROWS: Mapping[str, LayerRow] = {
    "lightning": LayerRow(
        _apply,
        _SOURCE,
        shaped(devices=_DEVICES, strategy=TEXT, accelerator=TEXT, num_nodes=NUMBER, notebook=SWITCH),
        "framework",
        believed=_believed,
    ),
}
