"""The examples: each shows what it says. The right maps are those of the facts that its rows of the table rest on."""

from __future__ import annotations

from typing import Any

import pytest

from gpumap_widgets.resolver import resolve
from gpumap_widgets.sources.scenes import SCENES

ALL, PCI = [1, 0, 2, 3], [0, 1, 2, 3]
EXPECTED: dict[str, tuple[list[list[int]], list[list[int]] | None]] = {
    # key: nvidia-smi behind cuda:0, … of every process; the GPUs that each uses (None: all)
    "services": ([[0], [1], [2], [3]], None),
    "torchrun": ([ALL] * 4, [[1], [0], [2], [3]]),
    "no-set-device": ([ALL] * 4, [[1]] * 4),
    "deepspeed": ([[1, 2]] * 2, [[1], [2]]),
    "ranks": ([PCI] * 4, [[0], [1], [2], [3]]),
    "docker-one": ([[1]], None),
    "docker-two": ([[0, 2]], None),
    "docker-uuid": ([[1]], None),
    "docker-inner": ([[]], None),
    "pod": ([[0]], None),
    "pod-four": ([PCI], None),
    "two-on-one": ([[1], [1]], None),
    "inherited": ([[1, 2, 5, 6]], None),
    "overwritten": ([[2]], None),
    "across-container": ([ALL], None),
    "empty": ([[]], None),
    "log-says": ([[3]], None),
    "two-users": ([[0, 1], [1, 0]], None),
    "three-in-a-box": ([[2, 5, 7]], None),
}


@pytest.mark.parametrize("key", SCENES)
def test_an_example_shows_what_it_says(key: str) -> None:
    prediction = resolve(SCENES[key].scenario())
    maps, uses = EXPECTED[key]
    assert prediction.error is None
    assert [list(p.nvml_indices) for p in prediction.processes] == maps
    found: Any = [[p.nvml_indices[i] for i in p.uses] for p in prediction.processes]
    assert uses is None or found == uses
    assert (prediction.certainty == "unknown") == (key == "pod")  # the plugin's choice is nobody's guess
