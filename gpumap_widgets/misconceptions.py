"""What people believe of CUDA's numbers: a row a misconception, with scenarios in which it goes wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from .device_order import pci_order, rank
from .layers import environment, torchrun
from .mapping import Prediction, Process
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer
from .topology import Topology

WHICH, COUNT, LIST = "which", "count", "list"
"""Kinds of questions: which GPU is cuda:k, how many devices are there, which list gives this GPU as cuda:k."""
_PCI = {CUDA_DEVICE_ORDER: "PCI_BUS_ID"}
Map = tuple[int, ...]
"""Positions of GPUs by CUDA number."""


def map_of(process: Process) -> Map:
    """What a process really has."""
    return tuple(device.position for device in process.devices)


class Misconception(NamedTuple):
    """One thing that people believe, and where it goes wrong."""

    thinks: Callable[[Prediction, int], Map]
    """What it makes of one process of a scenario."""
    scenarios: Callable[[Topology, Random], Iterator[tuple[Layer, ...]]]
    """Layers in which it may be wrong, in a random order."""
    kinds: tuple[str, ...]
    source: str
    """Where it is corrected."""


# --- what people think ------------------------------------------------------------------------------------------------


def _entries(process: Process) -> list[str] | None:
    value = process.env.get(CUDA_VISIBLE_DEVICES)
    return None if value is None else [entry.strip() for entry in value.split(",")]


def _numbered(entries: Sequence[str], places: Sequence[int]) -> Map:
    """Entries that are numbers, over some order; all others skipped."""
    found = [int(entry) for entry in entries if entry.isascii() and entry.isdigit() and len(entry) < len("10000")]
    return tuple(dict.fromkeys(places[i] for i in found if i < len(places)))


def _thinks_order(prediction: Prediction, worker: int) -> Map:
    """CUDA counts as nvidia-smi does."""
    machine, process = prediction.scenario.topology, prediction.processes[worker]
    places, entries = rank(machine, "pci", process.accessible), _entries(process)
    return tuple(places) if entries is None else _numbered(entries, places)


def _thinks_filter(prediction: Prediction, worker: int) -> Map:
    """The list only says which GPUs; their order stays."""
    process = prediction.processes[worker]
    shown = set(map_of(process))
    return tuple(i for i in process.order.places if i in shown)


def _thinks_renumber(prediction: Prediction, worker: int) -> Map:
    """A GPU keeps its number: cuda:2 is the third GPU, if the list has it."""
    process = prediction.processes[worker]
    return tuple(process.order.places)


def _thinks_skip(prediction: Prediction, worker: int) -> Map:
    """An entry that is wrong is skipped."""
    process = prediction.processes[worker]
    entries = _entries(process)
    return map_of(process) if entries is None else _numbered(entries, process.order.places)


def _thinks_last(prediction: Prediction, worker: int) -> Map:
    """-1 is the last GPU, as in Python."""
    process = prediction.processes[worker]
    places, entries = process.order.places, _entries(process) or []
    return tuple(
        places[int(entry)]
        for entry in entries
        if entry.lstrip("-").isdigit() and -len(places) <= int(entry) < len(places)
    )


def _thinks_all(prediction: Prediction, worker: int) -> Map:
    """Set to nothing is the same as unset."""
    process = prediction.processes[worker]
    return tuple(process.order.places) if not process.env.get(CUDA_VISIBLE_DEVICES) else map_of(process)


def _thinks_index(prediction: Prediction, worker: int) -> Map:
    """A UUID stands for its nvidia-smi number, which CUDA then counts in its own order."""
    process, gpus = prediction.processes[worker], prediction.scenario.topology.gpus
    smi = pci_order(prediction.scenario.topology, process.accessible)
    named = [i for entry in _entries(process) or [] for i, gpu in enumerate(gpus) if gpu.uuid and gpu.uuid == entry]
    return tuple(process.order.places[smi.index(i)] for i in named if i in smi)


def _thinks_one_each(prediction: Prediction, worker: int) -> Map:
    """The launcher gives every worker its own GPU as cuda:0."""
    process = prediction.processes[worker]
    return (map_of(process)[worker],) if worker < len(process.devices) else map_of(process)


# --- scenarios --------------------------------------------------------------------------------------------------------


def _env(order: Mapping[str, str], value: str | None) -> tuple[Layer, ...]:
    return (environment({**order, **({} if value is None else {CUDA_VISIBLE_DEVICES: value})}),)


def _some(count: int, random: Random, least: int = 1) -> list[int]:
    """Some different numbers below ``count``, in a random order."""
    numbers = list(range(count))
    random.shuffle(numbers)
    return numbers[: random.randint(min(least, count), count)]


def _orders(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    while True:
        value = None if random.random() < 0.3 else ",".join(map(str, _some(len(machine.usable), random)))
        yield _env({}, value)


def _lists(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    while True:
        yield _env(_PCI, ",".join(map(str, _some(len(machine.usable), random, 2))))


def _broken(entry: Callable[[int, Random], str]) -> Callable[[Topology, Random], Iterator[tuple[Layer, ...]]]:
    def scenarios(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
        while True:
            numbers = [str(i) for i in _some(len(machine.usable), random, 2)]
            numbers.insert(random.randint(1, len(numbers)), entry(len(machine.usable), random))
            yield _env(_PCI, ",".join(numbers))

    return scenarios


def _repeats(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    while True:
        numbers = [str(i) for i in _some(len(machine.usable), random, 2)]
        numbers.insert(random.randint(1, len(numbers)), numbers[0])
        yield _env(_PCI, ",".join(numbers))


def _empties(_: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    while True:
        yield _env(random.choice([{}, _PCI]), "")


def _uuids(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    named = [machine.gpus[i].uuid for i in machine.usable if machine.gpus[i].uuid]
    while named:
        yield _env({}, ",".join(str(named[i]) for i in _some(len(named), random)))


def _launchers(machine: Topology, random: Random) -> Iterator[tuple[Layer, ...]]:
    while len(machine.usable) > 1:
        numbers = _some(len(machine.usable), random, 2)
        yield (*_env(_PCI, ",".join(map(str, numbers))), torchrun(len(numbers)))


_GUIDE = "CUDA Programming Guide 5.2.1"
MISCONCEPTIONS: Mapping[str, Misconception] = {
    "order": Misconception(_thinks_order, _orders, (WHICH, LIST), f"{_GUIDE}.2; NVML documentation, device index"),
    "filter": Misconception(_thinks_filter, _lists, (WHICH,), f"{_GUIDE}.1"),
    "renumber": Misconception(_thinks_renumber, _lists, (WHICH,), f"{_GUIDE}.1"),
    "cut": Misconception(_thinks_skip, _broken(lambda n, r: str(n + r.randint(0, 9))), (COUNT, WHICH), f"{_GUIDE}.1"),
    "last": Misconception(_thinks_last, _broken(lambda *_: "-1"), (COUNT, WHICH), f"{_GUIDE}.1"),
    "repeat": Misconception(_thinks_skip, _repeats, (COUNT,), "pytorch pull request 92315; nvitop docstring"),
    "empty": Misconception(_thinks_all, _empties, (COUNT,), f"{_GUIDE}.1"),
    "uuid": Misconception(_thinks_index, _uuids, (WHICH,), f"{_GUIDE}.1"),
    "launcher": Misconception(_thinks_one_each, _launchers, (WHICH, COUNT), "torch 2.13 local_elastic_agent.py, run"),
}
"""What people believe of CUDA's numbers."""
