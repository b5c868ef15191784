"""The footprint: memory held on each cuda number, found by NVML. On the simulated driver, which holds and computes not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.live import observe
from gpumap_widgets.live.marks import Mark, footprint
from gpumap_widgets.mapping import Observation
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import MigInstance
from tests import simdriver
from tests.live_tools import Driven, children, described, eventually, gone, linux
from tests.simdriver import EIGHT_A100, MIG_A100, MIXED, SimMachine, SimProcess

pytestmark = linux


def mark(machine: SimMachine, env: Mapping[str, str]) -> Observation:
    return footprint(resolve(Scenario.from_env(described(machine), env)), timeout=20.0)


@pytest.mark.parametrize(
    ("machine", "env"),
    [
        (MIXED, {}),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "2,0"}),
        (MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"}),
        (EIGHT_A100, {"CUDA_VISIBLE_DEVICES": "7,6,5,4,3,2,1,0"}),
        (replace(MIXED, processes=(SimProcess(0, 4711, 900), SimProcess(1, 4712, 64))), {}),
        (replace(MIXED, default_order=(3, 2, 1, 0)), {}),
    ],
)
def test_each_number_shows_where_it_is(
    driven: Driven, libraries: Path, machine: SimMachine, env: dict[str, str]
) -> None:
    driven(machine)
    seen = mark(machine, env)
    assert (seen.problem, seen.witness, seen.simulated) == (None, "footprint", True)
    listed = simdriver.enumerate_devices(
        libraries, machine, env.get("CUDA_DEVICE_ORDER"), env.get("CUDA_VISIBLE_DEVICES")
    )
    assert [device.uuid for device in seen.devices] == [machine.gpus[i].uuid[4:] for i, _ in listed]
    assert [device.name for device in seen.devices] == [machine.gpus[i].name for i, _ in listed]
    assert "cuda:0 16 MiB" in str(seen.notes[0])
    folder = Path(os.environ["GPUMAP_SIM_MACHINE"] + ".held")
    assert [path.read_text() for path in folder.iterdir()] == [""], "all of it was released"


def test_on_a_mig_device(driven: Driven) -> None:
    driven(MIG_A100)
    split = described(MIG_A100)
    parts = tuple(MigInstance(m.uuid, m.profile, m.gpu_instance_id, 0) for m in MIG_A100.gpus[0].mig)
    machine = replace(split, gpus=(replace(split.gpus[0], mig_mode=True, mig_instances=parts), split.gpus[1]))
    uuid = MIG_A100.gpus[0].mig[1].uuid
    prediction = resolve(Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": uuid}))
    seen = footprint(prediction)
    assert [device.uuid for device in seen.devices] == [uuid[4:]]
    assert compare(prediction, seen).verdict == "confirmed"


def test_three_witnesses(driven: Driven) -> None:
    driven(MIXED)
    prediction = resolve(Scenario.from_env(described(MIXED), {}))
    result = compare(prediction, observe(prediction), footprint(prediction))
    assert (result.verdict, [part.observation.witness for part in result.parts]) == (
        "confirmed",
        ["footprint", "driver", "torch"],
    )
    assert [set(edge.by) for edge in result.edges] == [{"footprint", "driver", "torch"}] * 4
    assert "Heard: the footprint, the driver and torch." in str(result.reason)
    assert "Held for a moment by process" in str(result.reason)


def test_it_refutes_what_the_hardware_does_not_show(driven: Driven) -> None:
    driven(replace(MIXED, default_order=(0, 1, 2, 3)))
    prediction = resolve(Scenario.from_env(described(MIXED), {}))
    result = compare(prediction, footprint(prediction))
    assert result.verdict == "refuted"
    assert result.failed is not None
    assert result.failed.stage == "order"


def test_amounts_that_nvml_does_not_tell(driven: Driven) -> None:
    """As on Windows: that the process shows at all is enough, one device at a time."""
    driven(replace(MIXED, hide="amounts"))
    seen = mark(MIXED, {"CUDA_VISIBLE_DEVICES": "3,0"})
    assert [device.uuid for device in seen.devices] == [MIXED.gpus[i].uuid[4:] for i in (3, 1)]


# --- why there is none -----------------------------------------------------------------------------------------------


def problem_of(seen: Observation) -> str:
    assert seen.problem is not None
    assert seen.devices == ()
    assert str(seen.problem)
    return seen.problem.key


def test_hidden_pids(driven: Driven) -> None:
    driven(replace(MIXED, hide="pids"))
    assert problem_of(mark(MIXED, {})).startswith("live.footprint-hidden")


@pytest.mark.parametrize("kind", ["apptainer", None])
def test_hidden_pids_in_a_container_or_not(driven: Driven, monkeypatch: pytest.MonkeyPatch, kind: str | None) -> None:
    driven(replace(MIXED, hide="pids"))
    if kind:
        monkeypatch.setenv("APPTAINER_CONTAINER", "/x.sif")
    seen = mark(MIXED, {"CUDA_VISIBLE_DEVICES": "0"})
    assert seen.container == kind or not kind
    assert problem_of(seen) == ("live.footprint-hidden-in" if seen.container else "live.footprint-hidden")
    assert not kind or "container (apptainer)" in str(seen.problem)


def test_no_nvml(driven: Driven) -> None:
    driven(replace(MIXED, nvml_code=9))
    assert problem_of(mark(MIXED, {})) == "live.footprint-no-nvml"


@pytest.mark.parametrize(("code", "key"), [(803, "live.cuinit-803"), (100, "live.not-opened")])
def test_a_driver_that_refuses(driven: Driven, code: int, key: str) -> None:
    driven(replace(MIXED, cuinit_code=code))
    assert problem_of(mark(MIXED, {})) == key


def test_no_device_is_an_answer(driven: Driven) -> None:
    driven(MIXED)
    seen = mark(MIXED, {"CUDA_VISIBLE_DEVICES": ""})
    assert (seen.problem, seen.devices, seen.notes) == (None, (), ())


def test_a_full_gpu(driven: Driven) -> None:
    driven(replace(MIXED, processes=(SimProcess(0, 4711, 15360 - 100),)))
    seen = mark(MIXED, {})
    assert problem_of(seen) == "live.footprint-memory"
    assert "cuda:1 has no 32 MiB" in str(seen.problem)


def test_what_would_not_start(driven: Driven) -> None:
    driven(MIXED)
    assert problem_of(footprint(resolve(Scenario(described(MIXED), (Layer("no such layer"),))))) == "live.refused"


@pytest.mark.parametrize("how", ["time out", "stop"])
def test_a_driver_that_hangs(driven: Driven, how: str) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    one = Mark({}, timeout=1.0 if how == "time out" else 60.0).start()
    assert eventually(children)
    if how == "stop":
        one.cancel()
    assert problem_of(one.result()) == ("live.child-timed-out" if how == "time out" else "live.cancelled")
    assert not children()


def test_it_goes_with_the_notebook_kernel(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]]))
    code = "from gpumap_widgets.live.marks import Mark; Mark({}).start().result()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        assert eventually(lambda: len(children(parent.pid)) == 1, 20)
        (theirs,) = children(parent.pid)
        parent.send_signal(signal.SIGKILL)
        assert eventually(lambda: gone(theirs), 2.0)
