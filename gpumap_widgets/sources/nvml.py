"""This machine, through NVIDIA's management library (NVML). The only module that imports pynvml.

Any call may fail, for one GPU or for all of them: what NVML cannot tell is None, and a GPU that cannot be used is a row
with its reason, so that the numbers of the others stay. Links and processes change while a machine stays the same: they
are results of their own, joined to a machine by UUID. NVML does not read CUDA_VISIBLE_DEVICES and does not start CUDA.
Source of what a call means: nvml.h, unless another is named.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pynvml  # noqa: TID251 - the one place

from ..errors import NoDriver
from ..identity import PciBusId
from ..strength import CORES_PER_SM
from ..texts import say
from ..topology import Gpu, MigInstance, Platform, Topology
from . import linux

_PROBLEMS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "nvml.lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "nvml.reset",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "nvml.operating-system",
}
_REASONS = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "nvml.too-old",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml.not-loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml.mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission-at-all",
    pynvml.NVML_ERROR_UNKNOWN: "nvml.unknown-at-all",  # NVIDIA/nvidia-docker issue 1730
}
_GONE = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
_ABSENT = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED)
_LACKING = (AttributeError, TypeError, getattr(pynvml, "NVMLLibraryMismatchError", AttributeError))
_NOT_A_NUMBER = (None, 2**32 - 1, 2**64 - 1)  # NVML_VALUE_NOT_AVAILABLE, in both sizes
_LEVELS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t as `nvidia-smi topo -m` prints it."""
_P2P_NVLINK, _P2P_OK = 2, 0  # nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t
_MOST_MIG, _MOST_LINKS = 64, 36
_BUSY_MIB = 100  # more memory in use than this is somebody's, not the driver's own


def this_machine(*, root: Path = linux.ROOT) -> Topology:
    """The GPUs of this machine in NVML order; each that cannot be used is there with its reason.

    Where NVML does not start, what Linux lists (below ``root``), with a note. Raises NoDriver where that is nothing
    either, saying why NVML does not start and what to do. May be called from any thread: NVML counts who uses it.
    """
    try:
        with _session():
            return _sweep(root)
    except pynvml.NVMLError as exc:
        reason = _reason(exc, root)
        machine = linux.linux_machine(reason, root)
        if machine is None:
            raise NoDriver(reason, remedy=say("nvml.remedy")) from exc
        return replace(machine, platform=_platform(), simulated=_is_simulated())


# ---- asking ----


@contextmanager
def _session() -> Iterator[None]:
    _call("nvmlInit")
    try:
        yield
    finally:
        with suppress(pynvml.NVMLError):  # what was told stays told
            _call("nvmlShutdown")


def _call(name: str, *args: object) -> Any:
    """NVML's answer, texts as str. Raises NVMLError and nothing else: pynvml itself knows more ways to fail."""
    try:
        answer = getattr(pynvml, name)(*args)
    except _LACKING as exc:  # an older pynvml or library
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from exc
    except (OSError, UnicodeError) as exc:  # a crash inside a Windows library, a text that is none
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN) from exc
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


class _Device:
    """A handle, and what went wrong with it so far."""

    def __init__(self, handle: object) -> None:
        self.handle = handle
        self.errors: list[pynvml.NVMLError] = []

    def ask(self, name: str, *args: object) -> Any:
        """NVML's answer about this device, or None where it has none."""
        try:
            return _call(name, self.handle, *args)
        except pynvml.NVMLError as exc:
            if exc.value == pynvml.NVML_ERROR_UNINITIALIZED:  # somebody shut NVML down for all: no row is to blame
                raise
            self.errors.append(exc)
            return None

    def number(self, name: str, *args: object) -> int | None:
        """The same for a number."""
        answer = self.ask(name, *args)
        return None if answer in _NOT_A_NUMBER else int(answer)

    def migs(self) -> Iterator[tuple[int, _Device]]:
        """The MIG devices by their number; gaps are normal."""
        for number in range(min(self.number("nvmlDeviceGetMaxMigDeviceCount") or 0, _MOST_MIG)):
            handle = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:
                yield number, _Device(handle)


def _bus_id(info: Any) -> str | None:
    """The address in an nvmlPciInfo_t. Reading the field decodes it."""
    try:
        text = getattr(info, "busId", None)
        return text.decode(errors="replace") if isinstance(text, bytes) else text
    except UnicodeDecodeError as exc:
        return repr(exc.object)


def _mib(size: int | None) -> int | None:
    return None if size in _NOT_A_NUMBER else size // 2**20


def _is_simulated() -> bool:
    """Whether the loaded library is a stand-in for tests and lessons: those export a symbol that says so."""
    libraries = (getattr(place, "nvmlLib", None) for place in (pynvml, getattr(pynvml, "nvml", None)))
    return any(library is not None and hasattr(library, "gpumap_simulated_driver") for library in libraries)


def _reason(error: pynvml.NVMLError, root: Path) -> str:
    """Why NVML does not work here, in a sentence."""
    key, driver = _REASONS.get(error.value, "nvml.other"), linux.kernel_driver(root)
    cause, told = error.__context__, str(error.__context__)
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        # pynvml has one error for a library that is missing and for one that is broken; the loader told them apart
        absent = cause is None or "not find" in told or ("No such file" in told and "nvidia-ml" in told)
        key = "nvml.does-not-load" if not absent else "nvml.library-missing" if driver else "nvml.no-library"
    return say(key, error=_said(cause if key == "nvml.does-not-load" else error), driver=driver)


def _said(error: object) -> str:
    return str(error).rstrip(".")


# ---- rows ----


def _sweep(root: Path) -> Topology:
    simulated = _is_simulated()
    tree = None if simulated else root  # what is invented has no place in the kernel's lists
    notes: list[str] = []
    gpus = linux.distinct([_gpu(index, tree, notes) for index in range(_call("nvmlDeviceGetCount"))], notes)
    if not gpus:
        notes.append(say("nvml.none"))
    driver = None
    with suppress(pynvml.NVMLError):
        driver = _call("nvmlSystemGetDriverVersion")
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
        say("source.not-listed-one", bus=gpu.pci.short, why=_said(gpu.problem)) if gpu.problem else gpu.pci.short
        for gpu in linux.linux_gpus(root)
        if gpu.pci and gpu.pci not in known
    ]
    if shown and None not in known:
        yield say("source.not-listed", gpus=", ".join(shown))


def _gpu(index: int, root: Path | None, notes: list[str]) -> Gpu:
    gpu = Gpu(nvml_index=index)
    try:
        device = _Device(_call("nvmlDeviceGetHandleByIndex", index))
    except pynvml.NVMLError as exc:
        if exc.value == pynvml.NVML_ERROR_UNINITIALIZED:
            raise
        return replace(gpu, problem=_problem(exc))
    called = linux.gpu_called(gpu)
    address = linux.whole_address(_bus_id(device.ask("nvmlDeviceGetPciInfo")), called, notes)
    capability = device.ask("nvmlDeviceGetCudaComputeCapability")
    mode = device.ask("nvmlDeviceGetMigMode")
    gpu = Gpu(
        nvml_index=index,
        name=device.ask("nvmlDeviceGetName") or None,
        uuid=linux.whole_uuid(device.ask("nvmlDeviceGetUUID"), called, notes),
        pci_bus_id=address,
        memory_mib=_mib(getattr(device.ask("nvmlDeviceGetMemoryInfo"), "total", None)),
        compute_capability=(int(capability[0]), int(capability[1])) if capability else None,
        sm_count=_sm_count(device.number("nvmlDeviceGetNumGpuCores"), capability),
        minor_number=device.number("nvmlDeviceGetMinorNumber"),
        numa_node=_numa_node(device, address, root),
        mig_mode=bool(mode[0]) if mode else None,
        mig_instances=_instances(device, called, notes) if mode and mode[0] else (),
    )
    lost = [error for error in device.errors if error.value in _GONE]
    if not lost and not (gpu.name or gpu.uuid or gpu.pci_bus_id):
        lost = device.errors  # a handle that tells nothing
    return replace(gpu, problem=_problem(lost[0])) if lost else gpu


def _problem(error: pynvml.NVMLError) -> str:
    return say(_PROBLEMS.get(error.value, "nvml.unusable"), error=_said(error))


def _sm_count(cores: int | None, capability: Sequence[int] | None) -> int | None:
    """SMs from NVML's core count; None where either is unknown or they do not fit."""
    per_sm = CORES_PER_SM.get((capability[0], capability[1])) if capability is not None else None
    return cores // per_sm if cores and per_sm and cores % per_sm == 0 else None


def _numa_node(device: _Device, address: str | None, root: Path | None) -> int | None:
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


def _instances(device: _Device, called: str, notes: list[str]) -> tuple[MigInstance, ...]:
    found, before = [], len(device.errors)
    for number, mig in device.migs():
        found.append(
            MigInstance(
                uuid=linux.whole_uuid(mig.ask("nvmlDeviceGetUUID"), called, notes, "MIG-"),
                profile=(mig.ask("nvmlDeviceGetName") or "").rpartition("MIG ")[2] or None,
                gpu_instance_id=mig.number("nvmlDeviceGetGpuInstanceId"),
                compute_instance_id=mig.number("nvmlDeviceGetComputeInstanceId"),
                memory_mib=_mib(getattr(mig.ask("nvmlDeviceGetMemoryInfo"), "total", None)),
                mig_index=number,
            )
        )
        device.errors += [error for error in mig.errors if error.value in _GONE]
    hidden = {_said(error) for error in device.errors[before:] if error.value not in (*_ABSENT, *_GONE)}
    notes.extend(say("nvml.mig-hidden", gpu=called, error=error) for error in sorted(hidden))
    return tuple(found)


# ---- links ----


@dataclass(frozen=True)
class LinkMatrix:
    """How the GPUs of a machine reach each other."""

    gpus: tuple[str | None, ...]
    """UUIDs, in the order of the machine's ``gpus``."""
    cells: tuple[tuple[str | None, ...], ...]
    """As nvidia-smi topo prints them: ``X``, ``NV4``, PSB, PIX, PXB, PHB, NODE, SYS; None where NVML does not tell."""
    notes: tuple[str, ...] = ()


def links(machine: Topology, *, root: Path = linux.ROOT) -> LinkMatrix:
    """How those GPUs of ``machine`` that are on this one are linked. Never raises; ``notes`` say what is missing."""
    gpus = machine.gpus
    cells: list[list[str | None]] = [["X" if a == b else None for b in range(len(gpus))] for a in range(len(gpus))]
    notes: list[str] = []
    try:
        with _session():
            reached = _reached(machine, notes)
            ends = {i: _nvlinks(place, linux.gpu_called(gpus[i]), notes) for i, place in reached.items()}
            for a, b in combinations(reached, 2):
                cells[a][b] = cells[b][a] = _link(reached, ends, a, b)
            unknown = [
                say("nvml.links-pair", a=linux.gpu_called(gpus[a]), b=linux.gpu_called(gpus[b]))
                for a, b in combinations(reached, 2)
                if cells[a][b] is None
            ]
            if unknown:
                notes.append(say("nvml.links-unknown", pairs="; ".join(unknown)))
    except pynvml.NVMLError as exc:
        notes.append(_reason(exc, root))
    return LinkMatrix(tuple(gpu.uuid for gpu in gpus), tuple(map(tuple, cells)), tuple(notes))


class _Place(NamedTuple):
    handle: object
    address: PciBusId | None


def _reached(machine: Topology, notes: list[str]) -> dict[int, _Place]:
    """Those of the machine's GPUs that NVML reaches here, by position; ``notes`` name the others."""
    here: dict[str | None, _Place] = {}
    for index in range(_call("nvmlDeviceGetCount")):
        with suppress(pynvml.NVMLError):
            device = _Device(_call("nvmlDeviceGetHandleByIndex", index))
            address = PciBusId.parse(_bus_id(device.ask("nvmlDeviceGetPciInfo")) or "")
            here[device.ask("nvmlDeviceGetUUID")] = _Place(device.handle, address)
    here.pop(None, None)
    found = {i: here[gpu.uuid] for i, gpu in enumerate(machine.gpus) if gpu.uuid in here}
    notes.extend(
        say("nvml.not-reached", gpu=linux.gpu_called(gpu)) for i, gpu in enumerate(machine.gpus) if i not in found
    )
    return found


def _nvlinks(place: _Place, called: str, notes: list[str]) -> Counter[PciBusId | None]:
    """How many active NVLinks lead to which address, a GPU's or a switch's; none, with a note, where that is hidden."""
    ends: Counter[PciBusId | None] = Counter()
    for number in range(_MOST_LINKS):
        try:
            if _call("nvmlDeviceGetNvLinkState", place.handle, number):
                remote = PciBusId.parse(_bus_id(_call("nvmlDeviceGetNvLinkRemotePciInfo", place.handle, number)) or "")
                if remote is None or place.address is None:
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
                ends[remote] += 1
        except pynvml.NVMLError as exc:
            if exc.value not in _ABSENT:
                notes.append(say("nvml.nvlink-unknown", gpu=called, error=_said(exc)))
                return Counter()
    return ends


def _link(places: Mapping[int, _Place], ends: Mapping[int, Counter[PciBusId | None]], a: int, b: int) -> str | None:
    """One cell. Links to a switch count where NVML says that the two reach each other over NVLink."""
    direct = max(ends[a][places[b].address], ends[b][places[a].address])
    gpus = {place.address for place in places.values()}
    switched = min(sum(n for end, n in ends[i].items() if end not in gpus) for i in (a, b))
    pair = _Device(places[a].handle)
    if direct or (switched and pair.ask("nvmlDeviceGetP2PStatus", places[b].handle, _P2P_NVLINK) == _P2P_OK):
        return f"NV{direct or switched}"
    return _LEVELS.get(pair.ask("nvmlDeviceGetTopologyCommonAncestor", places[b].handle))


# ---- processes ----


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
        with _session():
            for position, place in _reached(machine, notes).items():
                rows += _running_on(position, machine.gpus[position], _Device(place.handle), notes)
    except pynvml.NVMLError as exc:
        notes.append(_reason(exc, root))
    for key, pids in (
        ("nvml.memory-hidden", [row.pid for row in rows if row.memory_mib is None]),
        ("nvml.foreign-pids", [row.pid for row in rows if not linux.has_process(row.pid, root)]),
    ):
        if pids:
            notes.append(say(key, pids=", ".join(map(str, sorted(set(pids))))))
    return ProcessList(tuple(rows), tuple(notes))


def _running_on(position: int, gpu: Gpu, device: _Device, notes: list[str]) -> list[GpuProcess]:
    """A MIG device tells of its own processes; the whole GPU only to those with the right to know."""
    found: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    refused: set[str] = set()
    for handle in (*(mig for _, mig in device.migs()), device):
        for kind, letter in (("Compute", "C"), ("Graphics", "G")):
            for info in _infos(kind, handle, refused):
                ids = [getattr(info, name, None) for name in ("gpuInstanceId", "computeInstanceId")]
                gi, ci = (None if i in _NOT_A_NUMBER else int(i) for i in ids)
                if gi is None and handle is not device:
                    gi, ci = (handle.number(f"nvmlDeviceGet{what}InstanceId") for what in ("Gpu", "Compute"))
                key = (info.pid, gi, ci)
                if gi is None:  # the whole GPU's view of a process that is known already
                    key = next((k for k in found if k[0] == info.pid), key)
                row = GpuProcess(position, gpu.uuid, info.pid, _mib(info.usedGpuMemory), letter, gi, ci, None)
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


def _infos(kind: str, device: _Device, refused: set[str]) -> Sequence[Any]:
    """The processes of one kind; the library of a driver before 510 has the second version of the call only."""
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    try:
        try:
            return _call(name, device.handle) or ()
        except pynvml.NVMLError as exc:
            if exc.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
            return _call(f"{name}_v2", device.handle) or ()
    except pynvml.NVMLError as exc:
        if kind == "Compute" or exc.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
            refused.add(_said(exc))
        return ()


def _busy(device: _Device) -> int:
    """MiB in use. The older version of the call counts what the driver keeps for itself, so it says nothing here."""
    memory = device.ask("nvmlDeviceGetMemoryInfo", getattr(pynvml, "nvmlMemory_v2", 0))
    return (_mib(memory.used) or 0) if hasattr(memory, "reserved") else 0
