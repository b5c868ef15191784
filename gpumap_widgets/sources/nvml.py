"""This machine, through NVIDIA's management library (NVML). The only module that imports pynvml."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pynvml  # noqa: TID251 - the one place

from ..strength import CORES_PER_SM
from ..errors import NoDriver
from ..texts import say
from ..topology import Gpu, MigInstance, Platform, Topology

T = TypeVar("T")

_PROBLEMS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "nvml.lost",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "nvml.operating-system",
}


def this_machine() -> Topology:
    """The GPUs of this machine in NVML order; each that cannot be used is there with its reason.

    Raises NoDriver where there is no NVIDIA management library or it does not start, saying which and what to do.
    CUDA is not started, and CUDA_VISIBLE_DEVICES does not matter here: NVML does not read it.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        raise _no_driver(exc) from exc
    try:
        count = pynvml.nvmlDeviceGetCount()
        gpus = tuple(_gpu(index) for index in range(count))
        simulated = _is_simulated()
        return Topology(
            gpus,
            driver_version=_ask(pynvml.nvmlSystemGetDriverVersion),
            platform=_platform(),
            source=say("source.simulated" if simulated else "source.nvml"),
            simulated=simulated,
        )
    except pynvml.NVMLError as exc:
        raise _no_driver(exc) from exc
    finally:
        pynvml.nvmlShutdown()


def _no_driver(error: pynvml.NVMLError) -> NoDriver:
    key = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml.no-library",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml.not-loaded",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml.mismatch",
        pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission-at-all",
    }.get(error.value, "nvml.other")
    return NoDriver(say(key, error=str(error)), remedy=say("nvml.remedy"))


def _platform() -> Platform:
    if platform.system() == "Windows":
        return "windows"
    return "wsl" if "microsoft" in platform.release().lower() or Path("/usr/lib/wsl/lib").exists() else "linux"


def _is_simulated() -> bool:
    """Whether the loaded library is a stand-in for tests and lessons: those export a symbol that says so."""
    library = getattr(pynvml, "nvmlLib", None)
    return library is not None and hasattr(library, "gpumap_simulated_driver")


def _ask(call: Callable[..., T], *args: object) -> T | None:
    """The answer, or None where this GPU or driver has none."""
    try:
        return call(*args)
    except (pynvml.NVMLError, AttributeError):
        return None


def _gpu(index: int) -> Gpu:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as exc:
        key = _PROBLEMS.get(exc.value, "nvml.unusable")
        return Gpu(nvml_index=index, problem=say(key, error=str(exc)))
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    mig_on = bool(mode[0]) if mode is not None else None
    name = _text(_ask(pynvml.nvmlDeviceGetName, handle))
    return Gpu(
        nvml_index=index,
        name=name,
        uuid=_text(_ask(pynvml.nvmlDeviceGetUUID, handle)),
        pci_bus_id=_text(pci.busId) if pci is not None else None,
        memory_mib=memory.total // 2**20 if memory is not None else None,
        compute_capability=(int(capability[0]), int(capability[1])) if capability is not None else None,
        sm_count=_sm_count(_ask(pynvml.nvmlDeviceGetNumGpuCores, handle), capability),
        minor_number=_ask(pynvml.nvmlDeviceGetMinorNumber, handle),
        numa_node=_ask(pynvml.nvmlDeviceGetNumaNodeId, handle) if hasattr(pynvml, "nvmlDeviceGetNumaNodeId") else None,
        mig_mode=mig_on,
        mig_instances=_instances(handle) if mig_on else (),
    )


def _sm_count(cores: int | None, capability: Sequence[int] | None) -> int | None:
    """SMs from NVML's core count; None where either is unknown or they do not fit."""
    per_sm = CORES_PER_SM.get((capability[0], capability[1])) if capability is not None else None
    return cores // per_sm if cores and per_sm and cores % per_sm == 0 else None


def _text(value: str | bytes | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _instances(handle: Any) -> tuple[MigInstance, ...]:
    """The MIG devices of a GPU; gaps in their numbering are normal."""
    found = []
    for number in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        mig = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if mig is None:
            continue
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, mig)
        name = _text(_ask(pynvml.nvmlDeviceGetName, mig)) or ""
        found.append(
            MigInstance(
                uuid=_text(_ask(pynvml.nvmlDeviceGetUUID, mig)),
                profile=name.rpartition("MIG ")[2] or None,
                gpu_instance_id=_ask(pynvml.nvmlDeviceGetGpuInstanceId, mig),
                compute_instance_id=_ask(pynvml.nvmlDeviceGetComputeInstanceId, mig),
                memory_mib=memory.total // 2**20 if memory is not None else None,
                mig_index=number,
            )
        )
    return tuple(found)
