"""Every rank's row to every rank, through a store, within a time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from .stores import Meeting

_GRACE_S = 5.0


class Gathered(NamedTuple):
    """What came together."""

    texts: tuple[str | None, ...]
    """By rank; None for one that never answered."""

    @property
    def silent(self) -> tuple[int, ...]:
        """The ranks that never answered."""
        return tuple(rank for rank, text in enumerate(self.texts) if text is None)


def exchange(meeting: Meeting, text: str, deadline: float) -> Gathered:
    """Leave a text, and wait for those of all ranks until ``deadline`` (`time.monotonic`).

    Rank 0 collects and leaves the whole for the others, so that a job of n ranks costs 3 n messages. Each call has keys
    of its own: ranks count their calls in the store.
    """
    store, rank, world = meeting.store, meeting.rank, meeting.world_size
    call = store.add(f"gpumap ranks calls {rank}", 1)
    key = _Keys(f"gpumap ranks {call}")
    store.set(key.of(rank), text)
    if rank == 0:
        gathered = _collect(store, key, world, deadline)
        store.set(key.all, json.dumps(gathered.texts))
        _tidy(store, _Keys(f"gpumap ranks {call - 1}"), world)
    else:
        gathered = _receive(store, key, world, deadline)
    if meeting.ours:
        _leave(meeting, key, gathered)
    return gathered


class _Keys(NamedTuple):
    head: str

    def of(self, rank: int) -> str:
        return f"{self.head} {rank}"

    @property
    def all(self) -> str:
        return f"{self.head} all"

    @property
    def left(self) -> str:
        return f"{self.head} left"


def _collect(store: Any, key: _Keys, world: int, deadline: float) -> Gathered:
    keys = [key.of(rank) for rank in range(world)]
    _wait(store, keys, deadline)
    return Gathered(tuple(_read(store, keys)))


def _receive(store: Any, key: _Keys, world: int, deadline: float) -> Gathered:
    if _wait(store, [key.all], deadline):
        return Gathered(tuple(json.loads(_text(store.get(key.all)))))
    return Gathered(tuple(_read(store, [key.of(rank) for rank in range(world)])))


def _wait(store: Any, keys: Sequence[str], deadline: float) -> bool:
    """Whether all keys are there by then."""
    left = max(0.001, deadline - time.monotonic())
    try:
        store.wait(list(keys), timedelta(seconds=left))
    except RuntimeError:  # torch.distributed.DistStoreError: the time is over, or the one who serves it is gone
        return False
    return True


def _read(store: Any, keys: Sequence[str]) -> list[str | None]:
    """The values that are there."""
    try:
        return [_text(store.get(key)) if store.check([key]) else None for key in keys]
    except RuntimeError:
        return [None] * len(keys)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _tidy(store: Any, old: _Keys, world: int) -> None:
    """Rows of the call before: every rank is past it, or it would not have answered this one."""
    with suppress(RuntimeError, NotImplementedError):
        for key in (old.all, *(old.of(rank) for rank in range(world))):
            store.delete_key(key)


def _leave(meeting: Meeting, key: _Keys, gathered: Gathered, clock: Callable[[], float] = time.monotonic) -> None:
    """Our own store ends with rank 0's hold on it, so rank 0 stays until those who answered have read."""
    store, there = meeting.store, meeting.world_size - len(gathered.silent)
    with suppress(RuntimeError):
        gone = store.add(key.left, 1)
        until = clock() + _GRACE_S
        while meeting.rank == 0 and gone < there and clock() < until:
            time.sleep(0.005)
            gone = store.add(key.left, 0)
