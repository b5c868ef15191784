"""One run as one JSON object: who, when, where, which variables, which devices, who says so.

What a driver showed and what is only predicted never look alike: ``told_by`` says which it is.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..comparison import compare
from ..errors import NoDriver
from ..frozen import FrozenDict
from ..inspection.driver import STARTED, DriverView, loaded_driver, started_driver
from ..inspection.naming import full_uuid, place_of
from ..inspection.process import job_of, rank_of
from ..inspection.system import ROOT, SystemView, is_kept, numbers_are_ours
from ..mapping import Comparison, Observation, ObservedDevice, Prediction
from ..resolver import resolve
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from ..sources.capsule.taking import torch_versions, user_name
from ..sources.nvml import processes, this_machine
from ..texts import say
from ..topology import Topology
from .schema import MARK, SCHEMA

DRIVER, TORCH, PREDICTION, NOBODY = "driver", "torch", "prediction", "nobody"
"""Who told the devices."""
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID")
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
Line = dict[str, Any]


def process_line(*, start_cuda: bool = False, root: Path = ROOT) -> Line:
    """This process, now. Without ``start_cuda`` nothing of CUDA is started or loaded; what the driver would show is then
    predicted, unless CUDA is up already.
    """
    env = {name: value for name, value in os.environ.items() if is_kept(name)}
    driver = started_driver() if start_cuda else loaded_driver()
    problems: list[str] = []
    if start_cuda and driver is None:
        problems.append(say("live.no-driver"))
    elif start_cuda and driver is not None and driver.state != STARTED:
        problems.append(say("evidence.not-started", code=driver.code))
    try:
        machine: Topology | None = this_machine(root=root)
    except NoDriver as exc:
        machine = None
        problems.append(exc.message)
    prediction = resolve(Scenario.from_env(machine, env)) if machine else None
    held = _held(machine, root)
    line = {
        **_head("process", env),
        **_told(driver, prediction, machine),
        "held": held,
        "machine": _machine(machine),
        "versions": _versions(machine, driver),
        "simulated": bool((driver and driver.simulated) or (machine and machine.simulated)),
        "problems": problems,
    }
    return {**line, "uses": _uses(line, driver)}


def run_line(comparison: Comparison) -> Line:
    """A live run that was compared with its prediction. The PID is that of the process that asked."""
    seen, machine = comparison.observation, comparison.prediction.scenario.topology
    env = {name: value for name, value in seen.env.items() if is_kept(name)}
    devices = [_device(device, machine) for device in seen.devices]
    return {
        **_head("live", env, time=seen.started),
        "told_by": TORCH if seen.problem is None else NOBODY,
        "certainty": None,
        "device_count": len(devices) if seen.problem is None else None,
        "devices": devices,
        "foretold": _foretold(comparison.prediction),
        "verdict": comparison.verdict,
        "reason": comparison.reason.text(),
        "held": [],
        "machine": _machine(machine),
        "versions": dict(seen.versions),
        "simulated": seen.simulated,
        "problems": [seen.problem.text()] if seen.problem else [],
        "uses": None,
    }


# --- parts -----------------------------------------------------------------------------------------------------------


def _head(what: str, env: Mapping[str, str], time: str = "") -> Line:
    return {
        MARK: SCHEMA,
        "what": what,
        "time": time or datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "host": platform.node() or None,
        "pid": os.getpid(),
        "user": user_name(),
        "job": job_of(SystemView(os.getpid(), environ=FrozenDict(env))),
        "rank": rank_of(env),
        "local_rank": rank_of(env, _LOCAL_RANKS),
        "world_size": rank_of(env, _SIZES),
        "cuda_visible_devices": env.get(CUDA_VISIBLE_DEVICES),
        "cuda_device_order": env.get(CUDA_DEVICE_ORDER),
        "env": dict(env),
    }


def _told(driver: DriverView | None, prediction: Prediction | None, machine: Topology | None) -> Line:
    foretold = _foretold(prediction)
    if driver is not None and driver.state == STARTED:
        verdict, reason = _judged(prediction, driver)
        devices = [_device(device, machine) for device in driver.devices]
        who, certainty = DRIVER, None
    elif prediction is not None and prediction.processes:
        verdict, reason, who, certainty = None, None, PREDICTION, str(prediction.certainty)
        devices = _predicted(prediction)
    else:
        verdict, reason, who, certainty, devices = None, None, NOBODY, None, []
    return {
        "told_by": who,
        "certainty": certainty,
        "device_count": None if who == NOBODY else len(devices),
        "devices": devices,
        "foretold": foretold,
        "verdict": verdict,
        "reason": reason,
    }


def _judged(prediction: Prediction | None, driver: DriverView) -> tuple[str | None, str | None]:
    """Whether the driver shows what the variables of now lead to."""
    if prediction is None or not prediction.processes:
        return None, None
    env = prediction.processes[0].env
    seen = Observation(driver.devices, env=env, wanted_env=env, simulated=driver.simulated)
    result = compare(prediction, seen)
    return result.verdict, result.reason.text()


def _foretold(prediction: Prediction | None) -> list[str | None]:
    shown = prediction.processes[0].devices if prediction and prediction.processes else ()
    return [device.mig.uuid if device.mig else device.gpu.uuid for device in shown]


def _predicted(prediction: Prediction) -> list[Line]:
    return [
        {
            "ordinal": device.ordinal,
            "uuid": device.mig.uuid if device.mig else device.gpu.uuid,
            "pci_bus_id": device.gpu.pci_bus_id,
            "name": device.gpu.name,
            "memory_mib": device.mig.memory_mib if device.mig else device.gpu.memory_mib,
            "nvml_index": device.gpu.nvml_index,
            "certainty": str(device.certainty),
        }
        for device in prediction.processes[0].devices
    ]


def _device(device: ObservedDevice, machine: Topology | None) -> Line:
    """A device that a witness showed; its UUID with the prefix that NVML gives it, its nvidia-smi number by that."""
    place = place_of(device, machine)
    index = machine.gpus[place].nvml_index if machine and place is not None else None
    return {
        "ordinal": device.ordinal,
        "uuid": full_uuid(device, machine),
        "pci_bus_id": device.pci_bus_id,
        "name": device.name,
        "memory_mib": device.memory_mib,
        "nvml_index": index,
    }


def _machine(machine: Topology | None) -> list[Line] | None:
    """All GPUs as NVML shows them, whatever the list hides; None where it does not answer."""
    if machine is None:
        return None
    names = ("nvml_index", "uuid", "pci_bus_id", "name", "memory_mib", "problem")
    return [{name: getattr(gpu, name) for name in names if getattr(gpu, name) is not None} for gpu in machine.gpus]


def _held(machine: Topology | None, root: Path) -> list[Line]:
    """What this process has on which GPU already, as NVML shows it; nothing where its numbers are not ours."""
    if machine is None or not (machine.simulated or numbers_are_ours(root)):
        return []
    rows = [row for row in processes(machine, root=root).processes if row.pid == os.getpid()]
    return [
        {
            "uuid": row.mig_uuid or row.gpu_uuid,
            "nvml_index": machine.gpus[row.position].nvml_index,
            "memory_mib": row.memory_mib,
        }
        for row in rows
    ]


def _uses(line: Line, driver: DriverView | None) -> Line | None:
    """Which of its devices the process uses, and what tells that; None where nothing does."""
    devices: Sequence[Line] = line["devices"]
    torch = sys.modules.get("torch")
    held = {row["uuid"] for row in line["held"]}
    holding = [device["ordinal"] for device in devices if device["uuid"] in held]
    rank = line["local_rank"]
    if driver is not None and driver.current is not None:
        return {"ordinals": [driver.current], "by": "current context"}
    if line["told_by"] == DRIVER and torch is not None and torch.cuda.is_initialized():
        return {"ordinals": [torch.cuda.current_device()], "by": "torch.cuda.current_device"}
    if holding:
        return {"ordinals": holding, "by": "nvml"}
    if len(devices) == 1:
        return {"ordinals": [0], "by": "only device"}
    if rank is not None and rank < len(devices):
        return {"ordinals": [rank], "by": "local rank, by convention"}
    return None


def _versions(machine: Topology | None, driver: DriverView | None) -> dict[str, str]:
    torch = sys.modules.get("torch")
    found: dict[str, str | None] = {"python": platform.python_version()}
    if torch is not None and hasattr(torch, "__version__"):
        found |= {"torch": str(torch.__version__), "cuda": getattr(getattr(torch, "version", None), "cuda", None)}
    else:
        found |= torch_versions()
    found |= {"driver": machine.driver_version if machine else None, "driver_cuda": driver.cuda if driver else None}
    return {name: value for name, value in found.items() if value}
