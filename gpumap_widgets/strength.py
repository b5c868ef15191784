"""How strong a GPU is, as far as CUDA's default order depends on it: capability, SM count, and what they weigh.

The weights are fitted to public reports: NVIDIA documents none of this. Each carries the interval of values that
contradicts no report.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from .catalog import is_vgpu, look_up
from .topology import Gpu

WEIGHTS: Mapping[tuple[int, int], tuple[float, str]] = {
    (8, 6): (1.0, "the unit"),
    (8, 9): (2.0, "1.78 to 2.41 by all reports"),
    (12, 0): (1.0, "0.87 to 1.17 by all reports"),
    (7, 0): (0.5, "0.35 to 0.72 by all reports"),
    (7, 5): (0.5, "below 0.61 by all reports"),
    (6, 1): (0.5, "0.02 to 0.67 by all reports, weak"),
    (5, 0): (0.25, "below 0.72 by all reports, weak"),
    (5, 2): (0.25, "below 0.72 by all reports, weak"),
    (5, 3): (0.25, "as 5.2, no report"),
    (6, 0): (0.5, "below 1.46 where both orders are known, weak"),
    (9, 0): (1.0, "below 1.93 by all reports, weak"),
    (10, 3): (1.0, "above 0.41, one report"),
    (8, 0): (1.0, "no report"),
    (10, 0): (1.0, "no report"),
    (3, 0): (0.25, "as Maxwell, too few reports"),
    (3, 5): (0.25, "as Maxwell, too few reports"),
    (3, 7): (0.25, "as Maxwell, too few reports"),
}
"""Capability → weight of one SM (one SM of capability 8.6 is 1), and the interval that contradicts no report."""

CORES_PER_SM: Mapping[tuple[int, int], int] = {
    **dict.fromkeys([(3, 0), (3, 2), (3, 5), (3, 7)], 192),
    **dict.fromkeys([(5, 0), (5, 2), (5, 3), (6, 1), (6, 2), (8, 6), (8, 7), (8, 9), (9, 0)], 128),
    **dict.fromkeys([(10, 0), (10, 3), (11, 0), (12, 0), (12, 1)], 128),
    **dict.fromkeys([(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)], 64),
}
"""FP32 cores of one SM by capability: NVML counts cores. Source: CUDA Programming Guide, compute capabilities."""
_UNPINNED_WEIGHT = 0.125


class Strength(NamedTuple):
    """What the default order is computed from, for one model. None where it is not known."""

    name: str
    capability: tuple[int, int] | None
    sm_count: int | None
    cores: int | None
    clock_mhz: float | None
    bandwidth: float | None
    vgpu: bool

    @property
    def weight(self) -> float:
        """Weight of one SM; a low one for capabilities that no report names."""
        return WEIGHTS.get(self.capability or (0, 0), (_UNPINNED_WEIGHT, ""))[0]

    @property
    def score(self) -> float | None:
        """SM count × weight: the key of the default order. None when capability or SM count is unknown."""
        if self.capability is None or self.sm_count is None:
            return None
        return self.sm_count * self.weight

    @property
    def peak(self) -> float | None:
        """Cores × clock: what drivers before 2018 seem to have ranked by."""
        return self.cores * self.clock_mhz if self.cores and self.clock_mhz else None


@lru_cache(maxsize=4096)
def _strength(name: str, memory_mib: int | None, capability: tuple[int, int] | None, sm_count: int | None) -> Strength:
    model = look_up(name, memory_mib) if name else None
    if model is None:
        return Strength(name, capability, sm_count, None, None, None, is_vgpu(name))
    return Strength(
        name,
        capability or model.compute_capability,
        sm_count if sm_count is not None else model.sm_count,
        model.cuda_cores,
        model.boost_mhz,
        model.bandwidth_gbs,
        is_vgpu(name),
    )


def strength(gpu: Gpu) -> Strength:
    """Capability, SM count and speeds of a GPU: its own where the source told them, else the catalogue's."""
    return _strength(gpu.name or "", gpu.memory_mib, gpu.compute_capability, gpu.sm_count)
