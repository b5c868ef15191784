"""A simulated NVIDIA driver: real ``torch.cuda`` and pynvml on machines that are not here.

Three small C libraries (this directory) stand in for NVML, the CUDA driver and the part of the CUDA runtime
that counts and describes devices. :func:`build` compiles them, :func:`environment` is what a process needs to
find itself on a :class:`SimMachine`. Nothing here computes: a result confirms the code path, not hardware.

The reading of ``CUDA_DEVICE_ORDER`` and ``CUDA_VISIBLE_DEVICES`` is in ``enumerate.h``;
:func:`enumerate_devices` asks it directly, without a process.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = [
    "EIGHT_A100",
    "MIG_A100",
    "MIXED",
    "SimGpu",
    "SimLink",
    "SimMachine",
    "SimMig",
    "SimProcess",
    "SimdriverUnavailable",
    "build",
    "enumerate_devices",
    "environment",
    "find_cuda_include",
]

Fault = Literal["lost", "no_permission", "unknown", "operating_system", "reset", "lost_late"]
"""What NVML answers for a GPU; ``lost_late``: the handle is given, and every call with it says that the GPU is lost."""
Level = Literal["PSB", "PIX", "PXB", "PHB", "NODE", "SYS"]

_HERE = Path(__file__).resolve().parent
_LIBRARIES = {"nvml.c": "libnvidia-ml.so.1", "cuda.c": "libcuda.so.1"}
_SHIM = {"cudart.c": "libgpumap-sim-cudart.so"}
_LEVELS = {"PSB": 0, "PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}  # nvmlGpuTopologyLevel_t
_SM_PER_MIG_SLICE = 14  # of an A100


class SimdriverUnavailable(Exception):
    """The stand-ins cannot be built here; the message says why, for a skipped test."""


@dataclass(frozen=True)
class SimMig:
    """One compute instance; its NVML index under the GPU is its place in :attr:`SimGpu.mig` unless it says another."""

    uuid: str
    profile: str = "1g.5gb"
    gpu_instance_id: int = 0
    compute_instance_id: int = 0
    memory_mib: int = 4864
    sm_count: int | None = None
    mig_index: int | None = None

    def _lines(self) -> list[str]:
        slices = re.match(r"(\d+)[cg]", self.profile)
        derived = _SM_PER_MIG_SLICE * int(slices[1]) if slices else 0
        return [
            f"mig {_text(self.uuid)}",
            f"profile {_text(self.profile)}",
            f"gi {self.gpu_instance_id}",
            f"ci {self.compute_instance_id}",
            f"mig_memory_mib {self.memory_mib}",
            f"mig_sm {derived if self.sm_count is None else self.sm_count}",
            *([] if self.mig_index is None else [f"mig_index {self.mig_index}"]),
        ]


@dataclass(frozen=True)
class SimGpu:
    """One GPU. A fault is what NVML answers when asked for its handle; CUDA then leaves it out."""

    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: tuple[int, int] = (8, 9)
    sm_count: int = 128
    memory_mib: int = 24564
    clock_mhz: int = 1500
    minor_number: int | None = None  # None: its position
    numa_node: int | None = None
    fault: Fault | None = None
    mig_mode: bool = False
    mig: tuple[SimMig, ...] = ()
    nvswitch_links: int = 0

    def _lines(self) -> list[str]:
        if self.mig and not self.mig_mode:
            raise ValueError(f"{self.name} has MIG instances but is not in MIG mode")
        lines = [
            "gpu",
            f"name {_text(self.name)}",
            f"uuid {_text(self.uuid)}",
            f"pci {_text(self.pci_bus_id)}",
            "cc {}.{}".format(*self.compute_capability),
            f"sm {self.sm_count}",
            f"memory_mib {self.memory_mib}",
            f"clock_mhz {self.clock_mhz}",
            f"mig_mode {int(self.mig_mode)}",
            f"nvswitch {self.nvswitch_links}",
        ]
        optional = {"minor": self.minor_number, "numa": self.numa_node, "fault": self.fault}
        lines += [f"{key} {value}" for key, value in optional.items() if value is not None]
        for instance in self.mig:
            lines += instance._lines()
        return lines


@dataclass(frozen=True)
class SimProcess:
    """A process that NVML reports; its memory is no longer free."""

    gpu: int  # position
    pid: int
    memory_mib: int | None = 0  # None: NVML does not tell
    mig: int | None = None  # place of the instance under the GPU


@dataclass(frozen=True)
class SimLink:
    """How two GPUs are linked; NVML tells nothing of pairs without one."""

    a: int  # positions
    b: int
    level: Level = "SYS"
    nvlinks: int = 0


@dataclass(frozen=True)
class SimMachine:
    """A machine with its GPUs in NVML order, a GPU's index there being its position.

    ``default_order`` are positions in CUDA's default order (None: PCI order); it may contradict every
    prediction. ``cuinit_code`` and ``nvml_code`` make the whole driver fail with that code.
    """

    gpus: tuple[SimGpu, ...]
    driver_version: str = "575.57.08"
    cuda_version: int = 13000  # 1000 * major + 10 * minor
    default_order: tuple[int, ...] | None = None
    cuinit_code: int = 0
    cuinit_delay_ms: int = 0
    cuinit_hang: bool = False
    nvml_code: int = 0
    processes: tuple[SimProcess, ...] = ()
    links: tuple[SimLink, ...] = ()
    shutdown_code: int = 0  # of nvmlShutdown, which shuts down all the same
    hide: Literal["pids", "amounts"] | None = None  # what NVML does not tell of processes

    def text(self) -> str:
        """The machine file, as ``machine.h`` describes it."""
        lines = [
            f"driver {_text(self.driver_version)}",
            f"cuda {self.cuda_version}",
            f"cuinit_code {self.cuinit_code}",
            f"cuinit_delay_ms {self.cuinit_delay_ms}",
            f"cuinit_hang {int(self.cuinit_hang)}",
            f"nvml_code {self.nvml_code}",
            f"shutdown_code {self.shutdown_code}",
            f"hide_pids {(None, 'pids', 'amounts').index(self.hide)}",
        ]
        if self.default_order is not None and self.gpus:
            lines.append("default_order " + " ".join(map(str, self.default_order)))
        for gpu in self.gpus:
            lines += gpu._lines()
        for process in self.processes:
            instance = -1 if process.mig is None else process.mig
            memory = -1 if process.memory_mib is None else process.memory_mib
            lines.append(f"process {process.gpu} {instance} {process.pid} {memory}")
        lines += [f"link {link.a} {link.b} {_LEVELS[link.level]} {link.nvlinks}" for link in self.links]
        return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    if not value or "\n" in value or "\0" in value or value != value.strip():
        raise ValueError(f"a machine file cannot hold the text {value!r}")
    return value


def find_cuda_include(python: str = sys.executable) -> Path | None:
    """The CUDA headers in the environment of that interpreter, of the same major version as its torch.

    None when it has no torch, a torch without CUDA, or no such headers. Does not import torch.
    """
    script = (
        "import importlib.util as u, json, pathlib as p\n"
        "s = u.find_spec('torch')\n"
        "r = p.Path(s.origin).parent if s and s.origin else None\n"
        "print(json.dumps([str(r.parent), (r / 'version.py').read_text()] if r else ['', '']))\n"
    )
    run = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    packages, version_py = json.loads(run.stdout)
    cuda = re.search(r"^cuda\b.*'(\d+)\.", version_py, re.MULTILINE)
    if cuda is None:
        return None
    site = Path(packages)
    places = [*site.glob("nvidia/*/include"), site / "triton/backends/nvidia/include"]
    for place in places:
        header = place / "cuda_runtime_api.h"
        if header.is_file() and (place / "driver_types.h").is_file():
            version = re.search(r"define\s+CUDART_VERSION\s+(\d+)", header.read_text(errors="replace"))
            if version and int(version[1]) // 1000 == int(cuda[1]):
                return place
    return None


def build(cuda_include: Path | None = None, directory: Path | None = None) -> Path:
    """Compile the stand-ins once and return the directory they are in; later calls find them there.

    ``cuda_include`` (see :func:`find_cuda_include`) adds the runtime shim that torch needs. ``directory`` is
    where builds are kept, by default one of the user's own under the temporary directory.
    """
    if sys.platform != "linux":
        raise SimdriverUnavailable("the simulated driver is for Linux only")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SimdriverUnavailable("no C compiler (cc or gcc) on PATH")
    parts = _LIBRARIES if cuda_include is None else _LIBRARIES | _SHIM
    key = hashlib.sha256(repr((compiler, str(cuda_include), sorted(parts))).encode())
    for source in sorted([*_HERE.rglob("*.c"), *_HERE.rglob("*.h"), Path(__file__)]):
        key.update(source.read_bytes())
    if cuda_include is not None:
        key.update((cuda_include / "driver_types.h").read_bytes())  # an upgrade keeps the path
    root = directory or Path(tempfile.gettempdir()) / f"gpumap-simdriver-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise SimdriverUnavailable(f"{root} belongs to somebody else")
    target = root / key.hexdigest()[:20]
    if target.is_dir():
        return target
    # Compiled aside and moved into place whole: whoever comes second finds a complete build and keeps it.
    with tempfile.TemporaryDirectory(dir=root, prefix="building-") as scratch:
        staged = Path(scratch) / "build"
        staged.mkdir()
        for name, soname in parts.items():
            _compile(compiler, _HERE / name, staged / soname, cuda_include)
        try:
            staged.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target


def _compile(compiler: str, source: Path, library: Path, include: Path | None) -> None:
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared"]
    if include is not None:
        command += ["-isystem", str(include), "-idirafter", str(_HERE)]  # crt/ here, where the headers lack it
    command += [f"-Wl,-soname,{library.name}", str(source), "-o", str(library), "-pthread", "-ldl"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if run.returncode == 0:
        return
    trivial = "#include <stdio.h>\n#include <pthread.h>\nint main(void) { return 0; }\n"
    check = subprocess.run(
        [compiler, "-x", "c", "-fsyntax-only", "-"], input=trivial, capture_output=True, text=True, check=False
    )
    if check.returncode != 0:
        raise SimdriverUnavailable(f"{compiler} cannot compile a trivial program: {check.stderr.strip()}")
    raise RuntimeError(f"{source.name} does not compile:\n{run.stderr}")


def environment(
    machine: SimMachine, directory: Path, build_dir: Path, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A complete environment for a process on that machine, whose file is written to ``directory``.

    Without ``base`` it is this process's own, less the two variables under test; a given ``base`` is kept whole.
    """
    if base is None:
        tested = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
        base = {name: value for name, value in os.environ.items() if name not in tested}
    content = machine.text().encode()
    path = directory / f"machine-{hashlib.sha256(content).hexdigest()[:16]}.txt"
    path.write_bytes(content)
    env = dict(base) | {"GPUMAP_SIM_MACHINE": str(path)}
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(build_dir), base.get("LD_LIBRARY_PATH")]))
    shim = build_dir / _SHIM["cudart.c"]
    if shim.exists():
        # LD_PRELOAD is split at blanks and colons: a path with one is looked up by name in LD_LIBRARY_PATH.
        name = shim.name if re.search(r"[\s:]", str(shim)) else str(shim)
        env["LD_PRELOAD"] = " ".join(filter(None, [name, base.get("LD_PRELOAD")]))
    return env


@functools.lru_cache(maxsize=8)
def _reading(build_dir: Path) -> Callable[..., int]:
    function = ctypes.CDLL(str(build_dir / "libcuda.so.1")).gpumap_sim_enumerate
    text, integer = ctypes.c_char_p, ctypes.c_int
    function.argtypes = [text, text, text, ctypes.POINTER(integer), integer]
    function.restype = integer
    return function


@functools.lru_cache(maxsize=64)
def _encoded(machine: SimMachine) -> bytes:
    return machine.text().encode()


def enumerate_devices(
    build_dir: Path, machine: SimMachine, device_order: str | None, visible_devices: str | None
) -> list[tuple[int, int | None]]:
    """What CUDA would list, by ordinal: (position of the GPU, index of its MIG instance or None).

    None for a variable is unset, which is not the empty string. Failures of cuInit as a whole play no part.
    """
    capacity = sum(1 + len(gpu.mig) for gpu in machine.gpus)
    out = (ctypes.c_int * capacity)()
    values = [None if value is None else os.fsencode(value) for value in (device_order, visible_devices)]
    count = _reading(build_dir)(_encoded(machine), *values, out, capacity)
    if count < 0:
        raise ValueError(f"gpumap_sim_enumerate: {({-1: 'malformed machine', -2: 'capacity', -3: 'memory'})[count]}")
    return [(code & 0xFFFF, (code >> 16) - 1 if code >> 16 else None) for code in out[:count]]


def _t4(bus: str, number: int) -> SimGpu:
    uuid = f"GPU-{('a0e15e00', '', 'c2e1af00', 'd3e1d800')[number]}-0000-4000-8000-{number:012d}"
    return SimGpu("Tesla T4", uuid, f"00000000:{bus}:00.0", (7, 5), 40, 15360, clock_mhz=1590)


#: The tutorials' server: three T4s and a 4090 that CUDA puts first.
MIXED = SimMachine(
    gpus=(
        _t4("5E", 0),
        SimGpu(
            "NVIDIA GeForce RTX 4090",
            "GPU-b1e18600-0000-4000-8000-000000000001",
            "00000000:86:00.0",
            (8, 9),
            128,
            24564,
            clock_mhz=2520,
        ),
        _t4("AF", 2),
        _t4("D8", 3),
    ),
    driver_version="535.104.05",
    cuda_version=12020,
    default_order=(1, 0, 2, 3),
)


def _a100(bus: str, number: int, mig_mode: bool = False, mig: tuple[SimMig, ...] = ()) -> SimGpu:
    return SimGpu(
        "NVIDIA A100-SXM4-40GB",
        f"GPU-{0xA1000000 + number:08x}-0000-4000-8000-{number:012d}",
        f"00000000:{bus}:00.0",
        (8, 0),
        108,
        40960,
        clock_mhz=1410,
        numa_node=0 if int(bus, 16) < 0x80 else 1,
        mig_mode=mig_mode,
        mig=mig,
    )


#: Eight equal cards.
EIGHT_A100 = SimMachine(
    gpus=tuple(_a100(bus, i) for i, bus in enumerate(("07", "0F", "47", "4E", "87", "90", "B7", "BD")))
)

#: Two cards, the first of them split into two MIG devices.
MIG_A100 = SimMachine(
    gpus=(
        _a100(
            "07",
            0,
            mig_mode=True,
            mig=(
                SimMig("MIG-3a100000-0000-5000-8000-000000000000", "3g.20gb", 1, 0, 19968),
                SimMig("MIG-2a100001-0000-5000-8000-000000000001", "2g.10gb", 5, 0, 9856),
            ),
        ),
        _a100("0F", 1),
    )
)
