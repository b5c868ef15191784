"""What Linux itself tells of NVIDIA's GPUs, for where NVML is silent: /proc/driver/nvidia and sysfs.

Every function takes the folder that stands for ``/``. Whatever is missing or cannot be read is None.
Sources: sysfs-bus-pci in the kernel's ABI documents (vendor, class, numa_node, driver, physfn); the driver's README,
chapter on the /proc file system (one ``information`` file a GPU, ``version``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ..identity import PciBusId, is_full_uuid
from ..texts import say
from ..topology import Gpu, Topology

ROOT = Path("/")
_VENDOR = 0x10DE
_CLASSES = (0x0300, 0x0302)  # a VGA controller, a 3D controller
_MOST = 1 << 22  # bytes read of a file; the longest, pci.ids, has a third of that
_VERSION = re.compile(r"NVRM version:.{0,100}?\s(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")
_FIELD = re.compile(r"([A-Za-z ]{1,40}):[ \t]*([^\n]*)")
_PCI_IDS = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")


def linux_machine(reason: str, root: Path = ROOT) -> Topology | None:
    """The machine as Linux has it, with ``reason``, why NVML did not tell, among its notes; None without any GPU.

    NVML's numbers are not known then, nor memory and MIG: the GPUs stand in the order of their addresses.
    """
    notes = [reason, say("source.linux-only")]
    gpus = linux_gpus(root, notes)
    if not gpus:
        return None
    bare = [gpu_called(gpu) for gpu in gpus if gpu.uuid is None]
    if bare:
        notes.append(say("source.no-uuid", gpus=", ".join(bare)))
    if in_container(root):
        notes.append(say("source.container"))
    return Topology(gpus, driver_version=kernel_driver(root), source=say("source.linux"), notes=tuple(notes))


def linux_gpus(root: Path = ROOT, notes: list[str] | None = None) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that sysfs or the driver's folder in /proc lists, by address; ``notes`` gets what was left out.

    Virtual functions of a GPU are none of the machine's own, and are left out.
    """
    notes = [] if notes is None else notes
    devices = _devices(root)
    listed = _listed(root)
    codes = {address: _hex(folder / "device") for address, folder in devices.items()}
    unnamed = {codes[a] for a in devices if not listed.get(a, {}).get("Model")} - {None}
    names = _names(root) if unnamed else {}
    gpus = []
    for address in sorted({*devices, *listed}):
        told = listed.get(address)
        folder = devices.get(address)
        name = told.get("Model") if told else None
        gpu = Gpu(
            name=name or names.get(codes.get(address)),
            pci_bus_id=str(address),
            minor_number=_number(told.get("Device Minor")) if told else None,
            numa_node=numa_node(address, root),
            problem=_problem(told, folder, driver_lists=bool(listed)),
        )
        uuid = told.get("GPU UUID") if told else None
        known = uuid if uuid and "?" not in uuid else None  # question marks before the GPU's first use
        gpus.append(replace(gpu, uuid=whole_uuid(known, gpu_called(gpu), notes)))
    return distinct(gpus, notes)


def numa_node(address: PciBusId, root: Path = ROOT) -> int | None:
    """The NUMA node that the GPU hangs on; None where the kernel knows none (it writes -1)."""
    node = _number(_read(_devices_folder(root) / _kernel_spelling(address) / "numa_node"))
    return node if node is not None and node >= 0 else None


def kernel_driver(root: Path = ROOT) -> str | None:
    """Version of the NVIDIA driver that is loaded in the kernel."""
    match = _VERSION.match(_read(root / "proc/driver/nvidia/version") or "")
    return match[1] if match else _read(root / "sys/module/nvidia/version")


def in_container(root: Path = ROOT) -> bool:
    """Whether this looks like a container: a mark of Docker, Podman or Kubernetes, or an overlay as root folder."""
    if any(_exists(root / mark) for mark in (".dockerenv", "run/.containerenv", "run/secrets/kubernetes.io")):
        return True
    mounts = _read(root / "proc/self/mountinfo") or ""
    return any(" / / " in line and " - overlay " in line for line in mounts.splitlines())


def has_process(pid: int, root: Path = ROOT) -> bool:
    """Whether a process of that number can be seen from here; True where there is no /proc to look into."""
    return _exists(root / "proc" / str(pid)) or not _exists(root / "proc")


# ---- identities, for every source that asks a driver ----


def gpu_called(gpu: Gpu) -> str:
    """How notes call a GPU: by its number, else by its address."""
    if gpu.nvml_index is not None:
        return say("source.gpu-number", index=gpu.nvml_index)
    return say("source.gpu-address", bus=gpu.pci.short if gpu.pci else "?")


def whole_uuid(text: str | None, called: str, notes: list[str], prefix: str = "GPU-") -> str | None:
    """The UUID, or None with a note where it is none. MIG devices had other UUIDs before driver 470."""
    if text is None or (is_full_uuid(text) and text.startswith(prefix)):
        return text
    old_mig = text.removeprefix("MIG-").partition("/")
    if prefix == "MIG-" and is_full_uuid(old_mig[0]) and re.fullmatch(r"\d{1,3}/\d{1,3}", old_mig[2]):
        return text
    notes.append(say("source.no-such-uuid", gpu=called, value=text))
    return None


def whole_address(text: str | None, called: str, notes: list[str]) -> str | None:
    """The PCI address, or None with a note where it is none."""
    if text is None or PciBusId.parse(text):
        return text
    notes.append(say("source.no-such-address", gpu=called, value=text))
    return None


def distinct(gpus: Iterable[Gpu], notes: list[str]) -> tuple[Gpu, ...]:
    """The same GPUs without the UUIDs and addresses that several of them have: those identify none. Notes say so."""
    gpus = tuple(gpus)
    migs = [mig for gpu in gpus for mig in gpu.mig_instances]
    repeated = {
        *_repeated("source.repeated-uuid", (gpu.uuid for gpu in gpus), notes),
        *_repeated("source.repeated-address", (gpu.pci_bus_id for gpu in gpus), notes),
        *_repeated("source.repeated-mig", (mig.uuid for mig in migs), notes),
    }
    if not repeated:
        return gpus

    def kept(value: str | None) -> str | None:
        return None if value in repeated else value

    return tuple(
        replace(
            gpu,
            uuid=kept(gpu.uuid),
            pci_bus_id=kept(gpu.pci_bus_id),
            mig_instances=tuple(replace(mig, uuid=kept(mig.uuid)) for mig in gpu.mig_instances),
        )
        for gpu in gpus
    )


def _repeated(key: str, values: Iterable[str | None], notes: list[str]) -> list[str]:
    counts = Counter(value for value in values if value is not None)
    found = [value for value, count in counts.items() if count > 1]
    notes.extend(say(key, value=value, count=counts[value]) for value in found)
    return found


# ---- reading the two trees ----


def _devices_folder(root: Path) -> Path:
    return root / "sys/bus/pci/devices"


def _kernel_spelling(address: PciBusId) -> str:
    return f"{address.domain:04x}:{address.bus:02x}:{address.device:02x}.{address.function}"


def _entries(folder: Path) -> dict[PciBusId, Path]:
    """The entries of a folder that are named by a PCI address."""
    try:
        found = {PciBusId.parse(entry.name): entry for entry in folder.iterdir()}
    except OSError:
        return {}
    return {address: entry for address, entry in found.items() if address is not None}


def _devices(root: Path) -> dict[PciBusId, Path]:
    return {
        address: folder
        for address, folder in _entries(_devices_folder(root)).items()
        if _hex(folder / "vendor") == _VENDOR
        and (_hex(folder / "class") or 0) >> 8 in _CLASSES
        and not (folder / "physfn").is_symlink()
    }


def _listed(root: Path) -> dict[PciBusId, dict[str, str]]:
    """What the driver tells of each of its GPUs: ``Model``, ``GPU UUID``, ``Device Minor``, …"""
    found = {}
    for address, folder in _entries(root / "proc/driver/nvidia/gpus").items():
        fields = {match[1]: match[2].strip() for match in _FIELD.finditer(_read(folder / "information") or "")}
        found[address] = {key: value for key, value in fields.items() if value and value != "Unknown"}
    return found


def _problem(told: Mapping[str, str] | None, folder: Path | None, *, driver_lists: bool) -> str | None:
    """Why CUDA cannot have the GPU, where that shows."""
    if told is not None:
        excluded = told.get("GPU Excluded") or told.get("GPU Blacklisted") or told.get("Blacklisted")
        return say("source.excluded") if excluded == "Yes" else None
    driver = _target(folder / "driver") if folder else None
    if driver == "nvidia":
        return say("source.not-given") if driver_lists else None
    return say("source.other-driver", driver=driver) if driver else say("source.no-driver")


def _names(root: Path) -> dict[int | None, str]:
    """Device id → the name that lspci prints, from the list of PCI ids where it is installed."""
    text = next(filter(None, (_read(root / path) for path in _PCI_IDS)), "")
    _, _, ours = f"\n{text}".partition(f"\n{_VENDOR:04x}  ")
    block = re.split(r"\n(?=[0-9a-f])", ours, maxsplit=1)[0]
    rows = re.finditer(r"\n\t([0-9a-f]{4})  ([^\n]+)", block)
    return {int(code, 16): name.rpartition("[")[2].removesuffix("]") for code, name in (row.groups() for row in rows)}


def _read(path: Path) -> str | None:
    """The text of a file without the blanks around it; None where it cannot be read or is empty."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode(errors="replace").strip() or None
    except OSError:
        return None


def _exists(path: Path) -> bool:
    """Whether it is there, as far as this user may look."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _target(link: Path) -> str | None:
    """The name at the end of a symbolic link; None where there is none."""
    try:
        return link.readlink().name
    except OSError:
        return None


def _hex(path: Path) -> int | None:
    text = _read(path) or ""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else None
