"""What the text around the lists tells: the platform, settings of the printing process, GPUs that fell off the bus."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from ...identity import PciBusId
from ...topology import Platform
from .cleaning import Text
from .records import driver

_WSL = re.compile(
    r"microsoft-standard-wsl|wsl2?[ -]?(?:ubuntu|debian|kernel)|/usr/lib/wsl/|:/mnt/[a-z](?:/|[$#])|\bwsl2?\b",
    re.IGNORECASE,
)
_WINDOWS = re.compile(
    r"(?:^|\n)\s{0,20}(?:PS )?[A-Z]:\\[^\n>]{0,200}>|[A-Z]:\\(?:Windows|Users|Program Files|tf_jenkins)\\|OS: Microsoft Windows"
    r"|Windows-1[01]-",
    re.IGNORECASE,
)
_SET = re.compile(
    r"\bCUDA_(VISIBLE_DEVICES|DEVICE_ORDER)\b[\"'\]]{0,2}\s{0,3}[=:,]\s{0,3}[\"']?"
    r"(\d[\d,]{0,200}|-1|(?:GPU|MIG)-[\w,./-]{1,300}|PCI_BUS_ID|FASTEST_FIRST|NoDevFiles)"
)
_UUID = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PLACE = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_XID = re.compile(rf"NVRM:\s{{1,9}}Xid \({_PLACE}\):\s{{0,9}}(\d{{1,3}})\b")
_KERNEL = re.compile(
    rf"NVRM:[^\n]{{0,40}}?\bGPU (?:at )?{_PLACE}[^\n]{{0,60}}?(fallen off the bus|RmInitAdapter failed|GPU is lost)"
)
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s{0,3}(?:(\d{1,3}):\s{1,3})?"
    r"(?:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):\s{1,9})?(?![\d:])([A-Za-z][^\n.]{0,60})",
    re.IGNORECASE,
)
_FATAL_XIDS = {"79": "fallen off the bus", "119": "GSP does not answer"}
"""Xid numbers after which a GPU does not come back without a reset. Source: NVIDIA, XID Errors."""
_DRIVER = re.compile(
    r"(?:Driver|KMD) Version\s{0,40}:\s{0,40}(\d[\d.]{3,15})|Kernel Module\s{1,9}(?:for x86_64\s{1,9})?(\d[\d.]{3,15})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Failure:
    """A GPU that a message says does not answer: where it is, as far as that is said, and why."""

    address: PciBusId | None
    index: int | None
    reason: str
    line: int

    @property
    def place(self) -> str:
        """How the message calls the GPU."""
        return str(self.address) if self.address else f"GPU {self.index}" if self.index is not None else "a GPU"


def platform_of(texts: Sequence[Text]) -> Platform | None:
    """WSL where the text names it, Windows by its prompts and reports; None where it does not show."""
    for text in texts:
        if ("wsl" in text.lower or "/mnt/" in text.lower) and _WSL.search(text.joined):
            return "wsl"
    for text in texts:
        if ("\\" in text.joined or "windows" in text.lower) and _WINDOWS.search(text.joined):
            return "windows"
    return None


def settings_in(texts: Sequence[Text]) -> dict[str, tuple[str, int]]:
    """CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER where the text shows them set, with the line: a log may rest on them."""
    found: dict[str, tuple[str, int]] = {}
    for text in texts:
        if "cuda_" in text.lower:
            for match in _SET.finditer(text.joined):
                found.setdefault(f"CUDA_{match[1]}", (match[2], text.line_at(match.start())))
    return found


def failures_in(texts: Sequence[Text]) -> list[Failure]:
    """What messages say about GPUs that do not answer, the last about each."""
    found: dict[object, Failure] = {}
    for text in texts:
        if "nvrm" in text.lower:
            for match in _XID.finditer(text.joined):
                if match[2] in _FATAL_XIDS:
                    reason = f"Xid {match[2]}, {_FATAL_XIDS[match[2]]}"
                    found[match[1]] = Failure(PciBusId.parse(match[1]), None, reason, text.line_at(match.start()))
            for match in _KERNEL.finditer(text.joined):
                found[match[1]] = Failure(PciBusId.parse(match[1]), None, match[2], text.line_at(match.start()))
        if "device handle" in text.lower:
            for match in _HANDLE.finditer(text.joined):
                reason = " ".join(match[3].split())
                index = int(match[1]) if match[1] else None
                failure = Failure(PciBusId.parse(match[2] or ""), index, reason, text.line_at(match.start()))
                found[failure.place] = failure
    return list(found.values())


def driver_in(texts: Sequence[Text]) -> str | None:
    """The driver version that stands outside of all lists, such as the header of a table without rows."""
    for text in texts:
        if "version" in text.lower or "kernel module" in text.lower:
            for match in _DRIVER.finditer(text.joined):
                if version := driver(match[1] or match[2]):
                    return version
    return None


def unlisted_uuids(texts: Sequence[Text], listed: Container[str]) -> list[str]:
    """Notes on UUIDs of GPUs that stand somewhere, but in no list that was understood."""
    found: dict[str, int] = {}
    for text in texts:
        for at in text.places("GPU-"):
            match = _UUID.match(text.joined, at)
            if match and match[0] not in listed and text.joined[max(0, at - 4) : at] != "MIG-":
                found.setdefault(match[0], text.line_at(at))
    return [
        f"Line {line} names {uuid}, which is in no list that was understood." for uuid, line in list(found.items())[:4]
    ]
