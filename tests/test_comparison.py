"""The comparison: what may be called confirmed, what refuted, and what neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.identity import bare_uuid
from gpumap_widgets.mapping import Comparison, Message, Observation, ObservedDevice, Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Gpu, MigInstance, Topology

T4, RTX = "Tesla T4", "NVIDIA GeForce RTX 4090"
NAMES, BUSES = (T4, RTX, T4, T4), ("5E", "86", "AF", "D8")


def _uuid(number: int, kind: str = "GPU") -> str:
    return f"{kind}-0000000{number}-1111-4222-8333-444444444444"


GPUS = tuple(
    Gpu(i, name, _uuid(i), f"{bus}:00.0", 15360, (7, 5), 40)
    for i, (name, bus) in enumerate(zip(NAMES, BUSES, strict=True))
)
MEASURED = {"default_order": (1, 0, 2, 3), "default_order_measured": True}
MIXED = Topology(GPUS, driver_version="535.104.05", **MEASURED)  # type: ignore[arg-type]


def _without(topology: Topology, **fields: object) -> Topology:
    return replace(topology, gpus=tuple(replace(gpu, **fields) for gpu in topology.gpus))  # type: ignore[arg-type]


NO_UUIDS, NO_ADDRESSES = _without(MIXED, uuid=None), _without(MIXED, pci_bus_id=None)
NAMES_ONLY = _without(NO_UUIDS, pci_bus_id=None)
STRANGERS = replace(MIXED, gpus=tuple(replace(g, uuid=_uuid(i + 4)) for i, g in enumerate(GPUS)))


def foretell(env: Mapping[str, str], topology: Topology = MIXED) -> Prediction:
    return resolve(Scenario.from_env(topology, env))


def saw(indices: Sequence[int], env: Mapping[str, str], present: Topology | None = MIXED, **fields: Any) -> Observation:
    """A run that saw these GPUs of the mixed machine; ``present`` is what NVML showed beside."""
    devices = tuple(
        ObservedDevice(i, bare_uuid(_uuid(k)), NAMES[k], f"00000000:{BUSES[k]}:00.0", 15360, (7, 5))
        for i, k in enumerate(indices)
    )
    rows = present and tuple((bare_uuid(g.uuid) if g.uuid else None, g.pci_bus_id) for g in present.gpus)
    values: dict[str, Any] = {
        "devices": devices,
        "env": FrozenDict(env),
        "wanted_env": FrozenDict(env),
        "present": rows,
    }
    return Observation(**{"versions": FrozenDict({"torch": "2.14.1"}), **values, **fields})


def strip(observation: Observation, *names: str) -> Observation:
    """The same, from a torch that does not tell some things."""
    return replace(observation, devices=tuple(replace(d, **dict.fromkeys(names)) for d in observation.devices))


def verdicts(comparison: Comparison) -> list[str]:
    return [edge.verdict for edge in comparison.edges]


PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("env", "indices"),
    [
        ({}, (1, 0, 2, 3)),
        (PCI, (0, 1, 2, 3)),
        ({"CUDA_VISIBLE_DEVICES": "1,2"}, (0, 2)),
        (PCI | {"CUDA_VISIBLE_DEVICES": "1,2"}, (1, 2)),
        (PCI | {"CUDA_VISIBLE_DEVICES": "3,0"}, (3, 0)),
    ],
)
@pytest.mark.parametrize("topology", [MIXED, NO_UUIDS, NO_ADDRESSES])
def test_the_foretold_devices_confirm(env: dict[str, str], indices: tuple[int, ...], topology: Topology) -> None:
    result = compare(foretell(env, topology), saw(indices, env))
    assert (result.verdict, verdicts(result)) == ("confirmed", ["agrees"] * len(indices)), result.reason.text()
    assert result.joined_by == ("pci address" if topology is NO_UUIDS else "uuid")
    assert result.exercised == ("cuda",)
    assert [edge.seen_position for edge in result.edges] == list(indices)
    assert ("Joined by PCI address, because the description has no UUIDs." in str(result.reason)) == (
        topology is NO_UUIDS
    )


@pytest.mark.parametrize(
    ("seen", "expected", "words"),
    [
        ((0, 1, 2, 3), ["differs", "differs", "agrees", "agrees"], "cuda:0 is the Tesla T4 at 5E:00.0, foretold was the RTX 4090 at 86:00.0."),
        ((1, 0, 2), ["agrees", "agrees", "agrees", "differs"], "cuda:3 does not exist, foretold was the Tesla T4 at D8:00.0."),
        ((1, 2, 0, 3), ["agrees", "differs", "differs", "agrees"], "cuda:1 is the Tesla T4 at AF:00.0, foretold was the Tesla T4 at 5E:00.0."),
        ((), ["differs"] * 4, "cuda:0 does not exist, foretold was the RTX 4090 at 86:00.0."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("topology", [MIXED, NO_UUIDS])
def test_other_devices_refute(seen: tuple[int, ...], expected: list[str], words: str, topology: Topology) -> None:
    result = compare(foretell({}, topology), saw(seen, {}))
    if not seen and topology is NO_UUIDS:  # addresses alone do not identify a machine that shows no device
        assert (result.verdict, verdicts(result)) == ("not checked", ["not checked"] * 4)
        return
    assert (result.verdict, verdicts(result)) == ("refuted", expected)
    first = expected.index("differs")
    assert str(result.edges[first].reason) == words
    assert str(result.reason).startswith(f"Refuted at cuda:{first}")
    assert words in str(result.reason)
    assert "What the hardware says counts." in str(result.reason)
    assert all((edge.reason is None) == (edge.verdict == "agrees") for edge in result.edges)


def test_a_device_too_many_refutes() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "0"}
    result = compare(foretell(env), saw((1, 0), env))
    assert (result.verdict, verdicts(result)) == ("refuted", ["agrees", "differs"])
    assert str(result.edges[1].reason) == "cuda:1 is the Tesla T4 at 5E:00.0, foretold was no such device."
    assert result.edges[1].predicted is None


def test_a_gpu_that_the_description_lacks_refutes() -> None:
    smaller = replace(MIXED, gpus=GPUS[:3], default_order=(1, 0, 2))
    result = compare(foretell({}, smaller), saw((1, 0, 3), {}))
    assert (result.verdict, verdicts(result)) == ("refuted", ["agrees", "agrees", "differs"])
    assert "a GPU that the description does not have" in str(result.reason)
    assert result.edges[2].seen_position is None


@pytest.mark.parametrize("seen", [(1, 0, 2, 3), (0,), ()])
@pytest.mark.parametrize("env", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_another_machine_is_not_checked(seen: tuple[int, ...], env: dict[str, str]) -> None:
    result = compare(foretell(env, STRANGERS), saw(seen, env))
    assert result.verdict == "not checked"
    assert set(verdicts(result)) <= {"not checked"}
    assert "not the one that was described" in str(result.reason)
    assert result.joined_by == "nothing"


def test_a_described_gpu_that_is_hidden_or_gone_does_not_make_another_machine() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "0"}
    one_left = replace(MIXED, gpus=GPUS[1:2], default_order=None)
    assert compare(foretell(env), saw((1,), env, present=one_left)).verdict == "confirmed"
    assert compare(foretell(env), saw((1,), env, present=None)).verdict == "confirmed"


@pytest.mark.parametrize(
    ("topology", "present", "verdict"),
    [
        (MIXED, MIXED, "confirmed"),
        (MIXED, None, "not checked"),  # NVML was mute: this may be any machine
        (NO_UUIDS, MIXED, "not checked"),  # addresses are alike on too many machines
        (STRANGERS, MIXED, "not checked"),
        (Topology(), MIXED, "not checked"),
    ],
)
def test_nothing_foretold_and_nothing_seen(topology: Topology, present: Topology | None, verdict: str) -> None:
    env = {"CUDA_VISIBLE_DEVICES": ""}
    assert compare(foretell(env, topology), saw((), env, present)).verdict == verdict


def test_nothing_foretold_but_a_device_seen() -> None:
    env = {"CUDA_VISIBLE_DEVICES": ""}
    result = compare(foretell(env), saw((1,), env))
    assert (result.verdict, verdicts(result)) == ("refuted", ["differs"])


def test_a_laptop_without_gpu_confirms_nothing() -> None:
    env = {"CUDA_VISIBLE_DEVICES": ""}
    problem = Message("live.no-device")
    result = compare(foretell(env), replace(saw((), env), problem=problem))
    assert (result.verdict, result.reason, result.exercised) == ("not checked", problem, ())


def test_names_never_join() -> None:
    result = compare(foretell({}, NAMES_ONLY), saw((1, 0, 2, 3), {}))
    assert (result.verdict, result.joined_by) == ("not checked", "nothing")
    assert "the description has neither UUIDs nor PCI addresses" in str(result.reason)


@pytest.mark.parametrize(
    ("missing", "topology", "verdict", "words"),
    [
        (("uuid", "pci_bus_id"), MIXED, "not checked", "torch 2.14.1 tells neither UUIDs nor PCI addresses"),
        (("pci_bus_id",), MIXED, "confirmed", "Confirmed"),
        (("uuid",), MIXED, "confirmed", "Joined by PCI address, because torch 2.14.1 tells no UUIDs."),
        (("pci_bus_id",), NO_UUIDS, "not checked", "torch 2.14.1 tells neither"),
    ],
)
def test_an_older_torch(missing: tuple[str, ...], topology: Topology, verdict: str, words: str) -> None:
    result = compare(foretell({}, topology), strip(saw((1, 0, 2, 3), {}), *missing))
    assert result.verdict == verdict
    assert words in str(result.reason)


def test_an_address_of_another_model_is_another_machine() -> None:
    laptop = Topology((Gpu(0, "NVIDIA GeForce RTX 4070 Laptop GPU", None, "5E:00.0"),))
    result = compare(foretell({}, laptop), saw((0,), {}))
    assert (result.verdict, result.reason.key) == ("not checked", "compare.other-machine")
    same = Topology((Gpu(0, "T4", None, "5E:00.0"),))
    assert compare(foretell({}, same), saw((0,), {})).verdict == "confirmed"


def test_one_device_without_identity_leaves_the_whole_open() -> None:
    seen = saw((1, 0, 2, 3), {})
    seen = replace(seen, devices=(*seen.devices[:3], replace(seen.devices[3], uuid=None, pci_bus_id=None)))
    result = compare(foretell({}), seen)
    assert (result.verdict, verdicts(result)) == ("not checked", ["agrees"] * 3 + ["not checked"])
    assert "cuda:3" in str(result.reason)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES was '1', there it is '0'"),
        ({}, "CUDA_VISIBLE_DEVICES was '1', there it is unset"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES was '1', there it is ''"),
        (
            {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            "CUDA_DEVICE_ORDER was unset, there it is 'PCI_BUS_ID'; CUDA_VISIBLE_DEVICES was '1', there it is '0'",
        ),
    ],
)
def test_an_environment_that_was_overridden(found: dict[str, str], words: str) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "1"}
    result = compare(foretell(env), replace(saw((0,), env), env=FrozenDict(found)))
    assert (result.verdict, verdicts(result)) == ("not checked", ["not checked"])
    assert words in str(result.reason)


def test_an_observation_of_another_scenario() -> None:
    result = compare(foretell({"CUDA_VISIBLE_DEVICES": "1"}), saw((0,), {}))
    assert (result.verdict, result.reason.key) == ("not checked", "compare.other-scenario")


def test_what_would_not_start_is_not_checked() -> None:
    refused = resolve(Scenario(MIXED, (Layer("no such layer"),)))
    result = compare(refused, Observation(problem=Message("live.refused", FrozenDict({"reason": "x"}))))
    assert (result.verdict, result.edges, result.exercised) == ("not checked", (), ())
    assert refused.error is not None
    assert refused.error in str(result.reason)


def test_a_simulated_driver_is_named() -> None:
    for indices, verdict in (((1, 0, 2, 3), "confirmed"), ((0, 1, 2, 3), "refuted")):
        result = compare(foretell({}), saw(indices, {}, simulated=True))
        assert result.verdict == verdict
        assert "A simulated driver answered" in str(result.reason)
        assert "hardware says counts" not in str(result.reason)


def test_a_wrong_guess_was_a_guess() -> None:
    prediction = foretell({})
    for certainty, key in (
        ("certain", None),
        ("likely", None),
        ("guess", "was only a guess"),
        ("unknown", "most plausible"),
    ):
        process = replace(prediction.processes[0], certainty=type(prediction.certainty)(certainty))
        result = compare(replace(prediction, processes=(process,)), saw((0, 1, 2, 3), {}))
        assert result.verdict == "refuted"
        assert (key is None) == ("guess" not in str(result.reason) and "plausible" not in str(result.reason))
        assert key is None or key in str(result.reason)


def test_other_layers_and_other_processes_were_not_exercised() -> None:
    prediction = foretell({})
    layers = (Layer("docker"), *prediction.scenario.layers, Layer("torchrun"))
    two = replace(
        prediction,
        scenario=replace(prediction.scenario, layers=layers),
        processes=tuple(replace(prediction.processes[0], rank=rank) for rank in (0, 1)),
    )
    result = compare(two, saw((1, 0, 2, 3), {}))
    assert (result.verdict, result.exercised) == ("confirmed", ("cuda",))
    assert "not: docker, torchrun" in str(result.reason)
    assert "first of 2 processes" in str(result.reason)
    assert {edge.rank for edge in result.edges} == {0}


SLICES = (MigInstance(_uuid(8, "MIG"), "3g.20gb", 1, 0), MigInstance(_uuid(9, "MIG"), "2g.10gb", 5, 0))
CUT = Topology((Gpu(0, "NVIDIA A100-SXM4-40GB", _uuid(7), "07:00.0", mig_mode=True, mig_instances=SLICES),))


@pytest.mark.parametrize(
    ("topology", "told", "verdict"),
    [
        (CUT, _uuid(8, "MIG"), "agrees"),
        (CUT, _uuid(9, "MIG"), "differs"),
        (CUT, _uuid(7), "not checked"),  # the UUID of the GPU does not say which slice
        (replace(CUT, gpus=(replace(CUT.gpus[0], uuid=None),)), _uuid(8, "MIG"), "agrees"),
    ],
)
def test_mig(topology: Topology, told: str, verdict: str) -> None:
    env = {"CUDA_VISIBLE_DEVICES": _uuid(8, "MIG")}
    device = ObservedDevice(0, bare_uuid(told), "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "00000000:07:00.0", 19968, (8, 0))
    prediction = foretell(env, topology)
    assert [d.mig for d in prediction.processes[0].devices] == [SLICES[0]]
    result = compare(prediction, saw((), env, topology, devices=(device,)))
    assert verdicts(result) == [verdict], result.reason.text()
    assert result.edges[0].seen_position == 0


def test_mig_without_uuids_is_left_open() -> None:
    cut = replace(CUT, gpus=(replace(CUT.gpus[0], mig_instances=tuple(replace(s, uuid=None) for s in SLICES)),))
    device = ObservedDevice(0, bare_uuid(_uuid(8, "MIG")), "NVIDIA A100", "00000000:07:00.0", 19968, (8, 0))
    env = {"CUDA_VISIBLE_DEVICES": "0"}
    result = compare(foretell(env, cut), saw((), env, cut, devices=(device,)))
    assert verdicts(result) == ["not checked"]


def test_every_result_can_be_said_and_compared() -> None:
    result = compare(foretell({}), saw((0, 1), {}))
    assert result == compare(foretell({}), saw((0, 1), {}))
    assert hash(result.reason) == hash(result.reason)
    assert "{" not in str(result.reason)
