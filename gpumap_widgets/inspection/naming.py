"""A device that a driver showed, as the machine's own sources name it."""

from __future__ import annotations

from ..explanation import gpu_name
from ..identity import bare_uuid
from ..mapping import ObservedDevice
from ..topology import Topology


def place_of(device: ObservedDevice, machine: Topology | None) -> int | None:
    """Position in ``machine.gpus`` of a device that the driver showed; None where it is none of them."""
    for position, gpu in enumerate(machine.gpus if machine else ()):
        uuids = (gpu.uuid, *(mig.uuid for mig in gpu.mig_instances))
        if device.uuid is not None and device.uuid in {bare_uuid(uuid) for uuid in uuids if uuid}:
            return position
    return None


def full_uuid(device: ObservedDevice, machine: Topology | None) -> str | None:
    """Its UUID with the prefix that NVML gives it; without one where the machine does not have it."""
    for gpu in machine.gpus if machine else ():
        for known in (gpu.uuid, *(mig.uuid for mig in gpu.mig_instances)):
            if known and bare_uuid(known) == device.uuid:
                return known
    return device.uuid


def called(device: ObservedDevice, machine: Topology | None) -> str:
    """A device that the driver showed, as sentences name it."""
    position = place_of(device, machine)
    if machine is None or position is None:
        return device.name or device.uuid or "?"
    gpu = machine.gpus[position]
    mig = next((m for m in gpu.mig_instances if m.uuid and bare_uuid(m.uuid) == device.uuid), None)
    return gpu_name(gpu, mig)
