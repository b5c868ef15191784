"""How other tools read the same value of CUDA_VISIBLE_DEVICES: a table with a row a tool. Pure and total.

Few tools ask the driver. The others read the list themselves, take a number for NVML's (nvidia-smi's) and never look at
CUDA_DEVICE_ORDER: on a mixed machine in the default order they speak of another GPU than ``cuda:i``. Each reader follows
the tool's own code in the version that its row names, mistakes included. Time is linear in the text; numbers go through
Python's int(), as in the tools, which refuses more than 4300 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from .certainty import Certainty
from .explanation import message
from .identity import PrefixIndex
from .mapping import Message, Prediction, Process
from .resolver import candidates
from .scenario import CUDA_VISIBLE_DEVICES
from .texts import say
from .topology import Topology
from .visible_devices import read

Entry = tuple[int, int | None] | None
"""Position in ``topology.gpus`` and number of the MIG device there (None: the whole GPU); None where it names none."""
_ITEMS, _WIDTH = 16, 160
"""How much of a list, and of a text, is shown."""


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


class Outcome(NamedTuple):
    """What a reader gives back; a ValueError that it lets through is an outcome too."""

    entries: tuple[Entry, ...] | None
    """By ordinal; None where there is no list at all."""
    shown: str
    raises: bool = False
    asks: bool = False
    """Whether the driver answers in the tool's place."""


class World:
    """A process as a tool without the driver meets it: the variable, and NVML, which counts from 0 what containers left
    there, in the host's order, unusable GPUs included (nvidia-docker issue 907; nvml.h, nvmlDeviceGetCount_v2).
    """

    def __init__(self, topology: Topology, process: Process) -> None:
        self.topology, self.process, gpus = topology, process, topology.gpus
        self.value: str | None = process.env.get(CUDA_VISIBLE_DEVICES)
        untouched = process.accessible == topology.usable
        left = tuple(range(len(gpus))) if untouched else process.accessible
        self.located = len(left) < 2 or all(gpus[i].nvml_index is not None for i in left)
        """Whether it is known which GPU has which index."""
        self.slots = sorted(left, key=lambda i: gpus[i].nvml_index or 0) if self.located else list(left)
        """Positions in ``topology.gpus`` by NVML index."""
        self.all: list[Entry] = [(i, None) for i in self.slots]
        self.index = {i: index for index, i in enumerate(self.slots)}
        self.lost = any(gpus[i].problem for i in self.slots)
        uuids = [gpus[i].uuid for i in self.slots]
        self.named, self.prefixes = None not in uuids, PrefixIndex(uuids)
        self.by_uuid: dict[str | None, Entry] = dict(zip(uuids, self.all, strict=True))
        """nvmlDeviceGetHandleByUUID, which wants all of a UUID (vllm issue 51677)."""
        for i in self.slots:
            for n, m in enumerate(gpus[i].mig_instances):
                path = f"MIG-{gpus[i].uuid}/{m.gpu_instance_id}/{m.compute_instance_id}"
                self.by_uuid.update(dict.fromkeys((m.uuid, None if "None" in path else path), (i, n)))
        self.by_uuid.pop(None, None)
        found = zip(process.devices, process.reading.picks, strict=False)
        self.seen: tuple[Entry, ...] = tuple((device.position, pick.mig) for device, pick in found)
        """What the driver makes visible."""

    def by_index(self, index: int) -> Entry:
        """nvmlDeviceGetHandleByIndex, which pynvml.py calls with the low 32 bits of a number (c_uint)."""
        index &= 0xFFFFFFFF
        return self.all[index] if index < len(self.all) else None

    def says(self, entry: Entry) -> str:
        """A GPU as a note names it."""
        if entry is None:
            return say("reading.no-gpu")
        gpu = self.topology.gpus[entry[0]]
        key = "reading.gpu" if gpu.nvml_index is not None else "reading.gpu-no-index"
        said = say(key, index=gpu.nvml_index, name=gpu.short_name)
        if entry[1] is None:
            return said
        mig = gpu.mig_instances[entry[1]]
        return say("gpu.mig", profile=mig.profile or mig.uuid or "?", gpu=said)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _list(entries: Iterable[Entry], raw: Sequence[object]) -> Outcome:
    shown = repr(list(raw[:_ITEMS]))
    return Outcome(tuple(entries), _short(shown if len(raw) <= _ITEMS else f"{shown[:-1]}, …]"))


# --- the readers -----------------------------------------------------------------------------------------------------


def _driver(world: World) -> Outcome:
    return _list(world.seen, world.process.nvml_indices)._replace(asks=True)


def _asks(world: World) -> Outcome:
    return Outcome(world.seen, say("reading.asks"), asks=True)


def _ignores(world: World) -> Outcome:
    return _list(world.all, range(len(world.all)))


def torch_list(value: str | None) -> list[int] | list[str]:
    """torch.cuda._parse_visible_devices, unchanged from 2.3 to 2.14. Raises ValueError where torch does: a lone sign, a
    superscript digit. Digits of any script count; repeats are looked for before the range.
    """
    if value is None:
        return list(range(64))
    prefix = value[:4] if value.startswith(("GPU-", "MIG-")) else None
    found: dict[Any, None] = {}
    for entry in value.split(","):
        item: Any = entry if prefix else _leading_number(entry.strip())
        if item in found:
            return []
        if not entry.startswith(prefix) if prefix else item < 0:
            break
        found[item] = None
    return list(found)


def _leading_number(text: str) -> int:
    sign = text[:1] if text[:1] in ("+", "-") else ""
    head = sign + "".join(takewhile(str.isdigit, text[len(sign) :]))
    return int(head) if head else -1


def _torch_indices(entries: Sequence[Any], world: World) -> list[int]:
    """NVML indices of a list of torch's; names by _transform_uuid_to_ordinals: unique beginnings, case counts."""
    if not entries or isinstance(entries[0], int):
        return list(entries)
    found: dict[int, None] = {}
    for name in entries:
        matches = world.prefixes.starting_with(name)
        if len(matches) != 1:
            break
        if matches[0] in found:
            return []
        found[matches[0]] = None
    return list(found)


def _torch_count(world: World) -> Outcome:
    entries: Sequence[Any] = torch_list(world.value)
    if entries and isinstance(entries[0], str) and (entries[0][:4] == "MIG-" or world.lost):
        return _asks(world)  # with one lost GPU it gets no UUID at all
    count = sum(1 for _ in takewhile(lambda index: index < len(world.all), _torch_indices(entries, world)))
    return Outcome((None,) * count, str(count))


def _torch_helpers(world: World) -> Outcome:
    entries: Sequence[Any] = torch_list(world.value)
    if not entries:
        return Outcome((), "IndexError: list index out of range", raises=True)
    if isinstance(entries[0], str) and world.lost:
        return Outcome((), "RuntimeError: Can't get device UUIDs", raises=True)
    indices = _torch_indices(entries if world.value is not None else entries[: len(world.all)], world)
    if not indices and world.value is not None:
        return Outcome((), "RuntimeError: device 0 is not visible (CUDA_VISIBLE_DEVICES=[])", raises=True)
    return _list(map(world.by_index, indices), indices)


def _nvitop(world: World) -> Outcome:
    found: dict[str, tuple[Entry, object]] = {}
    if world.value is None:
        found = {str(i): (entry, i) for i, entry in enumerate(world.all)}
    family = None
    for text in () if world.value is None else map(str.strip, world.value.split(",")):
        start = 1 if text[:1] in ("+", "-") else 0
        digits = "".join(takewhile(str.isdigit, text[start:]))
        name = text[:start] + digits if digits else text
        if name in found:
            return _list((), ())
        number = _try_int(name) if name.isdigit() else None
        entry = world.by_uuid.get(name) if number is None else world.by_index(number)
        family = family or type(number)
        if entry is None or family is not type(number):
            break
        found[name] = (entry, world.index[entry[0]] if number is None else number)
    return _nvitop_mig(world, [(entry, label) for entry, label in found.values() if entry])


def _nvitop_mig(world: World, found: Sequence[tuple[tuple[int, int | None], object]]) -> Outcome:
    """One MIG device a process, and then no whole GPU: the rule before driver 570."""
    gpus = world.topology.gpus
    named = [entry for entry, _ in found if entry[1] is not None]
    inside = [(i, 0) for (i, _), _ in found if gpus[i].mig_mode and gpus[i].mig_instances]
    for i, n in [*named, *inside][:1]:
        number = gpus[i].mig_instances[n or 0].mig_index
        return _list([(i, n)], [(world.index[i], n if number is None else number)])
    whole = [(entry, label) for entry, label in found if not gpus[entry[0]].mig_mode]
    return _list([entry for entry, _ in whole], [label for _, label in whole])


def _try_int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _dask(world: World) -> Outcome:
    if world.value is None:
        return _ignores(world)
    raw: list[int | str] = []
    for text in world.value.split(","):
        number = _try_int(text)
        if number is None and not text.startswith(("GPU-", "MIG-")):
            raise ValueError(
                "Devices in CUDA_VISIBLE_DEVICES must be comma-separated integers "
                "or strings beginning with 'GPU-' or 'MIG-' prefixes"
            )
        raw.append(text if number is None else number if number >= 0 else str(number))
    found = (world.by_index(item) if isinstance(item, int) else world.by_uuid.get(item) for item in raw)
    return _list(((entry[0], None) if entry else None for entry in found), raw)  # of a MIG device it takes the parent


def _vllm(world: World) -> Outcome:
    if not world.value:
        return _ignores(world)
    indices = []
    for text in world.value.split(","):
        number, entry = _try_int(text), world.by_uuid.get(text)
        if number is None and entry is None:
            return Outcome(None, "NVMLError_NotFound: Not Found", raises=True)
        if number is None and entry is not None:
            position, n = entry
            mig = None if n is None else world.topology.gpus[position].mig_instances[n].mig_index
            number = world.index[position] if n is None else n if mig is None else mig  # its number under its GPU
        indices.append(number or 0)
    return _list(map(world.by_index, indices), indices)


def _split(world: World, by_index: Callable[[int], Entry] | None = None) -> Outcome:
    if world.value is None:
        return _ignores(world)
    numbers = [int(text) for text in world.value.split(",")]
    rows = dict(enumerate(world.all))
    return _list(map(by_index or rows.get, numbers), numbers)


def _deepspeed(world: World) -> Outcome:
    return _split(world, world.by_index)


def _ray(world: World) -> Outcome:
    """Entries are text to Ray; the driver reads each of them alone, as the list of one worker."""
    order, value, limit = world.process.order, world.value, len(world.all)
    ids = [] if value in ("", "NoDevFiles") else [str(i) for i in range(limit)] if value is None else value.split(",")
    known = candidates(world.topology, order)
    picks = [read(text, known).picks for text in ids[:limit]]
    entries = tuple((order.places[found[0].place], found[0].mig) if found else None for found in picks)
    return Outcome(entries, "None" if value is None else _list((), ids).shown)


class Tool(NamedTuple):
    """One tool: how it reads, and where that can be read. Its sentences are ``reading.how.<key>`` and ``.call.<key>``."""

    key: str
    name: str
    read: Callable[[World], Outcome]
    joins: str
    """By what it finds a GPU: ``number`` (NVML's), ``uuid`` too, or ``driver`` (it leaves that to the driver)."""
    source: str


TOOLS: tuple[Tool, ...] = (
    Tool("driver", "CUDA driver", _driver, "driver", "CUDA Programming Guide 5.2.1"),
    Tool("torch-count", "torch.cuda.device_count", _torch_count, "uuid", "torch 2.14.1, _device_count_nvml"),
    Tool("torch-nvml", "torch.cuda.utilization", _torch_helpers, "uuid", "torch 2.14.1, _get_nvml_device_index"),
    Tool("nvitop", "nvitop without driver", _nvitop, "uuid", "nvitop 1.7.2, _parse_cuda_visible_devices"),
    Tool("dask-cuda", "dask-cuda", _dask, "uuid", "dask-cuda 26.10.0, LocalCUDACluster, nvml_device_index"),
    Tool("vllm", "vLLM", _vllm, "uuid", "vllm 0.33.0, device_control_id_to_physical_device_id"),
    Tool("deepspeed", "DeepSpeed", _deepspeed, "number", "deepspeed 0.19.8, _get_nvml_gpu_id"),
    Tool("ray", "Ray", _ray, "driver", "ray 2.60.0, NvidiaGPUAcceleratorManager, ResourceAndLabelSpec"),
    Tool("jax", "JAX", _asks, "driver", "jax 0.10.2, flag jax_cuda_visible_devices"),
    Tool("split", "int() of every entry", _split, "number", "vLLM issue 41848 (0.20.1), and many scripts"),
    Tool("gpustat", "gpustat, GPUtil", _ignores, "number", "gpustat 1.1.1, GPUtil 1.4.0: neither variable occurs"),
)
"""Who reads the list, and how. The driver is first; the others are measured by it."""


def readings(prediction: Prediction, process: Process | None = None) -> tuple[ToolReading, ...]:
    """What every tool of `TOOLS` makes of one process (the first, if none is given); () where there is none."""
    if process is None and not prediction.processes:
        return ()
    world = World(prediction.scenario.topology, process or prediction.processes[0])
    return tuple(_reading(tool, world) for tool in TOOLS)


def _reading(tool: Tool, world: World) -> ToolReading:
    try:
        outcome = tool.read(world)
    except ValueError as error:
        outcome = Outcome(None, _short(f"{type(error).__name__}: {error}"), raises=True)
    names = "GPU-" in (world.value or "") or "MIG-" in (world.value or "")
    if tool.joins == "uuid" and names and not world.named and not outcome.asks:
        outcome = Outcome(None, say("reading.no-uuids"))
    gpus, agrees = world.topology.gpus, _agrees(tool, outcome, world)
    indices = tuple(gpus[entry[0]].nvml_index if entry else None for entry in outcome.entries or ())
    how, note = message(f"reading.how.{tool.key}"), _note(tool, outcome, world, agrees=agrees)
    return ToolReading(tool.name, indices, outcome.shown, outcome.raises, agrees, note, how, tool.source)


def _agrees(tool: Tool, outcome: Outcome, world: World) -> bool | None:
    """See `ToolReading.agrees_with_driver`."""
    counts, process = tool.read is _torch_count, world.process
    certainty = process.reading.basis.certainty if counts else process.certainty  # no order is in a count
    lost = tool.joins != "driver" and not counts and not world.located
    if outcome.asks:
        return True
    if certainty is Certainty.UNKNOWN or lost or (outcome.entries is None and not outcome.raises):
        return None
    if counts and outcome.entries is not None:
        return len(outcome.entries) == len(world.seen)
    asked = len(world.seen) if tool.read is _torch_helpers else None  # they are asked for a cuda:i that is there
    return outcome.entries is not None and outcome.entries[:asked] == world.seen


def _note(tool: Tool, outcome: Outcome, world: World, *, agrees: bool | None) -> Message:
    """Where a tool differs from the driver, at the first ordinal that tells."""
    if outcome.asks:
        return message("reading.is-driver" if tool.read is _driver else "reading.asks-driver")
    entries, seen = outcome.entries or (), world.seen
    different = (i for i, (theirs, ours) in enumerate(zip(entries, seen, strict=False)) if theirs != ours)
    at = next(different, 0)
    fields: dict[str, Any] = {"ordinal": at, "call": say(f"reading.call.{tool.key}", ordinal=at)}
    fields |= {"gpu": world.says(entries[at]) if entries else "", "ours": world.says(seen[at]) if seen else ""}
    fields |= {"shown": outcome.shown, "count": len(entries), "driver": len(seen)}
    verdict = "same" if agrees else "alone" if agrees is None else "other"
    if outcome.raises:
        return message(f"reading.raises-{verdict}", **fields)
    if tool.read is _torch_count and outcome.entries is not None:
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
