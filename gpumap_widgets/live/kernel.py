"""One live run: a Jupyter kernel started for one question, on a thread of its own, and ended whatever the outcome.

Only the shell channel is used: no heartbeat, no output, and no wait for either. Nothing of this touches the caller's
event loop or its kernel.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..frozen import FrozenDict
from ..mapping import Message, Observation
from .answer import NoAnswerError, observation_from
from .environment import complete_environment
from .folder import LOG, SOCKET, holds_sockets, private_folder
from .program import EXPRESSION, OWN, facts_in, last_words, question, write_own_spec

_POLL = 0.02
"""Seconds between two looks at the kernel, the clock and the Cancel button."""
_SLOW_START = 30.0
"""Seconds within which a kernel starts, at least; half of the time-out where that is more."""
_DYING = 5.0
"""Seconds that a killed process may take: longer only if the system cannot end it."""

_running: set[Run] = set()


def kernel_names() -> tuple[str, ...]:
    """Names of the installed Python kernels, for a choice; none where jupyter_client is missing."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager  # noqa: TID251
    except ImportError:
        return ()
    specs = KernelSpecManager().get_all_specs()
    return tuple(sorted(name for name, found in specs.items() if found["spec"].get("language", "").lower() == "python"))


class Run:
    """One question to real torch, in the background. Use it once; every method may be called from any thread."""

    def __init__(
        self,
        env: Mapping[str, str],
        kernel_name: str | None = None,
        timeout: float = 60.0,
        on_done: Callable[[Run], object] | None = None,
    ) -> None:
        """``env``: the GPU and rank variables of the process; any other such variable will be unset in it.

        ``kernel_name``: a kernelspec; None for this interpreter, without the user's start-up files. ``timeout``:
        seconds for everything. ``on_done(run)`` is called once, on the run's own thread, when all is tidied up.
        """
        self.env = FrozenDict(env)
        self.kernel_name = kernel_name
        self.timeout = timeout
        self.observation: Observation | None = None
        """The outcome; None until the run is done."""
        self._on_done = on_done
        self._cancelled = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gpumap-live", daemon=True)
        self._inherited: dict[str, str] = {}
        self._started = self._ended = 0.0

    def start(self) -> Run:
        """Start and return at once. Raises RuntimeError when it was started before."""
        if self._started:
            raise RuntimeError("a run is used once")
        self._inherited = dict(os.environ)
        self._started = time.monotonic()
        _running.add(self)
        self._thread.start()
        return self

    def cancel(self) -> None:
        """End it: the kernel is killed within a moment, and the observation says that it was cancelled."""
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
        """Wait for the observation. An interrupt of the waiting (Ctrl-C) cancels the run."""
        try:
            self.wait()
        except BaseException:
            self.cancel()
            self.wait()
            raise
        assert self.observation is not None
        return self.observation

    def _work(self) -> None:
        began = datetime.now().astimezone().isoformat(timespec="seconds")
        facts: Mapping[str, Any] | Message
        try:
            # a loop of a known kind: the policy of the notebook may be another, and zmq needs a selector
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                facts = runner.run(self._ask())
        except NoAnswerError as reason:
            facts = reason.problem
        except Exception as exc:  # noqa: BLE001 - a full disk, a broken installation: the notebook must learn of it
            facts = Message("live.failed", FrozenDict({"error": f"{type(exc).__name__}: {exc}"}))
        self._ended = time.monotonic()
        self.observation = observation_from(
            facts, wanted=self.env, started=began, kernel_name=self.kernel_name or "", total=self.elapsed
        )
        _running.discard(self)
        self._done.set()
        if self._on_done is not None:
            self._on_done(self)

    async def _ask(self) -> Mapping[str, Any]:
        self._look_at_clock(starting=True)
        with private_folder() as folder, (folder / LOG).open("wb") as log:
            kernel, env = _Kernel(folder), complete_environment(self._inherited, self.env)
            try:
                await kernel.start(self.kernel_name, env, self.timeout, log)
                facts = await kernel.answer(question(self.env, self.timeout), self._look_at_clock)
                return {**facts, "kernel_seconds": kernel.up - self._started}
            finally:
                await kernel.end()

    def _look_at_clock(self, *, starting: bool) -> None:
        if self._cancelled.is_set():
            raise NoAnswerError("live.cancelled", seconds=f"{self.elapsed:.1f}")
        if self.elapsed > self.timeout:
            raise NoAnswerError("live.timed-out", seconds=f"{self.timeout:g}")
        if starting and self.elapsed > max(_SLOW_START, self.timeout / 2):
            raise NoAnswerError("live.slow-start", seconds=f"{self.elapsed:.0f}")


class _Kernel:
    """A kernel process and the one channel to it, from start to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.up = 0.0
        """When it first answered, on the monotonic clock; 0 until then."""
        self.context: Any = None
        self.manager: Any = None

    async def start(self, name: str | None, env: dict[str, str], limit: float, log: Any) -> None:
        """Start the process. A kernelspec's own variables override ``env``; that is why it is read back."""
        try:
            import zmq.asyncio
            from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # noqa: TID251
            from jupyter_client.manager import AsyncKernelManager  # noqa: TID251
        except ImportError as exc:
            raise NoAnswerError("live.no-jupyter-client", error=str(exc), executable=sys.executable) from exc
        if name is None:
            name, places = OWN, [str(write_own_spec(self.folder, limit))]
            specs = KernelSpecManager(kernel_dirs=places, ensure_native_kernel=False)
        else:
            specs = KernelSpecManager()
        sockets = zmq.has("ipc") and holds_sockets(self.folder) and sys.platform != "win32"
        self.context = zmq.asyncio.Context()
        self.manager = AsyncKernelManager(
            kernel_spec_manager=specs,
            kernel_name=name,
            connection_file=str(self.folder / "kernel.json"),
            context=self.context,
            **({"transport": "ipc", "ip": str(self.folder / SOCKET)} if sockets else {}),
        )
        try:
            spec = self.manager.kernel_spec
        except NoSuchKernel as exc:
            known = ", ".join(sorted(specs.find_kernel_specs())) or "-"
            raise NoAnswerError("live.no-kernelspec", name=name, known=known) from exc
        if spec.language and spec.language.lower() != "python":
            raise NoAnswerError("live.not-python", name=name, language=spec.language)
        line = " ".join(spec.argv)
        quiet = ["--HistoryManager.enabled=False"] if "ipykernel" in line and "HistoryManager" not in line else []
        process = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        try:
            await self.manager.start_kernel(env=env, extra_arguments=quiet, **process)
        except (OSError, ValueError) as exc:  # no such program; a variable that no process can have
            raise NoAnswerError("live.not-launched", error=f"{type(exc).__name__}: {exc}") from exc

    async def answer(self, code: str, look_at_clock: Callable[..., None]) -> dict[str, Any]:
        """What the probe reports."""
        socket = f"{self.manager.ip}-{self.manager.shell_port}"
        while self.manager.transport == "ipc" and not os.path.exists(socket):  # noqa: ASYNC240, PTH110
            look_at_clock(starting=True)
            await self._look_at_process()
            await asyncio.sleep(_POLL / 4)  # connecting to a socket that is not there yet costs zmq 0.1 s
        client = self.manager.client(context=self.context)
        shell = client.shell_channel
        try:
            request = client.kernel_info()
            while True:
                if await shell.socket.poll(_POLL * 1000):
                    message = await shell.get_msg()
                    if message["parent_header"].get("msg_id") != request:
                        continue
                    if self.up:
                        return facts_in(message["content"])
                    self.up = time.monotonic()
                    request = client.execute(
                        code, silent=True, allow_stdin=False, user_expressions={"answer": EXPRESSION}
                    )
                look_at_clock(starting=not self.up)
                await self._look_at_process()
        finally:
            shell.stop()

    async def _look_at_process(self) -> None:
        status = await self.manager.provisioner.poll()
        if status is None:
            return
        tail = last_words(self.folder / LOG)
        if "No module named ipykernel" in tail or "No module named 'ipykernel" in tail:
            raise NoAnswerError("live.no-ipykernel", executable=self.manager.kernel_spec.argv[0])
        how = next((known.name for known in signal.Signals if known == -status), str(status))
        raise NoAnswerError("live.died" if self.up else "live.no-start", status=how, tail=tail or "-")

    async def end(self) -> None:
        """Kill the process and its group, wait for it, close everything."""
        if self.manager is None:
            return
        provisioner = self.manager.provisioner
        if provisioner is not None and provisioner.has_process:
            if await provisioner.poll() is None:
                await provisioner.kill()
            deadline = time.monotonic() + _DYING
            while (status := await provisioner.poll()) is None and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(_POLL / 4)
            if status is not None:
                await provisioner.wait()
        await self.manager.cleanup_resources()
        self.context.destroy(linger=0)


@atexit.register
def _end_all() -> None:
    """Kill what still runs when the interpreter exits; the threads are still there to tidy up."""
    for run in tuple(_running):
        run.cancel()
    for run in tuple(_running):
        run.wait(_DYING)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
