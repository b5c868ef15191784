"""The programs that run elsewhere: how they are started, put as a question to a kernel, and how answers are unpacked."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .answer import NoAnswerError

_HERE = Path(__file__).parent
HARDWARE, PROBE, WORKER, IMPRINT = (_HERE / f"{name}.py" for name in ("hardware", "probe", "worker", "imprint"))
_MIME = "application/x-gpumap"
"""The answer travels as a type of its own: start-up files may print, and may replace the formatter for text."""
_QUESTION = """
if "_gpumap" not in globals():
    _gpumap = {{"__name__": "gpumap_probe"}}
    for _gpumap_source in {sources!r}:
        exec(compile(_gpumap_source, "gpumap_probe", "exec"), _gpumap)
_gpumap["leash"]({limit})
_gpumap["answer"] = _gpumap["json"].dumps(_gpumap[{ask!r}](*{given!r}))
class _GpumapAnswer:
    def _repr_mimebundle_(self, **_):
        return {{{mime!r}: _gpumap["answer"]}}
"""
EXPRESSION = "_GpumapAnswer()"
"""What the kernel must evaluate after the question."""
_BOOT = """import os, sys
if sys.path[:1] == [""]: del sys.path[0]
import runpy
runpy.run_path({hardware!r}, run_name="gpumap_hardware")["leash"]({limit}, parent=int(os.environ["JPY_PARENT_PID"]))
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""What ``-m ipykernel_launcher`` does, on a leash from the first moment."""
_CHILD = """ns = {{"__name__": "gpumap_program"}}
for path in {paths!r}:
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), ns)
ns["main"](ns[{report!r}])
"""
_LINES = 8
OWN = "gpumap"
"""Name of the kernelspec that `write_own_spec` makes."""
FOREVER = 0
"""No limit in time: as long as the starter lives."""


def question(ask: str, given: tuple[Any, ...], limit: int, *, again: bool = False) -> str:
    """The code that a kernel is asked to run; it needs nothing of this package there.

    ``ask``: a function of `probe` and what it is given; ``limit``: of the leash, in seconds; ``again``: whether this
    kernel was asked before, and has the programs.
    """
    sources = () if again else tuple(path.read_text(encoding="utf-8") for path in (HARDWARE, PROBE))
    return _QUESTION.format(sources=sources, limit=limit, ask=ask, given=given, mime=_MIME)


def facts_in(reply: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe stated, from the content of an execute_reply."""
    try:
        return dict(json.loads(reply["user_expressions"]["answer"]["data"][_MIME]))
    except (KeyError, TypeError, ValueError) as exc:
        error = f"{reply.get('ename')}: {reply.get('evalue')}" if reply.get("status") == "error" else repr(exc)
        raise NoAnswerError("live.unreadable", error=error) from exc


def child_command(program: Path, report: str, limit: int, names: tuple[str, ...]) -> list[str]:
    """How a program is run as a child of this process: by a bare interpreter, which reads no start-up file and no
    PYTHON variable. It prints its facts as the last line.
    """
    bare = [sys.executable, "-I", "-S"]
    given = [str(os.getpid()), str(limit), *names]
    if program == HARDWARE:
        return [*bare, str(HARDWARE), *given]
    return [*bare, "-c", _CHILD.format(paths=[str(HARDWARE), str(program)], report=report), *given]


def write_own_spec(folder: Path, limit: int) -> Path:
    """A kernelspec for this interpreter, which need not have one installed; the folder to look for it in.

    It reads none of the user's start-up files and no modules of the working directory: those belong to notebooks and
    say nothing about a scenario. A kernelspec that is asked for by name keeps them.
    """
    if importlib.util.find_spec("ipykernel") is None:
        raise NoAnswerError("live.no-ipykernel", executable=sys.executable)
    boot = _BOOT.format(hardware=str(HARDWARE), limit=limit)
    settings = [
        f"--ipython-dir={folder / 'ipython'}",
        "--InteractiveShellApp.exec_PYTHONSTARTUP=False",
        "--InteractiveShellApp.ignore_cwd=True",
        "--IPKernelApp.capture_fd_output=False",  # the last words of a crash belong into the log
    ]
    argv = [sys.executable, "-X", "faulthandler", "-c", boot, "-f", "{connection_file}", *settings]
    (folder / "ipython").mkdir()
    place = folder / "kernels" / OWN
    place.mkdir(parents=True)
    spec = {"argv": argv, "display_name": OWN, "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return place.parent


def leash_for(timeout: float) -> int:
    """Whole seconds after which a process ends itself: only ever needed when nobody is left to end it."""
    return int(min(timeout, 1e6)) + 10


def last_words(log: Path) -> str:
    """The last lines that a kernel wrote, or the first of a crash report; empty when it wrote nothing."""
    return last_lines(log.read_bytes()[-20000:])


def last_lines(output: bytes) -> str:
    """The same of some output."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    crash = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), len(lines) - _LINES)
    return "\n".join(lines[max(crash, 0) :][:_LINES])
