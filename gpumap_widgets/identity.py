"""What names a GPU: PCI addresses, UUIDs, and numbers that must not be mixed up.

A board has many numbers. Only two of them identify it: the UUID always, the PCI address as long as it stays in its
slot. The rest are places in somebody's list, and each list is a type of its own here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, NewType

from .errors import ImpossibleMachine

NvmlIndex = NewType("NvmlIndex", int)
"""Place in NVML's and nvidia-smi's list."""
Ordinal = NewType("Ordinal", int)
"""Number inside one process: the i of ``cuda:i``."""
MinorNumber = NewType("MinorNumber", int)
"""The N of ``/dev/nvidiaN``; neither of the other two."""

_PCI = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", re.ASCII)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class PciBusId(NamedTuple):
    """A PCI address. Tools spell it in five ways (domain of 4 or 8 digits or none, upper or lower case, with or
    without the function), so it is compared as integers, in the order that the driver sorts by.

    Source: NVML prints ``%08X:%02X:%02X.0`` (nvml.h, NVML_DEVICE_PCI_BUS_ID_FMT), cuDeviceGetPCIBusId four digits of
    domain, Linux sysfs lower case.
    """

    domain: int
    bus: int
    device: int
    function: int = 0

    @classmethod
    def parse(cls, text: str) -> PciBusId | None:
        """Read any spelling; None where ``text`` is no PCI address. A missing domain or function is 0."""
        match = _PCI.fullmatch(text.strip())
        if match is None:
            return None
        domain, bus, device, function = match.groups()
        if int(device, 16) > 0x1F:  # five bits by the PCI specification
            return None
        return cls(int(domain or "0", 16), int(bus, 16), int(device, 16), int(function or "0"))

    def __str__(self) -> str:
        return f"{self.domain:08X}:{self.bus:02X}:{self.device:02X}.{self.function}"

    @property
    def short(self) -> str:
        """The address as people say it: ``5E:00.0``, with the domain only where it is not 0."""
        tail = f"{self.bus:02X}:{self.device:02X}.{self.function}"
        return f"{self.domain:04X}:{tail}" if self.domain else tail


def normal_pci(text: str) -> str:
    """NVML's spelling of a PCI address.

    Raises ImpossibleMachine when the text is no PCI address.
    """
    address = PciBusId.parse(text)
    if address is None:
        raise ImpossibleMachine(f"{text!r} is not a PCI address.", remedy="Write it like 00000000:5E:00.0 or 5E:00.0.")
    return str(address)


def is_full_uuid(text: str) -> bool:
    """Whether ``text`` is a complete ``GPU-…`` or ``MIG-…`` UUID (36 characters behind the prefix)."""
    return _UUID.fullmatch(text) is not None


def bare_uuid(text: str) -> str:
    """A UUID without its ``GPU-`` or ``MIG-`` prefix, in lower case: the one form in which NVML, CUDA and torch agree."""
    return text.strip().removeprefix("GPU-").removeprefix("MIG-").lower()


class PrefixIndex:
    """Finds the UUIDs that begin with a text, in O(log n): the driver accepts any unique prefix."""

    def __init__(self, uuids: Sequence[str | None]) -> None:
        """``uuids`` by position; None where a position has none."""
        self._pairs = sorted((uuid, position) for position, uuid in enumerate(uuids) if uuid is not None)
        self._keys = [uuid for uuid, _ in self._pairs]
        self._places = dict(self._pairs)
        self.complete = len(self._pairs) == len(uuids)
        """Whether every position has a UUID."""

    def place_of(self, uuid: str) -> int | None:
        """Position of a complete UUID (case counts); None where nobody has it."""
        return self._places.get(uuid)

    def starting_with(self, prefix: str, limit: int = 2) -> list[int]:
        """Positions whose UUID starts with ``prefix`` (case counts), at most ``limit`` of them."""
        start = bisect_left(self._keys, prefix)
        found = []
        for uuid, position in self._pairs[start : start + limit]:
            if not uuid.startswith(prefix):
                break
            found.append(position)
        return found
