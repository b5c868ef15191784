"""Options whose values only the process that is started will know: filled in when its environment is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..certainty import Certainty
from ..topology import Topology
from .base import Apply, Outcome, View
from .telling import Teller
from .words import fill

_COUNTED = re.compile(r"\$\(\s*nvidia-smi\s+(?:-L|--list-gpus)\s*\|\s*(?:wc\s+-l|grep\s+-c\s+\S+)\s*\)")
"""The usual way to count GPUs in a command: it counts what nvidia-smi shows, whatever the list says."""


def expanding(apply: Apply, harmless: Iterable[str] = ()) -> Apply:
    """The same function, with ``expand`` (templates by option) filled in and ``unknown`` (shell text by option) refused.

    ``harmless``: options that change no GPU; an unknown one is left out.
    """
    passed_over = frozenset(harmless)

    def filled(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
        known = dict(options)
        known |= {key: fill(text, view.env) for key, text in known.pop("expand", {}).items()}
        for key, text in known.pop("unknown", {}).items():
            if key in passed_over:
                continue
            if not _COUNTED.fullmatch(text):
                return Teller.refused("error.option-unknown", (), Certainty.UNKNOWN, option=key, text=text)
            known[key] = str(len(topology.gpus if view.accessible is None else view.accessible))
        return apply(view, known, topology)

    return filled
