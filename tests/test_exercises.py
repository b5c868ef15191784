"""Exercises: every generator asks what its misconception gets wrong, and a wrong answer is explained by it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.exercises import (
    Exercise,
    NoExercise,
    exercise,
    jupyterquiz,
    results,
    sheet,
)
from gpumap_widgets.misconceptions import LIST, MISCONCEPTIONS
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.sources.presets import PRESETS, preset
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED, equal

SEEDS = range(25)


@pytest.mark.parametrize("code", MISCONCEPTIONS)
def test_the_misconception_gives_a_wrong_answer_that_is_explained_by_it(code: str) -> None:
    for seed in SEEDS:
        one = exercise(code, seed, MIXED)
        thought = one._thought(code)
        assert thought is not None
        grade = one.check(thought)
        assert (grade.correct, grade.misconception) == (False, code)
        assert grade.said.key == f"exercise.wrong.{code}"
        assert str(grade)
        assert one.prompt.text()


@pytest.mark.parametrize("code", MISCONCEPTIONS)
def test_the_right_answer_is_the_models_and_sure(code: str) -> None:
    for seed in SEEDS:
        one = exercise(code, seed, MIXED)
        assert one.check(one.answer).correct
        assert one.check(f" {one.answer} ").correct
        prediction = resolve(one.scenario)
        assert prediction.certainty in ("certain", "likely")
        if one.kind == LIST:
            after = resolve(one.scenario.with_env(CUDA_VISIBLE_DEVICES=one.answer))
            assert after.processes[0].devices[one.ordinal].position == one.target
        elif one.kind == "count":
            assert one.answer == str(len(prediction.processes[one.worker].devices))
        else:
            found = prediction.processes[one.worker].nvml_indices
            assert one.answer == (str(found[one.ordinal]) if one.ordinal < len(found) else "none")


def test_a_seed_gives_the_same_sheet_and_another_seed_another() -> None:
    assert sheet(MIXED, 18, 7) == sheet(MIXED, 18, 7)
    assert sheet(MIXED, 18, 7) != sheet(MIXED, 18, 99)


def test_a_sheet_has_every_misconception_in_turn() -> None:
    assert Counter(one.misconception for one in sheet(MIXED, 18)) == dict.fromkeys(MISCONCEPTIONS, 2)
    assert {one.misconception for one in sheet(MIXED, 9, misconceptions=["repeat", "cut"])} == {"repeat", "cut"}


@pytest.mark.parametrize("key", PRESETS)
def test_every_preset_has_exercises(key: str) -> None:
    assert len(sheet(preset(key), 12)) == 12


def test_equal_gpus_have_no_exercise_on_order() -> None:
    with pytest.raises(NoExercise, match="order"):
        exercise("order", 0, equal(4))
    with pytest.raises(NoExercise):
        sheet(Topology(), 5)


def test_a_tutorials_case() -> None:
    one = Exercise("order", 0, Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2"}), "which", 0)
    assert (one.answer, one.check("0").correct, one.check("1").misconception) == ("0", True, "order")
    assert one.check("3").misconception is None
    assert "Right is: 0" in str(one.check("3"))


@given(st.sampled_from(sorted(MISCONCEPTIONS)), st.integers(0, 10**6), st.text(max_size=40))
def test_any_text_is_an_answer(code: str, seed: int, answer: str) -> None:
    assert str(exercise(code, seed, MIXED).check(answer))


def test_results_of_a_class() -> None:
    paper = sheet(MIXED, 9)
    right, wrong = [one.answer for one in paper], [one._thought(one.misconception) or "" for one in paper]
    rows = results(paper, {"Ada": right, "Bo": wrong})
    assert [row["correct"] for row in rows] == [True] * 9 + [False] * 9
    assert {row["misconception"] for row in rows[9:]} == set(MISCONCEPTIONS)


def test_export_as_jupyterquiz() -> None:
    quiz = jupyterquiz(sheet(MIXED, 18))
    assert json.loads(json.dumps(quiz)) == quiz
    for question in quiz:
        assert sum(answer["correct"] for answer in question["answers"]) == 1
        assert all(answer["feedback"] for answer in question["answers"])
