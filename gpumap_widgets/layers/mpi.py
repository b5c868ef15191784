"""MPI launchers, Horovod and TorchX: processes with a rank; which GPU is theirs the program or a wrapper decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .options import Option, Options
from .shapes import NUMBER, SWITCH, TABLE, TEXT, count_of, facts, shaped
from .telling import Teller, crowd
from .words import Word

_MPI = "Open MPI documentation, environment variables of ranks; MPICH Hydra, Intel MPI and MVAPICH as reported"
_HOROVOD = "Horovod 0.28.1, runner/common/util/env.py"
_TORCHX = "TorchX cafea3f, schedulers/local_scheduler.py"
_MPI_TELL, _HOROVOD_TELL, _TORCHX_TELL = (Teller("launcher", source) for source in (_MPI, _HOROVOD, _TORCHX))

_RANK_NAMES: Mapping[str, tuple[str, str, str]] = {
    "openmpi": ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "mpich": ("MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"),
    "intel": ("MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"),
    "mvapich": ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
}
"""Implementation → its variables for local rank, rank and size."""

_MPIRUN = Options(
    [
        Option("-np -n --np --n -c", key="count"),
        Option("-x", key="export"),
        Option("-H --host -host --hostfile -hostfile --machinefile -machinefile -f -ppn -N --npernode -npernode"),
        Option("--map-by -map-by --bind-to -bind-to --rank-by -rank-by --prefix --wdir -wdir --output-filename"),
        Option("--mca -mca --gmca -env -genv", 2),
        Option(
            "--allow-run-as-root --oversubscribe -oversubscribe --tag-output --report-bindings --display-map -v -q", 0
        ),
        Option("--use-hwthread-cpus --display-allocation --bynode --byslot --nooversubscribe", 0),
    ],
    cluster=False,
)


def mpirun(count: int, *, mpi: str = "openmpi") -> Layer:
    """``count`` processes on this node with the rank variables of an implementation (``openmpi``, ``mpich``, …)."""
    return Layer("mpirun", {"count": count, "mpi": mpi})


def _recognise_mpirun(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _MPIRUN.parse(words[1:])
    options: dict[str, Any] = {"mpi": str(assume.get("mpi", "openmpi"))}
    if (count := count_of(found.text("count"))) is not None:
        options["count"] = count
    exported = [word.text for word in found.values.get("export", ()) if "=" in word.text and not word.unknown]
    if exported:
        options["set"] = {name: value for name, _, value in (text.partition("=") for text in exported)}
    if found.unrecognised:
        options["unrecognised"] = found.unrecognised
    return Recognised((Layer("mpirun", options),), found.rest)


def _apply_mpirun(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    count = options.get("count")
    said = []
    if count is None:
        count, view = 1, view.doubted(Certainty.UNKNOWN)
        said.append(_MPI_TELL.step("step.mpi.uncounted", Certainty.UNKNOWN))
    if (refused := crowd(count)) is not None:
        return refused
    local, rank, size = _RANK_NAMES.get(str(options.get("mpi")), _RANK_NAMES["openmpi"])
    views = [
        replace(
            view.with_env({**options.get("set", {}), local: str(k), rank: str(k), size: str(count)}),
            rank=k,
            local_rank=k,
        )
        for k in range(count)
    ]
    return Outcome(tuple(views), (*said, _MPI_TELL.step("step.mpi", count=count, variable=local)))


# --- Horovod ----------------------------------------------------------------------------------------------------------

_HOROVODRUN = Options(
    [
        Option("-np --num-proc", key="count"),
        Option("-H --hosts -hostfile --hostfile -p --ssh-port --start-timeout --network-interface --log-level"),
        Option("--gloo --mpi --verbose --disable-cache --check-build -v", 0),
    ],
    cluster=False,
)


def horovod(count: int) -> Layer:
    """``horovodrun -np count``: HOROVOD_LOCAL_RANK and no GPU variable; a script takes cuda:local_rank."""
    return Layer("horovod", {"count": count})


def _recognise_horovod(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _HOROVODRUN.parse(words[1:])
    options: dict[str, Any] = {"count": count_of(found.text("count")) or 1}
    options |= facts(assume, set_device=SWITCH)
    options |= {"unrecognised": found.unrecognised} if found.unrecognised else {}
    return Recognised((Layer("horovod", options),))


def _apply_horovod(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    count = max(1, options.get("count") or 1)
    if (refused := crowd(count)) is not None:
        return refused
    views = []
    for k in range(count):
        env = {"HOROVOD_LOCAL_RANK": str(k), "HOROVOD_RANK": str(k), "HOROVOD_SIZE": str(count)}
        chosen = (0,) if options.get("set_device") is False else (k,)
        views.append(replace(view.with_env(env), rank=k, local_rank=k, chosen=chosen))
    return Outcome(tuple(views), (_HOROVOD_TELL.step("step.horovod", count=count),))


# --- TorchX -----------------------------------------------------------------------------------------------------------

_NODES = re.compile(r"(?:(\d{1,4})x)?(\d{1,4})\Z", re.ASCII)


def torchx(replicas: int = 1, nproc: int = 1, *, gpus: int = 0, auto_set: bool = False) -> Layer:
    """TorchX's local scheduler with dist.ddp: ``replicas`` of ``nproc`` workers on this machine.

    ``auto_set``: auto_set_cuda_visible_devices, which gives each replica ``gpus`` consecutive numbers.
    """
    return Layer("torchx", {"replicas": replicas, "nproc": nproc, "gpus": gpus, "auto_set": auto_set})


def _recognise_torchx(words: tuple[Word, ...], _: Mapping[str, Any]) -> Recognised:
    texts = [word.text for word in words]
    if "run" not in texts:
        return Recognised(())
    options: dict[str, Any] = {"auto_set": any("auto_set_cuda_visible_devices=True" in text for text in texts)}
    for at, text in enumerate(texts[:-1]):
        if text == "-j" and (found := _NODES.match(texts[at + 1])) is not None:
            options |= {"replicas": int(found[1] or 1), "nproc": int(found[2])}
        elif text == "--gpu":
            options["gpus"] = count_of(texts[at + 1]) or 0
    return Recognised((Layer("torchx", options),))


def _apply_torchx(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    replicas, nproc, gpus = (options.get(key) or low for key, low in (("replicas", 1), ("nproc", 1), ("gpus", 0)))
    if (refused := crowd(replicas * nproc)) is not None:
        return refused
    views = []
    for node in range(replicas):
        given = {CUDA_VISIBLE_DEVICES: ",".join(str(node * gpus + i) for i in range(gpus))} if gpus else {}
        env = given if options.get("auto_set") else {}
        for k in range(nproc):
            ranks = {"RANK": str(node * nproc + k), "LOCAL_RANK": str(k), "WORLD_SIZE": str(replicas * nproc)}
            one = view.with_env({**env, **ranks})
            views.append(replace(one, rank=node * nproc + k, local_rank=k, node_rank=node, chosen=(k,)))
    key = "step.torchx.set" if options.get("auto_set") and gpus else "step.torchx"
    return Outcome(tuple(views), (_TORCHX_TELL.step(key, replicas=replicas, nproc=nproc),))


ROWS: Mapping[str, LayerRow] = {
    "mpirun": LayerRow(
        _apply_mpirun,
        _MPI,
        shaped(count=NUMBER, mpi=TEXT, set=TABLE),
        programs=("mpirun", "mpiexec", "mpiexec.hydra", "orterun"),
        recognise=_recognise_mpirun,
    ),
    "horovod": LayerRow(
        _apply_horovod,
        _HOROVOD,
        shaped(count=NUMBER, set_device=SWITCH),
        programs=("horovodrun",),
        recognise=_recognise_horovod,
    ),
    "torchx": LayerRow(
        _apply_torchx,
        _TORCHX,
        shaped(replicas=NUMBER, nproc=NUMBER, gpus=NUMBER, auto_set=SWITCH),
        programs=("torchx",),
        recognise=_recognise_torchx,
    ),
}
