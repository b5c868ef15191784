"""What a command does on every host of a cluster. Equal machines are resolved once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ..certainty import Certainty, least
from ..commands import read_command
from ..identity import bare_uuid
from ..layers import LAYERS
from ..mapping import Finding, Prediction, Process
from ..resolver import resolve
from ..scenario import Layer, Scenario
from ..topology import Topology
from .value import Cluster, shape

_NAMES = re.compile(r"(?:gpu-|mig-)[0-9a-z/-]*|(?<![0-9a-z-])[0-9a-f]{1,8}-[0-9a-f-]*", re.IGNORECASE)
"""What a layer could name a board by: UUIDs and beginnings of them, with and without their prefix."""
_MOST_NAMES = 256
_RANK_OF = {"nnodes": "node_rank", "num_machines": "machine_rank"}
"""Option of a launcher that says how many nodes there are → the one that says which of them this is."""
_SINGLE = (None, False, 1, "1", "1:1", "")


class Node(NamedTuple):
    """One host in a prediction of the cluster."""

    host: str
    number: int
    """Its node rank."""
    kind: int
    """Which of `ClusterPrediction.kinds` it is like."""
    shift: int
    """What its ranks are more than those of that kind's prediction."""


@dataclass(frozen=True)
class ClusterPrediction(Mapping[str, Prediction]):
    """Host → prediction. What equal hosts have in common is in ``kinds``; the rest is made when it is asked for."""

    cluster: Cluster
    layers: tuple[Layer, ...]
    nodes: tuple[Node, ...]
    kinds: tuple[Prediction, ...]
    """The prediction of the first host of each kind."""
    spanning: bool
    """Whether one job spans the hosts; else each runs a job of its own."""
    _made: dict[str, Prediction] = field(default_factory=dict, init=False, repr=False, compare=False)
    _counts: tuple[int, ...] = ()

    def __getitem__(self, host: str) -> Prediction:
        if host not in self._made:
            node = self._by_host[host]
            self._made[host] = _on(self.cluster[host], self.layers, node.number, self._counts)
        return self._made[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cluster)

    def __len__(self) -> int:
        return len(self.cluster)

    @cached_property
    def _by_host(self) -> dict[str, Node]:
        return {node.host: node for node in self.nodes}

    @property
    def certainty(self) -> Certainty:
        """That of the least certain host."""
        return least(one.certainty for one in self.kinds)

    @property
    def errors(self) -> Mapping[str, str]:
        """Host → why nothing starts there; only those where nothing does."""
        told = {node.host: self.kinds[node.kind].error for node in self.nodes}
        return {host: error for host, error in told.items() if error is not None}

    @property
    def count(self) -> int:
        """How many workers there are."""
        return sum(len(self.kinds[node.kind].processes) for node in self.nodes)

    @cached_property
    def findings(self) -> tuple[tuple[tuple[str, ...], Finding], ...]:
        """What is worth saying, each with the hosts that it holds for."""
        hosts: dict[int, list[str]] = {}
        for node in self.nodes:
            hosts.setdefault(node.kind, []).append(node.host)
        return tuple((tuple(hosts[kind]), found) for kind, one in enumerate(self.kinds) for found in one.findings)

    def nodes_of(self, kind: int) -> list[Node]:
        """The hosts of a kind."""
        return [node for node in self.nodes if node.kind == kind]

    def __str__(self) -> str:
        from ..views.clusters import cluster_prediction_text

        return cluster_prediction_text(self)

    def _repr_html_(self) -> str:
        from ..views.clusters import cluster_prediction_html

        return cluster_prediction_html(self)

    def matrix(self) -> Any:
        """Ranks × GPUs, a block for each kind of host, as a `views.matrix.Matrix`."""
        from ..views.clusters import cluster_matrix

        return cluster_matrix(self)

    def to_frame(self) -> Any:
        """pandas: a row for every device of every rank and, with no ordinal, for every GPU hidden from it."""
        from ..views.frames import cluster_prediction_frame

        return cluster_prediction_frame(self)


def resolve_cluster(
    cluster: Cluster, command: str | Iterable[Layer], env: Mapping[str, str | None], assume: Mapping[str, Any]
) -> ClusterPrediction:
    """See `Cluster.resolve`."""
    shell = Scenario.from_env(Topology(), env).layers
    inner = read_command(command, env, assume) if isinstance(command, str) else tuple(command)
    layers = (*shell, *inner)
    hosts = list(cluster)
    spanning = any(_spans(layer) for layer in layers)
    groups: dict[Hashable, list[int]] = {}
    names = tuple(dict.fromkeys(name for layer in layers for name in _NAMES.findall(str(layer.options))))
    for number, host in enumerate(hosts):
        groups.setdefault((shape(cluster[host]), _named_boards(cluster[host], names)), []).append(number)
    members = list(groups.values())
    firsts = [_on(cluster[hosts[group[0]]], layers, group[0]) for group in members]
    counts: tuple[int, ...] = ()
    if spanning and len({len(one.processes) for one in firsts}) > 1:  # a node's first rank is what stands before it
        size = {number: len(one.processes) for group, one in zip(members, firsts, strict=True) for number in group}
        counts = tuple(size[number] for number in range(len(hosts)))
        firsts = [_on(cluster[hosts[group[0]]], layers, group[0], counts) for group in members]
    kinds: list[Prediction] = []
    nodes: list[Node] = []
    for group, first in zip(members, firsts, strict=True):
        last = _on(cluster[hosts[group[-1]]], layers, group[-1], counts)
        shifts = _shifts(group, first, last, counts) if spanning else dict.fromkeys(group, 0)
        if shifts is None:  # its ranks follow a rule of their own: every host is a kind
            for number in group:
                nodes.append(Node(hosts[number], number, len(kinds), 0))
                kinds.append(_on(cluster[hosts[number]], layers, number, counts))
            continue
        nodes += [Node(hosts[number], number, len(kinds), shifts[number]) for number in group]
        kinds.append(first)
    nodes.sort(key=lambda node: node.number)
    return ClusterPrediction(cluster, layers, tuple(nodes), tuple(kinds), spanning, _counts=counts)


def _named_boards(machine: Topology, names: tuple[str, ...]) -> Hashable:
    """Which boards of a machine the names in the layers could mean: machines that differ in that are not alike."""
    if not names:
        return None
    uuids = [uuid or "" for gpu in machine.gpus for uuid in (gpu.uuid, *(one.uuid for one in gpu.mig_instances))]
    if len(names) > _MOST_NAMES:
        return tuple(uuids)
    return tuple(_fits(name, place, uuid) for name in names for place, uuid in enumerate(uuids) if _akin(name, uuid))


def _akin(name: str, uuid: str) -> bool:
    """Whether one is the beginning of the other, prefix and case aside."""
    name, uuid = bare_uuid(name.upper()), bare_uuid(uuid)
    return uuid.startswith(name) or name.startswith(uuid or "-")


def _fits(name: str, place: int, uuid: str) -> Hashable:
    return name, place, uuid.startswith(name), len(name) > len(uuid)


def _shifts(group: list[int], first: Prediction, last: Prediction, counts: tuple[int, ...]) -> dict[int, int] | None:
    """What the ranks of each host are more than those of the first; None where the last host's do not fit that."""
    size = len(first.processes)
    before = [0]
    for count in counts:
        before.append(before[-1] + count)
    shifts = {k: before[k] - before[group[0]] if counts else (k - group[0]) * size for k in group}
    mine = [None if p.rank is None else p.rank + shifts[group[-1]] for p in first.processes]
    return shifts if mine == [p.rank for p in last.processes] and first.error == last.error else None


def _on(machine: Topology, layers: tuple[Layer, ...], number: int, counts: tuple[int, ...] = ()) -> Prediction:
    """The prediction of one host, of its own workers only."""
    scenario = Scenario(machine, tuple(_placed(layer, number, counts) for layer in layers))
    prediction = resolve(scenario)
    own = tuple(one for one in prediction.processes if _is_here(one, number))
    if len(own) == len(prediction.processes) or not own:
        return prediction
    return replace(prediction, processes=own, certainty=least(one.certainty for one in own))


def _is_here(process: Process, number: int) -> bool:
    return process.node_rank is None or process.node_rank == number


def _spans(layer: Layer) -> bool:
    """Whether a layer starts one job over several hosts."""
    options = layer.options
    return layer.enabled and any(options.get(name) not in _SINGLE for name in _RANK_OF)


def _placed(layer: Layer, number: int, counts: tuple[int, ...]) -> Layer:
    """A launcher as it is started on one of the hosts."""
    names = [rank for nodes, rank in _RANK_OF.items() if layer.options.get(nodes) not in _SINGLE]
    if not layer.enabled or not names:
        return layer
    options = {**layer.options, names[0]: number}
    for table in ("expand", "unknown"):  # $NODE_RANK: it is known here
        if names[0] in options.get(table, {}):
            options[table] = {k: v for k, v in options[table].items() if k != names[0]}
    if counts:
        options |= {"first_rank": sum(counts[:number]), "world_size": sum(counts)}
    made = Layer(layer.kind, options, layer.enabled)
    row = LAYERS.get(layer.kind)
    fits = row is None or row.problem(made.options) is None
    return made if fits else Layer(layer.kind, {**options, names[0]: str(number)}, layer.enabled)
