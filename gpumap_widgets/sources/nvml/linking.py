"""How the GPUs of a machine reach each other, as nvidia-smi topo prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pynvml  # noqa: TID251 - the one place

from ...identity import PciBusId
from ...texts import say
from ...topology import Topology
from .. import linux
from .asking import ABSENT, Device, Place, bus_id, call, reachable, reason_of, said, session

_LEVELS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t as `nvidia-smi topo -m` prints it."""
_P2P_NVLINK, _P2P_OK = 2, 0  # nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t
_MOST_LINKS = 36


@dataclass(frozen=True)
class LinkMatrix:
    """How the GPUs of a machine reach each other."""

    gpus: tuple[str | None, ...]
    """UUIDs, in the order of the machine's ``gpus``."""
    cells: tuple[tuple[str | None, ...], ...]
    """As nvidia-smi topo prints them: ``X``, ``NV4``, PSB, PIX, PXB, PHB, NODE, SYS; None where NVML does not tell."""
    notes: tuple[str, ...] = ()


def links(machine: Topology, *, root: Path = linux.ROOT) -> LinkMatrix:
    """How those GPUs of ``machine`` that are on this one are linked. Never raises; ``notes`` say what is missing."""
    gpus = machine.gpus
    cells: list[list[str | None]] = [["X" if a == b else None for b in range(len(gpus))] for a in range(len(gpus))]
    notes: list[str] = []
    try:
        with session():
            reached = reachable(machine, notes)
            ends = {i: _nvlinks(place, linux.gpu_called(gpus[i]), notes) for i, place in reached.items()}
            for a, b in combinations(reached, 2):
                cells[a][b] = cells[b][a] = _link(reached, ends, a, b)
            unknown = [
                say("nvml.links-pair", a=linux.gpu_called(gpus[a]), b=linux.gpu_called(gpus[b]))
                for a, b in combinations(reached, 2)
                if cells[a][b] is None
            ]
            if unknown:
                notes.append(say("nvml.links-unknown", pairs="; ".join(unknown)))
    except pynvml.NVMLError as exc:
        notes.append(reason_of(exc, root))
    return LinkMatrix(tuple(gpu.uuid for gpu in gpus), tuple(map(tuple, cells)), tuple(notes))


def _nvlinks(place: Place, called: str, notes: list[str]) -> Counter[PciBusId | None]:
    """How many active NVLinks lead to which address, a GPU's or a switch's; none, with a note, where that is hidden."""
    ends: Counter[PciBusId | None] = Counter()
    for number in range(_MOST_LINKS):
        try:
            if call("nvmlDeviceGetNvLinkState", place.handle, number):
                remote = PciBusId.parse(bus_id(call("nvmlDeviceGetNvLinkRemotePciInfo", place.handle, number)) or "")
                if remote is None or place.address is None:
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
                ends[remote] += 1
        except pynvml.NVMLError as exc:
            if exc.value not in ABSENT:
                notes.append(say("nvml.nvlink-unknown", gpu=called, error=said(exc)))
                return Counter()
    return ends


def _link(places: Mapping[int, Place], ends: Mapping[int, Counter[PciBusId | None]], a: int, b: int) -> str | None:
    """One cell. Links to a switch count where NVML says that the two reach each other over NVLink."""
    direct = max(ends[a][places[b].address], ends[b][places[a].address])
    gpus = {place.address for place in places.values()}
    switched = min(sum(n for end, n in ends[i].items() if end not in gpus) for i in (a, b))
    pair = Device(places[a].handle)
    if direct or (switched and pair.ask("nvmlDeviceGetP2PStatus", places[b].handle, _P2P_NVLINK) == _P2P_OK):
        return f"NV{direct or switched}"
    return _LEVELS.get(pair.ask("nvmlDeviceGetTopologyCommonAncestor", places[b].handle))
