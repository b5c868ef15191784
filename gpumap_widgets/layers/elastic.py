"""How torch's elastic agent counts and names its workers; torchrun and accelerate start theirs through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..mapping import Step
from ..scenario import CUDA_VISIBLE_DEVICES
from ..topology import Topology
from .base import MOST_PROCESSES, Outcome, View
from .cuda import device_count
from .shapes import older, whole
from .telling import Teller, crowd

SOURCE = "torch 2.13 and 2.14 distributed/run.py and elastic/agent/server/local_elastic_agent.py, run; 2.8 to 2.14 read"
VIRTUAL_SINCE = (2, 10, 0)
ALL_NODES = "all"
_tell = Teller("launcher", SOURCE)


class Group(NamedTuple):
    """The workers that one agent starts, before they have a GPU."""

    size: int
    nodes: tuple[int, ...]
    """The node ranks that are shown."""
    nnodes: int
    master: tuple[str | None, str | None] = (None, None)
    """MASTER_ADDR and MASTER_PORT; None where the rendezvous decides."""
    virtual: bool = False


def workers_of(view: View, group: Group, said: tuple[Step, ...]) -> tuple[View, ...] | Outcome:
    """The workers with the variables that the agent sets; with the virtual local rank each has its entry of the list."""
    listed = view.env.get(CUDA_VISIBLE_DEVICES) if group.virtual else None
    entries = None if listed is None else listed.split(",")
    if entries is not None and len(entries) < group.size:
        return _tell.refused("error.torchrun.exceeds", said, local_rank=len(entries), value=str(listed))
    workers = [_worker(view, group, node, k) for node in group.nodes for k in range(group.size)]
    if not group.virtual:
        return tuple(workers)
    given = [str(k) for k in range(group.size)] if entries is None else [entry.strip() for entry in entries]
    return tuple(one.with_env({CUDA_VISIBLE_DEVICES: given[k % group.size]}) for k, one in enumerate(workers))


def _worker(view: View, group: Group, node: int, k: int) -> View:
    """A worker with the variables that elastic agents set."""
    rank, local = node * group.size + k, 0 if group.virtual else k
    changes = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(group.size * group.nnodes),
        "LOCAL_WORLD_SIZE": str(group.size),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": group.master[0],
        "MASTER_PORT": group.master[1],
    }
    return replace(
        view.with_env(changes), rank=rank, local_rank=local, node_rank=node if group.nnodes > 1 else view.node_rank
    )


def group_of(view: View, options: Mapping[str, Any], topology: Topology, said: list[Step]) -> Group | Outcome:
    """How many workers, or why none."""

    def setting(key: str, variable: str, default: str) -> str:
        given = options.get(key)
        return view.env.get(f"PET_{variable}", default) if given is None else str(given)

    virtual, standalone = (_switch(view, options, key, name) for key, name in _SWITCHES.items())
    if virtual is None or standalone is None:
        return _tell.refused("error.torchrun.flag")
    if older(options.get("torch"), VIRTUAL_SINCE):
        if options.get("virtual"):
            return _tell.refused("error.torchrun.virtual", version=options["torch"])
        virtual = False
    node_text = setting("node_rank", "NODE_RANK", "0")
    node = whole(node_text)
    if node is None and node_text != ALL_NODES:
        return _tell.refused("error.torchrun.node-rank", asked=node_text)
    nnodes = setting("nnodes", "NNODES", "1:1")
    least, most = _nodes(nnodes)
    if not 0 < least <= most:
        return _tell.refused("error.torchrun.nnodes", asked=nnodes)
    count = _count(view, setting("nproc", "NPROC_PER_NODE", "1"), options, topology, said)
    if isinstance(count, Outcome):
        return count
    nodes = tuple(range(most)) if node_text == ALL_NODES and count * most <= MOST_PROCESSES else (node or 0,)
    refusal = crowd(count * len(nodes)) if node_text != ALL_NODES else crowd(count * most)
    if refusal is not None:
        return refusal
    endpoint = setting("rdzv_endpoint", "RDZV_ENDPOINT", "")
    static = setting("rdzv_backend", "RDZV_BACKEND", "static") == "static" and not standalone
    local = (
        static and not endpoint and most == 1 and options.get("master_port", view.env.get("PET_MASTER_PORT")) is None
    )
    if most > 1:
        said += _tell_nodes(least, most, static=static, every=node_text == ALL_NODES)
    if not static or local:
        return Group(count, nodes, most, virtual=virtual)
    host, _, port = endpoint.rpartition(":")
    named = setting("master_addr", "MASTER_ADDR", "127.0.0.1"), setting("master_port", "MASTER_PORT", "29500")
    return Group(count, nodes, most, (host, port) if endpoint else named, virtual=virtual)


_SWITCHES = {"virtual": "VIRTUAL_LOCAL_RANK", "standalone": "STANDALONE"}


def _switch(view: View, options: Mapping[str, Any], key: str, variable: str) -> bool | None:
    """A flag that a PET_ variable may set too, by ``bool(int(...))``; None where that raises."""
    default = whole(view.env.get(f"PET_{variable}", "0"))
    return None if default is None else bool(options.get(key)) or bool(default)


def _nodes(text: str) -> tuple[int, int]:
    """``--nnodes`` as least and most; (0, 0) for what torchrun refuses."""
    numbers = [whole(part) for part in text.split(":")]
    if not 1 <= len(numbers) <= 2:
        return 0, 0
    least, most = numbers[0], numbers[-1]
    return (0, 0) if least is None or most is None else (least, most)


def _tell_nodes(least: int, most: int, *, static: bool, every: bool) -> list[Step]:
    said = [] if static else [_tell.step("step.torchrun.rendezvous")]
    if least < most:
        said.append(_tell.step("step.torchrun.elastic", least=least, most=most))
    return [*said, _tell.step("step.torchrun.every-node" if every else "step.torchrun.one-node", count=most)]


def _count(view: View, asked: str, options: Mapping[str, Any], topology: Topology, said: list[Step]) -> int | Outcome:
    """``determine_local_world_size``: a number, or what is counted."""
    count = whole(asked)
    if count is None and asked in ("gpu", "auto"):
        count = device_count(topology, view)
        said.append(_tell.step("step.torchrun.count-gpu", asked=asked, count=count))
        if not count and asked == "gpu":
            return _tell.refused("error.torchrun.no-gpu", tuple(said))
    if (count is None and asked == "cpu") or (count == 0 and asked == "auto"):
        cpus = options.get("cpus")
        if cpus is None:
            return _tell.refused("error.torchrun.cpus", tuple(said), Certainty.UNKNOWN, asked=asked)
        count = int(cpus)
    if count is None:
        return _tell.refused("error.torchrun.xpu" if asked == "xpu" else "error.torchrun.nproc", asked=asked)
    return count if count > 0 else _tell.refused("error.torchrun.positive", asked=asked)
