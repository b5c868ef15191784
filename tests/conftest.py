"""What several test modules share: profiles of Hypothesis, a way to ask the engine, a few machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, settings

from gpumap_widgets.mapping import Prediction, Process
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.sources.presets import preset
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.live_tools import driven, libraries, place  # noqa: F401 - fixtures

SOAK = os.environ.get("GPUMAP_SOAK") == "1"
"""Whether the long runs are wanted."""

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=_QUIET)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None, print_blob=True)
settings.register_profile("soak", settings.get_profile("default"), max_examples=2000)
settings.load_profile("soak" if SOAK else "ci" if os.environ.get("CI") else "default")

UUIDS = (
    "GPU-3f8a1c27-51d0-4b6e-9a02-c7d4e8f10b35",
    "GPU-3f8b9e40-0c6d-47a1-8e5b-2d91f6a3c074",
    "GPU-7d20b5e9-e843-4f1c-b760-51a8c2d9e6f7",
    "GPU-a94c0f16-2b7d-4e95-83c8-f06e1d2a5b49",
    "GPU-a9e75d38-c410-4a2f-9d61-08b3f7e2c5a4",
    "GPU-c51e2a90-f6b4-4d08-a7e3-9b0c4d8f1627",
    "GPU-e602d7b1-085f-49c3-bd12-6a7f8e9d0c3b",
    "GPU-05b3f8c4-9ae2-4617-8f90-d4c1b2a3e586",
)
"""Invented. "GPU-3f8" begins two of them, "GPU-3" too, "GPU-a9" two, "GPU-7", "GPU-c5" and "GPU-e6" one each."""

SLICES = ("MIG-6c1f0a52-7e3d-5b84-9c06-a1d2e3f40b57", "MIG-d80e4b93-15a7-5c62-8f3e-7b6a5948c0d1")
"""UUIDs of the two MIG devices of `split`."""


def equal(count: int, driver: str | None = "575.57.08") -> Topology:
    """A machine with so many equal GPUs, with addresses and UUIDs."""
    uuids = [*UUIDS, *(f"GPU-b{i:07x}-0000-4000-8000-{i:012x}" for i in range(count))]
    gpus = (
        Gpu(i, "NVIDIA A100-SXM4-40GB", uuids[i], f"{i // 32:04x}:{i % 32 + 1:02x}:00.0", 40960, (8, 0), 108)
        for i in range(count)
    )
    return Topology(tuple(gpus), driver_version=driver)


def split(driver: str | None = "575.57.08") -> Topology:
    """Two GPUs, the first one cut into two MIG devices: GPU instances 9 and 7, a compute instance in each."""
    slices = (MigInstance(SLICES[0], "3g.20gb", 9, 0), MigInstance(SLICES[1], "2g.10gb", 7, 0))
    first = Gpu(0, "NVIDIA A100-SXM4-40GB", UUIDS[0], "07:00.0", mig_mode=True, mig_instances=slices)
    return Topology(
        (first, Gpu(1, "NVIDIA A100-SXM4-40GB", UUIDS[2], "0F:00.0", mig_mode=False)), driver_version=driver
    )


MIXED = preset("mixed")
"""The machine of the tutorials: T4 at 5E, RTX 4090 at 86, T4 at AF, T4 at D8."""


def predict(machine: Topology, visible: str | None = None, order: str | None = None) -> Prediction:
    """What the engine says of a process with these two variables; None is unset."""
    return resolve(Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": order}))


def process(machine: Topology, visible: str | None = None, order: str | None = None) -> Process:
    """The one process of `predict`."""
    return predict(machine, visible, order).processes[0]


def pairs(shown: Process) -> list[tuple[int, int | None]]:
    """Its devices as (position of the GPU, number of the MIG instance), by ordinal."""
    return [
        (d.position, None if d.mig is None else next(i for i, m in enumerate(d.gpu.mig_instances) if m is d.mig))
        for d in shown.devices
    ]


def listed(numbers: Sequence[object]) -> str:
    """Entries as a list for CUDA_VISIBLE_DEVICES."""
    return ",".join(map(str, numbers))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test's runs measured is no news to another's."""
    monkeypatch.setenv("GPUMAP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """In CI a skip means that something is missing there: a failure. Only hardware, foreign tools and long runs may be absent."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    excused = any(map(item.get_closest_marker, ("gpu", "tool"))) or (item.get_closest_marker("soak") and not SOAK)
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") and not excused:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason}"
