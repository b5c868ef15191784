"""Many (machine, list) pairs through the engine in one process, whose memory must not grow. A program of its own:
``python -m benchmarks.pairs COUNT`` prints what it saw as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from pathlib import Path

from gpumap_widgets import Scenario, resolve

from .machines import MODELS, machine, typed

_PARTS = 20
_STEPS_EVERY = 10
_ORDERS = (None, "FASTEST_FIRST", "PCI_BUS_ID")


def rss() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(count: int) -> None:
    """A new machine for every pair; every tenth also makes its steps and findings. Memory after each twentieth."""
    rng = random.Random(20)
    seen = [rss()]
    began = time.perf_counter()
    engine = 0.0
    for part in range(_PARTS):
        for i in range(part * count // _PARTS, (part + 1) * count // _PARTS):
            size = rng.randint(1, 16)
            topology = machine(size, tuple(rng.sample(MODELS, rng.randint(1, len(MODELS)))), seed=i)
            env = {
                "CUDA_DEVICE_ORDER": rng.choice(_ORDERS),
                "CUDA_VISIBLE_DEVICES": typed(rng, topology, rng.randint(1, 16)) if rng.random() < 0.95 else None,
            }
            started = time.perf_counter()
            prediction = resolve(Scenario.from_env(topology, env))
            if i % _STEPS_EVERY == 0:
                _ = (prediction.steps, prediction.findings)
            engine += time.perf_counter() - started
        gc.collect()
        seen.append(rss())
    print(json.dumps({"rss": seen, "seconds": time.perf_counter() - began, "engine": engine}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
