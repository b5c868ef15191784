"""The kernel that waits: used once, only when nothing speaks against it, gone when nobody wants it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpumap_widgets.comparison import compare
from gpumap_widgets.live.run import Run, doubt_between
from gpumap_widgets.live.spare import Spares
from gpumap_widgets.mapping import Message, Observation, ObservedDevice
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests import simdriver
from tests.live_tools import Driven, children, described, eventually, left_in, linux
from tests.simdriver import EIGHT_A100, MIXED

pytestmark = linux
LISTED = {"CUDA_VISIBLE_DEVICES": "2,0"}


@pytest.fixture
def spares() -> Iterator[Spares]:
    made = Spares()
    yield made
    made.end()
    assert not children()


def ready(spares: Spares) -> None:
    assert eventually(lambda: spares.state in ("ready", "failed"), 30)
    assert spares.state == "ready"


def run(spares: Spares, env: dict[str, str], **options: object) -> Run:
    return Run(env, spares=spares, timeout=30.0, **options).start()  # type: ignore[arg-type]


def uuids(seen: Observation) -> list[str | None]:
    return [device.uuid for device in seen.devices]


def bare(libraries: Path, env: dict[str, str], machine: simdriver.SimMachine = MIXED) -> list[str]:
    order, visible = env.get("CUDA_DEVICE_ORDER"), env.get("CUDA_VISIBLE_DEVICES")
    return [machine.gpus[i].uuid[4:] for i, _ in simdriver.enumerate_devices(libraries, machine, order, visible)]


def note_of(seen: Observation) -> str:
    assert not seen.warm
    return seen.notes[0].key


@pytest.mark.parametrize(
    "env",
    [{}, LISTED, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"}],
)
def test_it_answers_as_a_fresh_one_would(
    driven: Driven, libraries: Path, spares: Spares, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    driven(MIXED)
    monkeypatch.setenv("LOCAL_RANK", "3")  # of this process, and not of the scenario
    spares.want("me")
    ready(spares)
    seen = run(spares, env).result()
    assert (seen.problem, seen.warm, seen.notes) == (None, True, ())
    assert uuids(seen) == bare(libraries, env)
    assert seen.env == seen.wanted_env == env
    prediction = resolve(Scenario.from_env(described(MIXED), env))
    assert compare(prediction, seen).verdict == "confirmed"


def test_variables_that_only_say_where_files_lie_stay(
    driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(MIXED)
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    monkeypatch.setenv("FAKE_TORCH", "assert os.environ['CUDA_HOME'] == '/opt/cuda'")
    spares.want("me")
    ready(spares)
    seen = run(spares, LISTED).result()
    assert (seen.problem, seen.warm, seen.notes) == (None, True, ())


def test_it_is_used_once_and_the_next_one_starts(driven: Driven, libraries: Path, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    pids = set()
    for visible in ("0", "1", "3,2"):
        ready(spares)
        pids |= children()
        assert len(children()) == 1, "never more than one"
        env = {"CUDA_VISIBLE_DEVICES": visible}
        seen = run(spares, env).result()
        assert (seen.warm, uuids(seen)) == (True, bare(libraries, env))
    assert len(pids) == 3


def test_it_goes_when_nobody_wants_it(driven: Driven, place: Path, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    spares.want("you")
    ready(spares)
    spares.enough("me")
    assert (spares.state, len(children())) == ("ready", 1)
    spares.enough("you")
    assert (spares.state, len(children())) == ("none", 0)
    assert not left_in(place)
    spares.want("me")
    spares.enough("me")
    assert not children(), "before it was ready, too"


def test_without_it_a_fresh_kernel_answers(driven: Driven, spares: Spares) -> None:
    driven(MIXED)
    seen = run(spares, {}).result()
    assert (seen.problem, seen.warm, seen.notes) == (None, False, ())
    assert not children()


# --- doubts ----------------------------------------------------------------------------------------------------------


def test_cuda_was_started_in_it(driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH_IMPORT", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)")
    spares.want("me")
    ready(spares)
    seen = run(spares, LISTED).result()
    assert (seen.problem, note_of(seen)) == (None, "live.spare-spoilt")
    assert "driver answers 0" in str(seen.notes[0])


def test_it_was_started_with_other_variables(driven: Driven, libraries: Path, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    ready(spares)
    driven(EIGHT_A100)  # the notebook has set one of its own meanwhile
    seen = run(spares, LISTED).result()
    assert (uuids(seen), note_of(seen)) == (bare(libraries, LISTED, EIGHT_A100), "live.spare-outdated")
    assert "GPUMAP_SIM_MACHINE" in str(seen.notes[0])
    ready(spares)
    assert run(spares, LISTED).result().warm, "the next one has them"


def test_torch_was_replaced_on_disk(driven: Driven, place: Path, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    ready(spares)
    os.utime(place / "site" / "torch" / "__init__.py", (1, 1))
    assert note_of(run(spares, LISTED).result()) == "live.spare-old-torch"


def test_it_died_while_it_waited(driven: Driven, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    ready(spares)
    (pid,) = children()
    os.kill(pid, signal.SIGKILL)
    seen = run(spares, LISTED).result()
    assert (seen.problem, note_of(seen)) == (None, "live.spare-died")


def test_a_variable_was_set_in_it(driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH_IMPORT", "os.environ['CUDA_VISIBLE_DEVICES'] = '3'")
    spares.want("me")
    ready(spares)
    seen = run(spares, LISTED).result()
    assert (note_of(seen), "CUDA_VISIBLE_DEVICES" in str(seen.notes[0])) == ("live.spare-spoilt", True)


def test_it_says_something_else_than_the_driver(
    driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does the fresh one, in this case: the two witnesses then contradict each other."""
    driven(MIXED)
    swap = "torch.cuda.get_device_properties = lambda i, real=torch.cuda.get_device_properties: real(1 - i)"
    monkeypatch.setenv("FAKE_TORCH", f"import torch; {swap}")
    spares.want("me")
    ready(spares)
    seen = run(spares, LISTED).result()
    assert note_of(seen) == "live.spare-unlike"
    result = compare(resolve(Scenario.from_env(described(MIXED), LISTED)), seen)
    assert (result.verdict, [part.verdict for part in result.parts]) == ("refuted", ["confirmed", "refuted"])
    assert "The witnesses contradict each other from cuda:0 on" in str(result.reason)
    assert "The kernel that waited did not say what the driver says" in str(result.reason)
    assert result.failed is None


@pytest.mark.parametrize("why", ["no torch", "no kernel"])
def test_it_cannot_be_made_ready(driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    driven(MIXED)
    code = "raise ModuleNotFoundError('no', name='torch')" if why == "no torch" else "os._exit(3)"
    monkeypatch.setenv("FAKE_TORCH_IMPORT", code)
    spares.want("me")
    seen = run(spares, LISTED).result()
    assert seen.problem is not None
    assert seen.problem.key == ("live.no-torch" if why == "no torch" else "live.died")
    assert (spares.state, len(children())) == ("none", 0), "not again before a fresh kernel has worked"


DEVICE = ObservedDevice(0, "a", "T4", "00000000:5E:00.0", 1, (7, 5))


@pytest.mark.parametrize(
    ("torch", "driver", "believed"),
    [
        (Observation((DEVICE,)), Observation((DEVICE,)), True),
        (Observation(()), Observation(()), True),
        (Observation((DEVICE,)), Observation((replace(DEVICE, uuid="b"),)), False),
        (Observation((DEVICE,)), Observation((DEVICE, replace(DEVICE, ordinal=1, uuid="b"))), False),
        (Observation((replace(DEVICE, uuid=None),)), Observation((replace(DEVICE, pci_bus_id="0000:5e:00.0"),)), True),
        (Observation((replace(DEVICE, uuid=None, pci_bus_id=None),)), Observation((DEVICE,)), False),
        (Observation(problem=Message("live.no-driver")), Observation(problem=Message("live.no-driver")), True),
        (Observation(problem=Message("live.no-driver")), Observation((DEVICE,)), False),
        (Observation((DEVICE,)), Observation(problem=Message("live.child-timed-out")), False),
    ],
)
def test_whom_to_believe(torch: Observation, driver: Observation, believed: bool) -> None:
    assert (doubt_between(torch, driver) is None) == believed


# --- taken back ------------------------------------------------------------------------------------------------------


def test_fifty_quick_presses(driven: Driven, libraries: Path, place: Path, spares: Spares) -> None:
    driven(MIXED)
    spares.want("me")
    ready(spares)
    runs: list[Run] = []
    for i in range(50):
        if runs:
            runs[-1].cancel()
        runs.append(run(spares, {"CUDA_VISIBLE_DEVICES": str(i % 4)}))
    last = runs[-1].result()
    assert (last.problem, uuids(last)) == (None, bare(libraries, {"CUDA_VISIBLE_DEVICES": "1"}))
    assert all(one.wait(10) for one in runs)
    spares.end()
    assert not children()
    assert not left_in(place)


def test_a_run_that_is_taken_back_early_leaves_it_as_it_was(
    driven: Driven, spares: Spares, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(MIXED)
    monkeypatch.setenv("FAKE_TORCH_IMPORT", "import time; time.sleep(1.5)")
    spares.want("me")
    first = run(spares, LISTED)
    assert eventually(children)
    first.cancel()
    assert first.result().problem is not None
    ready(spares)
    assert run(spares, LISTED).result().warm


@pytest.mark.parametrize("how", ["cancel", "time out"])
def test_a_driver_that_hangs(driven: Driven, spares: Spares, how: str) -> None:
    driven(replace(MIXED, cuinit_hang=True))
    spares.want("me")
    ready(spares)
    one = Run(LISTED, spares=spares, timeout=1.0 if how == "time out" else 60.0).start()
    assert eventually(lambda: len(children()) == 2)
    if how == "cancel":
        one.cancel()
    seen = one.result()
    assert seen.problem is not None
    assert seen.problem.key == ("live.timed-out" if how == "time out" else "live.cancelled")
    spares.enough("me")
    assert eventually(lambda: not children(), 2.0)
