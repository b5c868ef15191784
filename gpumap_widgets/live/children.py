"""Programs of ours as child processes: with the exact environment, a limit in time, and a certain end.

Each is in a process group of its own, which is killed as a whole. Where this process is killed outright, the system
ends the child (Linux), or the end of its input does (elsewhere).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ..mapping import Message, message
from .program import child_command, last_lines, leash_for

WINDOWS = sys.platform == "win32"
_PATIENCE = 5.0
"""Seconds that a killed process may take: longer only if the system cannot end it."""


class Child:
    """One program in a process of its own. The thread that starts it must wait for it: on Linux it dies with that."""

    def __init__(
        self, program: Path, report: str, env: Mapping[str, str], timeout: float, names: tuple[str, ...] = ()
    ) -> None:
        """``env``: the complete environment; ``names``: variables that it reads back beside those that matter."""
        self._command = child_command(program, report, leash_for(timeout), names)
        self._env = dict(env)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped: Message | None = None

    def facts(self, within: float | None = None) -> dict[str, Any] | Message:
        """Run it and wait for its answer; a message where there is none. Call it once.

        ``within``: seconds after which it is stopped; None where whoever waits sees to that.
        """
        if within is not None:
            said = message("live.child-timed-out", seconds=f"{within:g}")
            clock = threading.Timer(within, self.stop, (said,))
            clock.daemon = True
            clock.start()
            try:
                return self.facts()
            finally:
                clock.cancel()
        try:
            with self._lock:
                if self._stopped is not None:
                    return self._stopped
                self._process = process = start(self._command, self._env)
        except (OSError, ValueError) as exc:  # no such program, a variable that no process can have
            return message("live.child-not-launched", error=f"{type(exc).__name__}: {exc}")
        with process:
            errors: list[bytes] = []
            reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
            reader.start()
            assert process.stdout is not None
            output = process.stdout.read()
            end(process)
            reader.join(_PATIENCE)
        return self._stopped or _facts_in(output, process.returncode, b"".join(errors))

    def stop(self, why: Message) -> None:
        """Kill it, and let that be its answer. May be called from any thread, at any time."""
        with self._lock:
            self._stopped = self._stopped or why
            if self._process is not None and self._process.poll() is None:
                kill(self._process)


def start(
    command: list[str], env: Mapping[str, str], cwd: str | None = None, log: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, with a pipe for its input, and pipes for its two outputs or one log for both."""
    own: dict[str, Any] = {"creationflags": 0x200} if WINDOWS else {"start_new_session": True}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdin=pipe, stdout=log or pipe, stderr=log or pipe, cwd=cwd, **own)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group."""
    with contextlib.suppress(OSError):
        if WINDOWS:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """See that a process that has answered goes, and wait for it."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        kill(process)
        process.wait()


def _facts_in(output: bytes, status: int, errors: bytes) -> dict[str, Any] | Message:
    lines = output.splitlines()
    try:
        return dict(json.loads(lines[-1]))
    except (IndexError, TypeError, ValueError):
        how = next((known.name for known in signal.Signals if known == -status), str(status))
        return message("live.child-died", status=how, tail=last_lines(errors) or "-")
