"""Other processes: which GPUs one holds, and which GPU its ``cuda:0`` is, as far as this user may know.

NVML tells which GPUs a process holds; its environment at start and the device files before it predict which of them it
counts as 0. A program that sets the variables itself, after it was started, is not seen to do so: what follows from the
environment is likely at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..certainty import Certainty, least
from ..errors import GpumapError, NoDriver
from ..explanation import device_name, gpu_name
from ..mapping import Device, Finding, Message, Prediction, message
from ..resolver import resolve
from ..scenario import Scenario
from ..sources.nvml import GpuProcess, processes, this_machine
from ..texts import say
from ..topology import Topology
from .system import ROOT, SystemView, exists, numbers_are_ours, system_view


@dataclass(frozen=True)
class ProcessInspection:
    """One process, at one moment."""

    pid: int
    when: str
    """ISO time with zone."""
    system: SystemView
    held: tuple[GpuProcess, ...]
    """What NVML shows of it: a row for each GPU, or MIG device, on which it has something."""
    prediction: Prediction | None
    """What its environment at start leads to; None where that cannot be read, or there is no driver to ask."""
    said: Message
    """What its ``cuda:0`` is, in words."""
    certainty: Certainty
    job: str | None
    """What tells its job: ``slurm 77``, ``torchrun 1a2b…``, ``docker 4f1c…``; None where nothing does."""
    rank: int | None
    unseen: tuple[Message, ...]
    """What could not be seen, each with its reason."""
    machine: Topology | None
    findings: tuple[Finding, ...] = ()

    @property
    def nvml_indices(self) -> tuple[int | None, ...]:
        """nvidia-smi's number behind its cuda:0, cuda:1, … as predicted; () where nothing can be."""
        return self.prediction.nvml_indices if self.prediction else ()

    @property
    def first(self) -> Device | None:
        """Its cuda:0 as predicted; None where nothing is visible, or what is cannot be told."""
        shown = self.prediction.processes[0].devices if self.prediction and self.prediction.processes else ()
        return shown[0] if shown and self.certainty is not Certainty.UNKNOWN else None

    @property
    def held_indices(self) -> tuple[int | None, ...]:
        """nvidia-smi's numbers of the GPUs that it holds, as NVML shows it."""
        if self.machine is None:
            return ()
        return tuple(sorted({self.machine.gpus[row.position].nvml_index for row in self.held}, key=lambda i: i or 0))

    @property
    def simulated(self) -> bool:
        """True when a simulated driver answered."""
        return bool(self.machine and self.machine.simulated)

    def __str__(self) -> str:
        from ..views.inspections import process_text

        return process_text(self)

    def _repr_html_(self) -> str:
        from ..views.inspections import process_html

        return process_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, sentences in English."""
        from .plain import process_dict

        return process_dict(self)


@dataclass(frozen=True)
class MachineInspection:
    """All processes on the GPUs of this machine, and what is wrong between them."""

    when: str
    machine: Topology
    processes: tuple[ProcessInspection, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    """What NVML does not show."""

    def __str__(self) -> str:
        from ..views.inspections import machine_text

        return machine_text(self)

    def _repr_html_(self) -> str:
        from ..views.inspections import machine_html

        return machine_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, sentences in English."""
        from .plain import machine_dict

        return machine_dict(self)


def inspect_process(pid: int, *, root: Path = ROOT) -> ProcessInspection:
    """A process of this machine: its variables at start, the GPUs that it holds, its container, what its cuda:0 is.

    Needs no more rights than the user has: what may not be seen stands in ``unseen``, with the reason. ``root`` stands for
    ``/``. Raises GpumapError where there is neither a process of that number nor one that NVML shows.
    """
    from .findings import findings_of

    try:
        machine: Topology | None = this_machine(root=root)
        running = processes(machine, root=root) if machine else None
        why = ""
    except NoDriver as exc:
        machine, running, why = None, None, exc.message
    held = tuple(row for row in running.processes if row.pid == pid) if running else ()
    if not held and not exists(pid, root):
        raise GpumapError(say("inspect.no-process", pid=pid), remedy=say("inspect.no-process-remedy"))
    extra = [message("inspect.unseen.gpus", why=why)] if why else []
    extra += [message("inspect.unseen.note", note=note) for note in (running.notes if running else ())]
    found = _inspected(pid, machine, held, root, extra)
    return replace(found, findings=findings_of((found,)))


def inspect_processes(*, root: Path = ROOT) -> MachineInspection:
    """Every process that NVML shows on the GPUs of this machine, and findings: two jobs on one GPU, ranks that share one.

    Raises NoDriver where there is no driver to ask.
    """
    from .findings import findings_of

    machine = this_machine(root=root)
    running = processes(machine, root=root)
    by_pid: dict[int, list[GpuProcess]] = {}
    for row in running.processes:
        by_pid.setdefault(row.pid, []).append(row)
    found = tuple(_inspected(pid, machine, tuple(rows), root, ()) for pid, rows in sorted(by_pid.items()))
    return MachineInspection(_now(), machine, found, findings_of(found), running.notes)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _inspected(
    pid: int, machine: Topology | None, held: tuple[GpuProcess, ...], root: Path, extra: Iterable[Message]
) -> ProcessInspection:
    system = system_view(pid, root)
    if held and machine and not machine.simulated and not numbers_are_ours(root):
        extra = (*extra, message("inspect.unseen.numbers"))
        held = () if system.cuda_open is False else held  # a namesake: it has nothing of CUDA open
    env = system.environ
    prediction = resolve(Scenario.from_env(_before(machine, system), env)) if machine and env is not None else None
    said, certainty = _first(machine, system, held, prediction)
    return ProcessInspection(
        pid,
        _now(),
        system,
        held,
        prediction,
        said,
        certainty,
        job_of(system),
        rank_of(env or {}),
        (*system.unseen, *extra),
        machine,
    )


def _before(machine: Topology, system: SystemView) -> Topology:
    """The machine as the process has it: without the GPUs whose device files it lacks.

    Source: a container gets its GPUs by getting their device files (libnvidia-container; CDI, nvidia-container-toolkit).
    """
    minors = system.minors
    if system.own_files is not True or minors is None or machine.platform == "wsl":
        return machine
    if any(gpu.minor_number is None and gpu.problem is None for gpu in machine.gpus):
        return machine
    left = [i for i, gpu in enumerate(machine.gpus) if gpu.minor_number in minors]
    order = machine.default_order
    seen = None if order is None else tuple(left.index(i) for i in order if i in left)
    return replace(machine, gpus=tuple(machine.gpus[i] for i in left), default_order=seen)


def _first(
    machine: Topology | None, system: SystemView, held: tuple[GpuProcess, ...], prediction: Prediction | None
) -> tuple[Message, Certainty]:
    """What its cuda:0 is: by its environment, checked against the GPUs that it holds."""
    if machine is None:
        return message("inspect.process.no-machine"), Certainty.UNKNOWN
    places = sorted({row.position for row in held})
    names = ", ".join(gpu_name(machine.gpus[place]) for place in places)
    if prediction is None or not prediction.processes:
        key = "inspect.process.held-only" if held else "inspect.process.nothing"
        return message(key, gpus=names), Certainty.UNKNOWN
    shown = prediction.processes[0].devices
    if not {machine.gpus[place] for place in places} <= {device.gpu for device in shown}:
        return message("inspect.process.elsewhere", gpus=names), Certainty.UNKNOWN
    if not shown:
        return message("inspect.process.none"), least((prediction.certainty, Certainty.LIKELY))
    # its device files are not seen: in another container it may have fewer GPUs, and count them otherwise
    hidden = system.minors is None and system.own_files is not False
    certainty = least((shown[0].certainty, Certainty.GUESS if hidden else Certainty.LIKELY))
    key = "inspect.process.first-held" if held else "inspect.process.first"
    return message(key, gpu=device_name(shown[0]), gpus=names), certainty


# --- jobs ------------------------------------------------------------------------------------------------------------

_JOBS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("slurm", ("SLURM_JOB_ID",)),
    ("torchrun", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")),
    ("pmix", ("PMIX_NAMESPACE",)),
    ("pbs", ("PBS_JOBID",)),
    ("lsf", ("LSB_JOBID",)),
    ("flux", ("FLUX_JOB_ID",)),
    ("ray", ("RAY_JOB_ID",)),
    ("distributed", ("MASTER_ADDR", "MASTER_PORT")),
)
"""Kind of job → the variables that name it, the first that are all there. Sources: sbatch(1), torch/distributed/run.py,
PMIx standard 4.1 section 5, qsub(1B), the manuals of LSF, Flux and Ray."""
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID")
"""Variables that hold a process's number on its host: torchrun's and most launchers', Open MPI's, Intel MPI's and
MPICH's, Slurm's, Flux's.
"""


def job_of(system: SystemView) -> str | None:
    """What tells the job of a process: its scheduler's or launcher's variables, else its container."""
    env: Mapping[str, str] = system.environ or {}
    for kind, names in _JOBS:
        if all(env.get(name) for name in names):
            return " ".join((kind, *(env[name] for name in names)))
    return " ".join(system.container) if system.container else None


def rank_of(env: Mapping[str, str], names: tuple[str, ...] = _RANKS) -> int | None:
    """The number that the first of these variables has which holds one; None where none does."""
    for name in names:
        value = env.get(name, "")
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return None
