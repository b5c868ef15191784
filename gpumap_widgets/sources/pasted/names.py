"""What the name of an NVIDIA GPU looks like, and when two spellings name the same model."""

from __future__ import annotations

import re
from functools import lru_cache

from ...catalog import look_up

_FAMILY = r"GeForce|Tesla|Quadro|TITAN|GRID|RTX|GTX|NVS|Jetson|Tegra|Orin|Xavier|Thor|nvgpu|Graphics Device|CMP|DGX"
_HINT = re.compile(rf"\b(?:NVIDIA|{_FAMILY})\b", re.IGNORECASE)
_BARE_CHIP = re.compile(r"(?:NVIDIA )?[A-Z]{1,3}\d{2,4}[A-Z]{0,2}\b", re.IGNORECASE)
_WHOLE = re.compile(
    rf"(?:NVIDIA )?(?:(?:{_FAMILY})\b|[A-Z]{{1,3}}\d{{2,4}}[A-Z]{{0,2}}\b)[\w ()+./-]{{0,60}}(?:\.\.\.)?", re.IGNORECASE
)
_VENDOR = re.compile(r"\((?:r|tm)\)|\b(?:nvidia|corporation|geforce|graphics|gpu)\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|was|found|error|failed|driver|device\(s\)|available|memory|process(?:es)?|version|usage|gpus)\b",
    re.IGNORECASE,
)
_NOT_IN_NAMES = re.compile(r"[:=<>{}@\\|]")


@lru_cache(maxsize=1024)
def looks_like_gpu(text: str) -> bool:
    """Whether a cell, where a name may stand, can be the name of an NVIDIA GPU."""
    name = text.strip(" \t\"'`")
    if not 2 <= len(name) <= 80 or name.isdigit() or _NOT_IN_NAMES.search(name):
        return False
    return _HINT.search(name) is not None or _BARE_CHIP.match(name) is not None or look_up(name) is not None


@lru_cache(maxsize=1024)
def is_gpu_name(text: str) -> bool:
    """Whether a piece of a log, where anything may stand, is the name of an NVIDIA GPU and nothing else."""
    name = text.strip(" \t\"'`")
    if not looks_like_gpu(name) or _VERB.search(name):
        return False
    return look_up(name) is not None or (_WHOLE.fullmatch(name) is not None and any(c.isdigit() for c in name))


@lru_cache(maxsize=1024)
def plain(name: str) -> str:
    """A name without the words that tools add or leave out."""
    return " ".join(_VENDOR.sub(" ", name.lower()).split())


def rejoined(text: str) -> str:
    """A name over a line end: mailers break between words, terminals anywhere; the catalogue knows which it was."""
    parts = [part.strip() for part in text.split("\n")]
    together = "".join(parts)
    return together if len(parts) > 1 and look_up(" ".join(parts)) is None and look_up(together) else " ".join(parts)


def is_cut(name: str) -> bool:
    """nvidia-smi ends a name that does not fit with three points."""
    return name.rstrip().endswith("...")


def same_model(one: str | None, other: str | None) -> bool:
    """Whether two names may name the same board; an unknown or cut name agrees with all that fit."""
    if one is None or other is None or plain(one) == plain(other):
        return True
    return _begins(one, other) or _begins(other, one)


def _begins(cut: str, name: str) -> bool:
    """Whether a cut name may be the beginning of another, with or without the vendor's words."""
    if not is_cut(cut):
        return False
    for form in (str.lower, plain):
        head, whole = form(cut).rstrip(". "), form(name).rstrip(". ") if is_cut(name) else form(name)
        if whole.startswith(head) or (is_cut(name) and head.startswith(whole)):
            return True
    return False


def fuller(one: str, other: str) -> str:
    """The less cut of two names of the same board."""
    return other if is_cut(one) and not is_cut(other) and same_model(one, other) else one
