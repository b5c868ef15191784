"""Error messages: a real text of each row, the GPU that it speaks of on the mixed machine, hostile text in bounded time."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.error_messages import RULES, read_messages
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests.conftest import MIXED, predict


class Row(NamedTuple):
    code: str
    text: str
    positions: tuple[int, ...] = ()
    visible: str | None = None
    said: str = ""


ROWS = (
    Row("oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 1.2 GiB is free.", (0,), "1", "Tesla T4 at 5E"),
    Row("oom", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 8.44 MiB is free.", (1,), None, "RTX 4090"),
    Row("oom", "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 1; 14.76 GiB total capacity; 13.1 GiB already allocated)", (0,), None, "Tesla T4 at 5E"),
    Row("oom", "CUDA out of memory. GPU 0 has a total capacity of 23.65 GiB", (1,), "1", "not that of the card foretold"),
    Row("oom", "CUDA out of memory. GPU 7 has a total capacity of 79.1 GiB", (), None, "none that can be told"),
    Row("oom-plain", "RuntimeError: CUDA error: out of memory", (), None, "cuda:0 = RTX 4090"),
    Row("invalid-ordinal", "RuntimeError: CUDA error: invalid device ordinal", (), "1,2", "this process has 2"),
    Row("invalid-id", "AssertionError: Invalid device id", (), "1", "has 1"),
    Row("no-gpus", "RuntimeError: No CUDA GPUs are available", (), "", "none that can be told"),
    Row("no-device", "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", ()),
    Row("jax-no-gpu", "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: No visible GPU devices.", ()),
    Row("forked", "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", ()),
    Row("duplicate", "init.cc:738 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 86000", (1,), None, "RTX 4090 at 86"),
    Row("duplicate", "Duplicate GPU detected : rank 3 and rank 1 both on CUDA device af000", (2,), None, "Tesla T4 at AF"),
    Row("duplicate", "Duplicate GPU detected : rank 3 and rank 1 both on CUDA device 1000", (), None, "none that can be told"),
    Row("nccl-unknown-rank", "[rank1]:[W] ProcessGroupNCCL.cpp: using GPU 1 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang", (0,)),
    Row("nccl-unknown-rank", "[rank0]:[W ProcessGroupNCCL.cpp:4571] [PG ID 0] using GPU 0 as device used by this process is currently unknown.", (1,)),
    Row("busy", "CUDA error: CUDA-capable device(s) is/are busy or unavailable", ()),
    Row("busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", ()),
    Row("no-kernel", "CUDA error: no kernel image is available for execution on the device", ()),
    Row("old-driver", "CUDA driver version is insufficient for CUDA runtime version", ()),
    Row("old-driver", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", ()),
    Row("no-driver", "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", ()),
    Row("not-ready", "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", ()),
    Row("mismatch", "Error 803: system has unsupported display driver / cuda driver combination", ()),
    Row("forward", "Error 804: forward compatibility was attempted on non supported HW", ()),
    Row("nvml-mismatch", "Failed to initialize NVML: Driver/library version mismatch", ()),
    Row("cpu-torch", "AssertionError: Torch not compiled with CUDA enabled", ()),
    Row("imbalance", "There is an imbalance between your GPUs. You may want to exclude GPU 1 which has less than 75% of the memory or cores of GPU 0.", (0,)),
    Row("vllm-bf16", "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5.", (), None, "cuda:0 = RTX 4090"),
    Row("vllm-mixed", "WARNING Detected different devices in the system: Tesla T4, NVIDIA GeForce RTX 4090.", ()),
    Row("int-uuid", "ValueError: invalid literal for int() with base 10: 'GPU-b1e18600-0000'", (), None, "GPU-b1e18600-0000"),
    Row("tf-device", "Created TensorFlow device (/device:GPU:0 with 14000 MB memory) -> physical GPU (device: 0, name: Tesla T4, pci bus id: 0000:5e:00.0, compute capability: 7.5)", (0,)),
    Row("tf-device", "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13775 MB memory:  -> device: 0, name: Tesla T4, pci bus id: 0000:af:00.0, compute capability: 7.5", (2,)),
    Row("tf-ignored", "Ignoring visible gpu device (device: 1, name: GeForce GT 1030, pci bus id: 0000:d8:00.0, compute capability: 6.1) with core count: 3. The minimum required count is 8.", (3,)),
    Row("lost", "Unable to determine the device handle for GPU 0000:86:00.0: GPU is lost.  Reboot the system to recover this GPU", (1,)),
    Row("lost", "Unable to determine the device handle for GPU0000:AF:00.0: Unknown Error", (2,)),
    Row("xid", "NVRM: Xid (PCI:0000:86:00): 79, pid=1234, GPU has fallen off the bus.", (1,), None, "Xid 79"),
    Row("lightning", "MisconfigurationException: You requested gpu: [2] But your machine only has: [0, 1]", ()),
    Row("deepspeed-slot", "ValueError: No slot '3' specified on host 'localhost'", (3,)),
    Row("torchrun-exceeds", "ValueError: local_rank 1 exceeds available GPUs", ()),
    Row("docker-capabilities", 'could not select device driver "" with capabilities: [[gpu]].', ()),
    Row("docker-count", "docker: Error response from daemon: cannot set both Count and DeviceIDs on device request.", ()),
    Row("docker-unknown", "stderr: nvidia-container-cli: device error: 4: unknown device: unknown.", (), None, "knows no GPU 4"),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_a_message(row: Row) -> None:
    found = read_messages(f"Traceback (most recent call last):\n  {row.text}\n", predict(MIXED, row.visible))
    assert [(one.code, one.positions, one.line) for one in found] == [(row.code, row.positions, 2)]
    assert row.said in str(found[0])
    assert found[0].fix.text()
    assert found[0].source


def test_every_row_has_a_text_and_there_are_enough() -> None:
    assert {rule.code for rule in RULES} == {row.code for row in ROWS}
    assert len({rule.code for rule in RULES}) >= 25


def test_the_process_that_is_meant() -> None:
    prediction = resolve(
        Scenario.from_command(MIXED, "CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=2 python b.py")
    )
    text = "GPU 0 has a total capacity of 14.56 GiB"
    assert read_messages(text, prediction, 1)[0].positions == (2,)
    assert read_messages(text, prediction, 9)[0].positions == (0, 2, 3)  # by the capacity alone
    nowhere = resolve(Scenario.from_command(MIXED, "torchrun 'x"))
    assert read_messages("invalid device ordinal", nowhere)[0].said.fields["count"] == 0


def test_a_log_says_each_thing_once() -> None:
    text = "\n".join([ROWS[0].text] * 50 + [ROWS[9].text] * 50)
    assert [one.line for one in read_messages(text, predict(MIXED, "1"))] == [1, 51]


@given(st.text(max_size=400))
def test_any_text_is_read_or_passed_over(text: str) -> None:
    for one in read_messages(text, predict(MIXED)):
        assert str(one)


@pytest.mark.parametrize(
    "unit",
    [
        "GPU 0 has a total capacity of ",
        "Duplicate GPU detected : rank ",
        "Xid (PCI:",
        "(GPU 0; 9",
        "a" * 5000 + "\n",
        "nvidia-container-cli: device error: ",
    ],
)
def test_hostile_text_takes_bounded_time(unit: str) -> None:
    start = time.process_time()
    read_messages((unit * (2_000_000 // len(unit) + 1))[:2_000_000], predict(MIXED))
    assert time.process_time() - start < 20  # a bound on the kind of growth, not a figure
