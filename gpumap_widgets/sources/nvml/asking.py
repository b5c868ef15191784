"""How NVML is asked: a session, a call that fails in one way only, a device with what went wrong, the GPUs of a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pynvml  # noqa: TID251 - the one place

from ...identity import PciBusId
from ...texts import say
from ...topology import Topology
from .. import linux

_REASONS = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "nvml.too-old",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml.not-loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml.mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission-at-all",
    pynvml.NVML_ERROR_UNKNOWN: "nvml.unknown-at-all",  # NVIDIA/nvidia-docker issue 1730
}
GONE = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
ABSENT = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED)
_LACKING = (AttributeError, TypeError, getattr(pynvml, "NVMLLibraryMismatchError", AttributeError))
_MOST_MIG = 64
NOT_A_NUMBER = (None, 2**32 - 1, 2**64 - 1)  # NVML_VALUE_NOT_AVAILABLE, in both sizes


@contextmanager
def session() -> Iterator[None]:
    """NVML open for as long as it takes; it counts its users. Raises NVMLError."""
    call("nvmlInit")
    try:
        yield
    finally:
        with suppress(pynvml.NVMLError):  # what was told stays told
            call("nvmlShutdown")


def call(name: str, *args: object) -> Any:
    """NVML's answer, texts as str. Raises NVMLError and nothing else: pynvml itself knows more ways to fail."""
    try:
        answer = getattr(pynvml, name)(*args)
    except _LACKING as exc:  # an older pynvml or library
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from exc
    except (OSError, UnicodeError) as exc:  # a crash inside a Windows library, a text that is none
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN) from exc
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def constant(name: str, default: int = 0) -> int:
    """A constant of pynvml, or what stands for it where this pynvml is too old to have it."""
    return int(getattr(pynvml, name, default))


class Device:
    """A handle, and what went wrong with it so far."""

    def __init__(self, handle: object) -> None:
        self.handle = handle
        self.errors: list[pynvml.NVMLError] = []

    def ask(self, name: str, *args: object) -> Any:
        """NVML's answer about this device, or None where it has none."""
        try:
            return call(name, self.handle, *args)
        except pynvml.NVMLError as exc:
            if exc.value == pynvml.NVML_ERROR_UNINITIALIZED:  # somebody shut NVML down for all: no row is to blame
                raise
            self.errors.append(exc)
            return None

    def number(self, name: str, *args: object) -> int | None:
        """The same for a number."""
        answer = self.ask(name, *args)
        return None if answer in NOT_A_NUMBER else int(answer)

    def migs(self) -> Iterator[tuple[int, Device]]:
        """The MIG devices by their number; gaps are normal."""
        for number in range(min(self.number("nvmlDeviceGetMaxMigDeviceCount") or 0, _MOST_MIG)):
            handle = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:
                yield number, Device(handle)


def bus_id(info: Any) -> str | None:
    """The address in an nvmlPciInfo_t. Reading the field decodes it."""
    try:
        text = getattr(info, "busId", None)
        return text.decode(errors="replace") if isinstance(text, bytes) else text
    except UnicodeDecodeError as exc:
        return repr(exc.object)


def mib(size: int | None) -> int | None:
    """Bytes as whole MiB; None where NVML has no value."""
    return None if size in NOT_A_NUMBER else size // 2**20


def is_simulated() -> bool:
    """Whether the loaded library is a stand-in for tests and lessons: those export a symbol that says so."""
    libraries = (getattr(place, "nvmlLib", None) for place in (pynvml, getattr(pynvml, "nvml", None)))
    return any(library is not None and hasattr(library, "gpumap_simulated_driver") for library in libraries)


def reason_of(error: pynvml.NVMLError, root: Path) -> str:
    """Why NVML does not work here, in a sentence."""
    key, driver = _REASONS.get(error.value, "nvml.other"), linux.kernel_driver(root)
    cause, told = error.__context__, str(error.__context__)
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        # pynvml has one error for a library that is missing and for one that is broken; the loader told them apart
        absent = cause is None or "not find" in told or ("No such file" in told and "nvidia-ml" in told)
        key = "nvml.does-not-load" if not absent else "nvml.library-missing" if driver else "nvml.no-library"
    return say(key, error=said(cause if key == "nvml.does-not-load" else error), driver=driver)


def said(error: object) -> str:
    """An error in its own words, to stand within a sentence."""
    return str(error).rstrip(".")


class Place(NamedTuple):
    """One of a machine's GPUs, as NVML reaches it here."""

    handle: object
    address: PciBusId | None


def reachable(machine: Topology, notes: list[str]) -> dict[int, Place]:
    """Those of the machine's GPUs that NVML reaches here, by position; ``notes`` name the others."""
    here: dict[str | None, Place] = {}
    for index in range(call("nvmlDeviceGetCount")):
        with suppress(pynvml.NVMLError):
            device = Device(call("nvmlDeviceGetHandleByIndex", index))
            address = PciBusId.parse(bus_id(device.ask("nvmlDeviceGetPciInfo")) or "")
            here[device.ask("nvmlDeviceGetUUID")] = Place(device.handle, address)
    here.pop(None, None)
    found = {i: here[gpu.uuid] for i, gpu in enumerate(machine.gpus) if gpu.uuid in here}
    notes.extend(
        say("nvml.not-reached", gpu=linux.gpu_called(gpu)) for i, gpu in enumerate(machine.gpus) if i not in found
    )
    return found
