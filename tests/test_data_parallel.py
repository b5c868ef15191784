"""Data parallel on unequal GPUs: the tutorials' case, published figures, closed forms, and what is unknown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpumap_widgets as gm
from gpumap_widgets.catalog import models
from gpumap_widgets.planning.data_parallel import DataParallelPlan
from gpumap_widgets.planning.inputs import read_times
from gpumap_widgets.planning.options import ALIKE, ALONE, BALANCED, EQUAL, FASTEST
from gpumap_widgets.planning.ranges import UNKNOWN, Range, exactly, hull
from gpumap_widgets.planning.speeds import DTYPES, LIMITS, limits, rates_of, relative_times
from gpumap_widgets.planning.splitting import balanced, even_time
from gpumap_widgets.planning.wording import amount, digits, more, percent, share
from gpumap_widgets.planning.workers import CONTEXT_MIB, FRAGMENTS_MIB

TUTORIAL = (13.0, 1.0, 13.2, 13.1)
"""Seconds of a step on T4 5E, RTX 4090, T4 AF, T4 D8: the first tutorial's figures."""
MIXED = gm.preset("mixed")


def said(plan: DataParallelPlan) -> str:
    return " ".join(map(str, plan.advice))


def option(plan: DataParallelPlan, kind: str) -> Any:
    return next(one for one in plan.options if one.kind == kind)


def kinds(plan: DataParallelPlan) -> list[str]:
    return [one.kind for one in plan.options]


# ---- the tutorials' case: facts/launchers.md, section 12, and rows 12 and 16 of the tutorials ----


def test_the_tutorials_machine() -> None:
    plan = gm.plan_data_parallel(MIXED, TUTORIAL)
    assert plan.equal.step == exactly(13.2)
    busy = [part.busy.low for part in plan.equal.parts]
    assert busy[1] == pytest.approx(1.0 / 13.2)
    assert percent(busy[1]) == "7.6"
    alone = next(one for one in plan.alone if one.parts[0].worker is plan.best)
    assert alone.parts[0].worker.name == "RTX 4090"
    assert alone.throughput.low / plan.equal.throughput.low == pytest.approx(3.3)
    assert plan.equal.gain.low == pytest.approx(0.30, abs=0.005)
    assert plan.ideal.low == pytest.approx(1.2290, abs=1e-4)
    assert plan.break_even.low == pytest.approx(0.7454, abs=1e-4)  # under 0.75 s for 4 b samples
    assert plan.balanced is not None
    assert sum(plan.balanced.batches) == 4 * 32
    assert plan.balanced.step.low < 3.3
    assert 1 < plan.balanced.gain.low < plan.ideal.low
    for text in (
        "13.2 s",
        "7.6 %",
        "3.3 times",
        "no faster than 4 of those",
        "23 % over the RTX 4090 alone",
        "0.745 s",
    ):
        assert text in said(plan)
    assert "PyTorch issues 37359, 67253" in said(plan)  # unequal batches need weights


def test_the_split_of_many_samples_comes_close_to_the_ideal() -> None:
    plan = gm.plan_data_parallel(MIXED, TUTORIAL, batch=100_000)
    assert plan.balanced is not None
    assert plan.balanced.batches[1] / plan.balanced.samples == pytest.approx(0.814, abs=0.0005)  # 81.4 % on the 4090
    assert plan.balanced.step.low == pytest.approx(3.2546, abs=1e-4)
    assert plan.balanced.gain.low == pytest.approx(plan.ideal.low, rel=1e-5)


def test_as_fast_as_four_of_the_slowest() -> None:
    four = gm.plan_data_parallel(["Tesla T4"] * 4, [13.2] * 4)
    assert gm.plan_data_parallel(MIXED, TUTORIAL).equal.throughput == four.equal.throughput


def test_the_tutorials_thirteen_is_more_than_any_peak_explains() -> None:
    plan = gm.plan_data_parallel(MIXED, TUTORIAL)
    notes = [str(note) for note in plan.notes]
    assert len(notes) == 1
    assert "13 times as long as the RTX 4090, more than any quoted peak explains (2.5 to 10)" in notes[0]
    assert gm.plan_data_parallel(MIXED, (5.0, 1.0, 5.0, 5.0)).notes == ()


# ---- published figures, each within the range that the specifications give ----


@pytest.mark.parametrize(
    ("dtype", "bound", "low", "high"),
    [
        ("float32", "compute", 10.1, 10.1),  # FP32 peaks 82.58 and 8.14
        ("float16", "compute", 2.5, 5.1),  # tensor peaks, FP32 and FP16 accumulation
        (None, "memory", 3.15, 3.15),  # bandwidth 1008 and 320
        (None, None, 2.5, 10.1),
    ],
)
def test_peak_ratios_of_4090_and_t4(dtype: str | None, bound: str | None, low: float, high: float) -> None:
    gpus = gm.Topology.of("Tesla T4", "RTX 4090").gpus
    ratio = relative_times([rates_of(gpu, dtype, bound) for gpu in gpus], 1)[0]
    assert (ratio.low, ratio.high) == (pytest.approx(low, rel=0.02), pytest.approx(high, rel=0.02))


def test_the_4090s_measured_rate_lies_between_its_peaks() -> None:
    gpu = gm.Topology.of("RTX 4090").gpus[0]
    fp32_accumulated = rates_of(gpu, "float16", "compute").by_limit["tensor-fp32"]
    assert fp32_accumulated.low == pytest.approx(163, rel=0.02)  # third parties measured 160 to 166


def test_timm_580_two_a6000_and_two_2080_ti() -> None:
    """2000 to 2500 images a second by giving the larger cards bigger batches: a factor of 1.25."""
    plan = gm.plan_data_parallel(["RTX A6000", "RTX A6000", "RTX 2080 Ti", "RTX 2080 Ti"])
    over_equal = Range(plan.ideal.low / plan.equal.gain.high, plan.ideal.high / plan.equal.gain.low)
    assert over_equal.low < 1.25 < over_equal.high
    for ratio, factor in ((1.5, 1.25),):  # the speeds that explain it exactly
        exact = gm.plan_data_parallel(["A", "A", "B", "B"], (1.0, 1.0, ratio, ratio), batch=1000)
        assert exact.balanced is not None
        assert exact.balanced.throughput.low / exact.equal.throughput.low == pytest.approx(factor)


def test_omnilearn_14_to_85_percent_less_time() -> None:
    """arXiv 2503.17469: batches in proportion to speed took 14 to 85 % less time; so does the tutorials' machine."""
    plan = gm.plan_data_parallel(MIXED, TUTORIAL)
    assert plan.balanced is not None
    assert 0.14 < 1 - plan.balanced.step.low / plan.equal.step.low < 0.85


def test_nccl_formula() -> None:
    plan = gm.plan_data_parallel(["A"] * 4, [1.0] * 4, gradient_bytes=8e9, bandwidth=12e9)
    assert plan.equal.exchange.low == pytest.approx(2 * 3 / 4 * 8 / 12)
    assert plan.equal.step.low == pytest.approx(2.0)
    half = gm.plan_data_parallel(["A"] * 4, [1.0] * 4, gradient_bytes=8e9, bandwidth=12e9, overlap=0.5)
    assert half.equal.step.low == pytest.approx(1.5)
    wide = gm.plan_data_parallel(["A"] * 4, [1.0] * 4, gradient_bytes=8e9, bandwidth=(12e9, 24e9))
    assert wide.equal.step == Range(pytest.approx(1.5), pytest.approx(2.0))


# ---- closed forms on random inputs ----

seconds = st.floats(0.01, 100, allow_nan=False)
machines = st.lists(seconds, min_size=1, max_size=8)


def _plan(times: Sequence[Any], **more: Any) -> DataParallelPlan:
    return gm.plan_data_parallel([f"card {i}" for i in range(len(times))], times, **more)


@given(machines, st.integers(1, 200), st.floats(0, 5), st.floats(0, 1))
def test_steps_and_shares(times: list[float], batch: int, exchange: float, overlap: float) -> None:
    plan = _plan(times, batch=batch, gradient_bytes=exchange * 1e9, bandwidth=1e9, overlap=overlap)
    n = len(times)
    wait = 2 * (n - 1) / n * exchange * (1 - overlap)
    assert plan.equal.step.low == pytest.approx(max(times) + wait)
    assert plan.equal.throughput.low == pytest.approx(n * batch / (max(times) + wait))
    for t, part in zip(times, plan.equal.parts, strict=True):
        assert part.busy.low == pytest.approx(t / (max(times) + wait))
        assert part.idle.low == pytest.approx(1 - part.busy.low)
    for one in plan.options:
        assert one.step.exact
        assert one.step.low == pytest.approx(max(part.compute.low for part in one.parts) + one.exchange.low)


@given(machines.filter(lambda times: len(times) > 1), st.integers(1, 200), st.floats(0, 5))
def test_balanced_is_never_slower_than_equal(times: list[float], batch: int, exchange: float) -> None:
    plan = _plan(times, batch=batch, gradient_bytes=exchange * 1e9, bandwidth=1e9)
    split = plan.balanced
    assert split is not None
    assert sum(split.batches) == batch * len(times)
    assert split.step.low <= plan.equal.step.low * (1 + 1e-12)
    few = [one for one in plan.options if one.kind == FASTEST]
    assert all(one.step.low < split.step.low for one in few)
    assert split.gain.low <= plan.ideal.low * (1 + 1e-9)


@given(machines.filter(lambda times: len(times) > 1), st.integers(1, 200))
def test_alone_never_beats_balanced_without_an_exchange(times: list[float], batch: int) -> None:
    """A whole batch of all on the fastest is one of the splits."""
    plan = _plan(times, batch=batch)
    assert plan.balanced is not None
    assert plan.balanced.step.low <= min(times) * len(times) * (1 + 1e-12)
    assert all(one.throughput.low <= plan.balanced.throughput.low * (1 + 1e-9) for one in plan.alone)
    assert plan.ideal.low == pytest.approx(sum(min(times) / t for t in times))


@given(machines.filter(lambda times: len(times) > 1))
def test_at_the_break_even_the_best_alone_is_as_good(times: list[float]) -> None:
    bare = _plan(times)
    n = len(times)
    volume = bare.break_even.low * n / (2 * (n - 1)) * 1e9
    plan = _plan(times, gradient_bytes=volume, bandwidth=1e9)
    assert plan.ideal.low == pytest.approx(1)


@given(
    st.lists(seconds, min_size=1, max_size=4),
    st.integers(0, 12),
    st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=4, max_size=4),
)
def test_the_split_is_the_best_of_all(times: list[float], samples: int, limits_: list[int | None]) -> None:
    caps = limits_[: len(times)]
    every = [
        parts
        for parts in itertools.product(range(samples + 1), repeat=len(times))
        if sum(parts) == samples and all(c is None or k <= c for k, c in zip(parts, caps, strict=True))
    ]
    found = balanced(samples, times, caps)
    if not every:
        assert found is None
        return
    assert found in every
    best = min(max(t * k for t, k in zip(times, parts, strict=True)) for parts in every)
    assert max(t * k for t, k in zip(times, found, strict=True)) == pytest.approx(best)
    assert even_time(samples, times, caps) <= best * (1 + 1e-9)


@given(machines.filter(lambda times: len(times) > 1), st.integers(1, 100), st.data())
def test_memory_limits_are_kept(times: list[float], batch: int, data: st.DataObject) -> None:
    caps = [data.draw(st.one_of(st.none(), st.integers(0, 2 * batch))) for _ in times]
    plan = _plan(times, batch=batch, limits=caps)
    for one in plan.options:
        held = all(w.worker.limit is None or w.samples <= w.worker.limit for w in one.parts)
        assert held or one.problem is not None
        assert not (held and one.problem and one.kind in (EQUAL, ALIKE, ALONE))
    split = plan.balanced
    assert split is not None
    assert all(part.worker.limit is None or part.samples <= part.worker.limit for part in split.parts)
    fits = any(cap is None for cap in caps) or sum(cap or 0 for cap in caps) >= batch * len(times)
    assert (split.problem is None) == fits


def test_a_limit_from_memory() -> None:
    gpus = gm.Topology.of("Tesla T4", "RTX 4090").gpus
    plan = gm.plan_data_parallel(gpus, (2.0, 1.0), batch=16, model_bytes=4 * 2**30, sample_bytes=2**30)
    room = [(gpu.memory_mib or 0) - CONTEXT_MIB - FRAGMENTS_MIB - 4096 for gpu in gpus]
    assert [worker.limit for worker in plan.workers] == [mib // 1024 for mib in room] == [10, 18]
    assert "16 samples do not fit on the Tesla T4, at most 10 do" in str(plan.equal.problem)
    assert plan.balanced is not None
    assert "32 samples do not fit, at most 28 do" in str(plan.balanced.problem)
    smaller = gm.plan_data_parallel(gpus, (2.0, 1.0), batch=12, model_bytes=4 * 2**30, sample_bytes=2**30)
    assert smaller.balanced is not None
    assert smaller.balanced.batches == (8, 16)
    assert "Equal batches cannot be done" in said(smaller)
    tight = gm.plan_data_parallel(gpus, (2.0, 1.0), batch=14, model_bytes=4 * 2**30, sample_bytes=2**30)
    assert tight.balanced is not None
    assert tight.balanced.batches == (10, 18)


# ---- ranges hold whatever is true inside them ----


@given(
    st.lists(st.tuples(seconds, st.floats(1, 5)), min_size=2, max_size=5),
    st.integers(1, 64),
    st.floats(0, 2),
    st.data(),
)
def test_a_range_holds_every_truth(rows: list[tuple[float, float]], batch: int, exchange: float, data: Any) -> None:
    ranged = [(low, low * factor) for low, factor in rows]
    true = [min(high, low * data.draw(st.floats(1, high / low))) for low, high in ranged]
    more_ = {"batch": batch, "gradient_bytes": exchange * 1e9, "bandwidth": 1e9}
    wide, sharp = _plan(ranged, **more_), _plan(true, **more_)

    def inside(value: float, bounds: Range) -> bool:
        return bounds.low * (1 - 1e-9) - 1e-12 <= value <= bounds.high * (1 + 1e-9)

    assert inside(sharp.equal.step.low, wide.equal.step)
    assert inside(sharp.equal.throughput.low, wide.equal.throughput)
    for own, part in zip(sharp.equal.parts, wide.equal.parts, strict=True):
        assert inside(own.busy.low, part.busy)
        assert inside(own.compute.low, part.compute)
    best = wide.best
    assert best is not None
    i = wide.workers.index(best)
    rate = batch / true[i]
    assert inside(sharp.equal.throughput.low / rate, wide.equal.gain)
    assert inside(sharp.ideal.low * (sharp.best.typical if sharp.best else 0) ** -1 * true[i], wide.ideal)
    split = wide.balanced
    assert split is not None
    step = max(t * k / batch for t, k in zip(true, split.batches, strict=True)) + split.exchange.low
    assert inside(step, split.step)


@given(st.lists(st.sampled_from(models()), min_size=2, max_size=2), st.floats(0, 1), st.sampled_from(DTYPES))
def test_any_mix_of_limits_lies_in_the_estimate(pair: list[Any], mix: float, dtype: str) -> None:
    """A step that spends its work on several limits: a mediant of the quotients lies between them."""
    gpus = [gm.Gpu(name=model.name, memory_mib=model.memory_mib) for model in pair]
    rates = [rates_of(gpu, dtype) for gpu in gpus]
    if not all(rate.known for rate in rates):
        return
    ratio = relative_times(rates, 0)[1]
    keys = list(rates[0].by_limit)
    weights = [mix**i for i in range(len(keys))]
    times = [
        sum(weight / rate.by_limit[key].middle for weight, key in zip(weights, keys, strict=True)) for rate in rates
    ]
    assert ratio.low * (1 - 1e-9) <= times[1] / times[0] <= ratio.high * (1 + 1e-9)


def test_gpus_of_one_model_are_equally_fast_whatever_their_speed() -> None:
    plan = gm.plan_data_parallel(["Tesla T4", "Tesla T4"])
    assert plan.equal.step == exactly(1.0)
    assert all(part.busy == exactly(1.0) for part in plan.equal.parts)
    assert "Keep equal batches." in said(plan)
    mixed = gm.plan_data_parallel(MIXED)
    assert [part.busy for part in mixed.equal.parts if part.worker.name == "Tesla T4"] == [exactly(1.0)] * 3


# ---- what is not known is said to be ----


def test_a_card_that_is_in_no_table_is_unknown() -> None:
    plan = gm.plan_data_parallel(["RTX 4090", "Mystery 9000"], 2.0)
    assert [worker.source for worker in plan.workers] == ["specifications", "unknown"] or plan.workers[
        0
    ].source == "given"
    assert plan.workers[1].seconds == UNKNOWN
    assert plan.balanced is None
    assert plan.equal.step == Range(2.0, math.inf)
    assert "Mystery 9000" in said(plan)
    assert "at least 2 s" in said(plan)
    assert plan.ideal == UNKNOWN
    nothing = gm.plan_data_parallel(["Mystery 9000", "Mystery 9001"])
    assert nothing.best is None
    assert nothing.equal.step == UNKNOWN
    assert str(nothing)
    assert nothing._repr_html_()


def test_mig_and_virtual_gpus_are_unknown() -> None:
    cut = gm.Gpu(0, "NVIDIA A100-SXM4-40GB", mig_instances=(gm.MigInstance("MIG-x", "3g.20gb"),))
    for gpu in (cut, gm.Gpu(0, "GRID T4-16Q"), gm.Gpu(0)):
        assert not rates_of(gpu).known


def test_a_type_that_a_card_lacks_is_slower_by_an_unknown_factor() -> None:
    plan = gm.plan_data_parallel(["RTX 4090", "Tesla T4"], dtype="bfloat16")
    assert plan.workers[1].seconds.low > 3
    assert math.isinf(plan.workers[1].seconds.high)
    assert "Not known how fast it is: Tesla T4" in said(plan)


def test_unsure_figures_widen_the_range() -> None:
    sure = gm.Topology.of("Tesla T4", "RTX 4090").gpus
    for name in ("NVIDIA A10G", "NVIDIA H200", "NVIDIA GeForce RTX 4090 Laptop GPU"):
        gpu = gm.Topology.of(name).gpus[0]
        assert not rates_of(gpu, "float32", "compute").by_limit["fp32"].exact
    assert all(rates_of(gpu, "float32", "compute").by_limit["fp32"].exact for gpu in sure)
    laptop = rates_of(gm.Topology.of("NVIDIA GeForce RTX 4090 Laptop GPU").gpus[0], "float32").by_limit["fp32"]
    assert laptop.low == pytest.approx(32.98 / 2)


def test_estimates_say_what_they_rest_on() -> None:
    plan = gm.plan_data_parallel(MIXED)
    assert plan.relative
    notes = " ".join(map(str, plan.notes))
    assert "quoted peaks" in notes
    assert "multiples of the fastest" in notes
    assert "Measure before you decide" in said(plan)
    with_exchange = gm.plan_data_parallel(MIXED, gradient_bytes=1e9, bandwidth=1e9)
    assert "exchange is left out" in " ".join(map(str, with_exchange.notes))
    no_width = gm.plan_data_parallel(MIXED, TUTORIAL, gradient_bytes=1e9)
    assert "its bandwidth is not given" in " ".join(map(str, no_width.notes))


def test_one_known_time_gives_the_others_as_a_range() -> None:
    plan = gm.plan_data_parallel(MIXED, (None, 1.0, None, 9.0), dtype="float16")
    assert [worker.source for worker in plan.workers] == ["specifications", "given", "specifications", "given"]
    assert plan.workers[0].seconds == Range(pytest.approx(2.54, abs=0.01), pytest.approx(5.08, abs=0.01))
    assert not plan.relative
    anchored = gm.plan_data_parallel(MIXED, (4.0, None, None, None), dtype="float16")
    assert anchored.workers[2].seconds == exactly(4.0)  # the same model
    assert anchored.workers[1].seconds.high == pytest.approx(4 / 2.54, rel=0.01)


def test_every_limit_has_a_source_and_types() -> None:
    for key, row in LIMITS.items():
        assert row.source, key
        assert set(row.dtypes) <= set(DTYPES), key
    assert limits(None, None) == ("tensor-fp16", "tensor-fp32", "fp32", "tf32", "memory")
    assert limits("bfloat16", "compute") == ("tensor-bf16",)


def test_every_model_has_rates_or_none() -> None:
    for model in models():
        for dtype in (None, *DTYPES):
            rates = rates_of(gm.Gpu(name=model.name, memory_mib=model.memory_mib), dtype)
            assert all(0 <= rate.low <= rate.high for rate in rates.by_limit.values()), model.name


# ---- measured ----


def _measured(**rows: tuple[float, float]) -> gm.Measurements:
    return gm.Measurements(
        tuple(gm.Measurement(name, name, exactly(compute), exactly(memory)) for name, (compute, memory) in rows.items())
    )


def test_measurements_take_the_place_of_specifications() -> None:
    found = _measured(a=(100.0, 1000.0), b=(20.0, 500.0))
    plan = gm.plan_data_parallel(["a", "b"], 1.0, measured=found)
    assert plan.workers[1].seconds == Range(2.0, 5.0)
    assert plan.workers[1].source == "measured"
    assert gm.plan_data_parallel(["a", "b"], 1.0, measured=found, bound="memory").workers[1].seconds == exactly(2.0)
    other = gm.plan_data_parallel(["a", "c"], (1.0, None), measured=found)
    assert other.workers[1].source == "unknown"
    wrong_type = gm.plan_data_parallel(["a", "b"], measured=found, dtype="float32")
    assert {worker.source for worker in wrong_type.workers} == {"unknown"}


def test_measured_steps_are_times() -> None:
    rows = (gm.Measurement("a", "a", step_seconds=Range(1.0, 1.1)), gm.Measurement("b", "b", step_seconds=exactly(3.0)))
    plan = gm.plan_data_parallel(["a", "b"], measured=gm.Measurements(rows))
    assert [worker.seconds for worker in plan.workers] == [Range(1.0, 1.1), exactly(3.0)]
    assert not plan.relative
    simulated = gm.plan_data_parallel(["a", "b"], measured=replace(gm.Measurements(rows), simulated=True))
    assert "simulated driver" in " ".join(map(str, simulated.notes))


def test_measurements_are_joined_by_uuid() -> None:
    rows = tuple(
        gm.Measurement((gpu.uuid or "").removeprefix("GPU-"), gpu.name, exactly(10.0 * (i + 1)), exactly(100.0))
        for i, gpu in enumerate(MIXED.gpus)
    )
    plan = gm.plan_data_parallel(MIXED, measured=gm.Measurements(rows), bound="compute")
    assert [worker.source for worker in plan.workers] == ["measured"] * 4
    assert plan.workers[0].seconds == exactly(4.0)
    assert gm.Measurements(rows).of(gm.Gpu(name="Tesla T4")) is None  # three have that name
    partly = gm.plan_data_parallel(MIXED, measured=gm.Measurements(rows[:2]))
    assert "Not all of these GPUs were measured" in " ".join(map(str, partly.notes))


# ---- which GPUs ----


def test_the_gpus_of_a_prediction() -> None:
    scenario = gm.Scenario.from_env(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2"})
    plan = gm.plan_data_parallel(gm.resolve(scenario))
    assert [worker.position for worker in plan.workers] == [0, 2]
    lost = replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="lost"), *MIXED.gpus[1:]))
    assert [worker.position for worker in gm.plan_data_parallel(lost).workers] == [1, 2, 3]


def test_ways_are_told_apart() -> None:
    assert kinds(gm.plan_data_parallel(["T4"], [1.0])) == [EQUAL]
    assert kinds(gm.plan_data_parallel(MIXED, TUTORIAL)) == [EQUAL, BALANCED, ALIKE, *[ALONE] * 4]
    slow = _plan((1.0, 1.0, 50.0), gradient_bytes=3e8, bandwidth=1e9)
    assert kinds(slow) == [EQUAL, BALANCED, FASTEST, ALONE, ALONE, ALONE]
    assert [part.worker.position for part in option(slow, FASTEST).parts] == [0, 1]
    assert "The fastest alone, with batches by speed" in said(slow)


def test_a_costly_exchange_leaves_one_gpu_alone() -> None:
    plan = _plan((1.0, 2.0), gradient_bytes=1e10, bandwidth=1e9)
    assert "Use the card 0 alone" in said(plan)
    assert "with this exchange a split by speed wins 0 % at most" in said(plan)


# ---- what cannot be asked ----


@pytest.mark.parametrize(
    ("devices", "more_", "word"),
    [
        ([], {}, "no GPU"),
        (gm.Topology(), {}, "no GPU"),
        (["a"], {"step_seconds": (1.0, 2.0)}, "2 entries for 1"),
        (["a"], {"step_seconds": [0.0]}, "positive"),
        (["a"], {"step_seconds": [math.nan]}, "positive"),
        (["a"], {"step_seconds": [(2.0, 1.0)]}, "positive"),
        (["a"], {"step_seconds": [math.inf]}, "positive"),
        (["a"], {"step_seconds": 1.0}, "fastest"),
        (["a"], {"batch": 0}, "whole number"),
        (["a"], {"batch": 1.5}, "whole number"),
        (["a"], {"gradient_bytes": -1.0}, "gradient_bytes"),
        (["a"], {"bandwidth": 0.0}, "bandwidth"),
        (["a"], {"bandwidth": (2.0, 1.0)}, "bandwidth"),
        (["a"], {"overlap": 1.5}, "overlap"),
        (["a"], {"limits": [1, 2]}, "limits"),
        (["a"], {"dtype": "int3"}, "type"),
        (["a"], {"bound": "luck"}, "bound"),
    ],
)
def test_figures_that_cannot_be(devices: Any, more_: dict[str, Any], word: str) -> None:
    with pytest.raises(gm.ImpossiblePlan, match=word):
        gm.plan_data_parallel(devices, **more_)


# ---- words and tables ----


@pytest.mark.parametrize(
    ("range_", "text"),
    [
        (exactly(13.2), "13.2 s"),
        (Range(2.54, 5.08), "2.54 to 5.08 s"),
        (Range(2.0, math.inf), "at least 2 s"),
        (Range(0.0, 3.0), "at most 3 s"),
        (UNKNOWN, "unknown"),
        (Range(1.0001, 1.0002), "1 s"),
    ],
)
def test_amounts(range_: Range, text: str) -> None:
    assert amount(range_, "s") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123456, "0.0123"),
        (0.7454, "0.745"),
        (3.25, "3.25"),
        (13.2, "13.2"),
        (9999.6, "10000"),
        (123456, "123000"),
    ],
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_shares() -> None:
    assert share(exactly(1 / 13.2)) == "7.6 %"
    assert share(exactly(0.0)) == "0 %"
    assert share(Range(0.0, 0.4)) == "0 to 40 %"
    assert share(Range(0.0, 1.0)) == "unknown"
    assert more(exactly(1.229)) == "23 %"
    assert more(exactly(0.5)) == "0 %"
    assert hull([]) == UNKNOWN


def test_a_plan_in_every_view() -> None:
    plan = gm.plan_data_parallel(MIXED, TUTORIAL, gradient_bytes=5e8, bandwidth=1e10)
    text, page = str(plan), plan._repr_html_()
    for word in ("all 4, equal batches", "3 × Tesla T4, equal batches", "RTX 4090 alone", "Tesla T4 (AF:00.0) alone"):
        assert word in text
        assert word in page
    frame = plan.to_frame()
    assert len(frame) == 4 + 4 + 3 + 4
    equal = frame[frame.kind == "equal"]
    assert equal.samples.tolist() == [32] * 4
    assert (equal.busy_low + equal.idle_high).tolist() == pytest.approx([1.0] * 4)
    assert gm.plan_data_parallel(["what"]).to_frame().step_high.tolist() == [math.inf]


def test_hostile_names_are_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    plan = gm.plan_data_parallel([evil, evil], (1.0, 2.0))
    assert "<img" not in plan._repr_html_()
    assert "\x1b" not in str(gm.plan_data_parallel(["\x1b[2J", "b"], (1.0, 2.0)))


# ---- what a person types ----


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("  \n", None),
        ("2.5", 2.5),
        ("13.0, 1.0, 13.2, 13.1", (13.0, 1.0, 13.2, 13.1)),
        ("1 s; 250 ms", (1.0, 0.25)),
        ("?, 1, 2-3, 4 to 5s", (None, 1.0, (2.0, 3.0), (4.0, 5.0))),
        ("1,", (1.0, None)),
    ],
)
def test_typed_times(text: str, seconds: Any) -> None:
    assert read_times(text) == (seconds, None)


@pytest.mark.parametrize("text", ["x", "1, -2", "0", "3-2", "1e5", "nan", "inf", "1 min", "'1'", "1" * 30])
def test_odd_times_are_said(text: str) -> None:
    found = read_times(text)
    assert found.seconds is None
    assert "is no step time" in str(found.problem)


@given(st.text(max_size=200))
def test_any_text_is_times_or_says_why_not(text: str) -> None:
    found = read_times(text)
    assert found.problem is None or found.seconds is None
    if isinstance(found.seconds, tuple):
        _plan(found.seconds)
