"""What ``import gpumap_widgets`` costs over a bare interpreter, and that it loads nothing heavy."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .figures import Budget, Figure, Result
from .processes import environment, installed

ROUNDS = 30
BUDGET, NONE = Budget(50, "extra"), Budget(0, "most")
BARE, STANDARD, OURS = "pass", "import dataclasses, enum, json", "import gpumap_widgets"
CORE = "from gpumap_widgets import Scenario, Topology, resolve"
"""Public names load on first use: what the plain import saved is due with the first of these."""
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
_LOADED = "; import sys; print(*sorted(sys.modules))"
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


def _modules(code: str, folder: Path) -> set[str]:
    command = [sys.executable, "-c", code + _LOADED]
    done = subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def _slowest(folder: Path) -> list[tuple[float, str]]:
    """The modules with the longest time of their own, in ms, as ``-X importtime`` tells it."""
    command = [sys.executable, "-X", "importtime", "-c", CORE]
    done = subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True)
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    after = [(int(own) / 1000, name.strip()) for own, _, name in rows[1:]]
    bare = _modules(BARE, folder)
    return sorted((row for row in after if row[1] not in bare), reverse=True)[:_SLOWEST]


def _counts(modules: set[str]) -> str:
    own = sum(name.split(".")[0] == "gpumap_widgets" for name in modules)
    return f"{own} of its own, {len(modules) - own} others"


def _run(folder: Path, rounds: int) -> Result:
    costs: dict[str, list[Cost]] = {BARE: [], STANDARD: [], OURS: [], CORE: []}
    for code in costs:
        _cost(code, folder)  # the first one reads the disk
    for i in range(rounds):
        order = tuple(costs)
        for code in order[i % len(order) :] + order[: i % len(order)]:
            costs[code].append(_cost(code, folder))
    wall = {code: [cost.wall for cost in found] for code, found in costs.items()}
    cpu = {code: [cost.cpu for cost in found] for code, found in costs.items()}
    bare = _modules(BARE, folder)
    loaded, in_use = _modules(OURS, folder) - bare, _modules(CORE, folder) - bare
    heavy, heavy_in_use = [name for name in HEAVY if name in loaded], [name for name in HEAVY if name in in_use]
    figures = [
        Figure("import gpumap_widgets", "ms", wall[OURS], NAME, wall[BARE], BUDGET),
        Figure("  by processor time", "ms", cpu[OURS], NAME, cpu[BARE]),
        Figure("  the engine's names loaded too", "ms", wall[CORE], NAME, wall[BARE]),
        Figure("  the same by processor time", "ms", cpu[CORE], NAME, cpu[BARE]),
        Figure(f"{STANDARD} alone", "ms", wall[STANDARD], NAME, wall[BARE]),
        Figure("  by processor time", "ms", cpu[STANDARD], NAME, cpu[BARE]),
        Figure("heavy modules that it loads", "", [len(heavy)], budget=NONE, details={"heavy": heavy}),
        Figure("  with the engine's names", "", [len(heavy_in_use)], budget=NONE, details={"heavy": heavy_in_use}),
    ]
    extra = [f"{figure.extra or 0:.1f}" for figure in figures]
    slowest = ", ".join(f"{name} {ms:.1f}" for ms, name in _slowest(folder))
    notes = [
        f"over a bare interpreter (median of the differences): {extra[0]} ms, by processor time {extra[1]}",
        f"over it with the engine's names ({CORE}): {extra[2]} ms, by processor time {extra[3]}",
        f"over it for the standard library alone ({STANDARD}): {extra[4]} ms, by processor time {extra[5]}",
        f"heavy modules: {', '.join(heavy) or 'none'}; with the engine's names {', '.join(heavy_in_use) or 'none'}",
        f"modules loaded: {_counts(loaded)}; with the engine's names {_counts(in_use)}",
        f"longest by themselves with the engine's names, ms with -X importtime: {slowest}",
    ]
    return Result(figures, notes)


def run(*, full: bool) -> Result:
    """Interpreters with and without the import, and with what it cannot do without of the standard library, in turn."""
    with installed() as folder:
        return _run(folder, ROUNDS * (3 if full else 1))
