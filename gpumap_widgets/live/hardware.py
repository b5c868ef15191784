"""The program that asks the driver alone which GPU is ``cuda:i``. Standard library only, nothing of ours.

Run by itself it prints its facts as one line of JSON. `probe` and `footprint` are run behind it, in one namespace, and
use what it defines. It states facts and judges nothing; `gpumap_widgets.live.answer` reads them. Source of the calls:
``cuda.h`` and ``nvml.h``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Container
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
_NVML_PATIENCE = 3.0
"""Seconds that NVML may take once CUDA has answered: a lost GPU can keep it busy, and its part is a side matter."""
_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


# --- the process -----------------------------------------------------------------------------------------------------


def leash(seconds: int, *, parent: int | None = None) -> None:
    """See that this process outlives neither its starter nor its time, even while a hanging driver holds the interpreter.

    Jupyter's own watch over the starter is a Python thread, which cannot run while C code keeps the lock; both of
    these are the system's. ``parent``: the process that started this one, with no wrapper in between. No ``seconds``:
    only the starter counts.
    """
    if not _WINDOWS:
        signal.alarm(seconds)  # unhandled, so it ends the process
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if parent is not None and os.getppid() != parent:
            os._exit(1)  # it went away before it could be watched


def watch_input() -> None:
    """End this process when its input ends: where the system cannot watch the starter, the pipe to it does."""
    import _thread

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        os._exit(1)

    _thread.start_new_thread(watch, ())


def answer_pipe() -> int:
    """A descriptor for the answer alone: what libraries print to the usual output goes to the error output instead."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def relevant(names: Container[str] = ()) -> dict[str, str]:
    """The variables that can touch the numbering, and some more by name, as they stand now."""
    return {k: v for k, v in os.environ.items() if RELEVANT.match(k) or k in names}


def head() -> Facts:
    """What every program states of its process."""
    facts: Facts = {"python": sys.version.split()[0], "executable": sys.executable, "pid": os.getpid()}
    return facts | {"seconds": {}, "devices": [], "container": container()}


def container() -> str | None:
    """The kind of container that this process is in, by the marks that each leaves; None where there is none."""
    if "APPTAINER_CONTAINER" in os.environ or "SINGULARITY_CONTAINER" in os.environ:
        return "apptainer"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if os.path.exists("/run/.containerenv"):  # noqa: PTH110 - pathlib would be loaded for this
        return "podman"
    if os.path.exists("/.dockerenv"):  # noqa: PTH110
        return "docker"
    return None


# --- libraries -------------------------------------------------------------------------------------------------------


def load(linux: str, windows: str, facts: Facts | None = None) -> ctypes.CDLL | None:
    """A library of the driver; None where it is not there or cannot be loaded, which ``facts`` then say."""
    try:
        return ctypes.CDLL(windows if _WINDOWS else linux)
    except OSError as exc:
        if facts is not None and "cannot open shared object file: No such file" not in str(exc) and not _WINDOWS:
            facts["libcuda_error"] = str(exc)
        return None


def load_driver(facts: Facts) -> ctypes.CDLL | None:
    """The CUDA driver library, with its version of CUDA stated; nothing is started."""
    cuda = load("libcuda.so.1", "nvcuda.dll", facts)
    facts["libcuda"] = cuda is not None
    number = ctypes.c_int()
    if cuda is not None and cuda.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
        facts["driver_cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
    return cuda


def start(cuda: ctypes.CDLL, facts: Facts) -> int:
    """Start CUDA and count; the number of devices. Free where it was done before, and gives the code where it failed."""
    number = ctypes.c_int()
    facts["cuinit"] = cuda.cuInit(0)
    code = cuda.cuDeviceGetCount(ctypes.byref(number))
    if code and not facts["cuinit"]:
        facts["call_error"] = ["cuDeviceGetCount", code, error_name(cuda, code)]
    facts["cuinit_name"] = error_name(cuda, facts["cuinit"])
    facts["count"] = number.value if code == 0 else 0
    return int(facts["count"])


def error_name(cuda: ctypes.CDLL, code: int) -> str:
    """The name of a code, as the driver itself gives it."""
    text = ctypes.c_char_p()
    return "?" if cuda.cuGetErrorName(code, ctypes.byref(text)) or not text.value else text.value.decode()


def device(cuda: ctypes.CDLL, ordinal: int) -> Facts:
    """One device; what the driver does not tell is None. MIG devices have a UUID of their own in the newer call."""
    handle, text, size, raw = (
        ctypes.c_int(),
        ctypes.create_string_buffer(256),
        ctypes.c_size_t(),
        (ctypes.c_ubyte * 16)(),
    )
    facts: Facts = {"ordinal": ordinal, "name": None, "uuid": None, "pci": None, "memory_mib": None, "capability": None}
    code = cuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    if code:
        facts["error"] = f"cuDeviceGet: {code} {error_name(cuda, code)}"
        return facts
    uuid_of = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    if uuid_of is not None and uuid_of(raw, handle) == 0:
        digits = bytes(raw).hex()
        facts["uuid"] = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if cuda.cuDeviceGetName(text, 256, handle) == 0:
        facts["name"] = text.value.decode(errors="replace")
    if cuda.cuDeviceGetPCIBusId(text, 256, handle) == 0:
        facts["pci"] = text.value.decode(errors="replace")
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(size), handle) == 0:
        facts["memory_mib"] = size.value >> 20
    numbers = (ctypes.c_int(), ctypes.c_int())
    asked = zip(numbers, (_MAJOR, _MINOR), strict=True)
    if not any(cuda.cuDeviceGetAttribute(ctypes.byref(number), which, handle) for number, which in asked):
        facts["capability"] = [number.value for number in numbers]
    return facts


def nvml_view(facts: Facts) -> ctypes.CDLL | None:
    """The driver's version, and which GPUs are here whatever CUDA_VISIBLE_DEVICES hides. Absent when NVML fails."""
    nvml = load("libnvidia-ml.so.1", "nvml.dll")
    if nvml is None:
        facts["nvml_error"] = "not loaded"
        return None
    code = nvml.nvmlInit_v2()
    if code != 0:
        facts["nvml_error"] = f"nvmlInit: {code}"
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


def is_simulated(*libraries: ctypes.CDLL | None) -> bool:
    """Whether one of them is a stand-in for tests and lessons: those export a symbol that says so."""
    return any(hasattr(library, SIMULATED) for library in libraries if library)


# --- the driver as a witness -----------------------------------------------------------------------------------------


def report_driver(names: Container[str] = ()) -> Facts:
    """What the driver tells, with no library between it and this program."""
    facts = head()
    facts["env"] = relevant(names)  # cuInit reads the variables: they are taken down just before
    before = time.perf_counter()
    cuda = load_driver(facts)
    if cuda is not None:
        facts["devices"] = [device(cuda, i) for i in range(start(cuda, facts))]
    facts["seconds"]["cuda"] = time.perf_counter() - before
    before = time.perf_counter()
    nvml = _patiently(facts, nvml_view)
    facts["seconds"]["nvml"] = time.perf_counter() - before
    facts["simulated"] = is_simulated(cuda, nvml)
    return facts


def _patiently(facts: Facts, ask: Callable[[Facts], ctypes.CDLL | None]) -> ctypes.CDLL | None:
    """NVML's part, if it comes in time."""
    import _thread

    told: Facts = {}
    found: list[ctypes.CDLL | None] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            found.append(ask(told))
        finally:
            done.release()

    _thread.start_new_thread(work, ())
    if done.acquire(timeout=_NVML_PATIENCE):
        facts |= told
        return found[0] if found else None
    facts["nvml_error"] = f"no answer within {_NVML_PATIENCE:g} s"
    return None


def main(report: Callable[..., Facts] = report_driver) -> None:
    """``PARENT SECONDS NAMES…``: answer on a leash, print the facts as one line, and go without further ado."""
    parent, seconds, *names = sys.argv[1:]
    leash(int(seconds), parent=int(parent))
    watch_input()
    out = answer_pipe()
    line = json.dumps(report(names)).encode() + b"\n"
    while line:
        line = line[os.write(out, line) :]
    os._exit(0)  # an orderly end waits for a driver that may hang there too


if __name__ == "__main__":
    main()
