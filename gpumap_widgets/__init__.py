"""gpumap_widgets: which physical GPU is ``cuda:0``, in this process, under these settings, and why.

    sources ──► Topology ─┐
    layers ───────────────┴► Scenario ──► resolve ──► Prediction ──► views ──► widgets
                                                        │                        ▲
                                                        └────► live ──► Observation ──► compare ──► Comparison

>>> import gpumap_widgets as gm
>>> machine = gm.Topology.of("Tesla T4", "RTX 4090")
>>> gm.resolve(gm.Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": "0"})).nvml_indices
(1,)

Importing it loads no torch, pandas, plotly, ipywidgets or pynvml: names that need them load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .certainty import Certainty
from .errors import GpumapError, ImpossibleMachine, NoDriver, UnreadableScenario, UnreadableTopology
from .identity import PciBusId
from .mapping import Comparison, Device, Edge, Finding, Message, Observation, ObservedDevice, Prediction, Process, Step
from .resolver import resolve
from .scenario import Layer, Scenario
from .topology import Gpu, MigInstance, Topology

if TYPE_CHECKING:
    from .beliefs import believed_orders
    from .comparison import compare
    from .live import observe
    from .readings import tool_readings
    from .sources.nvml import links, processes, this_machine
    from .sources.presets import PRESETS, preset
    from .widgets.explorer import Explorer

__version__ = "0.1.0"

_LAZY = {
    "Explorer": ".widgets.explorer",
    "believed_orders": ".beliefs",
    "compare": ".comparison",
    "tool_readings": ".readings",
    "observe": ".live",
    "links": ".sources.nvml",
    "processes": ".sources.nvml",
    "this_machine": ".sources.nvml",
    "PRESETS": ".sources.presets",
    "preset": ".sources.presets",
}

__all__ = [
    "PRESETS",
    "Certainty",
    "Comparison",
    "Device",
    "Edge",
    "Explorer",
    "Finding",
    "Gpu",
    "GpumapError",
    "ImpossibleMachine",
    "Layer",
    "Message",
    "MigInstance",
    "NoDriver",
    "Observation",
    "ObservedDevice",
    "PciBusId",
    "Prediction",
    "Process",
    "Scenario",
    "Step",
    "Topology",
    "UnreadableScenario",
    "UnreadableTopology",
    "believed_orders",
    "compare",
    "links",
    "observe",
    "preset",
    "processes",
    "resolve",
    "this_machine",
    "tool_readings",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
