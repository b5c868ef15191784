"""Error messages as people paste them: which physical GPU one speaks of in a scenario, what it means, what to do.

A message is a row of `RULES`: a pattern, and what the number in it counts. The sentences are ``message.<code>`` and
``message.fix.<code>`` in `texts`. Pure; pasted text is matched line by line, in bounded time, and never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .certainty import Certainty
from .explanation import clip, gpu_name
from .frozen import FrozenDict
from .identity import PciBusId
from .mapping import Message, Prediction, Process
from .texts import say

_LONGEST_LINE = 4000
_MOST_LINES = 20_000
CUDA, NVML, PCI, PACKED, NOTHING = "cuda", "nvml", "pci", "packed pci", "nothing"
"""What the number of a message counts."""
_ROOM = (0.90, 1.01)
"""Capacity that torch reports over memory that nvidia-smi reports: the driver keeps a few per cent to itself."""
_MIB_A_GIB = 1024


class MessageRule(NamedTuple):
    """One error message of one tool."""

    code: str
    pattern: re.Pattern[str]
    """Named groups: ``gpu`` (the number or address), ``capacity`` (GiB), ``name``; others are fields of the sentence."""
    counts: str
    """What ``gpu`` counts."""
    source: str


@dataclass(frozen=True)
class MessageReading:
    """What one message says in a scenario."""

    code: str
    quote: str
    """The line, as it was pasted."""
    line: int
    positions: tuple[int, ...]
    """The GPUs that it speaks of, as positions in ``topology.gpus``; () where it names none, or nobody can tell."""
    certainty: Certainty
    """How sure it is that those are the GPUs."""
    said: Message
    fix: Message
    source: str

    def __str__(self) -> str:
        return f"{self.said.text()} {self.fix.text()}"


def _rule(code: str, pattern: str, counts: str, source: str) -> MessageRule:
    return MessageRule(code, re.compile(pattern, re.IGNORECASE), counts, source)


_TORCH = "torch/cuda/__init__.py"
_C10 = "c10/cuda/CUDACachingAllocator.cpp"
_ERRORS = "CUDA Runtime API, cudaError_t"
_ADDRESS = r"(?P<gpu>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?)"

RULES: tuple[MessageRule, ...] = (
    _rule("oom", r"GPU (?P<gpu>\d+) has a total capacity of (?P<capacity>[\d.]+) GiB", CUDA, f"{_C10}, torch 2.1 and later"),
    _rule("oom", r"\(GPU (?P<gpu>\d+); (?P<capacity>[\d.]+) GiB total capacity", CUDA, f"{_C10}, torch before 2.1"),
    _rule("oom-plain", r"CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY", NOTHING, _ERRORS),
    _rule("invalid-ordinal", r"invalid device ordinal|CUDA_ERROR_INVALID_DEVICE", NOTHING, _ERRORS),
    _rule("invalid-id", r"AssertionError: Invalid device id", NOTHING, f"{_TORCH}, get_device_properties"),
    _rule("no-gpus", r"No CUDA GPUs are available", NOTHING, "c10/cuda/CUDAFunctions.cpp"),
    _rule("no-device", r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device is detected", NOTHING, _ERRORS),
    _rule("jax-no-gpu", r"FAILED_PRECONDITION: No visible GPU devices", NOTHING, "jax-ml/jax issue 28376"),
    _rule("forked", r"Cannot re-initialize CUDA in forked subprocess", NOTHING, f"{_TORCH}, _lazy_init"),
    _rule("duplicate", r"Duplicate GPU detected\s*:\s*rank (?P<first>\d+) and rank (?P<second>\d+) both on CUDA device (?P<gpu>[0-9a-f]+)", PACKED, "NCCL src/init.cc"),
    _rule("nccl-unknown-rank", r"using GPU (?P<gpu>\d+) (?:to perform barrier )?as device.{0,40}currently unknown", CUDA, "torch ProcessGroupNCCL.cpp"),
    _rule("busy", r"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy or unavailable", NOTHING, _ERRORS),
    _rule("no-kernel", r"no kernel image is available for execution", NOTHING, _ERRORS),
    _rule("old-driver", r"CUDA driver version is insufficient for CUDA runtime version|NVIDIA driver on your system is too old", NOTHING, _ERRORS),
    _rule("no-driver", r"Found no NVIDIA driver on your system", NOTHING, "torch/csrc/cuda, torch 2.14"),
    _rule("not-ready", r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|Error 802", NOTHING, f"{_ERRORS} 802; jax-ml/jax issue 24866"),
    _rule("mismatch", r"unsupported display driver / cuda driver combination|Error 803", NOTHING, f"{_ERRORS} 803"),
    _rule("forward", r"forward compatibility was attempted on non supported HW|Error 804", NOTHING, f"{_ERRORS} 804"),
    _rule("nvml-mismatch", r"Driver/library version mismatch", NOTHING, "nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
    _rule("cpu-torch", r"Torch not compiled with CUDA enabled", NOTHING, f"{_TORCH}, _lazy_init"),
    _rule("imbalance", r"imbalance between your GPUs\. You may want to exclude GPU (?P<gpu>\d+)", CUDA, "torch/nn/parallel/data_parallel.py"),
    _rule("vllm-bf16", r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0\. Your (?P<name>.{1,60}?) GPU has compute capability", NVML, "vllm platforms/cuda.py, check_if_supports_dtype; vllm issue 1157"),
    _rule("vllm-mixed", r"Detected different devices in the system", NOTHING, "vllm platforms/cuda.py, log_warnings"),
    _rule("int-uuid", r"invalid literal for int\(\) with base 10: '(?P<entry>(?:GPU|MIG)-[^']{0,60})", NOTHING, "vllm issues 13815, 20939; deepspeed launcher/runner.py"),
    _rule("tf-device", rf"physical GPU \(device: (?P<ordinal>\d+), name: (?P<name>[^,]{{1,60}}), pci bus id: {_ADDRESS}|-> device: (?P<other>\d+), name: (?P<called>[^,]{{1,60}}), pci bus id: (?P<address>[0-9a-f:.]{{7,16}})", PCI, "tensorflow gpu_device.cc"),
    _rule("tf-ignored", rf"Ignoring (?:visible )?gpu device.{{0,20}}\(device: \d+, name: (?P<name>[^,]{{1,60}}), pci bus id: {_ADDRESS}", PCI, "tensorflow gpu_device.cc, TF_MIN_GPU_MULTIPROCESSOR_COUNT"),
    _rule("lost", rf"Unable to determine the device handle for GPU\s?{_ADDRESS}", PCI, "nvidia-smi; nvidia-container-toolkit issue 69"),
    _rule("xid", rf"Xid \(PCI:{_ADDRESS}\): (?P<number>\d+)", PCI, "NVIDIA XID errors; kernel log"),
    _rule("lightning", r"You requested gpu: \[(?P<asked>[\d, ]{1,60})\]\s+But your machine only has: \[(?P<there>[\d, ]{0,60})\]", NOTHING, "lightning device parser"),
    _rule("deepspeed-slot", r"No slot '(?P<gpu>\d+)' specified on host", NVML, "deepspeed launcher/runner.py"),
    _rule("torchrun-exceeds", r"local_rank (?P<rank>\d+) exceeds available GPUs", NOTHING, "pytorch pull request 166680"),
    _rule("docker-capabilities", r"could not select device driver .{0,20}with capabilities: \[\[gpu\]\]", NOTHING, "moby daemon; nvidia-container-toolkit install guide"),
    _rule("docker-count", r"cannot set both Count and DeviceIDs on device request", NOTHING, "moby daemon/nvidia_linux.go"),
    _rule("docker-unknown", r"nvidia-container-cli: device error: (?P<entry>[^:]{1,80}): unknown device", NOTHING, "nvidia-docker issue 1283"),
)  # fmt: skip
"""Messages by tool. The first row that matches a line is the one that is read."""


def read_messages(text: str, prediction: Prediction, worker: int = 0) -> tuple[MessageReading, ...]:
    """What the error messages in a text say about one process of a scenario; () where none is known. Never raises.

    Each message is read once, at the line where it stands first.
    """
    found: dict[tuple[str, Message], MessageReading] = {}
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        for rule in RULES:
            match = rule.pattern.search(line[:_LONGEST_LINE])
            if match is not None:
                reading = _reading(rule, match, prediction, worker, number)
                found.setdefault((rule.code, reading.said), reading)
                break
    return tuple(found.values())


def _reading(rule: MessageRule, match: re.Match[str], prediction: Prediction, worker: int, line: int) -> MessageReading:
    process = prediction.processes[worker] if worker < len(prediction.processes) else None
    given = {name: clip(value) for name, value in match.groupdict().items() if value is not None}
    if "address" in given:
        given["gpu"], given["name"] = given["address"], given["called"]
    positions, certainty = _meant(rule.counts, given.get("gpu", ""), prediction, process)
    fields = {
        **given,
        "count": len(process.devices) if process else 0,
        "gpus": _names(prediction, positions),
        "all": _all(process),
    }
    key = rule.code
    if rule.code == "oom":
        key, positions, certainty = _by_capacity(float(_number(given["capacity"])), prediction, positions, certainty)
        fields["gpus"] = _names(prediction, positions)
        fields["place"] = given["gpu"]
    said, fix = Message(f"message.{key}", _told(fields)), Message(f"message.fix.{key}", _told(fields))
    return MessageReading(
        rule.code, clip(match.string.strip(), 200), line, positions, certainty, said, fix, rule.source
    )


def _told(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a sentence; one that nothing tells says so."""
    return FrozenDict({name: say("message.nobody") if value == "" else value for name, value in fields.items()})


def _number(text: str) -> str:
    return text if text.replace(".", "", 1).isdigit() else "0"


def _meant(
    counts: str, text: str, prediction: Prediction, process: Process | None
) -> tuple[tuple[int, ...], Certainty]:
    """The GPUs that a number or an address means."""
    gpus = prediction.scenario.topology.gpus
    if counts in (CUDA, NVML) and not text.isdigit():
        return (), Certainty.UNKNOWN
    if counts == CUDA:
        if process is None or int(text) >= len(process.devices):
            return (), Certainty.UNKNOWN
        device = process.devices[int(text)]
        return (device.position,), device.certainty
    if counts == NVML:
        return tuple(i for i, gpu in enumerate(gpus) if gpu.nvml_index == int(text)), Certainty.LIKELY
    if counts == PCI:
        try:
            address = PciBusId.parse(text)
        except ValueError:
            return (), Certainty.UNKNOWN
    elif counts == PACKED and len(text) <= len("fffffffffffff"):
        packed = int(text, 16)
        address = PciBusId(packed >> 20, (packed >> 12) & 0xFF, (packed >> 4) & 0xFF)
    else:
        return (), Certainty.UNKNOWN
    places = tuple(i for i, gpu in enumerate(gpus) if gpu.pci is not None and gpu.pci == address)
    return places, Certainty.CERTAIN if places else Certainty.UNKNOWN


def _by_capacity(
    gib: float, prediction: Prediction, positions: tuple[int, ...], certainty: Certainty
) -> tuple[str, tuple[int, ...], Certainty]:
    """Whether the card behind the number has the capacity that the message tells; else which cards have it."""
    gpus = prediction.scenario.topology.gpus
    fits = tuple(
        i for i, gpu in enumerate(gpus) if gpu.memory_mib and _ROOM[0] <= gib * _MIB_A_GIB / gpu.memory_mib <= _ROOM[1]
    )
    if positions and positions[0] in fits:
        return "oom", positions, certainty
    told = Certainty.LIKELY if len(fits) == 1 else Certainty.UNKNOWN
    if positions and gpus[positions[0]].memory_mib is not None:
        return "oom-other", fits, told
    return "oom-other" if fits else "oom", fits or positions, told


def _names(prediction: Prediction, positions: tuple[int, ...]) -> str:
    gpus = prediction.scenario.topology.gpus
    return ", ".join(gpu_name(gpus[i]) for i in positions[:4])


def _all(process: Process | None) -> str:
    devices = process.devices[:8] if process else ()
    return ", ".join(f"cuda:{d.ordinal} = {gpu_name(d.gpu, d.mig)}" for d in devices)
