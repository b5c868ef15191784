"""How other tools read the same value of CUDA_VISIBLE_DEVICES: a table with a row a tool. Pure and total.

Few tools ask the driver. The others read the list themselves, take a number for NVML's (nvidia-smi's) and never look at
CUDA_DEVICE_ORDER: on a mixed machine in the default order they speak of another GPU than ``cuda:i``. Each reader follows
the tool's own code in the version that its row names, mistakes included. Time is linear in the text; numbers go through
Python's int(), as in the tools, which refuses more than 4300 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import tool_readers as by
from .certainty import Certainty
from .mapping import Message, Prediction, Process, message
from .texts import say


@dataclass(frozen=True)
class ToolReading:
    """What one tool makes of the variables of one process."""

    tool: str
    nvml_indices: tuple[int | None, ...]
    """Host NVML index that it takes for cuda:0, cuda:1, …; None in a place where it names no GPU (a count names none)."""
    shown: str
    """What it returns, raises or does: ``[0, 2]``, ``ValueError: …``, ``asks the driver``."""
    raises: bool
    agrees_with_driver: bool | None
    """Whether it has the driver's GPUs in the driver's order (a count: as many); None where one of them is not known."""
    note: Message
    """What follows here: that it agrees, or where it differs and which GPU it speaks of instead."""
    how: Message
    """How it reads the list, whatever the scenario."""
    source: str


class Tool(NamedTuple):
    """One tool: how it reads, and where that can be read. Its sentences are ``reading.how.<key>`` and ``.call.<key>``."""

    key: str
    name: str
    read: Callable[[by.World], by.Outcome]
    joins: str
    """By what it finds a GPU: ``number`` (NVML's), ``uuid`` too, or ``driver`` (it leaves that to the driver)."""
    source: str


TOOLS: tuple[Tool, ...] = (
    Tool("driver", "CUDA driver", by.driver, "driver", "CUDA Programming Guide 5.2.1"),
    Tool("torch-count", "torch.cuda.device_count", by.torch_count, "uuid", "torch 2.14.1, _device_count_nvml"),
    Tool("torch-nvml", "torch.cuda.utilization", by.torch_helpers, "uuid", "torch 2.14.1, _get_nvml_device_index"),
    Tool("nvitop", "nvitop without driver", by.nvitop, "uuid", "nvitop 1.7.2, _parse_cuda_visible_devices"),
    Tool("dask-cuda", "dask-cuda", by.dask, "uuid", "dask-cuda 26.10.0, LocalCUDACluster, nvml_device_index"),
    Tool("vllm", "vLLM", by.vllm, "uuid", "vllm 0.33.0, device_control_id_to_physical_device_id"),
    Tool("deepspeed", "DeepSpeed", by.deepspeed, "number", "deepspeed 0.19.8, _get_nvml_gpu_id"),
    Tool("ray", "Ray", by.ray, "driver", "ray 2.60.0, NvidiaGPUAcceleratorManager, ResourceAndLabelSpec"),
    Tool("jax", "JAX", by.asks, "driver", "jax 0.10.2, flag jax_cuda_visible_devices"),
    Tool("split", "int() of every entry", by.split, "number", "vLLM issue 41848 (0.20.1), and many scripts"),
    Tool("gpustat", "gpustat, GPUtil", by.ignores, "number", "gpustat 1.1.1, GPUtil 1.4.0: neither variable occurs"),
)
"""Who reads the list, and how. The driver is first; the others are measured by it."""


def tool_readings(prediction: Prediction, process: Process | None = None) -> tuple[ToolReading, ...]:
    """What every tool of `TOOLS` makes of one process (the first, if none is given); () where there is none."""
    if process is None and not prediction.processes:
        return ()
    world = by.World(prediction.scenario.topology, process or prediction.processes[0])
    return tuple(_reading(tool, world) for tool in TOOLS)


def _reading(tool: Tool, world: by.World) -> ToolReading:
    try:
        outcome = tool.read(world)
    except ValueError as error:
        outcome = by.Outcome(None, by.short(f"{type(error).__name__}: {error}"), raises=True)
    names = "GPU-" in (world.value or "") or "MIG-" in (world.value or "")
    if tool.joins == "uuid" and names and not world.named and not outcome.asks:
        outcome = by.Outcome(None, say("reading.no-uuids"))
    gpus, agrees = world.topology.gpus, _agrees(tool, outcome, world)
    indices = tuple(gpus[entry[0]].nvml_index if entry else None for entry in outcome.entries or ())
    how, note = message(f"reading.how.{tool.key}"), _note(tool, outcome, world, agrees=agrees)
    return ToolReading(tool.name, indices, outcome.shown, outcome.raises, agrees, note, how, tool.source)


def _agrees(tool: Tool, outcome: by.Outcome, world: by.World) -> bool | None:
    """See `ToolReading.agrees_with_driver`."""
    counts, process = tool.read is by.torch_count, world.process
    certainty = process.reading.basis.certainty if counts else process.certainty  # no order is in a count
    lost = tool.joins != "driver" and not counts and not world.located
    if outcome.asks:
        return True
    if certainty is Certainty.UNKNOWN or lost or (outcome.entries is None and not outcome.raises):
        return None
    if counts and outcome.entries is not None:
        return len(outcome.entries) == len(world.seen)
    asked = len(world.seen) if tool.read is by.torch_helpers else None  # they are asked for a cuda:i that is there
    return outcome.entries is not None and outcome.entries[:asked] == world.seen


def _note(tool: Tool, outcome: by.Outcome, world: by.World, *, agrees: bool | None) -> Message:
    """Where a tool differs from the driver, at the first ordinal that tells."""
    if outcome.asks:
        return message("reading.is-driver" if tool.read is by.driver else "reading.asks-driver")
    entries, seen = outcome.entries or (), world.seen
    different = (i for i, (theirs, ours) in enumerate(zip(entries, seen, strict=False)) if theirs != ours)
    at = next(different, 0)
    fields: dict[str, Any] = {"ordinal": at, "call": say(f"reading.call.{tool.key}", ordinal=at)}
    fields |= {"gpu": world.says(entries[at]) if entries else "", "ours": world.says(seen[at]) if seen else ""}
    fields |= {"shown": outcome.shown, "count": len(entries), "driver": len(seen)}
    verdict = "same" if agrees else "alone" if agrees is None else "other"
    if outcome.raises:
        return message(f"reading.raises-{verdict}", **fields)
    if tool.read is by.torch_count and outcome.entries is not None:
        return message(f"reading.count-{verdict}", **fields)
    if agrees is None:
        return message("reading.alone" if entries else "reading.not-known", **fields)
    if agrees:
        return message("reading.same" if seen else "reading.same-none", **fields)
    theirs, ours = entries[at] if entries else None, seen[at] if seen else None
    if not entries or not seen or theirs == ours:
        return message("reading.other-length", **fields)
    whole = theirs is not None and ours is not None and theirs == (ours[0], None)
    return message("reading.whole" if whole else "reading.other", **fields)


def reading_rows(found: Iterable[ToolReading]) -> list[dict[str, Any]]:
    """The readings as records for a frame or a table, one a tool; sentences in English."""
    columns = ("tool", "nvml_indices", "shown", "raises", "agrees_with_driver", "note", "how", "source")
    rows = [{name: getattr(one, name) for name in columns} for one in found]
    for row in rows:
        row["nvml_indices"] = ", ".join("–" if index is None else str(index) for index in row["nvml_indices"])
        row["note"], row["how"] = row["note"].text(), row["how"].text()
    return rows
