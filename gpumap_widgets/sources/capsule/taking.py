"""A capsule of the machine that this runs on."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from .value import Capsule, CapsuleProcess


def take(*, processes: bool = False) -> Capsule:
    """A capsule of this machine and this process's variables, now. CUDA is not started, torch not imported.

    Raises NoDriver where the machine has no driver to ask.
    """
    import os
    import platform

    from .. import nvml

    topology = nvml.this_machine()
    running: tuple[CapsuleProcess, ...] | None = None
    if processes:
        seen = nvml.processes(topology)
        topology = replace(topology, notes=(*topology.notes, *seen.notes))
        indices = [gpu.nvml_index for gpu in topology.gpus]
        rows = ((p.pid, p.gpu_uuid, p.mig_uuid, indices[p.position], p.memory_mib) for p in seen.processes)
        running = tuple(CapsuleProcess(*row) for row in rows)
    versions = {"python": platform.python_version(), **torch_versions()}
    if topology.driver_version:
        versions["driver"] = topology.driver_version
    return Capsule(
        topology,
        dict(os.environ),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        platform.node() or None,
        user_name(),
        versions,
        processes=running,
    )


def user_name() -> str | None:
    """Who runs this; None for a number without a name, usual in containers."""
    import getpass

    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return None


def torch_versions() -> dict[str, str]:
    """Version of the torch that would be imported, and the CUDA that it was built for, from its files."""
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    try:
        torch = distribution("torch")
    except PackageNotFoundError:
        return {}
    try:
        source = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except (OSError, ValueError):
        source = ""
    found = {"torch": torch.version}
    for name, variable in (("torch", "__version__"), ("cuda", "cuda")):
        if match := re.search(rf"^{variable}\b[^'\n]{{0,80}}'([^'\n]{{1,80}})'", source, re.MULTILINE):
            found[name] = match[1]
    return found
