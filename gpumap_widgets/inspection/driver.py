"""The CUDA driver in this process, asked only where it is loaded already: nothing here loads or starts it unasked.

A driver that was not started answers CUDA_ERROR_NOT_INITIALIZED, whatever is asked, and so does one whose start failed
(cuda.h, CUresult): the two are not told apart. Listing devices needs no context and makes none.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..mapping import ObservedDevice

STARTED, NOT_STARTED, UNKNOWN = "started", "not started", "unknown"
_WINDOWS = sys.platform == "win32"
_SONAME = "nvcuda.dll" if _WINDOWS else "libcuda.so.1"
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_MOST_DEVICES = 1024


@dataclass(frozen=True)
class DriverView:
    """What the driver in this process says of itself."""

    state: str
    """``started``, ``not started`` (or its start failed), ``unknown`` (it answers in another way)."""
    devices: tuple[ObservedDevice, ...] = ()
    """By ordinal; () unless it is started."""
    current: int | None = None
    """Ordinal of the device whose context is current in this thread; None where there is none."""
    cuda: str | None = None
    """The newest CUDA that the driver serves: ``13.0``."""
    simulated: bool = False
    code: int = 0
    """What cuInit returned, where it was asked for; else what the driver answered."""


def loaded_driver() -> DriverView | None:
    """The driver library of this process, as it stands; None where none is loaded. Starts nothing."""
    library = _loaded()
    return None if library is None else _view(library)


def started_driver() -> DriverView | None:
    """The driver, started: this loads the library and calls cuInit, so that the variables are read now and never again.

    None where there is no driver library.
    """
    try:
        library = ctypes.CDLL(_SONAME)
    except OSError:
        return None
    code = library.cuInit(0)
    return _view(library) if code == 0 else DriverView(NOT_STARTED, (), None, _cuda(library), _simulated(library), code)


def mapped_libraries(root: Path = Path("/")) -> tuple[str, ...]:
    """Paths of the driver libraries in this process's memory, as Linux lists them; () where it does not tell."""
    try:
        lines = (root / "proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = (line.split(maxsplit=5)[5] for line in lines if "libcuda.so" in line)
    return tuple(dict.fromkeys(path.removesuffix(" (deleted)") for path in paths))


def _loaded() -> Any:
    """The library if it is loaded. Opening it with RTLD_NOLOAD finds it and cannot load it (dlopen(3))."""
    if _WINDOWS:
        handle = ctypes.WinDLL("kernel32").GetModuleHandleW(_SONAME)  # type: ignore[attr-defined,unused-ignore]
        return ctypes.CDLL(_SONAME) if handle else None
    no_load = getattr(os, "RTLD_NOLOAD", None)
    if no_load is None:
        return None
    for name in (_SONAME, *mapped_libraries()):
        try:
            return ctypes.CDLL(name, mode=no_load | os.RTLD_LAZY)
        except OSError:
            continue
    return None


def _view(library: Any) -> DriverView:
    count = ctypes.c_int()
    code = library.cuDeviceGetCount(ctypes.byref(count))
    told = (_cuda(library), _simulated(library), code)
    if code:
        return DriverView(NOT_STARTED if code == _NOT_INITIALIZED else UNKNOWN, (), None, *told)
    devices = tuple(_device(library, i) for i in range(min(count.value, _MOST_DEVICES)))
    return DriverView(STARTED, devices, _current(library), *told)


def _device(library: Any, ordinal: int) -> ObservedDevice:
    device, text, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(device), ordinal)
    name = text.value.decode(errors="replace") if library.cuDeviceGetName(text, 256, device) == 0 else None
    address = text.value.decode(errors="replace") if library.cuDeviceGetPCIBusId(text, 256, device) == 0 else None
    total = library.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    capability = [_attribute(library, which, device) for which in (_MAJOR, _MINOR)]
    return ObservedDevice(
        ordinal,
        _uuid(library, device),
        name,
        address,
        size.value >> 20 if total == 0 else None,
        None if None in capability else (capability[0] or 0, capability[1] or 0),
    )


def _uuid(library: Any, device: ctypes.c_int) -> str | None:
    """Bare, lower case. The second version of the call names the MIG device, the first one its GPU."""
    raw = (ctypes.c_ubyte * 16)()
    ask = getattr(library, "cuDeviceGetUuid_v2", None) or getattr(library, "cuDeviceGetUuid", None)
    if ask is None or ask(raw, device):
        return None
    text = bytes(raw).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _attribute(library: Any, which: int, device: ctypes.c_int) -> int | None:
    value = ctypes.c_int()
    return value.value if library.cuDeviceGetAttribute(ctypes.byref(value), which, device) == 0 else None


def _current(library: Any) -> int | None:
    context, device = ctypes.c_void_p(), ctypes.c_int()
    if library.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
        return None
    return None if library.cuCtxGetDevice(ctypes.byref(device)) else device.value


def _cuda(library: Any) -> str | None:
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def _simulated(library: Any) -> bool:
    return hasattr(library, "gpumap_simulated_driver")
