"""The program that asks real torch which GPU is ``cuda:i``. Standard library and torch only: its text is sent to a kernel.

It states facts and judges nothing; `gpumap_widgets.live.answer` reads them. Run by itself it prints them as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Container
from typing import Any

Facts = dict[str, Any]

RELEVANT = re.compile(
    r"(CUDA|NVIDIA|SLURM|OMPI_COMM_WORLD|PMI|PMIX)_|MPI_LOCALRANKID|"
    r"((LOCAL_|WORLD_|LOCAL_WORLD_|NODE_|GROUP_)?(RANK|SIZE)|MASTER_(ADDR|PORT)|GPU_DEVICE_ORDINAL|"
    r"(ROCR|HIP)_VISIBLE_DEVICES|PYTORCH_NVML_BASED_CUDA_CHECK)$"
)
"""The variables that are read back: a superset of those that `gpumap_widgets.scenario.is_relevant` accepts."""
SIMULATED = "gpumap_simulated_driver"
"""The symbol that a simulated driver exports."""
_WINDOWS = sys.platform == "win32"
_PR_SET_PDEATHSIG = 1


def leash(seconds: int, *, direct: bool = False) -> None:
    """See that this process outlives neither its starter nor its time, even while a hanging driver holds the interpreter.

    Jupyter's own watch over the starter is a Python thread, which cannot run while C code keeps the lock; both of
    these are the system's. ``direct``: the starter is this process's parent, with no wrapper in between.
    """
    if not _WINDOWS:
        signal.alarm(seconds)  # unhandled, so it ends the process
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if direct and str(os.getppid()) != os.environ.get("JPY_PARENT_PID"):
            os._exit(1)  # it went away before it could be watched


def report(names: Container[str] = ()) -> Facts:
    """All that can be found out, as a dict for JSON; ``names`` are further variables to read back.

    torch starts CUDA, which reads its two variables: the environment is taken down just before.
    """
    started = time.perf_counter()
    facts: Facts = {"python": platform.python_version(), "executable": sys.executable, "seconds": {}, "devices": []}
    torch = _import_torch(facts)
    facts["seconds"]["torch"] = time.perf_counter() - started
    facts["env"] = {k: v for k, v in os.environ.items() if RELEVANT.match(k) or k in names}
    if torch is not None and facts["torch"]["built"]:
        before = time.perf_counter()
        try:
            torch.cuda.init()
            # device_count() asks NVML before torch 2.8 or so, not the driver
            count = getattr(torch._C, "_cuda_getDeviceCount", torch.cuda.device_count)()  # noqa: SLF001
            facts["devices"] = [_device(torch, i) for i in range(count)]
        except Exception as exc:
            facts["cuda_error"] = [type(exc).__name__, str(exc)]
        facts["seconds"]["cuda"] = time.perf_counter() - before
    before = time.perf_counter()
    driver, nvml = _driver(facts), _nvml(facts)
    facts["simulated"] = any(hasattr(library, SIMULATED) for library in (driver, nvml) if library)
    facts["seconds"]["driver"] = time.perf_counter() - before
    return facts


def _import_torch(facts: Facts) -> Any:
    gc.disable()  # tens of thousands of objects are made and none is garbage
    try:
        torch = importlib.import_module("torch")
    except Exception as exc:  # a broken installation raises OSError or anything else
        missing = isinstance(exc, ModuleNotFoundError) and exc.name == "torch"
        facts["torch_error"] = [type(exc).__name__, str(exc), missing]
        return None
    finally:
        gc.enable()
    version = torch.version
    facts["torch"] = {
        "version": str(torch.__version__),
        "cuda": version.cuda,
        "hip": getattr(version, "hip", None),
        "built": bool(torch.backends.cuda.is_built() and version.cuda),
    }
    return torch


def _device(torch: Any, ordinal: int) -> Facts:
    """One device; what this torch does not tell is None (UUID from 2.5, PCI address from 2.8)."""
    facts: Facts = {"ordinal": ordinal, "name": None, "uuid": None, "pci": None, "memory_mib": None, "capability": None}
    try:
        properties = torch.cuda.get_device_properties(ordinal)
    except Exception as exc:
        facts["error"] = f"{type(exc).__name__}: {exc}"
        return facts
    uuid, bus = getattr(properties, "uuid", None), getattr(properties, "pci_bus_id", None)
    facts.update(
        name=properties.name,
        uuid=None if uuid is None else re.sub("^(gpu|mig)-", "", str(uuid).lower()),
        memory_mib=properties.total_memory >> 20,
        capability=[properties.major, properties.minor],
    )
    if bus is not None:
        facts["pci"] = f"{properties.pci_domain_id:08X}:{bus:02X}:{properties.pci_device_id:02X}.0"
    return facts


def _load(linux: str, windows: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(windows if _WINDOWS else linux)
    except OSError:
        return None


def _driver(facts: Facts) -> ctypes.CDLL | None:
    """What the driver itself says. cuInit again is free where torch did it, and gives the code where torch failed."""
    cuda = _load("libcuda.so.1", "nvcuda.dll")
    facts["libcuda"] = cuda is not None
    if cuda is None:
        return None
    number = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
        facts["driver_cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
    if not facts["devices"]:
        facts["cuinit"] = cuda.cuInit(0)
        facts["count"] = number.value if cuda.cuDeviceGetCount(ctypes.byref(number)) == 0 else 0
    return cuda


def _nvml(facts: Facts) -> ctypes.CDLL | None:
    """The driver's version, and which GPUs are here whatever CUDA_VISIBLE_DEVICES hides. Absent when NVML fails."""
    nvml = _load("libnvidia-ml.so.1", "nvml.dll")
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return nvml
    try:
        text, count = ctypes.create_string_buffer(96), ctypes.c_uint()
        if nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            facts["driver"] = text.value.decode(errors="replace")
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            facts["present"] = [_identity(nvml, i) for i in range(count.value)]
    finally:
        nvml.nvmlShutdown()
    return nvml


def _identity(nvml: ctypes.CDLL, index: int) -> list[str | None]:
    """UUID and PCI address of a GPU; None where it does not answer (lost, no permission)."""
    handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
        return [None, None]
    uuid = text.value.decode().lower()[4:] if nvml.nvmlDeviceGetUUID(handle, text, 96) == 0 else None
    pci = ctypes.create_string_buffer(128)  # nvmlPciInfo_t: 16 characters, five numbers, then the address in full
    address = pci.raw[36:68].split(b"\0")[0].decode() if nvml.nvmlDeviceGetPciInfo_v3(handle, pci) == 0 else None
    return [uuid, address]


if __name__ == "__main__":
    print(json.dumps(report()))
