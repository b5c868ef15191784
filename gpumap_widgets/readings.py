"""How other tools read the same value of CUDA_VISIBLE_DEVICES: a table with a row a tool. Pure and total.

Few tools ask the driver. The others read the list themselves, take a number for NVML's (nvidia-smi's) and never look at
CUDA_DEVICE_ORDER: on a mixed machine in the default order they speak of another GPU than ``cuda:i``. Each reader follows
the tool's own code in the version that its row names, mistakes included. Time is linear in the text; numbers go through
Python's int(), as in the tools, which refuses more than 4300 digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
"""Position in ``topology.gpus`` and number of the MIG instance there (None: the whole GPU); None where it names none."""
_SHOWN, _WIDE, _UNSET_LIMIT = 16, 160, 64
_FULL_UUID = re.compile(  # nvitop, Device.UUID_PATTERN: complete and in lower case
    r"(?:GPU-|MIG-|(MIG-GPU-))[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?(1)/\d+/\d+)"
)


@dataclass(frozen=True)
class ToolReading:
    """What one tool makes of the variables of one process."""

    tool: str
    nvml_indices: tuple[int | None, ...]
    """Host NVML index that it takes for cuda:0, cuda:1, …; None in a place where it names no GPU, or one without index."""
    shown: str
    """What it returns, raises or does, in short: ``[0, 2]``, ``ValueError: …``, ``asks the driver``."""
    raises: bool
    agrees_with_driver: bool | None
    """Whether it has the driver's GPUs in the driver's order (a count: as many); None where one of them is not known."""
    note: Message
    """What follows for this scenario: where it differs, and on which GPU."""
    how: Message
    """How the tool reads the list, whatever the scenario."""
    source: str


class Outcome(NamedTuple):
    """What a reader of `TOOLS` gives back. A ValueError stands for itself."""

    entries: tuple[Entry, ...] | None
    """By ordinal; None where there is no list at all."""
    shown: str
    raises: bool = False
    asks: bool = False
    """Whether the driver answers in the tool's place."""


class World(NamedTuple):
    """A process as a tool meets it: the variable, and NVML, which hides nothing but what a container took away."""

    topology: Topology
    process: Process

    @property
    def value(self) -> str | None:
        """CUDA_VISIBLE_DEVICES; None when unset."""
        return self.process.env.get(CUDA_VISIBLE_DEVICES)

    @property
    def nvml(self) -> Nvml:
        """The GPUs that NVML shows there. Made once a machine and subset."""
        taken = self.process.accessible != self.topology.usable  # else NVML counts the unusable ones too
        shown = self.process.accessible if taken else tuple(range(len(self.topology.gpus)))
        return self.topology.memo(("nvml", shown), lambda: Nvml(self.topology, shown))


class Nvml:
    """NVML inside a process: it counts from 0 what is left there, in the host's order (nvidia-docker issue 907)."""

    def __init__(self, topology: Topology, positions: Sequence[int]) -> None:
        gpus = topology.gpus
        indices = {i: gpus[i].nvml_index for i in positions}
        self.located = len(indices) < 2 or None not in indices.values()
        """Whether it is known which GPU has which index."""
        self.slots = tuple(sorted(indices, key=lambda i: indices[i] or 0)) if self.located else tuple(positions)
        """Positions in ``topology.gpus`` by index."""
        self.lost = any(gpus[i].problem for i in self.slots)
        uuids = [gpus[i].uuid for i in self.slots]
        self.named = None not in uuids
        self.prefixes = PrefixIndex(uuids)
        self.whole: dict[str, Entry] = {uuid: (i, None) for uuid, i in zip(uuids, self.slots, strict=True) if uuid}
        self.mig: dict[str, tuple[int, int]] = {}
        for i in self.slots:
            for n, m in enumerate(gpus[i].mig_instances):
                for name in (m.uuid, f"MIG-{gpus[i].uuid}/{m.gpu_instance_id}/{m.compute_instance_id}"):
                    self.mig.setdefault(name or "", (i, n))

    def by_index(self, index: int) -> Entry:
        """nvmlDeviceGetHandleByIndex through ctypes, which keeps the low 32 bits of a number (pynvml.py, c_uint)."""
        index &= 0xFFFFFFFF
        return (self.slots[index], None) if index < len(self.slots) else None

    @cached_property
    def all(self) -> tuple[Entry, ...]:
        """Every GPU by index."""
        return tuple((i, None) for i in self.slots)


# --- the readers -----------------------------------------------------------------------------------------------------


def _listed(entries: Sequence[Entry], raw: Sequence[object]) -> Outcome:
    """A list that came out, shown as the tool has it."""
    return Outcome(tuple(entries), short(repr(list(raw[:_SHOWN]))[:-1] + (", …]" if len(raw) > _SHOWN else "]")))


def short(text: str) -> str:
    """A text cut to what a cell holds."""
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"


def _ask(world: World) -> Outcome:
    mig = ((n for n, m in enumerate(d.gpu.mig_instances) if m is d.mig) for d in world.process.devices)
    entries = [(d.position, next(n, None)) for d, n in zip(world.process.devices, mig, strict=True)]
    return Outcome(tuple(entries), say("reading.shown.asks"), asks=True)


def _drive(world: World) -> Outcome:
    return _ask(world)._replace(shown=_listed((), world.process.nvml_indices).shown)


def _ignore(world: World) -> Outcome:
    return _listed(world.nvml.all, range(len(world.nvml.slots)))


def _unnamed() -> Outcome:
    return Outcome(None, say("reading.shown.no-uuids"))


def torch_list(value: str | None) -> list[int] | list[str]:
    """torch.cuda._parse_visible_devices, the same from 2.3 to 2.14. Raises ValueError where torch does: a lone sign, a
    superscript digit. Digits of any script count, and a repeat is looked for before the range.
    """
    if value is None:
        return list(range(_UNSET_LIMIT))
    names: dict[str, None] = {}
    for prefix in ("GPU-", "MIG-"):
        if value.startswith(prefix):
            for name in value.split(","):
                if name in names:
                    return []
                if not name.startswith(prefix):
                    break
                names[name] = None
            return list(names)
    numbers: dict[int, None] = {}
    for entry in map(str.strip, value.split(",")):
        sign = entry[:1] if entry[:1] in ("+", "-") else ""
        head = sign + "".join(takewhile(str.isdigit, entry[len(sign) :]))
        number = int(head) if head else -1
        if number in numbers:
            return []
        if number < 0:
            break
        numbers[number] = None
    return list(numbers)


def _torch_positions(names: Sequence[str], nvml: Nvml) -> list[int]:
    """torch.cuda._transform_uuid_to_ordinals: unique beginnings, case counts, a GPU named twice empties the list."""
    found: dict[int, None] = {}
    for name in names:
        matches = nvml.prefixes.starting_with(name)
        if len(matches) != 1:
            break
        if matches[0] in found:
            return []
        found[matches[0]] = None
    return list(found)


def _torch_count(world: World) -> Outcome:
    entries, nvml = torch_list(world.value), world.nvml
    names = [entry for entry in entries if isinstance(entry, str)]
    if names and (names[0].startswith("MIG-") or nvml.lost):  # one lost GPU and the UUIDs of all are None to it
        return _ask(world)
    if names and not nvml.named:
        return _unnamed()
    inside = takewhile(lambda entry: isinstance(entry, int) and entry < len(nvml.slots), entries)
    count = len(_torch_positions(names, nvml)) if names else sum(1 for _ in inside)
    return Outcome((None,) * count, str(count))


def _torch_helpers(world: World) -> Outcome:
    entries, nvml = torch_list(world.value), world.nvml
    names = [entry for entry in entries if isinstance(entry, str)]
    if not entries:
        return Outcome((), "IndexError: list index out of range", raises=True)
    if names and nvml.lost:
        return Outcome((), "RuntimeError: Can't get device UUIDs", raises=True)
    if names and not nvml.named:
        return _unnamed()
    numbers = _torch_positions(names, nvml) if names else [entry for entry in entries if isinstance(entry, int)]
    if not numbers:
        return Outcome((), "RuntimeError: device 0 is not visible (CUDA_VISIBLE_DEVICES=[])", raises=True)
    numbers = numbers[: len(nvml.slots)] if world.value is None else numbers
    return _listed([nvml.by_index(number) for number in numbers], numbers)


def _nvitop_entry(text: str, nvml: Nvml, integers: bool | None) -> tuple[bool, Entry, object] | None:
    """Whether it is a number, what it names, and how nvitop shows that; None where it ends the list."""
    if text.isdigit():
        try:
            number = int(text)
        except ValueError:  # a superscript digit
            return None
        entry = nvml.by_index(number)
        return (True, entry, number) if entry and integers is not False else None
    named = nvml.mig.get(text) or nvml.whole.get(text) if _FULL_UUID.fullmatch(text) and integers is not True else None
    return (False, named, None) if named else None


def _nvitop(world: World) -> Outcome:
    nvml, gpus = world.nvml, world.topology.gpus
    found: dict[str, tuple[Entry, object]] = {}
    integers: bool | None = None
    if world.value is None:
        found = {str(i): (entry, i) for i, entry in enumerate(nvml.all)}
    for text in [] if world.value is None else map(str.strip, world.value.split(",")):
        start = 1 if text[:1] in ("+", "-") else 0
        digits = "".join(takewhile(str.isdigit, text[start:]))
        name = text[:start] + digits if digits else text
        if name in found:
            return _listed((), ())
        one = _nvitop_entry(name, nvml, integers)
        if one is None:
            break
        integers, found[name] = one[0], (one[1], one[2])
    if world.value is not None and integers is None and not nvml.named and world.value.startswith(("GPU-", "MIG-")):
        return _unnamed()
    shown: list[tuple[Entry, object]] = []
    for entry, label in found.values():  # one MIG device a process, and then no whole GPU: the rule before driver 570
        if entry and (entry[1] is not None or (gpus[entry[0]].mig_mode and gpus[entry[0]].mig_instances)):
            number = entry[1] or 0
            pair = (nvml.slots.index(entry[0]), _mig_index(world, entry[0], number))
            return _listed([(entry[0], number)], [pair])
        if entry and not gpus[entry[0]].mig_mode:
            shown.append((entry, nvml.slots.index(entry[0]) if label is None else label))
    return _listed([entry for entry, _ in shown], [label for _, label in shown])
