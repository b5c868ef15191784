"""The program that leaves a mark: it holds a little memory on each ``cuda:i`` and asks NVML on which GPU it shows.

Its text is run behind that of `hardware`, in one namespace. One device at a time: make its context, see where this
process appears; hold an amount that no other device gets, see where as much appears; release both. No UUID of the
driver's is used: what is reported is what NVML calls the GPU where the memory showed. Source of the calls: ``cuda.h``,
``nvml.h``; the layout of a process there is nvmlProcessInfo_t.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Container, Iterator
from typing import Any

if globals().get("__package__"):  # for whoever reads this as a module; else `hardware` was run before
    from .hardware import Facts, error_name, head, is_simulated, load_driver, nvml_view, relevant, start

STEP_MIB = 16
"""``cuda:i`` gets (i + 1) times this; one device at a time, so this is never more than 16 × the number of devices."""
_MOST = 1024
_UNKNOWN = 2**64 - 1
_INSUFFICIENT_SIZE = 7
_TRIES, _PAUSE = 25, 0.02
"""NVML may lag behind: how often it is asked again, and the seconds between."""

Place = str
"""The UUID of a GPU or MIG device, as NVML tells it."""


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def report_footprint(names: Container[str] = ()) -> Facts:
    """Where each device's memory showed, in ``footprint``; ``devices`` are those that showed, by NVML's names."""
    facts = head()
    facts |= {"env": relevant(names), "footprint": []}
    before = time.perf_counter()
    cuda = load_driver(facts)
    count = start(cuda, facts) if cuda is not None else 0
    facts["seconds"]["cuda"] = time.perf_counter() - before
    nvml = nvml_view(facts)
    facts["simulated"] = is_simulated(cuda, nvml)
    if cuda is None or nvml is None or "present" not in facts:
        return facts
    before = time.perf_counter()
    nvml.nvmlInit_v2()
    try:
        places = dict(_places(nvml))
        for ordinal in range(count):
            mark = _mark(cuda, nvml, places, ordinal)
            facts["footprint"].append(mark)
            if mark.get("error", [""])[0] == "hidden":
                break  # so will all others be
            if "uuid" in mark:
                facts["devices"].append(_device(nvml, places, mark))
    finally:
        nvml.nvmlShutdown()
    facts["seconds"]["footprint"] = time.perf_counter() - before
    return facts


def _mark(cuda: ctypes.CDLL, nvml: ctypes.CDLL, places: dict[Place, Any], ordinal: int) -> Facts:
    """Where one device showed, or why nowhere."""
    mib = STEP_MIB * (ordinal + 1)
    mark: Facts = {"ordinal": ordinal, "mib": mib}
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
    nowhere = _shown(nvml, places)
    code = cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    code = code or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if code:
        return mark | {"error": ["context", code, error_name(cuda, code)]}
    try:
        cuda.cuCtxSetCurrent(context)
        empty = _until(lambda shown: _new(nowhere, shown), nvml, places)
        code = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20))
        if code:
            return mark | {"error": ["memory", code, error_name(cuda, code)]}
        full = _until(lambda shown: _grown(empty, shown, mib), nvml, places)
        cuda.cuMemFree_v2(address)
    finally:
        cuda.cuCtxSetCurrent(None)
        cuda.cuDevicePrimaryCtxRelease_v2(device)
    grown = _grown(empty, full, mib)
    if len(grown) == 1:
        place = grown[0]
        return mark | {"uuid": place, "shown_mib": (full[place] - empty.get(place, 0)) >> 20}
    fresh = _new(nowhere, empty)
    if len(fresh) == 1 and empty[fresh[0]] < 0:  # NVML names this process and no amounts
        return mark | {"uuid": fresh[0], "shown_mib": None}
    return mark | {"error": ["hidden" if not full else "unclear", 0, ""]}


def _until(wanted: Any, nvml: ctypes.CDLL, places: dict[Place, Any]) -> dict[Place, int]:
    """What NVML shows of this process, asked until it shows what is wanted, or long enough."""
    shown = _shown(nvml, places)
    for _ in range(_TRIES):
        if wanted(shown):
            break
        time.sleep(_PAUSE)
        shown = _shown(nvml, places)
    return shown


def _new(before: dict[Place, int], now: dict[Place, int]) -> list[Place]:
    return [place for place in now if place not in before]


def _grown(before: dict[Place, int], now: dict[Place, int], mib: int) -> list[Place]:
    """Places where this process holds so much more than before, and less than the next device's amount more."""
    more = {place: now[place] - max(before.get(place, 0), 0) for place in now if now[place] >= 0}
    return [place for place, size in more.items() if mib << 20 <= size < (mib + STEP_MIB) << 20]


def _shown(nvml: ctypes.CDLL, places: dict[Place, Any]) -> dict[Place, int]:
    """Bytes that this process holds by NVML, by place; -1 where it is named and the amount is not told."""
    found: dict[Place, int] = {}
    for place, handle in places.items():
        for process in _processes(nvml, handle):
            if process.pid == os.getpid():
                found[place] = -1 if process.used == _UNKNOWN else int(process.used)
    return found


def _processes(nvml: ctypes.CDLL, handle: Any) -> Iterator[_Process]:
    for kind in ("Compute", "Graphics", "MPSCompute"):
        ask = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3", None)
        ask = ask or getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2", None)
        if ask is None:
            continue
        count, rows = ctypes.c_uint(_MOST), (_Process * _MOST)()
        if ask(handle, ctypes.byref(count), rows) in (0, _INSUFFICIENT_SIZE):
            yield from rows[: min(count.value, _MOST)]


def _places(nvml: ctypes.CDLL) -> Iterator[tuple[Place, Any]]:
    """Every GPU that can be asked, or its MIG devices where it has any: UUID and handle."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        gpu = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(gpu)):
            continue
        parts = [*_instances(nvml, gpu)] or [gpu]
        for handle in parts:
            text = ctypes.create_string_buffer(96)
            if nvml.nvmlDeviceGetUUID(handle, text, 96) == 0:
                yield text.value.decode(), handle


def _instances(nvml: ctypes.CDLL, gpu: Any) -> Iterator[Any]:
    most = ctypes.c_uint()
    if not hasattr(nvml, "nvmlDeviceGetMaxMigDeviceCount") or nvml.nvmlDeviceGetMaxMigDeviceCount(
        gpu, ctypes.byref(most)
    ):
        return
    for index in range(min(most.value, 64)):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ctypes.byref(handle)) == 0:
            yield handle


def _device(nvml: ctypes.CDLL, places: dict[Place, Any], mark: Facts) -> Facts:
    """A device of the answer, as NVML names the GPU where the memory showed."""
    handle, text, pci = places[mark["uuid"]], ctypes.create_string_buffer(96), ctypes.create_string_buffer(128)
    name = text.value.decode(errors="replace") if nvml.nvmlDeviceGetName(handle, text, 96) == 0 else None
    address = pci.raw[36:68].split(b"\0")[0].decode() if nvml.nvmlDeviceGetPciInfo_v3(handle, pci) == 0 else None
    told = {"ordinal": mark["ordinal"], "uuid": mark["uuid"].lower()[4:], "name": name, "pci": address or None}
    return told | {"memory_mib": None, "capability": None}
