"""What changed on which hosts, equal changes together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..sources.capsule import DRIFTS, Drift, drift
from .value import Cluster


class HostDrift(NamedTuple):
    """One change and the hosts that it happened on; its words are those of the first of them."""

    hosts: tuple[str, ...]
    drift: Drift


@dataclass(frozen=True)
class ClusterDrift:
    """What changed in a cluster."""

    rows: tuple[HostDrift, ...]
    """Most harmful first."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    """Hosts on which nothing changed."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.added or self.removed)

    def __str__(self) -> str:
        from ..views.clusters import cluster_drift_text

        return cluster_drift_text(self)

    def _repr_html_(self) -> str:
        from ..views.clusters import cluster_drift_html

        return cluster_drift_html(self)

    def to_frame(self) -> Any:
        """pandas: a row for every change on every host; hosts that came or went are rows too."""
        from ..views.frames import cluster_drift_frame

        return cluster_drift_frame(self)


def compare_clusters(old: Cluster, new: Cluster) -> ClusterDrift:
    """See `Cluster.compare`. Raises GpumapError where capsules are masked differently."""
    groups: dict[Hashable, tuple[list[str], Drift]] = {}
    same = []
    for host, capsule in old.capsules.items():
        if host not in new.capsules:
            continue
        later = new.capsules[host]
        found = () if capsule == later else drift(capsule, later)
        if not found:
            same.append(host)
        for row in found:
            key = (row.code, row.old, row.new, "" if row.gpu else row.message)
            groups.setdefault(key, ([], row))[0].append(host)
    order = list(DRIFTS)
    rows = sorted(
        (HostDrift(tuple(hosts), row) for hosts, row in groups.values()), key=lambda r: order.index(r.drift.code)
    )
    added = tuple(host for host in new.capsules if host not in old.capsules)
    removed = tuple(host for host in old.capsules if host not in new.capsules)
    return ClusterDrift(tuple(rows), added, removed, tuple(same))
