"""The measured default order: what shows one, how it is kept, and what is never taken for one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpumap_widgets.certainty import Certainty
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.identity import bare_uuid
from gpumap_widgets.mapping import Message, Observation, ObservedDevice
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.sources.capsule import Capsule
from gpumap_widgets.sources.remembered import CACHE_DIR, recall, remember
from gpumap_widgets.topology import Gpu, Topology
from tests import simdriver
from tests.conftest import UUIDS, split
from tests.simdriver import MIXED

BOX = Topology(
    tuple(
        Gpu(i, name, UUIDS[i], f"{0x10 * (i + 1):02x}:00.0", 16384)
        for i, name in enumerate(("Tesla T4", "RTX 4090", "Tesla T4", "RTX 3090"))
    ),
    driver_version="575.57.08",
)
ORDER = (3, 1, 0, 2)
"""What no rule would foretell."""
STARTED = "2026-03-01T12:00:00+01:00"


def seen(order: tuple[int, ...] = ORDER, machine: Topology = BOX, **more: Any) -> Observation:
    """A run that showed these GPUs, in this order."""
    devices = tuple(
        ObservedDevice(i, bare_uuid(machine.gpus[place].uuid or ""), machine.gpus[place].name, None, None, None)
        for i, place in enumerate(order)
    )
    given: dict[str, Any] = {"devices": devices, "started": STARTED, "versions": FrozenDict({"driver": "575.57.08"})}
    return Observation(**{**given, **more})


def files() -> list[Path]:
    return sorted(Path(os.environ[CACHE_DIR]).rglob("*"))


def test_what_was_measured_is_used_and_labelled() -> None:
    assert recall(BOX) is BOX
    assert remember(seen(), BOX)
    known = recall(BOX)
    assert (known.default_order, known.default_order_measured, known.default_order_date) == (ORDER, True, STARTED)
    prediction = resolve(Scenario.from_env(known, {}))
    assert prediction.nvml_indices == ORDER
    assert prediction.certainty is Certainty.CERTAIN
    said = next(str(step) for step in prediction.steps if step.stage == "order")
    assert "measured on this machine on 2026-03-01" in said
    assert resolve(Scenario.from_env(BOX, {})).certainty is not Certainty.CERTAIN


def test_the_latest_run_counts() -> None:
    remember(seen(), BOX)
    remember(seen((0, 1, 2, 3)), BOX)
    assert recall(BOX).default_order == (0, 1, 2, 3)
    assert len([path for path in files() if path.is_file()]) == 1


@pytest.mark.parametrize(
    ("env", "order", "kept"),
    [
        ({}, ORDER, ORDER),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ORDER, ORDER),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, ORDER, ORDER),
        ({"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, ORDER[::-1], ORDER),
        ({"CUDA_VISIBLE_DEVICES": "2,0,3,1"}, (0, 3, 2, 1), ORDER),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, (0, 3), None),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,03"}, ORDER, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,+3"}, ORDER, None),
        ({"CUDA_VISIBLE_DEVICES": ",".join(UUIDS[:4])}, (0, 1, 2, 3), None),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, (0, 1, 2, 3), None),
        ({"CUDA_DEVICE_ORDER": ""}, ORDER, None),
        ({"CUDA_DEVICE_ORDER": "fastest_first"}, ORDER, None),
        ({"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"}, ORDER, None),
    ],
)
def test_which_runs_show_it(env: Mapping[str, str], order: tuple[int, ...], kept: tuple[int, ...] | None) -> None:
    assert remember(seen(order, env=FrozenDict(env)), BOX) is (kept is not None)
    assert recall(BOX).default_order == kept


STRANGER = ObservedDevice(0, bare_uuid(UUIDS[7]), None, None, None, None)


@pytest.mark.parametrize(
    "run",
    [
        seen(problem=Message("live.no-driver")),
        seen(started=""),
        seen(started="yesterday"),
        seen(ORDER[:3]),
        seen(devices=(*seen().devices, STRANGER)),
        seen(devices=(*seen().devices[:3], STRANGER)),
        seen(devices=(*seen().devices[:3], seen().devices[0])),
        seen(devices=tuple(replace(device, uuid=None) for device in seen().devices)),
        seen(versions=FrozenDict({"driver": "580.1"})),
        seen(devices=()),
    ],
)
def test_runs_that_show_none(run: Observation) -> None:
    assert not remember(run, BOX)
    assert files() == []


@pytest.mark.parametrize(
    "machine",
    [
        replace(BOX, gpus=BOX.gpus[:3]),
        replace(BOX, driver_version="580.1"),
        replace(BOX, driver_version=None),
        replace(BOX, simulated=True),
        replace(BOX, gpus=(*BOX.gpus[:3], replace(BOX.gpus[3], uuid=UUIDS[6]))),
        replace(BOX, gpus=(*BOX.gpus[:3], replace(BOX.gpus[3], uuid=None))),
        replace(BOX, gpus=(*BOX.gpus[:3], replace(BOX.gpus[3], problem="lost."))),
        replace(BOX, gpus=(*BOX.gpus[:3], replace(BOX.gpus[3], pci_bus_id="F0:00.0"))),
        replace(
            BOX,
            gpus=tuple(replace(gpu, pci_bus_id=BOX.gpus[3 - i].pci_bus_id) for i, gpu in enumerate(BOX.gpus)),
        ),
    ],
)
def test_another_machine_has_nothing_of_it(machine: Topology) -> None:
    assert remember(seen(), BOX)
    assert recall(machine) is machine


def test_numbers_of_nvml_may_change_and_the_order_follows_the_boards() -> None:
    remember(seen(), BOX)
    turned = replace(BOX, gpus=tuple(replace(gpu, nvml_index=i) for i, gpu in enumerate(reversed(BOX.gpus))))
    assert recall(turned).default_order == tuple(3 - place for place in ORDER)


def test_what_a_source_told_stays() -> None:
    remember(seen(), BOX)
    told = replace(BOX, default_order=(0, 1, 2, 3))
    assert recall(told) is told


def test_a_simulated_driver_is_kept_apart() -> None:
    """In both directions: what it shows says nothing of the real boards with those UUIDs."""
    remember(seen(simulated=True), BOX)
    assert recall(BOX).default_order is None
    assert recall(replace(BOX, simulated=True)).default_order == ORDER
    remember(seen((0, 1, 2, 3)), BOX)
    assert recall(BOX).default_order == (0, 1, 2, 3)
    assert recall(replace(BOX, simulated=True)).default_order == ORDER


def test_mig_and_single_gpus_have_none() -> None:
    machine = split()
    assert not remember(seen((0, 1), machine), machine)
    one = replace(BOX, gpus=BOX.gpus[:1])
    assert not remember(seen((0,), one), one)


def test_a_description_of_this_machine_without_a_driver_version_learns_from_the_run() -> None:
    pasted = replace(BOX, driver_version=None)
    assert remember(seen(), pasted)
    assert recall(BOX).default_order == ORDER


GARBAGE = [
    b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"gpumap_order": 2}', b'{"gpumap_order": 1}', b"[" * 100_000,
    b'{"gpumap_order": 1, "measured": 5, "order": []}', b'{"gpumap_order": 1, "measured": "2026-03-01T12:00:00+01:00", "order": [5]}',
    b'{"gpumap_order": 1, "measured": "never", "order": []}', b" " * 2_000_000,
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_file_that_is_no_record_counts_for_nothing(garbage: bytes) -> None:
    remember(seen(), BOX)
    (path,) = [path for path in files() if path.is_file()]
    path.write_bytes(garbage)
    assert recall(BOX) is BOX
    assert remember(seen(), BOX)
    assert recall(BOX).default_order == ORDER


def test_a_record_that_was_edited_counts_for_nothing() -> None:
    remember(seen(), BOX)
    (path,) = [path for path in files() if path.is_file()]
    data = json.loads(path.read_text())
    for order in (data["order"][:3], [*data["order"], data["order"][0]], [data["order"][0]] * 4):
        path.write_text(json.dumps({**data, "order": order}))
        assert recall(BOX) is BOX


def test_no_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "below", ""):
        monkeypatch.setenv(CACHE_DIR, str(place))
        assert not remember(seen(), BOX)
        assert recall(BOX) is BOX


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights as on Unix")
def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:
        tmp_path = Path("/proc/self")  # nobody may write there
    else:
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "cache"))
    assert not remember(seen(), BOX)


def test_the_users_own_cache_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_DIR)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, appauthor: tmp_path / name)
    assert remember(seen(), BOX)
    assert [path.name[:9] for path in (tmp_path / "gpumap" / "orders").iterdir()] == ["measured-"]


def test_writers_at_once_leave_one_whole_record() -> None:
    threads = [threading.Thread(target=lambda: [remember(seen(), BOX) for _ in range(30)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert recall(BOX).default_order in (None, ORDER)
    assert recall(BOX).default_order == ORDER
    assert len([path for path in files() if path.is_file()]) == 1


def test_a_scenario_and_a_capsule_keep_the_date() -> None:
    remember(seen(), BOX)
    known = recall(BOX)
    assert Scenario.from_json(Scenario(known).to_json()).topology == known
    assert Capsule.from_json(Capsule(known).to_json()).topology == known


# ---- a real run on the simulated driver, whose order no rule foretells ----

LIVE = """
import json, sys
import gpumap_widgets as gm
def foretold():
    prediction = gm.resolve(gm.Scenario.from_env(gm.this_machine(), {}))
    return prediction, [prediction.nvml_indices, prediction.certainty, str(prediction.steps[1])]
prediction, before = foretold()
first = gm.compare(prediction, gm.observe(prediction)).verdict
prediction, after = foretold()
print(json.dumps([before, first, after, gm.compare(prediction, gm.observe(prediction)).verdict]))
"""


@pytest.mark.torch
def test_a_live_run_teaches_the_next_prediction(tmp_path: Path) -> None:
    include = simdriver.find_cuda_include()
    if include is None:
        pytest.skip(f"no CUDA build of torch, with its headers, in {sys.executable}")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    env = simdriver.environment(replace(MIXED, default_order=(3, 1, 0, 2)), tmp_path, built)
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", LIVE], env=env | {"PYTHONPATH": str(root)}, cwd=root, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    before, first, after, second = json.loads(done.stdout)
    assert (before[0], first) == ([1, 0, 2, 3], "refuted")
    assert (after[0], after[1], second) == ([3, 1, 0, 2], "certain", "confirmed")
    assert "measured on this machine on" in after[2]
    assert [path.name[:10] for path in files() if path.is_file()] == ["simulated-"]
