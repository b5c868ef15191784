"""What was measured on the machine, as an optional part of a capsule, with a version of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...planning.measured import Measurement, Measurements
from ...planning.ranges import Range
from ...texts import say
from ..checked import OddData, Spec, fields_of, is_time, list_of, object_of, shown, value_of, wrong

SCHEMA = 1
"""Version of this part."""
_HEAD: Mapping[str, Spec] = {"dtype": 32, "taken": 64, "simulated": bool}
_ROW: Mapping[str, Spec] = {"device": 128, "name": 256, "problem": 4000, "others": range(65_536)}
_FIGURES = ("tflops", "copy_gbs", "step_seconds")
_MOST = 1024


def plain(measured: Measurements) -> dict[str, Any]:
    """As data for JSON."""
    rows = []
    for row in measured.rows:
        known = {k: v for k, v in row._asdict().items() if v is not None}
        rows.append({k: list(v) if k in _FIGURES else v for k, v in known.items()})
    head = {name: getattr(measured, name) for name in ("dtype", "seconds", "taken", "simulated")}
    known = {k: v for k, v in head.items() if v is not None}
    return {"version": SCHEMA, **known, "versions": dict(measured.versions), "rows": rows}


def measurements_of(data: dict[str, Any], at: str = "measured") -> Measurements:
    """From plain data, every field checked. Raises OddData; of a newer version too."""
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise wrong(f"{at}.version", version, say("capsule.wanted.whole", low=1, high=SCHEMA))
    if version > SCHEMA:
        raise OddData(say("capsule.newer-part", part=at, version=shown(version), known=SCHEMA))
    head = fields_of(data, _HEAD, at)
    if "taken" in head and not is_time(head["taken"]):
        raise wrong(f"{at}.taken", data["taken"], say("capsule.wanted.time"))
    if data.get("seconds") is not None:
        head["seconds"] = _number(data["seconds"], f"{at}.seconds")
    given = object_of(data.get("versions") or {}, f"{at}.versions")
    versions = {key: value_of(value, 200, f"{at}.versions.{key}") for key, value in given.items()}
    rows = tuple(_row(object_of(row, here), here) for here, row in list_of(data.get("rows"), f"{at}.rows", _MOST))
    return Measurements(rows, versions=versions, **head)


def _row(data: dict[str, Any], at: str) -> Measurement:
    plain_ = fields_of(data, _ROW, at)
    if "device" not in plain_:
        raise OddData(say("capsule.missing", where=f"{at}.device"))
    ranges = {name: _range(data[name], f"{at}.{name}") for name in _FIGURES if data.get(name) is not None}
    return Measurement(**{"name": None, **plain_, **ranges})


def _range(value: Any, at: str) -> Range:
    ends = [_number(end, here) for here, end in list_of(value, at, 2)]
    if len(ends) != 2 or not 0 < ends[0] <= ends[1]:
        raise wrong(at, value, say("capsule.wanted.range"))
    return Range(*ends)


def _number(value: Any, at: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value < 1e15:
        raise wrong(at, value, say("capsule.wanted.number"))
    return float(value)
