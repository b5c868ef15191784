"""Launchers started for real. What can go wrong is tried with a launcher of a few lines that starts workers in sessions
of their own, as torchrun does; torchrun itself with real torch, and accelerate and deepspeed where they are installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.live.answer import NoAnswerError
from gpumap_widgets.live.launch import LAUNCHERS, Launch, observe_workers, recognised
from gpumap_widgets.mapping import Observation
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests import simdriver
from tests.live_tools import Driven, children, described, eventually, gone, left_in, linux
from tests.simdriver import MIXED

pytestmark = linux

FAKE_LAUNCHER = '''#!{python}
"""``[--nproc-per-node=N] [--set-cvd=X] [--fail] [--lose=RANK] SCRIPT``"""
import json, os, subprocess, sys
script = sys.argv[-1]
given = dict(word.partition("=")[::2] for word in sys.argv[1:-1] if word.startswith("--") and "=" in word)
json.dump(sys.argv, open(os.environ["FAKE_LAUNCHER_SAW"], "w"))
if "--fail" in sys.argv:
    sys.exit("no such thing as a free port")
n = int(given.get("--nproc-per-node", 1))
workers = []
for rank in range(n):
    env = {{**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n)}}
    if "--set-cvd" in given:
        env["CUDA_VISIBLE_DEVICES"] = given["--set-cvd"]
    program = ["-c", "import os; os._exit(9)"] if given.get("--lose") == str(rank) else [script]
    workers.append(subprocess.Popen([sys.executable, *program], env=env, start_new_session=True))
for worker in workers:
    worker.wait()
'''


@pytest.fixture
def launcher(driven: Driven, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A launcher named torchrun, first on PATH; the file in which it leaves the words that it was started with."""
    driven(MIXED)
    (place / "bin").mkdir()
    program = place / "bin" / "torchrun"
    program.write_text(FAKE_LAUNCHER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LAUNCHER_SAW", str(place / "words.json"))
    return place / "words.json"


def problem_of(seen: Observation) -> str:
    assert seen.problem is not None
    return seen.problem.key


def descendants(of: int) -> set[int]:
    found = children(of)
    return found.union(*(descendants(pid) for pid in found))


# --- what is started -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "kind", "start"),
    [
        ("torchrun", "torchrun", 1),
        ("/opt/bin/torchrun --nproc-per-node=2", "torchrun", 1),
        ("python -m torch.distributed.run --nproc_per_node 2", "torchrun", 3),
        ("/p/python3.11 -m torch.distributed.launch", "torchrun", 3),
        ("torchrun --nnodes 1 --nproc-per-node 2", "torchrun", 1),
        ("torchrun --nnodes=1:1", "torchrun", 1),
        ("accelerate launch --num_processes 2", "accelerate", 2),
        ("python -m accelerate.commands.launch", "accelerate", 3),
        ("deepspeed --num_gpus 2", "deepspeed", 1),
    ],
)
def test_launchers_are_known(command: str, kind: str, start: int) -> None:
    assert recognised(command.split()) == (kind, start)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        *((command, "live.not-a-launcher") for command in ("", "bash", "python t.py", "python -m http.server", "accelerate", "accelerate config", "torchrun.sh", "-m torch.distributed.run")),
        *((command, "live.launch-elsewhere") for command in ("torchrun --nnodes=2", "torchrun --nnodes 1:4", "torchrun --rdzv-endpoint host:1", "accelerate launch --num_machines 2", "deepspeed --hostfile hosts", "deepspeed -H hosts", "deepspeed --include host1:0")),
    ],
)  # fmt: skip
def test_nothing_else_is_started(command: str, key: str) -> None:
    with mock.patch("subprocess.Popen", side_effect=AssertionError):
        (seen,) = observe_workers(command.split())
    assert problem_of(seen) == key
    assert str(seen.problem)


def test_a_text_is_no_list_of_words() -> None:
    with pytest.raises(NoAnswerError):
        recognised(["torchrun\0"])


def test_a_launcher_that_is_not_installed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    (seen,) = observe_workers(["deepspeed"])
    assert problem_of(seen) == "live.no-launcher"
    assert not left_in(place)


# --- what workers report ---------------------------------------------------------------------------------------------


def test_every_worker_reports(launcher: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # of this process, and not asked for
    env = {"CUDA_VISIBLE_DEVICES": "2,0,1"}
    seen = observe_workers(["torchrun", "--nproc-per-node=3"], env)
    words = json.loads(launcher.read_text())
    assert [one.problem for one in seen] == [None] * 3
    assert words[1] == "--master-port"
    assert words[3] == "--nproc-per-node=3"
    assert words[2].isdigit()
    assert [(one.rank, one.local_rank, one.ran, one.witness) for one in seen] == [
        (rank, rank, ("torchrun",), "torch") for rank in range(3)
    ]
    for one in seen:
        assert one.env["CUDA_VISIBLE_DEVICES"] == "2,0,1"
        assert "CUDA_DEVICE_ORDER" not in one.env
        assert [other.witness for other in one.others] == ["driver"]
        assert [d.uuid for d in one.others[0].devices] == [d.uuid for d in one.devices]
    command = "CUDA_VISIBLE_DEVICES=2,0,1 torchrun --nproc-per-node=3 train.py"
    result = compare(resolve(Scenario.from_command(described(MIXED), command)), *seen)
    assert result.verdict == "confirmed", str(result.reason)
    assert result.exercised == ("torchrun", "cuda")
    assert {edge.rank for edge in result.edges} == {0, 1, 2}
    assert "Confirmed in each of 3 workers: all 9 devices" in str(result.reason)
    assert "not" not in str(result.reason).split("Heard")[0]
    assert not left_in(place)
    assert not children()


def test_a_launcher_that_sets_something_else(launcher: Path) -> None:
    seen = observe_workers(["torchrun", "--nproc-per-node=2", "--set-cvd=3"], {"CUDA_VISIBLE_DEVICES": "2,0"})
    prediction = resolve(
        Scenario.from_command(described(MIXED), "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc-per-node=2 t.py")
    )
    result = compare(prediction, *seen)
    assert result.verdict == "refuted"
    said = str(result.reason)
    assert (
        "torchrun gave its worker other variables than foretold (CUDA_VISIBLE_DEVICES is '3', foretold was '2,0')"
        in said
    )
    assert result.failed is not None
    assert result.failed.stage == "launcher"


def test_more_workers_than_foretold(launcher: Path) -> None:
    seen = observe_workers(["torchrun", "--nproc-per-node=2"])
    result = compare(resolve(Scenario.from_command(described(MIXED), "torchrun --nproc-per-node=1 t.py")), *seen)
    assert result.verdict != "confirmed"
    assert "a worker with rank 1 ran, and none like it was foretold" in str(result.reason)


def test_fewer_workers_than_foretold(launcher: Path) -> None:
    seen = observe_workers(["torchrun", "--nproc-per-node=1"])
    result = compare(resolve(Scenario.from_command(described(MIXED), "torchrun --nproc-per-node=2 t.py")), *seen)
    assert result.verdict == "refuted", "WORLD_SIZE is another"
    assert "WORLD_SIZE is '1', foretold was '2'" in str(result.reason)


def test_a_worker_that_dies(launcher: Path) -> None:
    first, second = observe_workers(["torchrun", "--nproc-per-node=2", "--lose=1"])
    assert first.problem is None
    assert (second.rank, problem_of(second)) == (1, "live.worker-silent")


def test_a_launcher_that_fails(launcher: Path, place: Path) -> None:
    (seen,) = observe_workers(["torchrun", "--fail"])
    assert problem_of(seen) == "live.launcher-failed"
    assert "no such thing as a free port" in str(seen.problem)
    assert not left_in(place)


# --- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["time out", "cancel"])
def test_workers_that_hang(launcher: Path, driven: Driven, place: Path, how: str) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    launch = Launch(["torchrun", "--nproc-per-node=3"], {}, 3.0 if how == "time out" else 60.0).start()
    assert eventually(lambda: len(descendants(os.getpid())) == 5)
    theirs = descendants(os.getpid())
    if how == "cancel":
        launch.cancel()
    began = time.monotonic()
    seen = launch.result()
    assert problem_of(seen) == ("live.cancelled" if how == "cancel" else "live.launcher-timed-out")
    assert time.monotonic() - began < 5
    assert all(gone(pid) for pid in theirs)
    assert not left_in(place)


PARENT = """
import sys
from gpumap_widgets.live.answer import NoAnswerError
from gpumap_widgets.live.launch import Launch
Launch(["torchrun", "--nproc-per-node=3"], {}).start()
sys.stdin.readline()
"""


def test_workers_go_with_the_notebook_kernel(launcher: Path, driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]]))
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE) as parent:
        assert eventually(lambda: len(descendants(parent.pid)) == 5, 30)
        theirs = descendants(parent.pid)
        parent.kill()
        assert eventually(lambda: all(gone(pid) for pid in theirs), 2.0)


# --- the real ones ---------------------------------------------------------------------------------------------------

REAL: Sequence[tuple[str, str, list[str], str]] = [
    ("torch", "torchrun", ["torchrun", "--nproc-per-node=2"], "torchrun --nproc-per-node=2 t.py"),
    ("accelerate", "accelerate", [sys.executable, "-m", "accelerate.commands.launch", "--num_processes=2", "--multi_gpu"], ""),
    ("deepspeed", "deepspeed", [sys.executable, "-m", "deepspeed.launcher.runner"], ""),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize(("package", "kind", "command", "typed"), REAL, ids=[row[1] for row in REAL])
def test_the_real_launcher(tmp_path: Path, package: str, kind: str, command: list[str], typed: str) -> None:
    """torchrun comes with torch; the other two are no dependency, and are started where somebody has them."""
    include = simdriver.find_cuda_include()
    if include is None:
        pytest.skip("no CUDA build of torch")
    if importlib.util.find_spec(package) is None:
        (seen,) = observe_workers([kind, "launch"] if kind == "accelerate" else [kind])
        assert problem_of(seen) == "live.no-launcher"
        return
    env = {"CUDA_VISIBLE_DEVICES": "1,2"}
    with mock.patch.dict(os.environ, simdriver.environment(MIXED, tmp_path, simdriver.build(include)), clear=True):
        seen = observe_workers(command, env)
    assert [(one.problem, one.rank, one.local_rank, one.ran) for one in seen] == [
        (None, rank, rank, (kind,)) for rank in range(2)
    ]
    assert {kind} < {*LAUNCHERS}
    for one in seen:
        assert [d.uuid for d in one.devices] == [MIXED.gpus[i].uuid[4:] for i in (0, 2)]
        assert one.simulated
    if typed:
        prediction = resolve(Scenario.from_command(described(MIXED), f"CUDA_VISIBLE_DEVICES=1,2 {typed}"))
        assert compare(prediction, *seen).verdict == "confirmed"
