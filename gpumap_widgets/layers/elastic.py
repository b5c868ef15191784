"""How torch's elastic agent counts and names its workers; torchrun and accelerate start theirs through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..mapping import Step
from ..scenario import CUDA_VISIBLE_DEVICES
from ..topology import Topology
from .base import Outcome, View
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
    first: int | None = None
    """RANK of the first worker of this node, where it does not follow from equal nodes."""
    world: int | None = None
    """WORLD_SIZE, where it does not follow."""


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
    rank, local = (node * group.size if group.first is None else group.first) + k, 0 if group.virtual else k
    world = group.size * group.nnodes if group.world is None else group.world
    changes = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(group.size),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": group.master[0],
        "MASTER_PORT": group.master[1],
    }
    return replace(
        view.with_env(changes), rank=rank, local_rank=local, node_rank=node if group.nnodes > 1 else view.node_rank
    )


class _Flags:
    """The flags, each with the PET_ variable that stands in where it is not given."""

    def __init__(self, view: View, options: Mapping[str, Any], said: list[Step]) -> None:
        self._env, self._options, self._said = view.env, options, said

    def text(self, key: str, default: str) -> str:
        """A flag, its variable, or its default. An empty one comes from a shell variable that nothing sets."""
        given = self._options.get(key)
        if given == "":
            self._said.append(_tell.step("step.torchrun.empty", Certainty.UNKNOWN, option=key, default=default))
            return default
        return self._env.get(f"PET_{_VARIABLES[key]}", default) if given is None else str(given)

    def given(self, key: str) -> bool:
        """Whether a flag or its variable is there."""
        return bool(self._options.get(key) or self._env.get(f"PET_{_VARIABLES[key]}"))

    def switch(self, key: str) -> bool | None:
        """A flag that its variable may set too, by ``bool(int(...))``; None where that raises."""
        default = whole(self._env.get(f"PET_{_VARIABLES[key]}", "0"))
        return None if default is None else bool(self._options.get(key)) or bool(default)


_VARIABLES = {
    "nproc": "NPROC_PER_NODE",
    "virtual": "VIRTUAL_LOCAL_RANK",
    **{key: key.upper() for key in ("nnodes", "node_rank", "standalone", "master_addr", "master_port")},
    **{key: key.upper() for key in ("rdzv_backend", "rdzv_endpoint")},
}


def group_of(view: View, options: Mapping[str, Any], topology: Topology, said: list[Step]) -> Group | Outcome:
    """How many workers, or why none."""
    flags = _Flags(view, options, said)
    virtual, standalone = flags.switch("virtual"), flags.switch("standalone")
    if virtual is None or standalone is None:
        return _tell.refused("error.torchrun.flag")
    if older(options.get("torch"), VIRTUAL_SINCE):
        if options.get("virtual"):
            return _tell.refused("error.torchrun.virtual", version=options["torch"])
        virtual = False
    rank_text, nnodes = flags.text("node_rank", "0"), flags.text("nnodes", "1:1")
    rank, (least, most) = whole(rank_text), _nodes(nnodes)
    if rank is None and rank_text != ALL_NODES:
        return _tell.refused("error.torchrun.node-rank", asked=rank_text)
    if not 0 < least <= most:
        return _tell.refused("error.torchrun.nnodes", asked=nnodes)
    size = _count(view, flags, options, topology, said)
    if isinstance(size, Outcome):
        return size
    crowded = crowd(size * (most if rank is None else 1))
    if crowded is not None:
        return crowded
    nodes = tuple(range(most)) if rank is None else (rank,)
    master = None if standalone else _master(flags, most)
    if most > 1:
        said += _tell_nodes(least, most, static=master is not None, every=rank is None)
    world, first = options.get("world_size"), options.get("first_rank")
    return Group(size, nodes, most, master or (None, None), virtual, first, world)


def _master(flags: _Flags, nnodes: int) -> tuple[str, str] | None:
    """MASTER_ADDR and MASTER_PORT of a static rendezvous; None where the rendezvous decides."""
    if flags.text("rdzv_backend", "static") != "static":
        return None
    endpoint = flags.text("rdzv_endpoint", "")
    if endpoint:
        host, _, port = endpoint.rpartition(":")
        return host, port
    if nnodes == 1 and not flags.given("master_port"):
        return None
    return flags.text("master_addr", "127.0.0.1"), flags.text("master_port", "29500")


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


def _count(
    view: View, flags: _Flags, options: Mapping[str, Any], topology: Topology, said: list[Step]
) -> int | Outcome:
    """``determine_local_world_size``: a number, or what is counted."""
    if options.get("nproc") == "":
        return _tell.refused("error.torchrun.empty", tuple(said), Certainty.UNKNOWN)
    asked = flags.text("nproc", "1")
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
