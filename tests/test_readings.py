"""How other tools read the same value: a table a tool, torch's rows against the real torch, and laws.

A row gives the value, the machine, what the tool takes for cuda:0, cuda:1, … and where that can be read. The order is
PCI_BUS_ID, so that the numbers of nvidia-smi and of CUDA are the same, unless a test is about just that.
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpumap_widgets import texts
from gpumap_widgets.layers import LAYERS, LayerRow, Outcome
from gpumap_widgets.mapping import Prediction
from gpumap_widgets.readings import TOOLS, ToolReading, reading_rows, tool_readings
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.texts import say, sentences
from gpumap_widgets.tool_readers import torch_list
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import MIXED, SLICES, SOAK, UUIDS, equal, predict, split

ASKS = "asks the driver"
E = "ValueError: "
INT = "ValueError: invalid literal for int() with base 10: "
NOT_FOUND = "NVMLError_NotFound: Not Found"
INDEX = "IndexError: list index out of range"

TEST = "pytorch test_cuda_nvml_based_avail.py, TestVisibleDeviceParses"
RAN = "torch 2.13.0, run; the tests below run the torch that is installed"
SOURCE = "torch/cuda/__init__.py"
NVITOP = "nvitop 1.7.2, static parser, run against a stand-in NVML"
DASK = "dask-cuda 26.10.0, dask_cuda/utils.py, run"
VLLM = "vllm 0.33.0, platforms/interface.py and cuda.py, run"
DEEPSPEED = "deepspeed 0.19.8, accelerator/cuda_accelerator.py"
RAY = "ray 2.60.0, accelerators/nvidia_gpu.py and resource_and_label_spec.py"
PYTHON = "the rules of int() and str.split"
PYNVML = "nvidia-ml-py, pynvml.py: an index goes through ctypes.c_uint"
MIG_INDEX = "vllm 0.33.0 with nvml.h: the index of a MIG handle is its number under its GPU"


def by_key(prediction: Prediction) -> dict[str, ToolReading]:
    """The readings of a prediction by the key of the tool."""
    return {tool.key: one for tool, one in zip(TOOLS, tool_readings(prediction), strict=True)}


def told(machine: Topology, tool: str, value: str | None = None, order: str | None = "PCI_BUS_ID") -> ToolReading:
    """What one tool makes of one value."""
    return by_key(predict(machine, value, order))[tool]


@cache
def machine(name: str | int) -> Topology:
    """So many equal GPUs, or a machine by name."""
    if isinstance(name, int):
        return equal(name)
    lost = replace(equal(4).gpus[2], problem="GPU is lost.")
    return {
        "split": split(),
        "split-old": split("535.104.05"),
        "lost": replace(equal(4), gpus=(*equal(4).gpus[:2], lost, equal(4).gpus[3])),
        "numbered": replace(split(), gpus=(_numbered(split().gpus[0]), split().gpus[1])),
        "unnumbered": Topology((replace(equal(1).gpus[0], mig_instances=(MigInstance(SLICES[0]),)), equal(3).gpus[2])),
        "hollow": replace(equal(3), gpus=(replace(equal(3).gpus[0], mig_mode=True), *equal(3).gpus[1:])),
    }[name]


def _numbered(gpu: Gpu) -> Gpu:
    """Its MIG devices with the numbers that nvidia-smi gives, with a gap."""
    return replace(gpu, mig_instances=tuple(replace(m, mig_index=3 * n) for n, m in enumerate(gpu.mig_instances)))


class Row(NamedTuple):
    """One value as one tool reads it."""

    value: str | None
    machine: str | int
    indices: list[int | None]
    shown: str
    """All of it, or how it begins where the tool raises."""
    source: str


N = None
FULL = ",".join((UUIDS[2], UUIDS[5]))
PATH = f"MIG-{UUIDS[0]}/7/0"
TABLE: dict[str, list[Row]] = {
    "torch-count": [
        Row(None, 4, [N] * 4, "4", RAN),
        Row(None, 70, [N] * 64, "64", f"{SOURCE}: unset is range(64)"),
        Row(None, 0, [], "0", SOURCE),
        Row("", 4, [], "0", RAN),
        Row("1, 0", 2, [N, N], "2", TEST),
        Row("1, 5, 0", 2, [N], "1", TEST),
        Row("1gpu2,2ampere", 4, [N, N], "2", TEST),
        Row("0, 1, 2, 1", 4, [], "0", TEST),
        Row("2, +3, -0, 5", 8, [N] * 4, "4", TEST),
        Row("4,3,two,one", 8, [N, N], "2", TEST),
        Row("0,9,0", 4, [], "0", f"{RAN}: repeats come before the range"),
        Row("0,2,-1,2", 4, [N, N], "2", RAN),
        Row("4294967296", 4, [], "0", RAN),
        Row("+", 4, [], f"{INT}'+'", RAN),
        Row("0,-", 4, [], f"{INT}'-'", RAN),
        Row("--1", 4, [], f"{INT}'-'", RAN),
        Row("²", 4, [], f"{INT}'²'", RAN),
        Row("1²", 4, [], f"{INT}'1²'", RAN),
        Row("9,+", 4, [], f"{INT}'+'", f"{RAN}: it reads all before it looks at the range"),
        Row("１", 4, [N], "1", f"{RAN}: int() reads digits of every script"),
        Row("1" * 4301, 4, [], "ValueError: Exceeds the limit (4300 digits)", PYTHON),
        Row("GPU-7d20b5e9", 8, [N], "1", TEST),
        Row("GPU-7d20b5e9, 2", 8, [N], "1", TEST),
        Row("GPU-7d,GPU-c5,GPU-7d20", 8, [], "0", TEST),
        Row("GPU-7d,GPU-zz,GPU-c5", 8, [N], "1", TEST),
        Row("GPU-7d,GPU-a9,GPU-c5", 8, [N], "1", TEST),
        Row("GPU-", 1, [N], "1", RAN),
        Row("GPU-7D20B5E9", 8, [], "0", RAN),
        Row("2,GPU-7d20b5e9", 8, [N], "1", RAN),
        Row(UUIDS[2][4:], 12, [N], "1", f"{RAN}: 7d20b5e9-… is read as 7"),
        Row(SLICES[0], "split", [0], ASKS, SOURCE),
        Row("0", "split", [N], "1", RAN),
        Row("GPU-7d", "lost", [], ASKS, f"{SOURCE}: one lost GPU, and there are no UUIDs at all"),
        Row("2", "lost", [N], "1", f"{SOURCE}: nvmlDeviceGetCount_v2 counts a lost GPU"),
    ],
    "torch-nvml": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", SOURCE),
        Row("", 4, [], INDEX, f"{SOURCE}: _get_nvml_device_index takes [0] of an empty list"),
        Row("0,0", 4, [], INDEX, SOURCE),
        Row("2,1", 4, [2, 1], "[2, 1]", SOURCE),
        Row("0,9,2", 4, [0, N, 2], "[0, 9, 2]", f"{SOURCE}: it does not look at the range"),
        Row("4294967297", 4, [1], "[4294967297]", PYNVML),
        Row("+", 4, [], f"{INT}'+'", RAN),
        Row("GPU-c5,GPU-7d", 8, [5, 2], "[5, 2]", SOURCE),
        Row("GPU-zz", 8, [], "RuntimeError: device 0 is not visible (CUDA_VISIBLE_DEVICES=[])", SOURCE),
        Row(SLICES[0], "split", [], "RuntimeError: device 0 is not visible (CUDA_VISIBLE_DEVICES=[])", SOURCE),
        Row("GPU-7d", "lost", [], "RuntimeError: Can't get device UUIDs", SOURCE),
        Row("0", "split", [0], "[0]", SOURCE),
        Row(None, 0, [], "[]", SOURCE),
    ],
    "nvitop": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", NVITOP),
        Row("", 4, [], "[]", NVITOP),
        Row("0,2,-1,1", 4, [0, 2], "[0, 2]", NVITOP),
        Row("0,0", 4, [], "[]", NVITOP),
        Row("0,00", 4, [0, 0], "[0, 0]", f"{NVITOP}: repeats are compared as text"),
        Row("0,+0", 4, [0], "[0]", f"{NVITOP}: a sign ends the list"),
        Row("0,9,0", 4, [0], "[0]", NVITOP),
        Row("2, +3, -0, 5", 8, [2], "[2]", NVITOP),
        Row("1gpu2,2ampere", 4, [1, 2], "[1, 2]", NVITOP),
        Row("0x1", 4, [0], "[0]", NVITOP),
        Row("010", 12, [10], "[10]", NVITOP),
        Row("0,-", 4, [0], "[0]", NVITOP),
        Row("１", 4, [1], "[1]", NVITOP),
        Row("²", 4, [], "[]", NVITOP),
        Row("4294967296", 4, [0], "[4294967296]", NVITOP),
        Row("GPU-7d20b5e9", 8, [], "[]", f"{NVITOP}: complete UUIDs only"),
        Row(FULL, 8, [2, 5], "[2, 5]", NVITOP),
        Row(f"{UUIDS[2]},2", 8, [2], "[2]", NVITOP),
        Row(f"2,{UUIDS[2]}", 8, [2], "[2]", NVITOP),
        Row(f" {UUIDS[2]} , {UUIDS[5]}", 8, [2, 5], "[2, 5]", NVITOP),
        Row(UUIDS[2][4:], 12, [7], "[7]", NVITOP),
        Row(None, "split", [0], "[(0, 0)]", f"{NVITOP}: a MIG device hides all others"),
        Row("0", "split", [0], "[(0, 0)]", NVITOP),
        Row("1", "split", [1], "[1]", NVITOP),
        Row("1,0", "split", [0], "[(0, 0)]", NVITOP),
        Row(f"{SLICES[1]},{SLICES[0]}", "split", [0], "[(0, 1)]", NVITOP),
        Row(f"{UUIDS[0]},{SLICES[1]}", "split", [0], "[(0, 1)]", f"{NVITOP}: one that is named comes first"),
        Row(SLICES[1], "numbered", [0], "[(0, 3)]", NVITOP),
        Row(PATH, "split", [0], "[(0, 1)]", NVITOP),
        Row("MIG-d80e4b93", "split", [], "[]", NVITOP),
        Row(f"MIG-{UUIDS[0]}/None/None", "unnumbered", [], "[]", "a name made of what is not known names nothing"),
        Row(None, "hollow", [1, 2], "[1, 2]", f"{NVITOP}: MIG mode without a device hides that GPU only"),
    ],
    "dask-cuda": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", DASK),
        Row("", 4, [], f"{E}Devices in CUDA_VISIBLE_DEVICES must be comma-separated integers", DASK),
        Row("-1", 4, [N], "['-1']", DASK),
        Row("0,2,-1,1", 4, [0, 2, N, 1], "[0, 2, '-1', 1]", DASK),
        Row("0,1,99,2", 4, [0, 1, N, 2], "[0, 1, 99, 2]", DASK),
        Row("1,1,3", 4, [1, 1, 3], "[1, 1, 3]", DASK),
        Row("0,+0", 4, [0, 0], "[0, 0]", DASK),
        Row(" 1 ,0", 4, [1, 0], "[1, 0]", DASK),
        Row("1_0", 12, [10], "[10]", PYTHON),
        Row("4294967297", 4, [1], "[4294967297]", PYNVML),
        Row("１", 4, [1], "[1]", DASK),
        Row("1gpu2", 4, [], f"{E}Devices", DASK),
        Row("0,", 4, [], f"{E}Devices", DASK),
        Row("NoDevFiles", 4, [], f"{E}Devices", DASK),
        Row("GPU-7d20b5e9", 8, [N], "['GPU-7d20b5e9']", f"{DASK}: NVML wants all of a UUID"),
        Row(f"{UUIDS[2]}, 2", 8, [2, 2], f"['{UUIDS[2]}', 2]", DASK),
        Row(f"{UUIDS[2]}, {UUIDS[5]}", 8, [], f"{E}Devices", DASK),
        Row(SLICES[1], "split", [0], f"['{SLICES[1]}']", f"{DASK}: it takes the parent of a MIG device"),
    ],
    "vllm": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", VLLM),
        Row("", 4, [0, 1, 2, 3], "[0, 1, 2, 3]", f"{VLLM}: set to nothing is as good as unset"),
        Row("3,1", 4, [3, 1], "[3, 1]", VLLM),
        Row("0,2,-1,1", 4, [0, 2, N, 1], "[0, 2, -1, 1]", VLLM),
        Row("0,0", 4, [0, 0], "[0, 0]", VLLM),
        Row(FULL, 8, [2, 5], "[2, 5]", VLLM),
        Row("GPU-7d20b5e9", 8, [], NOT_FOUND, "vllm issue 51677"),
        Row("all", 4, [], NOT_FOUND, VLLM),
        Row("0,", 4, [], NOT_FOUND, VLLM),
        Row(SLICES[0], "split", [0], "[0]", MIG_INDEX),
        Row(SLICES[1], "split", [1], "[1]", MIG_INDEX),
        Row(SLICES[1], "numbered", [N], "[3]", MIG_INDEX),
    ],
    "deepspeed": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", DEEPSPEED),
        Row("", 4, [], f"{INT}''", DEEPSPEED),
        Row("-1", 4, [N], "[-1]", DEEPSPEED),
        Row("-4294967295", 4, [1], "[-4294967295]", PYNVML),
        Row("0,2,-1,1", 4, [0, 2, N, 1], "[0, 2, -1, 1]", DEEPSPEED),
        Row("2, +3, -0, 5", 8, [2, 3, 0, 5], "[2, 3, 0, 5]", DEEPSPEED),
        Row("010", 12, [10], "[10]", PYTHON),
        Row("0x1", 4, [], f"{INT}'0x1'", PYTHON),
        Row("1,GPU-7d20b5e9", 8, [], f"{INT}'GPU-7d20b5e9'", DEEPSPEED),
    ],
    "split": [
        Row(None, 4, [0, 1, 2, 3], "[0, 1, 2, 3]", PYTHON),
        Row("", 4, [], f"{INT}''", PYTHON),
        Row("0,2,-1,1", 4, [0, 2, N, 1], "[0, 2, -1, 1]", PYTHON),
        Row("4294967296", 4, [N], "[4294967296]", PYTHON),
        Row("1\x1c", 4, [], f"{INT}'1\\x1c'", PYTHON),
        Row("\u20031\u3000", 4, [1], "[1]", PYTHON),
        Row(",".join(map(str, range(20))), 24, [*range(20)], f"{[*range(16)]}"[:-1] + ", …]", "sixteen are shown"),
    ],
    "ray": [
        Row(None, 4, [0, 1, 2, 3], "None", RAY),
        Row("", 4, [], "[]", RAY),
        Row("NoDevFiles", 4, [], "[]", RAY),
        Row("0,2,-1,1", 4, [0, 2, N, 1], "['0', '2', '-1', '1']", RAY),
        Row("0,0", 4, [0, 0], "['0', '0']", RAY),
        Row("0, 1", 4, [0, 1], "['0', ' 1']", RAY),
        Row("0,", 4, [0, N], "['0', '']", RAY),
        Row("all", 4, [N], "['all']", RAY),
        Row("0,1,2", 2, [0, 1], "['0', '1', '2']", f"{RAY}: no more than NVML counts"),
        Row("GPU-7d20,5", 8, [2, 5], "['GPU-7d20', '5']", RAY),
        Row(SLICES[1], "split", [0], f"['{SLICES[1]}']", RAY),
    ],
    "gpustat": [
        Row("1", 3, [0, 1, 2], "[0, 1, 2]", "gpustat 1.1.1: neither variable occurs"),
        Row("", 2, [0, 1], "[0, 1]", "the same"),
    ],
    "jax": [
        Row("2,1", 4, [2, 1], ASKS, "jax 0.10.2, xla_bridge.py"),
        Row("0,0", 4, [], ASKS, "the same"),
    ],
    "driver": [
        Row("2,1", 4, [2, 1], "[2, 1]", "CUDA Programming Guide 5.2.1.1"),
        Row("GPU-7d", 8, [2], "[2]", "the same"),
    ],
}
ROWS = [(tool, row) for tool, rows in TABLE.items() for row in rows]


def _label(part: str | Row) -> str:
    return part if isinstance(part, str) else f"{part.value!a:.24} {part.machine}"


@pytest.mark.parametrize(("tool", "row"), ROWS, ids=_label)
def test_a_tool_reads_like_this(tool: str, row: Row) -> None:
    found = told(machine(row.machine), tool, row.value)
    failed = row.shown.partition(":")[0].endswith(("Error", "NotFound"))
    assert found.raises == failed
    assert found.shown.startswith(row.shown) if failed else found.shown == row.shown, row.source
    assert list(found.nvml_indices) == row.indices, row.source


def test_every_tool_has_rows() -> None:
    assert set(TABLE) == {tool.key for tool in TOOLS}
    assert TOOLS[0].key == "driver"
    assert all(row.source for _, row in ROWS)


# ---- beside the driver ----


class Verdict(NamedTuple):
    """Whether a tool agrees with the driver, and what is said of it."""

    tool: str
    value: str | None
    machine: Topology
    order: str | None
    agrees: bool | None
    note: str


PCI = "PCI_BUS_ID"
VERDICTS = [
    Verdict("torch-nvml", None, MIXED, None, False, "torch.cuda.utilization(0) reads nvidia-smi 0 (Tesla T4), cuda:0 is nvidia-smi 1 (RTX 4090)."),
    Verdict("torch-nvml", "1,2", MIXED, None, False, "torch.cuda.utilization(0) reads nvidia-smi 1 (RTX 4090), cuda:0 is nvidia-smi 0 (Tesla T4)."),
    Verdict("torch-nvml", "2,1", MIXED, None, False, "torch.cuda.utilization(1) reads nvidia-smi 1 (RTX 4090), cuda:1 is nvidia-smi 0 (Tesla T4)."),
    Verdict("torch-nvml", "1,2", MIXED, PCI, True, "As the driver: torch.cuda.utilization(0) reads nvidia-smi 1 (RTX 4090), which is cuda:0."),
    Verdict("torch-count", "1,2", MIXED, None, True, "As the driver: 2. A count does not say which."),
    Verdict("vllm", "1", MIXED, None, False, "vLLM, asking NVML for cuda:0, reads nvidia-smi 1 (RTX 4090), cuda:0 is nvidia-smi 0 (Tesla T4)."),
    Verdict("ray", "1,2", MIXED, None, True, "As the driver: Ray's worker 0 reads nvidia-smi 0 (Tesla T4), which is cuda:0."),
    Verdict("jax", "1,2", MIXED, None, True, "The driver answers, so it sees what CUDA sees."),
    Verdict("driver", "1,2", MIXED, None, True, "The driver decides what cuda:i is; the other rows are measured by it."),
    Verdict("gpustat", None, equal(2), PCI, True, "As the driver: gpustat, asked for GPU 0, reads nvidia-smi 0 (A100-SXM4-40GB), which is cuda:0."),
    Verdict("split", "0,2,-1,1", equal(4), PCI, False, "Devices that it names: 4; that the driver shows: 2."),
    Verdict("dask-cuda", "GPU-7d20", equal(4), PCI, False, "dask-cuda's worker 0 reads no GPU at all, cuda:0 is nvidia-smi 2 (A100-SXM4-40GB)."),
    Verdict("nvitop", "0,0", equal(4), PCI, True, "As the driver: nothing is visible."),
    Verdict("torch-nvml", "0,0", equal(4), PCI, True, f"Nothing is visible, so there is no cuda:0 to ask for; torch.cuda.utilization(0) ends in {INDEX}."),
    Verdict("torch-nvml", "0,9,2", equal(4), PCI, True, "As the driver: torch.cuda.utilization(0) reads nvidia-smi 0 (A100-SXM4-40GB), which is cuda:0."),
    Verdict("torch-nvml", "²", equal(4), PCI, False, f"torch.cuda.utilization(0) ends in {INT}'²'; devices that the driver shows: 0."),
    Verdict("torch-nvml", None, equal(70), PCI, False, "Devices that it names: 64; that the driver shows: 70."),
    Verdict("torch-count", None, equal(70), PCI, False, "torch.cuda.device_count() says 64; devices that the driver shows: 70."),
    Verdict("torch-count", "１", equal(4), PCI, False, "torch.cuda.device_count() says 1; devices that the driver shows: 0."),
    Verdict("vllm", "", equal(4), PCI, False, "Devices that it names: 4; that the driver shows: 0."),
    Verdict("deepspeed", "GPU-7d20", equal(4), PCI, False, f"DeepSpeed's available_memory(0) ends in {INT}'GPU-7d20'; devices that the driver shows: 1."),
    Verdict("dask-cuda", SLICES[1], split(), PCI, False, "dask-cuda's worker 0 reads all of nvidia-smi 0 (A100-SXM4-40GB), cuda:0 is only MIG 2g.10gb of nvidia-smi 0 (A100-SXM4-40GB)."),
    Verdict("vllm", SLICES[1], split(), PCI, False, "vLLM, asking NVML for cuda:0, reads nvidia-smi 1 (A100-SXM4-40GB), cuda:0 is MIG 2g.10gb of nvidia-smi 0 (A100-SXM4-40GB)."),
    # nobody knows what the driver does
    Verdict("torch-nvml", "0x1", equal(4), PCI, None, "torch.cuda.utilization(0) reads nvidia-smi 0 (A100-SXM4-40GB); what cuda:0 is cannot be told."),
    Verdict("torch-count", "0x1", equal(4), PCI, None, "torch.cuda.device_count() says 1; what the driver shows cannot be told."),
    Verdict("deepspeed", "0x1", equal(4), PCI, None, f"DeepSpeed's available_memory(0) ends in {INT}'0x1'; what the driver shows cannot be told."),
    Verdict("nvitop", "GPU-7D20B5E9", equal(4), PCI, None, "This cannot be told here."),
    Verdict("jax", "0x1", equal(4), PCI, True, "The driver answers, so it sees what CUDA sees."),
    # the order is unknown: a count needs none
    Verdict("torch-count", "0", replace(MIXED, platform="wsl"), None, True, "As the driver: 1. A count does not say which."),
    Verdict("torch-nvml", "0", replace(MIXED, platform="wsl"), None, None, "torch.cuda.utilization(0) reads nvidia-smi 0 (Tesla T4); what cuda:0 is cannot be told."),
]  # fmt: skip


@pytest.mark.parametrize("row", VERDICTS, ids=lambda row: f"{row.tool} {row.value!a:.16} {row.order}")
def test_a_tool_beside_the_driver(row: Verdict) -> None:
    found = told(row.machine, row.tool, row.value, row.order)
    assert found.note.text() == row.note
    assert found.agrees_with_driver is row.agrees


@pytest.mark.parametrize("value", [None, "0", "2,1", "3,0,1,2"])
def test_in_pci_order_nvidia_smi_numbers_are_right(value: str | None) -> None:
    found = by_key(predict(MIXED, value, "PCI_BUS_ID"))
    assert {key for key, one in found.items() if not one.agrees_with_driver} <= {"gpustat"}
    assert found["gpustat"].agrees_with_driver is (value is None)


@pytest.mark.parametrize("value", [None, "0", "2,1", "3,0,1,2"])
def test_in_the_default_order_of_a_mixed_machine_they_are_not(value: str | None) -> None:
    found = by_key(predict(MIXED, value))
    wrong = {"torch-nvml", "nvitop", "dask-cuda", "vllm", "deepspeed", "split", "gpustat"}
    assert {key for key, one in found.items() if one.agrees_with_driver is False} == wrong


def test_a_uuid_list_is_right_in_any_order() -> None:
    gpus = tuple(replace(gpu, uuid=uuid) for gpu, uuid in zip(MIXED.gpus, UUIDS, strict=False))
    found = by_key(predict(replace(MIXED, gpus=gpus), f"{UUIDS[1]},{UUIDS[3]}"))
    wrong = {key for key, one in found.items() if not one.agrees_with_driver}
    assert wrong == {"deepspeed", "split", "gpustat"}


# ---- machines that are described in part, containers, processes ----


def test_without_uuids_a_uuid_list_cannot_be_told() -> None:
    bare = replace(equal(4), gpus=tuple(replace(gpu, uuid=None) for gpu in equal(4).gpus))
    found = by_key(predict(bare, UUIDS[2]))
    for key in ("torch-count", "torch-nvml", "nvitop", "dask-cuda", "vllm"):
        assert found[key].shown == "not known: the description of the machine lacks UUIDs"
        assert found[key].agrees_with_driver is None
        assert str(found[key].note) == "This cannot be told here."
    assert found["deepspeed"].raises
    assert told(bare, "torch-nvml", "2").nvml_indices == (2,)


def test_without_nvml_numbers_a_number_cannot_be_told() -> None:
    bare = replace(equal(4), gpus=tuple(replace(gpu, nvml_index=None) for gpu in equal(4).gpus))
    found = by_key(predict(bare, "2", "PCI_BUS_ID"))
    assert {key for key, one in found.items() if one.agrees_with_driver} == {"driver", "torch-count", "ray", "jax"}
    assert {one.agrees_with_driver for one in found.values()} == {True, None}
    assert str(found["torch-nvml"].note).startswith("torch.cuda.utilization(0) reads A100")
    one = replace(equal(1), gpus=(replace(equal(1).gpus[0], nvml_index=None),))
    assert told(one, "torch-nvml", "0").agrees_with_driver is True


def test_nvml_counts_from_zero_what_a_container_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        LAYERS, "box", LayerRow(lambda view, _, __: Outcome((replace(view, accessible=(3, 1)),)), "test")
    )
    scenario = Scenario.from_env(equal(4), {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    found = by_key(resolve(Scenario(equal(4), (Layer("box"), *scenario.layers))))
    assert {one.nvml_indices for key, one in found.items() if key not in ("torch-count", "gpustat")} == {(3,)}
    assert found["gpustat"].nvml_indices == (1, 3)
    assert all(one.agrees_with_driver for key, one in found.items() if key != "gpustat")


def test_a_process_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = LayerRow(
        lambda view, _, __: Outcome(tuple(view.with_env({"CUDA_VISIBLE_DEVICES": v}) for v in "31")),
        "test",
    )
    monkeypatch.setitem(LAYERS, "ranks", ranks)
    prediction = resolve(Scenario(equal(4), (Layer("ranks"),)))
    assert {one.nvml_indices for one in tool_readings(prediction)[2:4]} == {(3,)}
    assert {one.nvml_indices for one in tool_readings(prediction, prediction.processes[1])[2:4]} == {(1,)}


def test_nothing_is_read_where_nothing_starts() -> None:
    assert tool_readings(resolve(Scenario(MIXED, (Layer("teleport"),)))) == ()


def test_a_reading_is_a_value() -> None:
    first, again = tool_readings(predict(MIXED, "1")), tool_readings(predict(MIXED, "1"))
    assert first == again
    assert len({*first, *again}) == len(TOOLS)
    with pytest.raises(FrozenInstanceError):
        first[0].tool = "x"  # type: ignore[misc]


def test_rows_are_plain_records() -> None:
    rows = reading_rows(tool_readings(predict(MIXED, "1,9,x")))
    columns = ["tool", "nvml_indices", "shown", "raises", "agrees_with_driver", "note", "how", "source"]
    assert [list(row) for row in rows] == [columns] * len(TOOLS)
    kinds = {name: {type(row[name]) for row in rows} for name in columns}
    assert kinds == {key: {str} for key in columns} | {"raises": {bool}, "agrees_with_driver": {bool}}
    assert rows[2]["nvml_indices"] == "1, –"
    assert reading_rows(()) == []


# ---- torch's rows against the torch that is installed ----


@pytest.fixture(scope="module")
def cuda() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an installation without numpy warns
            return importlib.import_module("torch.cuda")
    except ImportError as error:
        pytest.skip(f"torch is not installed: {error}")


Ask = Callable[[Topology, str | None], dict[str, Any]]
WORDS = (
    *("", "x", "+", "-", "²", "１", "1²", "foo", "GPU-", "MIG-", "gpu-7", " GPU-7d", "9" * 25),
    *("4294967296", "1gpu", "-0"),
)
ALPHABETS = (
    *("0123456789,,,,", "0123,,,+- \t\n", "0123,,gpuGPU-abcdefx.;_"),
    "012,,１２²³٣०Ⅷ½é \u00a0\u2003\x1c\x85\ud800",
)
SEED, VALUES = 20_260, 20_000 if SOAK else 5_000


@pytest.fixture
def torch_says(cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What the functions of torch give on a machine whose NVML is played by us."""
    env = {k: v for k, v in os.environ.items() if not k.endswith("_VISIBLE_DEVICES")}
    monkeypatch.setattr(os, "environ", env)  # a plain dict, so that any text can stand in it

    def attempt(function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except (ValueError, RuntimeError, IndexError) as error:
            return f"{type(error).__name__}: {error}"

    def ask(topology: Topology, value: str | None) -> dict[str, Any]:
        env.pop("CUDA_VISIBLE_DEVICES", None)
        if value is not None:
            env["CUDA_VISIBLE_DEVICES"] = value
        uuids = None if any(gpu.problem for gpu in topology.gpus) else [gpu.uuid for gpu in topology.gpus]
        monkeypatch.setattr(cuda, "_raw_device_count_nvml", lambda: len(topology.gpus))
        monkeypatch.setattr(cuda, "_raw_device_uuid_nvml", lambda: uuids)
        return {
            "list": attempt(cuda._parse_visible_devices),
            "count": attempt(cuda._device_count_nvml),
            "indices": [attempt(cuda._get_nvml_device_index, i) for i in range(len(topology.gpus) + 2)],
        }

    return ask


def check(topology: Topology, value: str | None, said: dict[str, Any]) -> str:
    """Compare what torch said with our rows; what kind of value it was."""
    try:
        ours: Any = torch_list(value)
    except ValueError as error:
        ours = f"ValueError: {error}"
    assert ours == said["list"]
    found = by_key(predict(topology, value))
    count, helpers = found["torch-count"], found["torch-nvml"]
    if isinstance(said["count"], str):
        assert count.raises
        assert said["count"].startswith(count.shown.removesuffix("…"))
    elif said["count"] < 0:
        assert count.shown == ASKS
    else:
        assert count.shown == str(said["count"]) == str(len(count.nvml_indices))
    if helpers.raises:
        assert said["indices"][0].startswith(helpers.shown.removesuffix("…"))
        return helpers.shown.split(":")[0]
    rows = dict(enumerate(gpu.nvml_index for gpu in topology.gpus))
    numbers = [number for number in said["indices"] if isinstance(number, int)]
    expected = [rows.get(number % 2**32) for number in numbers][: len(topology.gpus) if value is None else None]
    assert list(helpers.nvml_indices)[: len(numbers)] == expected
    return "uuids" if value and value.startswith("GPU-") else "numbers"


def _entry(dice: random.Random, topology: Topology) -> str:
    kind = dice.random()
    if kind < 0.5:
        return dice.choice(("", "", " ", "+", "0")) + str(dice.randrange(-1, len(topology.gpus) + 1))
    if kind < 0.8:
        uuid = dice.choice(topology.gpus).uuid or ""
        return uuid[: dice.choice((4, 5, 6, 8, 12, 40, 40))]
    return dice.choice(WORDS)


def test_torch_is_read_as_it_is(torch_says: Ask) -> None:
    dice = random.Random(SEED)
    machines = [*map(equal, (1, 2, 4, 8, 12)), split(), machine("lost")]
    kinds: Counter[str] = Counter()
    for n in range(VALUES):
        topology = dice.choice(machines)
        if n % 3:
            family = dice.random() < 0.4
            entries = [_entry(dice, topology) for _ in range(dice.randrange(1, 6))]
            value = ",".join(e for e in entries if e.startswith("GPU-") or not family)
        else:
            value = "".join(dice.choices(dice.choice(ALPHABETS), k=dice.randrange(12)))
        try:
            kinds[check(topology, value, torch_says(topology, value))] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}: {value!a} on {len(topology.gpus)} GPUs: {error}") from error
    assert min(kinds[kind] for kind in ("uuids", "numbers", "ValueError", "IndexError", "RuntimeError")) > 20, kinds


VALUES_OF_ROWS = {None: 0, "": 0, SLICES[0]: 0, f"{SLICES[0]},{SLICES[0]}": 0} | {row.value: 0 for _, row in ROWS}


@pytest.mark.parametrize("value", VALUES_OF_ROWS, ids=lambda value: f"{value!a:.24}")
def test_torch_on_the_rows(torch_says: Ask, value: str | None) -> None:
    for name in (1, 4, 8, 64, 70, "split", "lost"):
        check(machine(name), value, torch_says(machine(name), value))


# ---- laws ----

MACHINES = [
    *(Topology(), equal(1), equal(5), split(), split(None), split("535.1"), MIXED, replace(MIXED, platform="wsl")),
    *(machine("lost"), machine("hollow"), machine("numbered"), Topology((Gpu(), Gpu()))),
    Topology((Gpu(2, "A100", UUIDS[0]), Gpu(None, "A100"), Gpu(0, "what", mig_instances=(MigInstance(),)))),
]
ENTRIES = st.one_of(
    st.integers(-2, 9).map(str),
    st.sampled_from([*UUIDS, *SLICES, PATH, *WORDS]),
    st.sampled_from([u[:n] for u in UUIDS for n in (4, 5, 8)]),
    st.text(max_size=6),
)
LISTS = st.none() | st.lists(ENTRIES, max_size=6).map(",".join) | st.text(max_size=30)


@given(st.sampled_from(MACHINES), LISTS, st.sampled_from([None, "PCI_BUS_ID", "odd"]))
@example(MACHINES[0], "\ud800,\x00", None)
def test_any_text_is_read(topology: Topology, value: str | None, order: str | None) -> None:
    prediction = predict(topology, value, order)
    found = by_key(prediction)
    known = {gpu.nvml_index for gpu in topology.gpus} | {None}
    for key, one in found.items():
        assert set(one.nvml_indices) <= known
        assert 0 < len(one.shown) <= 200
        assert one.raises == any(word in one.shown for word in ("Error: ", "NVMLError")) or key in ("ray", "dask-cuda")
        assert not (one.raises and one.nvml_indices)
        assert all((one.note.text(), one.how.text(), one.source))
        if prediction.certainty == "unknown" and key not in ("driver", "jax", "torch-count"):
            assert one.agrees_with_driver is None
    assert found["driver"].nvml_indices == found["jax"].nvml_indices == prediction.nvml_indices
    assert len(reading_rows(found.values())) == len(TOOLS)


@given(st.lists(st.integers(0, 4), unique=True), st.booleans())
def test_a_clean_list_is_read_alike_by_all(numbers: list[int], by_uuid: bool) -> None:
    entries = [UUIDS[n] if by_uuid else str(n) for n in numbers]
    found = by_key(predict(equal(5), ",".join(entries) if numbers else None, "PCI_BUS_ID"))
    strangers = {"gpustat", *(("deepspeed", "split") if by_uuid else ())} if numbers else set()
    assert all(one.agrees_with_driver for key, one in found.items() if key not in strangers)


HOSTILE = {
    "commas": "," * 300_000,
    "numbers": ",".join(map(str, range(60_000))),
    "one number": ",".join(["1"] * 100_000),
    "one long number": "1" * 400_000,
    "long numbers": ",".join(str(i) + "7" * 4_200 for i in range(60)),
    "uuids": ",".join([UUIDS[2]] * 20_000),
    "unlike uuids": ",".join(f"GPU-{i}" for i in range(60_000)),
    "words": "x" * 400_000,
    "digits of another script": "１" * 300_000,
    "blanks": " " * 400_000 + "1",
    "signs": "+" * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_bounded_time(name: str) -> None:
    prediction = predict(equal(256), HOSTILE[name])
    start = time.perf_counter()
    found = tool_readings(prediction)
    rows = reading_rows(found)
    assert time.perf_counter() - start < 5
    assert all(len(row["shown"]) < 200 and len(row["note"]) < 500 for row in rows)


# ---- sentences ----


def test_every_sentence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {key for key in sentences("en") if key.startswith("reading.")}
    said: set[str] = set()

    class Recorder(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> str:
            said.add(key)
            return str(super().__getitem__(key))

    recorder = Recorder(sentences("en"))
    monkeypatch.setattr(texts, "sentences", lambda _: recorder)
    scenarios = {(row.value, row.order) for row in VERDICTS} | {(UUIDS[1], None)}
    for topology, (value, order) in itertools.product(MACHINES, scenarios):
        rows = reading_rows(tool_readings(predict(topology, value, order)))
        assert not any("{" in row["note"] + row["how"] for row in rows)
    assert mine - said == set()


def test_every_tool_has_its_sentences() -> None:
    for tool in TOOLS:
        assert say(f"reading.how.{tool.key}")
        if tool.key not in ("driver", "jax"):
            assert "7" in say(f"reading.call.{tool.key}", ordinal=7) or tool.key == "torch-count"
    assert len({tool.key for tool in TOOLS}) == len({tool.name for tool in TOOLS}) == len(TOOLS)
