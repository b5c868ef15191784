"""The driver as a witness, two witnesses side by side, and what can go wrong with either. Real processes on the
simulated driver; torch is one of a few lines that asks that driver, so that starting processes is what takes the time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.live import observe, run_for
from gpumap_widgets.live.children import Child
from gpumap_widgets.live.program import HARDWARE
from gpumap_widgets.live.run import Run
from gpumap_widgets.mapping import Comparison, Observation
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests import simdriver
from tests.live_tools import Driven, children, described, eventually, gone, kernelspec, left_in, linux
from tests.simdriver import EIGHT_A100, MIG_A100, MIXED, SimMachine

pytestmark = linux
LISTED = {"CUDA_VISIBLE_DEVICES": "1,2"}


def driver(env: dict[str, str] | None = None, timeout: float = 20.0) -> Observation:
    return Run(env or {}, timeout=timeout, witnesses=("driver",)).start().result()


def both(machine: SimMachine, env: dict[str, str], **options: Any) -> Comparison:
    prediction = resolve(Scenario.from_env(described(machine), env))
    return compare(prediction, observe(prediction, **options))


def bare(libraries: Path, machine: SimMachine, order: str | None, visible: str | None) -> list[str]:
    """UUIDs by ordinal, as the simulated driver itself enumerates."""
    found = simdriver.enumerate_devices(libraries, machine, order, visible)
    return [(machine.gpus[i] if m is None else machine.gpus[i].mig[m]).uuid[4:].lower() for i, m in found]


# --- the driver ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, "PCI_BUS_ID"])
@pytest.mark.parametrize("visible", [None, "1,2", "2,0,9,1", "GPU-b1"])
def test_the_driver_lists_its_devices(driven: Driven, libraries: Path, order: str | None, visible: str | None) -> None:
    driven(MIXED)
    asked = {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": visible}
    env = {name: value for name, value in asked.items() if value is not None}
    seen = driver(env)
    assert (seen.problem, seen.witness, dict(seen.env)) == (None, "driver", env)
    assert [device.uuid for device in seen.devices] == bare(libraries, MIXED, order, visible)
    sim = {gpu.uuid[4:]: gpu for gpu in MIXED.gpus}
    for device in seen.devices:
        gpu = sim[device.uuid or ""]
        assert (device.name, device.pci_bus_id) == (gpu.name, gpu.pci_bus_id[4:])
        assert (device.memory_mib, device.compute_capability) == (gpu.memory_mib, gpu.compute_capability)
    assert (seen.simulated, seen.versions["driver"], len(seen.present or ())) == (True, MIXED.driver_version, 4)
    assert {"cuda", "nvml", "total"} <= set(seen.seconds)


def test_a_mig_device_has_a_uuid_of_its_own(driven: Driven) -> None:
    driven(MIG_A100)
    uuid = MIG_A100.gpus[0].mig[1].uuid
    assert [device.uuid for device in driver({"CUDA_VISIBLE_DEVICES": uuid}).devices] == [uuid[4:]]


def test_what_this_process_has_set_and_the_scenario_has_not_is_absent(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(MIXED)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    seen = driver()
    assert (dict(seen.env), len(seen.devices)) == ({}, 4)


def test_no_start_up_file_and_no_module_here_gets_in_its_way(
    driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(MIXED)
    for name in ("sitecustomize", "usercustomize", "ctypes", "json", "re"):
        (place / "site" / f"{name}.py").write_text("print('mine'); raise SystemExit(3)")
    monkeypatch.chdir(place / "site")
    assert len(driver().devices) == 4


@pytest.mark.parametrize(
    ("machine", "key", "words"),
    [
        *(
            (replace(MIXED, cuinit_code=code), f"live.cuinit-{code}", name)
            for code, name in (
                (34, "CUDA_ERROR_STUB_LIBRARY"),
                (101, "CUDA_ERROR_INVALID_DEVICE"),
                (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
                (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
                (999, "CUDA_ERROR_UNKNOWN"),
            )
        ),
        (replace(MIXED, cuinit_code=500), "live.cuinit", "CUDA_ERROR_NOT_FOUND"),
        (replace(MIXED, cuinit_code=100), "live.not-opened", "NVML counts 4"),
        (SimMachine(()), "live.no-device", "finds no GPU"),
    ],
)
def test_a_driver_that_refuses(driven: Driven, machine: SimMachine, key: str, words: str) -> None:
    driven(machine)
    seen = driver()
    assert seen.problem is not None
    assert (seen.problem.key, words in str(seen.problem)) == (key, True), str(seen.problem)


@pytest.mark.parametrize(("content", "key"), [(None, "live.no-driver"), ("no library", "live.driver-broken")])
def test_a_driver_that_is_not_there(driven: Driven, place: Path, content: str | None, key: str) -> None:
    folder = place / "libraries"
    folder.mkdir()
    if content is not None:
        (folder / "libcuda.so.1").write_text(content)
    driven(MIXED, folder)
    seen = driver()
    if seen.devices:
        pytest.skip("this machine has a driver")
    assert seen.problem is not None
    assert seen.problem.key == key


@pytest.mark.parametrize("how", ["absent", "refuses"])
def test_nvml_is_missing(driven: Driven, libraries: Path, place: Path, how: str) -> None:
    folder = place / "libraries"
    folder.mkdir()
    shutil.copy(libraries / "libcuda.so.1", folder)
    driven(*((MIXED, folder) if how == "absent" else (replace(MIXED, nvml_code=9),)))
    result = both(MIXED, LISTED)
    assert result.verdict == "confirmed", str(result.reason)
    assert all(part.observation.present is None for part in result.parts)
    assert driver({"CUDA_VISIBLE_DEVICES": ""}).problem is not None, (
        "nobody can tell an empty list from an empty machine"
    )


def test_a_slow_driver_is_waited_for(driven: Driven) -> None:
    driven(replace(MIXED, cuinit_delay_ms=1200))
    result = both(MIXED, {})
    assert result.verdict == "confirmed"
    assert all(part.observation.seconds["cuda"] >= 1.2 for part in result.parts)


@pytest.mark.parametrize("how", ["time out", "cancel", "kill"])
def test_a_driver_that_hangs(driven: Driven, how: str) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    run = Run({}, timeout=1.0 if how == "time out" else 60.0, witnesses=("driver",)).start()
    assert eventually(children)
    (pid,) = children()
    began = time.monotonic()
    if how == "cancel":
        run.cancel()
    elif how == "kill":
        os.kill(pid, signal.SIGKILL)
    seen = run.result()
    assert seen.problem is not None
    assert seen.problem.key == {"time out": "live.child-timed-out", "cancel": "live.cancelled"}.get(
        how, "live.child-died"
    )
    assert time.monotonic() - began < 3
    assert not children()


def test_a_child_that_is_stopped_before_it_starts(driven: Driven) -> None:
    driven(MIXED)
    from gpumap_widgets.mapping import Message

    child = Child(HARDWARE, "report_driver", dict(os.environ), 5.0)
    child.stop(Message("live.cancelled", {"seconds": "0"}))
    said = child.facts()
    assert isinstance(said, Message)
    assert said.key == "live.cancelled"


PARENT = """
import sys
from gpumap_widgets.live.run import Run
from gpumap_widgets.live.spare import SPARES
SPARES.want(1)
run = Run({}, witnesses=("driver", "torch")).start()
sys.stdin.readline()
"""


def test_everything_goes_when_the_notebook_kernel_is_killed(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's child, the kernel that is asked and the kernel that waits, all stuck in a driver that hangs."""
    driven(replace(MIXED, cuinit_hang=True))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]]))
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE) as parent:
        assert eventually(lambda: len(children(parent.pid)) == 3, 30)
        time.sleep(1.0)
        theirs = children(parent.pid)
        assert len(theirs) == 3
        parent.kill()
        assert eventually(lambda: all(gone(pid) for pid in theirs), 2.0)


# --- both ------------------------------------------------------------------------------------------------------------


def test_two_witnesses_agree(driven: Driven) -> None:
    driven(MIXED)
    prediction = resolve(Scenario.from_env(described(MIXED), LISTED))
    answered: list[tuple[bool, int]] = []
    run = run_for(prediction, on_driver=lambda run: answered.append((run.done, len(run.driver.devices))))
    seen = run.start().result()
    assert answered == [(False, 2)], "the driver answers first"
    assert (seen.witness, [one.witness for one in seen.others]) == ("torch", ["driver"])
    result = compare(prediction, seen)
    assert (result.verdict, [part.verdict for part in result.parts]) == ("confirmed", ["confirmed"] * 2)
    assert [part.observation.witness for part in result.parts] == ["driver", "torch"]
    assert [{name: edge.verdict for name, edge in edge.by.items()} for edge in result.edges] == [
        {"driver": "agrees", "torch": "agrees"}
    ] * 2
    assert "Heard: the driver and torch." in str(result.reason)
    assert result.exercised == ("cuda",)
    assert list(result.to_frame()["driver"]) == ["agrees", "agrees"]


def test_the_driver_alone(driven: Driven) -> None:
    driven(EIGHT_A100)
    prediction = resolve(Scenario.from_env(described(EIGHT_A100), {}))
    seen = observe(prediction, witnesses=("driver",))
    assert (seen.witness, seen.others) == ("driver", ())
    assert compare(prediction, seen).verdict == "confirmed"
    with pytest.raises(ValueError, match="oracle"):
        observe(prediction, witnesses=("oracle",))


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", "live.no-torch"),
        ("version.cuda = None", "live.cpu-build"),
        ("os._exit(7)", "live.died"),
        ("os.kill(os.getpid(), 9)", "live.died"),
    ],
)
def test_without_torch_the_driver_speaks(
    driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch, code: str, key: str
) -> None:
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH_IMPORT", code)
    result = both(MIXED, LISTED)
    assert (result.verdict, [part.verdict for part in result.parts]) == ("confirmed", ["confirmed", "not checked"])
    assert result.parts[1].reason.key == key
    assert "Heard: the driver. Not heard: torch, because: " in str(result.reason)
    assert [edge.by["torch"].verdict for edge in result.edges] == ["not checked"] * 2
    assert not left_in(place)


def test_a_kernel_that_is_killed_in_mid_answer(driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH", "import signal; os.kill(os.getpid(), signal.SIGKILL)")
    result = both(MIXED, LISTED)
    assert (result.verdict, result.parts[1].reason.key) == ("confirmed", "live.died")
    assert not children()
    assert not left_in(place)


def test_a_torch_that_tells_no_uuids(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older than 2.5, and no PCI address either: only the driver can be joined."""
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH_LACKS", "uuid")
    result = both(MIXED, LISTED)
    assert (result.verdict, [part.verdict for part in result.parts]) == ("confirmed", ["confirmed", "not checked"])
    assert "tells neither UUIDs nor PCI" in str(result.parts[1].reason)
    assert result.joined_by == "uuid"


def test_a_kernelspec_with_variables_of_its_own(driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(MIXED)
    name = kernelspec(place, monkeypatch, "stubborn", env={"CUDA_VISIBLE_DEVICES": "0"})
    result = both(MIXED, LISTED, kernel_name=name)
    assert result.verdict == "not checked", "in that kernel the settings do not hold, whatever the driver says of them"
    assert "CUDA_VISIBLE_DEVICES was '1,2', there it is '0'" in str(result.reason)
    assert [part.verdict for part in result.parts] == ["confirmed", "not checked"]


@pytest.mark.parametrize("code", [803, 999])
def test_both_meet_a_driver_that_refuses(driven: Driven, code: int) -> None:
    driven(replace(MIXED, cuinit_code=code))
    result = both(MIXED, {})
    assert (result.verdict, result.reason.key) == ("not checked", f"live.cuinit-{code}"), "said once"
    assert result.exercised == ()


def test_both_meet_a_driver_that_hangs(driven: Driven) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    result = both(MIXED, {}, timeout=3.0)
    assert (result.verdict, [part.reason.key for part in result.parts]) == (
        "not checked",
        ["live.child-timed-out", "live.timed-out"],
    )
    assert not children()


def test_a_gpu_is_lost_between_the_two(driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(MIXED)
    lost = replace(MIXED, gpus=(*MIXED.gpus[:3], replace(MIXED.gpus[3], fault="lost")))
    file = Path(os.environ["GPUMAP_SIM_MACHINE"])
    (place / "lost.txt").write_text(lost.text())
    swap = f"import time; time.sleep(0.7); os.replace({str(place / 'lost.txt')!r}, {str(file)!r})"
    monkeypatch.setenv("FAKE_TORCH_IMPORT", swap)
    result = both(MIXED, {})
    assert (result.verdict, [part.verdict for part in result.parts]) == ("refuted", ["confirmed", "refuted"])
    said = str(result.reason)
    assert "The witnesses contradict each other from cuda:3 on, the driver and torch: the driver is nearer" in said
    assert "1 of the GPUs that NVML shows changed" in said
    assert result.failed is None, "no rule of the prediction is at fault"
    assert result.edges[3].verdict == "differs"
    assert {name: edge.verdict for name, edge in result.edges[3].by.items()} == {"driver": "agrees", "torch": "differs"}


START_UP = """
print("hello" * 10_000)
import torch
torch.cuda.init()
"""


def test_a_start_up_file_that_prints_and_starts_cuda(
    driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(MIXED)
    start_up = place / "ipython" / "profile_default" / "startup"
    start_up.mkdir(parents=True)
    (start_up / "10-mine.py").write_text(START_UP)
    monkeypatch.setenv("IPYTHONDIR", str(place / "ipython"))
    result = both(MIXED, LISTED, kernel_name=kernelspec(place, monkeypatch, "named"))
    assert (result.verdict, [part.verdict for part in result.parts]) == ("confirmed", ["confirmed"] * 2)


def test_a_worker_of_a_launcher_by_its_place(driven: Driven) -> None:
    driven(MIXED)
    command = "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc-per-node=2 --virtual-local-rank t.py"
    prediction = resolve(Scenario.from_command(described(MIXED), command))
    seen = observe(prediction, worker=1, witnesses=("driver",))
    result = compare(prediction, seen)
    assert (result.verdict, [edge.rank for edge in result.edges]) == ("confirmed", [1]), str(result.reason)
    assert result.exercised == ("cuda",)
    assert "Only the CUDA layer was exercised, not: torchrun." in str(result.reason)
    assert "Of 2 processes only 1 ran." in str(result.reason)


# --- the rule that failed --------------------------------------------------------------------------------------------


def test_the_order_failed(driven: Driven) -> None:
    driven(replace(MIXED, default_order=(0, 1, 2, 3)))
    result = both(MIXED, {})
    assert (result.verdict, [part.verdict for part in result.parts]) == ("refuted", ["refuted"] * 2)
    assert result.failed is not None
    assert (result.failed.stage, result.failed.message.key) == ("order", "step.order.weights")
    assert "The rule that failed: “CUDA_DEVICE_ORDER is unset" in str(result.reason)
    assert "69 of 69" in str(result.reason), "with its source"


def test_a_gpu_that_is_gone_is_the_fault_of_the_description(driven: Driven) -> None:
    driven(replace(MIXED, gpus=MIXED.gpus[:3], default_order=(1, 0, 2)))
    result = both(MIXED, {})
    assert result.verdict == "refuted"
    assert result.failed is not None
    assert result.failed.stage == "machine"


# --- many presses ----------------------------------------------------------------------------------------------------


def test_fifty_quick_runs_of_which_the_last_one_counts(driven: Driven, libraries: Path, place: Path) -> None:
    driven(MIXED)
    threads = threading.active_count()
    runs = []
    for i in range(50):
        if runs:
            runs[-1].cancel()
        runs.append(Run({"CUDA_VISIBLE_DEVICES": str(i % 4)}).start())
    last = runs[-1].result()
    assert last.problem is None, str(last.problem)
    assert [device.uuid for device in last.devices] == bare(libraries, MIXED, None, "1")
    assert all(run.wait(10) for run in runs)
    assert not children()
    assert not left_in(place)
    assert threading.active_count() == threads
