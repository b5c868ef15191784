"""Share codes: there and back, short, readable for ever, hostile ones refused."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.errors import UnreadableScenario
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.sources import share
from gpumap_widgets.sources.presets import PRESETS, preset
from gpumap_widgets.sources.scenes import SCENES
from gpumap_widgets.sources.share import scenario_from_code, share_code
from tests.conftest import MIXED, equal, split

KEPT = {
    "gm1-ApJZ6EMWrgUA": Scenario(MIXED),
}
"""Codes that were given out: they must be read for ever."""


@pytest.mark.parametrize("key", SCENES)
def test_an_example_there_and_back(key: str) -> None:
    scenario = SCENES[key].scenario()
    assert scenario_from_code(share_code(scenario)) == scenario


@pytest.mark.parametrize("machine", [equal(16), split(), *(preset(key) for key in PRESETS)], ids=str)
def test_a_machine_there_and_back(machine: object) -> None:
    scenario = Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": "é“\x1b,0", "CUDA_DEVICE_ORDER": ""})
    assert scenario_from_code(f"  {share_code(scenario)}\n") == scenario


def test_codes_are_short() -> None:
    assert len(share_code(Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2"}))) < 80
    assert len(share_code(Scenario(equal(8)))) < 700


@pytest.mark.parametrize("code", KEPT)
def test_codes_that_were_given_out_stay_readable(code: str) -> None:
    assert scenario_from_code(code) == KEPT[code]


def _code(packed: bytes) -> str:
    body = base64.urlsafe_b64encode(zlib.crc32(packed).to_bytes(4, "big") + packed).rstrip(b"=")
    return "gm1-" + body.decode()


def _packed(text: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, 0, share._WORDS_1.encode())
    return packer.compress(text) + packer.flush()


@pytest.mark.parametrize(
    "code",
    [
        "",
        "gm1-",
        "gm9-abc",
        "gm1-é",
        "gm1-****",
        "gm1-" + "A" * 30_000,
        _code(b"nonsense"),
        _code(_packed(b"[]")),
        _code(_packed(b"5")),
        _code(_packed(b"{")),
        _code(_packed(b"{}")),
        _code(_packed(b'{"p":"nobody"}')),
        _code(_packed(b'{"p":["mixed"]}')),
        _code(_packed(b'{"p":"mixed","layers":5}')),
        _code(_packed(b'{"p":"mixed","layers":[5]}')),
        _code(_packed(b'{"topology":{"gpus":[{"nvml_index":"x"}]}}')),
        _code(_packed(b'{"p":"mixed","layers":' + b"[" * 100_000)),
        _code(_packed(b" " * 5_000_000)),
        _code(_packed(b"{}") + b"more"),
    ],
)
def test_hostile_codes_are_refused(code: str) -> None:
    with pytest.raises(UnreadableScenario):
        scenario_from_code(code)


@given(st.data())
def test_a_mistyped_code_is_refused(data: st.DataObject) -> None:
    code = share_code(Scenario(MIXED, (Layer("torchrun", {"nproc": "4"}),)))
    at = data.draw(st.integers(4, len(code) - 1))
    letter = data.draw(st.sampled_from("ABCxyz019-_"))
    wrong = code[:at] + letter + code[at + 1 :]
    if base64.urlsafe_b64decode(wrong[4:] + "==") != base64.urlsafe_b64decode(code[4:] + "=="):
        with pytest.raises(UnreadableScenario):
            scenario_from_code(wrong)
