"""Lightning, Hugging Face, inference servers, JAX and TensorFlow, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpumap_widgets.layers import (
    LAYERS,
    device_map,
    environment,
    fold,
    hf_trainer,
    jax,
    lightning,
    llamacpp,
    ollama,
    sglang,
    spawn,
    tensorflow,
    torchrun,
    vllm,
)
from gpumap_widgets.layers.lightning_devices import parse_devices
from gpumap_widgets.mapping import Message
from gpumap_widgets.scenario import Layer
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED
from tests.layer_cases import Case, Worker, check, predicted

LIGHTNING = "lightning 2.6.6, device parser run, the rest read"
HF = "transformers 5.24.0, read"
VLLM = "vllm 0.33.0, read"
SGLANG = "sglang 0.5.23, read"
LLAMA = "llama.cpp src/llama.cpp (01649e6), read"
OLLAMA = "ollama v0.33.0-rc2, read"
JAX = "jax 0.10.2, read"
TF = "tensorflow of an old revision, read"
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
ALL = [1, 0, 2, 3]
T4 = "GPU-a0e15e00-0000-4000-8000-000000000000"
BEST = "GPU-b1e18600-0000-4000-8000-000000000001"
SMALL = Topology.of("RTX 4090", "GT 1030")


def cvd(value: str) -> dict[str, str]:
    """An environment with this list."""
    return {"CUDA_VISIBLE_DEVICES": value}


def uses(*physical: int | Sequence[int], cuda: Sequence[int] = ALL) -> list[Worker]:
    """Workers that see the same GPUs, each using its own."""
    return [Worker(cuda, [gpu] if isinstance(gpu, int) else gpu) for gpu in physical]


TRAINERS = (
    Case("lightning", (lightning([2, 0], strategy="ddp"),), [Worker(ALL, [2], {"LOCAL_RANK": "0"}), Worker(ALL, [1], {"LOCAL_RANK": "1"})], LIGHTNING),
    Case("lightning", (lightning("2"),), [Worker(ALL, [1], {"LOCAL_RANK": "0", "WORLD_SIZE": "2"}), Worker(ALL, [0], {"LOCAL_RANK": "1"})], "a count; parser run"),
    Case("lightning", (lightning("2,"),), [Worker(ALL, [2], {"LOCAL_RANK": None})], "a list; parser run"),
    Case("lightning", (lightning(-1),), uses(1, 0, 2, 3), LIGHTNING),
    Case("lightning", (lightning(),), uses(1, 0, 2, 3), LIGHTNING),
    Case("lightning", (lightning(notebook=True),), uses(1), "accelerator_connector.py _set_devices_flag_if_auto_passed, read"),
    Case("lightning", (lightning([0, 1]),), uses(3, 0, cuda=[3, 0]), LIGHTNING, cvd("3,1")),
    Case("lightning", (lightning([2]),), [], LIGHTNING, cvd("3,1"), error="only has: [0, 1]"),
    Case("lightning", (lightning([1, 1]),), [], LIGHTNING, error="must be unique"),
    Case("lightning", (lightning("5,"),), [], LIGHTNING, error="only has: [0, 1, 2, 3]"),
    Case("lightning", (lightning("two"),), [], LIGHTNING, error="no number"),
    Case("lightning", (lightning(-2),), [], LIGHTNING, error="none are available"),
    Case("lightning", (Layer("lightning", {"devices": None}),), [], LIGHTNING, error="must be an int, a string"),
    Case("lightning", (lightning(0),), [], LIGHTNING, error="not a valid input"),
    Case("lightning", (lightning(2, strategy="ddp_spawn"),), [Worker(ALL, [1], {"LOCAL_RANK": None}), Worker(ALL, [0])], "strategies/launchers/multiprocessing.py, read"),
    Case("lightning", (lightning(2, num_nodes=2),), [Worker(ALL, [1], {"WORLD_SIZE": "4", "LOCAL_RANK": "0"}), Worker(ALL, [0])], LIGHTNING),
    Case("lightning", (lightning(2, strategy="ddp", num_nodes=2),), [Worker(ALL, [1], {"NODE_RANK": "1"}), Worker(ALL, [0])], LIGHTNING, {"NODE_RANK": "1"}),
    Case("lightning", (torchrun(2), lightning(2)), uses(1, 0), "torchelastic starts the processes, rank k takes device k; read"),
    Case("lightning", (torchrun(2), lightning([3, 2])), uses(3, 2), LIGHTNING),
    Case("lightning", (torchrun(2), lightning(1)), uses(1, 1), "one device: no strategy, both on cuda:0; read"),
    Case("lightning", (torchrun(2), lightning(3)), [], "torchelastic.py validate_settings, read", error="does not match the world size (2)"),
    Case("lightning", (lightning(2),), uses(0), LIGHTNING, {"LOCAL_RANK": "1"}),
    Case("lightning", (lightning(2),), [], LIGHTNING, {"LOCAL_RANK": "5"}, error="local rank 5"),
    Case("lightning", (lightning(2),), uses(0), "plugins/environments/slurm.py, read", {"SLURM_NTASKS": "2", "SLURM_LOCALID": "1"}),
    Case("lightning", (lightning(accelerator="cpu"),), uses([]), LIGHTNING),
    Case("lightning", (lightning(),), [Worker([], [])], LIGHTNING, cvd("")),
    Case("lightning", (lightning(2, accelerator="gpu"),), [], LIGHTNING, cvd(""), error="No supported gpu backend"),
    Case("lightning", (lightning(accelerator="quantum"),), [], LIGHTNING, error="invalid accelerator"),
    Case("lightning", (lightning(strategy="dp"),), [], "gone in 2.0; read", error="invalid strategy"),
    Case("lightning", (lightning(num_nodes=0),), [], LIGHTNING, error="num_nodes"),
    Case("lightning", "python train.py", uses(2, 1), LIGHTNING, assume={"script": "lightning", "devices": [2, 0], "strategy": "ddp"}),
    Case("hf_trainer", "python train.py", uses([1, 0, 2, 3]), HF, assume={"script": "hf_trainer"}),
    Case("hf_trainer", (hf_trainer(),), uses([0], cuda=[0]), HF, cvd("1")),
    Case("hf_trainer", (hf_trainer(),), [Worker([], [])], HF, cvd("")),
    Case("hf_trainer", "torchrun --nproc-per-node=2 train.py", uses(1, 0), HF, assume={"script": "hf_trainer"}),
    Case("hf_trainer", "torchrun --nproc-per-node=3 train.py", uses(2, 3, 2, cuda=[2, 3]), "state.py: local rank % device count; read", cvd("2,3"), {"script": "hf_trainer"}),
    Case("hf_trainer", "CUDA_VISIBLE_DEVICES=2,3 python -u train.py", uses([2, 3], cuda=[2, 3]), HF, PCI, {"script": "hf_trainer"}),
    Case("device_map", "python gen.py", uses([0], cuda=[0]), "the tutorial's case 6.1", cvd("1"), {"script": "device_map=auto"}),
    Case("device_map", (device_map("sequential"),), uses([1, 0, 2, 3]), HF),
    Case("device_map", (device_map(),), [Worker([], [])], HF, cvd("")),
    Case("device_map", (device_map("cuda:2"),), uses(2), HF),
    Case("device_map", (device_map(1),), uses(0), HF),
    Case("device_map", (device_map("cpu"),), uses([]), HF),
    Case("device_map", (torchrun(2), device_map("cuda")), uses(1, 0), "cuda means cuda:LOCAL_RANK; read"),
    Case("device_map", (torchrun(2), device_map("auto")), uses([1, 0, 2, 3], [1, 0, 2, 3]), HF),
    Case("device_map", "python gen.py", uses(0), HF, assume={"script": "device_map", "device_map": "cuda:1"}),
    Case("device_map", (device_map("cuda:9"),), uses([]), "invalid device ordinal"),
    Case("device_map", (device_map(-1),), [], HF, error="negative int"),
    Case("device_map", (device_map("everywhere"),), [], HF, error="everywhere"),
)  # fmt: skip

SERVERS = (
    Case("vllm", "vllm serve M -tp 2", [Worker(ALL, [1], {"CUDA_VISIBLE_DEVICES": None}), Worker(ALL, [0])], VLLM),
    Case("vllm", "vllm serve M --tensor_parallel_size=2 --pipeline-parallel-size 2", uses(1, 0, 2, 3), VLLM),
    Case("vllm", "vllm serve -dp 2 --tensor-parallel-size 2 M --max-model-len 4096 --enforce-eager", uses(1, 0, 2, 3), VLLM),
    Case("vllm", "python -m vllm.entrypoints.openai.api_server --model M -tp 2", uses(3, 0, cuda=[3, 0]), VLLM, cvd("3,1")),
    Case("vllm", "vllm serve M --device-ids 1", uses(0), "id 1 is used as cuda:1; derived"),
    Case("vllm", "vllm serve M --device-ids 1", uses(1, cuda=[0, 1, 2, 3]), VLLM, PCI),
    Case("vllm", f"vllm serve M --device-ids {BEST}", uses(0), "the UUID's NVML index is used as cuda:1; derived"),
    Case("vllm", f"vllm serve M --device-ids {BEST}", uses(1, cuda=[0, 1, 2, 3]), VLLM, PCI),
    Case("vllm", f"vllm serve M --device-ids {BEST}", uses(0, cuda=[0, 2]), "its NVML index is the first entry, which CUDA reads otherwise; derived", cvd("1,2")),
    Case("vllm", "vllm serve M -tp 2 --device-ids 1,0", uses(0, 3, cuda=[3, 0]), "indices into the list; read", cvd("3,1")),
    Case("vllm", "vllm serve M -tp 2 --device-ids 2,3", uses(2, 3), VLLM),
    Case("vllm", "vllm serve M", uses(1, cuda=[1, 0]), VLLM, cvd(f"{BEST},{T4}")),
    Case("vllm", "vllm serve M", [], "vllm issue 41848; 0.23.0 read", cvd(BEST), {"vllm": "0.20.1"}, error="invalid literal for int()"),
    Case("vllm", "vllm serve M --device-ids 1", [], "vllm 0.23.0 engine/arg_utils.py, read", assume={"vllm": "0.23.0"}, error="0.24.0"),
    Case("vllm", "vllm serve M -tp 8", [], VLLM, error="World size (8) is larger than the number of available GPUs (4)"),
    Case("vllm", "vllm serve M -dp 3 -tp 2", [], VLLM, error="out of bounds"),
    Case("vllm", "vllm serve M", [], VLLM, cvd(""), error="available GPUs (0)"),
    Case("vllm", "vllm serve M -tp 2 --device-ids 1", [], VLLM, error="provides 1 devices"),
    Case("vllm", "vllm serve M --device-ids 1,1", [], VLLM, error="duplicates"),
    Case("vllm", f"vllm serve M --device-ids 1,{BEST}", [], VLLM, error="mix"),
    Case("vllm", "vllm serve M --device-ids 2", [], VLLM, cvd("3,1"), error="index 2 is out of range"),
    Case("vllm", "vllm serve M --device-ids GPU-b1e18600", [], "NVML wants the whole UUID", error="NVML knows no device GPU-b1e18600"),
    Case("vllm", f"vllm serve M --device-ids {T4}", [], VLLM, cvd("2"), error="not visible"),
    Case("vllm", "vllm serve M -tp two", [], "argparse", error="--tensor-parallel-size is two"),
    Case("vllm", "vllm serve M -tp 2 --nnodes 4", [], VLLM, error="leave none"),
    Case("vllm", "vllm serve M -tp 4 --nnodes 2 --node-rank 1", uses(1, 0), VLLM),
    Case("vllm", "vllm serve M -tp 2 --distributed-executor-backend ray", uses(1, 0), "Ray's placement decides", certainty="unknown"),
    Case("vllm", "vllm serve M --config c.yaml", uses(1, 0), VLLM, assume={"files": {"c.yaml": "tensor-parallel-size: 2\n"}}),
    Case("vllm", (vllm(2, data_parallel=1),), uses(1, 0), VLLM),
    Case("sglang", "python -m sglang.launch_server --tp 2 --base-gpu-id 2", uses(2, 3), SGLANG),
    Case("sglang", "python3 -m sglang.launch_server --model-path M --tensor-parallel-size=2 --gpu-id-step 2", uses(1, 2), SGLANG),
    Case("sglang", "sglang serve --tp-size 2 --pp-size 2 --gpu-id-step 2 M", uses(1, 2, 2, []), "the step does not apply to the pipeline's part; read"),
    Case("sglang", "python -m sglang.launch_server --dp-size 2 --tp-size 2", uses(1, 0, 2, 3), SGLANG),
    Case("sglang", "python -m sglang.launch_server --dp-size 2 --tp-size 2 --enable-dp-attention", uses(1, 0), SGLANG),
    Case("sglang", "python -m sglang.launch_server --tp 4 --nnodes 2 --node-rank 1", uses(1, 0), SGLANG),
    Case("sglang", "python -m sglang.launch_server --tp 2", [Worker([3], [3], cvd("3")), Worker([0], [0], cvd("1"))], SGLANG, {"SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS": "1"} | cvd("3,1")),
    Case("sglang", (sglang(2, base_gpu_id=2, one_visible=True),), [Worker([2], [2], cvd("2")), Worker([3], [3], cvd("3"))], SGLANG),
    Case("sglang", (sglang(1, one_visible=True),), [Worker([0], [0], cvd("0"))], SGLANG, PCI),
    Case("sglang", (sglang(2, one_visible=True),), [], SGLANG, cvd("3"), error="list index out of range"),
    Case("sglang", (sglang(3),), uses(3, 0, [], cuda=[3, 0]), "set_device fails in the third; read", cvd("3,1")),
    Case("sglang", "python -m sglang.launch_server --tp x", [], "argparse", error="--tp-size is x"),
    Case("sglang", "python -m sglang.launch_server --tp 1 --nnodes 4", [], SGLANG, error="leave no process"),
    Case("llamacpp", "llama-server -m M -sm none -mg 1", uses(0), LLAMA),
    Case("llamacpp", "llama-server -m M -ts 3,1", uses([1, 0], cuda=[1, 0]), LLAMA, cvd("0,1")),
    Case("llamacpp", "llama-cli -m M --tensor-split 0,1", uses([0]), "devices without a share get nothing; read"),
    Case("llamacpp", "llama-server -m M", uses([1, 0, 2, 3]), LLAMA),
    Case("llamacpp", "./llama-server -m M -mg 1 -ngl 99", uses([1, 0, 2, 3]), "-mg chooses nothing in this mode"),
    Case("llamacpp", "llama-server -m M -dev CUDA1,CUDA0", uses([0, 1]), LLAMA),
    Case("llamacpp", "llama-server -m M -dev CUDA1,CUDA0 -sm none", uses([0]), LLAMA),
    Case("llamacpp", "llama-server -m M -dev none", uses([]), LLAMA),
    Case("llamacpp", "llama-server -m M", uses([0]), LLAMA, {"LLAMA_ARG_SPLIT_MODE": "none", "LLAMA_ARG_MAIN_GPU": "1"}),
    Case("llamacpp", "llama-server -m M -sm none -mg 3", uses([0], cuda=[3, 0]), "four devices of two GPUs, round and round; ggml-cuda.cu read", {"GGML_CUDA_DEVICES": "4"} | cvd("3,1")),
    Case("llamacpp", "llama-server -m M -sm none -mg 4", [], LLAMA, error="main_gpu: 4 (available devices: 4)"),
    Case("llamacpp", "llama-server -m M -sm none -mg -1", uses([]), LLAMA),
    Case("llamacpp", "llama-server -m M -dev CUDA9", [], LLAMA, error="invalid device: CUDA9"),
    Case("llamacpp", "llama-server -m M -ts a,b", [], LLAMA, error="--tensor-split"),
    Case("llamacpp", "llama-server -m M -mg x", [], LLAMA, error="--main-gpu: x"),
    Case("llamacpp", "llama-server -m M -sm half", [], LLAMA, error="--split-mode"),
    Case("llamacpp", (llamacpp(split_mode="none", main_gpu=2),), uses([2]), LLAMA),
    Case("ollama", "ollama serve", [Worker([1], [1], cvd("0"))], "the 4090 has the most memory", certainty="unknown"),
    Case("ollama", "ollama run llama3", [Worker([0], [0], cvd("1"))], "the user's own entry; read", cvd("1")),
    Case("ollama", (ollama(fits=False),), [Worker([3, 0], [3, 0], cvd("3,1"))], OLLAMA, cvd("3,1")),
    Case("ollama", "ollama serve", [Worker(ALL, ALL, cvd("0,1,2,3"))], OLLAMA, {"OLLAMA_SCHED_SPREAD": "1"}),
    Case("ollama", (ollama(main_gpu=2),), [Worker([2], [2], cvd("2"))], OLLAMA),
    Case("ollama", "ollama serve", [Worker([], [])], OLLAMA, cvd("-1")),
)  # fmt: skip

ARRAYS = (
    Case("jax", (jax([1]),), uses(0), JAX),
    Case("jax", (jax([2, 1]),), uses([0, 2]), "an ordered set: the order is not kept; read"),
    Case("jax", (jax(),), uses([1, 0, 2, 3]), JAX),
    Case("jax", (jax(distributed=True),), uses(0), "clusters/cluster.py, read", {"SLURM_LOCALID": "1"}),
    Case("jax", (jax(distributed=True),), uses([], cuda=[3]), "one GPU a task, and ordinal 1 asked for; derived", {"SLURM_LOCALID": "1"} | cvd("3")),
    Case("jax", "python t.py", uses(2), JAX, assume={"script": "jax", "local_device_ids": [2]}),
    Case("jax", (jax(),), [Worker([], [])], JAX, cvd("")),
    Case("tensorflow", (tensorflow("1,0"),), uses([2, 0], cuda=[0, 2]), TF, cvd("1,2")),
    Case("tensorflow", (tensorflow([1]),), uses(0), TF),
    Case("tensorflow", "python t.py", uses([1, 0, 2, 3]), TF, assume={"script": "tensorflow"}),
    Case("tensorflow", (tensorflow(),), [Worker([], [])], TF, cvd("")),
    Case("tensorflow", (tensorflow(),), [Worker([0, 1], [0])], "fewer than 8 multiprocessors", machine=SMALL),
    Case("tensorflow", (tensorflow(),), [Worker([0, 1], [0, 1])], TF, {"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "3"}, machine=SMALL),
    Case("tensorflow", (tensorflow(),), [Worker([1], [1])], "alone it is used", cvd("1"), machine=SMALL),
    Case("tensorflow", (tensorflow("4"),), [], TF, error="invalid GPU id '4' but visible device count is 4"),
    Case("tensorflow", (tensorflow("1,1"),), [], TF, error="duplicate entry: 1"),
    Case("tensorflow", (tensorflow("one"),), [], TF, error="Could not parse"),
)  # fmt: skip

CASES = (*TRAINERS, *SERVERS, *ARRAYS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_frameworks(case: Case) -> None:
    check(case)


# (devices, what Lightning 2.6.6 makes of it with four GPUs) - the table of the facts, parser run
PARSED = (
    *((2, (0, 1)), ("2", (0, 1)), ("2,", (2,)), ((2,), (2,)), ((0,), (0,)), ("2,0", (2, 0)), ("-1", (0, 1, 2, 3))),
    *((-1, (0, 1, 2, 3)), (" 2 ", (0, 1)), ("2,,0", (2, 0)), (" 1, 3", (1, 3))),
)  # fmt: skip


@pytest.mark.parametrize(("devices", "ordinals"), PARSED, ids=repr)
def test_lightnings_devices(devices: object, ordinals: tuple[int, ...]) -> None:
    assert parse_devices(devices, 4) == ordinals


@pytest.mark.parametrize(
    ("devices", "count", "key"),
    [((1, 1), 4, "unique"), ("5,", 4, "only"), (4, 2, "only"), (None, 4, "type"), (True, 4, "type"), ((True,), 4, "type"),
     ("x", 4, "int"), ("1,x", 4, "int"), (-1, 0, "no-gpu"), ((), 4, "none"), (-2, 4, "no-gpu")],
    ids=repr,
)  # fmt: skip
def test_what_lightning_refuses(devices: object, count: int, key: str) -> None:
    refused = parse_devices(devices, count)
    assert isinstance(refused, Message)
    assert refused.key == f"error.lightning.{key}"
    assert str(refused)


def believed(layer: Layer, env: dict[str, str]) -> list[list[int]]:
    """The GPUs that each worker uses by the popular belief, as nvidia-smi counts them."""
    row = LAYERS[layer.kind]
    assert row.believed is not None
    view = fold(MIXED, [environment(env)]).views[0]
    outcome = row.believed(view, layer.options, MIXED)
    from gpumap_widgets.layers import process_of

    shown = [process_of(MIXED, one) for one in outcome.views]
    return [[process.nvml_indices[i] for i in process.uses] for process in shown]  # type: ignore[misc]


def test_popular_beliefs() -> None:
    assert believed(lightning("2"), {}) == [[2]]
    assert believed(lightning([1], strategy="ddp"), {}) == [[1]]
    assert believed(hf_trainer(), {}) == [[1]]
    assert believed(vllm(device_ids="1"), {}) == [[1]]
    assert believed(llamacpp(main_gpu=1), {}) == [[0]]


def test_vllm_says_which_gpu_it_asks_about() -> None:
    prediction = predicted(Case("", "vllm serve M -tp 2", [], "-"))
    said = [str(step) for step in prediction.steps_of(0) if step.stage == "framework"]
    assert any("nvidia-smi number 0, the Tesla T4" in text and "the RTX 4090" in text for text in said), said
    right = predicted(Case("", "vllm serve M -tp 2", [], "-", PCI))
    assert not any("nvidia-smi number" in str(step) for step in right.steps_of(0))


@pytest.mark.parametrize("text", ["vllm bench", "vllm", "sglang generate", "ollama list", "ollama", "ray status", "ray", "dask scheduler", "python -m vllm"])  # fmt: skip
def test_other_commands_of_these_programs_are_ordinary(text: str) -> None:
    prediction = predicted(Case("", text, [], "-"))
    assert len(prediction.processes) == 1
    assert prediction.processes[0].chosen is None


@pytest.mark.parametrize("name", ["", "what", 5, None, "hf_trainer "])
def test_an_unknown_script_is_an_ordinary_process(name: object) -> None:
    prediction = predicted(Case("", "python t.py", [], "-", assume={"script": name}))
    assert prediction.processes[0].chosen is None


def test_spawn_keeps_what_is_outside() -> None:
    prediction = predicted(Case("", (torchrun(1), spawn(2)), [], "-"))
    assert [process.label for process in prediction.processes] == ["process 0", "process 1"]
