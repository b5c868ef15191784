"""Run all benchmarks, or the named ones, and print each figure beside its budget.

python -m benchmarks [engine] [import] [pixels] [live] [evidence] [--strict] [--full]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .figures import Figure, Result, Skipped, table

RESULTS = Path(__file__).resolve().parent / "results"
MODULES = {"engine": "engine", "import": "imports", "pixels": "pixels", "live": "live", "evidence": "evidence"}
"""Name on the command line → module."""
_PACKAGES = ("torch", "ipywidgets", "plotly", "anywidget", "jupyterlab", "jupyter-client", "ipykernel", "playwright")


def _load() -> str:
    return " ".join(f"{x:.1f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "-"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _measure(name: str, *, full: bool) -> tuple[Result | None, dict[str, Any]]:
    """Run one benchmark and print it; the result, and what goes into the JSON."""
    print(f"\n== {name}", flush=True)
    load, started = _load(), time.monotonic()
    try:
        # a benchmark's imports are its own business: what it needs may be missing
        result: Result = importlib.import_module(f".{MODULES[name]}", __package__).run(full=full)
    except Skipped as why:
        print(f"skipped: {why}", flush=True)
        return None, {"skipped": str(why)}
    except Exception:
        print(f"failed: {traceback.format_exc()}", flush=True)
        return None, {"failed": traceback.format_exc()}
    took = time.monotonic() - started
    print(table(result.figures))
    for note in result.notes:
        print(f"- {note}")
    print(f"({took:.0f} s; load before {load}, after {_load()})", flush=True)
    figures = [figure.as_json() for figure in result.figures]
    return result, {"seconds": round(took, 1), "load": load, "figures": figures, "notes": list(result.notes)}


def _write(found: dict[str, Any], began: datetime) -> Path:
    RESULTS.mkdir(exist_ok=True)
    data = {
        "started": began.isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "versions": _versions(),
        "benchmarks": found,
    }
    text = json.dumps(data, indent=1, ensure_ascii=False)
    path = RESULTS / f"{began:%Y%m%d-%H%M%S}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 when a benchmark failed, or with ``--strict`` when something is over its budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Each figure beside its budget.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which of {', '.join(MODULES)}; all without a name")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when something is over its budget")
    parser.add_argument("--full", action="store_true", help="more samples, and a million pairs through the engine")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(MODULES)}")
    began = datetime.now().astimezone()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {began:%Y-%m-%d %H:%M}")
    found: dict[str, Any] = {}
    over: list[Figure] = []
    judged = 0
    for name in options.names or MODULES:
        result, found[name] = _measure(name, full=options.full)
        if result is not None:
            judged += sum(figure.budget is not None for figure in result.figures)
            over += [figure for figure in result.figures if figure.verdict == "over"]
    path = _write(found, began)
    print(f"\n{judged} figures with a budget, {len(over)} over{':' if over else ''}")
    for figure in over:
        print(f"  {figure.what.strip()}")
    for word in ("skipped", "failed"):
        names = [name for name, data in found.items() if word in data]
        if names:
            print(f"{word}: {', '.join(names)}")
    failed = any("failed" in data for data in found.values())
    print(f"written: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if failed or (over and options.strict) else 0


if __name__ == "__main__":
    sys.exit(main())
