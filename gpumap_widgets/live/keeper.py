"""The program that keeps a launcher: whatever it starts, in whatever session, is gone when this process's input ends.

Standard library only, nothing of ours. It is the reaper of all that comes from the launcher (Linux), so nothing escapes.
``SECONDS COMMAND…``; it exits as the command did, with 124 after so many seconds, and with 125 when its input ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL, _PATIENCE = 0.02, 2.0
TIMED_OUT, INPUT_ENDED = 124, 125
_LINUX = sys.platform.startswith("linux")


def main() -> int:
    """Run the command, wait, and clear up behind it."""
    seconds, *command = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_me)  # noqa: PLW1509
    try:
        while child.poll() is None:
            if select.select([0], [], [], _POLL)[0] and not os.read(0, 1024):
                return INPUT_ENDED
            if time.monotonic() > end:
                return TIMED_OUT
        return child.returncode
    finally:
        _clear(child)


def _die_with_me() -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _clear(child: subprocess.Popen[bytes]) -> None:
    """Kill the command's group and every process that has become this one's child, until none is left."""
    end = time.monotonic() + _PATIENCE
    _kill(child.pid, group=True)
    child.poll()
    while _LINUX and time.monotonic() < end:
        left = _children()
        if not left:
            return
        for pid in left:
            _kill(pid, group=False)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_POLL / 4)


def _kill(pid: int, *, group: bool) -> None:
    with contextlib.suppress(OSError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)


def _children() -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(status.parent.name))
    return found


if __name__ == "__main__":
    status = main()
    sys.exit(status if status >= 0 else 128 - status)
