"""MPS: the server counts once, its clients count what it serves."""

from __future__ import annotations

import pytest

from gpumap_widgets.layers import LAYERS, View, docker, environment, mps_daemon, torchrun
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests.conftest import MIXED, UUIDS, equal
from tests.layer_cases import Case, Worker, check

GUIDE = "NVIDIA MPS documentation, 5.2.1 CUDA_VISIBLE_DEVICES"
CUDA, PCI = "CUDA_VISIBLE_DEVICES", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
BIG = MIXED.gpus[1].uuid or ""
FOUR = equal(4)

CASES = (
    # daemon and client both have the list: the documented error
    Case("mps", (mps_daemon(),), [], GUIDE, {CUDA: "1,2"}, error="gets an error"),
    Case("mps", (mps_daemon("1,2"), environment({CUDA: "1,2"})), [], GUIDE, error="numbers its 2 GPUs from 0"),
    # the client unsets it
    Case("mps", (mps_daemon(), environment(unset=(CUDA,))), [Worker([0, 2], [0, 2], {CUDA: None})], GUIDE, {CUDA: "1,2"}),
    Case("mps", (mps_daemon("1,2"),), [Worker([0, 2])], GUIDE, certainty="likely"),
    # numbers of a client count what is served
    Case("mps", (mps_daemon("1,2"), environment({CUDA: "1"})), [Worker([2])], GUIDE),
    Case("mps", (mps_daemon("2,0", CUDA_DEVICE_ORDER="PCI_BUS_ID"), environment({CUDA: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})), [Worker([2])], "the server's numbering is the list's; whether the order sorts it again is not documented", certainty="unknown"),
    Case("mps", (mps_daemon("1,2", CUDA_DEVICE_ORDER="PCI_BUS_ID"), environment({CUDA: "0"})), [Worker([1])], GUIDE, PCI, certainty="certain"),
    Case("mps", (mps_daemon("3,1"), environment({CUDA: UUIDS[1]})), [Worker([1])], "UUIDs are recommended: " + GUIDE, machine=FOUR),
    Case("mps", (mps_daemon("1"), environment({CUDA: BIG})), [Worker([])], "a GPU that is not served"),
    Case("mps", (mps_daemon(""),), [Worker([])], "a server without GPUs"),
    # a script
    Case("mps", "export CUDA_VISIBLE_DEVICES=1,2\nnvidia-cuda-mps-control -d\npython t.py", [], GUIDE, error="gets an error"),
    Case("mps", "export CUDA_VISIBLE_DEVICES=1,2\nnvidia-cuda-mps-control -d\nunset CUDA_VISIBLE_DEVICES\npython t.py", [Worker([0, 2])], GUIDE),
    Case("mps", "CUDA_VISIBLE_DEVICES=1,2 nvidia-cuda-mps-control -d && python t.py", [Worker([0, 2], None, {CUDA: None})], GUIDE),
    Case("mps", "nvidia-cuda-mps-control -d; CUDA_VISIBLE_DEVICES=0 python t.py; echo quit | nvidia-cuda-mps-control", [Worker([1])], GUIDE),
    # layers inside and outside
    Case("mps", (mps_daemon("2,3"), torchrun(2)), [Worker([2, 3], [2]), Worker([2, 3], [3])], GUIDE),
    Case("mps", (docker('"device=1,3"'), mps_daemon("1"), environment({CUDA: "0"})), [Worker([3], None, {}, [1, 3])], GUIDE),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mps(case: Case) -> None:
    check(case)


def test_the_belief_ignores_the_server() -> None:
    row, view = LAYERS["mps"], View()
    assert row.believed is not None
    assert row.believed(view, mps_daemon("1,2").options, MIXED).views == (view,)


def test_every_gpu_that_is_not_served_is_still_there() -> None:
    """NVML does not know of MPS: what a client cannot reach is hidden, not gone."""
    (process,) = resolve(Scenario(MIXED, (mps_daemon("1,2"),))).processes
    assert process.visible == (0, 1, 2, 3)
    assert process.order.rule == "served"
