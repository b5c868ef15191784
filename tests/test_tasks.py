"""The table of tasks: two forms, what cannot be read, what does not fit a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.errors import UnreadableTasks
from gpumap_widgets.resolver import resolve
from gpumap_widgets.tasks import Task, TaskTable, check_tasks, read_tasks, variables
from tests.conftest import MIXED, SLICES, UUIDS, split

T4, GTX = "GPU-a0e15e00-0000-4000-8000-000000000000", "GPU-b1e18600-0000-4000-8000-000000000001"

CONF = f"""# who gets what
train_a  {GTX}   # the 4090

serve	{T4}, GPU-c2e1af00
"""
TOML = f"""
[train_a]
gpus = ["{GTX}"]
command = "python train.py"
comment = "the 4090"
[train_a.env]
OMP_NUM_THREADS = "4"
[serve]
gpus = ["{T4}", "GPU-c2e1af00"]
"""


def test_both_forms_say_the_same() -> None:
    conf, toml = read_tasks(CONF), read_tasks(TOML)
    assert [(t.name, t.gpus, t.comment) for t in conf.tasks] == [(t.name, t.gpus, t.comment) for t in toml.tasks]
    assert [t.line for t in conf.tasks] == [2, 4]
    assert conf["serve"].gpus == (T4, "GPU-c2e1af00")
    assert toml["train_a"].command == "python train.py"
    assert variables(toml["train_a"]) == {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": GTX}
    with pytest.raises(KeyError):
        conf["nobody"]


def test_a_table_is_a_scenario() -> None:
    prediction = resolve(read_tasks(CONF).scenario(MIXED))
    assert [p.nvml_indices for p in prediction.processes] == [(1,), (0, 2)]
    assert prediction.certainty == "certain"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no task"),
        ("# nothing\n\n", "no task"),
        ("a", "names no GPU"),
        ("a GPU-1,,GPU-2", "names no GPU"),
        ("a 0,1", "no UUID"),
        ("a GPU-1 GPU-2", "no UUID"),
        ("é! GPU-1", "no name"),
        ("a GPU-1\na GPU-2", "2 times"),
        ("[a]\ngpus = 5", "no list"),
        ("[a]\ngpus = [1]", "no text"),
        ("[a]\ngpus = ['GPU-1']\nqueue = 'x'", "queue"),
        ("[a]\ngpus = ['GPU-1'", "no TOML"),
        ("x = 1\n[a]\ngpus = ['GPU-1']", "no table"),
        ("[a]\n", "no list"),
        ("a GPU-1\n" * 200_000, "too long"),
    ],
)
def test_what_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(UnreadableTasks, match=said):
        read_tasks(text)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (CONF, []),
        ("a GPU-ffff", ["task-gpu-unknown"]),
        (f"a {GTX}\nb GPU-b1e1", ["task-gpu-doubled"]),
        (f"a {GTX},{GTX}", ["task-gpu-doubled"]),
        ("a GPU-", ["task-gpu-ambiguous"]),
        (f"a {T4}\nb GPU-zz\nc {T4}", ["task-gpu-unknown", "task-gpu-doubled"]),
    ],
)
def test_against_a_machine(text: str, codes: list[str]) -> None:
    found = check_tasks(read_tasks(text), MIXED)
    assert [finding.code for finding in found] == codes
    assert all(finding.message and finding.remedy and finding.source for finding in found)


def test_a_lost_gpu_and_mig_devices() -> None:
    lost = replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="lost."), *MIXED.gpus[1:]))
    assert [f.code for f in check_tasks(read_tasks(f"a {T4}"), lost)] == ["task-gpu-unusable"]
    assert check_tasks(read_tasks(f"a {SLICES[0]}\nb {SLICES[1]}\nc {UUIDS[2]}"), split()) == ()


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        table = read_tasks(text)
    except UnreadableTasks:
        return
    assert check_tasks(table, MIXED) is not None


names = st.text("abcxyz019._-", min_size=1, max_size=12)


@given(st.dictionaries(names, st.lists(st.sampled_from(UUIDS), min_size=1, max_size=4), min_size=1, max_size=6))
def test_text_and_back(rows: dict[str, list[str]]) -> None:
    table = TaskTable(tuple(Task(name, tuple(gpus), comment="why") for name, gpus in rows.items()))
    again = read_tasks(table.to_text())
    assert [(t.name, t.gpus, t.comment) for t in again.tasks] == [(t.name, t.gpus, t.comment) for t in table.tasks]
