"""A private folder for one run: connection file, sockets, last words. Gone afterwards, whatever happens.

A process that is killed outright cannot tidy up, so each folder holds a locked file: the system drops the lock with
its owner, and the next run removes every folder whose lock is free.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "gpumap-live-"
_LOCK = "lock"
LOG = "log"
"""Name of the file that takes what the kernel process writes."""
_UNLOCKED_FOR = 60.0
"""Seconds after which a folder that has no lock file yet counts as left over."""
SOCKET = "s"
"""First part of the names of the sockets; the kernel appends ``-1`` to ``-5``."""
_LONGEST_SOCKET_PATH = 100
"""Bytes; the address of a Unix socket holds 107 on Linux, 103 elsewhere."""


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder that only this user can read (mode 700); left-overs of killed processes are removed on the way."""
    base = _base()
    _sweep(base)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        with (path / "unlocked").open("w") as lock:
            _try_lock(lock.fileno())
            (path / "unlocked").rename(path / _LOCK)  # so that nobody ever finds it there and free
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def holds_sockets(folder: Path) -> bool:
    """Whether the path is short enough for Unix sockets in it."""
    return len(os.fsencode(folder / f"{SOCKET}-5")) <= _LONGEST_SOCKET_PATH


def _base() -> str:
    """Where temporary files go; ``/tmp`` where that is too long a path for sockets."""
    usual = tempfile.gettempdir()
    fits = holds_sockets(Path(usual, _PREFIX + "12345678"))
    return usual if fits or not os.access("/tmp", os.W_OK | os.X_OK) else "/tmp"  # noqa: S108


def _try_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False  # no sweeping there: Windows leaves at most a connection file behind
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(base: str) -> None:
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_left_over(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left_over(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
        if not entry.is_dir(follow_symlinks=False) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
            return False
        with Path(entry.path, _LOCK).open() as lock:
            return _try_lock(lock.fileno())
    except FileNotFoundError:
        return time.time() - status.st_mtime > _UNLOCKED_FOR
    except OSError:
        return False
