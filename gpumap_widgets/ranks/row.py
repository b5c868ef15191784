"""What one process of a job says of itself: plain data that travels as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..texts import say

SCHEMA = 1
_LONGEST = 1 << 20
_NUMBERS = ("rank", "world_size", "local_rank", "pid", "ordinal", "device_count", "memory_mib", "nvml_index")


@dataclass(frozen=True)
class RankRow:
    """One process of a job and the device that it uses. None where nothing tells."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    worker: str | None = None
    """What its engine calls it, where that is no rank: an address, ``actor 0``."""
    host: str | None = None
    machine: str | None = None
    """What two containers of one host have in common and two hosts do not: Linux's boot id; else the host's name."""
    pid: int | None = None
    """As the process itself sees it; inside a container that is not the host's."""
    cuda_visible_devices: str | None = None
    """None where it is unset, "" where it is set to nothing."""
    cuda_device_order: str | None = None
    ordinal: int | None = None
    """The i of the ``cuda:i`` that it uses."""
    by: str | None = None
    """What tells that ordinal: ``given``, ``current device``, ``memory held``, ``local rank``, ``only device``,
    ``first device``."""
    device_count: int | None = None
    uuid: str | None = None
    """Of the GPU, ``GPU-…``; of a MIG device that of the GPU which it is cut from."""
    mig_uuid: str | None = None
    mig_profile: str | None = None
    pci_bus_id: str | None = None
    name: str | None = None
    memory_mib: int | None = None
    nvml_index: int | None = None
    told_by: str | None = None
    """``torch``; or how sure the prediction is that says so (``certain``, ``likely``, ``guess``, ``unknown``)."""
    simulated: bool = False
    reason: str | None = None
    """Why there is no device in this row; None where there is one."""
    gpus: tuple[tuple[int | None, str | None, str | None, str | None], ...] = ()
    """NVML index, UUID, name and PCI address of every GPU that NVML shows to it, whatever the list hides."""

    @property
    def label(self) -> str:
        """What it is called in a table."""
        return self.worker or (say("jobs.unnamed") if self.rank is None else f"rank {self.rank}")

    @property
    def device(self) -> tuple[str | None, str | None] | None:
        """What tells its device apart from all others of the job: machine and UUID; None where it has none."""
        identity = self.mig_uuid or self.uuid or self.pci_bus_id
        return (self.machine or self.host, identity) if identity else None

    def to_json(self) -> str:
        """The row as JSON text; `row_from_json` gives an equal one back."""
        known = {k: v for k, v in asdict(self).items() if v is not None and v is not False and v != ()}
        return json.dumps({"gpumap_rank": SCHEMA, **known})


def row_from_json(text: str, **otherwise: Any) -> RankRow:
    """Read what `RankRow.to_json` wrote, of another release too: what is not known is left out.

    Anything else gives a row that says so; ``otherwise`` are its other fields.
    """
    try:
        data = json.loads(text) if len(text) <= _LONGEST else None
        if isinstance(data, Mapping) and "gpumap_rank" in data:
            return RankRow(**{name: _sound(name, data[name]) for name in _NAMES if data.get(name) is not None})
    except (ValueError, TypeError, RecursionError):
        pass
    return RankRow(**otherwise, reason=say("ranks.unreadable"))


def _sound(name: str, value: Any) -> Any:
    if name == "gpus":
        return tuple(_gpu(entry) for entry in value)
    kind = bool if name == "simulated" else int if name in _NUMBERS else str
    if type(value) is not kind:
        raise TypeError(name)
    return value


def _gpu(entry: Any) -> tuple[int | None, str | None, str | None, str | None]:
    index, *texts = entry
    if len(texts) != 3 or type(index) not in (int, type(None)) or any(type(t) not in (str, type(None)) for t in texts):
        raise TypeError("gpus")
    return index, texts[0], texts[1], texts[2]


_NAMES = tuple(field.name for field in fields(RankRow))
