"""One live run: a Jupyter kernel started for one question, on a thread of its own, and ended whatever the outcome.

Only the shell channel is used: no heartbeat, no output. The question is sent as soon as the kernel has bound its
socket, and waits there until the kernel is up. Nothing of this touches the caller's event loop or its kernel.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import json
import os
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
from .answer import observation_from
from .environment import complete_environment
from .folder import SOCKET, holds_sockets, private_folder

_PROBE = Path(__file__).with_name("probe.py")
_MIME = "application/x-gpumap"
"""The answer travels as a type of its own: start-up files may print, and may replace the formatter for text."""
_QUESTION = """
_gpumap = {{"__name__": "gpumap_probe"}}
exec(compile({source!r}, "gpumap_probe", "exec"), _gpumap)
_gpumap["leash"]({limit})
_gpumap["answer"] = _gpumap["json"].dumps(_gpumap["report"]({names!r}))
class _GpumapAnswer:
    def _repr_mimebundle_(self, **_):
        return {{{mime!r}: _gpumap["answer"]}}
"""
_BOOT = """import sys
if sys.path[:1] == [""]: del sys.path[0]
import runpy
runpy.run_path({probe!r}, run_name="gpumap_probe")["leash"]({limit}, direct=True)
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""What ``-m ipykernel_launcher`` does, on a leash from the first moment."""
_POLL = 0.02
"""Seconds between two looks at the kernel, the clock and the Cancel button."""
_SLOW_START = 30.0
"""Seconds within which a kernel starts, at least; half of the time-out where that is more."""
_DYING = 5.0
"""Seconds that a killed process may take: longer only if the system cannot end it."""

_running: set[Run] = set()


class _NoAnswer(Exception):
    """The run ends here; the message says why."""

    def __init__(self, key: str, **fields: Any) -> None:
        super().__init__(key)
        self.problem = Message(key, FrozenDict(fields))


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
        self._started = self._ended = 0.0

    def start(self) -> Run:
        """Start and return at once. Raises RuntimeError when it was started before."""
        if self._started:
            raise RuntimeError("a run is used once")
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
        if threading.current_thread() is not self._thread:
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
        except _NoAnswer as reason:
            facts = reason.problem
        except Exception as exc:  # a full disk, a broken installation: the notebook must learn of it
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
        with private_folder() as folder, open(folder / "log", "wb") as log:
            kernel = _Kernel(folder, self.kernel_name, self.timeout)
            try:
                await kernel.start(complete_environment(os.environ, self.env), log)
                facts = await kernel.answer(_question(self.env, self.timeout), self._look_at_clock)
                return {**facts, "kernel_seconds": kernel.up - self._started}
            finally:
                await kernel.end()

    def _look_at_clock(self, starting: bool) -> None:
        if self._cancelled.is_set():
            raise _NoAnswer("live.cancelled", seconds=f"{self.elapsed:.1f}")
        if self.elapsed > self.timeout:
            raise _NoAnswer("live.timed-out", seconds=f"{self.timeout:g}")
        if starting and self.elapsed > max(_SLOW_START, self.timeout / 2):
            raise _NoAnswer("live.slow-start", seconds=f"{self.elapsed:.0f}")


class _Kernel:
    """A kernel process and the one channel to it, from start to end."""

    def __init__(self, folder: Path, name: str | None, timeout: float) -> None:
        try:
            import zmq
            import zmq.asyncio
            from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
            from jupyter_client.manager import AsyncKernelManager
        except ImportError as exc:
            raise _NoAnswer("live.no-jupyter-client", error=str(exc), executable=sys.executable) from exc
        self.log = folder / "log"
        self.up = 0.0
        """When it first answered, on the monotonic clock; 0 until then."""
        specs = KernelSpecManager() if name is not None else _own_spec(KernelSpecManager, folder, timeout)
        sockets = zmq.has("ipc") and holds_sockets(folder) and sys.platform != "win32"
        self.context = zmq.asyncio.Context()
        self.manager = AsyncKernelManager(
            kernel_spec_manager=specs,
            kernel_name=name if name is not None else "gpumap",
            connection_file=str(folder / "kernel.json"),
            context=self.context,
            **({"transport": "ipc", "ip": str(folder / SOCKET)} if sockets else {}),
        )
        try:
            self.spec = self.manager.kernel_spec
        except NoSuchKernel as exc:
            self.context.destroy(linger=0)
            known = ", ".join(sorted(specs.find_kernel_specs())) or "-"
            raise _NoAnswer("live.no-kernelspec", name=name, known=known) from exc

    async def start(self, env: dict[str, str], log: Any) -> None:
        """Start the process. A kernelspec's own variables override ``env``; that is why it is read back."""
        language = self.spec.language
        if language and language.lower() != "python":
            raise _NoAnswer("live.not-python", name=self.manager.kernel_name, language=language)
        quiet = ["--HistoryManager.enabled=False"] if any("ipykernel" in arg for arg in self.spec.argv) else []
        try:
            await self.manager.start_kernel(
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, extra_arguments=quiet
            )
        except (OSError, ValueError) as exc:  # no such program; a variable that no process can have
            raise _NoAnswer("live.no-start", tail=f"{type(exc).__name__}: {exc}") from exc

    async def answer(self, code: str, look_at_clock: Callable[[bool], None]) -> dict[str, Any]:
        """What the probe reports."""
        while self.manager.transport == "ipc" and not Path(f"{self.manager.ip}-{self.manager.shell_port}").exists():
            look_at_clock(True)
            await self._look_at_process()
            await asyncio.sleep(_POLL / 4)  # connecting to a socket that is not there yet costs zmq 0.1 s
        client = self.manager.client(context=self.context)
        shell = client.shell_channel
        try:
            client.kernel_info()
            request = client.execute(
                code, silent=True, allow_stdin=False, user_expressions={"answer": "_GpumapAnswer()"}
            )
            while True:
                if await shell.socket.poll(_POLL * 1000):
                    message = await shell.get_msg()
                    self.up = self.up or time.monotonic()
                    if message["parent_header"].get("msg_id") == request:
                        return _facts(message["content"])
                look_at_clock(not self.up)
                await self._look_at_process()
        finally:
            shell.stop()

    async def _look_at_process(self) -> None:
        status = await self.manager.provisioner.poll()
        if status is None:
            return
        tail = _tail(self.log)
        if "No module named ipykernel" in tail or "No module named 'ipykernel" in tail:
            raise _NoAnswer("live.no-ipykernel", executable=self.spec.argv[0])
        if not self.up:
            raise _NoAnswer("live.no-start", tail=tail or f"exit status {status}")
        raise _NoAnswer("live.died", status=str(status), tail=tail or "-")

    async def end(self) -> None:
        """Kill the process and its group, wait for it, close everything."""
        provisioner = self.manager.provisioner
        if provisioner is not None and provisioner.has_process:
            if await provisioner.poll() is None:
                await provisioner.kill()
            deadline = time.monotonic() + _DYING
            while (status := await provisioner.poll()) is None and time.monotonic() < deadline:
                await asyncio.sleep(_POLL / 4)
            if status is not None:
                await provisioner.wait()
        await self.manager.cleanup_resources()
        self.context.destroy(linger=0)


def _own_spec(manager: Any, folder: Path, timeout: float) -> Any:
    """A kernelspec for this interpreter, which need not have one installed; without the user's start-up files.

    Those, and modules that lie in the working directory, belong to notebooks: they say nothing about the scenario.
    """
    if importlib.util.find_spec("ipykernel") is None:
        raise _NoAnswer("live.no-ipykernel", executable=sys.executable)
    boot = _BOOT.format(probe=str(_PROBE), limit=_limit(timeout))
    settings = [
        f"--ipython-dir={folder / 'ipython'}",
        "--InteractiveShellApp.exec_PYTHONSTARTUP=False",
        "--InteractiveShellApp.ignore_cwd=True",
        "--IPKernelApp.capture_fd_output=False",  # the last words of a crash belong into the log
        "--HistoryManager.enabled=False",
    ]
    argv = [sys.executable, "-X", "faulthandler", "-c", boot, "-f", "{connection_file}", *settings]
    place = folder / "kernels" / "gpumap"
    place.mkdir(parents=True)
    spec = {"argv": argv, "display_name": "gpumap", "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec))
    return manager(kernel_dirs=[str(place.parent)], ensure_native_kernel=False)


def _question(env: Mapping[str, str], timeout: float) -> str:
    source = _PROBE.read_text(encoding="utf-8")
    return _QUESTION.format(source=source, limit=_limit(timeout), names=tuple(env), mime=_MIME)


def _limit(timeout: float) -> int:
    """Whole seconds after which a kernel ends itself: only ever needed when nobody is left to end it."""
    return int(min(timeout, 1e6)) + 10


def _facts(reply: Mapping[str, Any]) -> dict[str, Any]:
    try:
        facts = json.loads(reply["user_expressions"]["answer"]["data"][_MIME])
    except (KeyError, TypeError, ValueError) as exc:
        error = f"{reply['ename']}: {reply['evalue']}" if reply.get("status") == "error" else repr(exc)
        raise _NoAnswer("live.unreadable", error=error) from exc
    return dict(facts)


def _tail(log: Path) -> str:
    """The last words of a kernel: the last lines of its standard error."""
    lines = log.read_bytes()[-4000:].decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if line.strip())[-800:]


@atexit.register
def _end_all() -> None:
    """Kill what still runs when the interpreter exits; the threads are still there to tidy up."""
    for run in tuple(_running):
        run.cancel()
    for run in tuple(_running):
        run.wait(_DYING)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
