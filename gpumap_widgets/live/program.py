"""What runs in the kernel: how it is started, how the probe is put to it as a question, how its answer is unpacked."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .answer import NoAnswerError

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
EXPRESSION = "_GpumapAnswer()"
"""What the kernel must evaluate after the question."""
_BOOT = """import sys
if sys.path[:1] == [""]: del sys.path[0]
import runpy
runpy.run_path({probe!r}, run_name="gpumap_probe")["leash"]({limit}, direct=True)
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""What ``-m ipykernel_launcher`` does, on a leash from the first moment."""
_LINES = 8
OWN = "gpumap"
"""Name of the kernelspec that `write_own_spec` makes."""


def question(env: Mapping[str, str], timeout: float) -> str:
    """The code that a kernel is asked to run; it needs nothing of this package there."""
    source = _PROBE.read_text(encoding="utf-8")
    return _QUESTION.format(source=source, limit=_limit(timeout), names=tuple(env), mime=_MIME)


def facts_in(reply: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe stated, from the content of an execute_reply."""
    try:
        return dict(json.loads(reply["user_expressions"]["answer"]["data"][_MIME]))
    except (KeyError, TypeError, ValueError) as exc:
        error = f"{reply.get('ename')}: {reply.get('evalue')}" if reply.get("status") == "error" else repr(exc)
        raise NoAnswerError("live.unreadable", error=error) from exc


def write_own_spec(folder: Path, timeout: float) -> Path:
    """A kernelspec for this interpreter, which need not have one installed; the folder to look for it in.

    It reads none of the user's start-up files and no modules of the working directory: those belong to notebooks and
    say nothing about a scenario. A kernelspec that is asked for by name keeps them.
    """
    if importlib.util.find_spec("ipykernel") is None:
        raise NoAnswerError("live.no-ipykernel", executable=sys.executable)
    boot = _BOOT.format(probe=str(_PROBE), limit=_limit(timeout))
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


def _limit(timeout: float) -> int:
    """Whole seconds after which a kernel ends itself: only ever needed when nobody is left to end it."""
    return int(min(timeout, 1e6)) + 10


def last_words(log: Path) -> str:
    """The last lines that a kernel wrote, or the first of a crash report; empty when it wrote nothing."""
    lines = [line for line in log.read_bytes()[-20000:].decode(errors="replace").splitlines() if line.strip()]
    crash = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), len(lines) - _LINES)
    return "\n".join(lines[max(crash, 0) :][:_LINES])
