"""The GPUs of this machine as rows: what NVML cannot tell is None, what cannot be used has its reason."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pynvml  # noqa: TID251 - the one place

from ...errors import NoDriver
from ...identity import PciBusId
from ...strength import CORES_PER_SM
from ...texts import say
from ...topology import Gpu, MigInstance, Platform, Topology
from .. import linux
from ..remembered import recall
from .asking import ABSENT, GONE, Device, bus_id, call, is_simulated, mib, reason_of, said, session

_PROBLEMS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "nvml.lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "nvml.reset",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "nvml.operating-system",
}


def this_machine(*, root: Path = linux.ROOT) -> Topology:
    """The GPUs of this machine in NVML order; each that cannot be used is there with its reason.

    Where NVML does not start, what Linux lists (below ``root``), with a note. Raises NoDriver where that is nothing
    either, saying why NVML does not start and what to do. May be called from any thread: NVML counts who uses it.
    """
    try:
        with session():
            return recall(_sweep(root))
    except pynvml.NVMLError as exc:
        reason = reason_of(exc, root)
        machine = linux.linux_machine(reason, root)
        if machine is None:
            raise NoDriver(reason, remedy=say("nvml.remedy")) from exc
        return replace(machine, platform=_platform(), simulated=is_simulated())


def _sweep(root: Path) -> Topology:
    simulated = is_simulated()
    tree = None if simulated else root  # what is invented has no place in the kernel's lists
    notes: list[str] = []
    gpus = linux.distinct([_gpu(index, tree, notes) for index in range(call("nvmlDeviceGetCount"))], notes)
    if not gpus:
        notes.append(say("nvml.none"))
    driver = None
    with suppress(pynvml.NVMLError):
        driver = call("nvmlSystemGetDriverVersion")
    return Topology(
        gpus,
        driver_version=driver,
        platform=_platform(),
        source=say("source.simulated" if simulated else "source.nvml"),
        simulated=simulated,
        notes=(*notes, *(_not_listed(gpus, tree) if tree else ())),
    )


def _platform() -> Platform:
    if platform.system() == "Windows":
        return "windows"
    return "wsl" if "microsoft" in platform.release().lower() or Path("/usr/lib/wsl/lib").exists() else "linux"


def _not_listed(gpus: Sequence[Gpu], root: Path) -> Iterator[str]:
    """A note on GPUs that only Linux lists; a GPU without an address could be any of them."""
    known = {gpu.pci for gpu in gpus}
    shown = [
        say("source.not-listed-one", bus=gpu.pci.short, why=said(gpu.problem)) if gpu.problem else gpu.pci.short
        for gpu in linux.linux_gpus(root)
        if gpu.pci and gpu.pci not in known
    ]
    if shown and None not in known:
        yield say("source.not-listed", gpus=", ".join(shown))


def _gpu(index: int, root: Path | None, notes: list[str]) -> Gpu:
    gpu = Gpu(nvml_index=index)
    try:
        device = Device(call("nvmlDeviceGetHandleByIndex", index))
    except pynvml.NVMLError as exc:
        if exc.value == pynvml.NVML_ERROR_UNINITIALIZED:
            raise
        return replace(gpu, problem=_problem(exc))
    called = linux.gpu_called(gpu)
    address = linux.whole_address(bus_id(device.ask("nvmlDeviceGetPciInfo")), called, notes)
    capability = device.ask("nvmlDeviceGetCudaComputeCapability")
    mode = device.ask("nvmlDeviceGetMigMode")
    gpu = Gpu(
        nvml_index=index,
        name=device.ask("nvmlDeviceGetName") or None,
        uuid=linux.whole_uuid(device.ask("nvmlDeviceGetUUID"), called, notes),
        pci_bus_id=address,
        memory_mib=mib(getattr(device.ask("nvmlDeviceGetMemoryInfo"), "total", None)),
        compute_capability=(int(capability[0]), int(capability[1])) if capability else None,
        sm_count=_sm_count(device.number("nvmlDeviceGetNumGpuCores"), capability),
        minor_number=device.number("nvmlDeviceGetMinorNumber"),
        numa_node=_numa_node(device, address, root),
        mig_mode=bool(mode[0]) if mode else None,
        mig_instances=_instances(device, called, notes) if mode and mode[0] else (),
    )
    lost = [error for error in device.errors if error.value in GONE]
    if not lost and not (gpu.name or gpu.uuid or gpu.pci_bus_id):
        lost = device.errors  # a handle that tells nothing
    return replace(gpu, problem=_problem(lost[0])) if lost else gpu


def _problem(error: pynvml.NVMLError) -> str:
    return say(_PROBLEMS.get(error.value, "nvml.unusable"), error=said(error))


def _sm_count(cores: int | None, capability: Sequence[int] | None) -> int | None:
    """SMs from NVML's core count; None where either is unknown or they do not fit."""
    per_sm = CORES_PER_SM.get((capability[0], capability[1])) if capability is not None else None
    return cores // per_sm if cores and per_sm and cores % per_sm == 0 else None


def _numa_node(device: Device, address: str | None, root: Path | None) -> int | None:
    """The node of the host's memory that is nearest. nvmlDeviceGetNumaNodeId is another thing: for GPUs that are
    nodes themselves.
    """
    pci = PciBusId.parse(address) if address else None
    node = linux.numa_node(pci, root) if pci and root else None
    if node is None:
        words = device.ask("nvmlDeviceGetMemoryAffinity", 4, 0) or ()  # NVML_AFFINITY_SCOPE_NODE
        nodes = [64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1]
        node = nodes[0] if len(nodes) == 1 else None
    return node


def _instances(device: Device, called: str, notes: list[str]) -> tuple[MigInstance, ...]:
    found, before = [], len(device.errors)
    for number, mig in device.migs():
        found.append(
            MigInstance(
                uuid=linux.whole_uuid(mig.ask("nvmlDeviceGetUUID"), called, notes, "MIG-"),
                profile=(mig.ask("nvmlDeviceGetName") or "").rpartition("MIG ")[2] or None,
                gpu_instance_id=mig.number("nvmlDeviceGetGpuInstanceId"),
                compute_instance_id=mig.number("nvmlDeviceGetComputeInstanceId"),
                memory_mib=mib(getattr(mig.ask("nvmlDeviceGetMemoryInfo"), "total", None)),
                mig_index=number,
            )
        )
        device.errors += [error for error in mig.errors if error.value in GONE]
    hidden = {said(error) for error in device.errors[before:] if error.value not in (*ABSENT, *GONE)}
    notes.extend(say("nvml.mig-hidden", gpu=called, error=error) for error in sorted(hidden))
    return tuple(found)
