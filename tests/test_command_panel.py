"""The command box, the stack of layers and the choice of a process, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gpumap_widgets as gm
from gpumap_widgets.commands.facts import OddFacts, facts_text, read_facts
from gpumap_widgets.editing import environment_at_hand, with_variables
from gpumap_widgets.expectation import expected_map
from gpumap_widgets.layers import torchrun
from gpumap_widgets.scenario import Layer
from gpumap_widgets.sources.scenes import SCENES
from tests.conftest import MIXED


@pytest.fixture
def explorer() -> Iterator[Any]:
    e = gm.Explorer(gm.preset("mixed"))
    yield e
    e.close()


def enter(explorer: Any, command: str, facts: str = "") -> None:
    explorer._command.facts.value = facts
    explorer._command.text.value = command


def rows(explorer: Any) -> list[Any]:
    return list(explorer._command.rows.children)


def view(explorer: Any, name: str) -> str:
    return str(explorer._html[name].value)


def test_a_command_becomes_layers_and_workers(explorer: Any) -> None:
    before = explorer._store.renders
    enter(explorer, "torchrun --nproc-per-node=4 t.py")
    assert explorer._store.renders == before + 1
    assert [p.rank for p in explorer.prediction.processes] == [0, 1, 2, 3]
    assert [layer.kind for layer in explorer.scenario.layers] == ["environment", "torchrun"]
    assert len(rows(explorer)) == 2
    assert [label for label, _ in explorer._command.worker.options] == [f"rank {k}" for k in range(4)]


def test_the_shell_keeps_its_variables_under_a_command(explorer: Any) -> None:
    explorer._controls["raw"].widget.value = "2,3"
    enter(explorer, "torchrun --nproc-per-node=2 t.py")
    assert explorer.prediction.processes[1].nvml_indices == (2, 3)
    enter(explorer, "")
    assert explorer.prediction.nvml_indices == (2, 3)
    assert rows(explorer) == []


def test_facts_are_read_and_odd_ones_are_said(explorer: Any) -> None:
    enter(explorer, "torchrun --nproc-per-node=2 t.py", "set_device=no")
    assert [p.uses for p in explorer.prediction.processes] == [(0,), (0,)]
    explorer._command.facts.value = "=??"
    assert "=??" in view(explorer, "notice")
    assert len(explorer.prediction.processes) == 2  # what stood before still stands


def test_the_process_that_is_shown(explorer: Any) -> None:
    enter(explorer, "CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=1 python b.py &")
    assert "RTX 4090 (nvidia-smi 1" in view(explorer, "sentence")
    explorer._command.worker.value = 1
    assert "cuda:0 is the Tesla T4 (nvidia-smi 0" in view(explorer, "sentence")
    assert "CUDA_VISIBLE_DEVICES=1" in view(explorer, "tokens")  # set further in than the controls edit
    enter(explorer, "python c.py")
    assert explorer._command.worker.value == 0


def test_layers_are_switched_moved_and_edited(explorer: Any) -> None:
    enter(explorer, "CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc-per-node=2 t.py")
    on, said, up, down, _, options = rows(explorer)[1].children
    assert (on.description, up.disabled, down.disabled) == ("prefix", False, False)
    assert "CUDA_VISIBLE_DEVICES=1,2" in said.value
    on.value = False
    assert explorer.prediction.processes[0].nvml_indices == (1, 0, 2, 3)
    rows(explorer)[1].children[0].value = True
    rows(explorer)[1].children[3].click()  # inwards: behind torchrun, each worker's own
    assert [layer.kind for layer in explorer.scenario.layers] == ["environment", "torchrun", "environment"]
    rows(explorer)[2].children[5].value = '{"set": {"CUDA_VISIBLE_DEVICES": "3"}}'
    assert explorer.prediction.processes[1].nvml_indices == (3,)
    rows(explorer)[1].children[5].value = '{"nproc": "3"}'
    assert len(explorer.prediction.processes) == 3
    assert options.comm is None  # rows that are gone are closed


@pytest.mark.parametrize("text", ["", "{", "5", "null", '{"set": 5}', '{"set": {"A": 1}}', "[" * 3000])
def test_odd_options_are_said_and_change_nothing(explorer: Any, text: str) -> None:
    enter(explorer, "torchrun t.py")
    before = explorer.scenario
    rows(explorer)[0].children[5].value = text
    assert view(explorer, "notice")
    assert explorer.scenario == before


def test_what_cannot_be_read_is_a_reason(explorer: Any) -> None:
    enter(explorer, "torchrun 'abc")
    assert "quote at character 10" in view(explorer, "sentence")


@pytest.mark.parametrize("key", SCENES)
def test_every_example_opens(explorer: Any, key: str) -> None:
    explorer._command.examples.value = key
    scene = SCENES[key]
    assert explorer.scenario == scene.scenario()
    assert (explorer._command.text.value, explorer._command.examples.value) == (scene.command, key)
    assert scene.about in explorer._command.about.value.replace("&#x27;", "'").replace("&quot;", '"')


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", {}),
        ("allocated=1,2 constrain_devices=yes", {"allocated": (1, 2), "constrain_devices": True}),
        ("allocated=3; set_device=No;torch=2.9.1", {"allocated": (3,), "set_device": False, "torch": "2.9.1"}),
        ("node-rank=1", {"node_rank": 1}),
    ],
)
def test_facts(text: str, facts: dict[str, Any]) -> None:
    assert read_facts(text) == facts
    assert read_facts(facts_text(facts)) == facts


@pytest.mark.parametrize("text", ["x", "= 1", "allocated=a", "a=1 b", "allocated=1.5", "é=1"])
def test_odd_facts(text: str) -> None:
    with pytest.raises(OddFacts):
        read_facts(text)


def test_an_edit_goes_where_it_reaches_the_process() -> None:
    late = Layer("environment", {"set": {"CUDA_VISIBLE_DEVICES": "0"}, "late": True})
    scenario = gm.Scenario(MIXED, (Layer("environment", {"set": {"CUDA_VISIBLE_DEVICES": "3"}}), late, torchrun(1)))
    assert environment_at_hand(scenario) == {"CUDA_VISIBLE_DEVICES": "3"}
    edited = with_variables(scenario, CUDA_VISIBLE_DEVICES="1")
    assert gm.resolve(edited).nvml_indices == (0,)
    assert edited.layers[1:] == scenario.layers[1:]
    assert environment_at_hand(gm.Scenario(MIXED)) == {}
    assert gm.resolve(with_variables(gm.Scenario(MIXED, (torchrun(1),)), CUDA_VISIBLE_DEVICES="1")).nvml_indices == (0,)


def test_what_one_may_have_expected() -> None:
    numbers = expected_map(gm.resolve(gm.Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2"})))
    assert numbers is not None
    assert (numbers.belief, numbers.prediction.nvml_indices) == ("nvidia-smi", (1, 2))
    assert expected_map(gm.resolve(gm.Scenario.from_env(MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))) is None
    assert expected_map(gm.resolve(gm.Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": ""}))) is None
    assert expected_map(gm.resolve(gm.Scenario.from_command(MIXED, "torchrun 'x"))) is None
