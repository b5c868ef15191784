"""The environment of a live run: everything that this process has, with the scenario's variables and no others.

What is inherited decides which libraries are found (PATH, LD_LIBRARY_PATH, LD_PRELOAD, …) and is kept. What can touch
the numbering is replaced as a whole: a variable that the scenario leaves unset is absent, not empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..frozen import FrozenDict
from ..scenario import is_relevant

_PLACES = re.compile(r"CUDA_(HOME|ROOT|BIN_PATH|PATH(_V\d+_\d+)?|CACHE_(PATH|DISABLE|MAXSIZE)|MODULE_LOADING)")
"""Names that begin like GPU variables and say only where files lie or when code is loaded. torch for Windows finds its
libraries by CUDA_PATH, and sets CUDA_MODULE_LOADING itself."""


def touches_numbering(name: str) -> bool:
    """Whether an inherited variable of this name is taken out of a run whose scenario does not set it."""
    return is_relevant(name) and _PLACES.fullmatch(name) is None


def complete_environment(inherited: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The environment that the kernel is started with."""
    return {k: v for k, v in inherited.items() if not touches_numbering(k)} | dict(wanted)


def read_back(seen: Mapping[str, str], wanted: Mapping[str, str]) -> FrozenDict[str, str]:
    """The part of an environment that must equal ``wanted`` for the run to be the one that was asked for."""
    return FrozenDict({k: v for k, v in seen.items() if k in wanted or touches_numbering(k)})
