"""Clusters as text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from ..clusters.drifting import ClusterDrift
from ..clusters.prediction import ClusterPrediction, Node
from ..clusters.value import Cluster
from ..job_findings import listed, named, worker_name
from ..mapping import Process
from ..texts import say
from ..topology import Topology
from .html import MOST_ROWS, certainty_badge, page, plain_table, tag
from .matrix import Block, Matrix, block, empty_block
from .matrix_text import matrix_text
from .plain import grid, printable
from .workers import matrix_html

_MOST_HOSTS = 6


def cluster_text(cluster: Cluster) -> str:
    """The hosts, equal ones in one row."""
    head = [say(f"column.{name}") for name in _COLUMNS]
    return printable([_title(cluster), grid(head, _kinds(cluster))])


def cluster_html(cluster: Cluster) -> str:
    """The same as a table."""
    return page(
        tag("p", escape(_title(cluster)), "gpumap-note")
        + plain_table(say("cluster.caption"), _COLUMNS, _kinds(cluster))
    )


_COLUMNS = ("hosts", "gpus", "driver")


def _title(cluster: Cluster) -> str:
    return say("cluster.title", hosts=len(cluster), gpus=sum(len(machine.gpus) for machine in cluster.values()))


def _kinds(cluster: Cluster) -> list[list[str]]:
    rows = []
    for hosts in cluster.kinds():
        machine = cluster[hosts[0]]
        count = f"{len(hosts)}: " if len(hosts) > 1 else ""
        rows.append([count + listed(hosts, _MOST_HOSTS), models(machine), machine.driver_version or ""])
    return rows


def models(machine: Topology) -> str:
    """``8 × A100-SXM4-40GB``; several models one after the other."""
    counts = Counter(gpu.short_name for gpu in machine.gpus)
    return ", ".join(f"{n} × {name}" for name, n in counts.items()) or say("cluster.gpus")


# --- predictions ------------------------------------------------------------------------------------------------------


def cluster_matrix(prediction: ClusterPrediction) -> Matrix:
    """Ranks × GPUs: a block for each kind of host, its rows with the ranks of all of them."""
    blocks = []
    for kind, one in enumerate(prediction.kinds):
        nodes = prediction.nodes_of(kind)
        machine = one.scenario.topology
        hosts = tuple(node.host for node in nodes)
        if one.error is not None:
            bare = empty_block(machine)
            blocks.append(Block(hosts, bare.gpus, bare.positions, (), one.error))
            continue
        plain = block(machine, [(str(j), process) for j, process in enumerate(one.processes)])
        lines = []
        for line in plain.lines:
            who = [worker_on(node, j, one.processes[j]) for node in nodes for j in map(int, line.workers)]
            lines.append(type(line)(tuple(dict.fromkeys(who)), line.cells, line.missing))
        members = tuple(
            (node.host, tuple(worker_on(node, j, process) for j, process in enumerate(one.processes))) for node in nodes
        )
        blocks.append(Block(hosts, plain.gpus, plain.positions, tuple(lines), None, members))
    return Matrix(tuple(blocks), prediction.certainty)


def worker_on(node: Node, place: int, process: Process) -> str:
    """What a worker is called on one of the hosts."""
    if process.worker or process.rank is None:
        return worker_name(process, place)
    return f"rank {process.rank + node.shift}"


def cluster_prediction_text(prediction: ClusterPrediction) -> str:
    """How many workers where, the matrix, and what is worth saying."""
    lines = [*_summary(prediction), matrix_text(cluster_matrix(prediction))]
    lines += [" ".join(filter(None, (head, text, fix))) for head, text, fix in _findings(prediction)]
    return printable(lines)


def cluster_prediction_html(prediction: ClusterPrediction) -> str:
    """The same as a rich display."""
    head = tag("strong", escape(" ".join(_summary(prediction)))) + " " + certainty_badge(prediction.certainty)
    parts = [tag("div", head, "gpumap-sentence"), matrix_html(cluster_matrix(prediction))]
    items = [
        tag(
            "li",
            f"{tag('strong', escape(said))} {escape(text)}" + (tag("div", escape(fix), "gpumap-remedy") if fix else ""),
            "gpumap-finding",
        )
        for said, text, fix in _findings(prediction)
    ]
    return page("".join(parts) + (tag("ul", "".join(items), "gpumap-findings") if items else ""))


def _summary(prediction: ClusterPrediction) -> list[str]:
    said = [say("cluster.workers", workers=prediction.count, hosts=len(prediction))]
    return said if prediction.spanning or len(prediction) < 2 else [*said, say("cluster.own")]


def _findings(prediction: ClusterPrediction) -> list[tuple[str, str, str | None]]:
    rows = []
    for hosts, found in prediction.findings[:MOST_ROWS]:
        text = found.message
        if len(hosts) < len(prediction):
            text = say("cluster.finding", message=text, hosts=listed(hosts, _MOST_HOSTS))
        rows.append((say(f"severity.{found.severity}"), text, found.remedy))
    return rows


# --- drift ------------------------------------------------------------------------------------------------------------


def cluster_drift_text(found: ClusterDrift) -> str:
    """A line a change, with the hosts that it happened on."""
    lines = [
        " ".join(
            filter(
                None, (say(f"severity.{row.drift.severity}"), _on_hosts(row.hosts, row.drift.message), row.drift.remedy)
            )
        )
        for row in found.rows
    ]
    return printable([*lines, *_came_and_went(found)])


def cluster_drift_html(found: ClusterDrift) -> str:
    """The same as a table."""
    rows = [[listed(row.hosts, _MOST_HOSTS), row.drift.message, row.drift.remedy or ""] for row in found.rows]
    table = plain_table(say("cluster.caption-drift"), ("hosts", "change", "fix"), rows) if rows else ""
    return page(table + "".join(tag("p", escape(line), "gpumap-note") for line in _came_and_went(found)))


def _on_hosts(hosts: Sequence[str], message: str) -> str:
    return say("cluster.drift", hosts=listed(hosts, _MOST_HOSTS), message=message)


def _came_and_went(found: ClusterDrift) -> list[str]:
    lines = [
        say(f"cluster.{key}", hosts=named(hosts) if len(hosts) < 2 else listed(hosts, _MOST_HOSTS))
        for key, hosts in (("added", found.added), ("removed", found.removed))
        if hosts
    ]
    return [*lines, say("cluster.same", n=len(found.same))]
