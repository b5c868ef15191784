"""What a case of a layer is: a command or layers on the mixed machine, what every worker must get, and who says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpumap_widgets.mapping import Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED


class Worker(NamedTuple):
    """What one process must have. None: not looked at."""

    cuda: Sequence[int]
    """nvidia-smi index behind cuda:0, cuda:1, …"""
    physical: Sequence[int] | None = None
    """nvidia-smi index of the GPUs that it uses."""
    env: Mapping[str, str | None] = {}
    """Variables that it must have; None for one that must be unset."""
    visible: Sequence[int] | None = None
    """nvidia-smi indices that containers and cgroups leave."""


class Case(NamedTuple):
    """One row of a table."""

    kind: str
    """The row of `LAYERS` that it is a case of."""
    given: str | tuple[Layer, ...]
    """A command as it is typed, or layers."""
    workers: Sequence[Worker]
    """() where it does not start."""
    source: str
    """Who says so."""
    env: Mapping[str, str] = {}
    assume: Mapping[str, Any] = {}
    certainty: str | None = None
    error: str = ""
    """What the refusal must contain."""
    machine: Topology = MIXED


def predicted(case: Case) -> Prediction:
    """The prediction of a case."""
    if isinstance(case.given, str):
        return resolve(Scenario.from_command(case.machine, case.given, case.env, case.assume))
    shell = Scenario.from_env(case.machine, case.env).layers
    return resolve(Scenario(case.machine, (*shell, *case.given)))


def check(case: Case) -> None:
    """Assert that a case comes out as its source says."""
    prediction = predicted(case)
    assert case.source
    kinds = [layer.kind for layer in prediction.scenario.layers]
    assert case.kind in str(prediction.scenario.layers), (case.kind, kinds)
    assert all(str(step) for k in range(len(prediction.processes)) for step in prediction.steps_of(k))
    assert Scenario.from_json(prediction.scenario.to_json()) == prediction.scenario
    if not case.workers:
        assert prediction.error
        assert case.error in prediction.error
        return
    assert prediction.error is None
    assert [list(p.nvml_indices) for p in prediction.processes] == [list(w.cuda) for w in case.workers]
    for process, worker in zip(prediction.processes, case.workers, strict=True):
        if worker.physical is not None:
            assert [process.nvml_indices[i] for i in process.uses] == list(worker.physical)
        if worker.visible is not None:
            assert list(process.visible) == list(worker.visible)
        assert {name: process.env.get(name) for name in worker.env} == dict(worker.env)
    if case.certainty is not None:
        assert prediction.certainty == case.certainty
