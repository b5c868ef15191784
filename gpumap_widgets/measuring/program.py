"""The program that measures one device. Standard library and torch only: it runs in a process of its own.

    python program.py request.json answer.json

It states facts and judges nothing; `gpumap_widgets.measuring.running` reads them. Whatever goes wrong is a fact too.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import platform
import re
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Facts = dict[str, Any]

_WARM = 0.2
"""Share of the time that warms up and is not counted: clocks rise, kernels are chosen."""
_CHUNK = 0.05
"""Seconds that one timing should take at least: far above what starting a kernel costs."""
_LARGEST = 16384
"""Rows of the largest matrix: more changes nothing."""


def main(request: Facts) -> Facts:
    """Everything that was measured."""
    facts: Facts = {"python": platform.python_version()}
    torch = importlib.import_module("torch")
    facts |= {"torch": str(torch.__version__), "cuda": torch.version.cuda}
    device = torch.device(request["device"])
    if device.type == "cuda":
        facts |= _identity(torch, device)
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(request["threads"] or torch.get_num_threads())
        facts["name"] = platform.processor() or platform.machine()
    bench = _Bench(torch, device, request)
    parts = [("tflops", bench.products), ("copy_gbs", bench.copies)]
    if request["function"] is not None:
        parts.append(("step_seconds", bench.steps))
    facts["problems"] = {}
    for name, measure in parts:
        try:
            facts[name] = measure()
        except Exception as exc:
            facts["problems"][name] = f"{type(exc).__name__}: {exc}"[:1000]
    return facts


def _identity(torch: Any, device: Any) -> Facts:
    """Which GPU this is: what a list made visible is believed only when the UUID agrees."""
    properties = torch.cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    bare = None if uuid is None else re.sub("^(gpu|mig)-", "", str(uuid).lower())
    return {"name": properties.name, "uuid": bare, "count": torch.cuda.device_count()}


class _Bench:
    """One device and what it may use."""

    def __init__(self, torch: Any, device: Any, request: Facts) -> None:
        self.torch, self.device, self.request = torch, device, request
        self.dtype = getattr(torch, request["dtype"])
        self.bytes = request["memory_mib"] * 2**20
        count = 2 if request["function"] is None else 3
        self.seconds = request["seconds"] / count

    def wait(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def timed(self, call: Callable[[], object], times: int) -> float:
        """Seconds for so many calls, all of their work done."""
        self.wait()
        started = time.perf_counter()
        for _ in range(times):
            call()
        self.wait()
        return time.perf_counter() - started

    def repeated(self, call: Callable[[], object]) -> list[float]:
        """Seconds a call, slow and quick, of many timings; the first part of the time does not count."""
        end = time.perf_counter() + self.seconds
        counted_from = time.perf_counter() + self.seconds * _WARM
        times = 1
        found: list[float] = []
        while not found or time.perf_counter() < end:
            took = self.timed(call, times)
            if time.perf_counter() >= counted_from:
                found.append(took / times)
            elif took < _CHUNK:
                times = min(times * 2, 1 << 20)
        found.sort()
        edge = len(found) // 10  # what a tenth of the timings say on either side is taken for a disturbance
        return [found[-1 - edge], found[edge]]

    def products(self) -> list[float]:
        """TFLOP/s of products of square matrices, as large as the memory and the time allow."""
        item = self.torch.empty((), dtype=self.dtype).element_size()
        n = 256
        while True:
            a, b = (self.torch.randn(n, n, device=self.device, dtype=self.torch.float32).to(self.dtype) for _ in "ab")
            out = self.torch.empty_like(a)
            self.timed(lambda: self.torch.matmul(a, b, out=out), 1)  # noqa: B023 - called at once
            took = self.timed(lambda: self.torch.matmul(a, b, out=out), 1)  # noqa: B023
            # the next size takes eight times as long, and while it is made twice its matrices in FP32
            room = (2 * n) ** 2 * (3 * item + 8) <= self.bytes
            if not room or 2 * n > _LARGEST or 8 * took > self.seconds / 10:
                break
            n *= 2
        slow, quick = self.repeated(lambda: self.torch.matmul(a, b, out=out))
        return [2 * n**3 / slow / 1e12, 2 * n**3 / quick / 1e12]

    def copies(self) -> list[float]:
        """GB/s of copies within the device's memory, read and written."""
        size = int(min(self.bytes // 2, 2**28))
        source = self.torch.ones(size, device=self.device, dtype=self.torch.uint8)
        target = self.torch.empty_like(source)
        slow, quick = self.repeated(lambda: target.copy_(source))
        return [2 * size / slow / 1e9, 2 * size / quick / 1e9]

    def steps(self) -> list[float]:
        """Seconds of one call of the user's function, quickest and slowest."""
        call = _function(self.request["function"])
        takes_device = bool(inspect.signature(call).parameters)
        slow, quick = self.repeated(lambda: call(str(self.device)) if takes_device else call())
        return [quick, slow]


def _function(given: Facts) -> Callable[..., object]:
    """The user's function: from a module, or from its own source."""
    if given["module"] is not None:
        sys.path[:0] = given["path"]
        return getattr(importlib.import_module(given["module"]), given["name"])  # type: ignore[no-any-return]
    space: Facts = {"__name__": "gpumap_measured"}
    exec(compile(given["source"], "the function to measure", "exec"), space)  # noqa: S102 - the user's own
    return space[given["name"]]  # type: ignore[no-any-return]


def _run(request_path: str, answer_path: str) -> None:
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    leash = runpy.run_path(request["hardware"], run_name="gpumap_hardware")["leash"]
    leash(request["limit"], parent=request["parent"])
    try:
        facts = main(request)
    except Exception as exc:
        facts = {"error": f"{type(exc).__name__}: {exc}"[:1000], "no_torch": getattr(exc, "name", None) == "torch"}
    text = json.dumps(facts)
    Path(f"{answer_path}.part").write_text(text, encoding="utf-8")
    os.replace(f"{answer_path}.part", answer_path)  # noqa: PTH105 - half an answer is none


if __name__ == "__main__":
    _run(*sys.argv[1:3])
