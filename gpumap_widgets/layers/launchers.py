"""Launchers of PyTorch: one process a GPU, and who tells it which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .cuda import device_count
from .options import Option, Options
from .words import Word

# --- torchrun ---------------------------------------------------------------------------------------------------------

_TORCHRUN = "torch 2.13 distributed/run.py and elastic/agent/server/local_elastic_agent.py, run; 2.8 to 2.14 read"
_VIRTUAL = "pytorch/pytorch pull request 166680: in 2.10, not in 2.9.1; run"
_VIRTUAL_SINCE = (2, 10)

_TORCHRUN_OPTIONS = Options(
    [
        Option("--nproc-per-node --nproc_per_node", key="nproc"),
        Option("--nnodes", key="nnodes"),
        Option("--node-rank --node_rank", key="node_rank"),
        Option("--virtual-local-rank", 0, key="virtual"),
        Option("--no-python -m --module --standalone --run-path", 0),
        Option("--rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts --monitor-interval"),
        Option("--start-method --event-log-handler --role --log-dir -r --redirects -t --tee --local-ranks-filter"),
        Option("--master-addr --master-port --local-addr --logs-specs --numa-binding --signals-to-handle"),
        Option("--duplicate-stdout-filters --duplicate-stderr-filters", "+"),
    ],
    abbreviate=True,
    cluster=True,
    underscores=True,
)


def torchrun(
    nproc: int | str = 1,
    *,
    nnodes: int = 1,
    node_rank: int = 0,
    virtual_local_rank: bool = False,
    set_device: bool = True,
    device_offset: int = 0,
    torch: str | None = None,
) -> Layer:
    """``torchrun``: ``nproc`` workers on this node (a number, ``gpu`` or ``auto``), each with RANK and LOCAL_RANK.

    ``virtual_local_rank``: its own mode since torch 2.10. ``set_device``: False when the script never selects a device.
    ``device_offset``: what the script adds to its local rank before it selects.
    """
    options = {"nproc": str(nproc), "nnodes": nnodes, "node_rank": node_rank, "virtual": virtual_local_rank}
    options |= {"set_device": set_device, **({"device_offset": device_offset} if device_offset else {})}
    return Layer("torchrun", {**options, **({"torch": torch} if torch else {})})


def _recognise_torchrun(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _TORCHRUN_OPTIONS.parse(words[1:])
    options: dict[str, Any] = {"nproc": found.text("nproc", "1"), "virtual": found.has("virtual")}
    for key in ("nnodes", "node_rank"):
        text = found.text(key)
        if text is not None:
            options[key] = number(text.split(":")[-1], text)
    options |= {key: assume[key] for key in ("set_device", "device_offset", "torch", "node_rank") if key in assume}
    if found.unrecognised:
        options["unrecognised"] = found.unrecognised
    return Recognised((Layer("torchrun", options),))


def _apply_torchrun(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """Workers that inherit everything; with the virtual local rank each has its entry of the list alone.

    ``first_rank``, ``world_size``: for nodes with unequal numbers of workers, where they do not follow from ``nnodes``
    (elastic/agent/server/api.py: a node's first rank is the sum of the workers of the nodes before it).
    """
    env = view.env
    asked = str(options.get("nproc", "1"))
    said = [_step("step.torchrun.count-gpu", {"asked": asked}, _TORCHRUN)] if asked in ("gpu", "auto") else []
    count = device_count(topology, view) if asked in ("gpu", "auto") else number(asked, None)
    if not isinstance(count, int) or count < 1:
        key = "error.torchrun.no-gpu" if asked in ("gpu", "auto") else "error.torchrun.nproc"
        return Outcome((), tuple(said), error=Message(key, FrozenDict({"asked": asked})))
    virtual = bool(options.get("virtual")) or env.get("PET_VIRTUAL_LOCAL_RANK") == "1"
    if virtual and _older(options.get("torch"), _VIRTUAL_SINCE):
        return Outcome((), error=Message("error.torchrun.virtual", FrozenDict({"version": options["torch"]})))
    entries = env[CUDA_VISIBLE_DEVICES].split(",") if virtual and CUDA_VISIBLE_DEVICES in env else None
    if entries is not None and len(entries) < count:
        error = Message("error.torchrun.exceeds", FrozenDict({"local_rank": len(entries)}))
        return Outcome((), error=error)
    node_rank, nodes = whole(options, "node_rank", 0), whole(options, "nnodes", 1)
    first, world = whole(options, "first_rank", node_rank * count), whole(options, "world_size", count * nodes)
    key = "step.torchrun.virtual" if virtual else "step.torchrun"
    said.append(_step(key, {"count": count}, _VIRTUAL if virtual else _TORCHRUN))
    views = []
    for k in range(count):
        ranks = {"RANK": str(first + k), "LOCAL_RANK": "0" if virtual else str(k)}
        changes = {**ranks, "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(count)}
        if virtual:
            changes[CUDA_VISIBLE_DEVICES] = entries[k] if entries is not None else str(k)
        local_rank = int(ranks["LOCAL_RANK"])
        chosen = (0,) if options.get("set_device") is False else (local_rank + whole(options, "device_offset", 0),)
        worker = replace(view.with_env(changes), rank=first + k, local_rank=local_rank, chosen=chosen)
        views.append(replace(worker, node_rank=node_rank) if nodes > 1 else worker)
    return Outcome(tuple(views), tuple(said))


def _believed_one_each(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: every worker is given one GPU, the list's entry at its rank, as its cuda:0."""
    outcome = _apply_torchrun(view, {**options, "virtual": True, "torch": None}, topology)
    return outcome if outcome.views else _apply_torchrun(view, options, topology)


def _step(key: str, fields: Mapping[str, Any], source: str, certainty: Certainty = Certainty.CERTAIN) -> Step:
    return Step("launcher", Message, (key, FrozenDict(fields)), certainty, source)


def number(text: str, otherwise: Any) -> Any:
    """A whole number as a command line gives it, ``otherwise`` for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < len("1000000000") else otherwise


def whole(options: Mapping[str, Any], name: str, otherwise: int) -> int:
    """An option that is a whole number, or its text; ``otherwise`` for anything else: a variable that nobody set."""
    value = number(str(options.get(name, "")), None)
    return otherwise if value is None else int(value)


def _older(version: Any, than: tuple[int, int]) -> bool:
    parts = str(version or "").split(".")[:2]
    return len(parts) == len(than) and all(p.isascii() and p.isdigit() for p in parts) and tuple(map(int, parts)) < than


ROWS: Mapping[str, LayerRow] = {
    "torchrun": LayerRow(
        _apply_torchrun,
        _TORCHRUN,
        programs=("torchrun", "-m torch.distributed.run", "-m torch.distributed.launch"),
        recognise=_recognise_torchrun,
        believed=_believed_one_each,
    ),
}
