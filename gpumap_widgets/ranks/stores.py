"""Where the ranks of a torch.distributed job leave their rows: the store that the job has, or one of our own before that.

torch is only looked at where it is loaded already. No collective is used, so that neither gloo nor NCCL is needed, and
no rank waits for another longer than it was told to.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from ..errors import GpumapError
from ..inspection.process import rank_of
from ..texts import say

FIRST_PORT, PORTS, TRIES = 15000, 14000, 8
"""Ports of our own store: below those that Linux hands out (32768) and below torch's own default (29500)."""
_STEP = 1009
_PROBE_S, _PAUSE_S = 2.0, 0.1
_CALLS = itertools.count(1)
"""Of this process, with a store of our own: a rank that is in its second call must not join the store of the first."""


class NoJob(GpumapError):
    """This process cannot find the others of its job; the message says which variable is missing or odd."""


class Meeting(NamedTuple):
    """A store that every rank of the job reaches."""

    store: Any
    rank: int
    world_size: int
    ours: bool = False
    """Whether rank 0 of this job serves it, for this one purpose."""


def meet(deadline: float, env: Mapping[str, str] | None = None, *, port: int | None = None) -> Meeting | None:
    """The store of this job; None for a process that is alone.

    With a process group, the group's own. Before that the launcher's variables count: RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT. Under torchrun its agent serves a store there already; elsewhere rank 0 serves one on ``port``, by
    default on one that all ranks derive from these variables and that is not MASTER_PORT. Raises NoJob.
    """
    env = os.environ if env is None else env
    dist = _distributed()
    if dist is not None and dist.is_initialized():
        store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - the store has no public name
        if store is None:
            raise NoJob(say("ranks.no-store"), remedy=say("ranks.no-store-remedy"))
        return Meeting(store, int(dist.get_rank()), int(dist.get_world_size()))
    rank, world = _place(env)
    if world == 1:
        return None
    if dist is None:
        raise NoJob(say("ranks.torch-first", world=world), remedy=say("ranks.torch-first-remedy"))
    address, master = env.get("MASTER_ADDR"), rank_of(env, ("MASTER_PORT",))
    if not address or master is None or master > 65535:
        name = "MASTER_PORT" if address else "MASTER_ADDR"
        raise NoJob(say("ranks.no-master", world=world, name=name), remedy=say("ranks.no-master-remedy"))
    if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and port is None:
        left = max(1.0, deadline - time.monotonic())
        try:
            store = dist.TCPStore(address, master, None, False, timedelta(seconds=left))
        except (RuntimeError, ValueError) as exc:
            raise _unreached(address, master, exc) from exc
        return Meeting(_attempt(dist, store, env), rank, world)
    token = f"{_token(env, address, master, world)} {next(_CALLS)}"
    places = [port] if port is not None else ports(token)
    if rank == 0:
        return Meeting(_serve(dist, address, places, token), 0, world, ours=True)
    return Meeting(_join(dist, address, places, token, deadline), rank, world, ours=True)


def _distributed() -> Any:
    """torch.distributed, where torch is loaded here and has it."""
    if "torch" not in sys.modules:
        return None
    import torch.distributed as dist  # noqa: TID251 - loaded already; the place for it outside the probe

    return dist if dist.is_available() else None


def _place(env: Mapping[str, str]) -> tuple[int, int]:
    """Rank and world size by the launcher's variables; (0, 1) where it set none."""
    if "WORLD_SIZE" not in env:
        return 0, 1
    rank, world = rank_of(env, ("RANK",)), rank_of(env, ("WORLD_SIZE",))
    if not world or (rank is None and world > 1) or (rank or 0) >= world:
        told = {"rank": env.get("RANK", ""), "world": env["WORLD_SIZE"]}
        raise NoJob(say("ranks.odd-rank", **told), remedy=say("ranks.odd-rank-remedy"))
    return rank or 0, world


def _attempt(dist: Any, store: Any, env: Mapping[str, str]) -> Any:
    """The agent's store lives through restarts: each attempt has keys of its own."""
    return dist.PrefixStore(f"attempt {env.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


# --- a store of our own ----------------------------------------------------------------------------------------------


def _token(env: Mapping[str, str], address: str, master: int, world: int) -> str:
    """What tells this job from others."""
    names = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "LSB_JOBID")
    return " ".join([address, str(master), str(world), *(env.get(name, "") for name in names)])


def ports(token: str) -> list[int]:
    """The ports that all ranks try, in this order; the same for the same job."""
    first = zlib.crc32(token.encode("utf-8", "surrogatepass"))
    return [FIRST_PORT + (first + k * _STEP) % PORTS for k in range(TRIES)]


def _serve(dist: Any, address: str, places: list[int], token: str) -> Any:
    """Rank 0: the first of the ports that is free."""
    error: Exception | None = None
    for port in places:
        try:
            store = dist.TCPStore(address, port, None, True, timedelta(seconds=30), wait_for_workers=False)
        except (RuntimeError, ValueError) as exc:  # in use, or not allowed
            error = exc
            continue
        store.set("gpumap job", token)
        return store
    raise _unreached(address, places[0], error) from error


def _join(dist: Any, address: str, places: list[int], token: str, deadline: float) -> Any:
    """Another rank: whichever of the ports serves this job, as soon as it does."""
    while True:
        for port in places:
            store = _try(dist, address, port, token)
            if store is not None:
                return store
        if time.monotonic() > deadline:
            raise _unreached(address, places[0], None)
        time.sleep(_PAUSE_S)


def _try(dist: Any, address: str, port: int, token: str) -> Any:
    try:
        with socket.create_connection((address, port), timeout=_PROBE_S):
            pass
    except OSError:  # nobody there, or not yet
        return None
    with suppress(RuntimeError, ValueError):
        short = timedelta(seconds=_PROBE_S)
        store = dist.TCPStore(address, port, None, False, short, wait_for_workers=False)
        store.wait(["gpumap job"], short)
        if store.get("gpumap job").decode(errors="replace") == token:
            return store
    return None


def _unreached(address: str, port: int, error: object) -> NoJob:
    why = str(error).split("\n", 1)[0][:200] if error else say("ranks.rank-0-absent")
    return NoJob(say("ranks.unreached", address=address, port=port, why=why), remedy=say("ranks.unreached-remedy"))
