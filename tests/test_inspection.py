"""Running processes: CUDA in this one with real torch on the simulated driver, and what may be seen of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpumap_widgets as gm
from gpumap_widgets.certainty import Certainty
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.inspection import kernel, system
from gpumap_widgets.inspection.findings import RULES, findings_of
from gpumap_widgets.inspection.process import ProcessInspection, job_of
from gpumap_widgets.inspection.system import SystemView, system_view
from gpumap_widgets.mapping import Message
from gpumap_widgets.sources.nvml import GpuProcess
from gpumap_widgets.texts import sentences
from tests import simdriver
from tests.conftest import MIXED as DESCRIBED
from tests.simdriver import MIG_A100, MIXED, SimMachine, SimProcess

ROOT = Path(__file__).parents[1]
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

# ---- this process: real torch, one fork a case, before which nothing of CUDA was touched ----

CASES = r"""
import json, os, sys
import torch
import gpumap_widgets as gm

def look():
    found = gm.inspect_kernel()
    shown = [found.to_dict(), str(found), found._repr_html_()]
    return shown[0] | {"text": shown[1], "html": shown[2], "initialized": torch.cuda.is_initialized()}

def untouched():
    before = look()
    again = look()
    os.environ["CUDA_VISIBLE_DEVICES"] = "3"  # still counts after two looks
    torch.cuda.init()
    return {"before": before, "again": again, "after": look()}

def changed_before():
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    torch.cuda.init()
    return look()

def changed_after():
    torch.cuda.init()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    return look()

def only_asked():
    torch.cuda.is_available()
    return look()

def three_values():
    os.environ["CUDA_VISIBLE_DEVICES"] = "3"
    torch.cuda.init()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    return look()

def same_devices():
    os.environ["CUDA_VISIBLE_DEVICES"] = "1,2,9"
    torch.cuda.init()
    return look()

def behind():
    os.putenv("CUDA_VISIBLE_DEVICES", "3")
    before = look()
    torch.cuda.init()
    return {"before": before, "after": look()}

def forked():
    torch.cuda.init()
    return in_child(look)

def by_ctypes():
    import ctypes
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    return look()

def counted():
    torch.cuda.init()
    torch.cuda.device_count()
    return look()

def in_child(case):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, json.dumps(case()).encode())
        except BaseException as exc:
            os.write(write, json.dumps({"error": repr(exc)}).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.wait()
    return json.loads(text)

names = "untouched changed_before changed_after only_asked three_values same_devices behind forked by_ctypes counted"
print(json.dumps({name: in_child(globals()[name]) for name in names.split()}))
"""


def run(env: Mapping[str, str], script: str, *args: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", script, *args], env={**env, "PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def build_dir() -> Path:
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every case, in a process that was started with CUDA_DEVICE_ORDER=PCI_BUS_ID and CUDA_VISIBLE_DEVICES=1,2."""
    include = simdriver.find_cuda_include()
    if include is None:
        pytest.skip(f"no CUDA build of torch, with its headers, in {sys.executable}")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    env = simdriver.environment(MIXED, tmp_path_factory.mktemp("machines"), built)
    return run(env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,2"}, CASES)


def said(one: Any) -> str:
    return " ".join([one["said"], one["why_used"], one["first"], one["advice"], *one["notes"]])


@pytest.mark.torch
def test_a_kernel_in_which_nothing_was_started(told: Any) -> None:
    before, again, after = (told["untouched"][name] for name in ("before", "again", "after"))
    assert before["state"] == again["state"] == "not started"
    assert (before["initialized"], before["change_counts"], before["used"]) == (False, True, None)
    assert before["at_start"] == before["now"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,2"}
    assert before["first"].startswith("cuda:0 will be the RTX 4090 at 86:00.0 (nvidia-smi 1)")
    assert (before["nvml_indices"], before["devices"]) == ([1, 2], [])
    assert before["simulated"]
    assert "simulated driver" in before["text"]
    # two looks did not start CUDA: a later change was read
    assert (after["state"], after["nvml_indices"], after["used"]) == ("started", [3], "now")


@pytest.mark.torch
def test_values_that_were_changed_in_time(told: Any) -> None:
    one = told["changed_before"]
    assert (one["state"], one["started_by"], one["change_counts"]) == ("started", ["torch.cuda"], False)
    assert (one["used"], one["used_certainty"], one["nvml_indices"]) == ("now", "likely", [0])
    assert (one["first"], one["first_certainty"]) == ("cuda:0 is the Tesla T4 at 5E:00.0 (nvidia-smi 0).", "certain")
    assert (one["at_start"]["CUDA_VISIBLE_DEVICES"], one["now"]["CUDA_VISIBLE_DEVICES"]) == ("1,2", "0")
    assert one["devices"][0]["uuid"] == MIXED.gpus[0].uuid
    assert (one["devices"][0]["memory_mib"], one["devices"][0]["compute_capability"]) == (15360, [7, 5])


@pytest.mark.torch
def test_values_that_were_changed_too_late(told: Any) -> None:
    one = told["changed_after"]
    assert (one["used"], one["nvml_indices"], one["change_counts"]) == ("at_start", [1, 2], False)
    assert "first cell" in one["advice"]
    assert "not those that stand in os.environ now" in one["why_used"]
    assert "Restart the kernel" in one["text"]
    assert "Restart the kernel" in one["html"]


@pytest.mark.torch
def test_a_question_starts_cuda_silently(told: Any) -> None:
    """torch.cuda.is_available() does, and is_initialized() stays False."""
    one = told["only_asked"]
    assert (one["state"], one["initialized"], one["started_by"]) == ("started", False, [])
    assert "torch" in one["able"]
    assert "is_available" in one["text"]


@pytest.mark.torch
def test_a_third_value_in_between(told: Any) -> None:
    one = told["three_values"]
    assert (one["used"], one["nvml_indices"]) == (None, [3])
    assert one["why_used"] == sentences("en")["inspect.used.neither"]


@pytest.mark.torch
def test_values_that_lead_to_the_same_devices(told: Any) -> None:
    one = told["same_devices"]
    assert (one["used"], one["used_certainty"], one["nvml_indices"]) == (None, "unknown", [1, 2])
    assert one["why_used"] == sentences("en")["inspect.used.either"]
    same = told["counted"]
    assert (same["used"], same["why_used"]) == ("at_start", sentences("en")["inspect.used.same"])


@pytest.mark.torch
def test_values_set_behind_pythons_back(told: Any) -> None:
    before, after = told["behind"]["before"], told["behind"]["after"]
    assert before["nvml_indices"] == [3], "what the driver will read counts, not os.environ"
    assert before["read"]["CUDA_VISIBLE_DEVICES"] == "3"
    assert sentences("en")["inspect.note.putenv"] in before["notes"]
    assert (after["used"], after["nvml_indices"]) == ("read", [3])


@pytest.mark.torch
def test_a_forked_worker(told: Any) -> None:
    one = told["forked"]
    assert (one["state"], one["change_counts"], one["devices"]) == ("forked", None, []) or one["change_counts"] is False
    assert "spawn" in one["advice"]
    assert one["first"] == sentences("en")["inspect.first.unknown"]


@pytest.mark.torch
def test_cuda_started_by_somebody_else(told: Any) -> None:
    one = told["by_ctypes"]
    assert (one["state"], one["started_by"], one["used"]) == ("started", [], "at_start")


@pytest.mark.torch
def test_a_count_that_torch_keeps(told: Any) -> None:
    assert any("torch has counted 2 devices" in note for note in told["counted"]["notes"])


LIGHT = """
import json, sys
import gpumap_widgets as gm
found = gm.inspect_kernel()
maps = open("/proc/self/maps").read()
print(json.dumps(found.to_dict() | {"cuda_mapped": "libcuda" in maps, "torch": "torch" in sys.modules, "text": str(found)}))
"""


@linux
def test_looking_loads_neither_torch_nor_the_driver(build_dir: Path, tmp_path: Path) -> None:
    one = run(simdriver.environment(MIXED, tmp_path, build_dir), LIGHT)
    assert (one["cuda_mapped"], one["torch"], one["state"]) == (False, False, "not started")
    assert one["said"] == sentences("en")["inspect.state.not-loaded"]
    assert one["nvml_indices"] == [1, 0, 2, 3]


@linux
def test_a_machine_without_a_driver(build_dir: Path, tmp_path: Path) -> None:
    one = run(simdriver.environment(replace(MIXED, nvml_code=9), tmp_path, build_dir), LIGHT)
    assert (one["state"], one["nvml_indices"], one["first_certainty"]) == ("not started", [], "unknown")
    assert any("kernel driver is not loaded" in note for note in one["notes"])


def test_a_starter_of_another_version_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for starter in kernel.STARTERS:
        monkeypatch.setitem(sys.modules, starter.module, SimpleNamespace())
    assert kernel._started_by() == ()
    told: dict[str, Any] = {
        "torch": SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True)),
        "numba.cuda.cudadrv.driver": SimpleNamespace(driver=SimpleNamespace(is_initialized=True)),
        "jax._src.xla_bridge": SimpleNamespace(_backends={"cpu": 1, "cuda": 2}),
    }
    for name, module in told.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert kernel._started_by() == ("torch.cuda", "numba.cuda", "JAX")


def test_an_old_torch_that_keeps_its_first_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = SimpleNamespace(cache_info=lambda: SimpleNamespace(currsize=1))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(device_count=counted)))
    assert [note.key for note in kernel._torch_notes()] == ["inspect.note.counted-early"]


# ---- other processes: real ones, and the simulated driver shows them on its GPUs ----

SLEEPER = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(60)"
ASK = """
import json, sys
import gpumap_widgets as gm
def told(one):
    return one.to_dict() | {"text": str(one), "html": one._repr_html_()}
try:
    print(json.dumps(told(gm.inspect_process(int(sys.argv[1])) if sys.argv[1:] else gm.inspect_processes())))
except gm.GpumapError as exc:
    print(json.dumps({"error": str(exc)}))
"""


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Start a process with these variables; it is up when its PID is there."""
    with ExitStack() as stack:

        def call(own_group: bool = False, **env: str) -> int:
            bare = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "SLURM_"))}
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", SLEEPER], env=bare | env, stdout=subprocess.PIPE, start_new_session=own_group
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            assert process.stdout.read(2) == b"up"
            return process.pid

        yield call


@pytest.fixture
def ask(build_dir: Path, tmp_path: Path) -> Callable[..., Any]:
    def call(machine: SimMachine, *args: object) -> Any:
        return run(simdriver.environment(machine, tmp_path, build_dir), ASK, *map(str, args))

    return call


Start, Ask = Callable[..., int], Callable[..., Any]


@linux
def test_a_process_and_its_cuda_0(start: Start, ask: Ask) -> None:
    pid = start(CUDA_VISIBLE_DEVICES="3,1", CUDA_DEVICE_ORDER="PCI_BUS_ID", SLURM_JWT="hush", NVIDIA_API_KEY="hush")
    one = ask(replace(MIXED, processes=(SimProcess(3, pid, 2048),)), pid)
    assert (one["nvml_indices"], one["certainty"]) == ([3, 1], "likely")
    assert "Its cuda:0 is the Tesla T4 at D8:00.0 (nvidia-smi 3)" in one["said"]
    assert one["env_at_start"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,1"}
    assert [(row["nvml_index"], row["memory_mib"]) for row in one["held"]] == [(3, 2048)]
    assert one["findings"] == []
    assert "nvidia-smi 3" in one["text"]
    assert "hush" not in one["text"] + one["html"]
    assert one["simulated"]


@linux
def test_a_process_that_holds_what_its_environment_hides(start: Start, ask: Ask) -> None:
    pid = start(CUDA_VISIBLE_DEVICES="3", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    one = ask(replace(MIXED, processes=(SimProcess(1, pid, 10),)), pid)
    assert [finding["code"] for finding in one["findings"]] == ["holds-another-gpu"]
    assert one["certainty"] == "unknown"
    assert "“3”" in one["findings"][0]["message"]


@linux
def test_a_mig_device(start: Start, ask: Ask) -> None:
    small = MIG_A100.gpus[0].mig[1].uuid
    pid = start(CUDA_VISIBLE_DEVICES=small)
    one = ask(replace(MIG_A100, processes=(SimProcess(0, pid, 512, mig=1),)), pid)
    assert "2g.10gb" in one["said"]
    assert one["held"][0]["mig_uuid"] == small


@linux
def test_a_process_without_a_gpu(start: Start, ask: Ask) -> None:
    one = ask(MIXED, start(CUDA_VISIBLE_DEVICES=""))
    assert (one["held"], one["nvml_indices"]) == ([], [])
    assert "sees no device" in one["said"]


@linux
def test_no_such_process(ask: Ask) -> None:
    assert "There is no process 4194999" in ask(MIXED, 4194999)["error"]


@linux
def test_a_process_that_only_nvml_shows(ask: Ask) -> None:
    """Another PID namespace, or gone a moment ago: the GPU is known, the rest has its reason."""
    one = ask(replace(MIXED, processes=(SimProcess(2, 4194999, 5),)), 4194999)
    assert (one["env_at_start"], one["certainty"]) == (None, "unknown")
    assert "It holds the Tesla T4 at AF:00.0" in one["said"]
    assert any("cannot be read: it is not there" in why for why in one["unseen"])


@linux
def test_no_driver_to_ask(start: Start, ask: Ask) -> None:
    one = ask(replace(MIXED, nvml_code=9), start(CUDA_VISIBLE_DEVICES="3"))
    assert one["env_at_start"] == {"CUDA_VISIBLE_DEVICES": "3"}
    assert one["said"] == sentences("en")["inspect.process.no-machine"]
    assert any("GPUs that it holds cannot be seen" in why for why in one["unseen"])


@linux
def test_ranks_of_one_job_on_one_gpu(start: Start, ask: Ask) -> None:
    job = {"TORCHELASTIC_RUN_ID": "abc", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    pids = [start(own_group=True, RANK=str(rank), LOCAL_RANK=str(rank), **job) for rank in range(3)]
    running = (SimProcess(0, pids[0], 9), SimProcess(0, pids[1], 9), SimProcess(1, pids[2], 9))
    one = ask(replace(MIXED, processes=running))
    assert [finding["code"] for finding in one["findings"]] == ["ranks-share-gpu"]
    assert "Ranks 0, 1 of one job (torchrun abc 127.0.0.1 29500)" in one["findings"][0]["message"]
    assert "set_device" in one["findings"][0]["remedy"]
    assert [(row["pid"], row["rank"]) for row in one["processes"]] == sorted(zip(pids, range(3), strict=True))
    assert str(pids[0]) in one["text"]


@linux
def test_two_jobs_on_one_gpu(start: Start, ask: Ask) -> None:
    pids = [start(SLURM_JOB_ID=job) for job in ("77", "78", "78")]
    one = ask(replace(MIXED, processes=tuple(SimProcess(2, pid, 9) for pid in pids)))
    assert [finding["code"] for finding in one["findings"]] == ["jobs-share-gpu"]
    assert "2 jobs are on one GPU, the Tesla T4 at AF:00.0" in one["findings"][0]["message"]


@linux
def test_two_commands_of_one_shell_line_are_no_two_jobs(start: Start, ask: Ask) -> None:
    together = [start(), start()]
    assert ask(replace(MIXED, processes=tuple(SimProcess(2, pid, 9) for pid in together)))["findings"] == []


@linux
def test_nothing_runs(ask: Ask) -> None:
    one = ask(MIXED)
    assert (one["processes"], one["findings"]) == ([], [])
    assert "0 processes" in one["text"]


# ---- what the rules see ----


def one_process(
    pid: int, position: int, job: str | None = None, rank: int | None = None, **more: Any
) -> ProcessInspection:
    held = (GpuProcess(position, DESCRIBED.gpus[position].uuid, pid),)
    view = SystemView(pid, starter=more.pop("starter", 500 + pid), group=more.pop("group", 900 + pid))
    return ProcessInspection(
        pid, "", view, held, None, Message("inspect.process.nothing"), Certainty.UNKNOWN, job, rank, (), DESCRIBED
    )


@pytest.mark.parametrize(
    ("processes", "codes"),
    [
        ([], []),
        ([one_process(10, 0)], []),
        ([one_process(10, 0), one_process(11, 1)], []),
        ([one_process(10, 0), one_process(11, 0)], ["jobs-share-gpu"]),
        ([one_process(10, 0, group=7), one_process(11, 0, group=7)], []),
        ([one_process(10, 0), one_process(11, 0, starter=10)], []),
        ([one_process(10, 0, starter=3), one_process(11, 0, starter=3)], []),
        ([one_process(10, 0, starter=None), one_process(11, 0, starter=None)], ["jobs-share-gpu"]),
        ([one_process(10, 0, "slurm 1"), one_process(11, 0, "slurm 2", group=910)], ["jobs-share-gpu"]),
        ([one_process(10, 0, "slurm 1", 0), one_process(11, 0, "slurm 1", 1)], ["ranks-share-gpu"]),
        ([one_process(10, 0, "slurm 1", 0), one_process(11, 0, "slurm 1", 0)], []),
        (
            [one_process(10, 0, "slurm 1", 0), one_process(11, 0, "slurm 1", 1), one_process(12, 0, "slurm 2", 0)],
            ["ranks-share-gpu", "jobs-share-gpu"],
        ),
        ([one_process(10, 0), one_process(11, 0, starter=12), one_process(12, 0, starter=10)], []),
    ],
)
def test_who_shares(processes: list[ProcessInspection], codes: list[str]) -> None:
    found = findings_of(processes)
    assert [finding.code for finding in found] == codes
    assert all(finding.message and finding.remedy and finding.source for finding in found)


def test_every_rule_has_its_sentences() -> None:
    keys = set(sentences("en"))
    assert {f"inspect.found.{rule.code}" for rule in RULES} | {f"inspect.fix.{rule.code}" for rule in RULES} <= keys


@pytest.mark.parametrize(
    ("env", "job"),
    [
        ({"SLURM_JOB_ID": "7", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "slurm 7"),
        ({"MASTER_ADDR": "a", "MASTER_PORT": "1"}, "distributed a 1"),
        ({"MASTER_ADDR": "a"}, None),
        ({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "torchrun none a 1"),
        ({}, None),
    ],
)
def test_jobs_by_their_variables(env: dict[str, str], job: str | None) -> None:
    assert job_of(SystemView(1, environ=FrozenDict(env))) == job
    if job is None:
        assert job_of(SystemView(1, environ=FrozenDict(env), container=("docker", "4f1c"))) == "docker 4f1c"


# ---- what Linux tells, from folders in its shape ----


class Tree:
    """A folder in the shape of / with one process in it."""

    def __init__(self, root: Path, pid: int = 42) -> None:
        self.root, self.at = root, root / "proc" / str(pid)
        (self.at / "fd").mkdir(parents=True)
        (self.at / "ns").mkdir()
        (root / "proc/self/ns").mkdir(parents=True)
        for kind in ("pid", "mnt"):
            (root / "proc/self/ns" / kind).symlink_to(f"{kind}:[1]")
            (self.at / "ns" / kind).symlink_to(f"{kind}:[1]")
        (root / "dev").mkdir()
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            (root / "dev" / name).write_text("")
        (self.at / "environ").write_bytes(b"CUDA_VISIBLE_DEVICES=1\0HOME=/root\0")
        (self.at / "cmdline").write_bytes(b"python\0train.py\0")
        (self.at / "cgroup").write_text("0::/user.slice\n")

    def inside(self, *minors: int) -> Tree:
        """In another mount namespace, with these device files."""
        (self.at / "ns/mnt").unlink()
        (self.at / "ns/mnt").symlink_to("mnt:[2]")
        (self.at / "root/dev").mkdir(parents=True)
        for minor in minors:
            (self.at / "root/dev" / f"nvidia{minor}").write_text("")
        return self


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_process_on_the_host(tree: Tree) -> None:
    (tree.at / "fd/3").symlink_to("/dev/nvidia1")
    (tree.at / "fd/4").symlink_to("/dev/nvidia-uvm")
    (tree.at / "fd/5").symlink_to("pipe:[77]")
    view = system_view(42, tree.root)
    assert view.environ == {"CUDA_VISIBLE_DEVICES": "1"}
    assert (view.command, view.container, view.own_files, view.own_pids) == ("python train.py", None, False, False)
    assert (view.minors, view.opened, view.cuda_open, view.unseen) == ((0, 1), (1,), True, ())


def test_a_process_in_a_container(tree: Tree) -> None:
    (tree.at / "cgroup").write_text(f"0::/system.slice/docker-{'4f1c2a3b5d6e' + 'a' * 52}.scope\n")
    view = system_view(42, tree.inside(1).root)
    assert (view.container, view.own_files, view.minors) == (("docker", "4f1c2a3b5d6e"), True, (1,))


@pytest.mark.parametrize(
    ("line", "container"),
    [
        (f"0::/docker/{'4f1c2a3b5d6e' + 'b' * 52}", ("docker", "4f1c2a3b5d6e")),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{'4f1c2a3b5d6e' + 'c' * 52}.scope", ("kubernetes", "4f1c2a3b5d6e")),
        (f"0::/user.slice/libpod-{'4f1c2a3b5d6e' + 'd' * 52}.scope", ("podman", "4f1c2a3b5d6e")),
        ("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", ("slurm", "123")),
        ("4:devices:/slurm/uid_1000/job_9/step_batch", ("slurm", "9")),
        ("0::/lxc.payload.box/init.scope", ("lxc", "box")),
        ("0::/user.slice/user-1000.slice/session-2.scope", None),
        ("", None),
    ],
)  # fmt: skip
def test_containers_by_their_cgroup(tree: Tree, line: str, container: tuple[str, str] | None) -> None:
    (tree.at / "cgroup").write_text(line)
    assert system_view(42, tree.root).container == container


@pytest.mark.parametrize(
    ("comm", "cmdline", "joins"),
    [
        ("bash", "bash", False),
        ("sh", "sh -c x", False),
        ("tmux: server", "tmux", False),
        ("python", "python -m jupyterlab", False),
        ("systemd", "/sbin/init", False),
        ("kthreadd", "", False),
        ("torchrun", "python torchrun t.py", True),
        ("python", "python launch.py", True),
    ],
)
def test_who_starts_a_job_and_who_starts_anything(tree: Tree, comm: str, cmdline: str, joins: bool) -> None:
    (tree.at / "status").write_text("Name:\tpython\nPPid:\t7\nUid:\t0\t0\t0\t0\n")
    (tree.at / "stat").write_text("42 (py (x) thon) S 7 40 40 0\n")
    parent = tree.root / "proc/7"
    parent.mkdir()
    (parent / "comm").write_text(comm + "\n")
    (parent / "cmdline").write_text(cmdline.replace(" ", "\0"))
    view = system_view(42, tree.root)
    assert (view.parent, view.group, view.starter) == (7, 40, 7 if joins else None)
    assert view.user


def test_an_environment_that_is_written_over(tree: Tree) -> None:
    (tree.at / "environ").write_bytes(b"worker: idle\0CUDA_VISIBLE_DEVICES=\xff,0\0CUDA_VISIBLE_DEVICES=2\0")
    view = system_view(42, tree.root)
    assert view.environ == {"CUDA_VISIBLE_DEVICES": "\udcff,0"}, "getenv finds the first"
    assert [why.key for why in view.unseen] == ["inspect.unseen.overwritten"]


def test_what_this_user_may_not_see(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(system.os, "listdir", refuse)
    monkeypatch.setattr(Path, "readlink", refuse)
    view = system_view(42, tree.root)
    assert (view.environ, view.minors, view.opened, view.cuda_open, view.own_files) == (None, None, None, None, None)
    assert [why.key.rpartition(".")[2] for why in view.unseen] == ["environ", "fd", "cgroup", "files"]
    assert all("this user may not" in str(why) for why in view.unseen)


def test_a_process_that_is_gone(tree: Tree) -> None:
    view = system_view(43, tree.root)
    assert (view.environ, view.command, view.user, view.parent) == (None, None, None, None)
    assert all("not there" in str(why) for why in view.unseen)


def test_a_container_counts_its_own_gpus_only(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device files 1 and 3 only: cuda:0 of a process without variables is the first of these two."""
    gpus = tuple(replace(gpu, minor_number=i) for i, gpu in enumerate(DESCRIBED.gpus))
    machine = replace(DESCRIBED, gpus=gpus)
    monkeypatch.setattr("gpumap_widgets.inspection.process.this_machine", lambda **_: machine)
    monkeypatch.setattr(
        "gpumap_widgets.inspection.process.processes", lambda *_, **__: SimpleNamespace(processes=(), notes=())
    )
    tree.inside(1, 3)
    (tree.at / "environ").write_bytes(b"CUDA_DEVICE_ORDER=PCI_BUS_ID\0CUDA_VISIBLE_DEVICES=1\0")
    one = gm.inspect_process(42, root=tree.root)
    assert (one.nvml_indices, one.certainty) == ((3,), Certainty.LIKELY)
    (tree.at / "environ").write_bytes(b"CUDA_DEVICE_ORDER=PCI_BUS_ID\0")
    assert gm.inspect_process(42, root=tree.root).nvml_indices == (1, 3)
    monkeypatch.setattr(
        "gpumap_widgets.inspection.process.this_machine",
        lambda **_: replace(machine, default_order=(3, 0, 1, 2), default_order_measured=True),
    )
    (tree.at / "environ").write_bytes(b"")
    assert gm.inspect_process(42, root=tree.root).nvml_indices == (3, 1)


def test_numbers_of_another_namespace(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namesake in this container holds nothing of CUDA open: the GPU that NVML shows is another process's."""
    running = SimpleNamespace(processes=(GpuProcess(1, DESCRIBED.gpus[1].uuid, 42),), notes=())
    monkeypatch.setattr("gpumap_widgets.inspection.process.this_machine", lambda **_: DESCRIBED)
    monkeypatch.setattr("gpumap_widgets.inspection.process.processes", lambda *_, **__: running)
    one = gm.inspect_process(42, root=tree.root)
    assert one.held == ()
    assert any("process numbers of its own" in str(why) for why in one.unseen)
    (tree.at / "fd/4").symlink_to("/dev/nvidia-uvm")
    assert gm.inspect_process(42, root=tree.root).held_indices == (1,)


def test_views_do_not_move_the_cursor_and_escape(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpumap_widgets.inspection.process.this_machine", lambda **_: DESCRIBED)
    monkeypatch.setattr(
        "gpumap_widgets.inspection.process.processes", lambda *_, **__: SimpleNamespace(processes=(), notes=("<n>",))
    )
    (tree.at / "environ").write_bytes(b"CUDA_VISIBLE_DEVICES=<b>\x1b[2J\0")
    (tree.at / "cmdline").write_bytes(b"<script>\x07\0")
    one = gm.inspect_process(42, root=tree.root)
    assert "\x1b" not in str(one)
    assert "\x07" not in str(one)
    assert "<script>" not in one._repr_html_()
    assert "<b>" not in one._repr_html_()
    json.dumps(one.to_dict())


def test_the_inspection_never_initialises() -> None:
    """Only `started_driver`, which is asked for by name, may call cuInit."""
    folder = Path(kernel.__file__).parent
    users = [path.name for path in folder.glob("*.py") if "cuInit(" in path.read_text(encoding="utf-8")]
    assert users == ["driver.py"]


# ---- a machine with a GPU ----

REAL = """
import ctypes, json, os
import gpumap_widgets as gm
def look():
    return gm.inspect_kernel().to_dict()
absent = look()
cuda = ctypes.CDLL("libcuda.so.1")
loaded = look()
os.environ["CUDA_VISIBLE_DEVICES"] = ""
hidden = cuda.cuInit(0)
failed = look()
del os.environ["CUDA_VISIBLE_DEVICES"]
again = cuda.cuInit(0)
print(json.dumps({"absent": absent, "loaded": loaded, "hidden": hidden, "failed": failed, "again": again, "after": look()}))
"""
STARTED = """
import json
import gpumap_widgets as gm
line = gm.log_evidence("/dev/null", start_cuda=True, strict=True)
print(json.dumps([line, gm.inspect_kernel().to_dict()]))
"""


@pytest.mark.gpu
@linux
def test_a_real_driver(tmp_path: Path) -> None:
    """The driver answers before cuInit without starting; whether a failed start can be repeated is written down."""
    machine = real_machine()
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    told = run(env, REAL)
    assert told["absent"]["said"] == sentences("en")["inspect.state.not-loaded"]
    assert (told["loaded"]["state"], told["hidden"]) == ("not started", 100)
    print(json.dumps({name: told[name] for name in ("again",)}), told["failed"]["state"], told["after"]["state"])
    line, looked = run(env, STARTED)
    uuids = {gpu.uuid for gpu in machine.gpus} | {mig.uuid for gpu in machine.gpus for mig in gpu.mig_instances}
    assert (line["told_by"], line["simulated"], looked["state"]) == ("driver", False, "started")
    assert line["devices"]
    assert {device["uuid"] for device in line["devices"]} <= uuids
    assert line["verdict"] == "confirmed"


def real_machine() -> gm.Topology:
    try:
        machine = gm.this_machine()
    except gm.GpumapError as exc:
        pytest.skip(f"no NVIDIA GPU here: {exc.message}")
    if machine.simulated or not machine.gpus or machine.gpus[0].nvml_index is None:
        pytest.skip("no NVIDIA GPU here")
    return machine
