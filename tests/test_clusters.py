"""Ray and dask-cuda, as tables."""

from __future__ import annotations

import pytest

from gpumap_widgets.layers import dask_cuda, ray, ray_train
from tests.layer_cases import Case, Worker, check

RAN = "ray 2.60.0, run"
READ = "ray 2.60.0, read"
DASK = "dask-cuda 26.10.0, list function run"
DASK_READ = "dask-cuda 26.10.0 local_cuda_cluster.py and cuda_worker.py, read"
ALL = [1, 0, 2, 3]
BEST = "GPU-b1e18600-0000-4000-8000-000000000001"
T4 = "GPU-a0e15e00-0000-4000-8000-000000000000"


def cvd(value: str) -> dict[str, str]:
    """An environment with this list."""
    return {"CUDA_VISIBLE_DEVICES": value}


def one(gpu: int, value: str) -> Worker:
    """A worker with one GPU."""
    return Worker([gpu], [gpu], cvd(value))


CASES = (
    Case("ray", (ray([1, 1, 1, 1], num_gpus=4),), [one(g, str(k)) for k, g in enumerate(ALL)], RAN),
    Case("ray", (ray([1, 1], num_gpus=2),), [one(3, "3"), one(0, "1")], RAN, cvd("3,1")),
    Case("ray", (ray([1]),), [one(1, BEST)], RAN, cvd(f"{BEST},{T4}")),
    Case("ray", (ray([0.5, 1, 0.5, 2], num_gpus=4),), [one(1, "0"), one(0, "1"), one(1, "0"), Worker([2, 3], [2, 3], cvd("2,3"))], "a fraction fills the slot that is in use; run"),
    Case("ray", (ray([0.7, 0.7, 0.3, 0.3, 1], num_gpus=4),), [one(1, "0"), one(0, "1"), one(1, "0"), one(0, "1"), one(2, "2")], RAN),
    Case("ray", (ray([3], num_gpus=3),), [Worker([3, 0, 1], [3, 0, 1], cvd("3,1,0"))], "five runs, four orders", cvd("3,1,0,2"), certainty="unknown"),
    Case("ray", (ray([0], num_gpus=2),), [Worker([3, 0], [3, 0], cvd("3,1"))], RAN, cvd("3,1")),
    Case("ray", (ray([0], version="2.55.0"),), [Worker([], [], cvd(""))], "ray 2.55.0 _private/utils.py, read"),
    Case("ray", (ray([0], version="2.55.0"),), [Worker(ALL, ALL)], "ray 2.55.0 _private/utils.py, read", {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}),
    Case("ray", (ray([0]),), [Worker([], [], cvd(""))], RAN, {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}),
    Case("ray", (ray([1, 1]),), [Worker([3, 0], [3, 0], cvd("3,1"))] * 2, RAN, {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"} | cvd("3,1")),
    Case("ray", (ray([1], num_gpus=6),), [one(1, "0")], "num_gpus is not checked against the machine; read"),
    Case("ray", (ray([1], num_gpus=3),), [], RAN, cvd("3,1"), error="Attempting to start raylet with 3 GPU"),
    Case("ray", (ray([1]),), [], "no GPU is offered; read", cvd(""), error="pending"),
    Case("ray", (ray([2, 2, 1], num_gpus=4),), [], READ, error="worker 2 asks for 1"),
    Case("ray", (ray([1.5], num_gpus=4),), [], "ray _common/ray_option_utils.py, read", error="whole number"),
    Case("ray", (ray([1], num_gpus=-1),), [], READ, error="negative"),
    Case("ray", "ray start --head --num-gpus=2", [one(1, "0"), one(0, "1")], READ),
    Case("ray", "ray start --head --num-gpus 2", [one(1, "0"), one(1, "0"), one(0, "1")], RAN, assume={"actors": [0.5, 0.5, 1]}),
    Case("ray", "ray start --head --quantum", [one(3, "3")], READ, cvd("3")),
    Case("ray", "ray start --head --num-gpus=many", [], "click: not a valid integer", error="num_gpus is many"),
    Case("ray", "ray start --head --num-gpus 2", [one(1, "0"), one(1, "0")], RAN, assume={"actors": "0.5,0.5"}),
    Case("ray", "ray start --num-gpus=0", [], "nobody gets a GPU", error="offers none"),
    Case("ray_train", (ray_train(2),), [Worker([1, 0], [1], cvd("0,1")), Worker([1, 0], [0])], READ),
    Case("ray_train", (ray_train(2),), [Worker([0, 3], [0], cvd("1,3") | {"LOCAL_RANK": "0"}), Worker([0, 3], [3])], "ids sorted as texts, workers by their id; read", cvd("3,1")),
    Case("ray_train", (ray_train(2, gpus_per_worker=0.5),), [Worker([1], [1], cvd("0"))] * 2, READ),
    Case("ray_train", (ray_train(2, gpus_per_worker=2),), [Worker(ALL, [1, 0]), Worker(ALL, [2, 3])], READ),
    Case("ray_train", (ray_train(2),), [Worker([0, 1], [0], cvd(f"{T4},{BEST}")), Worker([0, 1], [1])], "UUIDs are sorted too; read", cvd(f"{BEST},{T4}")),
    Case("ray_train", (ray_train(5),), [], READ, error="pending"),
    Case("dask_cuda", (dask_cuda(),), [Worker(ALL, [1], cvd("0,1,2,3")), Worker([0, 2, 3, 1], [0], cvd("1,2,3,0")), Worker([2, 3, 1, 0], [2]), Worker([3, 1, 0, 2], [3])], DASK),
    Case("dask_cuda", (dask_cuda(2),), [Worker(ALL, [1]), Worker([0, 2, 3, 1], [0])], DASK),
    Case("dask_cuda", (dask_cuda(1),), [Worker([0, 3], [0], cvd("1,3"))], "the smallest entry, not the first: new_worker_spec takes min(); read", cvd("3,1")),
    Case("dask_cuda", (dask_cuda(visible=[2, 1]),), [Worker([0, 2], [0], cvd("1,2")), Worker([2, 0], [2], cvd("2,1"))], DASK_READ, cvd("3")),
    Case("dask_cuda", (dask_cuda(visible=f"{BEST},{T4}"),), [Worker([0, 1], [0]), Worker([1, 0], [1])], DASK_READ),
    Case("dask_cuda", "dask cuda worker tcp://s:8786", [Worker([3, 0], [3], cvd("3,1")), Worker([0, 3], [0], cvd("1,3"))], "in the order of the list: cuda_worker.py, read", cvd("3,1")),
    Case("dask_cuda", "dask-cuda-worker --nthreads 2 tcp://s:8786", [Worker([1], [1])], DASK_READ, cvd("0")),
    Case("dask_cuda", (dask_cuda(3, visible="0,1"),), [], DASK_READ, error="Can not scale beyond"),
    Case("dask_cuda", (dask_cuda(visible="1,1"),), [], "two workers, one name; read", error="Can not scale beyond"),
    Case("dask_cuda", (dask_cuda(visible=f"0,{BEST}"),), [], "Python cannot compare number and text; read", error="Can not scale beyond", certainty="likely"),
    Case("dask_cuda", (dask_cuda(),), [], DASK, cvd(""), error="comma-separated integers"),
    Case("dask_cuda", (dask_cuda(0),), [], DASK_READ, error="less than 1"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_clusters(case: Case) -> None:
    check(case)
