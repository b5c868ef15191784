"""Remedies: for random machines and wishes the text gives the wish; what cannot be done is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.remedies import VIAS, NoRemedy, Wish, remedies, remedy
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED, equal

T4, GTX = "GPU-a0e15e00-0000-4000-8000-000000000000", "GPU-b1e18600-0000-4000-8000-000000000001"


@given(st.permutations(range(4)), st.integers(1, 4), st.sampled_from(sorted(VIAS)), st.booleans())
def test_the_text_gives_the_wish(order: list[int], count: int, via: str, mixed: bool) -> None:
    machine, want = MIXED if mixed else equal(4), order[:count]
    for one in remedies(machine, want, via):
        if one.text is None:
            assert str(one.why)
            continue
        after = resolve(
            Scenario.from_command(machine, one.text, assume=VIAS[via].assume(Wish(machine, tuple(want), "uuid")))
        )
        assert {process.nvml_indices for process in after.processes} == {tuple(want)}
        assert after.certainty == one.certainty
        assert all(str(caveat) for caveat in one.caveats)


@pytest.mark.parametrize("via", [via for via in VIAS if via not in ("deepspeed", "kubernetes")])
def test_there_is_a_sure_text_almost_everywhere(via: str) -> None:
    for one in remedies(MIXED, [2, 1], via):
        assert one.text is not None, (via, one.form)
        assert one.certainty == "certain", (via, one.form)


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(NoRemedy, match="sorts"):
        remedy(MIXED, [2, 1], "deepspeed")
    with pytest.raises(NoRemedy, match="plugin"):
        remedy(MIXED, [1], "kubernetes")
    assert remedy(MIXED, [1, 2], "deepspeed").text


@pytest.mark.parametrize(
    ("want", "said"),
    [([], "No GPU"), ([1, 1], "twice"), ([9], "no GPU"), (["GPU-"], "4 GPUs"), (["GPU-zz"], "no GPU")],
)
def test_wishes_that_no_text_fulfils(want: list[object], said: str) -> None:
    with pytest.raises(NoRemedy, match=said):
        remedies(MIXED, want)  # type: ignore[arg-type]
    with pytest.raises(NoRemedy):
        remedies(MIXED, [0], "carrier pigeon")


def test_gpus_are_named_as_people_name_them() -> None:
    by_index, by_uuid = remedy(MIXED, [1]), remedy(MIXED, ["gpu-b1e1"])
    assert by_index == by_uuid == remedy(MIXED, [MIXED.gpus[1]])
    assert by_uuid.text == f"CUDA_VISIBLE_DEVICES={GTX} python train.py"
    assert (
        remedy(MIXED, [1], form="index").text == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 python train.py"
    )


def test_without_uuids_there_are_numbers() -> None:
    machine = Topology.of("Tesla T4", "RTX 4090")
    one = remedy(machine, [1])
    assert one.form == "index"
    with pytest.raises(NoRemedy, match="UUID"):
        remedy(machine, [1], form="uuid")


def test_a_container_needs_the_order_inside_only_where_it_differs() -> None:
    assert "-e" not in str(remedy(MIXED, [1], "docker"))
    assert f"-e CUDA_VISIBLE_DEVICES={T4},{GTX}" in str(remedy(MIXED, [0, 1], "docker"))
