"""Inspections as plain data for JSON. Sentences in English; what is not known is None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..mapping import Finding, Message, ObservedDevice
from ..sources.nvml import GpuProcess
from ..topology import Topology
from .kernel import KernelInspection
from .naming import full_uuid, place_of
from .process import MachineInspection, ProcessInspection


def kernel_dict(one: KernelInspection) -> dict[str, Any]:
    """See `KernelInspection.to_dict`."""
    names = ("pid", "when", "state", "used", "change_counts", "simulated")
    return {
        **{name: getattr(one, name) for name in names},
        "said": one.said.text(),
        "started_by": list(one.started_by),
        "able": list(one.able),
        "at_start": _env(one.at_start),
        "now": dict(one.now),
        "read": _env(one.read),
        "why_used": one.why_used.text(),
        "used_certainty": str(one.used_certainty),
        "devices": [device_dict(device, one.machine) for device in one.devices],
        "first": one.first.text(),
        "first_certainty": str(one.first_certainty),
        "nvml_indices": list(one.nvml_indices),
        "advice": one.advice.text(),
        "notes": _texts(one.notes),
    }


def process_dict(one: ProcessInspection) -> dict[str, Any]:
    """See `ProcessInspection.to_dict`."""
    system = one.system
    return {
        "pid": one.pid,
        "when": one.when,
        "command": system.command,
        "user": system.user,
        "job": one.job,
        "rank": one.rank,
        "said": one.said.text(),
        "certainty": str(one.certainty),
        "nvml_indices": list(one.nvml_indices),
        "held": [_held(row, one.machine) for row in one.held],
        "env_at_start": _env(system.environ),
        "container": list(system.container) if system.container else None,
        "device_files": None if system.minors is None else list(system.minors),
        "opened_device_files": None if system.opened is None else list(system.opened),
        "unseen": _texts(one.unseen),
        "findings": [finding_dict(finding) for finding in one.findings],
        "simulated": one.simulated,
    }


def machine_dict(one: MachineInspection) -> dict[str, Any]:
    """See `MachineInspection.to_dict`."""
    return {
        "when": one.when,
        "processes": [process_dict(process) for process in one.processes],
        "findings": [finding_dict(finding) for finding in one.findings],
        "notes": list(one.notes),
        "simulated": one.machine.simulated,
    }


def finding_dict(finding: Finding) -> dict[str, str | None]:
    """A finding with its sentences."""
    names = ("code", "severity", "message", "remedy", "source")
    return {name: getattr(finding, name) for name in names}


def device_dict(device: ObservedDevice, machine: Topology | None) -> dict[str, Any]:
    """A device that a driver showed, with nvidia-smi's number where the machine is known."""
    place = place_of(device, machine)
    index = machine.gpus[place].nvml_index if machine and place is not None else None
    capability = list(device.compute_capability) if device.compute_capability else None
    told = {"uuid": full_uuid(device, machine), "compute_capability": capability, "nvml_index": index}
    return {**device.__dict__, **told}


def _held(row: GpuProcess, machine: Topology | None) -> dict[str, Any]:
    gpu = machine.gpus[row.position] if machine else None
    told = {"nvml_index": gpu.nvml_index, "name": gpu.name} if gpu else {}
    return {**told, "uuid": row.gpu_uuid, "mig_uuid": row.mig_uuid, "memory_mib": row.memory_mib, "kind": row.kind}


def _env(env: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if env is None else dict(env)


def _texts(messages: Iterable[Message]) -> list[str]:
    return [one.text() for one in messages]
