"""This machine as a source: the simulated driver in real processes, and pynvml with made-up answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml as real
import pytest

import gpumap_widgets as gm
from gpumap_widgets.sources import nvml
from gpumap_widgets.sources.nvml import GpuProcess, asking
from gpumap_widgets.texts import say
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests import simdriver
from tests.conftest import UUIDS
from tests.lab import ROOT
from tests.simdriver import EIGHT_A100, MIG_A100, MIXED, SimLink, SimMachine, SimProcess
from tests.test_linux import CLOSED, Tree, server

# ---- the simulated driver, each machine in a process of its own ----

SCRIPT = """
import dataclasses, json, os, pathlib, sys
import gpumap_widgets as gm
from gpumap_widgets.sources import nvml
root = pathlib.Path(sys.argv[1])
def told(machine):
    return {"gpus": [dataclasses.asdict(gpu) for gpu in machine.gpus], "notes": machine.notes, "source": machine.source,
            "simulated": machine.simulated, "driver": machine.driver_version, "shown": str(machine)}
try:
    machine = nvml.this_machine(root=root)
    answer = told(machine)
    answer["links"] = dataclasses.asdict(nvml.links(machine, root=root))
    answer["processes"] = dataclasses.asdict(nvml.processes(machine, root=root))
except gm.NoDriver as exc:
    answer = {"reason": exc.message, "remedy": exc.remedy}
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def build_dir() -> Path:
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A root folder without any GPU."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.fixture
def tree(empty: Path) -> Tree:
    return Tree(empty)


Ask = Callable[..., Any]


def run(env: dict[str, str], script: str, *args: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *args], env=env | {"PYTHONPATH": str(ROOT)}, cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def ask(build_dir: Path, tmp_path: Path, empty: Path) -> Ask:
    def call(machine: SimMachine, script: str = SCRIPT) -> Any:
        return run(simdriver.environment(machine, tmp_path, build_dir), script, str(empty))

    return call


def rows(answer: Any) -> list[Gpu]:
    """The GPUs as values again."""
    found = []
    for gpu in map(dict, answer["gpus"]):
        migs = tuple(MigInstance(**mig) for mig in gpu.pop("mig_instances"))
        capability = gpu.pop("compute_capability")
        found.append(Gpu(**gpu, mig_instances=migs, compute_capability=tuple(capability) if capability else None))
    return found


def test_a_sound_machine(ask: Ask) -> None:
    answer = ask(replace(EIGHT_A100, driver_version="580.95.05"))
    assert (answer["driver"], answer["simulated"], answer["source"]) == ("580.95.05", True, say("source.simulated"))
    assert answer["notes"] == []
    wanted = [
        Gpu(
            i,
            sim.name,
            sim.uuid,
            sim.pci_bus_id,
            40960,
            (8, 0),
            108,
            minor_number=i,
            numa_node=sim.numa_node,
            mig_mode=False,
        )
        for i, sim in enumerate(EIGHT_A100.gpus)
    ]
    assert rows(answer) == wanted


FAULTS = {
    "lost": "nvml.lost",
    "no_permission": "nvml.no-permission",
    "unknown": "nvml.unusable",
    "operating_system": "nvml.operating-system",
    "reset": "nvml.reset",
    "lost_late": "nvml.lost",
}


def test_broken_machines_come_out_row_by_row(ask: Ask) -> None:
    """Every fault at once; the others keep their numbers and all that is known of them."""
    healthy = rows(ask(EIGHT_A100))
    faults = dict(zip((0, 1, 3, 4, 6, 7), FAULTS, strict=True))
    gpus = tuple(replace(gpu, fault=faults.get(i)) for i, gpu in enumerate(EIGHT_A100.gpus))
    answer = ask(replace(EIGHT_A100, gpus=gpus))
    wanted = [
        Gpu(i, problem=say(FAULTS[faults[i]], error="Unknown Error")) if i in faults else gpu
        for i, gpu in enumerate(healthy)
    ]
    assert rows(answer) == wanted
    assert all(gpu.problem in answer["shown"] for gpu in wanted if gpu.problem)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_machine_with_nothing_else(ask: Ask, fault: str) -> None:
    gpus = tuple(replace(gpu, fault=fault) for gpu in MIXED.gpus)
    answer = ask(replace(MIXED, gpus=gpus))
    assert {gpu.problem for gpu in rows(answer)} == {say(FAULTS[fault], error="Unknown Error")}
    assert [gpu.nvml_index for gpu in rows(answer)] == [0, 1, 2, 3]
    assert {cell for row in answer["links"]["cells"] for cell in row} == {"X", None}
    assert len(answer["processes"]["notes"]) == 4


def test_mig_with_gaps(ask: Ask) -> None:
    first, second = MIG_A100.gpus
    migs = tuple(replace(mig, mig_index=index) for mig, index in zip(first.mig, (2, 9), strict=True))
    gpus = rows(ask(replace(MIG_A100, gpus=(replace(first, mig=migs), second))))
    assert gpus[0].mig_mode
    assert gpus[0].mig_instances == (
        MigInstance(migs[0].uuid, "3g.20gb", 1, 0, 19968, 2),
        MigInstance(migs[1].uuid, "2g.10gb", 5, 0, 9856, 9),
    )
    assert (gpus[1].mig_mode, gpus[1].mig_instances) == (False, ())


def test_mig_mode_without_a_device(ask: Ask) -> None:
    gpus = rows(ask(replace(MIG_A100, gpus=(replace(MIG_A100.gpus[0], mig=()), MIG_A100.gpus[1]))))
    assert (gpus[0].mig_mode, gpus[0].mig_instances, gpus[0].problem) == (True, (), None)


def test_no_gpu(ask: Ask) -> None:
    answer = ask(SimMachine(()))
    assert (answer["gpus"], answer["notes"]) == ([], [say("nvml.none")])
    assert answer["links"]["cells"] == []


CODES = {
    4: say("nvml.no-permission-at-all"),
    9: say("nvml.not-loaded"),
    17: say("nvml.other", error="The operating system has blocked the request"),
    18: say("nvml.mismatch"),
    999: say("nvml.unknown-at-all"),
}


@pytest.mark.parametrize("code", CODES)
def test_nvml_does_not_start(ask: Ask, code: int) -> None:
    assert ask(replace(MIXED, nvml_code=code)) == {"reason": CODES[code], "remedy": say("nvml.remedy")}


@pytest.mark.parametrize("code", CODES)
def test_nvml_does_not_start_but_linux_lists_gpus(ask: Ask, tree: Tree, code: int) -> None:
    server(tree)
    answer = ask(replace(MIXED, nvml_code=code))
    assert [(gpu.nvml_index, gpu.name, gpu.minor_number) for gpu in rows(answer)] == [
        (None, "Tesla T4", 1),
        (None, "NVIDIA GeForce RTX 4090", 0),
    ]
    assert answer["notes"] == [CODES[code], say("source.linux-only")]
    assert (answer["source"], answer["driver"], answer["simulated"]) == (say("source.linux"), "535.104.05", True)
    assert answer["links"]["notes"] == answer["processes"]["notes"] == [CODES[code]]
    assert answer["links"]["cells"] == [["X", None], [None, "X"]]


def test_a_library_that_does_not_load(tmp_path: Path, empty: Path, build_dir: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_bytes(b"")
    env = simdriver.environment(MIXED, tmp_path, build_dir) | {"LD_LIBRARY_PATH": str(folder)}
    answer = run(env, SCRIPT, str(empty))
    assert answer["reason"].startswith(say("nvml.does-not-load", error="")[:-1])
    assert "file too short" in answer["reason"]


def test_shutting_down_fails(ask: Ask) -> None:
    assert rows(ask(replace(MIXED, shutdown_code=999))) == rows(ask(MIXED))


THREADS = """
import json, pathlib, sys, threading
import pynvml
from gpumap_widgets.sources import nvml
root, seen, start = pathlib.Path(sys.argv[1]), [], threading.Barrier(8)
def work():
    start.wait()
    for _ in range(25):
        machine = nvml.this_machine(root=root)
        seen.append((machine, nvml.links(machine), nvml.processes(machine)))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
try:
    pynvml.nvmlDeviceGetCount()
    left = True
except pynvml.NVMLError_Uninitialized:
    left = False
pynvml.nvmlInit()
nvml.this_machine(root=root)
print(json.dumps([len(seen), len(set(seen)), left, pynvml.nvmlDeviceGetCount()]))
"""


def test_threads_ask_at_once_and_leave_nvml_as_it_was(ask: Ask) -> None:
    """NVML counts its users: each call takes what it gave, and another user's NVML stays open."""
    assert ask(MIXED, THREADS) == [200, 1, False, 4]


def test_a_driver_with_bad_identities(ask: Ask) -> None:
    gpus = list(MIXED.gpus)
    gpus[1] = replace(gpus[1], uuid=gpus[0].uuid)
    gpus[2] = replace(gpus[2], uuid="GPU-broken {0}", pci_bus_id=gpus[3].pci_bus_id)
    answer = ask(replace(MIXED, gpus=tuple(gpus)))
    found = rows(answer)
    assert [gpu.uuid for gpu in found] == [None, None, None, MIXED.gpus[3].uuid]
    assert [gpu.pci_bus_id for gpu in found] == ["00000000:5E:00.0", "00000000:86:00.0", None, None]
    assert [gpu.nvml_index for gpu in found] == [0, 1, 2, 3]
    assert all(gpu.name and gpu.problem is None for gpu in found)
    assert answer["notes"] == [
        say("source.no-such-uuid", gpu="GPU 2", value="GPU-broken {0}"),
        say("source.repeated-uuid", value=gpus[0].uuid, count=2),
        say("source.repeated-address", value="00000000:D8:00.0", count=2),
    ]


def test_mig_devices_with_one_uuid(ask: Ask) -> None:
    first, second = MIG_A100.gpus
    migs = tuple(replace(mig, uuid=first.mig[0].uuid) for mig in first.mig)
    answer = ask(replace(MIG_A100, gpus=(replace(first, mig=migs), second)))
    assert [mig.uuid for mig in rows(answer)[0].mig_instances] == [None, None]
    assert answer["notes"] == [say("source.repeated-mig", value=first.mig[0].uuid, count=2)]


# ---- links ----


def test_links_as_nvidia_smi_prints_them(ask: Ask) -> None:
    links = (SimLink(0, 1, "PIX"), SimLink(0, 2, "NODE", nvlinks=4), SimLink(0, 3, "SYS"), SimLink(1, 2, "PXB"),
             SimLink(1, 3, "PHB"), SimLink(2, 3, "PSB", nvlinks=1))  # fmt: skip
    answer = ask(replace(MIXED, links=links))["links"]
    assert answer["gpus"] == [gpu.uuid for gpu in MIXED.gpus]
    assert answer["cells"] == [
        ["X", "PIX", "NV4", "SYS"],
        ["PIX", "X", "PXB", "PHB"],
        ["NV4", "PXB", "X", "NV1"],
        ["SYS", "PHB", "NV1", "X"],
    ]
    assert answer["notes"] == []


def test_links_through_a_switch(ask: Ask) -> None:
    gpus = tuple(replace(gpu, nvswitch_links=(12, 12, 6, 0)[i]) for i, gpu in enumerate(MIXED.gpus))
    pairs = tuple(SimLink(a, b, "NODE") for a in range(4) for b in range(a))
    cells = ask(replace(MIXED, gpus=gpus, links=pairs))["links"]["cells"]
    assert cells == [
        ["X", "NV12", "NV6", "NODE"],
        ["NV12", "X", "NV6", "NODE"],
        ["NV6", "NV6", "X", "NODE"],
        ["NODE"] * 3 + ["X"],
    ]


def test_links_that_are_not_told(ask: Ask) -> None:
    gpus = (replace(MIXED.gpus[0], fault="lost"), *MIXED.gpus[1:])
    answer = ask(replace(MIXED, gpus=gpus, links=(SimLink(1, 2, "PIX"), SimLink(0, 3, "PIX"))))["links"]
    assert answer["cells"] == [
        ["X", None, None, None],
        [None, "X", "PIX", None],
        [None, "PIX", "X", None],
        [None] * 3 + ["X"],
    ]
    assert answer["gpus"][0] is None
    pairs = "; ".join(say("nvml.links-pair", a=a, b=b) for a, b in (("GPU 1", "GPU 3"), ("GPU 2", "GPU 3")))
    assert answer["notes"] == [say("nvml.not-reached", gpu="GPU 0"), say("nvml.links-unknown", pairs=pairs)]


# ---- processes ----


def test_processes(ask: Ask, tree: Tree) -> None:
    tree.write("proc/4711/stat", "").write("proc/4713/stat", "")
    running = (SimProcess(1, 4711, 2048), SimProcess(1, 4712, 1000), SimProcess(3, 4711, 7), SimProcess(0, 4713, None))
    answer = ask(replace(MIXED, processes=running))["processes"]
    uuids = [gpu.uuid for gpu in MIXED.gpus]
    assert [GpuProcess(**row) for row in answer["processes"]] == [
        GpuProcess(0, uuids[0], 4713, None),
        GpuProcess(1, uuids[1], 4711, 2048),
        GpuProcess(1, uuids[1], 4712, 1000),
        GpuProcess(3, uuids[3], 4711, 7),
    ]
    assert answer["notes"] == [say("nvml.memory-hidden", pids="4713"), say("nvml.foreign-pids", pids="4712")]


def test_processes_on_mig_devices(ask: Ask) -> None:
    running = (
        SimProcess(0, 99, 512, mig=1),
        SimProcess(0, 99, 100, mig=0),
        SimProcess(0, 98, 5, mig=0),
        SimProcess(1, 98, 6),
    )
    answer = ask(replace(MIG_A100, processes=running))["processes"]
    (a, b), (big, small) = MIG_A100.gpus, MIG_A100.gpus[0].mig
    assert [GpuProcess(**row) for row in answer["processes"]] == [
        GpuProcess(0, a.uuid, 99, 100, "C", 1, 0, big.uuid),
        GpuProcess(0, a.uuid, 98, 5, "C", 1, 0, big.uuid),
        GpuProcess(0, a.uuid, 99, 512, "C", 5, 0, small.uuid),
        GpuProcess(1, b.uuid, 98, 6),
    ]


# ---- pynvml with made-up answers ----


def failing(code: int) -> real.NVMLError:
    return real.NVMLError(code)


class Fake:
    """Stands in for pynvml. A device is what it answers, by the end of a function's name; what it lacks is not supported.

    A value may be an exception, or a function of the other arguments; a device may be an exception itself.
    """

    nvmlLib = None
    NVMLError = real.NVMLError

    def __init__(self, *devices: Any, lacking: Iterable[str] = (), **system: Any) -> None:
        self.devices = devices
        self.lacking = set(lacking)
        self.system: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": "580.95.05",
        } | system
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        if name in self.lacking:
            raise AttributeError(name)
        if name.startswith(("NVML_", "NVMLError_", "NVMLLib")) or name == "nvmlMemory_v2":
            return getattr(real, name)
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *args: self.answer(name, *args)

    def answer(self, name: str, *args: Any) -> Any:
        if name in self.system:
            self.open += {"nvmlInit": 1, "nvmlShutdown": -1}.get(name, 0)
            value = self.system[name]
        elif name == "nvmlDeviceGetCount":
            value = len(self.devices)
        elif name == "nvmlDeviceGetHandleByIndex":
            value = self.devices[args[0]]
        else:
            device, *rest = args
            value = device.get(name.removeprefix("nvmlDeviceGet"), failing(real.NVML_ERROR_NOT_SUPPORTED))
            value = value(*rest) if callable(value) else value
        if isinstance(value, BaseException):
            raise value
        return value


class Undecodable:
    """A structure of pynvml whose text is none: reading the field decodes it."""

    @property
    def busId(self) -> str:
        return b"\xff\xfe".decode()


def at(bus: Any) -> SimpleNamespace:
    return SimpleNamespace(busId=bus)


def t4(number: int = 0, bus: str = "00000000:5E:00.0", **more: Any) -> dict[str, Any]:
    return {"Name": "Tesla T4", "UUID": UUIDS[number], "PciInfo": at(bus), "MinorNumber": 3,
            "MemoryInfo": SimpleNamespace(total=15360 << 20, used=0), "CudaComputeCapability": (7, 5), "NumGpuCores": 2560} | more  # fmt: skip


T4 = Gpu(0, "Tesla T4", UUIDS[0], "5E:00.0", 15360, (7, 5), 40, 3)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, empty: Path) -> Callable[..., Topology]:
    """The machine that pynvml with these devices tells."""

    def machine(*devices: Any, **more: Any) -> Topology:
        stand_in = Fake(*devices, **more)
        monkeypatch.setattr(asking, "pynvml", stand_in)
        found = nvml.this_machine(root=empty)
        assert stand_in.open == 0
        return found

    return machine


Faked = Callable[..., Topology]


def test_the_fake_is_like_a_driver(fake: Faked) -> None:
    found = fake(t4())
    assert found.gpus == (T4,)
    assert (found.driver_version, found.source, found.simulated, found.notes) == (
        "580.95.05",
        say("source.nvml"),
        False,
        (),
    )


def test_a_pynvml_that_returns_bytes(fake: Faked) -> None:
    """nvidia-ml-py before 11.515.48, and the package pynvml."""
    mig = {
        "Name": b"NVIDIA A100 MIG 1g.5gb",
        "UUID": UUIDS[1].replace("GPU", "MIG").encode(),
        "GpuInstanceId": 7,
        "ComputeInstanceId": 0,
    }
    device = t4(UUID=UUIDS[0].encode(), Name=b"Tesla T4 \xff", PciInfo=at(b"00000000:5E:00.0"), MigMode=[1, 1],
                MaxMigDeviceCount=1, MigDeviceHandleByIndex=lambda _: mig)  # fmt: skip
    found = fake(device, nvmlSystemGetDriverVersion=b"470.1")
    mig_instance = MigInstance(UUIDS[1].replace("GPU", "MIG"), "1g.5gb", 7, 0, None, 0)
    assert found.gpus == (
        replace(T4, name="Tesla T4 \N{REPLACEMENT CHARACTER}", mig_mode=True, mig_instances=(mig_instance,)),
    )
    assert found.driver_version == "470.1"


def test_a_pynvml_that_is_too_old(fake: Faked) -> None:
    lacking = {"nvmlDeviceGetMigMode", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMemoryAffinity", "nvmlMemory_v2", "nvmlSystemGetDriverVersion",
               "nvmlDeviceGetNvLinkState", "nvmlDeviceGetComputeRunningProcesses_v2", "NVMLLibraryMismatchError"}  # fmt: skip
    found = fake(t4(MigMode=[1, 1]), t4(1, "86:00.0"), lacking=lacking)
    assert found.gpus[0] == replace(T4, sm_count=None)
    assert found.driver_version is None
    assert nvml.links(found).notes[0] == say("nvml.nvlink-unknown", gpu="GPU 0", error="Function Not Found")
    assert nvml.processes(found).processes == ()


@pytest.mark.parametrize("missing", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_pynvml_without_the_first_call(fake: Faked, missing: str) -> None:
    with pytest.raises(gm.NoDriver) as caught:
        fake(t4(), lacking=[missing])
    assert caught.value.message == say("nvml.too-old")


def test_a_gpu_that_is_lost_while_it_is_asked(fake: Faked) -> None:
    """What it had told until then stays."""
    lost = failing(real.NVML_ERROR_GPU_IS_LOST)
    found = fake(t4(Name=lost, UUID=lost, MemoryInfo=lost), t4(1, "86:00.0"))
    assert found.gpus[0] == replace(T4, name=None, uuid=None, memory_mib=None, problem=say("nvml.lost"))
    assert found.gpus[1].problem is None


def test_a_handle_that_tells_nothing(fake: Faked) -> None:
    found = fake({"PciInfo": failing(real.NVML_ERROR_UNKNOWN)}, t4())
    assert found.gpus == (Gpu(0, problem=say("nvml.unusable", error="Unknown Error")), replace(T4, nvml_index=1))


def test_a_mig_device_that_is_lost(fake: Faked) -> None:
    device = t4(
        MigMode=[1, 1],
        MaxMigDeviceCount=2,
        MigDeviceHandleByIndex=lambda _: {"UUID": failing(real.NVML_ERROR_GPU_IS_LOST)},
    )
    assert fake(device).gpus[0].problem == say("nvml.lost")


def test_mig_devices_that_are_hidden(fake: Faked) -> None:
    codes = {0: real.NVML_ERROR_NOT_FOUND, 1: real.NVML_ERROR_NO_PERMISSION, 2: real.NVML_ERROR_NO_PERMISSION}

    def one(number: int) -> dict[str, Any]:
        if number in codes:
            raise failing(codes[number])
        return {"UUID": "MIG-1", "GpuInstanceId": 2**32 - 1}

    found = fake(t4(MigMode=[1, 1], MaxMigDeviceCount=2**32 - 2, MigDeviceHandleByIndex=one, MinorNumber=2**32 - 1))
    assert found.gpus[0].minor_number is None
    assert len(found.gpus[0].mig_instances) == 61
    assert found.gpus[0].mig_instances[0] == MigInstance(mig_index=3)
    assert found.notes[-1] == say("nvml.mig-hidden", gpu="GPU 0", error="Insufficient Permissions")
    assert say("source.no-such-uuid", gpu="GPU 0", value="MIG-1") in found.notes


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (at("garbage"), "garbage"),
        (at(b"\xff"), "\N{REPLACEMENT CHARACTER}"),
        (at(""), ""),
        (Undecodable(), repr(b"\xff\xfe")),
    ],
)
def test_an_address_that_is_none(fake: Faked, info: Any, value: str) -> None:
    found = fake(t4(PciInfo=info))
    assert found.gpus == (replace(T4, pci_bus_id=None),)
    assert found.notes == (say("source.no-such-address", gpu="GPU 0", value=value),)


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), OSError("exception: access violation"), TypeError("too many arguments")]
)  # fmt: skip
def test_pynvml_has_more_ways_to_fail(fake: Faked, error: Exception) -> None:
    found = fake(t4(Name=error, CudaComputeCapability=error, MigMode=error))
    assert found.gpus == (replace(T4, name=None, compute_capability=None, sm_count=None),)


def test_a_core_count_that_does_not_fit(fake: Faked) -> None:
    assert fake(t4(NumGpuCores=2561)).gpus[0].sm_count is None
    assert fake(t4(CudaComputeCapability=(99, 0))).gpus[0].sm_count is None


@pytest.mark.parametrize("name", ["Name", "MemoryInfo", "UUID"])
def test_nvml_is_shut_down_by_somebody_else(fake: Faked, name: str) -> None:
    """No GPU is to blame then."""
    with pytest.raises(gm.NoDriver, match="Uninitialized"):
        fake(t4(**{name: failing(real.NVML_ERROR_UNINITIALIZED)}))
    with pytest.raises(gm.NoDriver, match="Uninitialized"):
        fake(failing(real.NVML_ERROR_UNINITIALIZED))


@pytest.mark.parametrize(
    "error", [failing(real.NVML_ERROR_UNINITIALIZED), OSError("crash"), AttributeError("nvmlShutdown")]
)
def test_nvml_does_not_shut_down(monkeypatch: pytest.MonkeyPatch, empty: Path, error: Exception) -> None:
    monkeypatch.setattr(asking, "pynvml", Fake(t4(), nvmlShutdown=error))
    assert nvml.this_machine(root=empty).gpus == (T4,)


def loader(message: str) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        raise OSError(message)

    return load


MISSING = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
NEEDED = "libother.so.3: cannot open shared object file: No such file or directory"
ELF = "libnvidia-ml.so.1: wrong ELF class: ELFCLASS32"


@pytest.mark.parametrize(
    ("message", "kernel", "reason"),
    [
        (MISSING, "", say("nvml.no-library")),
        (MISSING, CLOSED, say("nvml.library-missing", driver="535.104.05")),
        ("Could not find module 'nvml.dll' (or one of its dependencies).", "", say("nvml.no-library")),
        (ELF, "", say("nvml.does-not-load", error=ELF)),
        (NEEDED, CLOSED, say("nvml.does-not-load", error=NEEDED)),
    ],
)
def test_why_the_library_does_not_load(
    monkeypatch: pytest.MonkeyPatch, tree: Tree, message: str, kernel: str, reason: str
) -> None:
    """Through the real pynvml, which has one error for all of it."""
    monkeypatch.setattr(real, "nvmlLib", None)
    monkeypatch.setattr(real, "CDLL", loader(message))
    tree.write("proc/driver/nvidia/version", kernel)
    with pytest.raises(gm.NoDriver) as caught:
        nvml.this_machine(root=tree.root)
    assert (caught.value.message, caught.value.remedy) == (reason, say("nvml.remedy"))
    server(tree).write(".dockerenv", "")
    found = nvml.this_machine(root=tree.root)
    assert len(found.gpus) == 2
    assert found.notes[1:] == (say("source.linux-only"), say("source.container"))


# ---- what Linux adds ----


def test_the_numa_node_is_that_of_the_host(monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    """nvmlDeviceGetNumaNodeId tells another: that of GPUs which are nodes themselves."""
    tree.pci("0000:5e:00.0", numa=1).pci("0000:86:00.0", numa=-1).pci("0000:87:00.0")
    devices = (
        t4(0, NumaNodeId=9),
        t4(1, "86:00.0", MemoryAffinity=lambda *_: (0, 1 << 3)),
        t4(2, "87:00.0", MemoryAffinity=lambda *_: (3,)),
    )
    monkeypatch.setattr(asking, "pynvml", Fake(*devices))
    assert [gpu.numa_node for gpu in nvml.this_machine(root=tree.root).gpus] == [1, 67, None]


def test_gpus_that_only_linux_lists(monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    tree.pci("0000:5e:00.0").pci("0000:86:00.0", driver="vfio-pci").pci("0001:87:00.0").pci(
        "0000:88:00.0", vendor="0x8086"
    )
    monkeypatch.setattr(asking, "pynvml", Fake(t4()))
    why = say("source.not-listed-one", bus="86:00.0", why=say("source.other-driver", driver="vfio-pci").rstrip("."))
    assert nvml.this_machine(root=tree.root).notes == (say("source.not-listed", gpus=f"{why}, 0001:87:00.0"),)
    monkeypatch.setattr(asking, "pynvml", Fake(t4(), failing(real.NVML_ERROR_GPU_IS_LOST)))
    assert nvml.this_machine(root=tree.root).notes == ()  # the lost one could be any of them


# ---- links and processes, made up ----

PAIR = (t4(TopologyCommonAncestor=lambda _: 40), t4(1, "86:00.0"))


def test_nvlinks_that_may_not_be_seen(fake: Faked) -> None:
    refused = failing(real.NVML_ERROR_NO_PERMISSION)
    found = fake(PAIR[0] | {"NvLinkState": lambda _: refused}, PAIR[1])
    assert nvml.links(found).cells == (("X", "NODE"), ("NODE", "X"))
    assert nvml.links(found).notes == (say("nvml.nvlink-unknown", gpu="GPU 0", error="Insufficient Permissions"),)


@pytest.mark.parametrize(
    ("state", "remote", "p2p", "cell"),
    [
        (lambda i: i < 4, lambda _: at("00000000:86:00.0"), 5, "NV4"),  # told by one end
        (lambda i: i < 4, lambda _: at("00000000:C5:00.0"), 0, "NODE"),  # to a switch, from one end only
        (lambda _: 0, lambda _: at("00000000:86:00.0"), 0, "NODE"),  # not active
        (lambda i: i < 4, lambda _: at("hidden"), 0, "NODE"),
    ],
)
def test_nvlinks_of_one_end(fake: Faked, state: Any, remote: Any, p2p: int, cell: str) -> None:
    found = fake(PAIR[0] | {"NvLinkState": state, "NvLinkRemotePciInfo": remote, "P2PStatus": lambda *_: p2p}, PAIR[1])
    assert nvml.links(found).cells[0][1] == cell


def test_a_level_that_is_new(fake: Faked) -> None:
    found = fake(t4(TopologyCommonAncestor=lambda _: 45), t4(1, "86:00.0"))
    assert nvml.links(found).cells == (("X", None), (None, "X"))


def test_a_machine_that_is_elsewhere(fake: Faked) -> None:
    fake(t4(ComputeRunningProcesses=[]))
    elsewhere = Topology((Gpu(0, "Tesla T4", UUIDS[5]), Gpu(1, "Tesla T4", UUIDS[0]), Gpu(2)))
    assert nvml.links(elsewhere).notes == (say("nvml.not-reached", gpu="GPU 0"), say("nvml.not-reached", gpu="GPU 2"))
    assert nvml.links(elsewhere).gpus == (UUIDS[5], UUIDS[0], None)
    assert len(nvml.processes(elsewhere).notes) == 2


def info(pid: int, mib: int | None = 10, **ids: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib << 20, **ids)


def test_what_draws_and_computes(fake: Faked, empty: Path) -> None:
    found = fake(
        t4(ComputeRunningProcesses=[info(1), info(2, None)], GraphicsRunningProcesses=[info(2, 20), info(3, None)])
    )
    told = nvml.processes(found, root=empty)
    assert [(row.pid, row.kind, row.memory_mib) for row in told.processes] == [
        (1, "C", 10),
        (2, "C+G", 20),
        (3, "G", None),
    ]
    assert told.notes == (say("nvml.memory-hidden", pids="3"),)


def test_a_mig_device_and_its_gpu_tell_of_one_process(fake: Faked, empty: Path) -> None:
    """An old library tells no instance; the handle does."""
    mig = {
        "UUID": UUIDS[3].replace("GPU", "MIG"),
        "GpuInstanceId": 4,
        "ComputeInstanceId": 1,
        "ComputeRunningProcesses": [info(1)],
    }
    device = t4(
        MigMode=[1, 1],
        MaxMigDeviceCount=1,
        MigDeviceHandleByIndex=lambda _: mig,
        ComputeRunningProcesses=[info(1), info(2)],
    )
    found = fake(device)
    assert nvml.processes(found, root=empty).processes == (
        GpuProcess(0, UUIDS[0], 1, 10, "C", 4, 1, UUIDS[3].replace("GPU", "MIG")),
        GpuProcess(0, UUIDS[0], 2, 10),
    )


def test_an_older_library_has_an_older_call(fake: Faked, empty: Path) -> None:
    mismatch = real.NVMLLibraryMismatchError("Unversioned function called")
    found = fake(
        t4(ComputeRunningProcesses=mismatch, ComputeRunningProcesses_v2=[info(1)], GraphicsRunningProcesses=mismatch)
    )
    told = nvml.processes(found, root=empty)
    assert [row.pid for row in told.processes] == [1]
    assert told.notes == ()


def test_processes_that_are_refused(fake: Faked, empty: Path) -> None:
    refused = failing(real.NVML_ERROR_NO_PERMISSION)
    found = fake(
        t4(ComputeRunningProcesses=refused, GraphicsRunningProcesses=refused),
        t4(1, "86:00.0", GraphicsRunningProcesses=[]),
    )
    assert nvml.processes(found, root=empty).notes == (
        say("nvml.processes-refused", gpu="GPU 0", error="Insufficient Permissions"),
        say("nvml.processes-refused", gpu="GPU 1", error="Not Supported"),
    )


@pytest.mark.parametrize(("used", "hidden"), [(4000, True), (3, False)])
def test_memory_in_use_by_nobody(fake: Faked, empty: Path, used: int, hidden: bool) -> None:
    def memory(version: int = 0) -> SimpleNamespace:
        plain = SimpleNamespace(total=15360 << 20, used=(used + 400) << 20)
        return SimpleNamespace(total=plain.total, reserved=400 << 20, used=used << 20) if version else plain

    found = fake(t4(MemoryInfo=memory, ComputeRunningProcesses=[]))
    assert found.gpus[0].memory_mib == 15360
    note = say("nvml.processes-hidden", gpu="GPU 0", mib=used)
    assert nvml.processes(found, root=empty).notes == ((note,) if hidden else ())


def test_results_are_values(fake: Faked, empty: Path) -> None:
    found = fake(*PAIR)
    assert hash(nvml.links(found)) == hash(nvml.links(found))
    assert nvml.processes(found, root=empty) == nvml.processes(found, root=empty)
    assert found == fake(*PAIR)
