"""This process: who it is in its job, and which GPU it uses. Nothing is started that was not running.

torch is asked only where it is loaded and has started CUDA. Before that the device is foretold: the machine by NVML, the
order and the list by the model, and the row says how sure that is.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import GpumapError, NoDriver
from ..identity import bare_uuid
from ..inspection.process import LOCAL_RANKS, rank_of
from ..mapping import Process
from ..resolver import resolve
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from ..sources.nvml import this_machine
from ..texts import say
from ..topology import Gpu, MigInstance, Topology
from .row import RankRow

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOST_DEVICES = 1024


class OddDevice(GpumapError, ValueError):
    """What was given as a device names none."""


def ask_process(
    device: object = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: str | None = None,
    first_device: bool = False,
    start_cuda: bool = False,
) -> RankRow:
    """The row of this process.

    ``device``: the one that it uses: 1, ``cuda:1``, a ``torch.device``; None to find out. ``first_device``: its engine
    puts the worker's own device first in its list (dask-cuda, Ray). ``start_cuda``: let torch start CUDA, so that the
    driver itself tells. Raises OddDevice for a ``device`` that names none.
    """
    env = os.environ
    row = RankRow(
        rank=rank,
        world_size=world_size,
        local_rank=rank_of(env, LOCAL_RANKS),
        worker=worker,
        host=platform.node() or None,
        machine=_machine_id(),
        pid=os.getpid(),
        cuda_visible_devices=env.get(CUDA_VISIBLE_DEVICES),
        cuda_device_order=env.get(CUDA_DEVICE_ORDER),
    )
    given = _ordinal(device)
    if given is None and device is not None:
        return replace(row, reason=say("ranks.no-cuda-device", device=device))
    witnesses = _Witnesses.ask(env, start_cuda=start_cuda)
    row = replace(row, device_count=witnesses.count, simulated=witnesses.simulated, gpus=witnesses.gpus)
    ordinal, by = (given, "given") if given is not None else witnesses.used(row.local_rank, first=first_device)
    row = replace(row, ordinal=ordinal, by=by)
    if ordinal is None:
        return replace(row, reason=witnesses.why_no_device())
    if witnesses.count is not None and ordinal >= witnesses.count:
        why = say("ranks.out-of-range", ordinal=ordinal, count=witnesses.count) if witnesses.count else None
        return replace(row, reason=why or witnesses.why_no_device())
    return witnesses.described(row, ordinal)


def _ordinal(device: object) -> int | None:
    """The ordinal that a device names; None for no device and for one that is not CUDA's."""
    if device is None:
        return None
    text = str(device)
    match = re.fullmatch(r"(?:cuda(?::(\d{1,6}))?|(\d{1,6}))", text, re.ASCII)
    if match is None and re.fullmatch(r"[a-z]+(:\d{1,6})?", text, re.ASCII):
        return None  # cpu, mps, xpu
    if match is None or isinstance(device, bool):
        raise OddDevice(say("ranks.odd-device", device=text[:60]), remedy=say("ranks.odd-device-remedy"))
    number = match[1] or match[2]
    return int(number) if number is not None else _torch_current()


def _torch_current() -> int:
    """What “cuda” without a number means: the current device, 0 before CUDA has started."""
    torch = started_torch()
    return int(torch.cuda.current_device()) if torch is not None else 0


def started_torch() -> Any:
    """torch, where it is loaded here and has started CUDA; else None."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and getattr(cuda, "is_initialized", bool)() else None


def _machine_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return platform.node() or None


@dataclass(frozen=True)
class _Witnesses:
    """Who can say something about the devices of this process."""

    torch: Any
    """Only where it has started CUDA."""
    trouble: str | None
    """Why torch did not start CUDA, though it was asked to."""
    machine: Topology | None
    no_driver: str | None
    process: Process | None
    """What the model foretells."""

    @classmethod
    def ask(cls, env: Mapping[str, str], *, start_cuda: bool) -> _Witnesses:
        trouble = _start() if start_cuda else None
        try:
            machine: Topology | None = this_machine()
            no_driver = None
        except NoDriver as exc:
            machine, no_driver = None, exc.message
        prediction = resolve(Scenario.from_env(machine, dict(env))) if machine else None
        process = prediction.processes[0] if prediction and prediction.processes else None
        return cls(started_torch(), trouble, machine, no_driver, process)

    @property
    def count(self) -> int | None:
        if self.torch is not None:
            return int(self.torch.cuda.device_count())
        return None if self.process is None else len(self.process.devices)

    @property
    def simulated(self) -> bool:
        return self.machine is not None and self.machine.simulated

    @property
    def gpus(self) -> tuple[tuple[int | None, str | None, str | None, str | None], ...]:
        if self.machine is None:
            return ()
        return tuple((gpu.nvml_index, gpu.uuid, gpu.name, gpu.pci_bus_id) for gpu in self.machine.gpus)

    def used(self, local: int | None, *, first: bool) -> tuple[int | None, str | None]:
        """The ordinal that this process uses, and what tells it."""
        count = self.count
        if not count:
            return None, None
        if self.torch is not None:
            current = int(self.torch.cuda.current_device())
            holding = [i for i in range(min(count, _MOST_DEVICES)) if self.torch.cuda.memory_reserved(i)]
            if holding and current not in holding:  # tensors sent to a device that was never made the current one
                return holding[0], "memory held"
            if holding or current or count == 1 or not first:
                return current, "current device"
        if count == 1:
            return 0, "only device"
        if first:
            return 0, "first device"
        return (None, None) if local is None else (local, "local rank")

    def why_no_device(self) -> str:
        if self.trouble:
            return self.trouble
        if self.count is None:
            return self.no_driver or say("ranks.nothing-tells")
        return say("ranks.nothing-chosen", count=self.count) if self.count else say("ranks.none-visible")

    def described(self, row: RankRow, ordinal: int) -> RankRow:
        """The row with the device behind an ordinal: as torch tells it, else as foretold."""
        if self.torch is not None:
            return _seen(row, self.torch, ordinal, self.machine, self.process)
        if self.process is None:
            return replace(row, reason=self.no_driver or say("ranks.nothing-tells"))
        device = self.process.devices[ordinal]
        return _with_gpu(row, device.gpu, device.mig, str(device.certainty))


def _start() -> str | None:
    """Let torch start CUDA; why it does not, or None."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None:
        return say("ranks.no-torch")
    try:
        cuda.init()
    except Exception as exc:  # noqa: BLE001 - whatever a build of torch raises is the reason
        return say("ranks.not-started", error=f"{type(exc).__name__}: {exc}".split("\n", 1)[0][:300])
    return None


def _with_gpu(row: RankRow, gpu: Gpu, mig: MigInstance | None, told_by: str) -> RankRow:
    return replace(
        row,
        uuid=gpu.uuid,
        mig_uuid=mig.uuid if mig else None,
        mig_profile=mig.profile if mig else None,
        pci_bus_id=gpu.pci_bus_id,
        name=gpu.name,
        memory_mib=mig.memory_mib if mig else gpu.memory_mib,
        nvml_index=gpu.nvml_index,
        told_by=told_by,
    )


def _seen(row: RankRow, torch: Any, ordinal: int, machine: Topology | None, process: Process | None) -> RankRow:
    """What torch tells, with the names that NVML has for the same board."""
    try:
        told = torch.cuda.get_device_properties(ordinal)
    except Exception as exc:  # noqa: BLE001 - a lost GPU raises what it likes
        return replace(row, reason=say("ranks.not-described", ordinal=ordinal, error=str(exc).split("\n", 1)[0][:300]))
    uuid, bus = getattr(told, "uuid", None), getattr(told, "pci_bus_id", None)  # from torch 2.5 and 2.8
    if uuid is None and bus is None and process is not None and ordinal < len(process.devices):
        device = process.devices[ordinal]
        return _with_gpu(row, device.gpu, device.mig, str(device.certainty))
    pci = None if bus is None else f"{told.pci_domain_id:08X}:{bus:02X}:{told.pci_device_id:02X}.0"
    known = _known(machine, None if uuid is None else bare_uuid(str(uuid)), pci)
    if known is not None:
        gpu, mig = known
        row = _with_gpu(row, gpu, mig, "torch")
    elif uuid is not None:
        row = replace(row, uuid=f"GPU-{bare_uuid(str(uuid))}")
    memory = told.total_memory >> 20
    return replace(row, pci_bus_id=row.pci_bus_id or pci, name=told.name, memory_mib=memory, told_by="torch")


def _known(machine: Topology | None, uuid: str | None, pci: str | None) -> tuple[Gpu, MigInstance | None] | None:
    """The board, or the slice of one, that has this bare UUID, else this address."""
    gpus = machine.gpus if machine else ()
    for gpu in gpus:
        for mig in gpu.mig_instances:
            if uuid is not None and mig.uuid and bare_uuid(mig.uuid) == uuid:
                return gpu, mig
        if gpu.uuid and bare_uuid(gpu.uuid) == uuid:
            return gpu, None
    if uuid is not None:
        return None
    return next(((gpu, None) for gpu in gpus if gpu.pci_bus_id and gpu.pci_bus_id == pci), None)
