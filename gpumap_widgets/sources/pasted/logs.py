"""How programs print CUDA devices: deviceQuery, TensorFlow, JAX, llama.cpp, torch loops and others.

Their numbers are CUDA ordinals. Each row of `LOGS` is one way to print a device; adding a program adds a row. Groups:
``n`` the ordinal, ``name``, ``bus`` an address or ``dom``/``dec``/``dev`` its parts in decimal (``hex`` for a bus in
hexadecimal), ``cc`` the capability, ``mem`` the memory with its unit, ``sm``, ``uuid``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .records import BUS

_NAME = r"(?P<name>[^\n,|\"'()\[\]]{1,60}?(?:\([^()\n]{1,20}\))?[^\n,|\"'()\[\]]{0,30}?)"
_UUID = r"\b(?:GPU-)?(?P<uuid>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\b"
_CC = r"[Cc]ompute [Cc]apability:?\s{1,9}(?P<cc>\d{1,2}\.\d)"


class Log(NamedTuple):
    """A way to print a CUDA device."""

    program: str
    words: tuple[str, ...]
    """What the pattern of the head begins with: it is tried where one of these stands."""
    head: re.Pattern[str]
    """Where a device begins."""
    rest: tuple[re.Pattern[str], ...] = ()
    """What may follow before the next device."""


def _log(program: str, words: str | tuple[str, ...], head: str, *rest: str) -> Log:
    words = (words,) if isinstance(words, str) else words
    return Log(program, words, re.compile(head), tuple(re.compile(pattern) for pattern in rest))


LOGS = (
    _log(
        "deviceQuery",
        "Device ",
        r"\bDevice\s{1,9}(?P<n>\d{1,3}):\s{1,9}[\"'](?P<name>[^\"'\n]{1,80})[\"']",
        r"CUDA Capability Major/Minor version number:\s{1,99}(?P<cc>\d{1,2}\.\d)",
        r"Total amount of global memory:\s{1,99}(?P<mem>\d{1,7}\sMBytes)",
        r"\((?P<sm>\d{1,4})\)\s{0,3}Multiprocessors",
        r"PCI Domain ID / Bus ID / location ID:\s{1,99}(?P<dom>\d{1,9})\s{0,3}/\s{0,3}(?P<dec>\d{1,3})\s{0,3}/\s{0,3}(?P<dev>\d{1,3})",
        r"Device PCI Bus ID / PCI location ID:\s{1,99}(?P<dec>\d{1,3})\s{0,3}/\s{0,3}(?P<dev>\d{1,3})",
    ),
    _log(
        "TensorFlow log",
        ("Found device", "Found\ndevice"),
        r"Found\s{1,9}device\s{1,9}(?P<n>\d{1,3})\s{1,9}with\s{1,9}properties:",
        r"name:\s{1,9}(?P<name>[^\n]{1,80}?)(?=\s{1,9}(?:major|computeCapability|pciBusID)\b|\n)",
        r"major:\s{0,9}(?P<major>\d{1,2})\s{1,9}minor:\s{0,9}(?P<minor>\d)\b",
        r"computeCapability:\s{0,9}(?P<cc>\d{1,2}\.\d)",
        rf"pciBusID:?\s{{0,9}}(?P<bus>{BUS})",
        r"(?:[Tt]otal ?[Mm]emory|deviceMemorySize):\s{0,9}(?P<mem>[\d.]{1,9}\s?[GM]iB)",
        r"coreCount:\s{0,9}(?P<sm>\d{1,4})\b",
    ),
    _log(
        "TensorFlow log",
        "device:",
        rf"\bdevice:\s{{1,9}}(?P<n>\d{{1,3}}),\s{{1,9}}name:\s{{1,9}}(?P<name>[^,\n]{{1,60}}(?:\n[^,\n]{{1,40}})?),"
        rf"\s{{1,9}}pci\s{{1,9}}bus\s{{1,9}}id:\s{{1,9}}(?P<bus>{BUS})(?:,\s{{1,9}}compute\s{{1,9}}capability:\s{{1,9}}(?P<cc>\d{{1,2}}\.\d))?",
    ),
    _log(
        "XLA log",
        "StreamExecutor device",
        rf"StreamExecutor device \((?P<n>\d{{1,3}})\):\s{{1,9}}{_NAME},\s{{1,9}}{_CC}",
    ),
    _log(
        "llama.cpp log",
        "Device ",
        rf"\bDevice (?P<n>\d{{1,3}}):\s{{1,9}}{_NAME},\s{{1,9}}{_CC}(?:[^\n]{{0,80}}?VRAM:\s{{1,9}}(?P<mem>\d{{1,7}} MiB))?",
    ),
    _log(
        "llama.cpp log",
        "using device CUDA",
        rf"using device CUDA(?P<n>\d{{1,3}}) \({_NAME}\)(?:\s{{1,9}}\((?P<bus>{BUS})\))?",
    ),
    _log(
        "llama.cpp log",
        "CUDA",
        rf"\bCUDA(?P<n>\d{{1,3}}):\s{{1,9}}{_NAME}\s{{1,9}}\((?P<mem>\d{{1,7}} MiB), \d{{1,7}} MiB free",
    ),
    _log(
        "CUDA sample",
        "Device",
        r"\bDevice:?\s{1,9}(?P<n>\d{1,3}),\s{1,9}(?P<name>[^,\n]{1,60}),\s{1,9}pciBusID:\s{0,9}(?P<hex>[0-9a-f]{1,2}),"
        r"\s{1,9}pciDeviceID:\s{0,9}(?P<hexdev>[0-9a-f]{1,2})(?:,\s{1,9}pciDomainID:\s{0,9}(?P<hexdom>[0-9a-f]{1,8}))?",
    ),
    _log(
        "NCCL test",
        "device ",
        r"\bdevice\s{1,9}(?P<n>\d{1,3}) \[(?:0x(?P<hex>[0-9a-f]{1,2})|(?P<place>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}))\]\s{1,9}(?P<name>[^\n]{1,60})",
    ),
    _log(
        "torch device properties",
        "_CudaDeviceProperties(",
        r"_CudaDeviceProperties\(name='(?P<name>[^'\n]{1,80})'",
        r"\bmajor=(?P<major>\d{1,2}),\s{1,9}minor=(?P<minor>\d)",
        r"\btotal_memory=(?P<mem>\d{1,7}MB)",
        r"\bmulti_processor_count=(?P<sm>\d{1,4})",
        r"\buuid=(?P<uuid>[0-9a-f-]{36})",
        r"\bpci_bus_id=(?P<dec>\d{1,3}),\s{1,9}pci_device_id=(?P<dev>\d{1,3})(?:,\s{1,9}pci_domain_id=(?P<dom>\d{1,9}))?",
    ),
    _log(
        "numba.cuda.detect",
        "id ",
        r"\bid (?P<n>\d{1,3})\s{1,40}b?'(?P<name>[^'\n]{1,60})'",
        r"(?i:compute capability):\s{1,9}(?P<cc>\d{1,2}\.\d)",
        r"(?i:pci device id):\s{1,9}(?P<dev>\d{1,3})\s{1,40}(?i:pci bus id):\s{1,9}(?P<dec>\d{1,3})",
        r"UUID:\s{1,9}(?P<uuid>GPU-[0-9a-fA-F-]{36})",
    ),
    _log(
        "cupy.show_config",
        "Device ",
        r"\bDevice (?P<n>\d{1,3}) Name\s{0,40}:\s{1,9}(?P<name>[^\n]{1,60})",
        r"Device \d{1,3} PCI Bus ID\s{0,40}:\s{1,9}(?P<bus>[0-9A-Fa-f:]{4,14}\.[0-7])",
    ),
    _log(
        "YOLO log",
        "CUDA:",
        r"\bCUDA:(?P<n>\d{1,3}) \((?P<name>[^,()\n]{1,60}(?:\([^()\n]{1,20}\))?), (?P<mem>\d{1,7}(?:\.\d)? ?Mi?B)\)",
    ),
    _log(
        "cuda:i loop",
        "cuda:",
        rf"\bcuda:(?P<n>\d{{1,3}})[)\]'\"]?\s{{0,9}}(?:[:=|-]|->|is)?>?\s{{0,9}}['\"(]?{_NAME}(?=['\",()\[|\n]|\s{{2}}|\s-|$)",
        _UUID,
    ),
    _log(
        "torch.cuda.get_device_name",
        "get_device_name(",
        rf"get_device_name\((?P<n>\d{{1,3}})\)\)?\s{{0,9}}(?:[=:#-]>?\s{{0,9}})?(?:prints?:?\s{{1,9}}|Out\[\d{{1,4}}\]:\s)?['\"]?{_NAME}(?=['\"\n]|$)",
    ),
    _log(
        "GROMACS log",
        "#",
        rf"#(?P<n>\d{{1,3}}): (?:NVIDIA (?=NVIDIA ))?{_NAME}, compute cap\.: (?P<cc>\d{{1,2}}\.\d)",
    ),
    _log(
        "list of CUDA devices",
        ("Device", "device", "DEVICE"),
        rf"\b(?i:device)\s{{0,2}}#?(?P<n>\d{{1,3}})\s{{0,2}}(?:[:=]|->|-|is)\s{{0,9}}['\"]?{_NAME}(?=['\",(\[|\n]|\s-|$)",
        _UUID,
    ),
    _log("jax.devices()", ("CudaDevice(", "GpuDevice("), r"(?:Cuda|Gpu)Device\(id=(?P<n>\d{1,3})"),
    _log("TensorFlow device list", "PhysicalDevice(", r"PhysicalDevice\(name='/physical_device:GPU:(?P<n>\d{1,3})'"),
)
"""Most telling first: where several rows read the same devices, the first one's ordinals count."""
NUMBERED = re.compile(
    rf"[ \t]{{0,20}}[\[(]?(?P<n>\d{{1,3}})[\])]?\s{{0,2}}(?:[:=)]|->)?[ \t]{{1,9}}['\"]?{_NAME}(?=['\",(\[|\n]|\s-|$)"
)
"""A bare number and a name on a line of their own."""
NAMELESS = ("jax.devices()", "TensorFlow device list")
"""They print ordinals alone."""
LOOSE = ("list of CUDA devices", "cuda:i loop")
"""Patterns so wide that they may meet the lines of other tools."""
LOOSE_UUID = re.compile(_UUID)
