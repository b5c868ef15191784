"""The guard in real processes on the simulated driver: right card, wrong card, too late, lost, no driver, copied alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpumap_widgets import guard
from tests import simdriver
from tests.simdriver import SimProcess

T4, GTX = "GPU-a0e15e00-0000-4000-8000-000000000000", "GPU-b1e18600-0000-4000-8000-000000000001"
Sim = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Sim:
    built = simdriver.build()
    base = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "NVIDIA_"))}
    return lambda machine: simdriver.environment(machine, tmp_path_factory.mktemp("sim"), built, base)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one file, as it is copied into an image that installs nothing."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copy(guard.__file__, folder / "gumpap_guard.py")
    return folder


def run(alone: Path, env: Mapping[str, str], code: str) -> subprocess.CompletedProcess[str]:
    program = f"import gumpap_guard as g\n{code}"
    command = [sys.executable, "-I", "-W", "always", "-c", f"import sys; sys.path.insert(0, {str(alone)!r})\n{program}"]
    return subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=60, check=False)


MIXED = simdriver.MIXED


@pytest.mark.parametrize(
    ("variables", "expect"),
    [
        ({}, {"cuda:0": "4090"}),
        ({}, {"cuda:0": GTX, "cuda:1": T4}),
        ({}, {"cuda:0": "GPU-b1e1"}),
        ({}, {"cuda:0": GTX.upper().replace("GPU-", "GPU-")}),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {"cuda:0": 0, "cuda:3": 3}),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {"cuda:1": "86:00.0", "cuda:2": "0000:AF:00.0"}),
        ({"CUDA_VISIBLE_DEVICES": GTX}, {"cuda:0": "1"}),
    ],
)
def test_the_right_card(sim: Sim, alone: Path, variables: Mapping[str, str], expect: dict[str, str]) -> None:
    found = run(alone, sim(MIXED) | variables, f"print(g.verify({expect!r}))")
    assert (found.returncode, found.stdout.strip()) == (0, next(iter(expect))), found.stderr


@pytest.mark.parametrize(
    ("variables", "call", "said"),
    [
        ({}, "{'cuda:0': 0}", ["expected 0, found NVIDIA GeForce RTX 4090", f"CUDA_VISIBLE_DEVICES={T4}", "unset"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "{'cuda:0': '4090'}", ["found Tesla T4", f"CUDA_VISIBLE_DEVICES={GTX}", "'1'"]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "{'cuda:1': 'T4'}", ["cuda:1", "no such device (there are 1)"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, "{'cuda:0': 'T4'}", ["there are 0"]),
        ({}, "{'cuda:0': 'A100'}", ["no GPU of this machine"]),
        ({}, "{'cuda:0': '4090'}, count=1", ["4 CUDA devices, expected 1"]),
        ({}, "{'cuda:1': 'T4'}, min_memory_mib=16000", ["at least 16000 MiB"]),
    ],
)
def test_the_wrong_card(sim: Sim, alone: Path, variables: Mapping[str, str], call: str, said: list[str]) -> None:
    found = run(alone, sim(MIXED) | variables, f"g.verify({call}, leave=True)")
    assert found.returncode == 1
    assert all(text in found.stderr for text in said), found.stderr
    raised = run(alone, sim(MIXED) | variables, f"g.verify({call})")
    assert "WrongGPU" in raised.stderr


def test_the_fix_that_is_shown_puts_it_right(sim: Sim, alone: Path) -> None:
    call = "print(g.verify({'cuda:0': 'T4', 'cuda:1': '4090'}))"
    wrong = run(alone, sim(MIXED), call)
    line = next(line for line in wrong.stderr.splitlines() if "put right by" in line)
    name, _, value = line.partition(": ")[2].partition("=")
    right = run(alone, sim(MIXED) | {name: value}, call)
    assert right.stdout.strip() == "cuda:0", right.stderr


def test_three_equal_cards_are_told_apart_by_uuid_only(sim: Sim, alone: Path) -> None:
    env = sim(MIXED) | {"CUDA_VISIBLE_DEVICES": "2"}
    assert run(alone, env, "g.verify({'cuda:0': 'T4'})").returncode == 0
    assert run(alone, env, f"g.verify({{'cuda:0': {T4!r}}})").returncode == 1


def test_a_loose_expectation_on_mixed_cards_is_warned_of(sim: Sim, alone: Path) -> None:
    assert "PCI_BUS_ID" in run(alone, sim(MIXED), "g.verify({'cuda:0': '4090'})").stderr
    assert run(alone, sim(MIXED), f"g.verify({{'cuda:0': {GTX!r}}})").stderr == ""
    fixed = sim(MIXED) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert run(alone, fixed, "g.verify({'cuda:1': '4090'})").stderr == ""


def test_a_lost_gpu(sim: Sim, alone: Path) -> None:
    lost = replace(MIXED, gpus=(*MIXED.gpus[:1], replace(MIXED.gpus[1], fault="lost"), *MIXED.gpus[2:]))
    found = run(alone, sim(lost), f"g.verify({{'cuda:0': {GTX!r}}})")
    assert "no GPU of this machine is what was meant" in found.stderr


def test_no_driver(alone: Path) -> None:
    found = run(alone, {"PATH": os.environ["PATH"]}, "g.verify({'cuda:0': 0})")
    assert "libcuda cannot be loaded" in found.stderr
    assert "NVML does not answer" in run(alone, {}, "g.pin('4090')").stderr
    assert "NVML does not answer" in run(alone, {}, "g.verify_running('4090')").stderr


@pytest.mark.parametrize("key", ["0", "cuda", "cuda:", "cuda:x", "gpu:0"])
def test_an_expectation_that_is_none(sim: Sim, alone: Path, key: str) -> None:
    assert "names no CUDA device" in run(alone, sim(MIXED), f"g.verify({{{key!r}: 0}})").stderr


# --- pinning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "uuids"),
    [
        ("'4090'", [GTX]),
        ("[0, 1]", [T4, GTX]),
        ("['86:00.0']", [GTX]),
        ("min_memory_mib=20000", [GTX]),
        ("name='t4'", [T4]),
        ("free=True", [GTX]),
    ],
)
def test_pinning(sim: Sim, alone: Path, call: str, uuids: list[str]) -> None:
    busy = replace(MIXED, processes=(SimProcess(0, os.getpid(), 900),))
    code = f"print(*g.pin({call})); print([d.uuid for d in g.cuda_devices()])"
    found = run(alone, sim(busy), code)
    assert found.stdout.splitlines() == [" ".join(uuids), str(uuids)], found.stderr


@pytest.mark.parametrize("call", ["'T4'", "'A100'", "[1, '4090']", "min_memory_mib=99999", "name='T4', count=4"])
def test_what_cannot_be_pinned(sim: Sim, alone: Path, call: str) -> None:
    found = run(alone, sim(MIXED), f"g.pin({call})")
    assert "WrongGPU" in found.stderr, found


def test_pinning_too_late(sim: Sim, alone: Path) -> None:
    assert run(alone, sim(MIXED), "print(g.cuda_started())").stdout.strip() == "False"
    found = run(alone, sim(MIXED), "g.cuda_devices(); print(g.cuda_started()); g.pin('4090')")
    assert found.stdout.strip() == "True"
    assert "TooLate" in found.stderr


# --- after the first step --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "expect", "said"),
    [
        ((1,), "'4090'", ""),
        ((1,), "[1]", ""),
        ((0, 1), "['4090', 0]", ""),
        ((0,), "'4090'", "expected on 4090: not there"),
        ((0, 1), "'4090'", "found on nvidia-smi 0"),
        ((), "'4090'", "a container hides the PIDs"),
    ],
)
def test_where_a_process_runs(sim: Sim, alone: Path, held: tuple[int, ...], expect: str, said: str) -> None:
    pid = os.getpid()
    machine = replace(MIXED, processes=tuple(SimProcess(gpu, pid, 500) for gpu in held))
    found = run(alone, sim(machine), f"g.verify_running({expect}, pid={pid}, leave=True)")
    assert (found.returncode == 0, said in found.stderr) == (not said, True), found.stderr


def test_the_file_is_a_program(sim: Sim, alone: Path) -> None:
    def status(*arguments: str) -> int:
        command = [sys.executable, str(alone / "gumpap_guard.py"), *arguments]
        return subprocess.run(command, env=sim(MIXED), capture_output=True, timeout=60, check=False).returncode

    assert status(f"cuda:0={GTX}", "--count", "4") == 0
    assert status(f"cuda:0={T4}") == 1
    assert status("x=1") == 1
