"""From the facts that the probe states to an `Observation`: which devices there were, or why there is no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..frozen import FrozenDict
from ..identity import bare_uuid
from ..mapping import Message, Observation, ObservedDevice, message
from ..scenario import CUDA_VISIBLE_DEVICES
from .environment import read_back

Facts = Mapping[str, Any]

NO_DEVICE = 100
CUINIT = {
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}
"""Codes of cuInit by their names in ``cuda.h``."""
_ADVISED = frozenset({34, 101, 304, 802, 803, 804, 999})
"""Codes with a sentence of their own, ``live.cuinit-N``."""


class NoAnswerError(Exception):
    """A run ends without an answer; ``problem`` says why."""

    def __init__(self, key: str, **fields: Any) -> None:
        super().__init__(key)
        self.problem = message(key, **fields)


def observation_from(
    facts: Facts | Message, *, wanted: Mapping[str, str], started: str, total: float, **frame: Any
) -> Observation:
    """What a run found out. ``facts`` from a program, or a message that says why there are none; ``frame``: further
    fields of the observation.
    """
    frame |= {"wanted_env": FrozenDict(wanted), "started": started}
    seconds = {"total": total}
    if isinstance(facts, Message):
        return Observation(problem=facts, seconds=FrozenDict(seconds), **frame)
    try:
        torch = facts.get("torch") or {}
        versions = {
            "python": facts["python"],
            "torch": torch.get("version"),
            "cuda": torch.get("cuda"),
            "driver": facts.get("driver"),
        }
        seconds |= {k: float(v) for k, v in facts["seconds"].items()}
        return Observation(
            devices=tuple(_device(row) for row in facts["devices"]),
            problem=problem_in(facts),
            env=read_back(facts["env"], wanted),
            versions=FrozenDict({k: str(v) for k, v in versions.items() if v is not None}),
            seconds=FrozenDict(seconds),
            simulated=bool(facts["simulated"]),
            present=_present(facts),
            container=facts.get("container"),
            **frame,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        problem = Message("live.unreadable", FrozenDict({"error": f"{type(exc).__name__}: {exc}"}))
        return Observation(problem=problem, seconds=FrozenDict({"total": total}), **frame)


def _device(row: Facts) -> ObservedDevice:
    capability = row["capability"]
    return ObservedDevice(
        ordinal=int(row["ordinal"]),
        uuid=row["uuid"],
        name=row["name"],
        pci_bus_id=row["pci"],
        memory_mib=row["memory_mib"],
        compute_capability=None if capability is None else (int(capability[0]), int(capability[1])),
    )


def _present(facts: Facts) -> tuple[tuple[str | None, str | None], ...] | None:
    rows: Sequence[Sequence[str | None]] | None = facts.get("present")
    if rows is None:
        return None
    return tuple((None if uuid is None else bare_uuid(uuid), address) for uuid, address in rows)


def problem_in(facts: Facts) -> Message | None:
    """Why the facts are no answer; None when they are one. No device at all is an answer only when it is known that
    the list hides some: CUDA_VISIBLE_DEVICES was set and NVML, which does not read it, shows GPUs.

    In the order in which things can go wrong: torch, its build, the driver library, cuInit, torch on top of it. Facts
    of the driver alone have no torch in them.
    """
    asked_torch = "torch" in facts or "torch_error" in facts
    return (_torch_problem(facts) if asked_torch else None) or _driver_problem(facts, asked_torch=asked_torch)


def _torch_problem(facts: Facts) -> Message | None:
    executable = facts["executable"]
    if "torch_error" in facts:
        kind, text, missing = facts["torch_error"]
        if missing:
            return message("live.no-torch", executable=executable)
        return message("live.broken-torch", executable=executable, error=f"{kind}: {_first_line(text)}")
    torch = facts["torch"]
    if not torch["built"]:
        key = "live.rocm-build" if torch.get("hip") else "live.cpu-build"
        return message(key, executable=executable, version=torch["version"])
    return None


def _driver_problem(facts: Facts, *, asked_torch: bool) -> Message | None:
    if facts["devices"]:
        return None
    if not facts["libcuda"]:
        error = facts.get("libcuda_error")
        return message("live.driver-broken", error=_first_line(error)) if error else message("live.no-driver")
    code = facts["cuinit"]
    if code == 0 and facts["count"] and asked_torch:  # the driver is content, torch is not
        return _torch_failed(facts)
    if code == 0 and "call_error" in facts:
        call, code, name = facts["call_error"]
        return message("live.driver-call", call=call, code=code, name=name)
    if code in (0, NO_DEVICE):
        return _no_device(facts)
    name = CUINIT.get(code) or facts.get("cuinit_name", "?")
    if code in _ADVISED:
        return message(f"live.cuinit-{code}", code=code, name=name)
    return message("live.cuinit", code=code, name=name)


def _torch_failed(facts: Facts) -> Message:
    torch, driver = facts["torch"], facts.get("driver_cuda")
    if _major(driver) < _major(torch["cuda"]):
        return message("live.old-driver", driver=driver, cuda=torch["cuda"])
    kind, text = facts.get("cuda_error") or ("", "")
    return message("live.torch-failed", error=f"{kind}: {_first_line(text)}")


def _no_device(facts: Facts) -> Message | None:
    """The driver says 100 for an empty list just as for an empty machine: NVML tells them apart."""
    present, listed = facts.get("present"), CUDA_VISIBLE_DEVICES in facts["env"]
    if present is None:
        return message("live.no-device-unclear" if listed else "live.no-device")
    if not present:
        return message("live.no-device")
    if listed and any(uuid for uuid, _ in present):
        return None
    return message("live.not-opened", count=len(present))


def _major(version: str | None) -> int:
    head = (version or "").split(".")[0]
    return int(head) if head.isdigit() else 0


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:300]
