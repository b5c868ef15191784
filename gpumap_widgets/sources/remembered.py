"""CUDA's default order as it was measured on this machine, kept in the user's cache directory.

NVIDIA documents no rule for the default order, so what a run showed is worth more than any prediction. It is kept by the
set of UUIDs and the driver's version, holds only while every board is at the address that it had then, and what a
simulated driver showed is kept apart. One small file a machine, replaced as a whole; a file that is no sound record counts
for nothing. GPUMAP_CACHE_DIR names another directory; set to nothing it turns this off.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..device_order import FASTEST_FIRST
from ..identity import PciBusId, bare_uuid
from ..mapping import Observation
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..topology import Topology
from .checked import OddData, is_time, list_of, object_in, value_of
from .files import replace_file

CACHE_DIR = "GPUMAP_CACHE_DIR"
"""The variable that names the directory instead of the user's own."""
_MARK, _SCHEMA = "gpumap_order", 1
_LIMIT = 256 * 1024
_ALL_BY_NUMBER = re.compile(r"(0|[1-9]\d{0,3})(,(0|[1-9]\d{0,3}))*", re.ASCII)


def remember(observation: Observation, topology: Topology) -> bool:
    """Keep the default order that a run on ``topology`` showed; whether there was one to keep, and a place for it.

    It shows one where CUDA_DEVICE_ORDER was unset or FASTEST_FIRST, nothing was hidden, and each usable GPU answered with
    its UUID. Never raises: a cache that cannot be written is none.
    """
    order = _shown(observation, topology)
    driver = observation.versions.get("driver") or topology.driver_version
    path = _path((uuid for uuid, _ in order), driver, simulated=observation.simulated) if order else None
    if path is None or driver is None or (topology.driver_version or driver) != driver:
        return False
    data = {
        _MARK: _SCHEMA,
        "measured": observation.started,
        "driver": driver,
        "simulated": observation.simulated,
        "order": [{"uuid": uuid, "pci": str(pci) if pci else None} for uuid, pci in order],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(data, indent=1))
    except OSError:
        return False
    return True


def recall(topology: Topology) -> Topology:
    """The same machine with the default order that was measured on it and the date; unchanged where none was, or where a
    source has told one already. Never raises.
    """
    places = {bare_uuid(gpu.uuid): i for i, gpu in enumerate(topology.gpus) if gpu.uuid and gpu.problem is None}
    if topology.default_order is not None or len(places) < max(2, len(topology.usable)):
        return topology
    path = _path(places, topology.driver_version, simulated=topology.simulated)
    try:
        text = path.read_bytes()[: _LIMIT + 1].decode() if path else ""
        data = object_in(text, _LIMIT, _MARK)
        measured = value_of(data.get("measured"), 64, "measured")
        rows = [_row(row) for _, row in list_of(data.get("order"), "order", len(places))]
    except (OSError, UnicodeError, OddData):
        return topology
    if data.get(_MARK) != _SCHEMA or not is_time(measured) or {uuid for uuid, _ in rows} != set(places):
        return topology
    if any(pci != topology.gpus[places[uuid]].pci for uuid, pci in rows):
        return topology  # a board is in another slot: equal ones may have changed places
    order = tuple(places[uuid] for uuid, _ in rows)
    return replace(topology, default_order=order, default_order_measured=True, default_order_date=measured)


def _row(row: Any) -> tuple[str, PciBusId | None]:
    if not isinstance(row, dict) or not isinstance(row.get("uuid"), str):
        raise OddData("order")
    return row["uuid"], PciBusId.parse(row["pci"]) if isinstance(row.get("pci"), str) else None


def _shown(seen: Observation, topology: Topology) -> list[tuple[str, PciBusId | None]]:
    """UUID (bare) and address of each usable GPU in CUDA's default order; [] where the run does not show that."""
    env, gpus = seen.env, topology.gpus
    here = {bare_uuid(gpu.uuid or ""): gpu.pci for gpu in gpus if gpu.problem is None}
    uuids = [device.uuid for device in seen.devices]
    told = seen.problem is None and is_time(seen.started) and env.get(CUDA_DEVICE_ORDER) in (None, FASTEST_FIRST)
    remapped = any(name.startswith("CUDA_MPS_") for name in env)  # the server's order then, not this process's
    if not told or remapped or len(uuids) < 2 or len(here) < len(topology.usable) or set(uuids) != set(here):
        return []
    if len(set(uuids)) < len(uuids) or any(gpu.mig_mode for gpu in gpus):
        return []
    value = env.get(CUDA_VISIBLE_DEVICES)
    if value is not None:
        numbers = [int(n) for n in value.split(",")] if _ALL_BY_NUMBER.fullmatch(value) else []
        if sorted(numbers) != list(range(len(uuids))):
            return []
        uuids = [uuid for _, uuid in sorted(zip(numbers, uuids, strict=True))]
    return [(uuid, here[uuid]) for uuid in uuids if uuid is not None]


def _path(uuids: Iterable[str], driver: str | None, *, simulated: bool) -> Path | None:
    """The file of a machine; None where nothing is kept."""
    folder = os.environ.get(CACHE_DIR)
    if not driver or folder == "":
        return None
    if folder is None:
        from platformdirs import user_cache_path

        folder = str(user_cache_path("gpumap", appauthor=False))
    key = json.dumps([sorted(uuids), driver, simulated])
    kind = "simulated" if simulated else "measured"
    return Path(folder) / "orders" / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
