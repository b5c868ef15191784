"""The processes on the GPUs of a machine, and what cannot be seen of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml  # noqa: TID251 - the one place

from ...texts import say
from ...topology import Gpu, Topology
from .. import linux
from .asking import NOT_A_NUMBER, Device, call, constant, mib, reachable, reason_of, said, session

_BUSY_MIB = 100  # more memory in use than this is somebody's, not the driver's own


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU, or on one MIG device of it."""

    position: int
    """Of the GPU in the machine's ``gpus``."""
    gpu_uuid: str | None
    pid: int
    """As the host numbers it, also inside a container (NVIDIA/nvidia-docker issue 1483)."""
    memory_mib: int | None = None
    """None where it is not told: on Windows, or to who may not know."""
    kind: str = "C"
    """As nvidia-smi has it: C computes, G draws, C+G does both."""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    mig_uuid: str | None = None


@dataclass(frozen=True)
class ProcessList:
    """The processes on a machine's GPUs, and what cannot be seen of them."""

    processes: tuple[GpuProcess, ...]
    notes: tuple[str, ...] = ()


def processes(machine: Topology, *, root: Path = linux.ROOT) -> ProcessList:
    """What runs on those GPUs of ``machine`` that are on this one. Never raises; ``notes`` say what is hidden."""
    rows: list[GpuProcess] = []
    notes: list[str] = []
    try:
        with session():
            for position, place in reachable(machine, notes).items():
                rows += _running_on(position, machine.gpus[position], Device(place.handle), notes)
    except pynvml.NVMLError as exc:
        notes.append(reason_of(exc, root))
    for key, pids in (
        ("nvml.memory-hidden", [row.pid for row in rows if row.memory_mib is None]),
        ("nvml.foreign-pids", [row.pid for row in rows if not linux.has_process(row.pid, root)]),
    ):
        if pids:
            notes.append(say(key, pids=", ".join(map(str, sorted(set(pids))))))
    return ProcessList(tuple(rows), tuple(notes))


def _running_on(position: int, gpu: Gpu, device: Device, notes: list[str]) -> list[GpuProcess]:
    """A MIG device tells of its own processes; the whole GPU only to those with the right to know."""
    found: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    refused: set[str] = set()
    for handle in (*(mig for _, mig in device.migs()), device):
        for kind, letter in (("Compute", "C"), ("Graphics", "G")):
            for info in _infos(kind, handle, refused):
                ids = [getattr(info, name, None) for name in ("gpuInstanceId", "computeInstanceId")]
                gi, ci = (None if i in NOT_A_NUMBER else int(i) for i in ids)
                if gi is None and handle is not device:
                    gi, ci = (handle.number(f"nvmlDeviceGet{what}InstanceId") for what in ("Gpu", "Compute"))
                key = (info.pid, gi, ci)
                if gi is None:  # the whole GPU's view of a process that is known already
                    key = next((k for k in found if k[0] == info.pid), key)
                row = GpuProcess(position, gpu.uuid, info.pid, mib(info.usedGpuMemory), letter, gi, ci, None)
                old = found.get(key, row)
                kinds = old.kind if letter in old.kind else "C+G"
                memory = row.memory_mib if old.memory_mib is None else old.memory_mib
                found[key] = replace(old, kind=kinds, memory_mib=memory)
    uuids = {(mig.gpu_instance_id, mig.compute_instance_id): mig.uuid for mig in gpu.mig_instances}
    called, busy = linux.gpu_called(gpu), _busy(device)
    notes.extend(say("nvml.processes-refused", gpu=called, error=error) for error in sorted(refused))
    if not found and busy > _BUSY_MIB:
        notes.append(say("nvml.processes-hidden", gpu=called, mib=busy))
    uuids.pop((None, None), None)
    return [replace(row, mig_uuid=uuids.get((row.gpu_instance_id, row.compute_instance_id))) for row in found.values()]


def _infos(kind: str, device: Device, refused: set[str]) -> Sequence[Any]:
    """The processes of one kind; the library of a driver before 510 has the second version of the call only."""
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    try:
        try:
            return call(name, device.handle) or ()
        except pynvml.NVMLError as exc:
            if exc.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
            return call(f"{name}_v2", device.handle) or ()
    except pynvml.NVMLError as exc:
        if kind == "Compute" or exc.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
            refused.add(said(exc))
        return ()


def _busy(device: Device) -> int:
    """MiB in use. The older version of the call counts what the driver keeps for itself, so it says nothing here."""
    memory = device.ask("nvmlDeviceGetMemoryInfo", constant("nvmlMemory_v2"))
    return (mib(memory.used) or 0) if hasattr(memory, "reserved") else 0
