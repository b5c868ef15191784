"""Slurm: which GPUs a step and its tasks get, and what stands in CUDA_VISIBLE_DEVICES.

Read in the tree at 284c3b95 (26.11): interfaces/gres.c, gres_common.c, srun.1, gres.shtml, cgroup.conf.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .allocation import Allocation, allocation, numbers_of, uuids_of
from .base import LayerRow, Outcome, Recognised, View
from .options import Option, Options, Parsed
from .shapes import NUMBER, NUMBERS, SWITCH, TEXT, count_of, facts, shaped
from .telling import Teller, crowd
from .words import Word

_SOURCE = "Slurm 284c3b95, interfaces/gres.c and gres_common.c; gres.shtml, srun.1, cgroup.conf.5"
_TELL = Teller("scheduler", _SOURCE)

_OPTIONS = Options(
    [
        Option("-n --ntasks", key="tasks"),
        Option("-N --nodes", key="nodes"),
        Option("--ntasks-per-node", key="tasks_per_node"),
        Option("--gres", key="gres"),
        Option("-G --gpus", key="gpus"),
        Option("--gpus-per-node", key="gpus_per_node"),
        Option("--gpus-per-task", key="gpus_per_task"),
        Option("--gpu-bind --tres-bind", key="bind"),
        Option("--gres-flags", key="gres_flags"),
        Option("--export", key="export"),
        Option("--wrap", key="wrap"),
        Option("--exclusive --mpi --cpu-bind --mem-bind --hint --profile --propagate --multi-prog", "?"),
        Option("-l --label -u --unbuffered -v --verbose -Q --quiet -O --overcommit -s --oversubscribe --pty -E", 0),
        Option("-K --kill-on-bad-exit -H --hold -Z --no-allocate --overlap --exact --spread-job --requeue --no-requeue", 0),
        Option("-A --account -p --partition -q --qos -J --job-name -t --time --time-min -c --cpus-per-task -o --output"),
        Option("-e --error -i --input -D --chdir -w --nodelist -x --exclude -C --constraint -d --dependency --mem"),
        Option("--mem-per-cpu --mem-per-gpu --cpus-per-gpu --ntasks-per-gpu --ntasks-per-core --ntasks-per-socket"),
        Option("--reservation --container-image --container-mounts --container-workdir --container-name --comment -L"),
        Option("-m --distribution --array -a --mail-type --mail-user --signal --nice --priority --jobid -b --begin"),
        Option("--gpu-freq --threads-per-core --sockets-per-node --cores-per-socket --open-mode --wckey -W --wait"),
    ],
    abbreviate=True,
)  # fmt: skip
_GPUS = re.compile(r"(?:gpu|gres/gpu)(?::[A-Za-z][\w.-]*)?(?::(\d{1,4}))?\Z", re.ASCII)
_COUNT = re.compile(r"(?:[A-Za-z][\w.-]*:)?(\d{1,4})\Z", re.ASCII)


def slurm(
    gpus: int = 0,
    *,
    tasks: int = 1,
    gpus_per_task: int = 0,
    allocated: tuple[int, ...] | None = None,
    constrain_devices: bool | None = None,
    **options: Any,
) -> Layer:
    """A step of Slurm on one node: ``gpus`` of the node, or ``gpus_per_task`` for each of ``tasks``.

    ``allocated``: nvidia-smi numbers that it gave. ``constrain_devices``: ConstrainDevices of cgroup.conf. More
    options: ``task_sharing``, ``bind`` (``single:1``, ``map:0,1``, …), ``env_uuid``, ``export``.
    """
    given = {"gpus": gpus, "tasks": tasks, "gpus_per_task": gpus_per_task, "allocated": allocated}
    given["constrain_devices"] = constrain_devices
    return Layer("slurm", {k: v for k, v in {**given, **options}.items() if v is not None})


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _OPTIONS.parse(words[1:])
    options: dict[str, Any] = {"program": words[0].text.rpartition("/")[2], "gpus": _gpus(found)}
    nodes = max(1, _number(found.text("nodes"), 1))
    tasks = _number(found.text("tasks"), 0)
    options["tasks"] = _number(found.text("tasks_per_node"), 0) or max(1, -(-tasks // nodes))
    options["gpus_per_task"] = _counted(found.text("gpus_per_task"))
    options["task_sharing"] = "allow-task-sharing" in (found.text("gres_flags") or "")
    options |= {key: text for key in ("bind", "export") if (text := found.text(key)) is not None}
    if nodes > 1:
        options["nodes"] = nodes
    options |= facts(assume, allocated=NUMBERS, constrain_devices=SWITCH, env_uuid=SWITCH, node_rank=NUMBER)
    if found.unrecognised:
        options["unrecognised"] = found.unrecognised
    script = found.values["wrap"][-1] if found.has("wrap") else None
    rest = () if options["program"] == "sbatch" else found.rest
    return Recognised((Layer("slurm", options),), rest, script)


def _gpus(found: Parsed) -> int:
    """GPUs of the node that the options ask for."""
    for entry in (found.text("gres") or "").split(","):
        match = _GPUS.match(entry.strip())
        if match is not None:
            return int(match[1] or 1)
    return _counted(found.text("gpus_per_node")) or _counted(found.text("gpus"))


def _number(text: str | None, otherwise: int) -> int:
    found = count_of(text)
    return otherwise if found is None else found


def _counted(text: str | None) -> int:
    """The count of ``2`` or ``a100:2``."""
    match = _COUNT.match(text or "")
    return int(match[1]) if match else 0


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    tasks, each = max(1, options.get("tasks") or 1), options.get("gpus_per_task") or 0
    if (refused := crowd(tasks)) is not None:
        return refused
    if options.get("export") == "NONE":
        view = replace(view, env=FrozenDict())
    count = each * tasks if each else options.get("gpus") or 0
    if count > len(view.left(topology)):
        return _TELL.refused("error.slurm.too-many", count=count, there=len(view.left(topology)))
    if not count:
        return _without(view, options, tasks)
    given = allocation(view, options, topology, count, _TELL)
    steps = [*given.steps, _TELL.step("step.slurm.given", given.certainty, gpus=numbers_of(topology, given.positions))]
    constrained, said, sure = _constrained(options)
    steps += said
    view = view.doubted(given.certainty).doubted(sure)
    shares, bound = _shares(options, given.positions, tasks, each)
    if not bound:
        view = view.doubted(Certainty.UNKNOWN)
        steps.append(_TELL.step("step.slurm.bind-unknown", Certainty.UNKNOWN, bind=str(options.get("bind"))))
    own, views = [], []
    for k, share in enumerate(shares):
        sees = given.positions if options.get("task_sharing") or not _split(options) else share
        value = _value(topology, options, share, sees if constrained else None)
        env: dict[str, str | None] = {
            CUDA_VISIBLE_DEVICES: value,
            "SLURM_JOB_GPUS": numbers_of(topology, given.positions),
        }
        env |= {"SLURM_LOCALID": str(k), "SLURM_STEP_GPUS": env["SLURM_JOB_GPUS"]}
        one = replace(view.with_env(env), worker=f"task {k}" if tasks > 1 else view.worker)
        views.append(one.narrowed(sees) if constrained else one)
        own.append(
            (
                _TELL.step(
                    "step.slurm.set", view.certainty, value=value, constrained="local" if constrained else "global"
                ),
            )
        )
    return Outcome(tuple(views), tuple(steps), tuple(own))


def _without(view: View, options: Mapping[str, Any], tasks: int) -> Outcome:
    """No GPU asked for: the list is unset; a device cgroup hides every GPU, without one all are seen."""
    constrained, said, sure = _constrained(options)
    one = view.doubted(sure).with_env({CUDA_VISIBLE_DEVICES: None})
    one = one.narrowed(()) if constrained else one
    named = tuple(
        replace(one.with_env({"SLURM_LOCALID": str(k)}), worker=f"task {k}" if tasks > 1 else one.worker)
        for k in range(tasks)
    )
    return Outcome(named, (*said, _TELL.step("step.slurm.no-gpu", sure)))


def _constrained(options: Mapping[str, Any]) -> tuple[bool, tuple[Any, ...], Certainty]:
    """Whether a device cgroup takes the other GPUs away; documented to be off unless somebody sets it."""
    told = options.get("constrain_devices")
    if told is not None:
        return told, (), Certainty.CERTAIN
    return False, (_TELL.step("step.slurm.unconstrained", Certainty.UNKNOWN),), Certainty.UNKNOWN


def _split(options: Mapping[str, Any]) -> bool:
    """Whether tasks have GPUs of their own."""
    bind = str(options.get("bind") or "").removeprefix("gres/gpu:").removeprefix("verbose,")
    return (bool(options.get("gpus_per_task")) and bind != "none") or bind.startswith(("single", "per_task", "map"))


def _shares(
    options: Mapping[str, Any], positions: tuple[int, ...], tasks: int, each: int
) -> tuple[list[tuple[int, ...]], bool]:
    """The GPUs of each task, and whether the binding is one that is followed here."""
    bind = str(options.get("bind") or "").removeprefix("gres/gpu:").removeprefix("verbose,")
    kind, _, argument = bind.partition(":")
    everything = [positions] * tasks
    if kind in ("closest", "mask", "mask_gpu"):
        return everything, False
    if kind == "none":
        return everything, True
    if kind in ("map", "map_gpu"):
        numbers = [int(n) for n in argument.split(",") if n.isdigit() and int(n) < len(positions)]
        return (
            ([(positions[numbers[k % len(numbers)]],) for k in range(tasks)], True) if numbers else (everything, False)
        )
    if kind == "single":
        per = max(1, _number(argument, 1))
        return [(positions[(k // per) % len(positions)],) for k in range(tasks)], True
    size = each or (_number(argument, 1) if kind == "per_task" else 0)
    if not size:
        return everything, not bind
    return [positions[k * size : (k + 1) * size] for k in range(tasks)], True


def _value(topology: Topology, options: Mapping[str, Any], share: tuple[int, ...], sees: tuple[int, ...] | None) -> str:
    """The list: UUIDs, numbers within what is seen where a cgroup takes the rest away, else nvidia-smi numbers."""
    uuids = uuids_of(topology, share) if options.get("env_uuid") else None
    if uuids is not None:
        return uuids
    if sees is None:
        return numbers_of(topology, share)
    return ",".join(str(sorted(sees).index(i)) for i in share)


def _believed(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: a job runs on the GPUs that it was given, with or without a device cgroup."""
    return _apply(view, {**options, "constrain_devices": True}, topology)


ROWS: Mapping[str, LayerRow] = {
    "slurm": LayerRow(
        _apply,
        _SOURCE,
        shaped(
            gpus=NUMBER, tasks=NUMBER, gpus_per_task=NUMBER, nodes=NUMBER, node_rank=NUMBER, allocated=NUMBERS,
            constrain_devices=SWITCH, task_sharing=SWITCH, env_uuid=SWITCH, bind=TEXT, export=TEXT, program=TEXT,
        ),
        "scheduler",
        ("srun", "salloc", "sbatch"),
        _recognise,
        believed=_believed,
    ),
}  # fmt: skip

__all__ = ["ROWS", "Allocation", "slurm"]
