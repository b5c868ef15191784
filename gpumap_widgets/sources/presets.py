"""Machines by name, as data: for lessons, and for everybody who has no GPU at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ..topology import Topology


class Preset(NamedTuple):
    """A named machine: its GPUs in PCI order, and their addresses. UUIDs are invented."""

    title: str
    names: tuple[str, ...]
    buses: tuple[str, ...]
    uuids: tuple[str, ...]
    driver_version: str


def _uuids(seed: str, n: int) -> tuple[str, ...]:
    return tuple(f"GPU-{seed[i % len(seed)] * 4}{i:04x}-0000-4000-8000-{i:012x}" for i in range(n))


PRESETS: Mapping[str, Preset] = {
    "mixed": Preset(
        "Mixed four: T4, RTX 4090, T4, T4",
        ("Tesla T4", "NVIDIA GeForce RTX 4090", "Tesla T4", "Tesla T4"),
        ("5E:00.0", "86:00.0", "AF:00.0", "D8:00.0"),
        (
            "GPU-a0e15e00-0000-4000-8000-000000000000",
            "GPU-b1e18600-0000-4000-8000-000000000001",
            "GPU-c2e1af00-0000-4000-8000-000000000002",
            "GPU-d3e1d800-0000-4000-8000-000000000003",
        ),
        "535.104.05",
    ),
    "eight": Preset(
        "Eight equal: A100 × 8",
        ("NVIDIA A100-SXM4-80GB",) * 8,
        tuple(f"{bus}:00.0" for bus in ("07", "0F", "47", "4E", "87", "90", "B7", "BD")),
        _uuids("89ab", 8),
        "550.54.15",
    ),
    "three": Preset(
        "RTX 3090, RTX 3090, RTX 4090",
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090"),
        ("17:00.0", "65:00.0", "CA:00.0"),
        _uuids("367", 3),
        "550.54.15",
    ),
    "laptop": Preset(
        "Laptop: RTX 4070 Laptop GPU",
        ("NVIDIA GeForce RTX 4070 Laptop GPU",),
        ("01:00.0",),
        _uuids("5", 1),
        "560.35.03",
    ),
}
"""Key → machine. The first is the tutorials' own."""


def preset(key: str) -> Topology:
    """The machine of a preset. Raises KeyError for an unknown key; `PRESETS` lists them."""
    row = PRESETS[key]
    machine = Topology.of(
        *row.names, pci_bus_ids=row.buses, driver_version=row.driver_version, source=f"preset “{key}”"
    )
    gpus = tuple(replace(gpu, uuid=uuid) for gpu, uuid in zip(machine.gpus, row.uuids, strict=True))
    return replace(machine, gpus=gpus)
