"""Lines are appended whole or not at all, by any number of writers at once."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import GpumapError
from ..inspection.system import ROOT
from ..mapping import Comparison
from ..texts import say
from .line import Line, process_line, run_line
from .schema import MARK, SCHEMA

EVIDENCE = "GPUMAP_EVIDENCE"
"""The variable that names the file where none is given."""
_PATIENCE = 10.0
"""Seconds to wait for another writer; a line takes less than a millisecond."""
_POLL = 0.005


def append_evidence(path: str | os.PathLike[str], line: Line) -> None:
    """Append one line to a file, which is made if it is not there.

    Safe against other writers of the same file: one write under an advisory lock (flock(2); on Windows without one).
    Raises GpumapError when it cannot be written; then no part of it is left in the file.
    """
    text = json.dumps(line, allow_nan=False)  # ASCII, one line
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            with _locked(descriptor) as alone:
                _append(descriptor, text.encode("ascii"), alone=alone)
        finally:
            os.close(descriptor)  # a network file system may say only here that it is full
    except (OSError, ValueError) as exc:
        said = say("evidence.not-written", file=os.fspath(path), error=getattr(exc, "strerror", None) or exc)
        raise GpumapError(said, remedy=say("evidence.not-written-remedy")) from exc


def log_run(path: str | os.PathLike[str], comparison: Comparison) -> Line:
    """Append a live run, with its verdict, and return the line. Raises GpumapError when it cannot be written."""
    line = run_line(comparison)
    append_evidence(path, line)
    return line


def log_evidence(
    path: str | os.PathLike[str] | None = None,
    *,
    start_cuda: bool = False,
    strict: bool = False,
    job: str | None = None,
    rank: int | None = None,
    root: Path = ROOT,
) -> Line:
    """Write down which GPUs this process has, and return the line. For the top of a training script, in every rank.

    ``path``: the file to append to; None for the one that GPUMAP_EVIDENCE names, else standard error, so that the line
    stands in the job's log (`read_evidence` finds it there). ``start_cuda``: start CUDA, so that the driver's own answer
    is logged and not a prediction; without it nothing of CUDA is started or loaded. ``job``, ``rank``: where no variable
    tells them. Never raises, unless ``strict``: what went wrong is a line on standard error and stands in ``problems``.
    """
    line: Line = {MARK: SCHEMA, "problems": []}
    try:
        line = process_line(start_cuda=start_cuda, root=root)
        line |= {name: value for name, value in (("job", job), ("rank", rank)) if value is not None}
        target = path if path is not None else os.environ.get(EVIDENCE) or None
        if target is None:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        else:
            append_evidence(target, line)
    except Exception as exc:
        if strict:
            raise
        line["problems"] = [*line["problems"], f"{type(exc).__name__}: {exc}"]
        with suppress(Exception):
            sys.stderr.write(say("evidence.failed", error=exc) + "\n")
    return line


@contextmanager
def _locked(descriptor: int) -> Iterator[bool]:
    """Whether nobody else appends meanwhile. A file system without locks goes without: a write with O_APPEND is one there too."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    end, alone = time.monotonic() + _PATIENCE, True
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as exc:
            if time.monotonic() > end:
                raise TimeoutError(0, say("evidence.locked", seconds=f"{_PATIENCE:g}")) from exc
            time.sleep(_POLL)
        except OSError:  # ENOLCK, ENOTSUP
            alone = False
            break
    try:
        yield alone
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _append(descriptor: int, text: bytes, *, alone: bool) -> None:
    size = os.fstat(descriptor).st_size
    broken = size > 0 and _last_byte(descriptor, size) not in (b"\n", b"")
    data = (b"\n" if broken else b"") + text + b"\n"  # somebody's half line stays a line of its own
    try:
        written = os.write(descriptor, data)
        if written < len(data):
            written += os.write(descriptor, data[written:])  # says why it was cut
        if written < len(data):
            raise OSError(0, say("evidence.cut"))
    except OSError:
        if alone:  # what stands behind `size` is ours
            with suppress(OSError):
                os.ftruncate(descriptor, size)
        raise


def _last_byte(descriptor: int, size: int) -> bytes:
    pread: Any = getattr(os, "pread", None)
    try:
        return pread(descriptor, 1, size - 1) if pread else b""
    except OSError:
        return b""
