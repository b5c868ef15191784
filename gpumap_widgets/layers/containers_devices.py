"""What container runtimes take for the name of a GPU: two readers, NVIDIA's own two paths into a container.

``legacy``: nvidia-container-cli (libnvidia-container, src/cli/common.c, read at 1aea987). ``cdi``: the names of the
toolkit's CDI specification and of its jit-cdi mode (nvidia-container-toolkit v1.20, pkg/nvcdi, read). Both ask NVML;
neither reads CUDA_DEVICE_ORDER.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..frozen import FrozenDict
from ..identity import PciBusId
from ..topology import Topology
from .base import View

_PCI = re.compile(r"\s*([0-9a-f]{1,8}):\s*([0-9a-f]{1,2}):\s*([0-9a-f]{1,2})", re.ASCII | re.IGNORECASE)
"""``%x:%02x:%02x`` of C's sscanf, which does not look at what follows."""
_MIG = re.compile(r"\s*(\d{1,9}):\s*(\d{1,9})", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?\d{1,9}\Z", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII | re.IGNORECASE)
_EMPTY: Mapping[int, tuple[int, ...]] = FrozenDict()


class Named(NamedTuple):
    """What a list of names comes to."""

    positions: tuple[int, ...] = ()
    """Positions in ``topology.gpus``, in the order of the names, once each."""
    mig: Mapping[int, tuple[int, ...]] = _EMPTY
    """Position → MIG instances, where single ones are named, or none with a GPU in MIG mode that is named as a whole."""
    unknown: str | None = None
    """The first name that is none there; None when all are."""
    hidden: bool = False
    """Whether a name may be that of a GPU whose UUID or address the description does not show."""

    def same_gpus(self, other: Named) -> bool:
        """Whether two readings give a container the same devices."""
        refused = (self.unknown is None) == (other.unknown is None)
        return refused and set(self.positions) == set(other.positions) and dict(self.mig) == dict(other.mig)


class Reader(NamedTuple):
    """One path into a container."""

    gpu: Callable[[str, _Here], int | None]
    mig: Callable[[str, _Here], tuple[int, int] | None]
    drops_repeats: bool
    """Whether a repeated name is one device; else the list as a whole comes to nothing."""


class _Here(NamedTuple):
    """The machine as NVML counts it where the runtime runs."""

    topology: Topology
    view: View
    slots: tuple[int, ...]

    def by_index(self, index: int) -> int | None:
        """The GPU at an NVML index: the host's own number, or a place among what is left."""
        gpus = self.topology.gpus
        if self.view.accessible is None and all(gpu.nvml_index is not None for gpu in gpus):
            return next((i for i, gpu in enumerate(gpus) if gpu.nvml_index == index), None)
        return self.slots[index] if 0 <= index < len(self.slots) else None

    def by_uuid(self, uuid: str) -> int | None:
        folded = uuid.lower()
        return next((i for i in self.slots if (self.topology.gpus[i].uuid or "").lower() == folded), None)

    def by_mig_index(self, index: int, number: int) -> tuple[int, int] | None:
        position = self.by_index(index)
        if position is None:
            return None
        instances = self.view.instances(self.topology, position)
        found = self.topology.gpus[position].mig_instances
        if self.view.accessible is None and all(found[n].mig_index is not None for n in instances):
            return next(((position, n) for n in instances if found[n].mig_index == number), None)
        return (position, instances[number]) if number < len(instances) else None

    def by_mig_uuid(self, uuid: str) -> tuple[int, int] | None:
        folded = uuid.lower()
        for i in self.slots:
            gpu = self.topology.gpus[i]
            for n in self.view.instances(self.topology, i):
                mig = gpu.mig_instances[n]
                path = f"MIG-{gpu.uuid}/{mig.gpu_instance_id}/{mig.compute_instance_id}"
                if folded in ((mig.uuid or "").lower(), path.lower()):
                    return i, n
        return None


def _legacy_gpu(name: str, here: _Here) -> int | None:
    """A full UUID in any case, a PCI address with its domain, or a decimal NVML index."""
    position = here.by_uuid(name) if name[:4].upper() == "GPU-" else None
    address = _PCI.match(name)
    if position is None and address is not None:
        wanted = PciBusId(*(int(part, 16) for part in address.groups()))
        gpus = here.topology.gpus
        position = next((i for i in here.slots if (pci := gpus[i].pci) is not None and pci[:3] == wanted[:3]), None)
    if position is None and _NUMBER.match(name):
        position = here.by_index(int(name))
    return position


def _legacy_mig(name: str, here: _Here) -> tuple[int, int] | None:
    found = here.by_mig_uuid(name) if name[:4].upper() == "MIG-" else None
    numbers = _MIG.match(name)
    if found is None and numbers is not None:
        found = here.by_mig_index(int(numbers[1]), int(numbers[2]))
    return found


def _cdi_gpu(name: str, here: _Here) -> int | None:
    """A full UUID or a decimal NVML index; a PCI address is neither."""
    if _UUID.match(name):
        return here.by_uuid(name)
    return here.by_index(int(name)) if name.isascii() and name.isdigit() and len(name) < len("1000000000") else None


def _cdi_mig(name: str, here: _Here) -> tuple[int, int] | None:
    numbers = _MIG.fullmatch(name)
    if numbers is not None:
        return here.by_mig_index(int(numbers[1]), int(numbers[2]))
    return here.by_mig_uuid(name) if name.startswith("MIG-") else None


PATHS: Mapping[str, Reader] = {
    "legacy": Reader(_legacy_gpu, _legacy_mig, drops_repeats=True),
    "cdi": Reader(_cdi_gpu, _cdi_mig, drops_repeats=False),
}
"""The two paths of NVIDIA's toolkit."""


def everything(view: View, topology: Topology) -> Named:
    """``all``: every GPU that is left, with all MIG devices."""
    return Named(view.left(topology))


def named(names: Iterable[str], path: str, view: View, topology: Topology) -> Named:
    """The GPUs that names mean on one of `PATHS`, counted within what is left. Never raises.

    A GPU in MIG mode that is named as a whole comes without its instances: their device nodes are not there.
    """
    reader, here = PATHS[path], _Here(topology, view, view.left(topology))
    positions: dict[int, None] = {}
    instances: dict[int, list[int]] = {}
    listed = [name for name in names if name.strip()]
    if any(name.lower() == "all" for name in listed):
        return everything(view, topology)
    if not reader.drops_repeats and len(set(listed)) < len(listed):
        return Named()
    hidden = False
    for name in listed:
        position = reader.gpu(name, here)
        if position is None:
            mig = reader.mig(name, here)
            if mig is not None:
                position, number = mig
                instances.setdefault(position, []).append(number)
        elif topology.gpus[position].mig_mode:
            instances.setdefault(position, [])
        if position is None:
            position = _not_shown(name, positions, here)
            hidden = True
        if position is None:
            return Named(unknown=name)
        positions[position] = None
    mig_left = {i: tuple(sorted(set(numbers))) for i, numbers in instances.items()}
    return Named(tuple(positions), FrozenDict(mig_left), hidden=hidden)


def _not_shown(name: str, taken: Mapping[int, None], here: _Here) -> int | None:
    """A GPU that may have this name, for all that the description shows."""
    gpus = here.topology.gpus
    if _UUID.match(name):
        return next((i for i in here.slots if gpus[i].uuid is None and i not in taken), None)
    if _PCI.match(name):
        return next((i for i in here.slots if gpus[i].pci is None and i not in taken), None)
    return None
