"""CUDA_DEVICE_ORDER: in which order the driver counts, and how sure that is.

The machines are those of public reports, told in the fewest words: the models in nvidia-smi's (PCI) order, the order
in which CUDA counted them, the driver where it was named (else one of its time), and what the evidence allows to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from gpumap_widgets.device_order import (
    DOCUMENTED_VALUES,
    ORDER_RULES,
    DeviceOrder,
    device_order,
    pair_certainty,
    pci_order,
    rank,
)
from gpumap_widgets.strength import WEIGHTS, strength
from gpumap_widgets.topology import Gpu, Topology
from tests.conftest import MIXED, SLICES, UUIDS, equal, predict, split

CERTAIN, LIKELY, GUESS, UNKNOWN = "certain", "likely", "guess", "unknown"
BEFORE_2018, OF_2024 = "375.26", "550.54"


class Report(NamedTuple):
    """A machine that somebody described."""

    names: str
    """Models in PCI order, separated by commas."""
    order: tuple[int, ...]
    """Places in that list, as CUDA counted."""
    driver: str
    certainty: str
    doubt: str
    source: str


REPORTS = [
    # sorted by model, ties by address
    Report("5060 Ti,5060 Ti,5060 Ti,5060 Ti,5090,5070 Ti", (4, 5, 0, 1, 2, 3), "580", LIKELY, "measures-agree",
           "aikitoria/open-gpu-kernel-modules issue 12"),
    Report("5060 Ti,5060 Ti,5070 Ti,5090", (3, 2, 0, 1), "580.95.05", LIKELY, "measures-agree",
           "aikitoria/open-gpu-kernel-modules issue 13"),
    Report("5090,4090,5090,RTX A6000,3090,3090,4090", (1, 6, 0, 2, 3, 4, 5), "580.82.09", GUESS, "near-tie",
           "aikitoria/open-gpu-kernel-modules pull request 5"),
    Report("GTX 1080,GTX 1080,GTX 1080 Ti,GTX 1080,GTX 1080,GTX 1070", (2, 0, 1, 3, 4, 5), OF_2024, LIKELY,
           "measures-agree", "alephium/gpu-miner issue 7"),
    Report("GTX 1080 Ti,GTX 1070,GTX 1070,GTX 1070,GTX 1080 Ti,GTX 1080 Ti,GTX 1080 Ti,GTX 1080 Ti,GTX 1070",
           (0, 4, 5, 6, 7, 1, 2, 3, 8), OF_2024, LIKELY, "equal-models", "trexminer/T-Rex issue 72"),
    Report("5090,4090,4090,5090", (1, 2, 0, 3), OF_2024, LIKELY, "equal-models", "ik_llama.cpp discussion 532"),
    Report("Tesla P100,Tesla V100,Tesla V100", (1, 2, 0), OF_2024, LIKELY, "equal-models", "a public benchmark note, 2026"),
    # two cards, every measure agrees
    Report("3060,4090", (1, 0), "546.65", LIKELY, "measures-agree", "LostRuins/koboldcpp issue 634"),
    Report("GTX 1660 SUPER,3090", (1, 0), OF_2024, LIKELY, "measures-agree", "LostRuins/koboldcpp issue 1023"),
    Report("4090,4060 Ti", (0, 1), "550.90.07", LIKELY, "measures-agree", "tinygrad/open-gpu-kernel-modules issue 28"),
    Report("GT 730,2080 Ti", (1, 0), OF_2024, LIKELY, "measures-agree", "tensorflow issue 32881"),
    Report("GTX 1080 Ti,GTX 1080 Ti,GT 710", (0, 1, 2), OF_2024, LIKELY, "equal-models", "tensorflow issue 35672"),
    Report("GTX TITAN X,GTX 1080 Ti", (1, 0), OF_2024, LIKELY, "measures-agree", "SYSTRAN/faster-whisper issue 150"),
    Report("GTX 745,GTX 1080 Ti", (1, 0), OF_2024, LIKELY, "measures-agree", "pytorch issue 86539"),
    Report("GTX 1080 Ti,2080 Ti", (1, 0), OF_2024, LIKELY, "measures-agree", "iperov/DeepFaceLab issue 302"),
    Report("GTX 660 Ti,GTX 1080", (1, 0), "391.01", LIKELY, "measures-agree", "nemosminer issue 393, 2018-03"),
    Report("NVS 310,GTX 1060 6GB", (1, 0), "391.01", LIKELY, "measures-agree", "a public deviceQuery log, 2018"),
    Report("RTX A6000,5090", (1, 0), OF_2024, LIKELY, "measures-agree", "a public source comment, 2026-09"),
    # Ada against Blackwell: the factor of two
    Report("4070 SUPER,5060 Ti", (0, 1), OF_2024, LIKELY, "ada-blackwell", "public tuning notes, 2026-08"),
    Report("5060 Ti,4060", (1, 0), "615.71.09", LIKELY, "ada-blackwell", "a public document that measured it, 2026"),
    Report("5060 Ti,4060 Ti", (1, 0), OF_2024, LIKELY, "ada-blackwell", "a public README, 2026"),
    Report("RTX PRO 4500 Blackwell,RTX 4000 Ada Generation", (1, 0), OF_2024, LIKELY, "ada-blackwell",
           "a public script comment, 2026"),
    Report("4090,5090", (0, 1), OF_2024, LIKELY, "ada-blackwell", "ik_llama.cpp issue 514"),
    # the measures disagree, or the scores nearly tie
    Report("Tesla T4,Tesla V100-PCIE-32GB", (1, 0), "440.33", GUESS, "measures-disagree", "CERN Patatrack training page, 2019"),
    Report("5060 Ti,3090", (1, 0), OF_2024, GUESS, "measures-disagree", "kijai/ComfyUI-MemoryVisualization issue 10"),
    Report("3060,Tesla V100-PCIE-16GB", (1, 0), OF_2024, GUESS, "measures-disagree", "a public document, 2026"),
    Report("RTX 6000 Ada Generation,4090", (0, 1), "610.57.04", GUESS, "near-tie",
           "aikitoria/open-gpu-kernel-modules issue 38"),
    Report("3090 Ti,3090", (0, 1), "510.47.03", GUESS, "near-tie", "pytorch issue 75198"),
    Report("5090,RTX PRO 6000 Blackwell Workstation Edition", (1, 0), OF_2024, GUESS, "near-tie",
           "unslothai/unsloth issue 6352"),
    # weights that no report pins
    Report("RTX PRO 4000 Blackwell,GB300", (1, 0), OF_2024, UNKNOWN, "weight-not-pinned", "vllm pull request 53834"),
    # before 2018: one card moves to the front, the rest stays
    Report("GTX 1080,GTX 1080 Ti,GTX 1080 Ti,GTX 1080 Ti", (1, 0, 2, 3), BEFORE_2018, UNKNOWN, "old-driver",
           "ethereum-mining/ethminer issue 283"),
    Report("GTX 750,GTX 750 Ti,GTX 750 Ti,GTX 750 Ti,GTX 750", (1, 0, 2, 3, 4), "384.90", UNKNOWN, "old-driver",
           "xmrig/xmrig-nvidia issue 69"),
    Report("GTX 460,GTX 780 Ti", (1, 0), "367.57", UNKNOWN, "old-driver", "NVIDIA/nvidia-docker issue 262"),
    Report("GTX TITAN X,GTX 1080", (1, 0), BEFORE_2018, UNKNOWN, "old-driver", "a public source comment, 2017"),
    Report("Tesla C2075,GTX 460", (0, 1), "346.46", UNKNOWN, "old-driver", "an archived forum post, 2015-06"),
    # equal cards
    Report(",".join(["2080 Ti"] * 8), tuple(range(8)), OF_2024, LIKELY, "equal-models", "NVIDIA/nccl-tests issue 117"),
    Report(",".join(["3090"] * 8), tuple(range(8)), OF_2024, LIKELY, "equal-models", "NVIDIA/nccl issue 1127"),
    Report(",".join(["5090"] * 8), tuple(range(8)), OF_2024, LIKELY, "equal-models",
           "aikitoria/open-gpu-kernel-modules issue 6"),
    Report("Tesla P40,Tesla P40,Tesla P40", (0, 1, 2), "440.33", LIKELY, "equal-models", "a public log, 2019-12"),
]  # fmt: skip


def machine(names: str, driver: str | None = OF_2024, **changes: object) -> Topology:
    """A machine by its models, at rising PCI addresses."""
    models = names.split(",") if names else []
    return replace(Topology.of(*models, pci_bus_ids=addresses(len(models)), driver_version=driver), **changes)  # type: ignore[arg-type]


def addresses(count: int) -> list[str]:
    return [f"{17 * i + 1:02x}:00.0" for i in range(count)]


def by_default(topology: Topology) -> DeviceOrder:
    return device_order(topology, None)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.names)
def test_a_reported_machine(report: Report) -> None:
    order = by_default(machine(report.names, report.driver))
    assert order.places == report.order, report.source
    assert (order.certainty, order.doubt) == (report.certainty, report.doubt), report.source
    assert order.rule == ("promote-one" if report.doubt == "old-driver" else "weights")


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.names)
def test_a_reported_machine_by_address(report: Report) -> None:
    order = device_order(machine(report.names, report.driver), "PCI_BUS_ID")
    assert order.places == tuple(range(len(report.order)))
    assert (order.rule, order.certainty, order.doubt) == ("pci", CERTAIN, None)


@pytest.mark.parametrize("report", [r for r in REPORTS if r.doubt != "old-driver"], ids=lambda report: report.names)
def test_models_stand_in_the_same_order_whatever_slot_they_are_in(report: Report) -> None:
    """From 2018 on only equal models care for the address."""
    names = report.names.split(",")
    expected = [names[i] for i in report.order]
    for turned in (names[::-1], [*names[1:], names[0]], sorted(names)):
        order = by_default(machine(",".join(turned), report.driver))
        assert [turned[i] for i in order.places] == expected
        assert order.certainty == report.certainty


# ---- which value means what ----


def test_the_documented_values() -> None:
    topology = machine("Tesla T4,4090,Tesla T4")
    assert DOCUMENTED_VALUES == ("FASTEST_FIRST", "PCI_BUS_ID")
    assert device_order(topology, "FASTEST_FIRST") == device_order(topology, None)
    assert device_order(topology, None).places == (1, 0, 2)
    assert device_order(topology, "PCI_BUS_ID").places == (0, 1, 2)


ODD = [
    "",
    "pci_bus_id",
    "PCI_BUS_ID ",
    " PCI_BUS_ID",
    '"PCI_BUS_ID"',
    "fastest_first",
    "PCI",
    "0",
    "\ud800",
    "PCI_BUS_ID,",
]


@pytest.mark.parametrize("value", ODD, ids=ascii)
def test_any_other_value_is_undocumented_and_so_is_the_empty_one(value: str) -> None:
    topology = machine("Tesla T4,4090,Tesla T4")
    order = device_order(topology, value)
    assert (order.certainty, order.doubt) == (UNKNOWN, "undocumented-order")
    assert order.places == (1, 0, 2)  # most plausible: it falls back to the default
    seen = replace(topology, default_order=(2, 1, 0), default_order_measured=True)
    assert device_order(seen, value).places == (2, 1, 0)
    assert device_order(seen, value).certainty == UNKNOWN
    findings = [finding.code for finding in predict(topology, None, value).findings]
    assert "undocumented-order" in findings


@pytest.mark.parametrize("value", [None, "FASTEST_FIRST", "PCI_BUS_ID", *ODD], ids=ascii)
@pytest.mark.parametrize("platform", ["linux", "windows", "wsl"])
def test_one_gpu_and_none_need_no_order(value: str | None, platform: str) -> None:
    for names, places in (("a model nobody knows", (0,)), ("", ())):
        order = device_order(machine(names, None, platform=platform), value)
        assert (order.rule, order.places, order.certainty, order.doubt) == ("single", places, CERTAIN, None)


def test_one_usable_gpu_among_lost_ones_needs_no_order() -> None:
    topology = machine("Tesla T4,4090,Tesla T4")
    lost = replace(
        topology, gpus=tuple(replace(g, problem="lost.") if i != 1 else g for i, g in enumerate(topology.gpus))
    )
    assert device_order(lost, None) == DeviceOrder("single", (1,), (CERTAIN,), None)  # type: ignore[arg-type]


# ---- by address ----


def test_addresses_are_compared_as_numbers() -> None:
    spelled = ["00000001:01:00.0", "0000:af:00.0", "00000000:5E:01.0", "5E:00.0", "00000000:9:00.0", "10000:00:00.0"]
    topology = Topology.of(*["Tesla T4"] * 6, pci_bus_ids=spelled)
    assert device_order(topology, "PCI_BUS_ID").places == (4, 3, 2, 1, 0, 5)
    assert by_default(topology).places == (4, 3, 2, 1, 0, 5)  # equal models: the same


def test_without_addresses_the_numbers_of_nvidia_smi_stand_for_them() -> None:
    numbered = Topology((Gpu(2, "Tesla T4"), Gpu(0, "Tesla T4"), Gpu(1, "Tesla T4")))
    order = device_order(numbered, "PCI_BUS_ID")
    assert (order.places, order.certainty) == ((1, 2, 0), CERTAIN)


@pytest.mark.parametrize("value", [None, "PCI_BUS_ID"])
def test_with_neither_equal_gpus_cannot_be_told_apart(value: str | None) -> None:
    bare = Topology((Gpu(None, "Tesla T4"), Gpu(None, "Tesla T4")))
    order = device_order(bare, value)
    assert (order.places, order.certainty, order.doubt) == ((0, 1), UNKNOWN, "no-addresses")


def test_with_neither_different_models_can_still_be_sorted() -> None:
    bare = Topology((Gpu(None, "Tesla T4"), Gpu(None, "NVIDIA GeForce RTX 4090")), driver_version=OF_2024)
    assert by_default(bare) == by_default(machine("Tesla T4,4090"))
    assert device_order(bare, "PCI_BUS_ID").certainty == UNKNOWN


def test_one_missing_address_makes_all_of_them_useless() -> None:
    topology = Topology.of("Tesla T4", "Tesla T4", pci_bus_ids=["5E:00.0", None])
    assert pci_order(topology, (1, 0)) == (0, 1)  # by nvidia-smi's numbers
    unnumbered = replace(topology, gpus=tuple(replace(gpu, nvml_index=None) for gpu in topology.gpus))
    assert device_order(unnumbered, "PCI_BUS_ID").certainty == UNKNOWN


# ---- where nothing is known ----


def test_wsl_contradicts_itself() -> None:
    topology = machine("GTX TITAN X,3090", platform="wsl")
    for value in (None, "FASTEST_FIRST", "PCI_BUS_ID"):
        order = device_order(topology, value)
        assert (order.certainty, order.doubt) == (UNKNOWN, "wsl"), "bitsandbytes issue 203: reversed on both settings"


@pytest.mark.parametrize("platform", ["linux", "windows"])
def test_linux_and_windows_agree(platform: str) -> None:
    assert by_default(machine("3060,4090", platform=platform)).certainty == LIKELY


def test_virtual_gpus() -> None:
    order = by_default(machine("GRID T4-16Q,4090"))
    assert (order.certainty, order.doubt) == (UNKNOWN, "vgpu")


def test_a_gpu_in_mig_mode() -> None:
    order = by_default(split())
    assert (order.certainty, order.doubt) == (UNKNOWN, "mig")
    assert device_order(split(), "PCI_BUS_ID").certainty == CERTAIN


@pytest.mark.parametrize("names", ["4090,RTX 9090 Super", "RTX 9090 Super,RTX 9090 Ultra", "Tesla T4,H100"])
def test_an_unknown_model_or_sm_count(names: str) -> None:
    order = by_default(machine(names))
    assert (order.certainty, order.doubt) == (UNKNOWN, "unknown-model")


def test_a_gpu_without_a_name() -> None:
    topology = Topology(tuple(Gpu(i, None, pci_bus_id=bus) for i, bus in enumerate(addresses(2))))
    assert (by_default(topology).certainty, by_default(topology).doubt) == (UNKNOWN, "unknown-model")


def test_an_unknown_driver_counts_as_a_new_one() -> None:
    names = "GTX 1080,GTX 1080 Ti,GTX 1080 Ti"
    assert by_default(machine(names, None)) == by_default(machine(names, "575.57.08"))
    assert by_default(machine(names, "no version")).rule == "weights"
    assert by_default(machine(names, "387.34")).rule == "promote-one"
    assert by_default(machine(names, "390.12")).rule == "weights"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A100-SXM4-40GB", "4090"),  # 8.0 against 8.9
        ("A100-SXM4-40GB", "3090"),  # 8.0 against 8.6
        ("NVIDIA H100 PCIe", "4090"),  # 9.0
        ("NVIDIA B200", "5090"),  # 10.0
        ("Tesla P100-PCIE-16GB", "GTX 1080 Ti"),  # 6.0
        ("GTX 980", "GTX 1060 6GB"),  # below 6.1
    ],
)
def test_weights_that_nobody_pinned(first: str, second: str) -> None:
    order = by_default(machine(f"{first},{second}"))
    assert (order.certainty, order.doubt) == (UNKNOWN, "weight-not-pinned")


def test_one_name_with_two_sm_counts_is_no_equal_pair() -> None:
    gpus = (Gpu(0, "NVIDIA GeForce RTX 3080", pci_bus_id="01:00.0", memory_mib=10240),)
    gpus += (Gpu(1, "NVIDIA GeForce RTX 3080", pci_bus_id="02:00.0", memory_mib=12288),)
    order = by_default(Topology(gpus, driver_version=OF_2024))
    assert [strength(gpu).sm_count for gpu in gpus] == [68, 70]
    assert order.places == (1, 0)
    assert (order.certainty, order.doubt) == (GUESS, "near-tie")


# ---- an order that was seen ----


def test_a_measured_order_is_certain_and_a_logged_one_likely() -> None:
    topology = machine("Tesla T4,4090,RTX A6000", default_order=(2, 0, 1))
    logged, measured = by_default(topology), by_default(replace(topology, default_order_measured=True))
    assert (logged.rule, logged.places, logged.certainty, logged.doubt) == ("seen", (2, 0, 1), LIKELY, "seen-in-log")
    assert (measured.rule, measured.places, measured.certainty, measured.doubt) == ("seen", (2, 0, 1), CERTAIN, None)
    assert device_order(topology, "PCI_BUS_ID").places == (0, 1, 2)  # it tells nothing about the other setting
    assert device_order(topology, "FASTEST_FIRST") == logged


@pytest.mark.parametrize(
    "topology",
    [
        machine("GTX TITAN X,3090", platform="wsl"),
        machine("GRID T4-16Q,4090"),
        machine("RTX 9090 Super,4090"),
        machine("GTX 1080,GTX 1080", BEFORE_2018),
        split(),
    ],
    ids=["wsl", "vgpu", "unknown model", "old driver", "mig"],
)
def test_a_look_at_the_machine_settles_every_doubt(topology: Topology) -> None:
    assert by_default(topology).certainty == UNKNOWN
    seen = replace(topology, default_order=(1, 0))
    assert (by_default(seen).places, by_default(seen).certainty) == ((1, 0), LIKELY)
    assert by_default(replace(seen, default_order_measured=True)).certainty == CERTAIN


def test_a_seen_order_that_leaves_a_gpu_out_does_not_order_the_machine() -> None:
    partial = machine("Tesla T4,4090,3090", default_order=(2, 0))
    assert by_default(partial) == by_default(replace(partial, default_order=None))
    assert device_order(partial, None, (0, 2)).places == (2, 0)  # it does for those that it names
    assert device_order(partial, None, (0, 2)).rule == "seen"


def test_lost_gpus_drop_out_of_a_seen_order() -> None:
    topology = machine("Tesla T4,4090,3090", default_order=(2, 0, 1), default_order_measured=True)
    lost = replace(topology, gpus=(replace(topology.gpus[0], problem="lost."), *topology.gpus[1:]))
    assert by_default(lost).places == (2, 1)


# ---- by pairs and by GPU ----


def test_a_gpu_is_as_sure_of_its_place_as_its_least_sure_pair() -> None:
    order = by_default(machine("3090,Tesla T4,3090 Ti"))
    assert order.places == (2, 0, 1)
    assert order.certainties == (GUESS, GUESS, LIKELY)
    assert (order.certainty, order.doubt) == (GUESS, "near-tie")
    shown = predict(machine("3090,Tesla T4,3090 Ti"), "2,0")
    assert [str(device.certainty) for device in shown.processes[0].devices] == [LIKELY, GUESS]


def test_a_list_that_picks_only_sure_places_is_as_sure_as_they_are() -> None:
    topology = machine("3090,Tesla T4,3090 Ti")
    assert predict(topology, "2").certainty == LIKELY
    assert predict(topology, "0").certainty == GUESS
    assert predict(topology, "-1").certainty == CERTAIN


@pytest.mark.parametrize(
    ("first", "second", "certainty", "reason"),
    [
        ("Tesla T4", "Tesla T4", LIKELY, "equal-models"),
        ("4090", "5090", LIKELY, "ada-blackwell"),
        ("4060", "5090", LIKELY, "ada-blackwell"),
        ("4070 Laptop GPU", "RTX PRO 4000 Blackwell", GUESS, "near-tie"),  # 36 × 2 against 70 × 1
        ("Tesla T4", "4090", LIKELY, "measures-agree"),
        ("3060", "2080", GUESS, "measures-disagree"),
        ("4080 SUPER", "RTX A6000", GUESS, "measures-disagree"),
        ("Tesla V100-PCIE-32GB", "4060", GUESS, "measures-disagree"),
        ("A100-SXM4-40GB", "4090", UNKNOWN, "weight-not-pinned"),
        ("3090", "RTX 9090", UNKNOWN, "unknown-model"),
    ],
)
def test_a_pair_of_models(first: str, second: str, certainty: str, reason: str) -> None:
    a, b = (strength(gpu) for gpu in machine(f"{first},{second}").gpus)
    assert pair_certainty(a, b) == (certainty, reason)
    assert pair_certainty(b, a) == (certainty, reason)


def test_the_measure_is_sm_count_times_weight() -> None:
    ada, turing = (strength(gpu) for gpu in machine("4090,Tesla T4").gpus)
    assert (ada.sm_count, ada.weight, ada.score) == (128, 2.0, 256)
    assert (turing.sm_count, turing.weight, turing.score) == (40, 0.5, 20)
    said = [str(step) for step in predict(MIXED).steps]
    assert any("128 SMs × 2 = 256" in text for text in said)
    assert any("40 SMs × 0.5 = 20" in text for text in said)


def test_what_the_machine_tells_about_itself_goes_before_the_catalogue() -> None:
    gpu = Gpu(0, "NVIDIA GeForce RTX 4090", compute_capability=(8, 9), sm_count=100)
    assert strength(gpu).score == 200
    assert strength(Gpu(0, "RTX 9090", compute_capability=(8, 6), sm_count=10)).score == 10
    assert strength(Gpu(0, None)).score is None


def test_every_weight_says_what_it_rests_on() -> None:
    assert WEIGHTS[8, 6][0] == 1
    for capability, (weight, evidence) in WEIGHTS.items():
        assert 0 < weight <= 2, capability
        assert evidence, capability


# ---- the rules that people believe ----


@pytest.mark.parametrize(
    ("rule", "names", "truth", "source"),
    [
        ("pci", "3060,4090", (1, 0), "koboldcpp issue 634"),
        ("capability", "RTX PRO 4000 Blackwell,GB300", (1, 0), "vllm pull request 53834"),
        ("capability", "4090,5090", (0, 1), "ik_llama.cpp issue 514"),
        ("capability", "Tesla T4,Tesla V100-PCIE-32GB", (1, 0), "CERN Patatrack training page"),
        ("sm-count", "3090,4070", (1, 0), "two public projects, one with both orders"),
        ("sm-count", "4090,5090", (0, 1), "ik_llama.cpp issue 514"),
        ("peak", "4090,5090", (0, 1), "ik_llama.cpp issue 514"),
        ("peak", "5060 Ti,4060", (1, 0), "a public document that measured it"),
        ("bandwidth", "4090,5090", (0, 1), "ik_llama.cpp issue 514"),
        ("memory", "5060 Ti,4060 Ti", (1, 0), "a public README, 2026"),
        ("memory", "RTX A6000,5090", (1, 0), "a public source comment, 2026-09"),
        ("promote-one", "GTX 1080 Ti,GTX 1070,GTX 1080 Ti,GTX 1070", (0, 2, 1, 3), "T-Rex issue 72, shortened"),
    ],
)
def test_where_a_belief_goes_wrong(rule: str, names: str, truth: tuple[int, ...], source: str) -> None:
    topology = machine(names)
    assert rank(topology, "weights") == truth, source
    assert rank(topology, rule) != truth, source
    assert sorted(rank(topology, rule)) == sorted(truth)


def test_where_the_sort_of_today_goes_wrong_on_old_drivers() -> None:
    topology = machine("GTX 750,GTX 750 Ti,GTX 750 Ti,GTX 750 Ti,GTX 750", "384.90")
    assert rank(topology, "weights") == (1, 2, 3, 0, 4)
    assert rank(topology, "promote-one") == (1, 0, 2, 3, 4)  # what xmrig-nvidia issue 69 shows


def test_every_rule_says_where_it_holds_and_what_it_rests_on() -> None:
    assert set(ORDER_RULES) == {
        "weights",
        "promote-one",
        "pci",
        "capability",
        "sm-count",
        "peak",
        "bandwidth",
        "memory",
    }
    for name, rule in ORDER_RULES.items():
        assert rule.range, name
        assert rule.evidence, name
        assert sorted(rank(MIXED, name)) == [0, 1, 2, 3], name
        assert rank(Topology(), name) == ()
        assert sorted(rank(Topology((Gpu(), Gpu(name="what"), Gpu(0, "4090")), None), name)) == [0, 1, 2], name
    beliefs = {name for name, rule in ORDER_RULES.items() if rule.range == "a belief"}
    assert beliefs == {"capability", "sm-count", "peak", "bandwidth", "memory"}
    with pytest.raises(KeyError):
        rank(MIXED, "alphabetical")


# ---- the rest of the contract ----


def test_only_accessible_gpus_are_ordered() -> None:
    topology = machine("Tesla T4,4090,3090")
    assert device_order(topology, None, (0, 2)).places == (2, 0)
    assert device_order(topology, "PCI_BUS_ID", (2, 0)).places == (0, 2)
    assert device_order(topology, None, ()).places == ()
    assert rank(topology, "memory", (0, 2)) == (2, 0)


def test_the_order_of_a_machine_is_made_once() -> None:
    topology = machine("Tesla T4,4090,3090")
    assert device_order(topology, None) is device_order(topology, "FASTEST_FIRST")
    assert device_order(topology, "PCI_BUS_ID") is device_order(topology, "PCI_BUS_ID")
    assert device_order(replace(topology), None) is not device_order(topology, None)


def test_a_large_machine() -> None:
    topology = equal(4096)
    assert by_default(topology).places == tuple(range(4096))
    assert by_default(topology).certainty == LIKELY


def test_uuids_in_the_list_do_not_care() -> None:
    assert predict(split(), SLICES[1]).certainty == CERTAIN
    assert predict(equal(4), f"{UUIDS[3]},{UUIDS[0]}", "anything").certainty == CERTAIN


@pytest.mark.parametrize(
    ("value", "certainty"),
    [("-1", CERTAIN), ("9", CERTAIN), (f"{SLICES[0]},1", LIKELY), (f"{UUIDS[2]},1", LIKELY)],
)
def test_what_no_order_changes_is_as_sure_on_a_mig_machine(value: str, certainty: str) -> None:
    assert predict(split(), value, "PCI_BUS_ID").certainty == certainty
    assert predict(split(), value).certainty == certainty


def test_what_no_order_changes_is_as_sure_as_ever() -> None:
    topology = machine("3090,3090 Ti")
    for value, certainty in (("-1", CERTAIN), ("", CERTAIN), ("9", CERTAIN), ("x", LIKELY), ("0,0", LIKELY)):
        assert predict(topology, value).certainty == certainty
