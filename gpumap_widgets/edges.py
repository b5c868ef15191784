"""A prediction beside what one witness said: joined on the ordinal, told apart by UUID. Pure.

It says ``confirmed`` or ``refuted`` only when the run was the one that was asked for, on the machine that was
described; otherwise ``not checked``, with the reason. Ordinals are never joined by name: three T4s share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .certainty import Certainty
from .identity import PciBusId, bare_uuid
from .mapping import Device, Edge, Message, Observation, ObservedDevice, Prediction, Process, message
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from .topology import Gpu, Topology

CONFIRMED, REFUTED, NOT_CHECKED = "confirmed", "refuted", "not checked"
AGREES, DIFFERS = "agrees", "differs"
UUID, ADDRESS, NOTHING = "uuid", "pci address", "nothing"


_MEETING = frozenset({"MASTER_ADDR", "MASTER_PORT"})
"""Where workers meet: a launcher that is started for a look gets a free port of its own."""


class Heard(NamedTuple):
    """One witness against a prediction."""

    observation: Observation
    worker: int | None
    """Which process it speaks of, by its place in the prediction; None where there is none like it."""
    verdict: str
    said: tuple[Message, ...]
    """The verdict in words."""
    edges: tuple[Edge, ...]
    joined_by: str
    overridden: bool = False
    """Whether it ran with other variables than it was given."""


def hear(prediction: Prediction, seen: Observation) -> Heard:
    """What one witness says of the process that it speaks of, ordinal by ordinal."""
    worker = _worker(prediction, seen)
    machine, by = _Machine(prediction.scenario.topology), NOTHING
    reason = _not_comparable(prediction, seen, worker)
    if reason is None:
        by, reason = machine.joins(seen)
    edges = () if worker is None else _edges(prediction.processes[worker], seen, machine, by)
    if reason is not None:
        key = reason.key
        return Heard(seen, worker, NOT_CHECKED, (reason,), edges, NOTHING, overridden=key == "compare.overridden")
    assert worker is not None
    process = prediction.processes[worker]
    verdict, said = _verdict(edges, process, seen)
    if by == ADDRESS:
        said.append(message("compare.by-address", lacking=_who_lacks(machine.uuids, seen)))
    other = _launched_otherwise(process, seen)
    if other is not None:
        verdict = REFUTED
        said = [other, *said] if any(edge.verdict == DIFFERS for edge in edges) else [other]
    return Heard(seen, worker, verdict, tuple(said), edges, by)


def _worker(prediction: Prediction, seen: Observation) -> int | None:
    """The process that an observation speaks of: that of its rank; where no launcher ran, that whose variables it was
    given, the first where none has them.
    """
    if prediction.error is not None or not prediction.processes:
        return None
    if seen.rank is not None:
        ranks = [process.rank for process in prediction.processes]
        return ranks.index(seen.rank) if seen.rank in ranks else None
    given = dict(seen.wanted_env)
    return next((i for i, process in enumerate(prediction.processes) if dict(process.env) == given), 0)


def _not_comparable(prediction: Prediction, observation: Observation, worker: int | None) -> Message | None:
    """Why the two say nothing about each other, before any device is looked at."""
    if prediction.error is not None or not prediction.processes:
        return message("compare.error", reason=prediction.error or "")
    if observation.problem is not None:
        return observation.problem
    if worker is None:
        return message("compare.no-such-worker", rank=observation.rank, count=len(prediction.processes))
    if observation.ran:
        return None  # the launcher's own doing: see `_launched_otherwise`
    if dict(observation.wanted_env) != dict(prediction.processes[worker].env):
        return message("compare.other-scenario")
    return _overridden(observation)


def _launched_otherwise(process: Process, seen: Observation) -> Message | None:
    """Which variables a real launcher gave its worker that were not foretold so."""
    if not seen.ran:
        return None
    names = sorted({*process.env, CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES} - _MEETING)
    different = [
        message("compare.given", name=name, foretold=_value(process.env.get(name)), found=_value(seen.env.get(name)))
        for name in names
        if process.env.get(name) != seen.env.get(name)
    ]
    if not different:
        return None
    launcher = ", ".join(seen.ran)
    return message("compare.launched-otherwise", launcher=launcher, differences=chain("compare.list", different))


def _overridden(observation: Observation) -> Message | None:
    asked, found = observation.wanted_env, observation.env
    different = [
        message("compare.variable", name=name, asked=_value(asked.get(name)), found=_value(found.get(name)))
        for name in sorted({*asked, *found})
        if asked.get(name) != found.get(name)
    ]
    return message("compare.overridden", differences=chain("compare.list", different)) if different else None


class _Machine:
    """What identifies the GPUs of a description."""

    def __init__(self, topology: Topology) -> None:
        self.gpus = topology.gpus
        self.uuids = {bare_uuid(gpu.uuid): i for i, gpu in enumerate(self.gpus) if gpu.uuid}
        self.slices = {bare_uuid(m.uuid): i for i, gpu in enumerate(self.gpus) for m in gpu.mig_instances if m.uuid}
        self.addresses = {gpu.pci: i for i, gpu in enumerate(self.gpus) if gpu.pci}

    def joins(self, seen: Observation) -> tuple[str, Message | None]:
        """What the devices can be told apart by, or why nothing can be said.

        GPUs may be hidden, lost or added: only descriptions with nothing in common are of different machines.
        """
        uuids = {d.uuid for d in seen.devices} | {uuid for uuid, _ in seen.present or ()}
        mine = {*self.uuids, *self.slices}
        if mine and uuids - {None}:
            if not mine & uuids:
                return NOTHING, message("compare.other-machine")
            if not seen.devices or any(d.uuid for d in seen.devices):
                return UUID, None
        if not seen.devices:
            return NOTHING, message("compare.unknown-machine")
        places = {PciBusId.parse(d.pci_bus_id): d.name for d in seen.devices if d.pci_bus_id}
        if not self.addresses or not places:
            return NOTHING, message("compare.nothing-joins", lacking=_who_lacks(mine or self.addresses, seen))
        common = [(self.gpus[self.addresses[at]], name) for at, name in places.items() if at in self.addresses]
        if common and all(_same_model(gpu, name) for gpu, name in common):
            return ADDRESS, None
        return NOTHING, message("compare.other-machine")

    def position(self, device: ObservedDevice, by: str) -> int | None:
        """Where a device that was seen stands in the description."""
        if by == UUID and device.uuid:
            return self.uuids.get(device.uuid, self.slices.get(device.uuid))
        at = PciBusId.parse(device.pci_bus_id) if by == ADDRESS and device.pci_bus_id else None
        return self.addresses.get(at) if at else None


def _same_model(gpu: Gpu, name: str | None) -> bool:
    """An address alone is weak: most laptops have their GPU at 01:00.0."""
    if not gpu.name or not name:
        return True
    ours, theirs = (set(n.lower().replace("-", " ").split()) - {"nvidia", "geforce", "tesla"} for n in (gpu.name, name))
    return ours <= theirs or theirs <= ours


def _edges(process: Process, seen: Observation, machine: _Machine, by: str) -> tuple[Edge, ...]:
    count = max(len(process.devices), len(seen.devices))
    return tuple(
        _edge(i, _at(process.devices, i), _at(seen.devices, i), machine, by, rank=process.rank) for i in range(count)
    )


def _at(devices: Sequence[Any], ordinal: int) -> Any:
    return devices[ordinal] if ordinal < len(devices) else None


def _edge(
    ordinal: int, foretold: Device | None, seen: ObservedDevice | None, machine: _Machine, by: str, *, rank: int | None
) -> Edge:
    position = machine.position(seen, by) if seen else None
    here = machine.gpus[position] if position is not None else None
    fields: dict[str, Any] = {"ordinal": ordinal}
    if foretold is not None:
        fields["foretold"] = _foretold(foretold)
    if seen is not None:
        fields["seen"] = _gpu(seen.name or (here.label if here else "?"), seen.pci_bus_id, here)
        if here is not None and seen.uuid in machine.slices:
            profile = next(m.profile for m in here.mig_instances if m.uuid and bare_uuid(m.uuid) == seen.uuid)
            fields["seen"] = message("compare.slice", profile=profile or "?", gpu=fields["seen"])
    verdict, key = _judge(foretold, seen, position, machine, by)
    return Edge(rank, ordinal, foretold, seen, verdict, message(key, **fields) if key else None, position)


def _judge(
    foretold: Device | None, seen: ObservedDevice | None, position: int | None, machine: _Machine, by: str
) -> tuple[str, str | None]:
    """The verdict on one ordinal and the key of its reason."""
    if by == NOTHING:
        return NOT_CHECKED, None  # the comparison as a whole says why
    if foretold is None:
        return DIFFERS, "compare.surplus"
    if seen is None:
        return DIFFERS, "compare.missing"
    gpu, slice_ = foretold.gpu, foretold.mig
    told, known = (seen.uuid, (slice_ or gpu).uuid) if by == UUID else (seen.pci_bus_id, gpu.pci_bus_id)
    if slice_ is not None and (by == ADDRESS or told not in machine.slices or not known):
        elsewhere = position not in (foretold.position, None)
        return (DIFFERS, "compare.differs") if elsewhere else (NOT_CHECKED, "compare.slice-unclear")
    if not told or not known:
        return NOT_CHECKED, "compare.not-joined"
    if position is None:
        return DIFFERS, "compare.stranger"
    same = bare_uuid(known) == told if by == UUID else position == foretold.position
    return (AGREES, None) if same else (DIFFERS, "compare.differs")


def _verdict(edges: tuple[Edge, ...], process: Process, seen: Observation) -> tuple[str, list[Message]]:
    wrong = [edge for edge in edges if edge.verdict == DIFFERS]
    if wrong:
        names = ", ".join(edge_name(edge) for edge in wrong)
        said = [message("compare.refuted", edges=names, reason=wrong[0].reason)]
        said.append(message("compare.simulator-counts" if seen.simulated else "compare.hardware-counts"))
        doubt = {Certainty.GUESS: "compare.was-guess", Certainty.UNKNOWN: "compare.was-unknown"}
        if (key := doubt.get(process.certainty)) is not None:
            said.append(message(key))
        return REFUTED, said
    unclear = [edge for edge in edges if edge.verdict == NOT_CHECKED]
    if unclear:
        return NOT_CHECKED, [message("compare.some-unclear", reason=unclear[0].reason)]
    if not edges:
        return CONFIRMED, [message("compare.confirmed-none")]
    return CONFIRMED, [message("compare.confirmed" if len(edges) > 1 else "compare.confirmed-one", count=len(edges))]


def edge_name(edge: Edge) -> str:
    """An ordinal, with its rank where there are ranks: ``rank 1 cuda:0``."""
    return f"cuda:{edge.ordinal}" if edge.rank is None else f"rank {edge.rank} cuda:{edge.ordinal}"


def _who_lacks(described: object, seen: Observation) -> Message:
    if not described:
        return message("compare.description-lacks")
    if seen.witness != "torch":
        return message("compare.driver-lacks")
    return message("compare.torch-lacks", version=seen.versions.get("torch", "?"))


def _foretold(device: Device) -> Message:
    gpu = _gpu(device.gpu.label, device.gpu.pci_bus_id, device.gpu)
    return message("compare.slice", profile=device.mig.profile or "?", gpu=gpu) if device.mig else gpu


def _gpu(name: str, address: str | None, gpu: Gpu | None) -> Message:
    """A GPU in words: its short name, and where it sits."""
    short = name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    pci = PciBusId.parse(address) if address else gpu.pci if gpu else None
    if pci is not None:
        return message("compare.gpu-at", name=short, at=pci.short)
    if gpu is not None and gpu.nvml_index is not None:
        return message("compare.gpu-index", name=short, index=gpu.nvml_index)
    return message("compare.gpu", name=short)


def _value(value: str | None) -> Message:
    return message("compare.unset") if value is None else message("compare.value", value=value)


def chain(key: str, messages: Sequence[Message]) -> Message:
    """Several messages as one."""
    first, *rest = messages
    return message(key, first=first, second=chain(key, rest)) if rest else first
