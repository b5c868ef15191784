"""Live on the simulated driver, or on this machine's own where it has a GPU, beside the way by hand: an interpreter
that imports torch and prints its devices, under the same variables.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests import simdriver

from .figures import Budget, Figure, Result, Skipped
from .processes import environment, installed

ROUNDS = 7
DRIVER, WARM, COLD, FRESH = Budget(0.1, "ratio"), Budget(0.05, "ratio"), Budget(1.2, "ratio"), Budget(1.5, "ratio")
VARIABLES = {"CUDA_VISIBLE_DEVICES": "1,2"}
_BY_HAND = "import torch; print([torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())])"
_CUT = f"{_BY_HAND}; import os; os._exit(0)"
"""The same without the end of the interpreter, which a kernel that is killed does not have either."""
_NOTEBOOK = """
import json, sys, time
import gpumap_widgets as gm
from gpumap_widgets.live.run import Run
from gpumap_widgets.live.spare import SPARES
VARIABLES = json.loads(sys.argv[1])
machine = gm.this_machine()
def ask(spares):
    began, driver = time.perf_counter(), []
    prediction = gm.resolve(gm.Scenario.from_env(machine, VARIABLES))
    def answered(run):
        driver.append((time.perf_counter() - began, gm.compare(prediction, run.driver).verdict))
        driver[0] = (time.perf_counter() - began, driver[0][1])
    seen = Run(prediction.processes[0].env, spares=spares, on_driver=answered).start().result()
    verdict = gm.compare(prediction, seen).verdict
    took = time.perf_counter() - began
    return {"torch": took, "driver": driver[0][0], "verdicts": [verdict, driver[0][1]], "warm": seen.warm,
        "simulated": seen.simulated, "cuda": seen.seconds.get("cuda"), "driver_cuda": seen.others[0].seconds["cuda"],
        "problem": str(seen.problem or ""), "notes": [str(note) for note in seen.notes], "parts": dict(seen.seconds)}
for line in sys.stdin:
    if line.strip() == "warm":
        SPARES.want("benchmark")
        while SPARES.state not in ("ready", "failed"):
            time.sleep(0.05)
        time.sleep(0.5)
        found = ask(SPARES)
        SPARES.enough("benchmark")
    else:
        found = ask(None)
    print(json.dumps(found), flush=True)
"""
_OBSERVE = """
import json, sys, time
began = time.perf_counter()
import gpumap_widgets as gm
prediction = gm.resolve(gm.Scenario.from_env(gm.this_machine(), json.loads(sys.argv[1])))
ready = time.perf_counter()
seen = gm.observe(prediction)
done = time.perf_counter()
verdict = gm.compare(prediction, seen).verdict
print(json.dumps({"torch": done - ready, "verdicts": [verdict], "simulated": seen.simulated, "problem": str(seen.problem or "")}))
"""


def _environment(folder: Path) -> tuple[dict[str, str], bool]:
    """A process environment on the simulated mixed machine, or on this machine where it has a GPU; and whether it is
    simulated. Raises Skipped where neither can be had.
    """
    if find_spec("torch") is None:
        raise Skipped("torch is not installed")
    base = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
    if (
        shutil.which("nvidia-smi")
        and subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True).returncode == 0
    ):
        return base, False
    include = simdriver.find_cuda_include(sys.executable)
    if include is None:
        raise Skipped("torch here is a CPU build, or the CUDA headers that its wheels bring are missing")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        raise Skipped(f"no simulated driver: {exc}") from exc
    return simdriver.environment(simdriver.MIXED, folder, built, base), True


def _python(code: str, env: Mapping[str, str], *arguments: str) -> tuple[float, str]:
    """Seconds that an interpreter takes over some code, and what it printed."""
    started = time.perf_counter()
    command, folder = [sys.executable, "-c", code, *arguments], env["PYTHONPATH"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"a measured process failed: {done.stderr[-2000:]}")
    return took, done.stdout


def _right(answer: dict[str, Any], *, simulated: bool) -> dict[str, Any]:
    """An answer; it must be right to count."""
    if set(answer["verdicts"]) != {"confirmed"} or answer["simulated"] != simulated:
        raise RuntimeError(f"the observation went wrong: {answer}")
    return answer


class Notebook:
    """A process that stands for the notebook: everything is loaded, and it asks when it is told to."""

    def __init__(self, env: Mapping[str, str], variables: Mapping[str, str]) -> None:
        command = [sys.executable, "-c", _NOTEBOOK, json.dumps(dict(variables))]
        self.process = subprocess.Popen(
            command, cwd=env["PYTHONPATH"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, how: str) -> dict[str, Any]:
        """One answer: ``cold`` or ``warm``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{how}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the notebook's process ended")
        answer: dict[str, Any] = json.loads(line)
        if answer["warm"] != (how == "warm"):
            raise RuntimeError(f"asked {how}, and it was not: {answer['notes']}")
        return answer

    def close(self) -> None:
        """End it."""
        with self.process as process:
            assert process.stdin is not None
            process.stdin.close()


def run(*, full: bool) -> Result:
    """The ways in turn, each round in another order."""
    with tempfile.TemporaryDirectory() as folder, installed() as package:
        base, simulated = _environment(Path(folder))
        env = environment(package, base)
        variables = VARIABLES if simulated else {}
        by_hand = {**env, **variables}
        found: dict[str, list[Any]] = {name: [] for name in ("hand", "cut", "fresh", "cold", "warm")}
        notebook = Notebook(env, variables)
        steps: dict[str, Callable[[], Any]] = {
            "hand": lambda: _python(_BY_HAND, by_hand)[0],
            "cut": lambda: _python(_CUT, by_hand)[0],
            "fresh": lambda: _right(json.loads(_python(_OBSERVE, env, json.dumps(variables))[1]), simulated=simulated),
            "cold": lambda: _right(notebook.ask("cold"), simulated=simulated),
            "warm": lambda: _right(notebook.ask("warm"), simulated=simulated),
        }
        try:
            for step in steps.values():
                step()  # the first of each reads the disk
            names = list(steps)
            for i in range(ROUNDS * (3 if full else 1)):
                for name in names[i % 5 :] + names[: i % 5]:
                    found[name].append(steps[name]())
        finally:
            notebook.close()
    return Result(_figures(found), _notes(found, variables, simulated=simulated))


def _figures(found: Mapping[str, list[Any]]) -> list[Figure]:
    name, hand, cut = "by hand", found["hand"], found["cut"]

    def part(way: str, what: str) -> list[float]:
        return [float(answer[what] or 0.0) for answer in found[way]]

    cold = found["cold"]
    kernels = [answer["parts"].get("kernel", 0.0) for answer in cold]
    imports = [answer["parts"].get("torch", 0.0) for answer in cold]
    return [
        Figure("driver's verdict, a kernel waiting", "s", part("warm", "driver"), name, hand, DRIVER),
        Figure("driver's verdict, beside a kernel that starts", "s", part("cold", "driver"), name, hand, DRIVER),
        Figure("torch's verdict, warm", "s", part("warm", "torch"), name, hand, WARM),
        Figure("torch's verdict, cold", "s", part("cold", "torch"), name, hand, COLD),
        Figure("  against by hand without its end", "s", part("cold", "torch"), "cut short", cut),
        Figure("  of it: the kernel answers", "s", kernels),
        Figure("  of it: torch imported there", "s", imports),
        Figure("torch's verdict, cold, first of a process", "s", part("fresh", "torch"), name, hand, FRESH),
        Figure("CUDA's own start: driver's child", "s", part("warm", "driver_cuda")),
        Figure("CUDA's own start: torch, warm", "s", part("warm", "cuda")),
        Figure("CUDA's own start: torch, cold", "s", part("cold", "cuda")),
    ]


def _notes(found: Mapping[str, list[Any]], variables: Mapping[str, str], *, simulated: bool) -> list[str]:
    set_ = " ".join(f"{k}={v}" for k, v in variables.items())
    return [
        f"by hand: {set_} python -c {_BY_HAND!r}, from start to exit",
        f"{'simulated driver' if simulated else 'this machine and its driver'}; every verdict confirmed the prediction",
        f"{len(found['hand'])} rounds, the ways in turn",
    ]
