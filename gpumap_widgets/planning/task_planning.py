"""Which task belongs on which GPU: one GPU each where there are enough, the heavy ones on the fast ones, memory kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..certainty import Certainty
from ..errors import ImpossiblePlan
from ..frozen import FrozenDict
from ..mapping import Message, message
from ..resolver import resolve
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from ..texts import say
from ..topology import Topology
from .assignment import NODES, Assignment, assign
from .jobs import Job, Place, cost_of
from .measured import Measurements
from .reasons import Candidates, placed_reason, unplaced_reason
from .speeds import Rates
from .tasks import LATENCY, MOST, Copy, Placed, TaskPlan, Workload
from .workers import CONTEXT_MIB, FRAGMENTS_MIB, all_rates

_CHECKS = 200
"""Steps that the search may take to tell whether another limit would lead elsewhere."""


def plan_tasks(
    topology: Topology,
    tasks: Sequence[Workload],
    *,
    share: bool = False,
    dtype: str | None = None,
    bound: str | None = None,
    measured: Measurements | None = None,
) -> TaskPlan:
    """Put every copy of every task onto a GPU.

    As many copies as possible are placed, the most urgent first; among such plans the best has the least sum of
    weight × work / speed of the GPU, the weight being that of the latency class. One copy a GPU, unless ``share``: then
    copies may stand beside each other as far as memory goes, and the time that they wait for each other counts too.
    Copies of one task never share a GPU, interactive ones with nothing.

    ``dtype``, ``bound`` and ``measured`` say which speeds count, as for `plan_data_parallel`. A GPU of which no speed is
    known counts as slow as the slowest; one whose memory is not known takes only tasks that need none. GPUs in MIG mode
    are left out. Raises ImpossiblePlan for tasks that cannot be.
    """
    copies = [Copy(task, number) for task in tasks for number in range(task.copies)]
    _refuse(copies)
    positions = [i for i in topology.usable if not topology.gpus[i].mig_mode]
    gpus = [topology.gpus[i] for i in positions]
    rates, _ = all_rates(gpus, dtype, bound, measured)
    speeds = relative_speeds([rate.typical for rate in rates])
    memory = [max(0, (gpu.memory_mib or 0) - CONTEXT_MIB - FRAGMENTS_MIB) for gpu in gpus]
    found = _assigned(copies, speeds, memory, share=share, nodes=NODES)
    case = Candidates(copies, gpus, speeds, memory, found.places, share)
    rows = []
    for i, place in enumerate(found.places):
        if place is None:
            nothing: Mapping[str, str] = FrozenDict()
            rows.append(Placed(copies[i], None, None, nothing, Certainty.UNKNOWN, unplaced_reason(case, i)))
            continue
        env, sure = environment_for(topology, positions[place])
        beside = tuple(copies[j].name for j in case.beside(i))
        rows.append(Placed(copies[i], gpus[place], positions[place], env, sure, placed_reason(case, i), beside))
    notes = tuple(_notes(topology, case, rates, found))
    return TaskPlan(topology, tuple(rows), found.proven, notes)


def relative_speeds(typical: Sequence[float]) -> list[float]:
    """Speeds over that of the slowest; one that is not known counts as the slowest."""
    least = min((speed for speed in typical if not math.isnan(speed)), default=1.0)
    return [1.0 if math.isnan(speed) else speed / least for speed in typical]


def environment_for(topology: Topology, position: int) -> tuple[Mapping[str, str], Certainty]:
    """The variables that make a GPU the only one that a process sees, and how sure that is; checked by resolving them.

    By UUID; by number, with the order that makes numbers nvidia-smi's, where the UUID is not known; none where neither
    is.
    """
    gpu = topology.gpus[position]
    if gpu.uuid is not None:
        env = {CUDA_VISIBLE_DEVICES: gpu.uuid}
    elif gpu.nvml_index is not None:
        env = {CUDA_DEVICE_ORDER: "PCI_BUS_ID", CUDA_VISIBLE_DEVICES: str(gpu.nvml_index)}
    else:
        return FrozenDict(), Certainty.UNKNOWN
    prediction = resolve(Scenario.from_env(topology, env))
    devices = prediction.processes[0].devices if prediction.processes else ()
    right = [device.position for device in devices] == [position]
    return FrozenDict(env), prediction.certainty if right else Certainty.UNKNOWN


def _refuse(copies: Sequence[Copy]) -> None:
    names = [copy.name for copy in copies]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ImpossiblePlan(say("task.twice", name=twice))
    if len(copies) > MOST:
        raise ImpossiblePlan(say("task.many", n=len(copies), most=MOST))


def _jobs(copies: Sequence[Copy], speeds: Sequence[float]) -> list[Job]:
    """Copies as the search takes them. Placing nothing of a class costs more than placing all of the classes below."""
    families = {name: i for i, name in enumerate(dict.fromkeys(copy.task.name for copy in copies))}
    total = sum(copy.task.work for copy in copies)
    top = (max(row.weight for row in LATENCY.values()) + 2 * len(copies)) * total / min(speeds, default=1.0)
    ranks = {key: len(LATENCY) - 1 - i for i, key in enumerate(LATENCY)}
    jobs = []
    for copy in copies:
        task, row = copy.task, LATENCY[copy.task.latency]
        penalty = top * (len(copies) + 1.0) ** ranks[task.latency]
        memory = task.memory_mib + CONTEXT_MIB if task.memory_mib else 0
        jobs.append(Job(task.work, row.weight, memory, row.alone, penalty, families[task.name]))
    return jobs


def _assigned(
    copies: Sequence[Copy], speeds: Sequence[float], memory: Sequence[int], *, share: bool, nodes: int
) -> Assignment:
    return assign(_jobs(copies, speeds), _places(speeds, memory), share=share, nodes=nodes)


def _places(speeds: Sequence[float], memory: Sequence[int]) -> list[Place]:
    """GPUs as the search takes them: with room for one process and its context at least."""
    return [Place(speed, room + CONTEXT_MIB) for speed, room in zip(speeds, memory, strict=True)]


def _notes(topology: Topology, case: Candidates, rates: Sequence[Rates], found: Assignment) -> Iterator[Message]:
    """What a reader should know about the plan."""
    unknown = [gpu.label for gpu, rate in zip(case.gpus, rates, strict=True) if not rate.known]
    if unknown:
        yield message("task.note.speed", gpus=", ".join(dict.fromkeys(unknown)))
    if any(topology.gpus[i].mig_mode for i in topology.usable):
        yield message("task.note.mig")
    if not found.proven:
        yield message("task.note.not-proven")
    shared = [place for place in set(found.places) if place is not None and found.places.count(place) > 1]
    if shared:
        yield message("task.note.shared", n=len(shared))
    if not unknown:
        yield from _fragile(case, rates)


def _fragile(case: Candidates, rates: Sequence[Rates]) -> Iterator[Message]:
    """Whether another plan is best when all tasks are limited by the same one thing."""
    for limit in rates[0].by_limit if rates else ():
        speeds = relative_speeds([rate.by_limit[limit].middle for rate in rates])
        other = _assigned(case.copies, speeds, case.memory, share=case.share, nodes=_CHECKS)
        jobs, places = _jobs(case.copies, speeds), _places(speeds, case.memory)
        own, least = (cost_of(jobs, places, chosen) for chosen in (case.chosen, other.places))
        if other.proven and least < own * (1 - 1e-6):
            yield message("task.note.fragile", limit=message(f"limit.{limit}"))
            return
