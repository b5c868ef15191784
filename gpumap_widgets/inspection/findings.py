"""What is worth saying about processes on GPUs: a table of rules, as in `gpumap_widgets.diagnosis`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..explanation import gpu_name
from ..frozen import FrozenDict
from ..mapping import Finding, message
from ..scenario import CUDA_VISIBLE_DEVICES
from .process import ProcessInspection

Found = Sequence[ProcessInspection]
Fields = Mapping[str, Any]
_MOST_NAMED = 8


class ProcessRule(NamedTuple):
    """One row: what it sees in the processes, one set of fields a finding."""

    code: str
    severity: str
    when: Callable[[Found], Iterator[Fields]]
    source: str


def _shares(found: Found) -> Iterator[tuple[str, list[ProcessInspection]]]:
    """GPUs, or MIG devices, that more than one process holds, with those processes."""
    holders: dict[tuple[int, str | None], dict[int, ProcessInspection]] = {}
    for one in found:
        for row in one.held:
            holders.setdefault((row.position, row.mig_uuid), {})[one.pid] = one
    for (position, mig_uuid), processes in sorted(holders.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        machine = next(iter(processes.values())).machine
        if len(processes) > 1 and machine is not None:
            gpu = machine.gpus[position]
            mig = next((m for m in gpu.mig_instances if mig_uuid and m.uuid == mig_uuid), None)
            yield gpu_name(gpu, mig), list(processes.values())


def _ranks_share(found: Found) -> Iterator[Fields]:
    for gpu, processes in _shares(found):
        by_job: dict[str, dict[int, int]] = {}
        for one in processes:
            if one.job is not None and one.rank is not None:
                by_job.setdefault(one.job, {})[one.rank] = one.pid
        for job, ranks in by_job.items():
            if len(ranks) > 1:
                yield FrozenDict({"gpu": gpu, "job": job, "ranks": _listed(ranks), "pids": _listed(ranks.values())})


def _jobs_share(found: Found) -> Iterator[Fields]:
    for gpu, processes in _shares(found):
        jobs = _jobs(processes)
        if len(jobs) > 1:
            pids = [pid for members in jobs for pid in members]
            yield FrozenDict({"gpu": gpu, "count": len(jobs), "pids": _listed(pids)})


def _jobs(processes: Sequence[ProcessInspection]) -> list[list[int]]:
    """The processes by job: what names a job, else what a shell started together, else who started whom."""
    groups: list[tuple[set[object], list[int]]] = []
    for one in processes:
        system = one.system
        keys: set[object] = {("pid", one.pid), ("pid", system.starter)}
        keys |= {("group", system.group)} if system.group is not None else set()
        if one.job is not None:  # two named jobs are two, whoever started them
            keys = {("job", one.job)}
        keys.discard(("pid", None))
        joined = [group for group in groups if group[0] & keys]
        groups = [group for group in groups if not group[0] & keys]
        members = [pid for _, pids in joined for pid in pids]
        groups.append((keys.union(*(known for known, _ in joined)), [*members, one.pid]))
    return [pids for _, pids in groups]


def _elsewhere(found: Found) -> Iterator[Fields]:
    for one in found:
        process = one.prediction.processes[0] if one.prediction and one.prediction.processes else None
        if process is None or one.machine is None:
            continue
        held = [one.machine.gpus[place] for place in sorted({row.position for row in one.held})]
        shown = {device.gpu for device in process.devices}
        outside = [gpu_name(gpu) for gpu in held if gpu not in shown]
        if outside:
            gpus = ", ".join(outside)
            value = process.env.get(CUDA_VISIBLE_DEVICES)
            was = message("drift.unset") if value is None else message("drift.value", value=value[:60])
            yield FrozenDict({"pid": one.pid, "gpus": gpus, "value": was})


def _listed(values: Any) -> str:
    numbers = sorted(values)
    return ", ".join(map(str, numbers[:_MOST_NAMED])) + (" …" if len(numbers) > _MOST_NAMED else "")


RULES: tuple[ProcessRule, ...] = (
    ProcessRule("ranks-share-gpu", "error", _ranks_share, "NVML, nvmlDeviceGetComputeRunningProcesses; NCCL, init.cc, duplicate GPU"),
    ProcessRule("jobs-share-gpu", "warning", _jobs_share, "NVML, nvmlDeviceGetComputeRunningProcesses"),
    ProcessRule("holds-another-gpu", "warning", _elsewhere, "NVML against /proc/PID/environ"),
)  # fmt: skip
"""Most harmful first. The sentences are ``inspect.found.<code>`` and ``inspect.fix.<code>`` in `texts`."""


def findings_of(found: Found) -> tuple[Finding, ...]:
    """What is worth saying about these processes, most harmful first."""
    return tuple(
        Finding(
            rule.code,
            rule.severity,
            message(f"inspect.found.{rule.code}", **fields),
            message(f"inspect.fix.{rule.code}", **fields),
            rule.source,
        )
        for rule in RULES
        for fields in rule.when(found)
    )
