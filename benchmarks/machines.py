"""Machines and lists to measure with, made from a seed so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import replace

from gpumap_widgets import Topology

MODELS = (
    "Tesla T4",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA GeForce RTX 3090",
    "NVIDIA A100-SXM4-80GB",
    "Tesla V100-SXM2-32GB",
    "NVIDIA GeForce GTX 1080 Ti",
    "NVIDIA GeForce RTX 5090",
    "NVIDIA RTX A6000",
)
EQUAL = ("NVIDIA A100-SXM4-80GB",)
_HEX = "0123456789abcdef"


def uuid(rng: random.Random) -> str:
    """A UUID as NVML prints one."""
    digits = "".join(rng.choices(_HEX, k=32))
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def machine(count: int, models: tuple[str, ...] = MODELS, seed: int = 0) -> Topology:
    """A machine of so many GPUs, its models in turn, with addresses and UUIDs: nothing about it is unknown."""
    rng = random.Random(f"{seed} {count} {models}")
    buses = [f"{i // 200:04X}:{1 + i % 200:02X}:00.0" for i in range(count)]
    names = [models[i % len(models)] for i in range(count)]
    bare = Topology.of(*names, pci_bus_ids=buses, driver_version="575.57.08", source="benchmark")
    return replace(bare, gpus=tuple(replace(gpu, uuid=uuid(rng)) for gpu in bare.gpus))


def again(topology: Topology) -> Topology:
    """An equal machine about which nothing has been worked out yet."""
    return replace(topology)


def numbers(rng: random.Random, count: int) -> str:
    """A list that names every GPU of a machine once, by number."""
    return ",".join(map(str, rng.sample(range(count), count)))


def identities(rng: random.Random, topology: Topology) -> str:
    """A list that names every GPU of a machine once, by complete UUID."""
    return ",".join(rng.sample([gpu.uuid or "" for gpu in topology.gpus], len(topology.gpus)))


_ODD = (" {}", "{} ", "0{}", "{}gpu", "{}-3", "-1", "", "x", "99", "all", "GPU-", "'{}'")
"""Not those that torch raises on (``+`` before no digit, digits of other scripts): it is timed on the same lists."""


def typed(rng: random.Random, topology: Topology, count: int) -> str:
    """A list as people type them: numbers, now and then a repeat, an odd spelling, a UUID or the start of one."""
    gpus = topology.gpus
    if rng.random() < 0.25:
        tokens = [(g.uuid or "")[: rng.choice((8, 12, 40, 40))] for g in rng.choices(gpus, k=count)]
    else:
        tokens = [str(i) for i in rng.choices(range(len(gpus)), k=count)]
        if rng.random() < 0.7:
            tokens = [str(i) for i in rng.sample(range(max(len(gpus), count)), count)]
    if rng.random() < 0.4:
        place = rng.randrange(count)
        tokens[place] = rng.choice(_ODD).format(tokens[place])
    return ",".join(tokens)
