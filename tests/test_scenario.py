"""Machines and scenarios as values: what they refuse, what compares equal, JSON there and back."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from gpumap_widgets.errors import GpumapError, ImpossibleMachine, UnreadableScenario, UnreadableTopology
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.identity import PciBusId, PrefixIndex, bare_uuid, is_full_uuid, normal_pci
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import ENVIRONMENT, Layer, Scenario, is_relevant
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import MIXED, SLICES, UUIDS, equal, split

ENV = {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


# ---- machines ----


def test_a_machine_by_names() -> None:
    machine = Topology.of("Tesla T4", "rtx 4090", "a card of tomorrow", pci_bus_ids=["5E:00.0", "0000:86:00.0", None])
    assert [gpu.nvml_index for gpu in machine.gpus] == [0, 1, 2]
    assert [gpu.compute_capability for gpu in machine.gpus] == [(7, 5), (8, 9), None]
    assert [gpu.sm_count for gpu in machine.gpus] == [40, 128, None]
    assert [gpu.pci_bus_id for gpu in machine.gpus] == ["00000000:5E:00.0", "00000000:86:00.0", None]
    assert machine.gpus[0].memory_mib == 15360
    assert [gpu.uuid for gpu in machine.gpus] == [None] * 3  # not known, never invented
    assert (machine.driver_version, machine.platform, machine.default_order) == (None, "linux", None)
    assert Topology.of().gpus == ()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Topology.of("Tesla T4", pci_bus_ids=[]), "1 names, but 0"),
        (lambda: Topology.of("Tesla T4", "Tesla T4", pci_bus_ids=["5E:00.0", "0000:5e:00.0"]), "PCI address"),
        (lambda: Topology.of("Tesla T4", pci_bus_ids=["slot 3"]), "no PCI address|not a PCI address"),
        (lambda: Topology.of("Tesla T4", platform="amiga"), "platform"),  # type: ignore[arg-type]
        (lambda: Topology((Gpu(0, uuid=UUIDS[0]), Gpu(1, uuid=UUIDS[0]))), "UUID"),
        (lambda: Topology((Gpu(0), Gpu(0))), "NVML index"),
        (lambda: Topology((Gpu(0, mig_instances=(MigInstance("MIG-1"), MigInstance("MIG-1"))),)), "MIG UUID"),
        (lambda: replace(MIXED, default_order=(0, 0, 1, 2)), "default_order"),
        (lambda: replace(MIXED, default_order=(0, 4)), "default_order"),
        (lambda: replace(MIXED, default_order=(-1,)), "default_order"),
    ],
)
def test_machines_that_cannot_be(make: Any, says: str) -> None:
    with pytest.raises(ImpossibleMachine, match=says):
        make()


def test_a_gpu_knows_itself() -> None:
    gpu = Gpu(0, "NVIDIA GeForce RTX 4090", pci_bus_id="1:af:1f.1")
    assert (gpu.pci_bus_id, gpu.pci) == ("00000001:AF:1F.1", PciBusId(1, 0xAF, 0x1F, 1))
    assert (gpu.label, gpu.short_name) == ("NVIDIA GeForce RTX 4090", "RTX 4090")
    assert (Gpu().label, Gpu().pci, Gpu().mig_mode) == ("unnamed GPU", None, None)
    assert Gpu(mig_instances=(MigInstance(),)).mig_mode is True
    assert Gpu(mig_instances=(MigInstance(),), mig_mode=False).mig_mode is False


@pytest.mark.parametrize(
    ("version", "major"),
    [("535.104.05", 535), ("570", 570), (None, None), ("", None), ("R535", None), ("٥٧٠.1", None), (" 535", None)],
)
def test_the_series_of_a_driver(version: str | None, major: int | None) -> None:
    assert replace(MIXED, driver_version=version).driver_major == major


def test_usable_gpus_are_those_without_a_problem() -> None:
    assert MIXED.usable == (0, 1, 2, 3)
    assert replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="lost."), *MIXED.gpus[1:])).usable == (1, 2, 3)


def test_what_is_derived_is_no_part_of_the_value() -> None:
    used, fresh = split(), split()
    resolve(Scenario.from_env(used, ENV))
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    for twin in (pickle.loads(pickle.dumps(used)), copy.copy(used), copy.deepcopy(used), replace(used)):
        assert twin == used
        assert hash(twin) == hash(used)
    assert replace(used, default_order=(1, 0)).default_order == (1, 0)
    assert resolve(Scenario.from_env(replace(used, gpus=used.gpus[1:]), ENV)).nvml_indices == ()


def test_the_memo_is_bounded() -> None:
    machine = equal(3)
    for i in range(2000):
        assert machine.memo(i, lambda i=i: i) == i
    assert len(machine._memo) <= 256


# ---- addresses and UUIDs ----


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:5E:00.0", (0, 0x5E, 0, 0)),
        ("0000:5e:00.0", (0, 0x5E, 0, 0)),
        ("5E:00.0", (0, 0x5E, 0, 0)),
        ("5e:00", (0, 0x5E, 0, 0)),
        (" 9:0 ", (0, 9, 0, 0)),
        ("10000:e1:1f.7", (0x10000, 0xE1, 0x1F, 7)),
        ("ffffffff:ff:1f.0", (0xFFFFFFFF, 0xFF, 0x1F, 0)),
        ("5E:20.0", None),  # a device has five bits
        ("5E:00.8", None),
        ("100:00.0", None),
        ("5E", None),
        ("", None),
        ("0000:5E:00.0.0", None),
        ("000000000:5E:00.0", None),
        ("０:５:0", None),
        ("5E:00.0\n5F:00.0", None),
    ],
)
def test_an_address_in_any_spelling(text: str, address: tuple[int, ...] | None) -> None:
    found = PciBusId.parse(text)
    assert found == address
    if found is not None:
        assert PciBusId.parse(str(found)) == found
        assert PciBusId.parse(found.short) == found
        assert normal_pci(text) == str(found)
    else:
        with pytest.raises(ImpossibleMachine):
            normal_pci(text)


def test_how_people_say_an_address() -> None:
    assert PciBusId(0, 0x5E, 0).short == "5E:00.0"
    assert PciBusId(1, 0x5E, 0).short == "0001:5E:00.0"


def test_uuids() -> None:
    assert is_full_uuid(UUIDS[0])
    assert is_full_uuid(SLICES[0])
    for text in (UUIDS[0][:-1], UUIDS[0] + "0", UUIDS[0][4:], UUIDS[0].lower(), f" {UUIDS[0]}", UUIDS[0] + "\n", ""):
        assert not is_full_uuid(text)
    for text in (UUIDS[0], UUIDS[0][4:], UUIDS[0].upper(), f" {UUIDS[0]}\n"):
        assert bare_uuid(text) == UUIDS[0][4:]
    assert bare_uuid(SLICES[0]) == SLICES[0][4:]


def test_prefixes() -> None:
    index = PrefixIndex([*UUIDS, None])
    assert index.starting_with("GPU-7") == [2]
    assert sorted(index.starting_with("GPU-3f8")) == [0, 1]
    assert index.starting_with("GPU-3f8a") == [0]
    assert index.starting_with("GPU-0123") == []
    assert len(index.starting_with("GPU-")) == 2  # enough to tell that it is ambiguous
    assert len(index.starting_with("GPU-", limit=99)) == 8
    assert index.starting_with("zzz") == []
    assert PrefixIndex([]).starting_with("") == []


# ---- scenarios ----


def test_a_variable_that_is_none_or_absent_is_unset_and_an_empty_one_is_set() -> None:
    scenario = Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": None})
    assert dict(scenario.environment) == {"CUDA_VISIBLE_DEVICES": ""}
    assert (scenario.visible_devices, scenario.device_order) == ("", None)
    assert Scenario(MIXED).environment == {}
    assert (Scenario(MIXED).visible_devices, Scenario(MIXED).device_order) == (None, None)


def test_a_whole_environment_may_be_given() -> None:
    env = {"PATH": "/bin", "HOME": "/", "CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7", "RANK": "1", "TERM": "dumb"}
    assert set(Scenario.from_env(MIXED, env).environment) == {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "RANK"}
    assert [is_relevant(name) for name in ("CUDA_HOME", "LOCAL_RANK", "LANG", "cuda_visible_devices")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("value", [0, 1.5, True, ["0"], b"0"])
def test_a_value_that_is_no_text_is_a_mistake_of_the_caller(value: Any) -> None:
    with pytest.raises(TypeError, match="CUDA_VISIBLE_DEVICES"):
        Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": value})


def test_with_env_changes_and_unsets() -> None:
    scenario = Scenario.from_env(MIXED, ENV)
    assert scenario.with_env(CUDA_VISIBLE_DEVICES=None).environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert scenario.with_env(CUDA_VISIBLE_DEVICES="").visible_devices == ""
    assert scenario.with_env() == scenario
    assert scenario.with_env(CUDA_VISIBLE_DEVICES="0").with_env(CUDA_VISIBLE_DEVICES="1,2") == scenario
    assert Scenario(MIXED).with_env(CUDA_VISIBLE_DEVICES="0") == Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "0"})
    assert scenario.visible_devices == "1,2"


def test_with_env_touches_the_innermost_environment_only() -> None:
    outer, inner = (Layer(ENVIRONMENT, {"set": {"CUDA_VISIBLE_DEVICES": v}, "by": v}) for v in ("0", "1"))
    changed = Scenario(MIXED, (outer, Layer("other"), inner)).with_env(CUDA_VISIBLE_DEVICES="2")
    assert changed.layers[:2] == (outer, Layer("other"))
    assert changed.layers[2].options == {"set": {"CUDA_VISIBLE_DEVICES": "2"}, "by": "1"}


def test_with_topology_keeps_the_layers() -> None:
    scenario = Scenario.from_env(MIXED, ENV)
    assert scenario.with_topology(equal(4)).layers == scenario.layers
    assert scenario.with_topology(equal(4)).topology == equal(4)


def test_scenarios_are_values() -> None:
    one, same = (Scenario.from_env(MIXED, dict(ENV)) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same, one.with_env(CUDA_DEVICE_ORDER=None)}) == 2
    assert Scenario(MIXED, [Layer("x")]).layers == (Layer("x"),)  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        one.layers = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        one.environment["CUDA_VISIBLE_DEVICES"] = "3"  # type: ignore[index]


def test_options_are_frozen_in_depth() -> None:
    given = {"set": {"A": "1"}, "list": [1, {"b": [2]}]}
    layer = Layer("x", given)
    given["list"].append(3)  # type: ignore[attr-defined]
    assert layer.options["list"] == (1, {"b": (2,)})
    assert hash(layer) == hash(Layer("x", {"list": (1, {"b": (2,)}), "set": {"A": "1"}}))
    assert layer.label == "x(set=FrozenDict({'A': '1'}), list=(1, FrozenDict({'b': (2,)})))"


def test_a_frozen_dict_is_a_mapping() -> None:
    frozen = FrozenDict({"a": 1, "b": 2})
    assert frozen == {"b": 2, "a": 1} == dict(frozen)
    assert hash(frozen) == hash(FrozenDict([("b", 2), ("a", 1)]))
    assert (len(frozen), list(frozen), frozen.get("c")) == (2, ["a", "b"], None)
    assert pickle.loads(pickle.dumps(frozen)) == copy.deepcopy(frozen) == frozen
    assert repr(FrozenDict()) == "FrozenDict({})"
    with pytest.raises(TypeError):
        hash(FrozenDict({"a": []}))


# ---- JSON ----

MACHINES = [
    Topology(),
    MIXED,
    split(None),
    equal(9),
    Topology.of("what", platform="wsl"),
    replace(
        MIXED,
        default_order=(3, 1, 0, 2),
        default_order_measured=True,
        simulated=True,
        notes=("a note", "é\n\ud83d\udd25"),
        source="",
    ),
    Topology((Gpu(7, None, None, None, 0, (0, 0), 0, 0, 0, mig_mode=False, problem="lost."),)),
    Topology((Gpu(mig_instances=(MigInstance(None, "1g", 0, 0, 0, 3), MigInstance())),)),
]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.source or "many fields")
@pytest.mark.parametrize(
    "env", [{}, ENV, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "\x00\udc80\n\"'\\１"}], ids=ascii
)
def test_there_and_back(machine: Topology, env: dict[str, str]) -> None:
    scenario = Scenario.from_env(machine, env)
    text = scenario.to_json()
    again = Scenario.from_json(text)
    assert again == scenario
    assert hash(again) == hash(scenario)
    assert again.topology.notes == machine.notes
    assert again.to_json() == text
    assert resolve(again) == resolve(scenario)


def test_layers_of_any_kind_travel() -> None:
    layer = Layer("future", {"n": 3, "list": [1, [2, None]], "deep": {"a": {"b": [True, 1.5]}}})
    scenario = Scenario(MIXED, (layer, Layer("second")))
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_the_seen_order_of_a_machine_without_gpus_travels_too() -> None:
    scenario = Scenario(Topology((), default_order=()))
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_only_what_is_known_is_written() -> None:
    data = json.loads(Scenario.from_env(Topology.of("Tesla T4"), {}).to_json())
    assert set(data) == {"gpumap_scenario", "topology", "layers"}
    assert set(data["topology"]["gpus"][0]) == {"nvml_index", "name", "memory_mib", "compute_capability", "sm_count"}
    assert set(data["topology"]) == {"gpus", "platform", "source"}


GOOD = json.loads(Scenario.from_env(replace(split(), default_order=(1, 0), notes=("n",)), ENV).to_json())


def damaged(path: tuple[Any, ...], value: Any) -> str:
    data = copy.deepcopy(GOOD)
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "5",
        "[]",
        '"x"',
        "{}",
        '{"gpumap_scenario": 2}',
        '{"gpumap_scenario": 1}',
        "[" * 100_000,
        "\x00",
        "NaN",
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UnreadableScenario) as caught:
        Scenario.from_json(text)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("gpumap_scenario",), 2),
        (("gpumap_scenario",), "1"),
        (("topology",), None),
        (("topology", "gpus"), 5),
        (("topology", "gpus", 0), "RTX 4090"),
        (("topology", "gpus", 0, "name"), 5),
        (("topology", "gpus", 0, "nvml_index"), "0"),
        (("topology", "gpus", 0, "nvml_index"), True),
        (("topology", "gpus", 0, "memory_mib"), 1.5),
        (("topology", "gpus", 0, "mig_mode"), 1),
        (("topology", "gpus", 0, "pci_bus_id"), "slot 3"),
        (("topology", "gpus", 1, "uuid"), UUIDS[0]),
        (("topology", "gpus", 0, "compute_capability"), [8]),
        (("topology", "gpus", 0, "compute_capability"), "8.9.1"),
        (("topology", "gpus", 0, "mig_instances"), [5]),
        (("topology", "driver_version"), 535),
        (("topology", "source"), ["x"]),
        (("topology", "platform"), "amiga"),
        (("topology", "platform"), 5),
        (("topology", "default_order"), [0, 7]),
        (("topology", "default_order"), "10"),
        (("topology", "default_order"), 1),
        (("layers",), None),
        (("layers", 0), "environment"),
        (("layers", 0, "kind"), 5),
        (("layers", 0), {"kind": "environment"}),
    ],
)
def test_damaged_scenarios_are_refused(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(UnreadableScenario):
        Scenario.from_json(damaged(path, value))


ODD = [
    None,
    True,
    5,
    -1,
    1.5,
    "x",
    "",
    [],
    [1],
    ["x"],
    [None],
    {},
    {"a": 1},
    {"uuid": 5},
    [[]],
    2**40,
    [1.0, 0.0],
    [5, "a"],
]


def paths(value: Any, head: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in JSON data."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [head, *(path for key, child in inner for path in paths(child, (*head, key)))] if head else [
        path for key, child in inner for path in paths(child, (key,))
    ]  # fmt: skip


@pytest.mark.parametrize("path", paths(GOOD), ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("visible", ["MIG-x", "0,1"])
def test_what_can_be_read_can_be_used(path: tuple[Any, ...], visible: str) -> None:
    """Whatever stands in one place: it is refused, or everything works with it."""
    refused = 0
    for value in ODD:
        data = json.loads(damaged(path, value))
        if path[0] == "topology" or path == ("layers", 0, "options", "set", "CUDA_DEVICE_ORDER"):
            data["layers"][0]["options"]["set"]["CUDA_VISIBLE_DEVICES"] = visible
        try:
            scenario = Scenario.from_json(json.dumps(data))
        except UnreadableScenario:
            refused += 1
            continue
        prediction = resolve(scenario)
        assert isinstance(hash(scenario), int)
        assert prediction.steps or prediction.error
        assert str(prediction)
        assert str(scenario.topology)
        assert prediction._repr_html_()
        assert scenario.topology._repr_html_()
        assert len(scenario.topology.to_frame()) == len(scenario.topology.gpus)
        assert Scenario.from_json(scenario.to_json()) == scenario
        assert prediction.error or all(isinstance(one, str) for one in scenario.environment.values())
    assert refused, "every place has a type"


# ---- errors ----


def test_errors_carry_what_to_do() -> None:
    error = ImpossibleMachine("Wrong.", remedy="Do it right.")
    assert (str(error), error.message, error.remedy) == ("Wrong. Do it right.", "Wrong.", "Do it right.")
    assert str(UnreadableTopology("Wrong.")) == "Wrong."
    for kind in (ImpossibleMachine, UnreadableScenario, UnreadableTopology):
        assert issubclass(kind, GpumapError)
        assert issubclass(kind, ValueError)
