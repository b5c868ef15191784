"""What is to be measured, and how much it may take: checked, and put into words, before anything runs."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import GpumapError
from ..frozen import FrozenDict
from ..planning.task_planning import environment_for
from ..texts import say
from ..topology import Topology

DTYPES = ("float16", "bfloat16", "float32", "float64")
Function = Callable[..., object] | str


class Target(NamedTuple):
    """One device to measure."""

    device: str
    """UUID, or ``cpu:0``."""
    name: str | None
    env: Mapping[str, str]
    """What makes it the one device that the process sees."""
    torch_device: str
    others: int | None = None
    """Processes that were seen on it beforehand; None where nobody can tell."""


class Order(NamedTuple):
    """What is measured, and how much it may take."""

    targets: tuple[Target, ...]
    dtype: str = "float16"
    seconds: float = 3.0
    """How long a device is kept busy."""
    memory_mib: int = 2048
    """What is taken of its memory, at most; the user's own function aside."""
    function: Mapping[str, Any] | None = None
    threads: int | None = None
    """Of a processor; None for as many as torch takes."""
    executable: str = sys.executable
    simulated: bool = False

    @property
    def said(self) -> str:
        """What the user consents to."""
        busy = sum(target.others or 0 for target in self.targets)
        more = " " + say("measure.busy", n=busy) if busy else ""
        seconds, mib = f"{self.seconds:g}", self.memory_mib
        return say("measure.consent", n=len(self.targets), seconds=seconds, memory=mib, dtype=self.dtype) + more


def targets_of(devices: Topology | Sequence[str]) -> tuple[Target, ...]:
    """What there is to measure: the GPUs of this machine that can be named and are not cut by MIG, or processors.

    Raises GpumapError when there is nothing, or a text is no processor.
    """
    if not isinstance(devices, Topology):
        odd = [name for name in devices if name.partition(":")[0] != "cpu"]
        if odd or not devices:
            raise GpumapError(say("measure.odd-device", device=(odd or ["-"])[0][:80]))
        return tuple(Target(f"cpu:{i}", None, FrozenDict(), "cpu") for i, _ in enumerate(devices))
    seen = _processes(devices)
    found = []
    for position in devices.usable:
        gpu = devices.gpus[position]
        env, _ = environment_for(devices, position)
        if env and not gpu.mig_mode:
            found.append(Target(gpu.uuid or gpu.name or "", gpu.name, env, "cuda:0", seen.get(position)))
    if not found:
        raise GpumapError(say("measure.nothing"))
    return tuple(found)


def _processes(machine: Topology) -> dict[int, int]:
    """How many processes the driver shows on each GPU, by position; nothing where it shows none to us."""
    from ..sources.nvml import processes

    try:
        rows = processes(machine).processes
    except GpumapError:
        return {}
    return {i: sum(row.position == i for row in rows) for i in machine.usable}


def described(function: Function) -> Mapping[str, Any]:
    """A function as another process can have it: ``"module:name"``, or its own source.

    Raises GpumapError for one whose source cannot be had, or that is no function.
    """
    if isinstance(function, str):
        module, _, name = function.partition(":")
        if not module or not name.isidentifier():
            raise GpumapError(say("measure.odd-function", function=function[:80]))
        return {"module": module, "name": name, "path": [str(Path.cwd())], "source": None}
    try:
        source = textwrap.dedent(inspect.getsource(function))
        name = function.__name__
    except (OSError, TypeError, AttributeError) as exc:
        raise GpumapError(say("measure.no-source"), remedy=say("measure.no-source-remedy")) from exc
    if not name.isidentifier():
        raise GpumapError(say("measure.no-source"), remedy=say("measure.no-source-remedy"))
    return {"module": None, "name": name, "path": [], "source": source}


def order_for(
    devices: Topology | Sequence[str] | None,
    *,
    dtype: str = "float16",
    seconds: float = 3.0,
    memory_mib: int = 2048,
    function: Function | None = None,
    threads: int | None = None,
    executable: str = sys.executable,
) -> Order:
    """What would be measured; see `measure_gpus`."""
    sound = dtype in DTYPES and 0.05 <= seconds <= 60 and 16 <= memory_mib <= 2**20
    if not sound or (threads is not None and not 1 <= threads <= 1024):
        raise GpumapError(say("measure.odd", dtypes=", ".join(DTYPES)))
    if devices is None:
        from ..sources.nvml import this_machine

        devices = this_machine()
    targets = targets_of(devices)
    simulated = isinstance(devices, Topology) and devices.simulated
    own = described(function) if function is not None else None
    return Order(targets, dtype, float(seconds), int(memory_mib), own, threads, executable, simulated)
