"""Launchers of PyTorch, as a table; the sources say what was run and what was read."""

from __future__ import annotations

import pytest

from gpumap_widgets.layers import torchrun
from tests.layer_cases import Case, Worker, check

RAN = "torch 2.13.0, run on a machine without GPUs; the device count by a stand-in"
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
ALL = [1, 0, 2, 3]

CASES = (
    Case("torchrun", "torchrun --nproc-per-node=4 t.py", [Worker(ALL, [g], {"RANK": str(k), "LOCAL_RANK": str(k)}) for k, g in enumerate(ALL)], RAN),
    Case("torchrun", "torchrun --nproc_per_node 2 t.py", [Worker([0, 1, 2, 3], [k]) for k in range(2)], RAN, PCI, certainty="certain"),
    Case("torchrun", "python -m torch.distributed.run --nproc-per-node=2 t.py", [Worker([2, 3], [2]), Worker([2, 3], [3])], RAN, {"CUDA_VISIBLE_DEVICES": "2,3"}),
    Case("torchrun", "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc-per-node=gpu t.py", [Worker([2, 1], [2]), Worker([2, 1], [1])], RAN, PCI | {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=4 t.py", [Worker([g], [g], {"CUDA_VISIBLE_DEVICES": str(k), "LOCAL_RANK": "0"}) for k, g in enumerate(ALL)], "pytorch pull request 166680, run"),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [], "run", {"CUDA_VISIBLE_DEVICES": "3"}, error="local_rank 1 exceeds available GPUs"),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [], "2.9.1 read: the option is not there", assume={"torch": "2.9.1"}, error="2.10"),
    Case("torchrun", "torchrun --nproc-per-node=2 t.py", [Worker(ALL, [1]), Worker(ALL, [1])], "tritonbench pull request 869", assume={"set_device": False}),
    Case("torchrun", (torchrun(2, nnodes=2, node_rank=1),), [Worker(ALL, [g], {"RANK": str(2 + k), "WORLD_SIZE": "4"}) for k, g in enumerate([1, 0])], RAN),
    Case("torchrun", "torchrun --nproc-per-node=two t.py", [], RAN, error="nproc"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_launchers(case: Case) -> None:
    check(case)
