"""The simulated driver: its reading of the two variables, and what real clients see through it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import simdriver
from tests.simdriver import EIGHT_A100, MIG_A100, MIXED, SimGpu, SimMachine, SimMig, SimProcess

TORCH_PYTHON = os.environ.get("GPUMAP_TORCH_PYTHON", sys.executable)

# Where a row's answer comes from.
GUIDE = "CUDA Programming Guide, environment variables"
MIG_GUIDE = "MIG User Guide"
TORCH_TEST = "torch test_cuda_nvml_based_avail.py, said to match a 525.60.13 driver"
STAFF = "pytorch PR 92315, NVIDIA staff on a driver"
STRTOUL = "the strtoul rule of the torch test"
STOP = "the guide's rule that an invalid token ends the list"
NVITOP = "nvitop api/device.py docstring"
GUESS = "no source; most plausible"

# Eight UUIDs: "GPU-e" starts three of them, "GPU-e4", "GPU-5" and "GPU-1" one each, "GPU-123" none.
UUIDS = (
    "GPU-92a4b671-0d3e-4c58-9f10-6b7c2d8e4a05",
    "GPU-9d81f3c2-7b64-4e0a-8a55-13f0c6d29e77",
    "GPU-e4037aa9-52cd-4b1f-b6e8-90a1b2c3d4e5",
    "GPU-ee62d0b4-1f95-4a3c-a7d1-5c4b3a291807",
    "GPU-b80c5e16-6a27-49d8-93f4-e1d2c3b4a596",
    "GPU-5f39a7d8-c041-4e6b-8d02-7a8b9c0d1e2f",
    "GPU-e5b1284f-83da-4706-95cb-2f3e4d5c6b7a",
    "GPU-17c6e09b-94f5-4d81-ae36-0918273645f0",
)


class Row(NamedTuple):
    visible: str | None
    gpus: int
    expected: list[int]
    source: str


ROWS = [
    Row(None, 4, [0, 1, 2, 3], GUIDE),
    Row("", 4, [], GUIDE),
    Row("3", 4, [3], GUIDE),
    Row("2,1", 4, [2, 1], GUIDE),
    Row("0,1,2,3", 4, [0, 1, 2, 3], GUIDE),
    Row("1,2", 4, [1, 2], GUIDE),
    Row("0,1,2,3,4,5,6,7", 8, [0, 1, 2, 3, 4, 5, 6, 7], STAFF),
    Row("0", 1, [0], GUIDE),
    # An invalid token ends the list.
    Row("0,2,-1,1", 4, [0, 2], GUIDE),
    Row("-1", 4, [], GUIDE),
    Row("-1,0,1", 4, [], GUIDE),
    Row("0,1,2,3,-1,5,6,7", 8, [0, 1, 2, 3], STAFF),
    Row("0,1,2,3,-1,0,6,7", 8, [0, 1, 2, 3], STAFF),
    Row("0, 1, 2, -1, 3", 4, [0, 1, 2], TORCH_TEST),
    Row("4", 4, [], STOP),
    Row("0,1,99,2", 4, [0, 1], STOP),
    Row("0,4,1", 4, [0], STOP),
    Row("1, 5, 0", 2, [1], TORCH_TEST),
    Row("1,0,2", 2, [1, 0], STOP),
    Row("one,two,3,4", 8, [], TORCH_TEST),
    Row("4,3,two,one", 8, [4, 3], TORCH_TEST),
    Row("foo", 4, [], TORCH_TEST),
    # A repeat before any stop empties it.
    Row("0,0", 4, [], TORCH_TEST),
    Row("0, 1, 2, 1", 4, [], TORCH_TEST),
    Row("0,1,0", 4, [], TORCH_TEST),
    Row("1,1,3", 4, [], TORCH_TEST),
    Row("0,00", 4, [], GUESS),
    Row("0,+0", 4, [], GUESS),
    Row("9,9", 4, [], STOP),
    Row("0,foo,0", 4, [0], GUESS),
    Row("0,9,0", 4, [0], GUESS),
    # Blanks and punctuation.
    Row(" 0", 4, [0], GUESS),
    Row("\t0", 4, [0], GUESS),
    Row("2, 1", 4, [2, 1], TORCH_TEST),
    Row(" 1 , 0 ", 4, [1, 0], GUESS),
    Row(" ", 4, [], GUESS),
    Row("0,1,", 4, [0, 1], STOP),
    Row(",0", 4, [], STOP),
    Row("0,,1", 4, [0], STOP),
    Row("0 1", 4, [0], GUESS),
    Row("0;1", 4, [0], GUESS),
    Row('"0,1"', 4, [], STOP),
    Row("0\n", 4, [0], GUESS),
    Row("[0,1]", 4, [], STOP),
    # Numbers.
    Row("1gpu2,2ampere", 4, [1, 2], TORCH_TEST),
    Row("2, +3, -0, 5", 8, [2, 3, 0, 5], TORCH_TEST),
    Row("+1", 4, [1], TORCH_TEST),
    Row("-0", 4, [0], TORCH_TEST),
    Row("00", 4, [0], GUESS),
    Row("010", 12, [10], GUESS),
    Row("08", 12, [8], GUESS),
    Row("0x1", 4, [0], GUESS),
    Row("0-2", 4, [0], STRTOUL),
    Row("1e1", 12, [1], STRTOUL),
    Row("cuda:1", 4, [], STOP),
    Row("4294967296", 4, [], GUESS),
    Row("18446744073709551615", 4, [], GUESS),
    Row("18446744073709551616", 4, [], GUESS),
    Row("99999999999999999999", 4, [], GUESS),
    Row("-18446744073709551615", 4, [], GUESS),
    Row("+", 4, [], STOP),
    Row("0,-", 4, [0], STOP),
    Row("--1", 4, [], STOP),
    Row("+-0", 4, [], STOP),
    Row("- 0", 4, [], STOP),
    Row("\uff11", 4, [], "strtoul reads ASCII digits only"),
    Row("²", 4, [], "strtoul reads ASCII digits only"),
    # Words of other tools.
    Row("NoDevFiles", 4, [], STOP),
    Row("void", 4, [], STOP),
    Row("all", 4, [], STOP),
    Row("none", 4, [], STOP),
    Row("None", 4, [], STOP),
    # UUIDs.
    Row(UUIDS[1], 4, [1], GUIDE),
    Row(f"{UUIDS[2]},{UUIDS[0]}", 4, [2, 0], GUIDE),
    Row("GPU-e4,GPU-9d81f3c2", 8, [2, 1], TORCH_TEST),
    Row("GPU-9d81f3c2,GPU-1,GPU-5f", 8, [1, 7, 5], TORCH_TEST),
    Row("GPU-9d81f3c2-,GPU-5f39,GPU-ee62d0b4-1f95-4a3c", 8, [1, 5, 3], STAFF),
    Row("GPU-9d81f3c2,GPU-123,GPU-5f", 8, [1], TORCH_TEST),
    Row("GPU-123,GPU-9d81f3c2", 8, [], TORCH_TEST),
    Row("GPU-9d81f3c2,GPU-e,GPU-5f", 8, [1], TORCH_TEST),
    Row("GPU-e", 8, [], TORCH_TEST),
    Row("GPU-9d81f3c2,GPU-9d81f3c2", 8, [], TORCH_TEST),
    Row("GPU-9d81f3c2,GPU-5f,GPU-9d8", 8, [], TORCH_TEST),
    Row("GPU-9d81f3c2, 2", 8, [1], TORCH_TEST),
    Row("GPU-9d81f3c2,2", 8, [1], TORCH_TEST),
    Row("2,GPU-9d81f3c2", 8, [2], GUESS),
    Row("0,GPU-92a4b671", 8, [0], GUESS),
    Row("GPU-9d81f3c2, GPU-5f", 8, [1], GUESS),
    Row(" GPU-9d81f3c2", 8, [], GUESS),
    Row("GPU-9d81f3c2 ", 8, [], GUESS),
    Row("GPU-", 1, [], GUESS),
    Row("GPU-9D81F3C2", 8, [], GUESS),
    Row("gpu-9d81f3c2", 8, [], GUESS),
    Row(UUIDS[2].removeprefix("GPU-"), 8, [], STOP),
    Row("92a4b671-0d3e-4c58-9f10-6b7c2d8e4a05", 4, [], GUESS),
    Row("9d81f3c2-7b64-4e0a-8a55-13f0c6d29e77", 12, [9], GUESS),
    Row(UUIDS[1] + "x", 8, [], GUESS),
]


def equal_gpus(count: int) -> SimMachine:
    uuids = [*UUIDS, *(f"GPU-00000000-0000-4000-8000-{i:012x}" for i in range(count))]
    return SimMachine(tuple(SimGpu("A", uuids[i], f"{i // 200:08x}:{i % 200:02x}:00.0") for i in range(count)))


def faulty(machine: SimMachine, position: int, fault: Any) -> SimMachine:
    gpus = list(machine.gpus)
    gpus[position] = replace(gpus[position], fault=fault)
    return replace(machine, gpus=tuple(gpus))


@pytest.fixture(scope="session")
def build_dir() -> Path:
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as reason:
        pytest.skip(str(reason))


def run(env: Mapping[str, str], script: str, *arguments: str, python: str = sys.executable) -> Any:
    """What a fresh process prints, read as JSON."""
    command = [python, "-c", script, *arguments]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- the reading ----


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row.visible))
def test_visible_devices(build_dir: Path, row: Row) -> None:
    found = simdriver.enumerate_devices(build_dir, equal_gpus(row.gpus), None, row.visible)
    assert found == [(position, None) for position in row.expected], row.source


@pytest.mark.parametrize(
    ("order", "visible", "expected"),
    [
        (None, None, [1, 0, 2, 3]),  # the machine's own default order
        ("FASTEST_FIRST", None, [1, 0, 2, 3]),
        ("PCI_BUS_ID", None, [0, 1, 2, 3]),
        (None, "1,2", [0, 2]),  # integers count in CUDA's order, not nvidia-smi's
        ("PCI_BUS_ID", "1,2", [1, 2]),
        (None, "GPU-c2,GPU-b1", [2, 1]),  # UUIDs do not depend on it
        ("PCI_BUS_ID", "GPU-c2,GPU-b1", [2, 1]),
        *((odd, "0", [1]) for odd in ("", "pci_bus_id", "PCI_BUS_ID ", " PCI_BUS_ID", '"PCI_BUS_ID"', "garbage")),
    ],
)
def test_device_order(build_dir: Path, order: str | None, visible: str | None, expected: list[int]) -> None:
    assert [gpu for gpu, _ in simdriver.enumerate_devices(build_dir, MIXED, order, visible)] == expected


def test_pci_order_compares_integers_not_text(build_dir: Path) -> None:
    ids = ("00000001:01:00.0", "0000:af:00.0", "00000000:5E:01.0", "5E:00.0", "00000000:9:00.0", "10000:00:00.0")
    machine = SimMachine(tuple(SimGpu("A", f"GPU-{i}", pci) for i, pci in enumerate(ids)))
    assert [gpu for gpu, _ in simdriver.enumerate_devices(build_dir, machine, "PCI_BUS_ID", None)] == [4, 3, 2, 1, 0, 5]
    assert simdriver.enumerate_devices(build_dir, machine, None, None)[0] == (4, None)  # no default order given


@pytest.mark.parametrize("fault", ["lost", "no_permission", "unknown"])
def test_a_faulty_gpu_keeps_no_integer(build_dir: Path, fault: str) -> None:
    machine = faulty(MIXED, 0, fault)
    assert [gpu for gpu, _ in simdriver.enumerate_devices(build_dir, machine, None, None)] == [1, 2, 3]
    assert [gpu for gpu, _ in simdriver.enumerate_devices(build_dir, machine, None, "1,3")] == [2]
    assert simdriver.enumerate_devices(build_dir, machine, None, "GPU-a0") == []


# GPU 0 has two instances; GPU 1 is whole. (visible, R570 and later, before, source)
MIG_UUIDS = ("MIG-4b7f1c92-5d0e-5a63-8c14-2f9e8d7c6b5a", "MIG-c05a3e81-97b2-5f4d-a6e0-1b2c3d4e5f60")
MIG_MACHINE = SimMachine(
    (
        SimGpu(
            "A100", UUIDS[0], "07:00.0", (8, 0), mig_mode=True,
            mig=(SimMig(MIG_UUIDS[0], "3g.20gb", 9, 0), SimMig(MIG_UUIDS[1], "2g.10gb", 7, 0)),
        ),
        SimGpu("A100", UUIDS[2], "0F:00.0", (8, 0)),
    )
)  # fmt: skip
FIRST, SECOND, WHOLE = (0, 0), (0, 1), (1, None)
MIG_ROWS = [
    (MIG_UUIDS[0], [FIRST], [FIRST], MIG_GUIDE),
    (MIG_UUIDS[1], [SECOND], [SECOND], MIG_GUIDE),
    (f"{MIG_UUIDS[1]},{MIG_UUIDS[0]}", [SECOND, FIRST], [SECOND], MIG_GUIDE),
    (f"{MIG_UUIDS[0]},{MIG_UUIDS[0]}", [], [], TORCH_TEST),
    (f"MIG-{UUIDS[0]}/9/0", [FIRST], [FIRST], MIG_GUIDE),
    ("MIG-GPU-92a4b671/7/0", [SECOND], [SECOND], NVITOP),
    ("MIG-GPU-92a4b671/7/1", [], [], STOP),
    ("MIG-GPU-92a4b671/7", [], [], STOP),
    ("MIG-GPU-92a4b671/7/0x", [], [], GUESS),
    ("MIG-GPU-/7/0", [], [], GUESS),
    ("MIG-4b7f1c92", [], [], GUESS),
    ("MIG-", [], [], STOP),
    ("MIG-/", [], [], STOP),
    (f"{MIG_UUIDS[0]},{UUIDS[2]}", [FIRST], [FIRST], GUESS),
    (f"{UUIDS[2]},{MIG_UUIDS[0]}", [WHOLE], [WHOLE], GUESS),
    ("0", [FIRST], [FIRST], f"{MIG_GUIDE} before R570; {GUESS} after"),
    (UUIDS[0], [FIRST], [FIRST], GUESS),
    ("1", [WHOLE], [WHOLE], MIG_GUIDE),
    ("0,1", [FIRST, WHOLE], [FIRST], f"{MIG_GUIDE}: nothing whole beside a MIG device before R570"),
    ("1,0", [WHOLE, FIRST], [FIRST], f"{MIG_GUIDE}: nothing whole beside a MIG device before R570"),
    (None, [FIRST, SECOND, WHOLE], [FIRST], f"{MIG_GUIDE}; the order from R570 on is a guess"),
    ("", [], [], GUIDE),
]


@pytest.mark.parametrize(("visible", "expected", "before", "source"), MIG_ROWS, ids=[repr(row[0]) for row in MIG_ROWS])
def test_mig(build_dir: Path, visible: str | None, expected: list[Any], before: list[Any], source: str) -> None:
    for driver, devices in (("570.00", expected), ("610.1", expected), ("565.77", before), ("535.104.05", before)):
        machine = replace(MIG_MACHINE, driver_version=driver)
        assert simdriver.enumerate_devices(build_dir, machine, None, visible) == devices, (driver, source)


def test_one_compute_instance_of_each_gpu_instance(build_dir: Path) -> None:
    instances = [SimMig(f"MIG-{gi}{ci}", "1c.2g.10gb", gi, ci) for gi, ci in ((3, 0), (3, 1), (4, 0))]
    machine = SimMachine((SimGpu("A", "GPU-1", "01:00.0", mig_mode=True, mig=tuple(instances)),))
    assert simdriver.enumerate_devices(build_dir, machine, None, None) == [(0, 0), (0, 2)]
    assert simdriver.enumerate_devices(build_dir, machine, None, "MIG-31,MIG-40,MIG-30") == [(0, 1), (0, 2)]


def test_at_most_64_mig_devices(build_dir: Path) -> None:
    def split(number: int) -> SimGpu:
        instances = tuple(SimMig(f"MIG-{number}-{gi}", gpu_instance_id=gi) for gi in range(7))
        return SimGpu("A", f"GPU-{number}", f"{number:02x}:00.0", mig_mode=True, mig=instances)

    machine = SimMachine((*map(split, range(16)), SimGpu("A", "GPU-x", "F0:00.0")))
    found = simdriver.enumerate_devices(build_dir, machine, None, None)
    assert len(found) == 65
    assert found[63:] == [(9, 0), (16, None)]


def test_mig_mode_without_an_instance_is_no_device(build_dir: Path) -> None:
    machine = SimMachine((SimGpu("A", "GPU-1", "01:00.0", mig_mode=True), SimGpu("A", "GPU-2", "02:00.0")))
    assert simdriver.enumerate_devices(build_dir, machine, None, None) == [(1, None)]
    assert simdriver.enumerate_devices(build_dir, machine, None, "0") == [(1, None)]


def test_large_machines_and_many_calls(build_dir: Path) -> None:
    machine = equal_gpus(4096)
    backwards = ",".join(map(str, reversed(range(4096))))
    found = simdriver.enumerate_devices(build_dir, machine, None, backwards)
    assert [gpu for gpu, _ in found] == list(reversed(range(4096)))
    assert simdriver.enumerate_devices(build_dir, SimMachine(()), None, "0") == []


def test_the_reading_is_reentrant(build_dir: Path) -> None:
    def ask(number: int) -> bool:
        machine, value = (MIXED, "1,2") if number % 2 else (EIGHT_A100, "7,0,3")
        expected = [(0, None), (2, None)] if number % 2 else [(7, None), (0, None), (3, None)]
        return simdriver.enumerate_devices(build_dir, machine, None, value) == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(2000)))


@pytest.mark.parametrize(
    "machine",
    [
        replace(MIXED, default_order=(0, 1, 2)),
        replace(MIXED, default_order=(0, 1, 2, 2)),
        replace(MIXED, default_order=(0, 1, 2, 4)),
        SimMachine((SimGpu("A", "GPU-1", "nonsense"),)),
        replace(MIXED, processes=(SimProcess(4, 1),)),
        replace(MIXED, cuinit_code=-1),
    ],
    ids=["short order", "repeat", "out of range", "bus id", "process", "code"],
)
def test_malformed_machines_are_refused(build_dir: Path, machine: SimMachine) -> None:
    with pytest.raises(ValueError, match="malformed"):
        simdriver.enumerate_devices(build_dir, machine, None, None)


def test_texts_that_would_break_a_line_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        SimMachine((SimGpu("A\nfault lost", "GPU-1", "01:00.0"),)).text()
    with pytest.raises(ValueError, match="not in MIG mode"):
        SimMachine((SimGpu("A", "GPU-1", "01:00.0", mig=(SimMig("MIG-1"),)),)).text()


# ---- building ----


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(simdriver.SimdriverUnavailable, match=r"compiler|Linux"):
        simdriver.build(directory=tmp_path)


def test_two_processes_may_build_at_once(build_dir: Path, tmp_path: Path) -> None:
    script = "import sys, pathlib; from tests import simdriver; print(simdriver.build(None, pathlib.Path(sys.argv[1])))"
    root = Path(simdriver.__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path)]
    both = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = {process.communicate(timeout=120)[0].strip() for process in both}
    assert len(printed) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [Path(printed.pop()).name]


# ---- NVML, as nvidia-ml-py asks it ----

NVML_SCRIPT = """
import json, pynvml as n
def ask(function, *arguments):
    try:
        value = function(*arguments)
    except n.NVMLError as error:
        return -error.value
    return value.decode() if isinstance(value, bytes) else value
def describe(h):
    pci, memory, plain = n.nvmlDeviceGetPciInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2), n.nvmlDeviceGetMemoryInfo(h)
    assert (memory.total, memory.free, memory.used) == (plain.total, plain.free, plain.used)
    return dict(
        index=n.nvmlDeviceGetIndex(h), name=n.nvmlDeviceGetName(h), uuid=n.nvmlDeviceGetUUID(h),
        pci=[ask(lambda: pci.busId), ask(lambda: pci.busIdLegacy), pci.domain, pci.bus, pci.device], memory=[memory.total >> 20, memory.free >> 20, memory.used >> 20],
        minor=n.nvmlDeviceGetMinorNumber(h), numa=ask(n.nvmlDeviceGetNumaNodeId, h), cores=ask(n.nvmlDeviceGetNumGpuCores, h),
        cc=n.nvmlDeviceGetCudaComputeCapability(h), clock=n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM), is_mig=getattr(m := n.nvmlDeviceIsMigDeviceHandle(h), 'value', m),
        processes=[[p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId, p.computeInstanceId] for p in n.nvmlDeviceGetComputeRunningProcesses(h)])
def instance(parent, h):
    a = n.nvmlDeviceGetAttributes(h)
    assert n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(h)) == n.nvmlDeviceGetUUID(parent)
    return describe(h) | dict(gi=n.nvmlDeviceGetGpuInstanceId(h), ci=n.nvmlDeviceGetComputeInstanceId(h),
        slices=[a.gpuInstanceSliceCount, a.computeInstanceSliceCount], sm=a.multiprocessorCount, memory_mb=a.memorySizeMB)
gpus = []
code = ask(n.nvmlInit)
for i in range(n.nvmlDeviceGetCount() if code is None else 0):
    h = ask(n.nvmlDeviceGetHandleByIndex, i)
    if isinstance(h, int):
        gpus.append(h)
        continue
    gpu = describe(h) | dict(mig_mode=ask(n.nvmlDeviceGetMigMode, h), mig=[])
    for k in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):
        m = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, k)
        gpu["mig"].append(m if isinstance(m, int) else instance(h, m))
    found = [n.nvmlDeviceGetHandleByUUID(gpu["uuid"]), n.nvmlDeviceGetHandleByPciBusId(gpu["pci"][0].lower()), n.nvmlDeviceGetHandleByPciBusId(gpu["pci"][1])]
    assert [n.nvmlDeviceGetIndex(x) for x in found] == [i] * 3
    assert ask(n.nvmlDeviceGetHandleByUUID, gpu["uuid"][:12]) == -n.NVML_ERROR_NOT_FOUND
    gpus.append(gpu)
driver = cuda = None
if code is None:
    driver, cuda = n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetCudaDriverVersion_v2()
    n.nvmlShutdown()
    assert ask(n.nvmlDeviceGetCount) == -n.NVML_ERROR_UNINITIALIZED
print(json.dumps(dict(code=code, driver=driver, cuda=cuda, gpus=gpus)))
"""


@pytest.fixture(scope="session")
def pynvml(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed")
    directory = tmp_path_factory.mktemp("nvml")

    def ask(machine: SimMachine, **variables: str) -> Any:
        return run(simdriver.environment(machine, directory, build_dir) | variables, NVML_SCRIPT)

    return ask


def test_nvml_describes_the_machine(pynvml: Any) -> None:
    gpus = (replace(MIXED.gpus[0], minor_number=3, numa_node=1), *MIXED.gpus[1:])
    machine = replace(MIXED, gpus=gpus, processes=(SimProcess(1, 4711, 2048), SimProcess(1, 4712, 1000)))
    seen = pynvml(machine, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="FASTEST_FIRST")  # which NVML ignores
    assert (seen["driver"], seen["cuda"]) == ("535.104.05", 12020)
    assert [gpu["uuid"] for gpu in seen["gpus"]] == [gpu.uuid for gpu in MIXED.gpus]
    t4, ada = seen["gpus"][:2]
    assert (t4["index"], t4["name"], t4["cc"], t4["cores"]) == (0, "Tesla T4", [7, 5], 2560)
    assert t4["pci"] == ["00000000:5E:00.0", "0000:5E:00.0", 0, 0x5E, 0]
    assert (t4["minor"], t4["numa"], t4["memory"], t4["processes"]) == (3, 1, [15360, 15360, 0], [])
    assert (ada["minor"], ada["numa"], ada["cores"], ada["clock"]) == (1, -3, 16384, 2520)
    assert (ada["mig_mode"], ada["mig"], ada["is_mig"]) == (-3, [], 0)
    assert ada["memory"] == [24564, 24564 - 3048, 3048]
    whole = 0xFFFFFFFF
    assert ada["processes"] == [[4711, 2048, whole, whole], [4712, 1000, whole, whole]]


def test_nvml_mig(pynvml: Any) -> None:
    first, second = pynvml(replace(MIG_A100, processes=(SimProcess(0, 99, 512, mig=1),)))["gpus"]
    assert (first["mig_mode"], second["mig_mode"], second["mig"]) == ([1, 1], [0, 0], [])
    assert first["mig"][2:] == [-6] * 5
    assert first["processes"] == [[99, 512, 5, 0]]
    big, small = first["mig"][:2]
    assert (big["name"], big["uuid"]) == ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", MIG_A100.gpus[0].mig[0].uuid)
    assert (big["index"], big["gi"], big["ci"], big["slices"], big["sm"]) == (0, 1, 0, [3, 3], 42)
    assert (big["memory"], big["memory_mb"], big["processes"], big["is_mig"]) == ([19968, 19968, 0], 19968, [], 1)
    assert (small["index"], small["gi"], small["memory"]) == (1, 5, [9856, 9344, 512])
    assert (small["processes"], small["pci"], small["cores"]) == ([[99, 512, 5, 0]], first["pci"], -3)


def test_nvml_faults_keep_the_count_and_the_indices(pynvml: Any) -> None:
    machine = faulty(faulty(faulty(MIXED, 0, "lost"), 2, "no_permission"), 3, "unknown")
    seen = pynvml(machine)["gpus"]
    assert [seen[0], seen[2], seen[3]] == [-15, -4, -999]
    assert seen[1]["index"] == 1


@pytest.mark.parametrize("code", [9, 18, 999])
def test_nvml_may_not_start(pynvml: Any, code: int) -> None:
    assert pynvml(replace(MIXED, nvml_code=code)) == {"code": -code, "driver": None, "cuda": None, "gpus": []}


# ---- the driver, as a ctypes probe asks it ----

PROBE = """
import ctypes, json, os, sys, uuid
lib, i = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
def number(function, *arguments):
    code = function(ctypes.byref(i), *arguments)
    return i.value if code == 0 else -code
early = [number(lib.cuDeviceGetCount), number(lib.cuDeviceGet, 0), number(lib.cuDriverGetVersion)]
code = lib.cuInit(0)
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
again = lib.cuInit(0)
devices = []
for n in range(max(number(lib.cuDeviceGetCount), 0)):
    device = number(lib.cuDeviceGet, n)
    name, bus, raw, old, size = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32), (ctypes.c_ubyte * 16)(), (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
    assert lib.cuDeviceGetName(name, 256, device) == lib.cuDeviceGetPCIBusId(bus, 32, device) == 0
    assert lib.cuDeviceGetUuid_v2(raw, device) == lib.cuDeviceGetUuid(old, device) == lib.cuDeviceTotalMem_v2(ctypes.byref(size), device) == 0
    devices.append(dict(name=name.value.decode(), bus=bus.value.decode(), uuid=str(uuid.UUID(bytes=bytes(raw))), gpu_uuid=str(uuid.UUID(bytes=bytes(old))),
        mib=size.value >> 20, attributes=[number(lib.cuDeviceGetAttribute, a, device) for a in (75, 76, 16, 13, 50, 33, 34, 35, 18)]))
text = ctypes.c_char_p()
lib.cuGetErrorName(code, ctypes.byref(text))
late = [number(lib.cuDeviceGet, 99), lib.cuDeviceGetName(None, 0, 0), lib.cuInit(1), lib.cuModuleLoadData(None)]
child = os.fork()
if child == 0:
    os._exit(lib.cuInit(0) % 256)
forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
label = (ctypes.c_char * 9).in_dll(lib, "gpumap_simulated_driver").value.decode()
print(json.dumps(dict(early=early, code=code, again=again, error=text.value and text.value.decode(), late=late, forked=forked, label=label, devices=devices)))
"""


@pytest.fixture(scope="session")
def probe(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("cuda")

    def ask(machine: SimMachine, **variables: str) -> Any:
        return run(simdriver.environment(machine, directory, build_dir) | variables, PROBE)

    return ask


def test_probe_describes_the_devices(probe: Any) -> None:
    seen = probe(MIXED)
    assert (seen["early"], seen["code"], seen["error"]) == ([-3, -3, 12020], 0, "CUDA_SUCCESS")
    assert seen["label"] == "simulated"
    assert (seen["again"], len(seen["devices"])) == (0, 4)  # the second cuInit saw CUDA_VISIBLE_DEVICES=0: no effect
    assert (seen["late"], seen["forked"]) == ([-101, 1, 1, 801], 3)
    ada, t4 = seen["devices"][:2]
    assert ada == {
        "name": "NVIDIA GeForce RTX 4090",
        "bus": "0000:86:00.0",
        "uuid": "b1e18600-0000-4000-8000-000000000001",
        "gpu_uuid": "b1e18600-0000-4000-8000-000000000001",
        "mib": 24564,
        "attributes": [8, 9, 128, 2520000, 0, 0x86, 0, 0, 0],
    }
    assert (t4["name"], t4["attributes"][:3], t4["bus"]) == ("Tesla T4", [7, 5, 40], "0000:5E:00.0")


def test_probe_reads_the_environment(probe: Any) -> None:
    def buses(**variables: str) -> list[str]:
        return [device["bus"][5:7] for device in probe(MIXED, **variables)["devices"]]

    assert buses(CUDA_VISIBLE_DEVICES="1,2") == ["5E", "AF"]
    assert buses(CUDA_VISIBLE_DEVICES="1,2", CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["86", "AF"]


def test_probe_mig(probe: Any) -> None:
    seen = probe(MIG_A100)["devices"]
    assert [device["uuid"] for device in seen] == [
        *(instance.uuid.removeprefix("MIG-") for instance in MIG_A100.gpus[0].mig),
        MIG_A100.gpus[1].uuid.removeprefix("GPU-"),
    ]
    assert seen[0]["gpu_uuid"] == MIG_A100.gpus[0].uuid.removeprefix("GPU-")
    assert (seen[0]["name"], seen[0]["mib"]) == ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968)
    assert (seen[0]["attributes"][2], seen[1]["bus"]) == (42, "0000:07:00.0")


@pytest.mark.parametrize("code", [3, 34, 100, 101, 803, 999])
def test_cuinit_may_fail(probe: Any, code: int) -> None:
    seen = probe(replace(MIXED, cuinit_code=code))
    assert (seen["code"], seen["again"], seen["devices"], seen["early"][2]) == (code, code, [], 12020)


@pytest.mark.parametrize("visible", ["", "-1", "0,0", "GPU-nothing"])
def test_nothing_visible_is_no_device(probe: Any, visible: str) -> None:
    assert probe(MIXED, CUDA_VISIBLE_DEVICES=visible)["code"] == 100


def test_cuinit_may_be_slow_or_hang(build_dir: Path, tmp_path: Path) -> None:
    script = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    started = time.monotonic()
    assert run(simdriver.environment(replace(MIXED, cuinit_delay_ms=400), tmp_path, build_dir), script) == 0
    assert time.monotonic() - started >= 0.4
    hanging = simdriver.environment(replace(MIXED, cuinit_hang=True), tmp_path, build_dir)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", script], env=hanging, timeout=1.0, check=False)


def test_without_a_machine_file_both_say_so(build_dir: Path) -> None:
    script = (
        "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0), ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(build_dir)}
    env.pop("GPUMAP_SIM_MACHINE", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["999", "999"]
    assert done.stderr.count("no machine file") == 2


# ---- real torch ----


@pytest.fixture(scope="session")
def torch_build_dir(build_dir: Path) -> Path:
    include = simdriver.find_cuda_include(TORCH_PYTHON)
    if include is None:
        pytest.skip(f"{Path(TORCH_PYTHON).name} has no torch, a build without CUDA, or no CUDA headers")
    return simdriver.build(include)


# One import of torch for all machines: each gets a fork of its own, before anything has called cuInit.
TORCH_SCRIPT = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
def look():
    counted, available, initialised = torch.cuda.device_count(), torch.cuda.is_available(), torch.cuda.is_initialized()
    try:
        torch.cuda.init()
        error = None
    except RuntimeError as failure:
        error = str(failure)
    os.environ["CUDA_VISIBLE_DEVICES"] = "3"
    devices = []
    for i in range(torch.cuda.device_count() if error is None else 0):
        p = torch.cuda.get_device_properties(i)
        devices.append([p.name, str(p.uuid), [p.pci_domain_id, p.pci_bus_id, p.pci_device_id], p.total_memory >> 20, [p.major, p.minor], p.multi_processor_count])
        assert torch.cuda.get_device_capability(i) == (p.major, p.minor) and torch.cuda.get_device_name(i) == p.name
    refused = None
    if devices:
        torch.cuda.set_device(len(devices) - 1)
        assert torch.cuda.current_device() == len(devices) - 1 and torch.cuda.mem_get_info(0)[1] >> 20 == devices[0][3]
        try:
            torch.ones(1, device="cuda")
        except RuntimeError as failure:
            refused = type(failure).__name__
    return dict(counted=counted, available=available, initialised=initialised, error=error, devices=devices, refused=refused)
answers = []
for variables in json.loads(sys.argv[1]):
    r, w = os.pipe()
    if os.fork() == 0:
        os.environ.update(variables)
        os.write(w, json.dumps(look()).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        answers.append(pipe.read())
    os.wait()
print(json.dumps([json.loads(answer) for answer in answers]))
"""

LOST_T4 = faulty(MIXED, 0, "lost")
TORCH_RUNS: dict[str, tuple[SimMachine, dict[str, str]]] = {
    "nothing set": (MIXED, {}),
    "1,2": (MIXED, {"CUDA_VISIBLE_DEVICES": "1,2"}),
    "1,2 by bus": (MIXED, {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    "uuid": (MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-d3,GPU-b1"}),
    "nothing visible": (MIXED, {"CUDA_VISIBLE_DEVICES": "-1"}),
    "100": (replace(MIXED, cuinit_code=100), {}),
    "101": (replace(MIXED, cuinit_code=101), {}),
    "999": (replace(MIXED, cuinit_code=999), {}),
    "lost": (LOST_T4, {}),
    "mig": (MIG_A100, {}),
    "eight": (EIGHT_A100, {"CUDA_VISIBLE_DEVICES": "7,0"}),
}


@pytest.fixture(scope="session")
def torch_runs(torch_build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("torch")
    scenarios = []
    for machine, variables in TORCH_RUNS.values():
        file = simdriver.environment(machine, directory, torch_build_dir, {})["GPUMAP_SIM_MACHINE"]
        scenarios.append(variables | {"GPUMAP_SIM_MACHINE": file})
    env = simdriver.environment(MIXED, directory, torch_build_dir)
    return dict(zip(TORCH_RUNS, run(env, TORCH_SCRIPT, json.dumps(scenarios), python=TORCH_PYTHON), strict=True))


def expected_devices(machine: SimMachine, *positions: int) -> list[Any]:
    return [
        [
            gpu.name,
            gpu.uuid.removeprefix("GPU-"),
            [0, int(gpu.pci_bus_id.split(":")[1], 16), 0],
            gpu.memory_mib,
            list(gpu.compute_capability),
            gpu.sm_count,
        ]
        for gpu in (machine.gpus[position] for position in positions)
    ]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("nothing set", (1, 0, 2, 3)),
        ("1,2", (0, 2)),
        ("1,2 by bus", (1, 2)),
        ("uuid", (3, 1)),
        ("lost", (1, 2, 3)),
        ("eight", (7, 0)),
    ],
)
def test_torch_lists_the_devices(torch_runs: dict[str, Any], name: str, positions: tuple[int, ...]) -> None:
    seen = torch_runs[name]
    # is_available() is a cuInit that torch does not call initialised, and what is set afterwards has no effect.
    assert (seen["available"], seen["initialised"], seen["error"]) == (True, False, None)
    assert seen["devices"] == expected_devices(TORCH_RUNS[name][0], *positions)
    assert seen["refused"] is not None  # computing is what the stand-ins must not pretend


@pytest.mark.torch
def test_torch_counts_by_nvml_what_cuda_does_not_have(torch_runs: dict[str, Any]) -> None:
    assert (torch_runs["lost"]["counted"], len(torch_runs["lost"]["devices"])) == (4, 3)


@pytest.mark.torch
def test_torch_mig(torch_runs: dict[str, Any]) -> None:
    names = [device[0].removeprefix("NVIDIA A100-SXM4-40GB") for device in torch_runs["mig"]["devices"]]
    # NVML's two GPUs are three CUDA devices; torch of today believes NVML and lists two of them.
    assert names[:2] == [" MIG 3g.20gb", " MIG 2g.10gb"]
    assert torch_runs["mig"]["devices"][0][1] == MIG_A100.gpus[0].mig[0].uuid.removeprefix("MIG-")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing visible", "No CUDA GPUs"),
        ("100", "No CUDA GPUs"),
        ("101", "invalid device ordinal"),
        ("999", "unknown error"),
    ],
)
def test_torch_finds_no_device(torch_runs: dict[str, Any], name: str, says: str) -> None:
    seen = torch_runs[name]
    assert (seen["available"], seen["devices"]) == (False, [])
    assert says in seen["error"]


@pytest.mark.torch
def test_torch_in_a_fresh_process(torch_build_dir: Path, tmp_path: Path) -> None:
    script = (
        "import json, torch\n"
        "print(json.dumps([str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]))"
    )
    env = simdriver.environment(MIXED, tmp_path, torch_build_dir) | {"CUDA_VISIBLE_DEVICES": "1,2"}
    seen = run(env, script, python=TORCH_PYTHON)
    assert seen == [MIXED.gpus[i].uuid.removeprefix("GPU-") for i in (0, 2)]


@pytest.mark.torch
def test_ordinary_processes_do_not_notice(torch_build_dir: Path, tmp_path: Path) -> None:
    env = simdriver.environment(MIXED, tmp_path, torch_build_dir)
    maps = "import json; print(json.dumps('libcuda' in open('/proc/self/maps').read()))"
    assert run(env, maps) is False  # the preloaded shim opens the driver only when it is called
    done = subprocess.run(["sh", "-c", "echo fine"], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("fine\n", "")
