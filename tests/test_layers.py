"""Every kind of layer has a case with its source."""

from __future__ import annotations

import importlib
from pathlib import Path

from gpumap_widgets.layers import LAYERS
from gpumap_widgets.texts import sentences
from tests.layer_cases import Case

PLAIN = {"environment", "unreadable", "jobs"}
"""Kinds that have their tests elsewhere."""


def cases() -> list[Case]:
    """The cases of every family."""
    names = [p.stem for p in Path(__file__).parent.glob("test_*.py") if "layer_cases import" in p.read_text("utf-8")]
    modules = [importlib.import_module(f"tests.{name}") for name in names if name != "test_layers"]
    return [case for module in modules for case in module.CASES]


def test_every_row_has_a_case_and_a_source() -> None:
    assert set(LAYERS) - PLAIN - {case.kind for case in cases()} == set(), "a row of the table without a case"
    assert all(row.source for row in LAYERS.values())


def test_every_family_is_a_stage_with_a_heading() -> None:
    assert {f"stage.{row.family}" for row in LAYERS.values()} <= set(sentences("en"))
