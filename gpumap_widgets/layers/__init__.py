"""What can stand between a machine and CUDA: one table of layers, one row a kind.

A layer is a function from a view of the machine to the views that its processes have, with the steps that say what it
did. Adding one touches one module of this package and its cases.
"""

from __future__ import annotations

from . import containers_apptainer, containers_commands, jobs, kubernetes, launchers, mps
from .base import LAYERS, LayerRow, Outcome, Recognised, View
from .containers import docker
from .containers_apptainer import apptainer
from .containers_podman import docker_exec, nerdctl, podman
from .cuda import candidates, device_count, in_full, process_of
from .folding import Folded, fold
from .kubernetes import pod
from .launchers import torchrun
from .mps import client_refused, mps_daemon
from .variables import ENVIRONMENT_ROW, environment

LAYERS.update({"environment": ENVIRONMENT_ROW})
for _family in (jobs, launchers, containers_commands, containers_apptainer, kubernetes, mps):
    LAYERS.update(_family.ROWS)

__all__ = [
    "LAYERS",
    "Folded",
    "LayerRow",
    "Outcome",
    "Recognised",
    "View",
    "apptainer",
    "candidates",
    "client_refused",
    "device_count",
    "docker",
    "docker_exec",
    "environment",
    "fold",
    "in_full",
    "mps_daemon",
    "nerdctl",
    "pod",
    "podman",
    "process_of",
    "torchrun",
]
