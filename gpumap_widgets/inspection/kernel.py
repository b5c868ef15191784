"""This process: has CUDA been started in it, with which values, and would a change still count?

Looks only. It imports nothing that could start CUDA, and asks a driver library only where one is loaded already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..errors import NoDriver
from ..explanation import device_name
from ..frozen import FrozenDict
from ..mapping import Message, ObservedDevice, Prediction, message
from ..sources.nvml import this_machine
from ..topology import Topology
from .driver import NOT_STARTED, STARTED, UNKNOWN, DriverView, loaded_driver
from .naming import called, place_of
from .system import ROOT, is_kept, start_environment, system_view
from .values import Variables, as_c_reads, both_of, predicted, used_values

FORKED = "forked"


class Starter(NamedTuple):
    """A library that starts CUDA, and how to tell from its own state whether it has."""

    name: str
    module: str
    started: Callable[[Any], bool]
    """Of the loaded module; must not call anything that starts CUDA."""
    source: str


STARTERS: tuple[Starter, ...] = (
    Starter("torch.cuda", "torch", lambda m: bool(m.cuda.is_initialized()), "torch 2.14.1, torch/cuda/__init__.py, is_initialized"),
    Starter("numba.cuda", "numba.cuda.cudadrv.driver", lambda m: bool(vars(m.driver).get("is_initialized")), "numba, cudadrv/driver.py, class Driver"),
    Starter("JAX", "jax._src.xla_bridge", lambda m: "cuda" in m._backends, "jax, _src/xla_bridge.py, backends"),  # noqa: SLF001
)  # fmt: skip
"""Who can be asked whether it was the one."""
ABLE = (
    *("torch", "numba.cuda", "jax", "cupy", "tensorflow", "cuda.bindings", "cuda.core", "pycuda", "onnxruntime"),
    *("tensorrt", "rmm", "cudf", "paddle", "deepspeed", "flash_attn", "vllm"),
)
"""Modules that can start CUDA without a trace in `STARTERS`; torch.cuda.is_available() is one way."""


@dataclass(frozen=True)
class KernelInspection:
    """What is known of CUDA in this process, at one moment."""

    pid: int
    when: str
    """ISO time with zone."""
    state: str
    """``started``; ``not started``; ``forked`` from a process in which it was; ``unknown``."""
    said: Message
    """The state in words."""
    started_by: tuple[str, ...]
    """Libraries whose own state says that they started it."""
    able: tuple[str, ...]
    """Loaded modules that could have started it, where none says so."""
    at_start: Variables | None
    """The variables that touch the numbering when the process was started; None where that cannot be read."""
    now: Variables
    """Those that stand in os.environ."""
    read: Variables | None
    """Those that the driver would find by getenv(3), of the two; None where it cannot be asked. os.putenv and C code set
    these and not os.environ."""
    used: str | None
    """``at_start``, ``now`` or ``read``: the values that the driver used, where that can be told."""
    why_used: Message
    used_certainty: Certainty
    devices: tuple[ObservedDevice, ...]
    """By ordinal, as the driver has them; () unless it is started."""
    first: Message
    """What ``cuda:0`` is here."""
    first_certainty: Certainty
    nvml_indices: tuple[int | None, ...]
    """nvidia-smi's number behind cuda:0, cuda:1, …: seen where CUDA is started, else predicted."""
    change_counts: bool | None
    """Whether a change of the variables now would still count; None where that is not known."""
    advice: Message
    notes: tuple[Message, ...]
    machine: Topology | None
    """None where there is no driver to ask."""
    simulated: bool
    """True when a simulated driver answered."""

    def __str__(self) -> str:
        from ..views.inspections import kernel_text

        return kernel_text(self)

    def _repr_html_(self) -> str:
        from ..views.inspections import kernel_html

        return kernel_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, sentences in English."""
        from .plain import kernel_dict

        return kernel_dict(self)


def inspect_kernel(*, root: Path = ROOT) -> KernelInspection:
    """What CUDA is in this process, now. Starts nothing, loads no library into it but NVML, and changes nothing.

    ``root`` stands for ``/``. Never raises for what cannot be found out: that is None, with the reason in ``notes``.
    """
    unseen: list[Message] = []
    at_start = start_environment(root / "proc/self", unseen)
    now = FrozenDict({name: value for name, value in os.environ.items() if is_kept(name)})
    driver, notes = loaded_driver(), list(unseen)
    state, said = _state(driver, root)
    try:
        machine: Topology | None = this_machine()
    except NoDriver as exc:
        machine = None
        notes.append(message("inspect.note.no-machine", error=exc.message))
    read = as_c_reads()
    if read is not None and read != both_of(now):
        notes.append(message("inspect.note.putenv"))
    notes += _torch_notes()
    devices = driver.devices if driver else ()
    candidates = {"at_start": at_start, "now": now, "read": read}
    used, why_used, used_certainty = used_values(state, machine, candidates, devices)
    if driver is not None and state == NOT_STARTED:
        used_certainty = Certainty.LIKELY  # a start that failed has read them
    prediction = predicted(machine, now if read is None else {**now, **read}) if machine else None
    started_by = _started_by() if state == STARTED else ()
    first, first_certainty = _first(state, devices, machine, prediction)
    counts = {STARTED: False, FORKED: False, NOT_STARTED: True}.get(state)
    return KernelInspection(
        os.getpid(),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        state,
        said,
        started_by,
        () if started_by or state == NOT_STARTED else tuple(name for name in ABLE if name in sys.modules),
        at_start,
        now,
        read,
        used,
        why_used,
        used_certainty,
        devices,
        first,
        first_certainty,
        _indices(state, devices, machine, prediction),
        counts,
        message(f"inspect.advice.{state.replace(' ', '-')}"),
        tuple(notes),
        machine,
        bool((driver and driver.simulated) or (machine and machine.simulated)),
    )


# --- the state -------------------------------------------------------------------------------------------------------


def _state(driver: DriverView | None, root: Path) -> tuple[str, Message]:
    torch = sys.modules.get("torch")
    if bool(getattr(getattr(torch, "_C", None), "_cuda_isInBadFork", bool)()):  # a flag that a fork sets
        return FORKED, message("inspect.state.forked")
    if driver is None:
        return NOT_STARTED, message("inspect.state.not-loaded")
    if driver.state == STARTED:
        return STARTED, message("inspect.state.started", count=len(driver.devices))
    if driver.state == NOT_STARTED and system_view(os.getpid(), root).cuda_open:
        return UNKNOWN, message("inspect.state.left-open")
    if driver.state == NOT_STARTED:
        return NOT_STARTED, message("inspect.state.not-started")
    return UNKNOWN, message("inspect.state.unknown", code=driver.code)


def _started_by() -> tuple[str, ...]:
    found = []
    for starter in STARTERS:
        module = sys.modules.get(starter.module)
        try:
            if module is not None and starter.started(module):
                found.append(starter.name)
        except Exception:  # noqa: BLE001, S112 - a foreign module of another version: it tells nothing
            continue
    return tuple(found)


def _torch_notes() -> list[Message]:
    """What torch keeps of an earlier count: since 2.4 once CUDA is started, before that from the first question on."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    count = getattr(cuda, "_cached_device_count", None)
    cached = getattr(getattr(cuda, "device_count", None), "cache_info", None)
    if count is not None:
        return [message("inspect.note.counted", count=count)]
    return [message("inspect.note.counted-early")] if cached is not None and cached().currsize else []


# --- what cuda:0 is --------------------------------------------------------------------------------------------------


def _first(
    state: str, devices: tuple[ObservedDevice, ...], machine: Topology | None, prediction: Prediction | None
) -> tuple[Message, Certainty]:
    if state == STARTED:
        if not devices:
            return message("inspect.first.none"), Certainty.CERTAIN
        return message("inspect.first.is", gpu=called(devices[0], machine)), Certainty.CERTAIN
    if state != NOT_STARTED or prediction is None or not prediction.processes:
        return message("inspect.first.unknown"), Certainty.UNKNOWN
    foretold = prediction.processes[0].devices
    if not foretold:
        return message("inspect.first.will-be-none"), prediction.certainty
    return message("inspect.first.will-be", gpu=device_name(foretold[0])), foretold[0].certainty


def _indices(
    state: str, devices: tuple[ObservedDevice, ...], machine: Topology | None, prediction: Prediction | None
) -> tuple[int | None, ...]:
    if state == NOT_STARTED:
        return prediction.nvml_indices if prediction else ()
    places = [place_of(device, machine) for device in devices]
    return tuple(None if p is None or machine is None else machine.gpus[p].nvml_index for p in places)
