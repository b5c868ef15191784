"""How single tools read CUDA_VISIBLE_DEVICES, each as its own code does, mistakes included. Pure and total.

Time is linear in the text; numbers go through Python's int(), as in the tools, which refuses more than 4300 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from .identity import PrefixIndex
from .layers import candidates, in_full
from .mapping import Process
from .scenario import CUDA_VISIBLE_DEVICES
from .texts import say
from .topology import Topology
from .visible_devices import read

Entry = tuple[int, int | None] | None
"""Position in ``topology.gpus`` and number of the MIG device there (None: the whole GPU); None where it names none."""
_ITEMS, _WIDTH = 16, 160
"""How much of a list, and of a text, is shown."""


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
        left = process.left
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
            for n in self.instances(i):
                m = gpus[i].mig_instances[n]
                path = f"MIG-{gpus[i].uuid}/{m.gpu_instance_id}/{m.compute_instance_id}"
                self.by_uuid.update(dict.fromkeys((m.uuid, None if "None" in path else path), (i, n)))
        self.by_uuid.pop(None, None)
        found = zip(process.devices, process.reading.picks, strict=False)
        self.seen: tuple[Entry, ...] = tuple((device.position, pick.mig) for device, pick in found)
        """What the driver makes visible."""

    def instances(self, position: int) -> tuple[int, ...]:
        """Numbers of the MIG instances of a GPU that are left here."""
        return self.process.mig.get(position, tuple(range(len(self.topology.gpus[position].mig_instances))))

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


def short(text: str) -> str:
    """A text cut to a width that a table can hold."""
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _list(entries: Iterable[Entry], raw: Sequence[object]) -> Outcome:
    shown = repr(list(raw[:_ITEMS]))
    return Outcome(tuple(entries), short(shown if len(raw) <= _ITEMS else f"{shown[:-1]}, …]"))


# --- the readers -----------------------------------------------------------------------------------------------------


def driver(world: World) -> Outcome:
    """What the driver makes visible."""
    return _list(world.seen, world.process.nvml_indices)._replace(asks=True)


def asks(world: World) -> Outcome:
    """A tool that lets the driver answer."""
    return Outcome(world.seen, say("reading.asks"), asks=True)


def ignores(world: World) -> Outcome:
    """A tool that reads neither variable: every GPU, as NVML counts."""
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


def torch_count(world: World) -> Outcome:
    """torch.cuda.device_count before CUDA has started."""
    entries: Sequence[Any] = torch_list(world.value)
    if entries and isinstance(entries[0], str) and (entries[0][:4] == "MIG-" or world.lost):
        return asks(world)  # with one lost GPU it gets no UUID at all
    count = sum(1 for _ in takewhile(lambda index: index < len(world.all), _torch_indices(entries, world)))
    return Outcome((None,) * count, str(count))


def torch_helpers(world: World) -> Outcome:
    """torch.cuda.utilization and its kin: which NVML GPU they ask for each cuda:i."""
    entries: Sequence[Any] = torch_list(world.value)
    if not entries:
        return Outcome((), "IndexError: list index out of range", raises=True)
    if isinstance(entries[0], str) and world.lost:
        return Outcome((), "RuntimeError: Can't get device UUIDs", raises=True)
    indices = _torch_indices(entries if world.value is not None else entries[: len(world.all)], world)
    if not indices and world.value is not None:
        return Outcome((), "RuntimeError: device 0 is not visible (CUDA_VISIBLE_DEVICES=[])", raises=True)
    return _list(map(world.by_index, indices), indices)


def nvitop(world: World) -> Outcome:
    """Nvitop's own parser, used where the driver cannot be asked."""
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
    inside = [(i, world.instances(i)[0]) for (i, _), _ in found if gpus[i].mig_mode and world.instances(i)]
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


def dask(world: World) -> Outcome:
    """dask-cuda: every entry a number or a UUID, nothing ends the list."""
    if world.value is None:
        return ignores(world)
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


def vllm(world: World) -> Outcome:
    """vLLM: which NVML GPU it asks for model and capability."""
    if not world.value:
        return ignores(world)
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


def split(world: World, by_index: Callable[[int], Entry] | None = None) -> Outcome:
    """A program that splits at the commas and calls int()."""
    if world.value is None:
        return ignores(world)
    numbers = [int(text) for text in world.value.split(",")]
    rows = dict(enumerate(world.all))
    return _list(map(by_index or rows.get, numbers), numbers)


def deepspeed(world: World) -> Outcome:
    """DeepSpeed: int() of every entry, as an NVML index."""
    return split(world, world.by_index)


def ray(world: World) -> Outcome:
    """Entries are text to Ray; the driver reads each of them alone, as the list of one worker."""
    order, value, limit = world.process.order, world.value, len(world.all)
    ids = [] if value in ("", "NoDevFiles") else [str(i) for i in range(limit)] if value is None else value.split(",")
    lost, mig = len(world.slots) - len(world.process.accessible), world.process.mig
    known = candidates(world.topology, order, lost, mig)
    picks = [[in_full(pick, order, mig) for pick in read(text, known).picks] for text in ids[:limit]]
    entries = tuple((order.places[found[0].place], found[0].mig) if found else None for found in picks)
    return Outcome(entries, "None" if value is None else _list((), ids).shown)
