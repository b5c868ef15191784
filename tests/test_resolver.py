"""From a scenario to a prediction: the tutorials' machines, steps, findings, what is refused, clicks."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from gpumap_widgets.diagnosis import RULES as FINDING_RULES
from gpumap_widgets.diagnosis import diagnose
from gpumap_widgets.editing import toggle
from gpumap_widgets.mapping import Message, Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.sources.presets import PRESETS, preset
from gpumap_widgets.topology import Gpu, Topology
from gpumap_widgets.views.rows import prediction_rows
from tests.conftest import MIXED, SLICES, UUIDS, equal, pairs, predict, process, split
from tests.test_containers import OF_CONTAINERS

EIGHT = preset("eight")
THREE = preset("three")
PCI = "PCI_BUS_ID"


# ---- what the tutorials teach (row numbers of their table) ----

TUTORIALS = [
    # the mixed machine: nvidia-smi 0 = T4, 1 = RTX 4090, 2 = T4, 3 = T4; CUDA counts 4090, T4, T4, T4
    (2, MIXED, "1,2", None, (0, 2)),
    (3, MIXED, "1,2", PCI, (1, 2)),
    (4, MIXED, "0", None, (1,)),
    (4, MIXED, "0", PCI, (0,)),
    (4, MIXED, None, None, (1, 0, 2, 3)),
    (4, MIXED, None, PCI, (0, 1, 2, 3)),
    (4, MIXED, "", None, ()),
    (4, MIXED, "", PCI, ()),
    (4, MIXED, "2,0", None, (2, 1)),
    (4, MIXED, "2,0", PCI, (2, 0)),
    (6, MIXED, "3", PCI, (3,)),
    (15, MIXED, "1", None, (0,)),  # "1" is meant to be the 4090 and is a T4
    # eight equal cards
    (17, EIGHT, "1,2,5,6", None, (1, 2, 5, 6)),
    (19, EIGHT, "3,1", None, (3, 1)),
    (19, EIGHT, "2,0,1", None, (2, 0, 1)),
    (19, EIGHT, "4,5,6,7", None, (4, 5, 6, 7)),
    (19, EIGHT, "1,1,3", None, ()),  # the tutorial says that the repeat is dropped
    (19, EIGHT, "5,6,7,8", None, (5, 6, 7)),
    # 3090, 3090, 4090
    (18, THREE, None, None, (2, 0, 1)),
    (18, THREE, "0", None, (2,)),
    (18, THREE, "0", PCI, (0,)),
]


@pytest.mark.parametrize(("row", "machine", "visible", "order", "expected"), TUTORIALS)
def test_a_tutorial(
    row: int, machine: Topology, visible: str | None, order: str | None, expected: tuple[int, ...]
) -> None:
    prediction = predict(machine, visible, order)
    assert prediction.nvml_indices == expected
    assert prediction.error is None
    assert prediction.certainty == ("likely" if order is None and visible != "" else "certain") or row == 19


def test_row_2_the_4090_is_hidden_and_said_to_be() -> None:
    prediction = predict(MIXED, "1,2")
    shown = prediction.processes[0]
    assert [device.gpu.name for device in shown.devices] == ["Tesla T4", "Tesla T4"]
    assert [device.gpu.pci_bus_id for device in shown.devices] == ["00000000:5E:00.0", "00000000:AF:00.0"]
    assert shown.hidden == (1, 3)
    assert "number-is-not-nvidia-smi" in [finding.code for finding in prediction.findings]


@pytest.mark.parametrize("order", [None, PCI, "FASTEST_FIRST", "nonsense"])
def test_row_5_the_variables_may_be_set_in_any_order(order: str | None) -> None:
    one = resolve(Scenario.from_env(MIXED, {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": "1,2"}))
    other = resolve(Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": order}))
    assert one == other
    assert hash(one) == hash(other)


def test_row_18_three_identities_stand_side_by_side() -> None:
    rows = prediction_rows(predict(MIXED, "1,0"))
    seen = [(row.ordinal, row.gpu.nvml_index, row.gpu.pci_bus_id, row.gpu.uuid, row.token) for row in rows]
    assert seen == [
        (0, 0, "00000000:5E:00.0", MIXED.gpus[0].uuid, "1"),
        (1, 1, "00000000:86:00.0", MIXED.gpus[1].uuid, "0"),
        (None, 2, "00000000:AF:00.0", MIXED.gpus[2].uuid, None),
        (None, 3, "00000000:D8:00.0", MIXED.gpus[3].uuid, None),
    ]


def test_row_19_cuda_2_of_the_last_four_is_6() -> None:
    assert predict(EIGHT, "4,5,6,7").processes[0].devices[2].gpu.nvml_index == 6


def test_row_19_the_repeat_empties_the_list_and_the_cut_one_says_where() -> None:
    emptied, cut = predict(EIGHT, "1,1,3"), predict(EIGHT, "5,6,7,8")
    assert [f.code for f in emptied.findings] == ["list-emptied"]
    assert [f.code for f in cut.findings] == ["list-cut"]
    assert "“8”" in cut.findings[0].message
    assert "3 of 4" in cut.findings[0].message


def test_row_27_the_uuid_itself_goes_into_the_list() -> None:
    uuid = MIXED.gpus[1].uuid
    for order in (None, PCI, "odd"):
        assert predict(MIXED, uuid, order).nvml_indices == (1,)
        assert predict(MIXED, uuid, order).certainty == "certain"


@pytest.mark.parametrize("key", list(PRESETS))
def test_presets_are_whole_machines(key: str) -> None:
    machine = preset(key)
    assert all(gpu.sm_count and gpu.uuid and gpu.pci_bus_id for gpu in machine.gpus)
    assert len(predict(machine).nvml_indices) == len(machine.gpus)
    assert predict(machine, None, PCI).nvml_indices == tuple(range(len(machine.gpus)))


# ---- unset and set to nothing ----


def test_unset_and_empty_are_two_things_everywhere() -> None:
    unset, empty = predict(MIXED, None), predict(MIXED, "")
    assert (unset.scenario.visible_devices, empty.scenario.visible_devices) == (None, "")
    assert (len(unset.nvml_indices), len(empty.nvml_indices)) == (4, 0)
    assert unset != empty
    assert "CUDA_VISIBLE_DEVICES" not in unset.processes[0].env
    assert empty.processes[0].env["CUDA_VISIBLE_DEVICES"] == ""
    assert [step.message.key for step in unset.steps if step.stage == "list"] == ["step.list.unset"]
    assert [step.message.key for step in empty.steps if step.stage == "list"] == ["step.list.empty-value"]
    assert [step.message.key for step in empty.steps if step.stage == "environment"] == ["step.set-empty"]
    assert [f.code for f in empty.findings] == ["hides-all"]
    assert [f.code for f in unset.findings] == []
    assert len(prediction_rows(unset)) == len(prediction_rows(empty)) == 4
    assert str(unset) != str(empty)


def test_an_empty_order_is_not_an_unset_order() -> None:
    assert predict(MIXED, None, "").certainty == "unknown"
    assert [f.code for f in predict(MIXED, None, "").findings] == ["undocumented-order"]
    assert predict(MIXED, None, None).certainty == "likely"


def test_no_layer_at_all_is_an_empty_environment() -> None:
    bare = resolve(Scenario(MIXED))
    assert bare.nvml_indices == predict(MIXED).nvml_indices
    assert bare.processes[0].env == {}


# ---- steps ----


def keys(prediction: Prediction, stage: str) -> list[str]:
    return [step.message.key for step in prediction.steps if step.stage == stage]


def verdicts(visible: str, machine: Topology = EIGHT) -> list[tuple[str, str, int | None]]:
    """Of each token: its text, what became of it, the GPU."""
    prediction = predict(machine, visible, PCI)
    tokens = prediction.processes[0].reading.tokens
    return [
        (tokens[step.token].text, step.message.key.removeprefix("step.token."), step.position)
        for step in prediction.steps
        if step.stage == "list" and step.token is not None
    ]


def test_the_stages_come_in_the_order_of_the_driver() -> None:
    stages = [step.stage for step in predict(MIXED, "1,2", PCI).steps]
    assert list(dict.fromkeys(stages)) == ["machine", "environment", "order", "list", "numbering"]
    assert sorted(stages, key=["machine", "environment", "order", "list", "numbering"].index) == stages


def test_what_became_of_each_token() -> None:
    assert verdicts("2,9,1") == [("2", "kept", 2), ("9", "stop", None), ("1", "ignored", None)]
    assert verdicts("3,1,1,0") == [
        ("3", "lost", None),
        ("1", "lost", None),
        ("1", "empties", None),
        ("0", "ignored", None),
    ]
    uuids = [gpu.uuid or "" for gpu in EIGHT.gpus]
    assert verdicts(f"{uuids[4]},2") == [(uuids[4], "kept-uuid", 4), ("2", "stop", None)]
    assert verdicts(f"{uuids[4]},{uuids[4]}") == [(uuids[4], "lost-uuid", None), (uuids[4], "empties", None)]
    assert verdicts(f"{SLICES[1]},{SLICES[0]}", split("565.77")) == [
        (SLICES[1], "kept-uuid", 0),
        (SLICES[0], "dropped", None),
    ]


def test_each_step_says_what_backs_it() -> None:
    for visible in (None, "", "1,2", "1,1", "9", "GPU-zz", "0,foo,0", "010"):
        for step in predict(MIXED, visible).steps:
            assert step.source
            assert str(step) == step.message.text("en")
            assert step.stage in ("machine", "environment", "order", "list", "numbering")


def test_a_repeat_behind_the_stop_has_a_step_of_its_own() -> None:
    prediction = predict(EIGHT, "0,9,0", PCI)
    assert keys(prediction, "list")[-1] == "rule.repeat-behind-stop"
    assert [str(step.certainty) for step in prediction.steps if step.stage == "list"][-1] == "unknown"


def test_the_steps_name_the_gpu_of_each_ordinal_and_each_hidden_one() -> None:
    numbering = [step for step in predict(MIXED, "1,2").steps if step.stage == "numbering"]
    assert [step.message.key for step in numbering] == ["step.numbering"] * 2 + ["step.hidden"] * 2
    assert [step.position for step in numbering] == [0, 2, 1, 3]
    assert [step.token for step in numbering] == [0, 1, None, None]
    assert keys(predict(MIXED, ""), "numbering") == ["step.numbering.none"] + ["step.hidden"] * 4


def test_an_odd_spelling_is_explained_where_it_stands() -> None:
    said = [str(step) for step in predict(EIGHT, "1gpu,010", PCI).steps if step.stage == "list"]
    assert "letters" in said[0]
    assert "base" in said[1]
    assert (
        "(" not in next(str(step) for step in predict(EIGHT, "3", PCI).steps if step.stage == "list").split("place")[1]
    )


def test_steps_and_findings_are_made_when_asked_for() -> None:
    prediction = predict(MIXED, "1,2")
    assert "steps" not in prediction.__dict__
    assert "findings" not in prediction.__dict__
    assert prediction.steps is prediction.steps
    assert prediction.findings is prediction.findings


# ---- findings, both ways ----

LOST = replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="the GPU is lost."), *MIXED.gpus[1:]))
FINDINGS = [
    # code, a scenario in which it speaks, its twin in which it is silent
    ("list-emptied", (EIGHT, "1,1", None), (EIGHT, "1,2", None)),
    ("list-emptied", (EIGHT, f"{EIGHT.gpus[0].uuid},{EIGHT.gpus[0].uuid}", None), (EIGHT, EIGHT.gpus[0].uuid, None)),
    ("list-emptied", (EIGHT, "0,2,0", PCI), (EIGHT, "0,-1,0", PCI)),
    ("hides-all", (EIGHT, "", None), (EIGHT, None, None)),
    ("hides-all", (EIGHT, "", PCI), (Topology(), "", PCI)),
    ("list-cut", (EIGHT, "5,6,7,8", None), (EIGHT, "5,6,7", None)),
    ("list-cut", (EIGHT, "-1", None), (EIGHT, "0", None)),
    ("list-cut", (EIGHT, "0,1,", None), (EIGHT, "0,1", None)),
    ("list-cut", (EIGHT, "GPU-zz", None), (EIGHT, "", None)),
    ("number-is-not-nvidia-smi", (MIXED, "1", None), (MIXED, "1", PCI)),
    ("number-is-not-nvidia-smi", (MIXED, "0,1", None), (EIGHT, "0,1", None)),
    ("number-is-not-nvidia-smi", (MIXED, "0", None), (MIXED, MIXED.gpus[1].uuid, None)),
    ("number-is-not-nvidia-smi", (THREE, "0", None), (THREE, None, None)),
    ("number-is-not-nvidia-smi", (THREE, "2", ""), (MIXED, "2", None)),
    ("undocumented-order", (MIXED, None, ""), (MIXED, None, None)),
    ("undocumented-order", (MIXED, None, "pci_bus_id"), (MIXED, None, PCI)),
    ("undocumented-order", (EIGHT, "0", "PCI_BUS_ID "), (EIGHT, "0", "FASTEST_FIRST")),
    ("unusable-gpu", (LOST, None, PCI), (MIXED, None, PCI)),
]


@pytest.mark.parametrize(("code", "speaks", "silent"), FINDINGS)
def test_a_finding_speaks_and_is_silent(code: str, speaks: tuple, silent: tuple) -> None:
    found = predict(*speaks).findings
    mine = next(finding for finding in found if finding.code == code)
    rule = next(rule for rule in FINDING_RULES if rule.code == code)
    assert (mine.severity, mine.source) == (rule.severity, rule.source)
    assert mine.message
    assert "{" not in mine.message + (mine.remedy or "")
    assert bool(mine.remedy) is rule.remedy
    assert code not in [finding.code for finding in predict(*silent).findings]


OF_COMMANDS = {"set-too-late", "near-miss-name", "unrecognised-option"}
"""Tried both ways in test_inputs."""


def test_every_finding_is_tried_both_ways() -> None:
    assert {row[0] for row in FINDINGS} | set(OF_CONTAINERS) | OF_COMMANDS == {rule.code for rule in FINDING_RULES}


def test_the_most_harmful_comes_first() -> None:
    severities = [rule.severity for rule in FINDING_RULES]
    assert set(severities) <= {"error", "warning", "info"}
    codes = [finding.code for finding in predict(LOST, "1,9", "odd").findings]
    assert codes == [rule.code for rule in FINDING_RULES if rule.code in codes]
    assert len(codes) == 4


def test_a_finding_says_what_to_type() -> None:
    finding = next(f for f in predict(MIXED, "1").findings if f.code == "number-is-not-nvidia-smi")
    assert finding.remedy == f"Set CUDA_VISIBLE_DEVICES={MIXED.gpus[1].uuid}."
    bare = replace(MIXED, gpus=tuple(replace(gpu, uuid=None) for gpu in MIXED.gpus))
    finding = next(f for f in predict(bare, "1").findings if f.code == "number-is-not-nvidia-smi")
    assert finding.remedy == "Set CUDA_DEVICE_ORDER=PCI_BUS_ID."


@pytest.mark.parametrize("visible", [None, "0", "1,0", "0,1,2,3"])
def test_a_clean_scenario_has_nothing_to_remark(visible: str | None) -> None:
    assert predict(MIXED, visible, PCI).findings == ()


# ---- what does not start ----


def test_a_layer_of_an_unknown_kind_is_an_error_not_an_exception() -> None:
    scenario = Scenario(
        MIXED, (Layer("environment", {"set": {"CUDA_VISIBLE_DEVICES": "0"}}), Layer("teleport", {"to": 1}))
    )
    prediction = resolve(scenario)
    assert prediction.error is not None
    assert "teleport" in prediction.error
    assert (prediction.processes, prediction.nvml_indices, prediction.certainty) == ((), (), "unknown")
    assert (prediction.findings, diagnose(prediction)) == ((), ())
    assert [step.stage for step in prediction.steps] == ["machine", "environment"]
    assert "teleport" in str(prediction)
    assert "teleport" in prediction._repr_html_()
    assert len(prediction.to_frame()) == 0
    assert toggle(prediction, 0) is None


def test_a_prediction_with_an_error_can_be_pickled() -> None:
    prediction = resolve(Scenario(MIXED, (Layer("teleport"),)))
    assert pickle.loads(pickle.dumps(prediction)) == prediction


# ---- machines that lack something ----


def test_lost_gpus_are_shown_but_not_counted() -> None:
    prediction = predict(LOST, None, PCI)
    assert prediction.nvml_indices == (1, 2, 3)
    shown = prediction.processes[0]
    assert (shown.accessible, shown.visible) == ((1, 2, 3), (1, 2, 3))
    rows = [(row.ordinal, row.position, row.reason) for row in prediction_rows(prediction)]
    assert rows[:3] == [(0, 1, None), (1, 2, None), (2, 3, None)]
    assert rows[3][:2] == (None, 0)
    assert "lost" in (rows[3][2] or "")
    assert "step.unusable" in keys(prediction, "machine")
    assert predict(LOST, MIXED.gpus[0].uuid, PCI).nvml_indices == ()
    assert predict(LOST, MIXED.gpus[1].uuid, PCI).nvml_indices == (1,)


def test_a_machine_that_lost_them_all() -> None:
    gone = replace(MIXED, gpus=tuple(replace(gpu, problem="lost.") for gpu in MIXED.gpus))
    for visible in (None, "", "0", "GPU-a0"):
        prediction = predict(gone, visible)
        assert prediction.nvml_indices == ()
        assert len(prediction.to_frame()) == 4
        assert prediction.steps


@pytest.mark.parametrize("visible", [None, "", "0", "-1", "GPU-", "0,0", "MIG-x"])
@pytest.mark.parametrize("order", [None, PCI, "odd"])
def test_a_machine_without_gpus(visible: str | None, order: str | None) -> None:
    prediction = predict(Topology(), visible, order)
    assert prediction.nvml_indices == ()
    assert prediction.error is None
    assert len(prediction.to_frame()) == 0
    assert str(prediction)
    assert prediction._repr_html_()
    assert prediction.steps


def test_a_gpu_that_tells_nothing() -> None:
    prediction = predict(Topology((Gpu(),)), "0")
    assert prediction.nvml_indices == (None,)
    assert prediction.certainty == "certain"
    assert "unnamed" in str(prediction)
    assert prediction.to_frame()["nvml_index"].isna().all()


# ---- the prediction as a value ----


def test_a_prediction_is_frozen_and_compares_by_what_it_says() -> None:
    one, same, other = predict(MIXED, "1,2"), predict(preset("mixed"), "1,2"), predict(MIXED, "1,0")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert len({one, same, other}) == 2
    with pytest.raises(FrozenInstanceError):
        one.error = "no"  # type: ignore[misc]


def test_a_process_of_a_plain_environment_uses_everything_and_has_no_rank() -> None:
    shown = process(MIXED, "1,2")
    assert (shown.rank, shown.local_rank, shown.chosen, shown.uses) == (None, None, None, (0, 1))
    assert dict(shown.env) == {"CUDA_VISIBLE_DEVICES": "1,2"}


def test_later_layers_win() -> None:
    layers = tuple(Layer("environment", {"set": {"CUDA_VISIBLE_DEVICES": value}}) for value in ("0", "3,2"))
    prediction = resolve(Scenario(EIGHT, layers))
    assert prediction.nvml_indices == (3, 2)
    assert keys(prediction, "environment") == ["step.set", "step.set-over"]


@pytest.mark.parametrize(
    "options",
    [
        {"set": {"CUDA_VISIBLE_DEVICES": 5}},
        {"set": 5},
        {"set": None},
        {"set": [1]},
        {"set": {"CUDA_DEVICE_ORDER": (1,)}},
    ],
)
def test_odd_options_of_a_layer_are_an_error_not_an_exception(options: dict) -> None:
    prediction = resolve(Scenario(EIGHT, (Layer("environment", options),)))
    assert prediction.error is not None
    assert "environment" in prediction.error
    assert (prediction.processes, prediction.findings, prediction.certainty) == ((), (), "unknown")
    assert str(prediction)
    assert prediction._repr_html_()


@pytest.mark.parametrize("options", [{}, {"set": {}}, {"by": "me"}])
def test_an_environment_that_sets_nothing_is_fine(options: dict) -> None:
    assert resolve(Scenario(EIGHT, (Layer("environment", options),))).nvml_indices == tuple(range(8))


# ---- a click on a GPU ----


@pytest.mark.parametrize(
    ("visible", "position", "expected"),
    [
        (None, 1, "1,2,3"),  # the 4090 is place 0
        (None, 0, "0,2,3"),
        ("", 1, "0"),
        ("", 3, "3"),
        ("0", 1, ""),
        ("0", 0, "0,1"),
        ("2,0", 2, "0"),
        ("2,0", 0, "2,0,1"),
        ("1,2,9", 1, "1,2,0,9"),  # behind the last entry that counts, before the one that ends the list
        ("foo", 1, "0,foo"),
        ("-1", 0, "1,-1"),
        (" 0 ", 1, ""),
        ("GPU-b1", 1, ""),
        ("GPU-b1", 0, f"GPU-b1,{MIXED.gpus[0].uuid}"),
        ("GPU-b1,GPU-zz", 3, f"GPU-b1,{MIXED.gpus[3].uuid},GPU-zz"),
        ("1,1", 0, None),
        ("1", 9, None),
        ("1", -1, None),
    ],
)
def test_a_click(visible: str | None, position: int, expected: str | None) -> None:
    before = predict(MIXED, visible)
    value = toggle(before, position)
    assert value == expected
    if value is not None:
        shown = {device.position for device in before.processes[0].devices}
        assert {device.position for device in predict(MIXED, value).processes[0].devices} == shown ^ {position}


def test_a_click_on_what_cannot_be_shown() -> None:
    assert toggle(predict(LOST, None, PCI), 0) is None
    assert toggle(predict(split()), 0) is None
    assert toggle(predict(split(), SLICES[0]), 1) is None


def test_two_clicks_give_the_same_map_again() -> None:
    for visible in (None, "0", "3,1,2", "GPU-b1,GPU-a0", ""):
        start = predict(MIXED, visible, PCI)
        once = toggle(start, 2)
        assert once is not None
        again = toggle(predict(MIXED, once, PCI), 2)
        assert again is not None
        before = {device.position for device in start.processes[0].devices}
        assert {device.position for device in predict(MIXED, again, PCI).processes[0].devices} == before


@pytest.mark.parametrize(
    ("machine", "visible", "position"),
    [
        pytest.param(MIXED, "1,GPU-c2", 1, id="hiding the only number wakes the UUID behind it"),
        pytest.param(MIXED, "GPU-c2,1", 2, id="hiding the only UUID wakes the number behind it"),
        pytest.param(
            replace(MIXED, gpus=(replace(MIXED.gpus[0], uuid=None), *MIXED.gpus[1:])), "GPU-b1", 0,
            id="a GPU without a UUID cannot join a list of UUIDs",
        ),
        pytest.param(split(), "", 0, id="a whole GPU in MIG mode is no entry"),
    ],
)  # fmt: skip
def test_a_click_changes_just_what_was_clicked_or_nothing(machine: Topology, visible: str, position: int) -> None:
    before = predict(machine, visible, PCI)
    value = toggle(before, position)
    shown = set(pairs(before.processes[0]))
    assert value is None or set(pairs(process(machine, value, PCI))) == shown ^ {(position, None)}


# ---- text from outside ----

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[2J\x1b[31m",
    "a\nb\r\tc",
    "\u202egnp.exe",
    "{index} %s {0}",
    "x" * 5000,
    "&amp;",
    '" onload="x',
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_names_and_values_from_outside_stay_text(text: str) -> None:
    gpus = (Gpu(0, text, UUIDS[0], "01:00.0", problem=None), Gpu(1, "Tesla T4", None, "02:00.0", problem=text))
    prediction = predict(Topology(gpus, "575", source="pasted"), text, text)
    for said in (str(prediction), *map(str, prediction.steps), *(f.message for f in prediction.findings)):
        assert isinstance(said, str)
    plain, page = str(prediction), prediction._repr_html_()
    assert all(c.isprintable() or c == "\n" for c in plain)
    assert "<script" not in page
    assert 'onload="x' not in page
    assert text in prediction.processes[0].env["CUDA_VISIBLE_DEVICES"]  # shown changed, kept as it is


def test_fields_of_a_sentence_are_never_format_strings() -> None:
    said = Message("step.set", {"name": "{name.__class__}", "value": "{value!r}"}).text()
    assert "{name.__class__}" in said
    assert "{value!r}" in said


def test_unknown_machines_are_never_confused_by_equal_names() -> None:
    twins = equal(2)
    assert pairs(process(twins, UUIDS[1])) == [(1, None)]
    assert [f.code for f in predict(twins, "1,0").findings] == []
