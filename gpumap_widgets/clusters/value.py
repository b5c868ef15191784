"""A cluster: a capsule a host. Frozen, and a mapping from hosts to machines."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import GpumapError, UnreadableTopology
from ..frozen import FrozenDict
from ..scenario import Layer
from ..sources.capsule import Capsule, is_capsule
from ..texts import say
from ..topology import Gpu, Topology

if TYPE_CHECKING:
    from .drifting import ClusterDrift
    from .prediction import ClusterPrediction

_LIMIT = 4 * 1024 * 1024
"""Most bytes read of a file; whoever reads the text has a limit of its own."""
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_NONE: Mapping[str, Any] = FrozenDict()


@dataclass(frozen=True)
class Cluster(Mapping[str, Topology]):
    """Host → machine, in the order of the node ranks.

    >>> cluster = Cluster.of({"node0": Topology.of("Tesla T4"), "node1": Topology.of("Tesla T4")})
    >>> cluster.resolve("torchrun --nnodes=2 --nproc-per-node=1 train.py")["node1"].processes[0].rank
    1
    """

    capsules: Mapping[str, Capsule] = field(default_factory=FrozenDict)
    """Host → what is known of it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "capsules", FrozenDict(self.capsules))

    def __getitem__(self, host: str) -> Topology:
        return self.capsules[host].topology

    def __iter__(self) -> Iterator[str]:
        return iter(self.capsules)

    def __len__(self) -> int:
        return len(self.capsules)

    def __hash__(self) -> int:
        return hash(self.capsules)

    @classmethod
    def of(cls, machines: Mapping[str, Topology | Capsule | str]) -> Cluster:
        """A cluster from machines by host: a Topology, a Capsule, or any text that describes one (`nvidia-smi`, the JSON
        of a capsule). The order is that of the mapping. Raises UnreadableTopology, naming the host.
        """
        return cls({host: _capsule(host, given) for host, given in machines.items()})

    @classmethod
    def from_capsules(cls, capsules: Iterable[Capsule]) -> Cluster:
        """A cluster from capsules that know their hosts, in natural order of the names (node2 before node10).

        Raises GpumapError for one without a host, and for a host that comes twice.
        """
        found: dict[str, Capsule] = {}
        for capsule in capsules:
            if capsule.host is None:
                raise GpumapError(say("cluster.no-host"), remedy=say("cluster.no-host-remedy"))
            _add(found, capsule.host, capsule)
        return cls(dict(sorted(found.items(), key=lambda pair: _natural(pair[0]))))

    @classmethod
    def from_files(cls, *patterns: str) -> Cluster:
        """A cluster from files: ``"capsules/*.json"``, or texts of any tool. The host is the capsule's, else the file's
        name without its ending; the order is natural (node2 before node10).

        Raises UnreadableTopology naming the file, GpumapError where no file fits or a host comes twice.
        """
        found_paths = {path for pattern in patterns for path in glob(pattern, recursive=True)}  # noqa: PTH207 - absolute ones too
        paths = sorted(found_paths, key=_natural)
        if not paths:
            raise GpumapError(say("cluster.no-files", patterns=", ".join(patterns)))
        found: dict[str, Capsule] = {}
        for path in paths:
            capsule = _capsule(path, _text_of(Path(path)), keep_host=True)
            _add(found, capsule.host or Path(path).stem, capsule)
        return cls(dict(sorted(found.items(), key=lambda pair: _natural(pair[0]))))

    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """The hosts, those with equal machines together: the same models at the same addresses under the same numbers
        and driver. Only UUIDs, which differ between any two machines, and notes do not count.
        """
        groups: dict[Hashable, list[str]] = {}
        for host, machine in self.items():
            groups.setdefault(shape(machine), []).append(host)
        return tuple(map(tuple, groups.values()))

    def resolve(
        self,
        command: str | Iterable[Layer] = (),
        env: Mapping[str, str | None] = _NONE,
        assume: Mapping[str, Any] = _NONE,
    ) -> ClusterPrediction:
        """What a command, started on every host, makes of the cluster: a prediction a host.

        ``command``: as it is typed, or layers. The hosts are nodes 0, 1, … in their order: a launcher for several nodes
        (``--nnodes``, ``--num_machines``) gets its node rank on each, and its ranks go on from host to host. Without one
        every host runs a job of its own. ``env`` and ``assume`` as in `Scenario.from_command`, the same on every host.
        Equal machines are resolved once; a host's own prediction is made when it is asked for.
        """
        from .prediction import resolve_cluster

        return resolve_cluster(self, command, env, assume)

    def compare(self, newer: Cluster) -> ClusterDrift:
        """What changed from this cluster to a later state of it: hosts that came and went, and per host what `drift`
        finds, equal changes together.
        """
        from .drifting import compare_clusters

        return compare_clusters(self, newer)

    def __str__(self) -> str:
        from ..views.clusters import cluster_text

        return cluster_text(self)

    def _repr_html_(self) -> str:
        from ..views.clusters import cluster_html

        return cluster_html(self)

    def to_frame(self) -> Any:
        """pandas: a row for every GPU of every host."""
        from ..views.frames import cluster_frame

        return cluster_frame(self)


def shape(machine: Topology) -> Hashable:
    """What equal machines have in common: all of a machine but its UUIDs and where it is known from."""

    def make() -> Hashable:
        order = machine.default_order, machine.default_order_measured
        boards = tuple(map(_board, machine.gpus))
        return boards, machine.driver_version, machine.platform, order, machine.simulated

    return machine.memo("cluster shape", make)


def _board(gpu: Gpu) -> Hashable:
    mig = tuple(replace(one, uuid=None if one.uuid is None else "") for one in gpu.mig_instances)
    return replace(gpu, uuid=None if gpu.uuid is None else "", mig_instances=mig)


def _capsule(name: str, given: Topology | Capsule | str, *, keep_host: bool = False) -> Capsule:
    if isinstance(given, Capsule):
        return given
    if isinstance(given, Topology):
        return Capsule(given, host=name)
    try:
        if is_capsule(given):
            return Capsule.from_json(given)
        return Capsule(Topology.from_text(given), host=None if keep_host else name)
    except UnreadableTopology as exc:
        raise UnreadableTopology(say("cluster.in", name=name, error=exc.message), remedy=exc.remedy) from exc


def _add(found: dict[str, Capsule], host: str, capsule: Capsule) -> None:
    if host in found:
        raise GpumapError(say("cluster.twice", host=host), remedy=say("cluster.twice-remedy"))
    found[host] = capsule


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT)
    except OSError as exc:
        raise GpumapError(say("cluster.in", name=str(path), error=exc.strerror or exc)) from exc
    encoding = next((e for mark, e in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors="replace")


def _natural(text: str) -> list[tuple[int, int, str]]:
    """A key under which node2 comes before node10."""
    parts = re.split(r"(\d{1,18})", text)
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]
