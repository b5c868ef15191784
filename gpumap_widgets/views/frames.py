"""Values as pandas DataFrames. The only module that imports pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd  # noqa: TID251 - the one place

from ..clusters.drifting import ClusterDrift
from ..clusters.prediction import ClusterPrediction
from ..clusters.value import Cluster
from ..mapping import WITNESSES, Comparison, Edge, Prediction
from ..planning.data_parallel import DataParallelPlan
from ..planning.ranges import Range
from ..planning.tasks import TaskPlan
from ..ranks.report import RanksReport
from ..scenario import CUDA_VISIBLE_DEVICES
from ..topology import Topology
from .matrix import Matrix
from .matrix_text import device_texts
from .plan_rows import way_name
from .rows import prediction_rows

if TYPE_CHECKING:
    from ..evidence.reading import EvidenceLine

_INTEGERS = (
    "rank",
    "local_rank",
    "ordinal",
    "nvml_index",
    "memory_mib",
    "sm_count",
    "minor_number",
    "seen_nvml_index",
    "samples",
    "pid",
    "world_size",
    "device_count",
    "node_rank",
)


def _frame(records: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """A frame with these columns even when it is empty; numbers that may be missing are nullable integers."""
    frame = pd.DataFrame.from_records(records, columns=columns)
    return frame.astype({name: "Int64" for name in columns if name in _INTEGERS})


def _capability(value: tuple[int, int] | None) -> str | None:
    return f"{value[0]}.{value[1]}" if value else None


def topology_frame(topology: Topology) -> pd.DataFrame:
    """A row a GPU: nvml_index, name, pci_bus_id, uuid, memory_mib, compute_capability, sm_count, minor_number,
    mig_instances (how many), problem.
    """
    columns = ["nvml_index", "name", "pci_bus_id", "uuid", "memory_mib", "compute_capability", "sm_count"]
    columns += ["minor_number", "mig_instances", "problem"]
    records = [
        {
            **{name: getattr(gpu, name) for name in columns},
            "compute_capability": _capability(gpu.compute_capability),
            "mig_instances": len(gpu.mig_instances),
        }
        for gpu in topology.gpus
    ]
    return _frame(records, columns)


def prediction_frame(prediction: Prediction) -> pd.DataFrame:
    """A row for every (process, ordinal) and, with no ordinal, for every hidden GPU."""
    columns = ["rank", "local_rank", "ordinal", "nvml_index", "name", "pci_bus_id", "uuid", "mig_uuid", "memory_mib"]
    columns += ["certainty", "entry", "reason", "worker", "node_rank", "uses"]
    records = [
        {
            "worker": row.worker,
            "node_rank": row.node_rank,
            "uses": row.uses,
            "rank": row.rank,
            "local_rank": row.local_rank,
            "ordinal": row.ordinal,
            "nvml_index": row.gpu.nvml_index,
            "name": row.gpu.name,
            "pci_bus_id": row.gpu.pci_bus_id,
            "uuid": row.gpu.uuid,
            "mig_uuid": row.mig.uuid if row.mig else None,
            "memory_mib": row.mig.memory_mib if row.mig else row.gpu.memory_mib,
            "certainty": str(row.certainty),
            "entry": row.token,
            "reason": row.reason,
        }
        for row in prediction_rows(prediction)
    ]
    return _frame(records, columns)


def matrix_frame(matrix: Matrix) -> pd.DataFrame:
    """A row for every line of the matrix and a column for every GPU by its nvidia-smi number: ``cuda:1``, with ``*`` for
    one that is used, or why it is not seen. Hosts and GPUs as in the first block where blocks have different GPUs.
    """
    records = []
    columns = ["hosts", "workers"]
    for block in matrix.blocks:
        heads = [str(k) if gpu.nvml_index is None else str(gpu.nvml_index) for k, gpu in enumerate(block.gpus)]
        columns += [head for head in heads if head not in columns]
        for line in block.lines:
            cells = [", ".join(device_texts(cell)) or cell.state for cell in line.cells]
            shown = [f"{text} *" if cell.used else text for text, cell in zip(cells, line.cells, strict=True)]
            records.append({"hosts": block.label, "workers": line.label, **dict(zip(heads, shown, strict=True))})
    return pd.DataFrame.from_records(records, columns=columns)


def cluster_frame(cluster: Cluster) -> pd.DataFrame:
    """A row for every GPU of every host: that of `topology_frame`, with the host in front."""
    frames = [topology_frame(machine).assign(host=host) for host, machine in cluster.items()]
    frame = pd.concat(frames, ignore_index=True) if frames else topology_frame(Topology()).assign(host="")
    return frame[["host", *(name for name in frame.columns if name != "host")]]


def cluster_prediction_frame(prediction: ClusterPrediction) -> pd.DataFrame:
    """`prediction_frame` for every host, with the host in front."""
    columns = [
        "host",
        "node_rank",
        "rank",
        "local_rank",
        "worker",
        "ordinal",
        "uses",
        "nvml_index",
        "name",
        "pci_bus_id",
    ]
    columns += ["uuid", "mig_uuid", "memory_mib", "certainty", "reason"]
    plans = [prediction_rows(one) for one in prediction.kinds]
    values: dict[str, list[Any]] = {name: [] for name in columns}
    for node in prediction.nodes:
        gpus = prediction.cluster[node.host].gpus
        rows = plans[node.kind]
        boards = [gpus[row.position] for row in rows]
        migs = [
            None if row.mig is None else gpu.mig_instances[row.gpu.mig_instances.index(row.mig)]
            for row, gpu in zip(rows, boards, strict=True)
        ]
        ranks = [None if row.rank is None else row.rank + node.shift for row in rows]
        values["host"] += [node.host] * len(rows)
        values["node_rank"] += [node.number] * len(rows)
        values["rank"] += ranks
        values["worker"] += [
            row.worker if rank is None or row.worker != f"rank {row.rank}" else f"rank {rank}"
            for row, rank in zip(rows, ranks, strict=True)
        ]
        for name in ("local_rank", "ordinal", "uses", "reason"):
            values[name] += [getattr(row, name) for row in rows]
        values["certainty"] += [str(row.certainty) for row in rows]
        for name in ("nvml_index", "name", "pci_bus_id", "uuid"):
            values[name] += [getattr(gpu, name) for gpu in boards]
        values["mig_uuid"] += [mig.uuid if mig else None for mig in migs]
        values["memory_mib"] += [(mig or gpu).memory_mib for mig, gpu in zip(migs, boards, strict=True)]
    frame = pd.DataFrame(values, columns=columns)
    return frame.astype({name: "Int64" for name in columns if name in _INTEGERS})


def cluster_drift_frame(found: ClusterDrift) -> pd.DataFrame:
    """A row for every change on every host; a host that came or went has the code ``host-added`` or ``host-removed``."""
    columns = ["host", "severity", "code", "old", "new", "message", "remedy"]
    records = [
        {"host": host, **{name: getattr(row.drift, name) for name in columns[1:]}}
        for row in found.rows
        for host in row.hosts
    ]
    records += [{"host": host, "severity": "warning", "code": "host-added"} for host in found.added]
    records += [{"host": host, "severity": "error", "code": "host-removed"} for host in found.removed]
    return _frame(records, columns)


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """A row for every ordinal: foretold beside seen, the verdict, and that of each witness."""
    columns = ["rank", "ordinal", "nvml_index", "name", "uuid", "seen_name", "seen_uuid", "seen_pci_bus_id"]
    columns += ["seen_nvml_index", "verdict", *reversed(WITNESSES), "reason", "simulated"]
    gpus = comparison.prediction.scenario.topology.gpus
    records = []
    for edge in comparison.edges:
        gpu = edge.predicted.gpu if edge.predicted else None
        seen = edge.observed
        records.append(
            {
                "rank": edge.rank,
                "ordinal": edge.ordinal,
                "nvml_index": gpu.nvml_index if gpu else None,
                "name": gpu.name if gpu else None,
                "uuid": gpu.uuid if gpu else None,
                "seen_name": seen.name if seen else None,
                "seen_uuid": seen.uuid if seen else None,
                "seen_pci_bus_id": seen.pci_bus_id if seen else None,
                "seen_nvml_index": None if edge.seen_position is None else gpus[edge.seen_position].nvml_index,
                "verdict": edge.verdict,
                **_by_witness(edge, comparison),
                "reason": str(edge.reason) if edge.reason else None,
                "simulated": comparison.simulated,
            }
        )
    return _frame(records, columns)


def _by_witness(edge: Edge, comparison: Comparison) -> dict[str, str]:
    own = edge.by or {comparison.observation.witness: edge}
    return {name: one.verdict for name, one in own.items()}


_HEAD = ("time", "what", "host", "pid", "user", "job", "rank", "local_rank", "world_size")
_SEEN = ("nvml_index", "uuid", "name", "pci_bus_id", "memory_mib")
_TOLD = ("told_by", "certainty", "verdict", "cuda_visible_devices", "cuda_device_order")
_VERSIONS = ("driver", "cuda", "torch")


def evidence_frame(lines: Iterable[EvidenceLine]) -> pd.DataFrame:
    """A row for every device of every line of evidence, and one without a device for a line that has none."""
    columns = [*_HEAD, "ordinal", "used", "used_by", *_SEEN, *_TOLD, *_VERSIONS, "simulated", "problem", "file", "line"]
    records = []
    for line in lines:
        data, uses = line.data, line.data["uses"]
        for device in data["devices"] or [{}]:
            ordinal = device.get("ordinal")
            records.append(
                {name: data[name] for name in (*_HEAD, *_TOLD, "simulated")}
                | {name: device.get(name) for name in _SEEN}
                | {name: data["versions"].get(name) for name in _VERSIONS}
                | {
                    "ordinal": ordinal,
                    "used": None if uses is None or ordinal is None else ordinal in uses["ordinals"],
                    "used_by": uses["by"] if uses else None,
                    "problem": "; ".join(data["problems"]) or None,
                    "file": line.file,
                    "line": line.number,
                }
            )
    frame = _frame(records, columns).astype({"used": "boolean"})
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True, format="ISO8601"))


def ranks_frame(report: RanksReport) -> pd.DataFrame:
    """A row for every process of a running job. ``attrs``: ``findings`` (rows of code, severity, message, remedy),
    ``silent`` (who never answered), ``simulated``.
    """
    columns = ["rank", "local_rank", "worker", "host", "pid", "ordinal", "by", "nvml_index", "name", "pci_bus_id"]
    columns += ["uuid", "mig_uuid", "memory_mib", "device_count", "cuda_visible_devices", "cuda_device_order"]
    columns += ["told_by", "reason", "simulated"]
    frame = _frame([{name: getattr(row, name) for name in columns} for row in report.rows], columns)
    names = ("code", "severity", "message", "remedy")
    frame.attrs["findings"] = [{name: getattr(found, name) for name in names} for found in report.findings]
    frame.attrs["silent"] = list(report.silent)
    frame.attrs["simulated"] = report.simulated
    return frame


def _ends(name: str, value: Range) -> dict[str, float]:
    return {f"{name}_low": value.low, f"{name}_high": value.high}


def plan_frame(plan: DataParallelPlan) -> pd.DataFrame:
    """A row for every way and GPU that takes part in it. Times in seconds, or in steps of the fastest GPU."""
    ranges = ["compute", "busy", "idle", "step", "exchange", "throughput", "gain"]
    columns = ["way", "kind", "nvml_index", "name", "uuid", "source", "samples"]
    columns += [f"{name}_{end}" for name in ranges for end in ("low", "high")] + ["problem"]
    records = [
        {
            "way": way_name(plan, option),
            "kind": option.kind,
            "nvml_index": part.worker.gpu.nvml_index,
            "name": part.worker.gpu.name,
            "uuid": part.worker.gpu.uuid,
            "source": part.worker.source,
            "samples": part.samples,
            **_ends("compute", part.compute),
            **_ends("busy", part.busy),
            **_ends("idle", part.idle),
            **_ends("step", option.step),
            **_ends("exchange", option.exchange),
            **_ends("throughput", option.throughput),
            **_ends("gain", option.gain),
            "problem": str(option.problem) if option.problem else None,
        }
        for option in plan.options
        for part in option.parts
    ]
    return _frame(records, columns)


def tasks_frame(plan: TaskPlan) -> pd.DataFrame:
    """A row for every copy of a task; where it gets no GPU, the reason stands alone."""
    columns = ["task", "copy", "nvml_index", "name", "uuid", "memory_mib", "work", "latency", "shares_with"]
    columns += ["visible_devices", "command", "certainty", "reason"]
    records = [
        {
            "task": placed.copy.task.name,
            "copy": placed.name,
            "nvml_index": placed.gpu.nvml_index if placed.gpu else None,
            "name": placed.gpu.name if placed.gpu else None,
            "uuid": placed.gpu.uuid if placed.gpu else None,
            "memory_mib": placed.copy.task.memory_mib,
            "work": placed.copy.task.work,
            "latency": placed.copy.task.latency,
            "shares_with": ", ".join(placed.shares_with),
            "visible_devices": placed.env.get(CUDA_VISIBLE_DEVICES),
            "command": placed.command,
            "certainty": str(placed.certainty),
            "reason": str(placed.reason),
        }
        for placed in plan.placed
    ]
    return _frame(records, columns)
