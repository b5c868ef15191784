"""What the tests of live runs share: torches of a few lines, a clean place, and looks at processes."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpumap_widgets.live import folder
from gpumap_widgets.live.run import Run
from gpumap_widgets.mapping import Observation
from gpumap_widgets.scenario import is_relevant
from gpumap_widgets.topology import Gpu, Topology
from tests import simdriver
from tests.simdriver import SimMachine

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

FAKE_TORCH = '''
"""A torch of a few lines: two GPUs, and whatever FAKE_TORCH says happens when CUDA starts."""
import os
from types import SimpleNamespace

__version__ = "2.9.0+fake"
version = SimpleNamespace(cuda="13.0", hip=None)
backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True))
exec(os.environ.get("FAKE_TORCH_IMPORT", ""))

def _init():
    exec(os.environ.get("FAKE_TORCH", ""))

def _properties(i):
    told = dict(name=f"Fake {i}", total_memory=i + 1 << 30, major=8, minor=9)
    told |= dict(uuid=f"0000000{i}-1111-4222-8333-444444444444", pci_bus_id=0x80 + i, pci_device_id=0, pci_domain_id=0)
    return SimpleNamespace(**{k: v for k, v in told.items() if k not in os.environ.get("FAKE_TORCH_LACKS", "")})

cuda = SimpleNamespace(init=_init, device_count=lambda: 2, get_device_properties=_properties)
_C = SimpleNamespace(_cuda_getDeviceCount=lambda: 2)
'''
HOLDING_THE_LOCK = "import ctypes; ctypes.PyDLL(None).sleep(100)"
"""What a hanging driver looks like from Python: no other thread runs, and no signal handler."""
TWO = Topology(
    tuple(Gpu(i, f"Fake {i}", f"GPU-0000000{i}-1111-4222-8333-444444444444", f"{0x80 + i:x}:00.0") for i in range(2)),
    default_order=(0, 1),
    default_order_measured=True,
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for everything, the fake torch in the way of a real one, a clean environment."""
    (tmp_path / "site" / "torch").mkdir(parents=True)
    (tmp_path / "site" / "torch" / "__init__.py").write_text(FAKE_TORCH)
    for name in [name for name in os.environ if is_relevant(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(folder, "_LONGEST_SOCKET_PATH", 107)  # pytest's folders are deep
    return tmp_path


def kernelspec(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, **spec: Any) -> str:
    """Install a kernelspec; by default one for this interpreter."""
    directory = place / "jupyter" / "kernels" / name
    directory.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (directory / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": name, "language": "python"} | spec)
    )
    monkeypatch.setenv("JUPYTER_PATH", str(place / "jupyter"))
    return name


def ask(env: Mapping[str, str] | None = None, **options: Any) -> Observation:
    return Run(env or {}, **options).start().result()


def children(of: int | None = None) -> set[int]:
    """Processes, zombies too, whose parent is this one."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == (of or os.getpid()):
            found.add(int(status.parent.name))
    return found


def eventually(what: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"  # its parent is not ours
    except OSError:
        return True


def left_in(place: Path) -> list[str]:
    return [path.name for path in (place / "tmp").iterdir()]


DRIVEN_TORCH = '''
"""A torch of a few lines on top of the driver that is there; it loads in no time."""
import ctypes, os
from types import SimpleNamespace

__version__ = "2.9.0+driven"
version = SimpleNamespace(cuda="13.0", hip=None)
backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True))
_started = []
exec(os.environ.get("FAKE_TORCH_IMPORT", ""))

def _driver():
    return ctypes.CDLL("libcuda.so.1")

def _init():
    if _driver().cuInit(0):
        raise RuntimeError("No CUDA GPUs are available")
    _started.append(1)
    exec(os.environ.get("FAKE_TORCH", ""))

def _count():
    count = ctypes.c_int()
    return 0 if _driver().cuDeviceGetCount(ctypes.byref(count)) else count.value

def _properties(i):
    name, raw = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
    _driver().cuDeviceGetName(name, 256, i)
    _driver().cuDeviceGetUuid_v2(raw, i)
    digits = bytes(raw).hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    told = dict(name=name.value.decode(), total_memory=1 << 30, major=8, minor=9, uuid=uuid)
    return SimpleNamespace(**{k: v for k, v in told.items() if k not in os.environ.get("FAKE_TORCH_LACKS", "")})

cuda = SimpleNamespace(init=_init, device_count=_count, get_device_properties=_properties, is_initialized=lambda: bool(_started))
_C = SimpleNamespace(_cuda_getDeviceCount=_count)
'''


def described(machine: SimMachine) -> Topology:
    """The machine as NVML tells it. Its CUDA order is not part of that: the prediction finds it by its own rules."""
    gpus = tuple(
        Gpu(i, g.name, g.uuid, g.pci_bus_id, g.memory_mib, g.compute_capability, g.sm_count, problem=g.fault)
        for i, g in enumerate(machine.gpus)
    )
    return Topology(gpus, driver_version=machine.driver_version)


Driven = Callable[..., None]


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The stand-ins for the driver's libraries, built before any test has a temporary folder of its own."""
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))


@pytest.fixture
def driven(libraries: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Driven:
    """Puts this process, and what it starts, on a simulated machine, with a torch of a few lines on top of it."""
    (place / "site" / "torch" / "__init__.py").write_text(DRIVEN_TORCH)

    def on(machine: SimMachine, built: Path = libraries) -> None:
        for name, value in simdriver.environment(machine, place, built, dict(os.environ)).items():
            if os.environ.get(name) != value:
                monkeypatch.setenv(name, value)

    return on
