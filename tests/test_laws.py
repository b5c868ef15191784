"""What must hold for every machine and every value, tried by Hypothesis; GPUMAP_SOAK=1 tries much longer."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from gpumap_widgets.catalog import is_vgpu
from gpumap_widgets.certainty import Certainty, least
from gpumap_widgets.device_order import device_order
from gpumap_widgets.editing import toggle
from gpumap_widgets.grammar import Kind, tokenise
from gpumap_widgets.mapping import Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import MIXED, SLICES, UUIDS, equal, listed, pairs, predict, process, split

# ---- machines ----

NAMES = [
    *("Tesla T4", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 3090", "NVIDIA RTX A6000"),
    *("NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 5060 Ti", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 PCIe"),
    *("Tesla V100-PCIE-32GB", "Tesla P100-PCIE-16GB", "NVIDIA GeForce GTX 1080 Ti", "NVIDIA GB300", "GRID T4-16Q"),
]
DRIVERS = ["575.57.08", "570.00", "565.77", "535.104.05", "390.12", "375.26"]
ORDERS = [None, "FASTEST_FIRST", "PCI_BUS_ID", "", "pci_bus_id", "nonsense"]


class Dice:
    """One drawn number, spent digit by digit: one draw a GPU keeps the generation quick, and 0 is the plainest."""

    def __init__(self, number: int) -> None:
        self.number = number

    def roll(self, sides: int) -> int:
        self.number, side = divmod(self.number, sides)
        return side

    def pick(self, *options: Any) -> Any:
        return options[self.roll(len(options))]


DICE = st.integers(0, 2**64 - 1).map(Dice)


def _slices(dice: Dice, seed: int) -> tuple[MigInstance, ...]:
    """The instances of one GPU in MIG mode, perhaps none; two of them may share a GPU instance."""
    places = dict.fromkeys((dice.roll(3) + 1, dice.roll(2)) for _ in range(dice.roll(4)))
    return tuple(
        MigInstance(f"MIG-{seed:04x}{n:04x}-0000-5000-8000-{n:012x}", "1g.5gb", gi, ci)
        for n, (gi, ci) in enumerate(places)
    )


def _gpu(dice: Dice, i: int, pool: list[str | None], mig: bool, told: bool, shown: tuple[bool, bool, bool]) -> Gpu:
    """The i-th GPU: some have UUIDs that begin alike, some an address before that of the one before."""
    cut = mig and dice.roll(4) == 3
    head = dice.pick(0xAB00_0000 + dice.roll(256), dice.roll(2**32))
    uuid, index, bus = shown
    return Gpu(
        i if index else None,
        pool[dice.roll(len(pool))],
        f"GPU-{head:08x}-{i:04x}-4000-8000-{i:012x}" if uuid else None,
        f"{dice.roll(2):04x}:{(i + 16 * dice.roll(4)):02x}:{i:02x}.0" if bus else None,
        mig_mode=cut,
        mig_instances=_slices(dice, i) if cut else (),
        problem=None if told or dice.roll(5) < 4 else "lost.",
    )


@st.composite
def machines(draw: st.DrawFn, least_gpus: int = 0, mig: bool = True, told: bool = False) -> Topology:
    """A machine. ``told``: everything about it is known; else this or that may be missing, lost or unheard of."""
    count = draw(st.integers(least_gpus, 6))
    dice = draw(DICE)
    names = NAMES if told else [*NAMES, None, "A card of tomorrow"]
    pool = [dice.pick(*names) for _ in range(dice.roll(3) + 1)]
    shown = (True, True, True) if told else tuple(dice.roll(3) < 2 for _ in range(3))
    gpus = tuple(_gpu(draw(DICE), i, pool, mig and dice.roll(2) == 1, told, shown) for i in range(count))
    order = tuple(sorted(range(count), key=lambda i: (i * 7 + 3) % 5)) if count and dice.roll(2) else None
    return Topology(
        gpus,
        driver_version=dice.pick(*(DRIVERS if told else [*DRIVERS, None, "no version"])),
        platform=dice.pick("linux", "linux", "windows", "wsl"),
        default_order=order,
        default_order_measured=dice.pick(False, True),
    )


# ---- values ----

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
"""Surrogates and NUL included, which an environment cannot even hold."""
ODD = [
    "",
    " ",
    "+",
    "-",
    "all",
    "x",
    "0x1",
    "010",
    "1gpu",
    "0-2",
    "4294967296",
    "１",
    "²",
    "GPU-",
    "MIG-",
    '"0',
    "\ud800",
    "\x00",
]


def _entry(dice: Dice, machine: Topology, kind: str) -> str:
    """An entry as somebody might write it for this machine."""
    uuids = [gpu.uuid for gpu in machine.gpus if gpu.uuid] or ["GPU-00000000-0000-4000-8000-000000000000"]
    mig = [m.uuid for gpu in machine.gpus for m in gpu.mig_instances if m.uuid] or ["MIG-x"]
    kind = dice.pick("number", "uuid", "mig", "odd") if kind == "any" else kind
    uuid = dice.pick(*uuids)
    if kind == "number":
        text = str(dice.roll(len(machine.gpus) + 2) - dice.pick(0, 0, 0, 1))
    elif kind == "uuid":
        text = uuid[: dice.pick(40, 12, 8, 5)]
    elif kind == "mig":
        text = dice.pick(dice.pick(*mig), f"MIG-{uuid[: dice.pick(40, 12)]}/{dice.roll(5)}/{dice.roll(2)}")
    else:
        text = dice.pick(*ODD)
    dress = dice.roll(16)
    return {12: f" {text}", 13: f"{text} ", 14: f"+{text}", 15: text.upper(), 11: f"0{text}"}.get(dress, text)


@st.composite
def near_values(draw: st.DrawFn, machine: Topology) -> str:
    """A list for this machine: good entries, bad ones, and good ones badly written."""
    kind = draw(st.sampled_from(["number", "number", "uuid", "mig", "any"]))
    return ",".join(_entry(dice, machine, kind) for dice in draw(st.lists(DICE, max_size=6)))


@st.composite
def cases(draw: st.DrawFn, told: bool = False, mig: bool = True) -> tuple[Topology, str | None, str | None]:
    """A machine, a list for it, an order."""
    machine = draw(machines(told=told, mig=mig))
    what = draw(st.sampled_from(["unset", "list", "list", "list", "text"]))
    visible = None if what == "unset" else draw(near_values(machine) if what == "list" else ANY_TEXT)
    return machine, visible, draw(st.sampled_from(ORDERS) if told else st.sampled_from(ORDERS) | ANY_TEXT)


# ---- nothing raises ----


@given(cases())
def test_no_value_and_no_machine_raises(case: tuple[Topology, str | None, str | None]) -> None:
    prediction = predict(*case)
    assert prediction.error is None
    assert all(str(step) and step.source for step in prediction.steps)
    assert all(finding.message for finding in prediction.findings)
    assert str(prediction)
    assert prediction._repr_html_()
    for position in range(-1, len(case[0].gpus) + 1):
        toggle(prediction, position)


@given(ANY_TEXT | st.text(st.sampled_from("0123456789,+-GPUMIgpumix/ \t\n"), max_size=60))
@example("\ud800,\x00,١,GPU-\udfff")
@example("0,\x00")
@example("," * 50)
def test_tokens_cover_any_text(value: str) -> None:
    tokens = tokenise(value)
    assert ",".join(token.text for token in tokens) == value
    assert all(value[token.start : token.end] == token.text for token in tokens)
    for token in tokens:
        assert isinstance(token.value, int)
        assert (token.kind is Kind.INTEGER) or token.value == -1
    for machine in (equal(3), split(), Topology()):
        process(machine, value)


LONG = {
    "digits": "1" * 100_000,
    "zeros": "0" * 100_000,
    "commas": "," * 100_000,
    "numbers": listed(range(20_000)),
    "one number": "0," * 50_000,
    "blanks": " " * 100_000,
    "signs": "-" * 100_000,
    "prefixes": "GPU-," * 20_000,
    "one prefix": "GPU-" + "a" * 100_000,
    "paths": f"MIG-{UUIDS[0]}/9/0," * 2_000,
    "instance numbers": f"MIG-{UUIDS[0]}/{'9' * 100_000}/0",
    "wide": "\U0001f600" * 25_000,
    "surrogates": "\ud800" * 100_000,
    "nul": "\x00" * 100_000,
    "bare": "7d20b5e9-e843-" * 7_000,
}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG.keys())
def test_very_long_values_cost_little(value: str) -> None:
    started = time.process_time()
    for machine in (equal(8), split()):
        assert isinstance(predict(machine, value, "PCI_BUS_ID").findings, tuple)
    assert len(predict(equal(8), value, "PCI_BUS_ID")._repr_html_()) < 400_000 + 8 * len(value)
    assert time.process_time() - started < 20


def test_the_time_grows_with_the_list_not_with_its_square() -> None:
    def seconds(count: int) -> float:
        machine, value = equal(count), listed(reversed(range(count)))
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            process(replace(machine), value, "PCI_BUS_ID")
            best = min(best, time.process_time() - started)
        return best

    assert seconds(4096) < 60 * seconds(256)  # 16 times the size


# ---- what a result looks like ----


@given(cases())
def test_ordinals_count_from_zero_and_no_device_comes_twice(case: tuple[Topology, str | None, str | None]) -> None:
    shown = process(*case)
    assert [device.ordinal for device in shown.devices] == list(range(len(shown.devices)))
    assert len(set(pairs(shown))) == len(shown.devices)
    assert shown.uses == tuple(range(len(shown.devices)))
    assert set(shown.order.places) == set(case[0].usable) == set(shown.accessible)
    event(f"{len(shown.devices)} devices")
    for device in shown.devices:
        assert device.gpu is case[0].gpus[device.position]
        assert device.gpu.problem is None
        assert shown.order.places[device.place] == device.position
        assert device.mig is None or device.mig in device.gpu.mig_instances
    shown_or_hidden = {device.position for device in shown.devices} | set(shown.hidden)
    assert shown_or_hidden == set(shown.order.places)


@given(cases())
def test_the_whole_is_no_surer_than_its_parts(case: tuple[Topology, str | None, str | None]) -> None:
    prediction = predict(*case)
    (shown,) = prediction.processes
    parts = [device.certainty for device in shown.devices]
    assert prediction.certainty == shown.certainty
    weakest = least([*parts, shown.reading.basis.certainty])
    if any(gpu.mig_mode for gpu in case[0].gpus):
        assert prediction.certainty.rank >= weakest.rank  # which GPU a number names may matter where no edge is left
    else:
        assert prediction.certainty == weakest
    assert shown.order.certainty == least(shown.order.certainties)
    event(str(prediction.certainty))


@given(cases())
def test_a_stop_is_where_the_devices_end(case: tuple[Topology, str | None, str | None]) -> None:
    shown = process(*case)
    stop, tokens = shown.reading.stop, shown.reading.tokens
    used = [device.token for device in shown.devices]
    if stop is None:
        return
    assert 0 <= stop.token < len(tokens)
    assert all(token is not None and token < stop.token for token in used)
    if stop.empties:
        assert used == []
        assert stop.other is not None
        assert 0 <= stop.other < stop.token


@given(machines(), st.sampled_from(ORDERS))
def test_an_empty_list_hides_everything_for_certain(machine: Topology, order: str | None) -> None:
    assert predict(machine, "", order).nvml_indices == ()
    assert predict(machine, "", order).certainty == "certain"
    assert predict(machine, "-1", order).nvml_indices == ()


# ---- naming and permuting ----


@given(machines(least_gpus=1, mig=False), st.sampled_from(ORDERS))
def test_naming_every_gpu_equals_unset(machine: Topology, order: str | None) -> None:
    usable = machine.usable
    assume(usable)
    unset = process(machine, None, order)
    assert pairs(process(machine, listed(range(len(usable))), order)) == pairs(unset)
    assert process(machine, listed(range(len(usable))), order).certainty == unset.certainty
    if all(machine.gpus[i].uuid for i in usable):
        by_uuid = process(machine, listed(device.gpu.uuid for device in unset.devices), order)
        assert pairs(by_uuid) == pairs(unset)
        assert by_uuid.certainty == ("certain" if len(usable) == len(machine.gpus) else "likely")


@given(machines(least_gpus=1, mig=False), st.sampled_from(ORDERS), st.data())
def test_a_permutation_of_the_list_permutes_the_devices(
    machine: Topology, order: str | None, data: st.DataObject
) -> None:
    count = len(machine.usable)
    chosen = data.draw(st.lists(st.integers(0, max(count - 1, 0)), unique=True, max_size=count))
    assume(count)
    turned = data.draw(st.permutations(range(len(chosen))))
    value, mixed = listed(chosen), listed(chosen[i] for i in turned)
    straight, permuted = process(machine, value, order), process(machine, mixed, order)
    assert [(device.position, device.certainty) for device in permuted.devices] == [
        (straight.devices[i].position, straight.devices[i].certainty) for i in turned
    ]
    assert permuted.certainty == straight.certainty


@given(cases(told=True), st.data())
def test_a_list_of_uuids_does_not_depend_on_the_order(case: tuple[Topology, None, None], data: st.DataObject) -> None:
    machine = case[0]
    names = (
        [gpu.uuid for gpu in machine.gpus]
        if data.draw(st.booleans())
        else [m.uuid for g in machine.gpus for m in g.mig_instances]
    )
    cut = data.draw(st.integers(5, 40))
    value = listed(name[:cut] for name in data.draw(st.permutations([n for n in names if n])))
    assume(value)
    results = {
        (tuple(pairs(process(machine, value, order))), process(machine, value, order).certainty) for order in ORDERS
    }
    assert len(results) == 1


@given(cases(told=True))
def test_the_uuids_of_a_result_give_the_result_again(case: tuple[Topology, str | None, str | None]) -> None:
    shown = process(*case)
    whole = {device.mig is None for device in shown.devices}
    assume(len(whole) == 1)  # what MIG and GPU UUIDs in one list do, nobody knows
    instances = [(device.position, device.mig.gpu_instance_id) for device in shown.devices if device.mig]
    assume(len(set(instances)) == len(instances))
    old = (case[0].driver_major or 0) < 570
    assume(not (old and len(instances) > 1))
    value = listed(device.mig.uuid if device.mig else device.gpu.uuid for device in shown.devices)
    for order in ORDERS:
        again = predict(case[0], value, order)
        assert pairs(again.processes[0]) == pairs(shown)
        assert again.certainty == "certain"


@given(machines(mig=False), st.sampled_from([None, "PCI_BUS_ID"]), st.data())
def test_a_click_changes_one_gpu(machine: Topology, order: str | None, data: st.DataObject) -> None:
    visible = data.draw(st.none() | st.lists(st.integers(-1, len(machine.gpus)), max_size=5).map(listed))
    before = predict(machine, visible, order)
    for position in range(len(machine.gpus)):
        value = toggle(before, position)
        if value is not None:
            shown = {device.position for device in before.processes[0].devices}
            after = {device.position for device in process(machine, value, order).devices}
            assert after == shown ^ {position}


# ---- values ----


@given(cases())
def test_json_there_and_back(case: tuple[Topology, str | None, str | None]) -> None:
    scenario = predict(*case).scenario
    again = Scenario.from_json(scenario.to_json())
    assert again == scenario
    assert hash(again) == hash(scenario)
    assert resolve(again) == resolve(scenario)


@given(cases())
def test_predictions_are_values(case: tuple[Topology, str | None, str | None]) -> None:
    one, same = predict(*case), resolve(predict(*case).scenario.with_topology(replace(case[0])))
    assert one == same
    assert hash(one) == hash(same)
    assert isinstance(one.steps, tuple)
    for twin in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert twin == one
        assert hash(twin) == hash(one)
        assert twin.steps == one.steps
        assert twin.findings == one.findings
    assert {one: 1}[same] == 1


# ---- a certainty never rises when information is removed ----

Removal = Callable[[Topology], Topology]


def _each(machine: Topology, **changes: object) -> Topology:
    return replace(machine, gpus=tuple(replace(gpu, **changes) for gpu in machine.gpus))  # type: ignore[arg-type]


def _strange_names(machine: Topology) -> Topology:
    gpus = (replace(g, name=f"Card {i}", compute_capability=None, sm_count=None) for i, g in enumerate(machine.gpus))
    return replace(machine, gpus=tuple(gpus))


def _no_slice_names(machine: Topology) -> Topology:
    return replace(machine, gpus=tuple(
        replace(g, mig_instances=tuple(replace(m, uuid=None) for m in g.mig_instances)) for g in machine.gpus
    ))  # fmt: skip


def _no_slice_numbers(machine: Topology) -> Topology:
    return replace(machine, gpus=tuple(
        replace(g, mig_instances=tuple(replace(m, gpu_instance_id=None, compute_instance_id=None) for m in g.mig_instances))
        for g in machine.gpus
    ))  # fmt: skip


REMOVALS: dict[str, Removal] = {
    "the driver version": lambda machine: replace(machine, driver_version=None),
    "the PCI addresses": lambda machine: _each(machine, pci_bus_id=None),
    "the nvidia-smi numbers": lambda machine: _each(machine, nvml_index=None),
    "the addresses and the numbers": lambda machine: _each(machine, pci_bus_id=None, nvml_index=None),
    "the names": lambda machine: _each(machine, name=None),
    "what the names mean": _strange_names,
    "the order that was seen": lambda machine: replace(machine, default_order=None),
    "that it was measured": lambda machine: replace(machine, default_order_measured=False),
    "the UUIDs": lambda machine: _each(machine, uuid=None),
    "the UUIDs of MIG devices": _no_slice_names,
    "the numbers of MIG devices": _no_slice_numbers,
}


def rises(machine: Topology, visible: str | None, order: str | None, remove: Removal) -> str:
    """What becomes surer without the information; "" when nothing does."""
    full, less = predict(machine, visible, order), predict(remove(machine), visible, order)
    if less.certainty.rank < full.certainty.rank:
        return f"{full.certainty} becomes {less.certainty}"
    known = {
        (d.ordinal, *pair): d.certainty
        for d, pair in zip(full.processes[0].devices, pairs(full.processes[0]), strict=True)
    }
    for device, pair in zip(less.processes[0].devices, pairs(less.processes[0]), strict=True):
        before = known.get((device.ordinal, *pair))
        if before is not None and device.certainty.rank < before.rank:
            return f"cuda:{device.ordinal}: {before} becomes {device.certainty}"
    return ""


@pytest.mark.parametrize("what", REMOVALS)
@given(case=cases(told=True))
def test_a_certainty_never_rises_when_something_is_not_told(
    what: str, case: tuple[Topology, str | None, str | None]
) -> None:
    machine = case[0]
    if what == "the driver version":
        # an unknown version counts as a new one by the rule of the evidence; only old ones are known to differ
        assume((machine.driver_major or 0) >= 390)
    assert rises(*case, REMOVALS[what]) == ""


def test_what_is_not_told_is_not_taken_for_absent() -> None:
    shared = tuple(
        replace(m, gpu_instance_id=3, compute_instance_id=i) for i, m in enumerate(split().gpus[0].mig_instances)
    )
    machine = replace(split(), gpus=(replace(split().gpus[0], mig_instances=shared), split().gpus[1]))
    assert rises(equal(3), "GPU-3F8A", "PCI_BUS_ID", REMOVALS["the UUIDs"]) == ""
    assert rises(split(), f"{SLICES[0]},{SLICES[0]}", "PCI_BUS_ID", REMOVALS["the UUIDs of MIG devices"]) == ""
    assert rises(machine, listed(SLICES), "PCI_BUS_ID", REMOVALS["the numbers of MIG devices"]) == ""


@given(cases(told=True, mig=False))
def test_without_uuids_the_numbers_are_as_sure_as_before(case: tuple[Topology, str | None, str | None]) -> None:
    machine, visible, order = case
    if visible is not None and any(token.kind is not Kind.INTEGER for token in tokenise(visible)):
        visible = None
    assert rises(machine, visible, order, lambda m: _each(m, uuid=None)) == ""
    assert predict(machine, visible, order).certainty == predict(_each(machine, uuid=None), visible, order).certainty


@given(machines(told=True, mig=False))
def test_a_measured_order_is_the_surest(machine: Topology) -> None:
    full = replace(machine, default_order=tuple(reversed(range(len(machine.gpus)))), default_order_measured=True)
    assert device_order(full, None).places == full.default_order
    assert device_order(full, None).certainty == "certain"
    assert device_order(replace(full, default_order_measured=False), None).certainty in ("certain", "likely")
    assert not (any(is_vgpu(gpu.name or "") for gpu in machine.gpus) and len(machine.gpus) > 1) or (
        device_order(replace(full, default_order=None), None).certainty == "unknown"
    )


# ---- certainties ----


@given(st.lists(st.sampled_from(Certainty)))
def test_the_least_of_some_certainties(some: list[Certainty]) -> None:
    assert least(some).rank == max((certainty.rank for certainty in some), default=0)
    assert least([*some, Certainty.UNKNOWN]) is Certainty.UNKNOWN
    assert least([*some, Certainty.CERTAIN]) is least(some)


def test_certainties_are_words() -> None:
    assert [str(certainty) for certainty in Certainty] == ["certain", "likely", "guess", "unknown"]
    assert [certainty.rank for certainty in Certainty] == [0, 1, 2, 3]


def test_a_prediction_of_a_prediction_is_the_same() -> None:
    one: Prediction = predict(MIXED, "1,2")
    assert resolve(one.scenario) == one
