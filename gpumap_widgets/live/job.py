"""What every question to the hardware has in common: a thread of its own, a clock, a way to end it, a certain end."""

from __future__ import annotations

import atexit
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from ..frozen import FrozenDict
from ..mapping import Message, Observation
from .answer import NoAnswerError, observation_from

_DYING = 5.0
"""Seconds that jobs may take to end when the interpreter exits."""

_running: set[Job] = set()


class Job(ABC):
    """One question, in the background. Use it once; every method may be called from any thread."""

    thread_name = "gpumap-live"

    def __init__(self, env: Mapping[str, str], timeout: float, on_done: Callable[[Any], object] | None = None) -> None:
        """``env``: the GPU and rank variables of the process; any other such variable will be unset in it.

        ``timeout``: seconds for everything. ``on_done(job)`` is called once, on its own thread, when all is tidied up.
        """
        self.env, self.timeout = FrozenDict(env), timeout
        self.observation: Observation | None = None
        """The outcome; None until it is done."""
        self._on_done = on_done
        self._cancelled = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name=self.thread_name, daemon=True)
        self._inherited: dict[str, str] = {}
        self._began = ""
        self._started = self._ended = 0.0

    def start(self) -> Self:
        """Start and return at once. Raises RuntimeError when it was started before."""
        if self._started:
            raise RuntimeError("a run is used once")
        self._inherited = dict(os.environ)
        self._started = time.monotonic()
        _running.add(self)
        self._thread.start()
        return self

    def cancel(self) -> None:
        """End it: its processes are killed within a moment, and the observation says that it was cancelled."""
        self._cancelled.set()

    @property
    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._done.is_set()

    @property
    def elapsed(self) -> float:
        """Seconds since the start, until the end; 0 before the start."""
        return (self._ended or time.monotonic()) - self._started if self._started else 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended and its thread is gone; whether that is so. ``timeout`` in seconds."""
        if self._started and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return self.done

    def result(self) -> Observation:
        """Wait for the observation. An interrupt of the waiting (Ctrl-C) cancels the job."""
        try:
            self.wait()
        except BaseException:
            self.cancel()
            self.wait()
            raise
        assert self.observation is not None
        return self.observation

    # --- its own thread ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _answer(self) -> Observation:
        """The answer; a NoAnswerError says why there is none."""

    def _work(self) -> None:
        self._began = datetime.now().astimezone().isoformat(timespec="seconds")
        try:
            observation = self._answer()
        except NoAnswerError as reason:
            observation = self._observed(reason.problem)
        except Exception as exc:  # noqa: BLE001 - a full disk, a broken installation: the notebook must learn of it
            observation = self._observed(failure(exc))
        self._ended = time.monotonic()
        self.observation = observation
        _running.discard(self)
        self._done.set()
        if self._on_done is not None:
            self._on_done(self)

    def _observed(self, facts: Mapping[str, Any] | Message, **more: Any) -> Observation:
        return observation_from(facts, wanted=self.env, started=self._began, total=self.elapsed, **more)

    def _look_at_clock(self) -> None:
        """Raises NoAnswerError when it was cancelled or its time is over."""
        if self._cancelled.is_set():
            raise NoAnswerError("live.cancelled", seconds=f"{self.elapsed:.1f}")
        if self.elapsed > self.timeout:
            raise NoAnswerError("live.timed-out", seconds=f"{self.timeout:g}")


def failure(exc: Exception) -> Message:
    """An exception of this side as a reason."""
    return Message("live.failed", FrozenDict({"error": f"{type(exc).__name__}: {exc}"}))


def together(observations: Iterable[Observation]) -> Observation:
    """Several observations as one, the first with all others beside it."""
    each = [replace(one, others=()) for given in observations for one in given.each]
    return replace(each[0], others=tuple(each[1:]))


@atexit.register
def _end_all() -> None:
    """Kill what still runs when the interpreter exits; the threads are still there to tidy up."""
    for job in tuple(_running):
        job.cancel()
    for job in tuple(_running):
        job.wait(_DYING)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
