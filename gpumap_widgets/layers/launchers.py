"""Launchers of PyTorch: one process a GPU, and who tells it which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..mapping import Step
from ..scenario import Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .elastic import SOURCE, group_of, workers_of
from .expanding import expanding
from .options import Option, Options
from .shapes import NUMBER, SWITCH, TEXT, TEXT_OR_NUMBER, facts, number_of, shaped
from .telling import Teller, crowd
from .words import Word, started

# --- torchrun ---------------------------------------------------------------------------------------------------------

_VIRTUAL = "pytorch/pytorch pull request 166680: in 2.10, not in 2.9.1; run"
_tell = Teller("launcher", SOURCE)

_TORCHRUN_OPTIONS = Options(
    [
        Option("--nproc-per-node", key="nproc"),
        Option("--nnodes", key="nnodes"),
        Option("--node-rank", key="node_rank"),
        Option("--rdzv-backend", key="rdzv_backend"),
        Option("--rdzv-endpoint", key="rdzv_endpoint"),
        Option("--master-addr", key="master_addr"),
        Option("--master-port", key="master_port"),
        Option("--standalone", 0, key="standalone"),
        Option("--virtual-local-rank", 0, key="virtual"),
        Option("-m --module", 0, key="module"),
        Option("--no-python", 0, key="no_python"),
        Option("--run-path --use-env -h --help", 0),
        Option("--rdzv-id --rdzv-conf --max-restarts --monitor-interval --start-method --event-log-handler --role"),
        Option("--log-dir -r --redirects -t --tee --log-line-prefix-template --local-ranks-filter --local-addr"),
        Option("--duplicate-stdout-filters --duplicate-stderr-filters --logs-specs --numa-binding"),
        Option("--signals-to-handle --shutdown-timeout --print-completion"),
    ],
    abbreviate=True,
    underscores=True,
)
_HARMLESS = ("nnodes", "node_rank", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port")
"""Options that change ranks and addresses, never a GPU."""
_FACTS = {"set_device": SWITCH, "device_offset": NUMBER, "torch": TEXT, "cpus": NUMBER, "node_rank": TEXT}


def torchrun(
    nproc: int | str = 1,
    *,
    nnodes: int | str = 1,
    node_rank: int | str = 0,
    virtual_local_rank: bool = False,
    set_device: bool = True,
    device_offset: int = 0,
    torch: str | None = None,
    **options: Any,
) -> Layer:
    """``torchrun``: ``nproc`` workers on this node (a number, ``gpu``, ``cpu`` or ``auto``), each with RANK and LOCAL_RANK.

    ``nnodes``: a number or ``"min:max"``. ``node_rank``: which of the nodes this machine is; ``"all"`` shows the workers
    of every node, as if all were like this machine. ``virtual_local_rank``: its own mode since torch 2.10.
    ``set_device``: False when the script never selects a device. ``device_offset``: what the script adds to its local
    rank before it selects. ``torch``: its version. Other options by their names: ``standalone``, ``rdzv_backend``,
    ``rdzv_endpoint``, ``master_addr``, ``master_port``; ``cpus``: how many CPUs the machine has, which ``nproc="cpu"``
    counts; ``first_rank`` and ``world_size`` where the nodes have unequal numbers of workers.
    """
    given = {"nproc": str(nproc), "nnodes": str(nnodes), "node_rank": str(node_rank), "virtual": virtual_local_rank}
    named = {"torch": torch, "device_offset": device_offset or None, **options}
    return Layer("torchrun", {**given, "set_device": set_device, **{k: v for k, v in named.items() if v is not None}})


def _recognise_torchrun(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _TORCHRUN_OPTIONS.parse(words[1:])
    options = found.options(("nproc", *_HARMLESS), ("virtual", "standalone")) | facts(assume, **_FACTS)
    rest = started(found.rest, python=not found.has("no_python"), module=found.has("module"))
    return Recognised((Layer("torchrun", options),), rest)


def _apply_torchrun(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """Workers that inherit everything; with the virtual local rank each has its entry of the list alone."""
    said: list[Step] = []
    group = group_of(view, options, topology, said)
    if isinstance(group, Outcome):
        return group
    workers = workers_of(view, group, tuple(said))
    if isinstance(workers, Outcome):
        return workers
    key = "step.torchrun.virtual" if group.virtual else "step.torchrun"
    said.append(_tell.step(key, source=_VIRTUAL if group.virtual else "", count=group.size))
    first = options.get("set_device") is False
    offset = number_of(options.get("device_offset")) or 0
    views = tuple(replace(one, chosen=(0 if first else (one.local_rank or 0) + offset,)) for one in workers)
    return Outcome(views, tuple(said))


def _believed_one_each(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: every worker is given one GPU, the list's entry at its rank, as its cuda:0."""
    outcome = _apply_torchrun(view, {**options, "virtual": True, "torch": None}, topology)
    return outcome if outcome.views else _apply_torchrun(view, options, topology)


# --- torch.multiprocessing.spawn --------------------------------------------------------------------------------------

_SPAWN = "torch 2.13 torch.multiprocessing.spawn, run: it sets no variable; the rank is the function's first argument"
_tell_spawn = Teller("launcher", _SPAWN)


def spawn(nprocs: int = 1, *, set_device: bool = True) -> Layer:
    """``torch.multiprocessing.spawn(f, nprocs=n)``: ``nprocs`` processes that inherit everything.

    ``set_device``: False when the function never selects a device, so that all of them use cuda:0.
    """
    return Layer("spawn", {"nprocs": nprocs, "set_device": set_device})


def _apply_spawn(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    count = int(options.get("nprocs") or 0)
    if count < 1:
        return _tell_spawn.refused("error.spawn.none", asked=count)
    refusal = crowd(count)
    if refusal is not None:
        return refusal
    own = options.get("set_device") is not False
    views = tuple(replace(view, worker=f"process {k}", chosen=(k if own else 0,)) for k in range(count))
    return Outcome(views, (_tell_spawn.step("step.spawn", count=count),))


TORCHRUN_SHAPE = shaped(
    **dict.fromkeys(("nproc", *_HARMLESS), TEXT_OR_NUMBER),
    **dict.fromkeys(("virtual", "standalone", "set_device"), SWITCH),
    **dict.fromkeys(("cpus", "device_offset", "first_rank", "world_size"), NUMBER),
    torch=TEXT,
)
ROWS: Mapping[str, LayerRow] = {
    "torchrun": LayerRow(
        expanding(_apply_torchrun, _HARMLESS),
        SOURCE,
        TORCHRUN_SHAPE,
        programs=("torchrun", "-m torch.distributed.run", "-m torch.distributed.launch"),
        recognise=_recognise_torchrun,
        believed=expanding(_believed_one_each, _HARMLESS),
    ),
    "spawn": LayerRow(_apply_spawn, _SPAWN, shaped(nprocs=NUMBER, set_device=SWITCH)),
}
