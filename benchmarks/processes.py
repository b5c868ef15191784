"""The package as a user has it, for measuring processes: a compiled copy, wherever the checkout keeps its bytecode."""

from __future__ import annotations

import compileall
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("gpumap_widgets", "benchmarks")


@contextlib.contextmanager
def installed() -> Iterator[Path]:
    """A folder with the package in it, compiled as by an installer: to be the working directory of a process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package in _PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
            compileall.compile_dir(folder / package, quiet=1)
        yield folder


def environment(folder: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that takes the package from that folder, and from nowhere else."""
    return {**(os.environ if base is None else base), "PYTHONPATH": str(folder)}
