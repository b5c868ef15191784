"""A kernel that waits: torch loaded, CUDA untouched. A run hands it the environment, and it answers in a moment.

It is used once, and only where nothing speaks against it: this process's own variables are those that it was started
with, torch is the one on disk, no CUDA was started in it, and C code there sees the variables that were handed over.
Its answer is checked against the driver's (`run.doubt_between`). Any doubt is said, and a fresh kernel is asked.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from ..frozen import FrozenDict
from ..mapping import Message
from .answer import NoAnswerError
from .environment import complete_environment, touches_numbering
from .folder import LOG, private_folder
from .kernel import POLL, Kernel, Look
from .program import FOREVER, leash_for, question

_WARMING = 120.0
"""Seconds within which a kernel must have torch loaded, or it is given up."""
_LENT = 0.1
"""Seconds to wait for a kernel that another run has just been told to give back."""
_DYING = 5.0
_FAILURES = 2
"""After so many that could not be made ready no other one is tried, until somebody new wants one."""


class Doubt(Exception):
    """No kernel that waits can be used; ``said`` tells why, None where none waits at all."""

    def __init__(self, said: Message | None = None) -> None:
        super().__init__(said)
        self.said = said


class Spare:
    """One kernel that waits, and the thread that holds it: the kernel dies with that (see `hardware.leash`)."""

    def __init__(self, after: Spare | None = None) -> None:
        """Starts at once; where there is one ``after`` which it comes, when that is gone."""
        self._after = after
        self.inherited = dict(os.environ)
        """The variables of this process when it was started."""
        self.warm: Future[dict[str, Any]] = Future()
        """What it states of itself once torch is loaded."""
        self._asked: Future[tuple[dict[str, str], int]] = Future()
        self._answer: Future[dict[str, Any]] = Future()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gpumap-live-spare", daemon=True)
        self._thread.start()

    @property
    def failed(self) -> bool:
        """Whether it could not be made ready."""
        return self.warm.done() and self.warm.exception() is not None

    @property
    def ready(self) -> bool:
        """Whether it waits for a question."""
        return self.warm.done() and not self.failed and self._thread.is_alive() and not self._closing.is_set()

    def answer(self, env: Mapping[str, str], timeout: float, look: Look) -> dict[str, Any]:
        """Its answer under these variables. Raises NoAnswerError when ``look`` does, or its kernel dies."""
        with suppress(InvalidStateError):  # it was closed just now
            self._asked.set_result((dict(env), leash_for(timeout)))
        try:
            return poll(self._answer, look)
        finally:
            self.close()

    def close(self) -> None:
        """Kill it; does not wait for that."""
        self._closing.set()
        with suppress(InvalidStateError):
            self._asked.set_exception(NoAnswerError("live.spare-closed"))

    def wait(self, timeout: float) -> bool:
        """Wait until it is gone; whether that is so."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- its own thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if self._after is not None:
            self._after.wait(_DYING)
            self._after = None
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._live())
        except NoAnswerError as reason:
            self._fail(reason)
        except Exception as exc:  # noqa: BLE001 - whoever waits for it must learn of it
            self._fail(NoAnswerError("live.failed", error=f"{type(exc).__name__}: {exc}"))

    def _fail(self, error: NoAnswerError) -> None:
        for future in (self.warm, self._answer):
            if not future.done():
                future.set_exception(error)

    async def _live(self) -> None:
        started = time.monotonic()

        def look(*, starting: bool) -> None:  # noqa: ARG001 - a Look
            if self._closing.is_set():
                raise NoAnswerError("live.spare-closed")
            if not self.warm.done() and time.monotonic() - started > _WARMING:
                raise NoAnswerError("live.timed-out", seconds=f"{_WARMING:g}")

        with private_folder() as folder, (folder / LOG).open("wb") as log:
            kernel = Kernel(folder)
            try:
                await kernel.start(None, complete_environment(self.inherited, {}), FOREVER, log)
                await kernel.connect(look)
                self.warm.set_result(await kernel.ask(question("warm", (), FOREVER), look))
                env, limit = await asyncio.wrap_future(self._asked)
                self._answer.set_result(await kernel.ask(question("answer_warm", (env,), limit, again=True), look))
            finally:
                await kernel.end()


class Spares:
    """Whoever wants a kernel to wait says so here; while anybody does, one waits, and never more than one."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._wanting: set[int] = set()
        self._waiting: Spare | None = None
        self._last: Spare | None = None
        self._lent = False
        self._failures = 0
        """How many could not be made ready, one after the other."""
        self.pid = os.getpid()

    def want(self, who: object) -> None:
        """Have one wait until `enough` is called."""
        with self._lock:
            if id(who) not in self._wanting:
                self._failures = 0
            self._wanting.add(id(who))
        self.renew()

    def enough(self, who: object) -> None:
        """No longer for this one; when nobody is left, it is gone within a moment."""
        with self._lock:
            self._wanting.discard(id(who))
            left = self._waiting if not self._wanting else None
            if left is not None:
                self._waiting = None
        if left is not None:
            left.close()
            left.wait(_DYING)

    def renew(self, *, worked: bool = True) -> None:
        """Start the next one, if it is wanted and none is there. After one that could not be made ready, not before a
        fresh kernel has ``worked``, and not after several of that kind.
        """
        with self._lock:
            if self._failures and (not worked or self._failures >= _FAILURES):
                return
            if self._wanting and self._waiting is None and not self._lent:
                self._waiting = self._last = Spare(after=self._last)
                self._lock.notify_all()

    @property
    def state(self) -> str:
        """``none``, ``warming``, ``ready`` or ``failed``."""
        waiting = self._waiting
        if waiting is None:
            return "none"
        return "failed" if waiting.failed else "ready" if waiting.ready else "warming"

    def ask(self, env: Mapping[str, str], inherited: Mapping[str, str], timeout: float, look: Look) -> dict[str, Any]:
        """The answer of the one that waits. Raises Doubt where it must not be used, NoAnswerError where it gave none.

        A run that is taken back before it has handed over the variables leaves the kernel as it was.
        """
        spare = self._take()
        try:
            _refuse_other(spare, inherited)
            _make_ready(spare, look)
        except Doubt as doubt:
            self._failures += spare.failed or doubt.said is None
            self._give_back(None)
            spare.close()
            raise
        except NoAnswerError:
            self._give_back(spare)
            raise
        self._give_back(None)
        try:
            answer = spare.answer(env, timeout, look)
        except NoAnswerError as reason:
            if reason.problem.key in ("live.cancelled", "live.timed-out"):
                raise
            raise Doubt(Message("live.spare-died", FrozenDict({"reason": reason.problem}))) from reason
        self._failures = 0
        if answer.get("doubt", ""):
            raise Doubt(Message("live.spare-spoilt", FrozenDict({"what": answer["doubt"]})))
        return answer

    def _take(self) -> Spare:
        end = time.monotonic() + _LENT
        with self._lock:
            while self._lent and time.monotonic() < end:
                self._lock.wait(_LENT)
            spare, self._waiting = self._waiting, None
            if spare is None:
                raise Doubt
            self._lent = True
            return spare

    def _give_back(self, spare: Spare | None) -> None:
        with self._lock:
            self._lent = False
            keep = spare is not None and bool(self._wanting)
            self._waiting = spare if keep else self._waiting
            self._lock.notify_all()
        if spare is not None and not keep:
            spare.close()

    def end(self) -> None:
        """Kill it for good."""
        with self._lock:
            self._wanting.clear()
            last, self._waiting = self._last, None
        if last is not None:
            last.close()
            last.wait(_DYING)


def _refuse_other(spare: Spare, inherited: Mapping[str, str]) -> None:
    """A kernel that was started with other variables might find other libraries: it is no witness for now."""
    now, then = ({k: v for k, v in env.items() if not touches_numbering(k)} for env in (inherited, spare.inherited))
    other = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
    if other:
        raise Doubt(Message("live.spare-outdated", FrozenDict({"names": ", ".join(other[:4])})))


def _make_ready(spare: Spare, look: Look) -> None:
    """Wait until torch is loaded. Raises Doubt where what it states of itself rules it out."""
    try:
        facts = poll(spare.warm, look)
    except NoAnswerError as reason:
        if spare.failed:
            raise Doubt(Message("live.spare-died", FrozenDict({"reason": reason.problem}))) from reason
        raise
    if "torch_error" in facts or not facts["torch"]["built"]:
        raise Doubt  # the fresh kernel says why
    foreign = [name for name in facts["env"] if touches_numbering(name)]
    if facts["untouched"] or foreign:
        what = facts["untouched"] or ", ".join(foreign)
        raise Doubt(Message("live.spare-spoilt", FrozenDict({"what": what})))
    path, changed = facts["origin"] or ("", 0)
    with suppress(OSError):
        if os.stat(path).st_mtime_ns == changed:  # noqa: PTH116
            return
    raise Doubt(Message("live.spare-old-torch"))


def poll(future: Future[dict[str, Any]], look: Look) -> dict[str, Any]:
    """The result of a future, looking at clock and Cancel button meanwhile."""
    while True:
        with suppress(TimeoutError):
            return future.result(POLL)
        look(starting=False)


SPARES = Spares()
"""Those of this process: several explorers share the one kernel."""


@atexit.register
def _end_spares() -> None:
    if SPARES.pid == os.getpid():
        SPARES.end()


def _forget() -> None:
    """In a forked process there are no threads and no kernel of ours."""
    SPARES.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
