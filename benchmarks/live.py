"""Live, cold, on the simulated driver, against torch alone in a bare interpreter under the same environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests import simdriver

from .figures import Budget, Figure, Result, Skipped, median
from .processes import environment, installed

ROUNDS = 7
BUDGET = 1.5
_TORCH = "import torch; torch.cuda.get_device_properties(0)"
_CUT = f"{_TORCH}; import os; os._exit(0)"
"""The same without the end of the interpreter, which a kernel that is killed does not have either."""
_OBSERVE = """
import json, time
began = time.perf_counter()
import gpumap_widgets as gm
prediction = gm.resolve(gm.Scenario.from_env(gm.preset("mixed"), {}))
ready = time.perf_counter()
seen = gm.observe(prediction)
done = time.perf_counter()
verdict = gm.compare(prediction, seen).verdict
problem = str(seen.problem) if seen.problem else None
print(json.dumps({
    "observe": done - ready, "before": ready - began, "parts": dict(seen.seconds), "verdict": verdict,
    "problem": problem, "devices": len(seen.devices), "simulated": seen.simulated,
}))
"""


def _environment(folder: Path) -> dict[str, str]:
    """A process environment on the simulated mixed machine. Raises Skipped where it cannot be had."""
    if find_spec("torch") is None:
        raise Skipped("torch is not installed")
    include = simdriver.find_cuda_include(sys.executable)
    if include is None:
        raise Skipped("torch here is a CPU build, or the CUDA headers that its wheels bring are missing")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        raise Skipped(f"no simulated driver: {exc}") from exc
    base = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
    return simdriver.environment(simdriver.MIXED, folder, built, base)


def _python(code: str, env: Mapping[str, str]) -> tuple[float, str]:
    """Seconds that an interpreter takes over some code, and what it printed."""
    started = time.perf_counter()
    command, folder = [sys.executable, "-c", code], env["PYTHONPATH"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"a measured process failed: {done.stderr[-2000:]}")
    return took, done.stdout


def _observe(env: Mapping[str, str]) -> dict[str, Any]:
    """One cold observation in a process of its own; it must be right to count."""
    took, printed = _python(_OBSERVE, env)
    answer: dict[str, Any] = json.loads(printed)
    if answer["verdict"] != "confirmed" or not answer["simulated"]:
        raise RuntimeError(f"the observation went wrong: {answer}")
    return answer | {"process": took}


def run(*, full: bool) -> Result:
    """Observations and bare runs of torch in turn, each in a fresh process."""
    with tempfile.TemporaryDirectory() as folder, installed() as package:
        env = environment(package, _environment(Path(folder)))
        _python(_TORCH, env)  # the first of each reads the disk
        _observe(env)
        answers: list[dict[str, Any]] = []
        alone: list[float] = []
        cut: list[float] = []
        steps: list[Callable[[], None]] = [
            lambda: answers.append(_observe(env)),
            lambda: alone.append(_python(_TORCH, env)[0]),
            lambda: cut.append(_python(_CUT, env)[0]),
        ]
        for i in range(ROUNDS * (3 if full else 1)):
            for step in steps[i % 3 :] + steps[: i % 3]:
                step()
    name = "torch alone"
    observed = [a["observe"] for a in answers]
    parts = {k: [a["parts"].get(k, 0.0) for a in answers] for k in ("kernel", "torch", "cuda")}
    rest = [a["observe"] - sum(a["parts"].get(k, 0.0) for k in parts) for a in answers]
    figures = [
        Figure("observe(), cold, simulated driver", "s", observed, name, alone, Budget(BUDGET, "ratio")),
        Figure("  against torch without its end", "s", observed, "torch, cut short", cut),
        Figure("  the whole process around it", "s", [a["process"] for a in answers], name, alone),
        Figure("  of it: the kernel answers", "s", parts["kernel"]),
        Figure("  of it: torch imported there", "s", parts["torch"]),
        Figure("  of it: CUDA started, devices asked", "s", parts["cuda"]),
        Figure("  of it: the rest (question, end of the kernel)", "s", rest),
    ]
    over = median([o - b for o, b in zip(observed, alone, strict=True)])
    notes = [
        f"{name}: python -c {_TORCH!r}, from start to exit",
        f"every observation confirmed the prediction; over torch alone {over:.2f} s (median of the differences)",
    ]
    return Result(figures, notes)
