"""Measuring for real on "cpu" devices; consent, faults, identity; measurements in capsules."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpumap_widgets as gm
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.measuring import program, running
from gpumap_widgets.measuring.orders import Order, Target, described, order_for, targets_of
from gpumap_widgets.measuring.running import MeasureRun, measurement_from
from gpumap_widgets.planning.ranges import Range, exactly
from tests import simdriver

torch = pytest.mark.torch
MIXED = gm.preset("mixed")


def step(device: str) -> None:
    """A function of the user's, which prints and imports what it needs."""
    import torch

    print("noise on stdout")
    a = torch.ones(64, 64, device=device)
    (a @ a).sum().item()


def slow() -> None:
    import time

    time.sleep(60)


def leaves_a_child() -> None:
    import subprocess
    import sys
    import time

    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    time.sleep(60)


def broken(device: str) -> None:
    raise RuntimeError(f"no luck on {device}")


def dies() -> None:
    import os

    os._exit(7)


# ---- consent ----


def test_nothing_runs_without_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "start", lambda *_, **__: pytest.fail("something was started"))
    with pytest.raises(gm.GpumapError, match=r"consent=True") as caught:
        gm.measure_gpus(["cpu", "cpu"], dtype="float32", seconds=2)
    assert "2, one after the other, each kept busy for about 2 s" in str(caught.value)
    for almost in (1, "yes"):
        with pytest.raises(gm.GpumapError, match="Nothing was run"):
            gm.measure_gpus(["cpu"], consent=almost)  # type: ignore[arg-type]


def test_others_on_the_gpus_are_part_of_the_question() -> None:
    targets = (Target("GPU-1", "T4", FrozenDict(), "cuda:0", others=2), Target("GPU-2", "T4", FrozenDict(), "cuda:0"))
    assert "Other processes on these GPUs now: 2." in Order(targets).said
    assert "Other processes" not in Order(targets[1:]).said


# ---- for real ----


@pytest.fixture(scope="module")
def on_cpu() -> gm.Measurements:
    return gm.measure_gpus(
        ["cpu", "cpu"], consent=True, dtype="float32", seconds=0.4, memory_mib=128, function=step, threads=1
    )


@torch
def test_two_processors_are_measured(on_cpu: gm.Measurements) -> None:
    assert [row.device for row in on_cpu.rows] == ["cpu:0", "cpu:1"]
    for row in on_cpu.rows:
        assert row.problem is None
        assert row.tflops is not None
        assert row.copy_gbs is not None
        assert row.step_seconds is not None
        for figure in (row.tflops, row.copy_gbs, row.step_seconds):
            assert 0 < figure.low <= figure.high < math.inf
        assert 1e-4 < row.tflops.high < 50  # no processor is outside of that
        assert 0.05 < row.copy_gbs.high < 5000
        assert row.step_seconds.high < 0.4
    assert on_cpu.dtype == "float32"
    assert {"python", "torch"} <= set(on_cpu.versions)
    assert on_cpu.taken


@torch
def test_what_was_measured_makes_a_plan(on_cpu: gm.Measurements) -> None:
    plan = gm.plan_data_parallel(["cpu:0", "cpu:1"], measured=on_cpu)
    assert {worker.source for worker in plan.workers} == {"measured"}
    assert [worker.seconds for worker in plan.workers] == [row.step_seconds for row in on_cpu.rows]
    assert plan.balanced is not None
    assert sum(plan.balanced.batches) == 64


@torch
def test_it_goes_into_a_capsule_and_comes_back(on_cpu: gm.Measurements) -> None:
    capsule = gm.Capsule(MIXED, measured=on_cpu)
    assert gm.Capsule.from_json(capsule.to_json()) == capsule


@torch
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (broken, "the function: RuntimeError: no luck on cpu"),
        (dies, "its process died (status 7)"),
    ],
)
def test_a_function_that_fails_is_said(function: Any, said: str) -> None:
    found = gm.measure_gpus(["cpu"], consent=True, dtype="float32", seconds=0.06, memory_mib=16, function=function)
    assert said in str(found.rows[0].problem)
    assert (found.rows[0].tflops is None) == (function is dies)
    assert found.rows[0].step_seconds is None


def _started_by_this_test(marker: str) -> list[int]:
    """Processes that inherited a variable of the test; zombies aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            inherited = f"GPUMAP_TEST_MARKER={marker}".encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if inherited and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def _wait_until(true: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@torch
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_cancel_kills_the_process_and_what_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = str(tmp_path)
    monkeypatch.setenv("GPUMAP_TEST_MARKER", marker)
    order = order_for(["cpu", "cpu"], dtype="float32", seconds=0.06, memory_mib=16, function=leaves_a_child)
    done = threading.Event()
    run = MeasureRun(order, on_done=lambda _: done.set()).start()
    _wait_until(lambda: len(_started_by_this_test(marker)) == 2)
    run.cancel()
    assert run.wait(10)
    assert done.is_set()
    assert [row.problem for row in run.result().rows] == ["cancelled", "cancelled"]
    _wait_until(lambda: _started_by_this_test(marker) == [], 5)


@torch
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_time_limit_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUMAP_TEST_MARKER", str(tmp_path))
    monkeypatch.setattr(running, "_START", 0.5)
    found = gm.measure_gpus(["cpu"], consent=True, dtype="float32", seconds=0.05, memory_mib=16, function=slow)
    assert "so its process was ended" in str(found.rows[0].problem)
    assert _started_by_this_test(str(tmp_path)) == []


def test_a_python_that_is_none() -> None:
    found = gm.measure_gpus(["cpu"], consent=True, executable="/no/such/python")
    assert "it failed: FileNotFoundError" in str(found.rows[0].problem)
    bare = gm.measure_gpus(["cpu"], consent=True, executable="/bin/true", seconds=0.05)
    assert "its process died (status 0)" in str(bare.rows[0].problem)


@torch
def test_gpus_of_a_simulated_driver_are_asked_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way up to the kernels that such a driver cannot run: the right GPU answers, nothing is made up."""
    try:
        built = simdriver.build(simdriver.find_cuda_include(sys.executable))
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(f"no simulated driver: {exc}")
    for name, value in simdriver.environment(simdriver.MIXED, tmp_path, built, dict(os.environ)).items():
        monkeypatch.setenv(name, value)
    machine = gm.Topology(
        tuple(
            gm.Gpu(i + 1, g.name, f"GPU-{g.uuid.removeprefix('GPU-')}") for i, g in enumerate(simdriver.MIXED.gpus[1:2])
        ),
        simulated=True,
    )
    found = gm.measure_gpus(machine, consent=True, seconds=0.06, memory_mib=16)
    assert found.simulated
    for gpu, row in zip(machine.gpus, found.rows, strict=True):
        assert row.name == gpu.name
        assert "another GPU" not in str(row.problem)
        assert row.problem
        assert (row.tflops, row.copy_gbs) == (None, None)


# ---- what is asked, and what is made of an answer ----


def test_targets_see_one_gpu_only() -> None:
    targets = targets_of(MIXED)
    assert [target.env["CUDA_VISIBLE_DEVICES"] for target in targets] == [gpu.uuid for gpu in MIXED.gpus]
    cut = replace(MIXED.gpus[0], mig_instances=(gm.MigInstance("MIG-x"),))
    lost = replace(MIXED.gpus[1], problem="lost")
    assert len(targets_of(replace(MIXED, gpus=(cut, lost, *MIXED.gpus[2:])))) == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"devices": ["gpu"]},
        {"devices": []},
        {"devices": gm.Topology()},
        {"devices": gm.Topology((gm.Gpu(name="T4"),))},
        {"dtype": "int8"},
        {"seconds": 0.0},
        {"seconds": 3600},
        {"seconds": math.nan},
        {"memory_mib": 1},
        {"threads": 0},
        {"function": "os.system"},
        {"function": "x:y z"},
        {"function": len},
        {"function": lambda: None},
    ],
)
def test_what_cannot_be_asked(odd: dict[str, Any]) -> None:
    with pytest.raises(gm.GpumapError):
        order_for(**{"devices": ["cpu"], **odd})


def test_no_driver_is_said_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpumap_widgets.sources import nvml

    def none() -> gm.Topology:
        raise gm.NoDriver("none here")

    monkeypatch.setattr(nvml, "this_machine", none)
    with pytest.raises(gm.NoDriver):
        gm.measure_gpus(consent=True)


def test_a_function_that_is_not_there() -> None:
    for module, name, error in (("no_such_module", "x", ModuleNotFoundError), ("math", "no_such_name", AttributeError)):
        with pytest.raises(error):
            program._function({"module": module, "name": name, "path": []})


def test_a_function_goes_by_its_source() -> None:
    assert described("a.b:c")["module"] == "a.b"
    source = described(step)["source"]
    assert source.startswith("def step(device: str)")


def test_the_wrong_gpu_is_thrown_away() -> None:
    target = Target(MIXED.gpus[1].uuid or "", "RTX 4090", FrozenDict(), "cuda:0", others=1)
    facts = {"name": "Tesla T4", "uuid": "a0e15e00-0000-4000-8000-000000000000", "count": 1, "tflops": [1, 2]}
    row = measurement_from(target, {**facts, "problems": {}})
    assert "another GPU answered (Tesla T4)" in str(row.problem)
    assert row.tflops is None
    assert row.others == 1
    right = {**facts, "uuid": (MIXED.gpus[1].uuid or "").removeprefix("GPU-"), "problems": {}}
    assert measurement_from(target, right).tflops == Range(1, 2)
    assert measurement_from(target, {**right, "count": 4}).problem
    assert measurement_from(target, {**right, "uuid": None}).tflops == Range(1, 2)  # an old torch does not tell


# ---- capsules ----

SAMPLE = gm.Measurements(
    (
        gm.Measurement(
            "GPU-a0e15e00-0000-4000-8000-000000000000", "Tesla T4", Range(20.0, 21.0), exactly(250.0), others=1
        ),
        gm.Measurement("GPU-b1e18600-0000-4000-8000-000000000001", None, problem="cancelled"),
    ),
    "bfloat16",
    2.5,
    "2026-01-02T03:04:05+00:00",
    {"torch": "2.9"},
)


def _capsule_with(**changes: Any) -> str:
    data = json.loads(gm.Capsule(MIXED, measured=SAMPLE).to_json())
    data["measured"] |= changes
    return json.dumps(data)


def test_a_capsule_keeps_measurements_and_old_ones_have_none() -> None:
    capsule = gm.Capsule(MIXED, measured=SAMPLE)
    assert gm.Capsule.from_json(capsule.to_json()) == capsule
    data = json.loads(capsule.to_json())
    assert data["measured"]["version"] == 1
    del data["measured"]
    assert gm.Capsule.from_json(json.dumps(data)).measured is None


def test_a_masked_capsule_still_joins() -> None:
    masked = gm.Capsule(MIXED, measured=SAMPLE).masked("salt")
    assert masked.measured is not None
    assert masked.measured.rows[0].device != SAMPLE.rows[0].device
    assert masked.measured.of(masked.topology.gpus[0]) == masked.measured.rows[0]
    cpu = gm.Capsule(MIXED, measured=replace(SAMPLE, rows=(gm.Measurement("cpu:0", None),))).masked("salt")
    assert cpu.measured is not None
    assert cpu.measured.rows[0].device == "cpu:0"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": 0},
        {"version": "1"},
        {"version": None},
        {"seconds": -1},
        {"seconds": True},
        {"seconds": 1e300},
        {"taken": "yesterday"},
        {"dtype": "x" * 100},
        {"rows": None},
        {"rows": {}},
        {"rows": [{}]},
        {"rows": [{"device": "a", "tflops": [2, 1]}]},
        {"rows": [{"device": "a", "tflops": [0, 1]}]},
        {"rows": [{"device": "a", "tflops": [1]}]},
        {"rows": [{"device": "a", "tflops": 1}]},
        {"rows": [{"device": "a", "tflops": ["1", "2"]}]},
        {"rows": [{"device": "a", "others": -1}]},
        {"rows": [[]]},
        {"versions": {"a": 1}},
        {"versions": [1]},
    ],
)
def test_a_damaged_part_is_refused_with_its_place(changes: dict[str, Any]) -> None:
    with pytest.raises(gm.UnreadableTopology, match="measured"):
        gm.Capsule.from_json(_capsule_with(**changes))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["version", "rows", "seconds", "dtype", "taken", "versions", "simulated"]), json_values)
def test_any_damage_is_a_capsule_or_refused(name: str, value: Any) -> None:
    try:
        capsule = gm.Capsule.from_json(_capsule_with(**{name: value}))
    except gm.UnreadableTopology:
        return
    assert capsule.measured is not None
    assert gm.Capsule.from_json(capsule.to_json()) == capsule
