"""What ``import gpumap_widgets`` costs over a bare interpreter, and that it loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from .figures import Budget, Figure, Result

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 30
BUDGET_MS = 50
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
_SLOWEST = 8


def _seconds(code: str) -> float:
    """How long an interpreter takes from start to exit."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return time.perf_counter() - started


def _modules(module: str) -> set[str]:
    command = [sys.executable, "-c", _LOADED.format(module=module)]
    return set(json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout))


def _slowest() -> list[tuple[float, str]]:
    """The modules with the longest time of their own, in ms, as ``-X importtime`` tells it."""
    command = [sys.executable, "-X", "importtime", "-c", "import gpumap_widgets"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stderr
    rows = [line.removeprefix("import time:").split("|") for line in said.splitlines() if line.count("|") == 2]
    after = [(int(own) / 1000, name.strip()) for own, _, name in rows[1:]]
    bare = _modules("sys")
    return sorted((row for row in after if row[1] not in bare), reverse=True)[:_SLOWEST]


def run(*, full: bool) -> Result:
    """Interpreters with and without the import, in turn."""
    bare, ours = "pass", "import gpumap_widgets"
    for code in (bare, ours):
        _seconds(code)  # writes the bytecode, fills the page cache
    with_it, without = [], []
    for i in range(PAIRS * (3 if full else 1)):
        order = ((ours, with_it), (bare, without))
        for code, kept in order if i % 2 else reversed(order):
            kept.append(1000 * _seconds(code))
    loaded = _modules("gpumap_widgets") - _modules("sys")
    heavy = sorted(name for name in HEAVY if name in loaded)
    slowest = _slowest()
    figures = [
        Figure("import gpumap_widgets", "ms", with_it, "bare interpreter", without, Budget(BUDGET_MS, "extra")),
        Figure("heavy modules that it loads", "", [len(heavy)], budget=Budget(0, "most"), details={"heavy": heavy}),
    ]
    extra = figures[0].extra
    own = sum(name.split(".")[0] == "gpumap_widgets" for name in loaded)
    notes = [
        f"over a bare interpreter: {extra:.1f} ms (median of the differences)",
        f"heavy modules loaded: {', '.join(heavy) or 'none'}; {own} modules of its own, {len(loaded) - own} others",
        "longest by themselves (ms, with -X importtime): " + ", ".join(f"{name} {ms:.1f}" for ms, name in slowest),
    ]
    return Result(figures, notes)
