"""Examples that are one click away: a machine, a command, the facts that it does not tell, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..frozen import FrozenDict
from ..scenario import Scenario
from .presets import preset

_NONE: Mapping[str, Any] = FrozenDict()


class Scene(NamedTuple):
    """One example."""

    title: str
    machine: str
    """Key of a preset."""
    command: str
    about: str
    """What to look at, in a sentence."""
    env: Mapping[str, str] = _NONE
    """Variables of the shell that it is typed in."""
    assume: Mapping[str, Any] = _NONE

    def scenario(self) -> Scenario:
        """The example as a scenario."""
        return Scenario.from_command(preset(self.machine), self.command, self.env, self.assume)


_POD = """apiVersion: v1
kind: Pod
metadata:
  name: train
spec:
  containers:
    - name: train
      image: IMAGE
      command: [python, train.py]
      env:
        - name: CUDA_DEVICE_ORDER
          value: PCI_BUS_ID
      resources:
        limits:
          nvidia.com/gpu: {count}
"""
_SERVICES = (
    "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
    + "".join(f"CUDA_VISIBLE_DEVICES={i} python service.py --port 800{i} &\n" for i in range(4))
    + "wait"
)


def _facts(**facts: Any) -> Mapping[str, Any]:
    return FrozenDict(facts)


SCENES: Mapping[str, Scene] = {
    "services": Scene("Four services, a GPU each", "mixed", _SERVICES, "Every service calls its GPU cuda:0."),
    "torchrun": Scene(
        "torchrun, four workers",
        "mixed",
        "torchrun --nproc-per-node=4 train.py",
        "torchrun changes no GPU variable: every rank sees all four and takes cuda:LOCAL_RANK.",
    ),
    "no-set-device": Scene(
        "torchrun, no set_device",
        "mixed",
        "torchrun --nproc-per-node=4 train.py",
        "A script that never selects a device puts every rank on cuda:0.",
        assume=_facts(set_device=False),
    ),
    "deepspeed": Scene(
        "DeepSpeed and a list",
        "mixed",
        "CUDA_VISIBLE_DEVICES=2,0 deepspeed train.py",
        "DeepSpeed sorts the list: 2,0 becomes 0,2, the same for every rank.",
    ),
    "ranks": Scene(
        "Which rank has which card",
        "mixed",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID torchrun --nproc-per-node=4 train.py",
        "With PCI_BUS_ID rank k uses nvidia-smi k; report_ranks() prints the same table in a running job.",
    ),
    "docker-one": Scene(
        "Docker, device=1",
        "mixed",
        "docker run --gpus '\"device=1\"' IMAGE python train.py",
        "device=1 is nvidia-smi 1, whatever the order; inside it is counted from 0.",
    ),
    "docker-two": Scene(
        "Docker, device=0,2",
        "mixed",
        "docker run --gpus '\"device=0,2\"' IMAGE python train.py",
        "The list chooses, it does not order; nvidia-smi inside counts 0 and 1.",
    ),
    "docker-uuid": Scene(
        "Docker, by UUID",
        "mixed",
        "docker run --gpus '\"device=GPU-b1e18600-0000-4000-8000-000000000001\"' IMAGE python train.py",
        "A full UUID works on every path of the toolkit; its beginning does not.",
    ),
    "docker-inner": Scene(
        "Docker, -e with host numbers",
        "mixed",
        "docker run --gpus '\"device=2,3\"' -e CUDA_VISIBLE_DEVICES=2,3 IMAGE python train.py",
        "The variable inside counts within the container's GPUs: 2 and 3 are not there.",
    ),
    "pod": Scene(
        "Kubernetes, one GPU",
        "mixed",
        _POD.format(count=1),
        "Which GPU the pod gets is the device plugin's choice: either model is possible.",
    ),
    "pod-four": Scene(
        "Kubernetes, four GPUs",
        "mixed",
        _POD.format(count=4),
        "All four: with the order in the YAML their numbers are nvidia-smi's.",
    ),
    "two-on-one": Scene(
        "Two services on one card",
        "mixed",
        "CUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=0 python b.py &",
        "Both are on the same card and share its memory and time. CUDA never moves one to another card by itself.",
    ),
    "inherited": Scene(
        "An inherited list",
        "eight",
        "python train.py",
        "The log says cuda:0 to cuda:3, nvidia-smi shows 1, 2, 5 and 6 busy: the shell's list is inherited.",
        env=FrozenDict({"CUDA_VISIBLE_DEVICES": "1,2,5,6"}),
    ),
    "overwritten": Scene(
        "Overwritten in the script",
        "mixed",
        'import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\n\nimport torch\n',
        "The script's own line wins over the list that the shell gave.",
        env=FrozenDict({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    ),
    "across-container": Scene(
        "Lost on the way into a container",
        "mixed",
        "CUDA_VISIBLE_DEVICES=1 docker run --gpus all IMAGE python train.py",
        "A container starts with an environment of its own: the list does not come along.",
    ),
    "empty": Scene(
        "Set to nothing",
        "mixed",
        "CUDA_VISIBLE_DEVICES= python train.py",
        "Set to nothing hides every GPU; unset shows all.",
    ),
    "log-says": Scene(
        "The log says cuda:0",
        "mixed",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3 python train.py",
        "cuda:0 is the number in the process; the card is nvidia-smi 3.",
    ),
    "two-users": Scene(
        "Two users, both on cuda:0",
        "eight",
        "CUDA_VISIBLE_DEVICES=0,1 python a.py &\nCUDA_VISIBLE_DEVICES=1,0 python b.py &",
        "cuda:0 of one is nvidia-smi 0, of the other nvidia-smi 1: two cards, not one.",
    ),
    "three-in-a-box": Scene(
        "A container with three of eight",
        "eight",
        "docker run --gpus '\"device=2,5,7\"' IMAGE python train.py",
        "nvidia-smi inside shows 0, 1 and 2; on the host they are 2, 5 and 7.",
    ),
}
"""Key → example."""
