"""A text as a capsule, or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ImpossibleMachine, UnreadableTopology
from ...scenario import topology_from_dict
from ...texts import say
from ...topology import Topology
from ..checked import OddData, Spec, fields_of, is_time, list_of, object_in, object_of, shown, value_of, wrong
from .measured import measurements_of
from .value import HEAD, LIMIT, MARK, SCHEMA, TABLES, Capsule, CapsuleProcess

MOST = 4096
_COUNT, _MIB = range(65_536), range(2**40)
_PLATFORM: Mapping[str, Spec] = {"driver_version": 64, "platform": 16, "source": 1000, "default_order_date": 64}
_FLAGS: Mapping[str, Spec] = {"simulated": bool, "default_order_measured": bool}
_NAMES: Mapping[str, Spec] = {"name": 256, "uuid": 128, "pci_bus_id": 64, "problem": 2000}
_NUMBERS: Mapping[str, Spec] = {"nvml_index": _COUNT, "memory_mib": _MIB, "sm_count": _COUNT}
_PLACE: Mapping[str, Spec] = {"minor_number": range(2**20), "numa_node": range(-1, 2**32), "mig_mode": bool}
_TOPOLOGY = {**_PLATFORM, **_FLAGS}
_GPU = {**_NAMES, **_NUMBERS, **_PLACE}
_INSTANCE: Mapping[str, Spec] = {"gpu_instance_id": _COUNT, "compute_instance_id": _COUNT, "mig_index": _COUNT}
_MIG = {"uuid": 128, "profile": 64, "memory_mib": _MIB, **_INSTANCE}
_PROCESS: Mapping[str, Spec] = {"pid": range(2**32), "gpu": 128, "mig": 128, "nvml_index": _COUNT, "memory_mib": _MIB}

MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version → what turns plain data of that version into the next one. Version 1 is the first and still the current."""


def read_capsule(text: str) -> Capsule:
    """See `Capsule.from_json`."""
    try:
        return capsule_from(_migrated(object_in(text, LIMIT, MARK)))
    except OddData as exc:
        said = say(f"capsule.{exc.kind}", why=exc.why, error=exc.why, limit=LIMIT // 2**20)
        raise UnreadableTopology(said, remedy=say("capsule.remedy")) from exc


def _migrated(data: dict[str, Any]) -> dict[str, Any]:
    """The data in the current version."""
    version = data.get(MARK)
    if type(version) is not int or version < 1:
        raise UnreadableTopology(say("capsule.not-capsule"), remedy=say("capsule.remedy"))
    if version > SCHEMA:
        said = say("capsule.newer", version=shown(version), known=SCHEMA)
        raise UnreadableTopology(said, remedy=say("capsule.remedy-newer"))
    for old in range(version, SCHEMA):
        data = MIGRATIONS[old](data)
    return data


def capsule_from(data: dict[str, Any]) -> Capsule:
    """A capsule from data of the current version. Raises OddData or UnreadableTopology."""
    head = fields_of(data, HEAD, "")
    if "taken" in head and not is_time(head["taken"]):
        raise wrong("taken", data["taken"], say("capsule.wanted.time"))
    tables: dict[str, Any] = {
        name: {key: value_of(value, limit, f"{name}.{key}") for key, value in object_of(data[name], name).items()}
        for name, limit in TABLES.items()
        if data.get(name) is not None
    }
    processes = None
    if data.get("processes") is not None:
        rows = [
            fields_of(object_of(row, at), _PROCESS, at) for at, row in list_of(data["processes"], "processes", 65_536)
        ]
        if missing := [f"processes[{i}].pid" for i, row in enumerate(rows) if "pid" not in row]:
            raise OddData(say("capsule.missing", where=missing[0]))
        processes = tuple(CapsuleProcess(**row) for row in rows)
    if "topology" not in data:
        raise OddData(say("capsule.missing", where="topology"))
    measured = None if data.get("measured") is None else measurements_of(object_of(data["measured"], "measured"))
    machine = topology_of(object_of(data["topology"], "topology"))
    return Capsule(machine, **head, **tables, processes=processes, measured=measured)


def topology_of(data: dict[str, Any]) -> Topology:
    """A machine from plain data, every field checked. Raises OddData or UnreadableTopology."""
    plain = fields_of(data, _TOPOLOGY, "topology")
    gpus = plain["gpus"] = [
        _gpu(object_of(row, at), at) for at, row in list_of(data.get("gpus"), "topology.gpus", 1024)
    ]
    for name, limit, spec in (("notes", MOST, LIMIT), ("default_order", len(gpus), range(len(gpus)))):
        if data.get(name) is not None and data[name] != []:
            plain[name] = [value_of(value, spec, at) for at, value in list_of(data[name], f"topology.{name}", limit)]
    try:
        return topology_from_dict(plain)
    except ImpossibleMachine as exc:
        raise UnreadableTopology(exc.message, remedy=exc.remedy) from exc


def _gpu(data: dict[str, Any], at: str) -> dict[str, Any]:
    plain = fields_of(data, _GPU, at)
    if data.get("compute_capability") is not None:
        where = f"{at}.compute_capability"
        pair = [value_of(number, range(1000), here) for here, number in list_of(data["compute_capability"], where, 2)]
        if len(pair) != 2:
            raise wrong(where, data["compute_capability"], say("capsule.wanted.pair"))
        plain["compute_capability"] = pair
    if data.get("mig_instances") is not None:
        rows = list_of(data["mig_instances"], f"{at}.mig_instances", 256)
        plain["mig_instances"] = [fields_of(object_of(row, here), _MIG, here) for here, row in rows]
    return plain
