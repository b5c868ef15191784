"""Launchers of PyTorch, as tables; the sources say what was run and what was read."""

from __future__ import annotations

import pytest

from gpumap_widgets.layers import LAYERS, accelerate, deepspeed, environment, fold, spawn, torchrun
from gpumap_widgets.mapping import Prediction
from gpumap_widgets.scenario import Layer
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED
from tests.layer_cases import Case, Worker, check, predicted

RAN = "torch 2.13.0, run on a machine without GPUs; the device count by a stand-in"
DS = "deepspeed 0.19.8, run with a stand-in for the device count"
DS_READ = "deepspeed {} launcher/runner.py, read"
ACC = "accelerate 1.15.0, run"
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
ALL = [1, 0, 2, 3]
T4 = "GPU-a0e15e00-0000-4000-8000-000000000000"
BEST = "GPU-b1e18600-0000-4000-8000-000000000001"


def cvd(value: str) -> dict[str, str]:
    """An environment with this list."""
    return {"CUDA_VISIBLE_DEVICES": value}


def same(cuda: list[int], uses: list[int], value: str | None = None) -> list[Worker]:
    """Workers that see the same GPUs, each with its own."""
    env = {} if value is None else cvd(value)
    return [Worker(cuda, [gpu], env | {"LOCAL_RANK": str(k)}) for k, gpu in enumerate(uses)]


TORCHRUN = (
    Case("torchrun", "torchrun --nproc-per-node=4 t.py", [Worker(ALL, [g], {"RANK": str(k), "LOCAL_RANK": str(k)}) for k, g in enumerate(ALL)], RAN),
    Case("torchrun", "torchrun --nproc_per_node 2 t.py", [Worker([0, 1, 2, 3], [k]) for k in range(2)], RAN, PCI, certainty="certain"),
    Case("torchrun", "python -m torch.distributed.run --nproc-per-node=2 t.py", [Worker([2, 3], [2]), Worker([2, 3], [3])], RAN, cvd("2,3")),
    Case("torchrun", "python -m torch.distributed.launch --use-env --nproc-per-node=2 t.py", same(ALL, [1, 0]), "torch 2.14.1 distributed/launch.py, read"),
    Case("torchrun", "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc-per-node=gpu t.py", [Worker([2, 1], [2]), Worker([2, 1], [1])], RAN, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    Case("torchrun", "torchrun --nproc-per-node=auto t.py", same([3], [3]), "torch 2.13 determine_local_world_size, read", cvd("3")),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=4 t.py", [Worker([g], [g], {"CUDA_VISIBLE_DEVICES": str(k), "LOCAL_RANK": "0"}) for k, g in enumerate(ALL)], "pytorch pull request 166680, run"),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [Worker([2], [2], cvd("2")), Worker([1], [1], cvd("0"))], "the entries are stripped; run", cvd("2, 0")),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [Worker([0], [0], cvd(T4)), Worker([1], [1], cvd(BEST))], RAN, cvd(f"{T4},{BEST}")),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [], "run", cvd("3"), error="local_rank 1 exceeds available GPUs"),
    Case("torchrun", "torchrun --virtual-local-rank --nproc-per-node=2 t.py", [], "2.9.1 read: the option is not there", assume={"torch": "2.9.1"}, error="2.10"),
    Case("torchrun", "torchrun --nproc-per-node=2 t.py", same(ALL, [1, 0]), "2.9.1 read: the variable does nothing", {"PET_VIRTUAL_LOCAL_RANK": "1"}, {"torch": "2.9.1"}),
    Case("torchrun", "torchrun --nproc-per-node=2 t.py", [Worker(ALL, [1]), Worker(ALL, [1])], "tritonbench pull request 869", assume={"set_device": False}),
    Case("torchrun", (torchrun(2, nnodes=2, node_rank=1),), [Worker(ALL, [g], {"RANK": str(2 + k), "WORLD_SIZE": "4"}) for k, g in enumerate([1, 0])], RAN),
    Case("torchrun", "torchrun --nnodes=1:3 --node-rank 2 --nproc-per-node=2 --rdzv-backend c10d t.py", [Worker(ALL, [g], {"RANK": str(4 + k), "WORLD_SIZE": "6", "GROUP_RANK": "2"}) for k, g in enumerate([1, 0])], "torch 2.14.1 run.py, read"),
    Case("torchrun", (torchrun(2, nnodes=2, node_rank="all"),), [Worker(ALL, [g], {"RANK": str(k), "LOCAL_RANK": str(k % 2), "GROUP_RANK": str(k // 2)}) for k, g in enumerate([1, 0, 1, 0])], "two equal nodes"),
    Case("torchrun", "torchrun --nnodes 2 --master-addr host0 --master-port 1234 --nproc-per-node 1 t.py", [Worker(ALL, [1], {"MASTER_ADDR": "host0", "MASTER_PORT": "1234"})], "torch 2.14.1 run.py get_rdzv_endpoint, read"),
    Case("torchrun", "torchrun t.py", same(ALL, [1, 0, 2]), "torch 2.14.1 argparse_util.py, run", {"PET_NPROC_PER_NODE": "3"}),
    Case("torchrun", "torchrun --nproc-per-node=1 t.py", [Worker([3], [3], cvd("3"))], "run: a flag beats its variable", {"PET_VIRTUAL_LOCAL_RANK": "1", "PET_NPROC_PER_NODE": "9"} | cvd("3,1")),
    Case("torchrun", "torchrun t.py", [], "bool(int('yes')) raises; run", {"PET_STANDALONE": "yes"}, error="PET_"),
    Case("torchrun", "torchrun --nproc-per-node=3 t.py", [Worker([1, 0], u) for u in ([1], [0], [])], "LOCAL_RANK=2 asks for cuda:2, which is not there", cvd("0,1")),
    Case("torchrun", "torchrun --nproc-per-node=two t.py", [], RAN, error="Unsupported nproc_per_node value: two"),
    Case("torchrun", "torchrun --nproc-per-node=0 t.py", [], "torch 2.14.1 elastic/agent/server/api.py, read", error="above 0"),
    Case("torchrun", "torchrun --nproc-per-node=gpu t.py", [], RAN, cvd(""), error="Cuda is not available"),
    Case("torchrun", "torchrun --nproc-per-node=xpu t.py", [], "torch 2.14.1 run.py, read", error="Xpu is not available"),
    Case("torchrun", "torchrun --nproc-per-node=cpu t.py", [], "how many CPUs there are is not known", certainty="unknown", error="assume"),
    Case("torchrun", "torchrun --nproc-per-node=cpu t.py", same(ALL, [1, 0]), "torch 2.14.1 run.py, read", assume={"cpus": 2}),
    Case("torchrun", "torchrun --nnodes=0 t.py", [], "torch 2.14.1 config_from_args, run", error="nnodes"),
    Case("torchrun", "torchrun --nnodes=3:2 t.py", [], "torch 2.14.1 config_from_args, run", error="nnodes"),
    Case("torchrun", "torchrun --node-rank=x t.py", [], "argparse", error="invalid int value: 'x'"),
    Case("torchrun", "torchrun --nproc-per-node=$(nvidia-smi -L | wc -l) t.py", [Worker([1], u) for u in ([1], [], [], [])], "nvidia-smi counts all four, whatever the list says", cvd("0")),
    Case("torchrun", "torchrun --nproc-per-node=$(ls | wc -l) t.py", [], "only a shell knows", certainty="unknown", error="$(ls | wc -l)"),
    Case("torchrun", "torchrun --node-rank=$(hostname) --nproc-per-node=1 t.py", same(ALL, [1]), "the rank of the node changes no GPU"),
    Case("torchrun", "torchrun --nproc-per-node=$GPUS t.py", [], "a variable that nothing sets", certainty="unknown", error="nothing sets"),
    Case("torchrun", "export GPUS=2; torchrun --nproc-per-node=$GPUS --node_rank=$NODE t.py", same(ALL, [1, 0]), "POSIX shell"),
    Case("torchrun", "sh -c 'torchrun --nnodes 2 --nproc-per-node 1 --node-rank=$SLURM_NODEID t.py'", [Worker(ALL, [1], {"RANK": "1"})], "filled in where the process has it", {"SLURM_NODEID": "1"}),
    Case("torchrun", (torchrun(2, device_offset=3),), [Worker(ALL, [3]), Worker(ALL, [])], "cuda:{local_rank + 3}: out of range for the second"),
    Case("torchrun", (torchrun(2, nnodes=2, node_rank=1, first_rank=3, world_size=5),), [Worker(ALL, [1], {"RANK": "3", "WORLD_SIZE": "5"}), Worker(ALL, [0], {"RANK": "4"})], "torch elastic/agent/server/api.py: unequal nodes; read"),
    Case("torchrun", "torchrun --nproc-per-node=1000000000 t.py", [], "more than is drawn", error="8192"),
    Case("spawn", (spawn(2),), [Worker([2, 1], [2]), Worker([2, 1], [1])], "torch 2.13.0, run", cvd("2,0")),
    Case("spawn", (spawn(3, set_device=False),), [Worker(ALL, [1])] * 3, "torch 2.13.0, run"),
    Case("spawn", (spawn(0),), [], "torch.multiprocessing.spawn, read", error="nprocs=0"),
)  # fmt: skip

DEEPSPEED = (
    Case("deepspeed", "deepspeed t.py", same(ALL, ALL, "0,1,2,3"), DS),
    Case("deepspeed", "deepspeed --module pkg.train", same(ALL, ALL, "0,1,2,3"), DS),
    Case("deepspeed", "deepspeed t.py", same([1, 2], [1, 2], "0,2"), DS, cvd("2,0")),
    Case("deepspeed", "deepspeed t.py", same([2, 1], [2, 1], "2,0"), DS_READ.format("0.15.1"), cvd("2,0"), {"deepspeed": "0.15.1"}),
    Case("deepspeed", "deepspeed t.py", same([1, 2], [1, 2], "0,2"), DS_READ.format("0.15.2"), cvd("2,0"), {"deepspeed": "0.15.2"}),
    Case("deepspeed", "deepspeed t.py", same([0], [0], "1"), DS, cvd("1,1")),
    Case("deepspeed", "deepspeed --num_gpus 2 t.py", same([1, 0], [1, 0], "0,1"), DS, cvd("2,3")),
    Case("deepspeed", "deepspeed --num_gpus=6 t.py", [Worker(ALL, u, cvd("0,1,2,3,4,5")) for u in ([1], [0], [2], [3], [], [])], DS),
    Case("deepspeed", "deepspeed --include localhost:0,1 t.py", same([1, 0], [1, 0], "0,1"), DS, cvd("2,3")),
    Case("deepspeed", "deepspeed -i localhost:3,1 t.py", same([0, 3], [0, 3], "1,3"), DS),
    Case("deepspeed", "deepspeed --include=localhost:3,1 t.py", same([3, 0], [3, 0], "3,1"), DS_READ.format("0.14.5"), assume={"deepspeed": "0.14.5"}),
    Case("deepspeed", "deepspeed --exclude localhost:1 t.py", same([1, 2, 3], [1, 2, 3], "0,2,3"), DS),
    Case("deepspeed", "deepspeed t.py", [Worker(ALL, [1]), Worker(ALL, [1])] * 2, "tritonbench pull request 869: the same without set_device", assume={"set_device": False}),
    Case("deepspeed", "deepspeed t.py", [], DS, cvd(BEST), error="invalid literal for int()"),
    Case("deepspeed", "deepspeed t.py", [], DS, cvd(""), error="no GPU resources available"),
    Case("deepspeed", "deepspeed t.py", [], DS, cvd("7"), error="No slot '7'"),
    Case("deepspeed", "deepspeed t.py", [Worker([], [], cvd("7"))], DS_READ.format("0.19.6"), cvd("7"), {"deepspeed": "0.19.6"}),
    Case("deepspeed", "deepspeed --include localhost t.py", [], DS_READ.format("0.18.0") + ": the host resolves to no slots", assume={"deepspeed": "0.18.0"}, error="list index out of range"),
    Case("deepspeed", "deepspeed --include localhost t.py", same(ALL, ALL, "0,1,2,3"), DS),
    Case("deepspeed", "deepspeed --exclude localhost t.py", [], DS_READ.format("0.19.8"), error="list index out of range"),
    Case("deepspeed", "deepspeed --num_nodes 1 t.py", [], "the list becomes --include, which num_nodes excludes; 0.19.8 read", cvd("0"), error="Cannot specify num_nodes"),
    Case("deepspeed", "deepspeed --num_nodes 2 t.py", [], DS_READ.format("0.19.8"), error="no extra nodes"),
    Case("deepspeed", "deepspeed --num_gpus two t.py", [], "argparse", error="invalid int value: 'two'"),
    Case("deepspeed", "deepspeed --include localhost:0 --exclude localhost:1 t.py", [], DS_READ.format("0.19.8"), error="mutually exclusive"),
    Case("deepspeed", "deepspeed --include other:0 t.py", [], DS_READ.format("0.19.8"), error="Hostname 'other'"),
    Case("deepspeed", "deepspeed --exclude localhost:1,1 t.py", [], DS_READ.format("0.15.0"), assume={"deepspeed": "0.15.0"}, error="list.remove"),
    Case("deepspeed", "deepspeed --include localhost:1:2 t.py", [], DS_READ.format("0.19.8"), error="too many values"),
    Case("deepspeed", "deepspeed --num_gpus 999999 t.py", [], "more than is drawn", error="8192"),
    Case("deepspeed", (deepspeed(hosts={"a": 2, "b": 1}),),
         [Worker([1, 0], [1], {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": None} | cvd("0,1")), Worker([1, 0], [0], {"RANK": "1", "LOCAL_RANK": "1"}), Worker([1], [1], {"RANK": "2", "LOCAL_RANK": "0"} | cvd("0"))], "launch.py, read; all hosts alike", certainty="likely"),
    Case("deepspeed", (deepspeed(hosts={"a": 2, "b": 3}),), [Worker([1, 0], [1]), Worker([1, 0], [0]), Worker([1, 0, 2], [2], {"RANK": "2", "LOCAL_RANK": "2"}), Worker([1, 0, 2], [1], {"LOCAL_RANK": "0"}), Worker([1, 0, 2], [0], {"LOCAL_RANK": "1"})], "launch.py: local_rank = dist_rank % num_local_procs; read"),
    Case("deepspeed", "deepspeed -H hosts t.py", [Worker([1], [1], {"CUDA_DEVICE_ORDER": None} | cvd("0"))] * 2, "runner.py exports NCCL…, PYTHON…, MV2…, UCX…, MLFLOW… only; read", PCI | cvd("3"), {"files": {"hosts": "a slots=1\nb slots=1\n"}}),
    Case("deepspeed", "deepspeed -H hosts t.py", [Worker([0], [0], PCI | cvd("0"))] * 2, "runner.py, read", {}, {"files": {"hosts": "a slots=1\nb slots=1", ".deepspeed_env": "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"}}),
    Case("deepspeed", "deepspeed -H hosts t.py", same([0, 1], [0, 1], "0,1"), "one host: started here, with this environment; read", PCI | cvd("3"), {"files": {"hosts": "# this\nme slots=2\n"}}),
    Case("deepspeed", "deepspeed -H hosts --no_ssh --node_rank 1 t.py", [Worker([1], [1], {"RANK": "2"})], "runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=1"}}),
    Case("deepspeed", "deepspeed -H hosts --no_ssh t.py", [], "runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=1"}}, error="--node_rank"),
    Case("deepspeed", "deepspeed -H hosts --num_nodes 1 -q t.py", same([1, 0], [1, 0], "0,1"), "runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=1"}}),
    Case("deepspeed", "deepspeed -H hosts --include b@a:1 t.py", [Worker([0], [0], cvd("1")), Worker([1, 0], [0], cvd("0,1")), Worker([1, 0], [1])], "launch.py: host b has ranks 1 and 2, local ranks 1 and 0; read", {}, {"files": {"hosts": "a slots=2\nb slots=2"}}),
    Case("deepspeed", "deepspeed --hostfile elsewhere t.py", same(ALL, ALL), "what the file says is not known"),
    Case("deepspeed", "deepspeed -H hosts --launcher openmpi t.py", [Worker([3], [3], cvd("3")), Worker([3], [3])], "multinode_runner.py, read", cvd("3"), {"files": {"hosts": "a slots=1\nb slots=1"}}, certainty="likely"),
    Case("deepspeed", "deepspeed -H hosts --launcher slurm t.py", [Worker(ALL, [1])] * 2, "multinode_runner.py, read", {}, {"files": {"hosts": "a slots=1\nb slots=1"}}, certainty="unknown"),
    Case("deepspeed", "deepspeed -H hosts --launcher openmpi --num_gpus 1 t.py", [], "multinode_runner.py, read", {}, {"files": {"hosts": "a slots=1\nb slots=1"}}, error="does not support"),
    Case("deepspeed", "deepspeed -H hosts --launcher slurm --include a:1@b:1 t.py", [], "multinode_runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=2"}}, error="cannot select"),
    Case("deepspeed", "deepspeed -H hosts --launcher slurm t.py", [], "multinode_runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=1"}}, error="same slot count"),
    Case("deepspeed", "deepspeed -H hosts --launcher what t.py", [], "runner.py, read", {}, {"files": {"hosts": "a slots=2\nb slots=1"}}, error="Unknown launcher what"),
    Case("deepspeed", "deepspeed -H hosts t.py", [], "runner.py, run", {}, {"files": {"hosts": "a slot=2"}}, error="bad entry: a slot=2"),
    Case("deepspeed", "deepspeed -H hosts t.py", [], "runner.py, run", {}, {"files": {"hosts": "a slots=2\na slots=2"}}, error="multiple entries for a"),
    Case("deepspeed", "deepspeed -H hosts t.py", [], "runner.py, run", {}, {"files": {"hosts": "# nothing\n"}}, error="Hostfile is empty"),
)  # fmt: skip

CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: {}\ngpu_ids: {}\nnum_machines: 1\nnum_processes: {}\ndeepspeed_config:\n  zero_stage: 3\nuse_cpu: {}\n"


def config(kind: str, ids: str = "all", processes: int = 2, cpu: str = "false") -> dict[str, dict[str, str]]:
    """What ``accelerate config`` writes, as a file that the command names."""
    return {"files": {"c.yaml": CONFIG.format(kind, ids, processes, cpu)}}


ACCELERATE = (
    Case("accelerate", "accelerate launch --multi_gpu --num_processes 2 --gpu_ids 2,0 t.py", same([2, 1], [2, 1], "2,0"), ACC),
    Case("accelerate", "accelerate launch --num_processes 1 --gpu_ids 1 t.py", [Worker([0], [0], {"LOCAL_RANK": None} | cvd("1"))], ACC, cvd("3,1")),
    Case("accelerate", "accelerate launch t.py", same(ALL, ALL), ACC),
    Case("accelerate", "accelerate-launch --num-processes=2 -m pkg.train", same([3, 0], [3, 0]), ACC, cvd("3,1")),
    Case("accelerate", "accelerate launch --multi_gpu --gpu_ids 1 --num_processes 2 t.py", [Worker([0], [0], cvd("1") | {"LOCAL_RANK": str(k)}) for k in range(2)], "not rejected on the command line; run. state.py set_device, read"),
    Case("accelerate", "accelerate launch --num_processes 2 t.py", [Worker([3], [3], {"LOCAL_RANK": None})], "one GPU: multi_gpu stays off and one process starts; run", cvd("3")),
    Case("accelerate", "accelerate launch --multi_gpu --num_processes 2 t.py", [Worker(ALL, [1])] * 2, "without Accelerator and set_device", assume={"set_device": False}),
    Case("accelerate", "accelerate launch t.py", [Worker([], [])], ACC, cvd("")),
    Case("accelerate", "accelerate launch --cpu t.py", [Worker(ALL, [])], ACC),
    Case("accelerate", "accelerate launch --use_fsdp --num_processes 2 t.py", same(ALL, [1, 0]), ACC),
    Case("accelerate", "accelerate launch --use_deepspeed --num_processes 2 --gpu_ids 3,2 t.py", same([3, 2], [3, 2], "3,2"), ACC),
    Case("accelerate", "accelerate launch --num_processes 4 --num_machines 2 --machine_rank 1 --main_process_ip h --main_process_port 7 t.py", [Worker(ALL, [g], {"RANK": str(2 + k), "MASTER_ADDR": "h", "MASTER_PORT": "7"}) for k, g in enumerate([1, 0])], "utils/launch.py prepare_multi_gpu_env, read"),
    Case("accelerate", "accelerate launch --multi_gpu --num_processes 2 t.py", [Worker([3], [3], {"LOCAL_RANK": "0"}), Worker([1], [1])], "run: torch's variables reach the launcher", {"PET_VIRTUAL_LOCAL_RANK": "1"} | cvd("3,0")),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", same([1, 0], [1, 0], "0,1"), ACC, assume=config("MULTI_GPU", "0,1")),
    Case("accelerate", "accelerate launch --config_file c.yaml --gpu_ids 3,1 t.py", same([3, 0], [3, 0], "3,1"), ACC, assume=config("MULTI_GPU", "0,1")),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [Worker(ALL, [1])], ACC, assume=config("NO", processes=1)),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [Worker(ALL, [])], ACC, assume=config("NO", processes=1, cpu="true")),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", same(ALL, [1, 0]), ACC, assume=config("DEEPSPEED")),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [], ACC, assume=config("MULTI_GPU", "'1'"), error="Less than two GPU ids"),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [], ACC, assume=config("MULTI_GPU", "1"), error="'int' object has no attribute 'split'"),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [], ACC, assume=config("MULTI_GPU", processes=-1), error="manually pass in"),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [], "config_args.py, read", assume={"files": {"c.yaml": "num_processes: 2"}}, error="distributed_type"),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", [], "no settings at all", assume={"files": {"c.yaml": "what\n"}}, error="cannot be read"),
    Case("accelerate", "accelerate launch --config_file c.yaml t.py", same(ALL, ALL), "what the file says is not known"),
    Case("accelerate", "accelerate launch t.py", same(ALL, [1, 0, 2]), ACC, assume={"files": {"~/.cache/huggingface/accelerate/default_config.yaml": CONFIG.format("MULTI_GPU", "all", 3, "false")}}),
    Case("accelerate", (accelerate(config={"distributed_type": "MULTI_GPU", "num_processes": 2}),), same(ALL, [1, 0]), ACC),
    Case("accelerate", (accelerate(config={"distributed_type": "MULTI_GPU", "num_processes": "two"}),), [], "a number is needed", error="num_processes"),
    Case("accelerate", "accelerate launch --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 2 --deepspeed_hostfile h t.py", [Worker([1], [1], cvd("0"))] * 2, "utils/launch.py prepare_deepspeed_cmd_env, read", assume={"files": {"h": "a slots=2\nb slots=2"}}),
    Case("accelerate", "accelerate launch --multi_gpu --cpu t.py", [], ACC, error="at a time"),
    Case("accelerate", "accelerate launch --multi_gpu --num_processes 1 t.py", [], ACC, error="at least 2 processes"),
    Case("accelerate", "accelerate launch --num_processes two t.py", [], "argparse", error="whole number"),
    Case("accelerate", "accelerate launch --multi_gpu --num_processes 4 --num_machines 2 t.py", [], "int(None); run", error="machine_rank"),
    Case("accelerate", "accelerate launch --tpu --num_processes 1 t.py", [], "no CUDA", error="TPU"),
)  # fmt: skip

CASES = (*TORCHRUN, *DEEPSPEED, *ACCELERATE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_launchers(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("text", ["accelerate config", "accelerate", "python t.py", "deepspeed_report"])
def test_other_programs_are_ordinary_processes(text: str) -> None:
    prediction = predicted(Case("", text, [], "-"))
    assert len(prediction.processes) == 1
    assert prediction.processes[0].chosen is None


@pytest.mark.parametrize(
    ("text", "unknown"),
    [("torchrun --quantum 4 t.py", "--quantum"), ("deepspeed --quantum=4 t.py", "--quantum=4"), ("accelerate launch --quantum t.py", "--quantum")],
)  # fmt: skip
def test_unknown_options_are_kept_for_a_finding(text: str, unknown: str) -> None:
    layer = predicted(Case("", text, [], "-")).scenario.layers[-1]
    assert layer.options["unrecognised"] == (unknown,)


def believed(
    layer: Layer, env: dict[str, str], machine: Topology = MIXED
) -> list[tuple[str | None, tuple[int, ...] | None]]:
    """What the popular belief makes of a layer: list and ordinals of each worker."""
    row = LAYERS[layer.kind]
    assert row.believed is not None
    view = fold(machine, [environment(env)]).views[0]
    return [
        (one.env.get("CUDA_VISIBLE_DEVICES"), one.chosen) for one in row.believed(view, layer.options, machine).views
    ]


def test_the_popular_belief_is_one_gpu_each() -> None:
    assert believed(torchrun(2), {}) == [("0", (0,)), ("1", (0,))]
    assert believed(torchrun(2), cvd("3,1")) == [("3", (0,)), ("1", (0,))]
    assert believed(torchrun(2), cvd("3")) == [("3", (0,)), ("3", (1,))]
    assert believed(deepspeed(), {}) == [(str(k), (0,)) for k in range(4)]


def test_a_command_behind_a_launcher_is_read_too() -> None:
    layers = predicted(
        Case(
            "", "torchrun --nproc-per-node=2 --no-python sh -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK python t.py'", [], "-"
        )
    )
    assert [list(p.nvml_indices) for p in layers.processes] == [[1], [0]]


# ---- the tutorials' rows about launchers ----


def used(prediction: Prediction) -> list[list[int | None]]:
    """nvidia-smi index of the GPUs that each process uses."""
    return [[process.nvml_indices[i] for i in process.uses] for process in prediction.processes]


def test_row_7_torchrun_changes_nothing() -> None:
    prediction = predicted(Case("", "torchrun --nproc-per-node=4 train.py", [], "-"))
    assert [list(process.nvml_indices) for process in prediction.processes] == [ALL] * 4
    assert {process.env.get("CUDA_VISIBLE_DEVICES") for process in prediction.processes} == {None}
    assert used(prediction) == [[1], [0], [2], [3]]
    never = predicted(Case("", "torchrun --nproc-per-node=4 train.py", [], "-", assume={"set_device": False}))
    assert used(never) == [[1]] * 4, "ranks that never select a device share cuda:0"


def test_row_8_deepspeed_sorts_and_drops() -> None:
    assert used(predicted(Case("", "deepspeed train.py", [], "-", cvd("2,0")))) == [[1], [2]]
    dropped = predicted(Case("", "deepspeed --num_gpus 2 train.py", [], "-", cvd("2,3")))
    assert used(dropped) == [[1], [0]]
    assert any("ignores it" in str(step) for step in dropped.steps)


def test_row_22_an_offset_runs_out_of_range() -> None:
    prediction = predicted(Case("", "torchrun --nproc-per-node=4 train.py", [], "-", assume={"device_offset": 3}))
    assert [process.missing for process in prediction.processes] == [(), (4,), (5,), (6,)]
    assert used(prediction) == [[3], [], [], []]


def test_row_23_the_log_says_cuda_0() -> None:
    """Every worker of a launcher with virtual ranks logs cuda:0, and each is another card."""
    prediction = predicted(Case("", "torchrun --virtual-local-rank --nproc-per-node=4 train.py", [], "-"))
    assert [process.chosen for process in prediction.processes] == [(0,)] * 4
    assert used(prediction) == [[1], [0], [2], [3]]


def test_row_24_two_lists_in_other_orders_are_two_cards() -> None:
    both = "CUDA_VISIBLE_DEVICES=0,1 python a.py & CUDA_VISIBLE_DEVICES=1,0 python b.py"
    prediction = predicted(Case("", both, [], "-", PCI))
    assert [process.nvml_indices[0] for process in prediction.processes] == [0, 1]
