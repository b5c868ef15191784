"""A guard for the top of a service or training script: is ``cuda:0`` the GPU that was meant, or stop here.

Standard library only: this one file can be copied beside a script (``gpumap guard > gpumap_guard.py``) where nothing
may be installed. It asks the NVIDIA driver and NVML through ctypes, and nobody else.

>>> verify({"cuda:0": "GPU-b1e18600-…"})            # doctest: +SKIP
'cuda:0'

`verify` starts CUDA in this process (``cuInit``), so call it after the variables are set, and in each worker rather
than before a fork. `pin` sets CUDA_VISIBLE_DEVICES and must come before. `verify_running` is for after the first step.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

ORDER, VISIBLE = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"
_NOT_INITIALISED = 3  # CUDA_ERROR_NOT_INITIALIZED, cuda.h
_MIB = 2**20
_LONGEST_INDEX = 2
"""Digits of an NVML index that is given as text; “4090” is a word of a name."""


class WrongGPU(RuntimeError):
    """The process does not have the GPU that was meant; the message says what was found and what puts it right."""


class TooLate(WrongGPU):
    """CUDA has started in this process: its numbering can no longer be changed."""


@dataclass(frozen=True)
class Device:
    """A GPU as the driver or NVML describes it. None where it does not tell."""

    index: int
    """Its CUDA number, or its NVML index."""
    uuid: str
    """``GPU-…`` or ``MIG-…``."""
    pci: str
    """``00000000:86:00.0``."""
    name: str
    memory_mib: int | None
    pids: tuple[int, ...] = ()
    """Processes on it (NVML only)."""
    used_mib: int | None = None

    def __str__(self) -> str:
        size = f", {self.memory_mib} MiB" if self.memory_mib is not None else ""
        return f"{self.name} ({self.uuid}, {self.pci.removeprefix('00000000:')}{size})"


# --- the driver -------------------------------------------------------------------------------------------------------


def _library(names: Sequence[str], *, mode: int = ctypes.DEFAULT_MODE) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name, mode=mode)
        except OSError:
            continue
    return None


_CUDA = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
_NVML = ("nvml.dll",) if sys.platform == "win32" else ("libnvidia-ml.so.1",)


def _uuid(raw: bytes, prefix: str = "GPU-") -> str:
    text = raw.hex()
    return f"{prefix}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def cuda_devices() -> list[Device]:
    """The CUDA devices of this process by ordinal, asked of the driver. Starts CUDA here (``cuInit``).

    Raises WrongGPU where there is no driver, or where it refuses; an empty list is no error.
    """
    cuda = _library(_CUDA)
    if cuda is None:
        raise WrongGPU("There is no NVIDIA driver here: libcuda cannot be loaded.")
    code = cuda.cuInit(0)
    if code == 100:  # CUDA_ERROR_NO_DEVICE
        return []
    if code:
        raise WrongGPU(f"cuInit fails with {code} ({_error_name(cuda, code)}).")
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    return [_cuda_device(cuda, ordinal) for ordinal in range(count.value)]


def _error_name(cuda: Any, code: int) -> str:
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"unknown").decode()


def _cuda_device(cuda: Any, ordinal: int) -> Device:
    device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    name, bus, memory = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64), ctypes.c_size_t()
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    getattr(cuda, "cuDeviceGetUuid_v2", cuda.cuDeviceGetUuid)(raw, device)
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDeviceGetPCIBusId(bus, 64, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    pci = _pci(bus.value.decode()) or ""
    return Device(ordinal, _uuid(bytes(raw)), pci, name.value.decode(), memory.value // _MIB)


def cuda_started() -> bool:
    """Whether CUDA has been started in this process. Starts nothing and loads nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        return True
    no_load = getattr(os, "RTLD_NOLOAD", None)
    cuda = _library(_CUDA, mode=no_load | os.RTLD_LAZY) if no_load is not None else None
    if cuda is None:
        return False
    return bool(cuda.cuDriverGetVersion(ctypes.byref(ctypes.c_int())) == 0 and _initialised(cuda))


def _initialised(cuda: Any) -> bool:
    return bool(cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALISED)


# --- NVML -------------------------------------------------------------------------------------------------------------


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("id", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
        ("text", ctypes.c_char * 32),
    )


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _ProcessInfo(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def machine_devices() -> list[Device] | None:
    """The GPUs of the machine in NVML order, hidden ones too; None where NVML does not answer."""
    nvml = _library(_NVML)
    if nvml is None or nvml.nvmlInit_v2():
        return None
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return None
        found = [_nvml_device(nvml, index) for index in range(count.value)]
        return [device for device in found if device is not None]
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: Any, index: int) -> Device | None:
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None  # a lost GPU: it has no number in CUDA either
    name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    pci, memory = _PciInfo(), _Memory()
    nvml.nvmlDeviceGetName(handle, name, 96)
    nvml.nvmlDeviceGetUUID(handle, uuid, 96)
    nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci))
    sized = nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
    return Device(
        index,
        uuid.value.decode(),
        _pci(pci.text.decode()) or "",
        name.value.decode(),
        memory.total // _MIB if sized else None,
        _pids(nvml, handle),
        memory.used // _MIB if sized else None,
    )


def _pids(nvml: Any, handle: ctypes.c_void_p) -> tuple[int, ...]:
    count = ctypes.c_uint(1024)
    infos = (_ProcessInfo * count.value)()
    ask = getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    if ask is None or ask(handle, ctypes.byref(count), infos):
        return ()
    return tuple(sorted({infos[i].pid for i in range(count.value)}))


# --- what is expected -------------------------------------------------------------------------------------------------

Wanted = str | int
"""A UUID or its beginning, an NVML index (a number, or a text of at most two digits), a PCI address, a word of the name."""


def _pci(text: str) -> str | None:
    """A PCI address in NVML's form; None for any other text."""
    head, _, function = text.strip().lower().rpartition(".")
    parts = (head or text.strip().lower()).split(":")
    if head and len(parts) == 2:
        parts.insert(0, "0")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
        return f"{domain:08x}:{bus:02x}:{device:02x}.{int(function or '0', 16):x}"
    except ValueError:
        return None


def matches(device: Device, wanted: Wanted, machine: Sequence[Device] | None) -> bool:
    """Whether a CUDA device is the one that is wanted. Raises WrongGPU where an index cannot be looked up."""
    if isinstance(wanted, int) or (wanted.isdigit() and len(wanted) <= _LONGEST_INDEX):
        if machine is None:
            raise WrongGPU(f"nvidia-smi {wanted} cannot be looked up: NVML does not answer here. Name the UUID.")
        there = [one for one in machine if one.index == int(wanted)]
        return any(one.uuid.lower() == device.uuid.lower() or one.pci == device.pci != "" for one in there)
    if wanted.upper().startswith(("GPU-", "MIG-")):
        return device.uuid[4:].lower().startswith(wanted[4:].lower())  # MIG too
    address = _pci(wanted)
    if address is not None and ":" in wanted:
        return device.pci == address
    return wanted.lower() in device.name.lower()


def verify(
    expect: Mapping[str, Wanted],
    *,
    count: int | None = None,
    min_memory_mib: int | None = None,
    leave: bool = False,
) -> str:
    """Check that each ``cuda:i`` is the GPU that was meant, and return the first of them for ``torch.device``.

    ``expect``: ``{"cuda:0": "GPU-b1e18600-…"}``; beside a UUID or its beginning, an NVML index, a PCI address or a word
    of the name. Only a UUID, an address or an index tells equal cards apart. ``count``: how many devices there must be.
    ``min_memory_mib``: the least memory of every expected device. ``leave``: exit with status 1 instead of raising.

    Raises WrongGPU with what was expected, what was found, and the setting that puts it right; ValueError for an
    expectation that is none. Starts CUDA in this process.
    """
    wanted = {_ordinal(key): value for key, value in expect.items()}
    try:
        devices, machine = cuda_devices(), machine_devices()
        wrong = [line for i, value in wanted.items() if (line := _wrong(devices, i, value, machine, min_memory_mib))]
        if count is not None and len(devices) != count:
            wrong.append(f"{len(devices)} CUDA devices, expected {count}")
        if wrong:
            raise WrongGPU(_message(wrong, devices, machine, wanted))
    except WrongGPU as exc:
        if leave:
            _leave(exc)
        raise
    _warn(machine or devices, wanted.values())
    return f"cuda:{next(iter(wanted), 0)}"


def _ordinal(key: str) -> int:
    head, _, number = key.partition(":")
    if head != "cuda" or not number.isdigit():
        raise ValueError(f"{key!r} names no CUDA device; write “cuda:0”.")
    return int(number)


def _wrong(
    devices: Sequence[Device], ordinal: int, wanted: Wanted, machine: Sequence[Device] | None, least: int | None
) -> str | None:
    if ordinal >= len(devices):
        return f"cuda:{ordinal}: expected {wanted}, found no such device (there are {len(devices)})"
    device = devices[ordinal]
    if not matches(device, wanted, machine):
        return f"cuda:{ordinal}: expected {wanted}, found {device}"
    if least is not None and (device.memory_mib or 0) < least:
        return f"cuda:{ordinal}: expected at least {least} MiB, found {device}"
    return None


def _message(
    wrong: Iterable[str], devices: Sequence[Device], machine: Sequence[Device] | None, wanted: Mapping[int, Wanted]
) -> str:
    values = [f"{name}={os.environ[name]!r}" if name in os.environ else f"{name} unset" for name in (ORDER, VISIBLE)]
    lines = ["The GPUs of this process are not those that were meant.", *(f"  {line}" for line in wrong)]
    lines += [f"  (PID {os.getpid()}, {', '.join(values)})"]
    lines += [f"  here: cuda:{device.index} = {device}" for device in devices]
    fix = _fix(machine, wanted)
    lines.append(f"  put right by: {fix}" if fix else "  no GPU of this machine is what was meant")
    return "\n".join(lines)


def _fix(machine: Sequence[Device] | None, wanted: Mapping[int, Wanted]) -> str | None:
    """The setting that gives what was meant; None where the machine does not have it."""
    chosen: list[str] = []
    for ordinal in range(max(wanted, default=-1) + 1):
        found = [one for one in machine or () if ordinal not in wanted or matches(one, wanted[ordinal], machine)]
        free = [one.uuid for one in found if one.uuid not in chosen]
        if not free:
            return None
        chosen.append(free[0])
    return f"{VISIBLE}={','.join(chosen)}"


def _warn(devices: Sequence[Device], wanted: Iterable[Wanted]) -> None:
    """A name or an index holds today; on mixed cards only with PCI_BUS_ID, or a UUID, for sure tomorrow."""
    mixed = len({device.name for device in devices}) > 1
    loose = [one for one in wanted if isinstance(one, int) or not one.upper().startswith(("GPU-", "MIG-"))]
    if mixed and loose and os.environ.get(ORDER) != "PCI_BUS_ID":
        said = f"{ORDER} is not PCI_BUS_ID on a machine with different GPUs: numbers in a list follow CUDA's own order."
        warnings.warn(said, stacklevel=3)


def _leave(error: WrongGPU) -> NoReturn:
    print(error, file=sys.stderr)
    sys.exit(1)


# --- after the first step ---------------------------------------------------------------------------------------------


def verify_running(expect: Wanted | Sequence[Wanted], *, pid: int | None = None, leave: bool = False) -> None:
    """After the first step: NVML must show this process on the expected GPUs and on no other.

    Raises WrongGPU otherwise, and where nothing can be told: NVML does not answer, or shows no process of this PID (a
    container hides them, or nothing runs on a GPU yet).
    """
    try:
        _check_running([expect] if isinstance(expect, str | int) else list(expect), os.getpid() if pid is None else pid)
    except WrongGPU as exc:
        if leave:
            _leave(exc)
        raise


def _check_running(wanted: Sequence[Wanted], pid: int) -> None:
    machine = machine_devices()
    if machine is None:
        raise WrongGPU("Where this process runs cannot be told: NVML does not answer here.")
    held = [device for device in machine if pid in device.pids]
    if not held:
        raise WrongGPU(f"NVML shows PID {pid} on no GPU: nothing runs there yet, or a container hides the PIDs.")
    missing = [one for one in wanted if not any(matches(device, one, machine) for device in held)]
    extra = [device for device in held if not any(matches(device, one, machine) for one in wanted)]
    if missing or extra:
        lines = [f"PID {pid} does not run where it should.", *(f"  expected on {one}: not there" for one in missing)]
        raise WrongGPU("\n".join([*lines, *(f"  found on nvidia-smi {d.index}: {d}" for d in extra)]))


# --- choosing ---------------------------------------------------------------------------------------------------------


def pin(
    wanted: Wanted | Sequence[Wanted] | None = None,
    *,
    name: str | None = None,
    min_memory_mib: int | None = None,
    free: bool = False,
    count: int = 1,
) -> list[str]:
    """Choose GPUs and set CUDA_VISIBLE_DEVICES to their UUIDs, before CUDA starts. Returns the UUIDs.

    ``wanted``: GPUs by UUID, NVML index, PCI address or name, in the order of their numbers. Without it, the first
    ``count`` GPUs in NVML order that have ``name`` in their name, at least ``min_memory_mib``, and, where ``free``, no
    process and less than a twentieth of their memory in use.
    Raises TooLate when CUDA has started, WrongGPU when there are not enough.
    """
    if cuda_started():
        raise TooLate(f"CUDA has started in this process: {VISIBLE} no longer counts. Set it first, in a new process.")
    machine = machine_devices()
    if machine is None:
        raise WrongGPU("GPUs cannot be chosen: NVML does not answer here.")
    if wanted is not None:
        asked = [wanted] if isinstance(wanted, str | int) else list(wanted)
        chosen = [_one(machine, one) for one in asked]
    else:
        fit = [d for d in machine if _fits(d, name, min_memory_mib, free=free)]
        if len(fit) < count:
            raise WrongGPU(f"{len(fit)} of {len(machine)} GPUs fit, {count} are needed.")
        chosen = fit[:count]
    uuids = [device.uuid for device in chosen]
    if len(set(uuids)) < len(uuids):
        raise WrongGPU("One GPU is named twice; CUDA would then see none.")
    os.environ[VISIBLE] = ",".join(uuids)
    return uuids


def _one(machine: Sequence[Device], wanted: Wanted) -> Device:
    found = [device for device in machine if matches(device, wanted, machine)]
    if len(found) != 1:
        raise WrongGPU(f"{wanted} is {'no GPU' if not found else f'{len(found)} GPUs'} of this machine.")
    return found[0]


def _fits(device: Device, name: str | None, least: int | None, *, free: bool) -> bool:
    if name is not None and name.lower() not in device.name.lower():
        return False
    if least is not None and (device.memory_mib or 0) < least:
        return False
    idle = not device.pids and (device.used_mib or 0) * 20 < (device.memory_mib or 1)
    return idle or not free


def main(arguments: Sequence[str] | None = None) -> int:
    """``python gpumap_guard.py cuda:0=GPU-…``: status 0 when every expectation holds, 1 when one does not."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("expect", nargs="+", metavar="cuda:N=GPU", help="a UUID, NVML index, PCI address or name")
    parser.add_argument("--count", type=int, help="how many CUDA devices there must be")
    parser.add_argument("--min-memory-mib", type=int)
    given = parser.parse_args(arguments)
    pairs = [text.partition("=") for text in given.expect]
    try:
        device = verify({key: value for key, _, value in pairs}, count=given.count, min_memory_mib=given.min_memory_mib)
    except (WrongGPU, ValueError) as exc:
        print(exc, file=sys.stderr)
        return 1
    print(device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
