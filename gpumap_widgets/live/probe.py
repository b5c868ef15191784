"""The program that asks real torch which GPU is ``cuda:i``. Standard library and torch only, nothing of ours.

Its text is run behind that of `hardware`, in one namespace. It states facts and judges nothing;
`gpumap_widgets.live.answer` reads them.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import re
import sys
import time
from collections.abc import Container, Mapping
from typing import Any

if globals().get("__package__"):  # for whoever reads this as a module; else `hardware` was run before
    from .hardware import Facts, head, is_simulated, load_driver, nvml_view, relevant, start

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


def report(names: Container[str] = ()) -> Facts:
    """All that can be found out, as a dict for JSON; ``names`` are further variables to read back.

    torch starts CUDA, which reads its two variables: the environment is taken down just before.
    """
    started = time.perf_counter()
    facts = head()
    torch = _import_torch(facts)
    facts["seconds"]["torch"] = time.perf_counter() - started
    facts["env"] = relevant(names)
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
    cuda = load_driver(facts)
    if cuda is not None and not facts["devices"]:
        start(cuda, facts)
    facts["simulated"] = is_simulated(cuda, nvml_view(facts))
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


# --- a kernel that waits ---------------------------------------------------------------------------------------------


def warm() -> Facts:
    """Load torch, so that a later question need not; CUDA stays untouched. What a proof of that needs is stated."""
    started = time.perf_counter()
    facts = head()
    torch = _import_torch(facts)
    facts["seconds"]["torch"] = time.perf_counter() - started
    origin = getattr(torch, "__file__", None)
    facts["origin"] = None if origin is None else [origin, os.stat(origin).st_mtime_ns]  # noqa: PTH116
    return facts | {"untouched": untouched(), "env": relevant()}


def untouched() -> str:
    """What says that CUDA was started in this process; empty where nothing has started it.

    A driver that is loaded and not started answers CUDA_ERROR_NOT_INITIALIZED; asking starts nothing.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return "torch is not loaded"
    started = getattr(torch.cuda, "is_initialized", None)
    if started is None or started():
        return "torch has started CUDA" if started else "this torch cannot tell"
    if not hasattr(os, "RTLD_NOLOAD"):
        return "this system cannot tell"
    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return ""  # not even loaded
    code = cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    return "" if code == _NOT_INITIALIZED else f"the driver answers {code}"


def take_on(wanted: Mapping[str, str]) -> str:
    """Set the wanted variables, before CUDA reads them: "" when C code sees the same, else the name of one that differs.

    None is taken away: whoever asks has seen that there was none (`warm`).
    """
    os.environ.update(wanted)
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    for name in {*wanted, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}:
        seen = getenv(os.fsencode(name))
        if (None if seen is None else os.fsdecode(seen)) != wanted.get(name):
            return name
    return ""


def answer_warm(wanted: Mapping[str, str]) -> Facts:
    """The report under other variables, from a kernel that waited; ``doubt`` where it must not be used."""
    doubt = untouched() or take_on(wanted)
    return {"doubt": doubt} if doubt else report(tuple(wanted))
