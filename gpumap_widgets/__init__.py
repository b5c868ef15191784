"""gpumap_widgets: which physical GPU is ``cuda:0``, in this process, under these settings, and why.

    sources ──► Topology ─┐
    layers ───────────────┴► Scenario ──► resolve ──► Prediction ──► views ──► widgets
                                                        │                        ▲
                                                        └────► live ──► Observation ──► compare ──► Comparison

>>> import gpumap_widgets as gm
>>> machine = gm.Topology.of("Tesla T4", "RTX 4090")
>>> gm.resolve(gm.Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": "0"})).nvml_indices
(1,)

Importing it loads nothing: every public name loads on first use, and only those that need pandas, plotly, ipywidgets,
pynvml or jupyter_client load them. torch is only ever loaded in the process that `observe` starts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .beliefs import believed_orders
    from .certainty import Certainty
    from .clusters.value import Cluster
    from .comparison import compare
    from .errors import (
        GpumapError,
        ImpossibleMachine,
        ImpossiblePlan,
        NoDriver,
        UnreadableRecording,
        UnreadableScenario,
        UnreadableTopology,
    )
    from .evidence.log import append_evidence, log_evidence, log_run
    from .evidence.reading import read_evidence
    from .identity import PciBusId
    from .inspection.kernel import KernelInspection, inspect_kernel
    from .inspection.process import MachineInspection, ProcessInspection, inspect_process, inspect_processes
    from .live import observe
    from .live.launch import observe_workers
    from .live.marks import footprint
    from .mapping import (
        Comparison,
        Device,
        Edge,
        Finding,
        Message,
        Observation,
        ObservedDevice,
        Prediction,
        Process,
        Step,
    )
    from .measuring.running import measure_gpus
    from .planning.data_parallel import DataParallelPlan, plan_data_parallel
    from .planning.measured import Measurement, Measurements
    from .planning.task_planning import plan_tasks
    from .planning.tasks import TaskPlan, Workload
    from .ranks.reporting import RanksSilent, report_ranks
    from .ranks.workers import report_actors, report_workers
    from .readings import tool_readings
    from .recordings.saving import load_recording, save_recording
    from .recordings.value import Recording
    from .resolver import resolve
    from .scenario import Layer, Scenario
    from .sources.capsule import Capsule, drift
    from .sources.nvml import links, processes, this_machine
    from .sources.presets import PRESETS, preset
    from .topology import Gpu, MigInstance, Topology
    from .widgets.explorer import Explorer

__version__ = "0.1.0"

_HOMES = {
    ".beliefs": "believed_orders",
    ".certainty": "Certainty",
    ".clusters.value": "Cluster",
    ".comparison": "compare",
    ".errors": "GpumapError ImpossibleMachine ImpossiblePlan NoDriver UnreadableRecording UnreadableScenario UnreadableTopology",
    ".evidence.log": "append_evidence log_evidence log_run",
    ".evidence.reading": "read_evidence",
    ".identity": "PciBusId",
    ".inspection.kernel": "KernelInspection inspect_kernel",
    ".inspection.process": "MachineInspection ProcessInspection inspect_process inspect_processes",
    ".live": "observe",
    ".live.launch": "observe_workers",
    ".live.marks": "footprint",
    ".mapping": "Comparison Device Edge Finding Message Observation ObservedDevice Prediction Process Step",
    ".ranks.reporting": "RanksSilent report_ranks",
    ".ranks.workers": "report_actors report_workers",
    ".measuring.running": "measure_gpus",
    ".planning.data_parallel": "DataParallelPlan plan_data_parallel",
    ".planning.measured": "Measurement Measurements",
    ".planning.task_planning": "plan_tasks",
    ".planning.tasks": "TaskPlan Workload",
    ".readings": "tool_readings",
    ".recordings.saving": "load_recording save_recording",
    ".recordings.value": "Recording",
    ".resolver": "resolve",
    ".scenario": "Layer Scenario",
    ".sources.capsule": "Capsule drift",
    ".sources.nvml": "links processes this_machine",
    ".sources.presets": "PRESETS preset",
    ".topology": "Gpu MigInstance Topology",
    ".widgets.explorer": "Explorer",
}
"""Module → the public names that live there; each loads on first use."""
_LAZY = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "PRESETS",
    "Capsule",
    "Certainty",
    "Cluster",
    "Comparison",
    "DataParallelPlan",
    "Device",
    "Edge",
    "Explorer",
    "Finding",
    "Gpu",
    "GpumapError",
    "ImpossibleMachine",
    "ImpossiblePlan",
    "KernelInspection",
    "Layer",
    "MachineInspection",
    "Measurement",
    "Measurements",
    "Message",
    "MigInstance",
    "NoDriver",
    "Observation",
    "ObservedDevice",
    "PciBusId",
    "Prediction",
    "Process",
    "ProcessInspection",
    "RanksSilent",
    "Recording",
    "Scenario",
    "Step",
    "TaskPlan",
    "Topology",
    "UnreadableRecording",
    "UnreadableScenario",
    "UnreadableTopology",
    "Workload",
    "append_evidence",
    "believed_orders",
    "compare",
    "drift",
    "footprint",
    "inspect_kernel",
    "inspect_process",
    "inspect_processes",
    "links",
    "load_recording",
    "log_evidence",
    "log_run",
    "measure_gpus",
    "observe",
    "observe_workers",
    "plan_data_parallel",
    "plan_tasks",
    "preset",
    "processes",
    "read_evidence",
    "report_actors",
    "report_ranks",
    "report_workers",
    "resolve",
    "save_recording",
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
