"""What the text around the lists tells: the platform, settings of the printing process, GPUs that fell off the bus."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...identity import PciBusId
from ...topology import Platform
from .clean import Text
from .records import BUS

_WSL = re.compile(r"microsoft-standard-wsl|wsl2?[ -]?(?:ubuntu|debian|kernel)|/usr/lib/wsl/|:/mnt/[a-z](?:/|[$#])|\bwsl2?\b",
                  re.IGNORECASE)
_WINDOWS = re.compile(r"(?:^|\n)\s{0,20}(?:PS )?[A-Z]:\\[^\n>]{0,200}>|OS: Microsoft Windows|Windows-1[01]-", re.IGNORECASE)
_SET = re.compile(r"\bCUDA_(VISIBLE_DEVICES|DEVICE_ORDER)\b[\"'\]]{0,2}\s{0,3}[=:]\s{0,3}[\"']?([\w,.:/-]{1,300})")
_KERNEL = re.compile(
    rf"NVRM:\s{{1,9}}(?:Xid \(PCI:({BUS[:-8]}(?:\.[0-7])?)\): (\d{{1,3}}),[^\n]{{0,200}}"
    r"|GPU (?:at )?(?:PCI:)?([0-9a-fA-F:]{7,16}(?:\.[0-7])?)[^\n]{0,40}?(?:has fallen off the bus|RmInitAdapter failed)[^\n]{0,60})"
)
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s{0,3}\d{0,3}:?\s{0,3}"
    r"([0-9a-fA-F:]{7,16}\.[0-7]):\s{1,9}([A-Za-z][^\n.]{0,60})",
    re.IGNORECASE,
)
FATAL_XIDS = {"79": "it has fallen off the bus", "119": "its GSP does not answer", "74": "NVLink error"}
"""Xid numbers after which a GPU does not come back without a reset. Source: NVIDIA, XID Errors."""


def platform_of(texts: Sequence[Text]) -> Platform | None:
    """WSL where the text names it, Windows by its prompts and reports; None where it does not show."""
    for text in texts:
        if ("wsl" in text.lower or "/mnt/" in text.lower) and _WSL.search(text.joined):
            return "wsl"
    for text in texts:
        if ("\\" in text.joined or "windows" in text.lower) and _WINDOWS.search(text.joined):
            return "windows"
    return None


def settings_in(texts: Sequence[Text]) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER where the text shows them set: what a log lists may rest on them."""
    found: dict[str, str] = {}
    for text in texts:
        if "cuda_" in text.lower:
            for match in _SET.finditer(text.joined):
                found.setdefault(f"CUDA_{match[1]}", match[2])
    return found


def failures_in(texts: Sequence[Text]) -> dict[PciBusId, tuple[str, int]]:
    """GPUs that a message says do not answer, by address: why, and the line."""
    found: dict[PciBusId, tuple[str, int]] = {}
    for text in texts:
        if "nvrm" in text.lower:
            for match in _KERNEL.finditer(text.joined):
                reason = FATAL_XIDS.get(match[2], "") if match[2] else " ".join(match[0].split()[-6:])
                address = PciBusId.parse(match[1] or match[3] or "")
                if address is not None and reason:
                    found[address] = (reason, text.line_at(match.start()))
        if "device handle" in text.lower:
            for match in _HANDLE.finditer(text.joined):
                if address := PciBusId.parse(match[1]):
                    found[address] = (" ".join(match[2].split()), text.line_at(match.start()))
    return found
