"""A Jupyter kernel started for one purpose, and ended whatever the outcome.

Only the shell channel is used: no heartbeat, no output, and no wait for either. Nothing of this touches the caller's
event loop or its kernel.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from .answer import NoAnswerError
from .folder import LOG, SOCKET, holds_sockets
from .program import EXPRESSION, OWN, facts_in, last_words, write_own_spec

POLL = 0.02
"""Seconds between two looks at the kernel, the clock and the Cancel button."""
_DYING = 5.0
"""Seconds that a killed process may take: longer only if the system cannot end it."""


class Look(Protocol):
    """Looks at the clock and the Cancel button; raises NoAnswerError to give up."""

    def __call__(self, *, starting: bool) -> None:
        """``starting``: whether the kernel has not answered yet."""


def kernel_names() -> tuple[str, ...]:
    """Names of the installed Python kernels, for a choice; none where jupyter_client is missing."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager  # noqa: TID251
    except ImportError:
        return ()
    specs = KernelSpecManager().get_all_specs()
    return tuple(sorted(name for name, found in specs.items() if found["spec"].get("language", "").lower() == "python"))


class Kernel:
    """A kernel process and the one channel to it, from start to end. The thread that starts it must outlive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.up = 0.0
        """When it first answered, on the monotonic clock; 0 until then."""
        self.context: Any = None
        self.manager: Any = None
        self._client: Any = None

    async def start(self, name: str | None, env: dict[str, str], limit: int, log: Any) -> None:
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

    async def connect(self, look: Look) -> None:
        """Wait until it answers at all. ``look`` is called all the while, and raises NoAnswerError to give up."""
        socket = f"{self.manager.ip}-{self.manager.shell_port}"
        while self.manager.transport == "ipc" and not os.path.exists(socket):  # noqa: ASYNC240, PTH110
            look(starting=True)
            await self._look_at_process()
            await asyncio.sleep(POLL / 4)  # connecting to a socket that is not there yet costs zmq 0.1 s
        self._client = self.manager.client(context=self.context)
        await self._reply_to(self._client.kernel_info(), look)
        self.up = time.monotonic()

    async def ask(self, code: str, look: Look) -> dict[str, Any]:
        """What the probe states in answer to a question."""
        request = self._client.execute(code, silent=True, allow_stdin=False, user_expressions={"answer": EXPRESSION})
        return facts_in(await self._reply_to(request, look))

    async def _reply_to(self, request: str, look: Look) -> Any:
        shell = self._client.shell_channel
        while True:
            if await shell.socket.poll(POLL * 1000):
                message = await shell.get_msg()
                if message["parent_header"].get("msg_id") == request:
                    return message["content"]
            look(starting=not self.up)
            await self._look_at_process()

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
        if self._client is not None:
            self._client.shell_channel.stop()
        provisioner = self.manager.provisioner
        if provisioner is not None and provisioner.has_process:
            if await provisioner.poll() is None:
                await provisioner.kill()
            deadline = time.monotonic() + _DYING
            while (status := await provisioner.poll()) is None and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(POLL / 4)
            if status is not None:
                await provisioner.wait()
        await self.manager.cleanup_resources()
        self.context.destroy(linger=0)
