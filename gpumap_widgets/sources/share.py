"""A scenario as a short code that can be put into a chat, a ticket or a URL, and back.

``gm1-…``: the scenario's JSON, deflated with a dictionary of words that scenarios are made of, in base64url, behind a
checksum. A machine that is a preset is named, not described. Codes of old versions stay readable: each version is a row.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import UnreadableScenario
from ..scenario import Layer, Scenario, asdict_topology, topology_from_dict
from .presets import PRESETS, preset

_MOST_CODE = 20_000
_MOST_JSON = 1_000_000
_SUM = 4

_WORDS_1 = (
    '"gpumap_scenario""topology""driver_version""platform""windows""wsl""linux""default_order""default_order_measured"'
    '"simulated""notes""mig_instances""mig_mode""profile""gpu_instance_id""compute_instance_id""sm_count":"memory_mib":'
    '"compute_capability":[7,5][8,0][8,6][8,9][9,0][12,0]"pci_bus_id":"00000000:":00.0""uuid":"GPU-MIG-"nvml_index":'
    '"name":"NVIDIA GeForce RTX 3090 NVIDIA GeForce RTX 4090 NVIDIA A100-SXM4-80GB NVIDIA H100 Tesla V100 Tesla T4"'
    '"layers":["kind":"options":"enabled":false"docker""slurm""torchrun""deepspeed""accelerate""jobs":[["environment"'
    '"via":"prefix""export""unset":["set_device":false"nproc":"4""virtual":false"nnodes":1"gpus":"source":"preset “'
    '"set":{"CUDA_DEVICE_ORDER":"PCI_BUS_ID""FASTEST_FIRST"}"CUDA_VISIBLE_DEVICES":"0,1,2,3"{"p":"mixed","l":[{"k":'
)
"""Never changed: codes of version 1 are read with it."""


class _Version(NamedTuple):
    """How codes of one version are packed."""

    prefix: str
    words: bytes


_VERSIONS: tuple[_Version, ...] = (_Version("gm1-", _WORDS_1.encode()),)
"""Newest first."""


def share_code(scenario: Scenario) -> str:
    """The scenario as a code; `scenario_from_code` gives an equal scenario back."""
    version = _VERSIONS[0]
    data: dict[str, Any] = {}
    named = [key for key in PRESETS if preset(key) == scenario.topology]
    if named:
        data["p"] = named[0]
    else:
        data["topology"] = asdict_topology(scenario.topology)
    if scenario.layers:
        data["layers"] = [layer.to_dict() for layer in scenario.layers]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, version.words)
    packed = packer.compress(text) + packer.flush()
    checked = zlib.crc32(packed).to_bytes(_SUM, "big") + packed
    return version.prefix + base64.urlsafe_b64encode(checked).rstrip(b"=").decode()


def scenario_from_code(code: str) -> Scenario:
    """Read what `share_code` wrote, in any version. Raises UnreadableScenario for anything else, with the reason."""
    code = code.strip()
    version = next((one for one in _VERSIONS if code.startswith(one.prefix)), None)
    if version is None or len(code) > _MOST_CODE:
        raise UnreadableScenario("This is no share code.", remedy=f"One begins with {_VERSIONS[0].prefix}.")
    try:
        text = code[len(version.prefix) :].encode("ascii")
        checked = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as exc:
        raise UnreadableScenario("The code holds a character that codes have none of.") from exc
    return _scenario(_unpacked(checked, version))


def _unpacked(checked: bytes, version: _Version) -> Mapping[str, Any]:
    total, packed = checked[:_SUM], checked[_SUM:]
    if zlib.crc32(packed).to_bytes(_SUM, "big") != total:
        raise UnreadableScenario("The code is cut or mistyped.", remedy="Copy it whole.")
    reader = zlib.decompressobj(-15, version.words)
    try:
        text = reader.decompress(packed, _MOST_JSON)
        if reader.unconsumed_tail or not reader.eof or reader.unused_data:
            raise UnreadableScenario("The code holds more than a scenario.")
        data = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as exc:
        raise UnreadableScenario("The code holds no scenario.") from exc
    if not isinstance(data, dict):
        raise UnreadableScenario("The code holds no scenario.")
    return data


def _scenario(data: Mapping[str, Any]) -> Scenario:
    try:
        if "p" in data:
            if data["p"] not in PRESETS:
                raise UnreadableScenario(f"The code names a machine that this version does not know: {data['p']!r}.")
            topology = preset(data["p"])
        else:
            topology = topology_from_dict(data["topology"])
        return Scenario(topology, tuple(Layer.from_dict(row) for row in data.get("layers", ())))
    except UnreadableScenario:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise UnreadableScenario(f"The code holds no scenario: {type(exc).__name__}: {exc}") from exc
