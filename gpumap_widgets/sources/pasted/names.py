"""What the name of an NVIDIA GPU looks like, and when two spellings name the same model."""

from __future__ import annotations

import re
from functools import lru_cache

from ...catalog import look_up

_BRAND = re.compile(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|TITAN|GRID|RTX|GTX|NVS|ION|Jetson|Tegra|Orin|Xavier|Thor|nvgpu|Graphics Device"
    r"|[ABHLVPTMKC]\d{1,4}[A-Z]{0,3}|G[BH]\d{2,3}|MX\d{3}|GT \d{3,4}|CMP \d{2}HX|DGX)\b",
    re.IGNORECASE,
)
_VENDOR = re.compile(r"\((?:r|tm)\)|\b(?:nvidia|corporation|geforce|graphics|gpu)\b", re.IGNORECASE)


@lru_cache(maxsize=512)
def looks_like_gpu(text: str) -> bool:
    """Whether a cell may be the name of an NVIDIA GPU."""
    name = text.strip(" \t\"'`")
    if not 2 <= len(name) <= 80 or name.isdigit() or not any(c.isalpha() for c in name):
        return False
    return _BRAND.search(name) is not None or look_up(name) is not None


def plain(name: str) -> str:
    """A name without the words that tools add or leave out."""
    return " ".join(_VENDOR.sub(" ", name.lower()).split())


def is_cut(name: str) -> bool:
    """nvidia-smi ends a name that does not fit with three points."""
    return name.rstrip().endswith("...")


def same_model(one: str | None, other: str | None) -> bool:
    """Whether two names may name the same board; an unknown or cut name agrees with all that fit."""
    if one is None or other is None:
        return True
    a, b = plain(one), plain(other)
    if is_cut(one) or is_cut(other):
        a, b = a.rstrip(". "), b.rstrip(". ")
        length = min(len(a) if is_cut(one) else len(b), len(b) if is_cut(other) else len(a))
        return a[:length] == b[:length]
    return a == b


def fuller(one: str, other: str) -> str:
    """The less cut of two names of the same board."""
    return other if is_cut(one) and not is_cut(other) and same_model(one, other) else one
