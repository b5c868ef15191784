"""A recording as plain data for JSON, and back: every field is checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnreadableTopology
from ..frozen import FrozenDict
from ..mapping import WITNESSES, Message, Observation, ObservedDevice, message
from ..resolver import resolve
from ..scenario import Layer, Scenario, asdict_topology
from ..sources.capsule.reading import topology_of
from ..sources.checked import OddData, Spec, fields_of, is_time, list_of, object_of, value_of, wrong
from ..texts import say, sentences
from .value import MARK, SCHEMA, Recording

_HEAD: Mapping[str, Spec] = {
    **dict.fromkeys(("recorded", "release", "mask", "verdict"), 64),
    "host": 255,
    "user": 255,
    "reason": 65_536,
}
_DEVICE: Mapping[str, Spec] = {
    "ordinal": range(4096),
    "uuid": 128,
    "name": 256,
    "pci_bus_id": 64,
    "memory_mib": range(2**40),
}
_SEEN: Mapping[str, Spec] = {
    "started": 64,
    "kernel_name": 256,
    "simulated": bool,
    "witness": 16,
    "rank": range(2**20),
    "local_rank": range(2**20),
    "container": 64,
    "warm": bool,
}
_MOST_OTHERS = 4096
_VALUE, _DEEPEST = 131_072, 8


def plain_recording(one: Recording) -> dict[str, Any]:
    """The recording as `recording_from` reads it."""
    scenario = one.prediction.scenario
    return {
        MARK: SCHEMA,
        **{name: getattr(one, name) for name in _HEAD if getattr(one, name) is not None},
        "foretold": list(one.foretold),
        "topology": asdict_topology(scenario.topology),
        "layers": [layer.to_dict() for layer in scenario.layers],
        "observation": _plain_observation(one.observation),
    }


def _plain_observation(seen: Observation) -> dict[str, Any]:
    told = {name: getattr(seen, name) for name in _SEEN}
    return {
        **{name: value for name, value in told.items() if value is not None},
        **{name: dict(getattr(seen, name)) for name in ("env", "wanted_env", "versions", "seconds")},
        "devices": [dict(device.__dict__) for device in seen.devices],
        "present": None if seen.present is None else [list(pair) for pair in seen.present],
        "problem": _plain_message(seen.problem) if seen.problem else None,
        "ran": list(seen.ran),
        "notes": [_plain_message(note) for note in seen.notes],
        "others": [_plain_observation(other) for other in seen.others],
    }


def _plain_message(one: Message) -> dict[str, Any]:
    """With its sentence: a later release may not have that key any more."""
    fields = {k: _plain_message(v) if isinstance(v, Message) else _plain_field(v) for k, v in one.fields.items()}
    return {"key": one.key, "fields": fields, "text": one.text()}


def _plain_field(value: object) -> object:
    return value if value is None or isinstance(value, str | int) else str(value)


def recording_from(data: dict[str, Any]) -> Recording:
    """A recording from plain data. Raises OddData."""
    version = data.get(MARK)
    if type(version) is not int or version < 1:
        raise OddData(say("recording.no-version"))
    if version > SCHEMA:
        raise OddData(say("evidence.newer", version=version, known=SCHEMA))
    head = fields_of(data, _HEAD, "")
    if not is_time(head.get("recorded", "")):
        raise wrong("recorded", data.get("recorded"), say("capsule.wanted.time"))
    try:
        topology = topology_of(object_of(data.get("topology"), "topology"))
        rows = list_of(data.get("layers"), "layers", 64)
        layers = tuple(Layer.from_dict(object_of(row, at)) for at, row in rows)
    except UnreadableTopology as exc:
        raise OddData(exc.message.rstrip(".")) from exc
    except RecursionError as exc:
        raise OddData(say("capsule.too-deep")) from exc
    except (TypeError, KeyError) as exc:
        raise OddData(say("recording.no-layer", error=str(exc)[:200])) from exc
    uuids = (None if uuid is None else value_of(uuid, 128, at) for at, uuid in _rows(data, "foretold", 4096))
    seen = _observation(object_of(data.get("observation"), "observation"), "observation")
    return Recording(resolve(Scenario(topology, layers)), seen, **head, foretold=tuple(uuids))


def _rows(data: Mapping[str, Any], name: str, limit: int) -> list[tuple[str, Any]]:
    return [] if data.get(name) is None else list_of(data[name], name, limit)


def _observation(data: dict[str, Any], at: str, *, alone: bool = False) -> Observation:
    """What one witness said; what others said beside it, where it does not stand ``alone``."""
    given: dict[str, Any] = {name: _texts(data, name) for name in ("env", "wanted_env", "versions")}
    given |= fields_of(data, _SEEN, at)
    if given.get("witness", WITNESSES[0]) not in WITNESSES:
        raise wrong(f"{at}.witness", given["witness"], say("recording.witness", known=", ".join(WITNESSES)))
    seconds = {
        name: float(value)
        for name, value in object_of(data.get("seconds") or {}, "seconds").items()
        if type(value) in (int, float)
    }
    present = None
    if data.get("present") is not None:
        present = tuple(_pair(row, here) for here, row in list_of(data["present"], "present", 4096))
    problem = data.get("problem")
    others = () if alone else _rows(data, "others", _MOST_OTHERS)
    return Observation(
        devices=tuple(_device(object_of(row, here), here) for here, row in _rows(data, "devices", 4096)),
        problem=None if problem is None else _message(problem, "problem"),
        seconds=FrozenDict(seconds),
        present=present,
        ran=tuple(value_of(kind, 64, here) for here, kind in _rows(data, "ran", 64)),
        notes=tuple(_message(note, here) for here, note in _rows(data, "notes", 64)),
        others=tuple(_observation(object_of(row, here), here, alone=True) for here, row in others),
        **given,
    )


def _texts(data: Mapping[str, Any], name: str) -> FrozenDict[str, str]:
    table = object_of(data.get(name) or {}, name)
    return FrozenDict({key: value_of(value, _VALUE, f"{name}.{key}") for key, value in table.items()})


def _device(row: dict[str, Any], at: str) -> ObservedDevice:
    told: dict[str, Any] = dict.fromkeys(_DEVICE) | fields_of(row, _DEVICE, at)
    if told["ordinal"] is None:
        raise OddData(say("capsule.missing", where=f"{at}.ordinal"))
    pair = row.get("compute_capability")
    if pair is not None:
        numbers = [value_of(number, range(1000), here) for here, number in list_of(pair, f"{at}.compute_capability", 2)]
        if len(numbers) != 2:
            raise wrong(f"{at}.compute_capability", pair, say("capsule.wanted.pair"))
        pair = (numbers[0], numbers[1])
    return ObservedDevice(**told, compute_capability=pair)


def _pair(row: Any, at: str) -> tuple[str | None, str | None]:
    values = [None if value is None else value_of(value, 128, here) for here, value in list_of(row, at, 2)]
    if len(values) != 2:
        raise wrong(at, row, say("capsule.wanted.list", limit=2))
    return values[0], values[1]


def _message(data: Any, at: str, depth: int = 0) -> Message:
    """A message by its key, where this release can say it with these fields; else the sentence of that day."""
    row = object_of(data, at)
    told = fields_of(row, {"key": 200, "text": _VALUE}, at)
    if depth > _DEEPEST:
        raise OddData(say("capsule.too-deep"))
    fields: dict[str, Any] = {}
    for name, value in object_of(row.get("fields") or {}, f"{at}.fields").items():
        where = f"{at}.fields.{name}"
        if isinstance(value, dict):
            fields[name] = _message(value, where, depth + 1)
        elif type(value) is int or value is None:
            fields[name] = value
        else:
            fields[name] = value_of(value, _VALUE, where)
    found = Message(told.get("key", ""), FrozenDict(fields))
    try:
        if found.key in sentences("en"):
            found.text()
            return found
    except (KeyError, IndexError, ValueError):
        pass
    return message("recording.said", text=told.get("text", ""))
