"""Live: real processes, one a run. The tests without the simulated driver use a torch of a few lines, so that starting
and ending kernels is what takes the time; those with it use the CUDA build of torch of the interpreter that runs them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.live import environment, folder, hardware, observe, probe, run_for
from gpumap_widgets.live.answer import CUINIT, observation_from, problem_in
from gpumap_widgets.live.kernel import kernel_names
from gpumap_widgets.live.run import Run
from gpumap_widgets.mapping import Message
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario, is_relevant
from gpumap_widgets.texts import sentences
from tests import simdriver
from tests.live_tools import (
    HOLDING_THE_LOCK,
    TWO,
    ask,
    children,
    described,
    eventually,
    gone,
    kernelspec,
    left_in,
    linux,
)
from tests.simdriver import MIG_A100, MIXED, SimMachine

# --- an answer -------------------------------------------------------------------------------------------------------


def test_an_answer(place: Path) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    seen = ask(env)
    assert seen.problem is None
    assert seen.env == seen.wanted_env == env
    first = seen.devices[0]
    assert (first.ordinal, first.name, first.uuid) == (0, "Fake 0", "00000000-1111-4222-8333-444444444444")
    assert (first.pci_bus_id, first.memory_mib, first.compute_capability) == ("00000000:80:00.0", 1024, (8, 9))
    assert seen.versions["torch"] == "2.9.0+fake"
    assert seen.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(seen.seconds) >= {"kernel", "torch", "cuda", "total"}
    assert seen.seconds["total"] >= seen.seconds["kernel"] > 0
    assert seen.started[10] == "T"
    assert not left_in(place)


@pytest.mark.parametrize(
    ("lacks", "uuid", "address"),
    [("uuid pci_bus_id", None, None), ("pci_bus_id", "0000", None), ("uuid", None, "0000")],
)
def test_an_older_torch_tells_less(
    place: Path, monkeypatch: pytest.MonkeyPatch, lacks: str, uuid: str | None, address: str | None
) -> None:
    monkeypatch.setenv("FAKE_TORCH_LACKS", lacks)
    device = ask().devices[0]
    assert (device.uuid and device.uuid[:4], device.pci_bus_id and device.pci_bus_id[:4]) == (uuid, address)


def test_observe_and_compare(place: Path) -> None:
    prediction = resolve(Scenario.from_env(TWO, {"CUDA_VISIBLE_DEVICES": "0,1"}))
    result = compare(prediction, observe(prediction))
    assert (result.verdict, result.joined_by) == ("confirmed", "uuid")


def test_what_would_not_start_is_not_run() -> None:
    prediction = resolve(Scenario(TWO, (Layer("no such layer"),)))
    seen = observe(prediction)
    assert seen.problem is not None
    assert seen.problem.key == "live.refused"
    assert "Nothing was run" in str(seen.problem)
    with pytest.raises(ValueError, match="no such layer"):
        run_for(prediction)


# --- the environment -------------------------------------------------------------------------------------------------


def test_an_inherited_variable_that_the_scenario_leaves_unset_is_absent(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK", "CUDA_HOME"):
        monkeypatch.setenv(name, "3")
    monkeypatch.setenv("FAKE_TORCH", "assert os.environ['CUDA_HOME'] == '3' and 'LOCAL_RANK' not in os.environ")
    seen = ask({"CUDA_VISIBLE_DEVICES": ""})
    assert seen.problem is None
    assert dict(seen.env) == {"CUDA_VISIBLE_DEVICES": ""}  # set to nothing, which is not unset


def test_which_variables_are_taken_out_and_read_back() -> None:
    names = "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES SLURM_JOB_ID SLURM_STEP_GPUS RANK LOCAL_RANK"
    names += (
        " WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT OMPI_COMM_WORLD_LOCAL_RANK PMI_RANK"
    )
    names += (
        " PMIX_RANK MPI_LOCALRANKID GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES CUDA_MPS_PIPE_DIRECTORY"
    )
    for name in [*names.split(), "PYTORCH_NVML_BASED_CUDA_CHECK"]:
        assert is_relevant(name), name
        assert hardware.RELEVANT.match(name), name
        assert environment.touches_numbering(name), name
    for name in ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "CUDA_HOME", "CUDA_PATH_V12_4", "CUDA_CACHE_PATH"):
        assert not environment.touches_numbering(name), name
    wanted = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "/c", "ODD": "1"}
    inherited = {"CUDA_DEVICE_ORDER": "x", "RANK": "3", "PATH": "/p", "CUDA_PATH": "/q"}
    complete = environment.complete_environment(inherited, wanted)
    assert complete == {"PATH": "/p", "CUDA_PATH": "/q"} | wanted
    assert environment.read_back(complete, wanted) == wanted
    assert environment.read_back(complete | {"RANK": "0"}, wanted) == wanted | {"RANK": "0"}


def test_a_kernelspec_that_overrides_the_environment_is_noticed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = kernelspec(place, monkeypatch, "stubborn", env={"CUDA_VISIBLE_DEVICES": "1"})
    prediction = resolve(Scenario.from_env(TWO, {"CUDA_VISIBLE_DEVICES": "0,1"}))
    seen = observe(prediction, kernel_name=name)
    assert (seen.problem, seen.kernel_name, dict(seen.env)) == (None, name, {"CUDA_VISIBLE_DEVICES": "1"})
    result = compare(prediction, seen)
    assert result.verdict == "not checked"
    assert "CUDA_VISIBLE_DEVICES was '0,1', there it is '1'" in str(result.reason)


START_UP = """
import os, sys
print("hello"); print("{", file=sys.stderr)
get_ipython().display_formatter.formatters["text/plain"].for_type(str, lambda s, p, c: p.text("mine"))
get_ipython().display_formatter.formatters["text/plain"] = lambda value: print("all mine")
os.environ["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"
"""


def test_start_up_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_up = place / "ipython" / "profile_default" / "startup"
    start_up.mkdir(parents=True)
    (start_up / "10-mine.py").write_text(START_UP)
    (place / "python_startup.py").write_text("import os; os.environ['LOCAL_RANK'] = '7'")
    monkeypatch.setenv("IPYTHONDIR", str(place / "ipython"))
    monkeypatch.setenv("PYTHONSTARTUP", str(place / "python_startup.py"))
    own = ask()
    assert (own.problem, dict(own.env)) == (None, {}), "those of the user belong to notebooks"
    named = ask(kernel_name=kernelspec(place, monkeypatch, "named"))
    assert named.problem is None, named.problem.text()
    assert dict(named.env) == {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "LOCAL_RANK": "7"}
    assert len(named.devices) == 2


def test_modules_in_the_working_directory_are_not_picked_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for name in ("torch", "runpy", "ctypes", "select", "json"):
        (place / f"{name}.py").write_text("raise RuntimeError('the wrong one')")
    assert ask().problem is None
    assert not list(place.glob("*-[1-5]")), "no sockets in the working directory"


# --- failures, each in one sentence ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "key", "words"),
    [
        (
            "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')",
            "live.no-torch",
            "-m pip install torch",
        ),
        ("raise OSError('libcudart.so.13: cannot open')", "live.broken-torch", "libcudart.so.13: cannot open"),
        ("import no_such_module", "live.broken-torch", "no_such_module"),
        ("version.cuda = None", "live.cpu-build", "built without CUDA"),
        ("version.cuda = None; version.hip = '6.4'", "live.rocm-build", "ROCm"),
        ("os._exit(7)", "live.died", "status 7"),
        ("os.kill(os.getpid(), 9)", "live.died", "status SIGKILL"),
        ("import faulthandler; faulthandler._sigsegv()", "live.died", "Segmentation fault"),
        ("raise SystemExit(3)", "live.unreadable", "SystemExit"),
    ],
)
def test_trouble_with_torch(place: Path, monkeypatch: pytest.MonkeyPatch, code: str, key: str, words: str) -> None:
    monkeypatch.setenv("FAKE_TORCH_IMPORT", code)
    seen = ask()
    assert seen.problem is not None
    assert (seen.problem.key, words in str(seen.problem)) == (key, True), str(seen.problem)
    assert sys.executable in str(seen.problem) or key in ("live.died", "live.unreadable")
    assert not left_in(place)


PYTHON = sys.executable


@pytest.mark.parametrize(
    ("spec", "key", "words"),
    [
        ({"argv": ["/no/such/python", "{connection_file}"]}, "live.not-launched", "/no/such/python"),
        ({"argv": [PYTHON, "-c", "raise RuntimeError('a bad day')"]}, "live.no-start", "a bad day"),
        ({"argv": [PYTHON, "-c", "raise SystemExit(5)"]}, "live.no-start", "status 5"),
        ({"argv": [PYTHON, "-S", "-m", "ipykernel_launcher"], "env": {"PYTHONPATH": ""}}, "live.no-ipykernel", "-m pip install ipykernel"),
        ({"argv": [PYTHON, "-c", "import time; time.sleep(60)"]}, "live.timed-out", "within 1 s"),
        ({"language": "R"}, "live.not-python", "speaks R"),
    ],
)  # fmt: skip
def test_trouble_with_the_kernel(
    place: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], key: str, words: str
) -> None:
    name = kernelspec(place, monkeypatch, "broken", **spec)
    seen = ask(kernel_name=name, timeout=1.0 if key == "live.timed-out" else 60.0)
    assert seen.problem is not None
    assert (seen.problem.key, words in str(seen.problem)) == (key, True), str(seen.problem)
    assert not left_in(place)
    assert sys.platform != "linux" or not children()


def test_no_such_kernel(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernelspec(place, monkeypatch, "one-of-mine")
    seen = ask(kernel_name="no-such-kernel")
    assert seen.problem is not None
    assert seen.problem.key == "live.no-kernelspec"
    assert "one-of-mine" in str(seen.problem)
    kernelspec(place, monkeypatch, "for-r", language="R")
    assert "one-of-mine" in kernel_names()
    assert "for-r" not in kernel_names()


@pytest.mark.parametrize("module", ["jupyter_client.kernelspec", "ipykernel"])
def test_a_missing_package(place: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    if module == "ipykernel":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setitem(sys.modules, module, None)
        assert kernel_names() == ()
    seen = ask()
    assert seen.problem is not None
    assert f"-m pip install {'ipykernel' if module == 'ipykernel' else 'jupyter_client'}" in str(seen.problem)


def test_a_variable_that_no_process_can_have(place: Path) -> None:
    seen = ask({"CUDA_VISIBLE_DEVICES": "0\0"})
    assert seen.problem is not None
    assert seen.problem.key == "live.not-launched"
    assert "null byte" in str(seen.problem)


def test_a_disk_that_is_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    seen = ask()
    assert seen.problem is not None
    assert (seen.problem.key, "No space left" in str(seen.problem)) == ("live.failed", True)


# --- judging facts, without a process --------------------------------------------------------------------------------

FACTS: dict[str, Any] = {
    "python": "3.12.1",
    "executable": "/p/python",
    "seconds": {"torch": 1.0, "kernel": 0.5},
    "devices": [],
    "torch": {"version": "2.9.0", "cuda": "12.8", "hip": None, "built": True},
    "env": {},
    "libcuda": True,
    "driver_cuda": "12.8",
    "cuinit": 100,
    "count": 0,
    "cuda_error": ["RuntimeError", "No CUDA GPUs are available\nmore"],
    "present": [["uuid", "00000000:5E:00.0"]],
    "simulated": False,
}
LISTED = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        # cuInit 100: NVML and the list decide whether it is an answer
        ({"env": LISTED}, None),
        ({"env": LISTED, "cuinit": 0}, None),
        ({}, "live.not-opened"),
        ({"env": LISTED, "present": []}, "live.no-device"),
        ({"present": []}, "live.no-device"),
        ({"env": LISTED, "present": None}, "live.no-device-unclear"),
        ({"present": None}, "live.no-device"),
        ({"env": LISTED, "present": [[None, None]]}, "live.not-opened"),  # lost, not hidden
        ({"libcuda": False}, "live.no-driver"),
        ({"cuinit": 0, "count": 2}, "live.torch-failed"),
        ({"cuinit": 0, "count": 2, "env": LISTED}, "live.torch-failed"),
        ({"cuinit": 0, "count": 2, "driver_cuda": "11.4"}, "live.old-driver"),
        ({"cuinit": 3}, "live.cuinit"),
        ({"cuinit": 4711}, "live.cuinit"),
        *(({"cuinit": code}, f"live.cuinit-{code}") for code in (34, 101, 304, 802, 803, 804, 999)),
        ({"torch_error": ["ImportError", "x", False]}, "live.broken-torch"),
    ],
)
def test_why_there_is_no_answer(changes: dict[str, Any], key: str | None) -> None:
    facts = {**FACTS, **changes}
    problem = problem_in(facts)
    assert (problem and problem.key) == key
    if problem is not None:
        assert problem.text()
        code = facts["cuinit"]
        assert not problem.key.startswith("live.cuinit") or CUINIT.get(code, "?") in str(problem)
    seen = observation_from(facts, wanted=facts["env"], started="", kernel_name="", total=2.0)
    assert (seen.problem, seen.devices) == (problem, ())
    assert dict(seen.seconds) == {"torch": 1.0, "kernel": 0.5, "total": 2.0}


@pytest.mark.parametrize("facts", [{}, {**FACTS, "devices": [{}]}, {**FACTS, "env": None}, {**FACTS, "torch": None}])
def test_an_unreadable_answer(facts: dict[str, Any]) -> None:
    seen = observation_from(facts, wanted={}, started="", kernel_name="", total=1.0)
    assert seen.problem is not None
    assert seen.problem.key == "live.unreadable"


def test_every_sentence_is_used_and_can_be_said() -> None:
    source = "".join(
        path.read_text()
        for path in (
            *(Path(probe.__file__).parent.parent / name for name in ("comparison.py", "edges.py")),
            *Path(probe.__file__).parent.glob("*.py"),
        )
    )
    for key in sentences("en"):
        if key.startswith(("live.", "compare.")):
            assert f'"{key}"' in source or key.startswith("live.cuinit-"), f"{key} is not used"


# --- starting and ending ---------------------------------------------------------------------------------------------


def test_a_run_from_another_thread(place: Path) -> None:
    done: list[tuple[Run, bool, str]] = []
    run = Run({}, on_done=lambda run: done.append((run, run.done, threading.current_thread().name)))
    assert (run.done, run.elapsed, run.observation, run.wait(0)) == (False, 0.0, None, False)
    assert run.start() is run
    with pytest.raises(RuntimeError):
        run.start()
    assert not run.wait(0.01)
    assert run.elapsed > 0
    assert run.wait()
    assert done == [(run, True, "gpumap-live")]
    assert run.observation is not None
    assert run.elapsed >= run.observation.seconds["total"]
    run.cancel()
    assert run.observation.problem is None


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@linux
def test_ten_runs_leave_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    ask()  # whatever is loaded once
    before = (threading.active_count(), _descriptors(), sorted(place.iterdir()))
    runs = [Run({"CUDA_VISIBLE_DEVICES": str(i)}).start() for i in range(10)]
    for run in runs[::2]:
        run.cancel()
    keys = [seen.problem and seen.problem.key for seen in (run.result() for run in runs)]
    assert keys == ["live.cancelled", None] * 5
    assert (threading.active_count(), _descriptors(), sorted(place.iterdir())) == before
    assert not children()
    assert not left_in(place)


@linux
@pytest.mark.parametrize("how", ["cancel", "time out", "kill", "hang up"])
def test_a_driver_that_hangs(place: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The kernel is stuck in C with the interpreter's lock held: no thread and no handler of its own can end it."""
    monkeypatch.setenv("FAKE_TORCH", f"open({str(place / 'pid')!r}, 'w').write(str(os.getpid())); " + HOLDING_THE_LOCK)
    run = Run({}, timeout=4.0 if how == "time out" else 60.0).start()
    assert eventually(lambda: (place / "pid").exists() and (place / "pid").read_text())
    pid = int((place / "pid").read_text())
    assert pid in children()
    (own_folder,) = (place / "tmp").iterdir()
    assert own_folder.stat().st_mode & 0o777 == 0o700
    began = time.monotonic()
    if how == "cancel":
        run.cancel()
    elif how == "kill":
        os.kill(pid, signal.SIGKILL)
    elif how == "hang up":
        with mock.patch.object(run, "wait", side_effect=[KeyboardInterrupt, True]), pytest.raises(KeyboardInterrupt):
            run.result()
    seen = run.result()
    assert seen.problem is not None
    expected = {"time out": "live.timed-out", "kill": "live.died"}
    assert seen.problem.key == expected.get(how, "live.cancelled")
    assert time.monotonic() - began < (5 if how == "time out" else 2)
    assert not children()
    assert not left_in(place)


PARENT = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from gpumap_widgets.live import folder
folder._LONGEST_SOCKET_PATH = 107
from gpumap_widgets.live.run import Run
run = Run({}).start()
sys.stdin.readline()
"""


@linux
@pytest.mark.parametrize("how", ["killed", "exits"])
@pytest.mark.parametrize("hanging", [True, False])
def test_the_kernel_goes_with_its_starter(
    place: Path, monkeypatch: pytest.MonkeyPatch, how: str, hanging: bool
) -> None:
    stuck = HOLDING_THE_LOCK if hanging else "import time; time.sleep(100)"
    monkeypatch.setenv("FAKE_TORCH", f"open({str(place / 'pid')!r}, 'w').write(str(os.getpid())); {stuck}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]]))
    with subprocess.Popen([sys.executable, "-c", PARENT, str(place / "tmp")], stdin=subprocess.PIPE) as parent:
        assert eventually(lambda: (place / "pid").exists() and (place / "pid").read_text(), 30)
        pid = int((place / "pid").read_text())
        assert not gone(pid)
        if how == "killed":
            parent.kill()
        assert parent.stdin is not None
        parent.stdin.close()
        assert parent.wait(5) == (-signal.SIGKILL if how == "killed" else 0)
        assert eventually(lambda: gone(pid), 2.0)
    if how == "exits":
        assert not left_in(place)
    else:
        assert len(left_in(place)) == 1, "nobody was left to tidy up"
        monkeypatch.delenv("FAKE_TORCH")
        ask()
        assert not left_in(place), "the next run does"


def test_a_folder_in_use_is_not_swept(place: Path) -> None:
    with folder.private_folder() as first, folder.private_folder() as second:
        assert first.is_dir()
        assert second.is_dir()
    fresh, old = place / "tmp" / "gpumap-live-fresh", place / "tmp" / "gpumap-live-old"
    for path in (fresh, old):
        path.mkdir()
    os.utime(old, (0, 0))
    with folder.private_folder():
        assert left_in(place).count(fresh.name) == 1, "somebody may be about to lock it"
        assert not old.exists()


@pytest.mark.parametrize("why", ["too long", "no ipc"])
def test_without_sockets_it_goes_over_tcp(place: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "too long":
        monkeypatch.setattr(folder, "_LONGEST_SOCKET_PATH", 1)
        monkeypatch.setattr(folder, "_base", lambda: str(place / "tmp"))
    else:
        monkeypatch.setattr("zmq.has", lambda name: False)
    seen = ask()
    assert (seen.problem, len(seen.devices)) == (None, 2)
    assert not left_in(place)


def test_a_temporary_folder_with_a_long_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 100)
    monkeypatch.setattr(folder, "_LONGEST_SOCKET_PATH", 100)
    assert folder._base() == "/tmp"


def test_the_probe_runs_by_itself(place: Path) -> None:
    paths = [hardware.__file__, probe.__file__]
    code = f"ns = {{}}\nfor path in {paths!r}: exec(open(path).read(), ns)\nprint(ns['json'].dumps(ns['report']()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    facts = json.loads(done.stdout)
    assert [device["name"] for device in facts["devices"]] == ["Fake 0", "Fake 1"]


def test_importing_live_loads_nothing_heavy() -> None:
    code = """
        import sys, gpumap_widgets.live.kernel, gpumap_widgets.comparison
        heavy = {"torch", "jupyter_client", "zmq", "IPython", "pandas", "plotly", "ipywidgets", "pynvml"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60, cwd=Path(__file__).parents[1])


# --- real torch on the simulated driver ------------------------------------------------------------------------------

REORDERED = replace(MIXED, default_order=(0, 1, 2, 3))
LOST = replace(MIXED, gpus=(*MIXED.gpus[:2], replace(MIXED.gpus[2], fault="lost"), MIXED.gpus[3]))
ORDERS, LISTS = (None, "PCI_BUS_ID"), (None, "", "0", "1,2", "2,0")


def _env(order: str | None, visible: str | None) -> dict[str, str]:
    both = {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": visible}
    return {name: value for name, value in both.items() if value is not None}


MIG = MIG_A100.gpus[0].mig[1].uuid
CASES: dict[Any, tuple[SimMachine, dict[str, str], float]] = {
    "hangs": (replace(MIXED, cuinit_hang=True), {}, 14.0),
    "hangs, cancelled": (replace(MIXED, cuinit_hang=True), {}, 60.0),
    **{(order, visible): (MIXED, _env(order, visible), 60.0) for order in ORDERS for visible in LISTS},
    "reordered": (REORDERED, {}, 60.0),
    "lost": (LOST, {}, 60.0),
    "mig": (MIG_A100, {"CUDA_VISIBLE_DEVICES": MIG}, 60.0),
    "100": (replace(MIXED, cuinit_code=100), {}, 60.0),
    "no gpu": (SimMachine(()), {"CUDA_VISIBLE_DEVICES": ""}, 60.0),
    "101": (replace(MIXED, cuinit_code=101), {}, 60.0),
    "999": (replace(MIXED, cuinit_code=999), {}, 60.0),
}
"""Machine, variables, time-out."""
AT_ONCE = 2


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Run]:
    """All runs with real torch, two at a time: its import takes most of each."""
    include = simdriver.find_cuda_include()
    if include is None:
        pytest.skip(f"no CUDA build of torch, with its headers, in {sys.executable}")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    room, runs, base = threading.Semaphore(AT_ONCE), {}, tmp_path_factory.mktemp("machines")
    for name, (machine, env, timeout) in CASES.items():
        idle = machine.cuinit_hang
        runs[name] = Run(env, timeout=timeout, on_done=None if idle else lambda _: room.release())
        if not idle:
            room.acquire()
        with mock.patch.dict(os.environ, simdriver.environment(machine, base, built), clear=True):
            runs[name].start()
        if len(runs) == 9:  # well after the hanging ones have loaded torch
            runs["hangs, cancelled"].cancel()
    for run in runs.values():
        run.wait()  # other tests count processes
    return runs


def _simulated_result(run: Run, machine: SimMachine, env: Mapping[str, str]) -> Any:
    seen = run.result()
    assert seen.simulated
    return compare(resolve(Scenario.from_env(described(machine), env)), seen)


@pytest.mark.torch
@pytest.mark.parametrize("visible", LISTS)
@pytest.mark.parametrize("order", ORDERS)
def test_real_torch_confirms(simulated: Mapping[Any, Run], order: str | None, visible: str | None) -> None:
    run = simulated[order, visible]
    result = _simulated_result(run, MIXED, _env(order, visible))
    assert result.verdict == "confirmed", str(result.reason)
    assert {edge.verdict for edge in result.edges} <= {"agrees"}
    assert "simulated driver" in str(result.reason)
    seen = run.result()
    assert (seen.env, seen.versions["driver"]) == (_env(order, visible), MIXED.driver_version)
    sim = {gpu.uuid.removeprefix("GPU-"): gpu for gpu in MIXED.gpus}
    for device in seen.devices:
        gpu = sim[device.uuid or ""]
        assert (device.name, device.pci_bus_id) == (gpu.name, gpu.pci_bus_id)
        assert (device.memory_mib, device.compute_capability) == (gpu.memory_mib, gpu.compute_capability)


@pytest.mark.torch
def test_a_driver_that_orders_otherwise_refutes(simulated: Mapping[Any, Run]) -> None:
    result = _simulated_result(simulated["reordered"], MIXED, {})
    assert result.verdict == "refuted"
    assert [edge.verdict for edge in result.edges] == ["differs", "differs", "agrees", "agrees"]
    assert "cuda:0, cuda:1" in str(result.reason)
    assert str(result.edges[0].reason) == "cuda:0 is the Tesla T4 at 5E:00.0, foretold was the RTX 4090 at 86:00.0."


@pytest.mark.torch
def test_a_lost_gpu(simulated: Mapping[Any, Run]) -> None:
    known = _simulated_result(simulated["lost"], LOST, {})
    assert known.verdict == "confirmed", str(known.reason)
    before = _simulated_result(simulated["lost"], MIXED, {})
    assert before.verdict == "refuted"
    assert [edge.verdict for edge in before.edges] == ["agrees", "agrees", "differs", "differs"]


@pytest.mark.torch
def test_a_mig_slice_by_its_uuid(simulated: Mapping[Any, Run]) -> None:
    seen = simulated["mig"].result()
    assert [device.uuid for device in seen.devices] == [MIG.removeprefix("MIG-")]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("100", "live.not-opened"),
        ("no gpu", "live.no-device"),
        ("101", "live.cuinit-101"),
        ("999", "live.cuinit-999"),
        ("hangs", "live.timed-out"),
        ("hangs, cancelled", "live.cancelled"),
    ],
)
def test_a_driver_in_trouble(simulated: Mapping[Any, Run], name: str, key: str) -> None:
    machine, env, _ = CASES[name]
    seen = simulated[name].result()
    result = compare(resolve(Scenario.from_env(described(machine), env)), seen)
    assert (result.verdict, result.reason.key) == ("not checked", key)
    assert result.exercised == ()


@pytest.mark.torch
def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    if simdriver.find_cuda_include() is None:
        pytest.skip("no CUDA build of torch")
    seen = ask()
    if seen.devices:
        pytest.skip("this machine has a driver and a GPU")
    assert seen.problem is not None
    assert seen.problem.key in ("live.no-driver", "live.no-device")
    assert isinstance(seen.problem, Message)
    assert seen.env == FrozenDict({})
