"""What ``import gpumap_widgets`` costs over a bare interpreter, and that it loads nothing heavy."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .figures import Budget, Figure, Result
from .processes import environment, installed

ROUNDS = 30
BUDGET = Budget(50, "extra")
BARE, STANDARD, OURS = "pass", "import dataclasses, enum, json", "import gpumap_widgets"
NAME = "bare interpreter"
HEAVY = (
    "torch",
    "pandas",
    "plotly",
    "ipywidgets",
    "pynvml",
    "numpy",
    "anywidget",
    "traitlets",
    "jupyter_client",
    "zmq",
    "IPython",
    "asyncio",
)
"""The five of the budget, and others whose loading would be felt."""
_LOADED = "import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
_SLOWEST = 12


class Cost(NamedTuple):
    """What an interpreter costs from start to exit, in ms."""

    wall: float
    cpu: float


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cost(code: str, folder: Path) -> Cost:
    command, env = [sys.executable, "-c", code], environment(folder)
    before, started = _worked(), time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, check=True)
    return Cost(1000 * (time.perf_counter() - started), 1000 * (_worked() - before))


def _modules(module: str, folder: Path) -> set[str]:
    command = [sys.executable, "-c", _LOADED.format(module=module)]
    done = subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def _slowest(folder: Path) -> list[tuple[float, str]]:
    """The modules with the longest time of their own, in ms, as ``-X importtime`` tells it."""
    command = [sys.executable, "-X", "importtime", "-c", OURS]
    done = subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True)
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    after = [(int(own) / 1000, name.strip()) for own, _, name in rows[1:]]
    bare = _modules("sys", folder)
    return sorted((row for row in after if row[1] not in bare), reverse=True)[:_SLOWEST]


def _run(folder: Path, rounds: int) -> Result:
    costs: dict[str, list[Cost]] = {BARE: [], STANDARD: [], OURS: []}
    for code in costs:
        _cost(code, folder)  # the first one reads the disk
    for i in range(rounds):
        order = tuple(costs)
        for code in order[i % 3 :] + order[: i % 3]:
            costs[code].append(_cost(code, folder))
    wall = {code: [cost.wall for cost in found] for code, found in costs.items()}
    cpu = {code: [cost.cpu for cost in found] for code, found in costs.items()}
    loaded = _modules("gpumap_widgets", folder) - _modules("sys", folder)
    heavy = sorted(name for name in HEAVY if name in loaded)
    figures = [
        Figure("import gpumap_widgets", "ms", wall[OURS], NAME, wall[BARE], BUDGET),
        Figure("  by processor time", "ms", cpu[OURS], NAME, cpu[BARE]),
        Figure(f"{STANDARD} alone", "ms", wall[STANDARD], NAME, wall[BARE]),
        Figure("  by processor time", "ms", cpu[STANDARD], NAME, cpu[BARE]),
        Figure("heavy modules that it loads", "", [len(heavy)], budget=Budget(0, "most"), details={"heavy": heavy}),
    ]
    extra = [f"{figure.extra or 0:.1f}" for figure in figures[:4]]
    own = sum(name.split(".")[0] == "gpumap_widgets" for name in loaded)
    slowest = ", ".join(f"{name} {ms:.1f}" for ms, name in _slowest(folder))
    notes = [
        f"over a bare interpreter (median of the differences): {extra[0]} ms, by processor time {extra[1]}",
        f"of that for the standard library alone ({STANDARD}): {extra[2]} ms, by processor time {extra[3]}",
        f"heavy modules loaded: {', '.join(heavy) or 'none'}; {own} modules of its own, {len(loaded) - own} others",
        f"longest by themselves, ms with -X importtime: {slowest}",
    ]
    return Result(figures, notes)


def run(*, full: bool) -> Result:
    """Interpreters with and without the import, and with what it cannot do without of the standard library, in turn."""
    with installed() as folder:
        return _run(folder, ROUNDS * (3 if full else 1))
