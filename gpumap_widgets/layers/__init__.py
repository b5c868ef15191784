"""What can stand between a machine and CUDA: one table of layers, one row a kind.

A layer is a function from a view of the machine to the views that its processes have, with the steps that say what it
did. Adding one touches one module of this package and its cases.
"""

from __future__ import annotations

from . import (
    accelerate_launch,
    arrays,
    batch,
    clusters,
    containers_apptainer,
    containers_commands,
    dask_workers,
    deepspeed_runner,
    huggingface,
    jobs,
    kubernetes,
    launchers,
    local_models,
    mpi,
    mps,
    serving,
    slurm_steps,
    trainers,
    vllm_engine,
)
from .accelerate_launch import accelerate
from .arrays import jax, tensorflow
from .base import LAYERS, LayerRow, Outcome, Recognised, View
from .batch import flux, lsf, openpbs
from .clusters import ray, ray_train
from .containers import docker
from .containers_apptainer import apptainer
from .containers_podman import docker_exec, nerdctl, podman
from .cuda import candidates, device_count, in_full, process_of
from .dask_workers import dask_cuda
from .deepspeed_runner import deepspeed
from .folding import Folded, fold
from .huggingface import device_map, hf_trainer
from .kubernetes import pod
from .launchers import spawn, torchrun
from .local_models import llamacpp, ollama
from .mpi import horovod, mpirun, torchx
from .mps import client_refused, mps_daemon
from .serving import sglang
from .slurm_steps import slurm
from .trainers import lightning
from .variables import ENVIRONMENT_ROW, environment
from .vllm_engine import vllm

_FAMILIES = (
    batch,
    mpi,
    slurm_steps,
    jobs,
    launchers,
    accelerate_launch,
    arrays,
    clusters,
    containers_apptainer,
    containers_commands,
    dask_workers,
    deepspeed_runner,
    huggingface,
    kubernetes,
    local_models,
    mps,
    serving,
    trainers,
    vllm_engine,
)
LAYERS.update({"environment": ENVIRONMENT_ROW})
for _family in _FAMILIES:
    LAYERS.update(_family.ROWS)

__all__ = [
    "LAYERS",
    "Folded",
    "LayerRow",
    "Outcome",
    "Recognised",
    "View",
    "accelerate",
    "apptainer",
    "candidates",
    "client_refused",
    "dask_cuda",
    "deepspeed",
    "device_count",
    "device_map",
    "docker",
    "docker_exec",
    "environment",
    "flux",
    "fold",
    "hf_trainer",
    "horovod",
    "in_full",
    "jax",
    "lightning",
    "llamacpp",
    "lsf",
    "mpirun",
    "mps_daemon",
    "nerdctl",
    "ollama",
    "openpbs",
    "pod",
    "podman",
    "process_of",
    "ray",
    "ray_train",
    "sglang",
    "slurm",
    "spawn",
    "tensorflow",
    "torchrun",
    "torchx",
    "vllm",
]
