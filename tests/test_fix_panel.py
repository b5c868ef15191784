"""What to type for a wanted map, applied and taken back; error messages in the explorer; without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gpumap_widgets as gm
from gpumap_widgets.widgets.explorer import _TABS


@pytest.fixture
def explorer() -> Iterator[Any]:
    e = gm.Explorer(gm.preset("mixed"))
    e._tabs.selected_index = _TABS.index("fix")
    yield e
    e.close()


def test_the_box_begins_with_the_map_that_is_shown(explorer: Any) -> None:
    assert list(explorer._fix.want.value) == ["1: RTX 4090", "0: Tesla T4", "2: Tesla T4", "3: Tesla T4"]
    explorer._controls["machine"].widget.value = "eight"
    assert len(explorer._fix.want.value) == 8


def test_texts_follow_what_is_wanted(explorer: Any) -> None:
    explorer._fix.want.value = ["2: Tesla T4", "1: RTX 4090"]
    shown = explorer._fix.texts.value
    assert "CUDA_VISIBLE_DEVICES=GPU-c2e1af00" in shown
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,1 python train.py" in shown
    assert shown.count("gpumap-certain") == 2
    explorer._fix.want.value = []
    assert "No GPU is wanted" in explorer._fix.texts.value
    assert explorer._fix.apply.disabled


def test_a_text_is_applied_and_taken_back(explorer: Any) -> None:
    before = explorer._store.state
    assert explorer._fix.undo.disabled
    explorer._fix.want.value = ["2: Tesla T4", "1: RTX 4090"]
    explorer._fix.via.value = "torchrun"
    explorer._fix.apply.click()
    assert [p.nvml_indices for p in explorer.prediction.processes] == [(2, 1), (2, 1)]
    assert explorer._command.text.value.endswith("torchrun --nproc-per-node=2 train.py")
    assert "Before: cuda:0 = RTX 4090" in explorer._html["expected"].value
    explorer._fix.undo.click()
    assert explorer.scenario == before.scenario
    assert explorer._command.text.value == ""
    assert explorer._fix.undo.disabled


def test_an_edit_in_between_ends_the_way_back(explorer: Any) -> None:
    explorer._fix.apply.click()
    explorer._controls["raw"].widget.value = "0"
    assert explorer._fix.undo.disabled


def test_an_error_message_is_read_in_this_scenario(explorer: Any) -> None:
    explorer._fix.error.value = "CUDA out of memory. GPU 0 has a total capacity of 23.65 GiB <img src=x>"
    assert "RTX 4090 at 86:00.0" in explorer._fix.reading.value
    assert "<img" not in explorer._fix.reading.value
    explorer._controls["raw"].widget.value = "1"
    assert "not that of the card" in explorer._fix.reading.value
    explorer._fix.error.value = "Segmentation fault"
    assert "No message here" in explorer._fix.reading.value
    explorer._fix.error.value = ""
    assert explorer._fix.reading.value == ""
