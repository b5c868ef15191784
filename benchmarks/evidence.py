"""What evidence costs a training script, on the simulated driver: beside the import of torch, which it has anyway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import simdriver

from .figures import Budget, Figure, Result, Skipped
from .processes import environment, installed

ROUNDS = 9
LINES = 20_000
WRITERS = 4
SHARE = 0.1
"""Of the import of torch: what a first line may cost with all that it loads."""
WARM = 15.0
"""Milliseconds of a later line, or a look at the kernel."""

_SCRIPT = """
import json, sys, time
begin = time.perf_counter()
import torch
torch_done = time.perf_counter()
import gpumap_widgets as gm
first = gm.log_evidence(sys.argv[1], strict=True)
logged = time.perf_counter()
def timed(call, n=15):
    out = []
    for _ in range(n):
        start = time.perf_counter(); call(); out.append(time.perf_counter() - start)
    return out
warm = timed(lambda: gm.log_evidence(sys.argv[1], strict=True))
look = timed(gm.inspect_kernel)
assert not torch.cuda.is_initialized() and gm.inspect_kernel().state == "not started" and first["told_by"] == "prediction"
append = timed(lambda: gm.append_evidence(sys.argv[1], first), 200)
begun = time.perf_counter()
started = gm.log_evidence(sys.argv[1], start_cuda=True, strict=True)
with_cuda = time.perf_counter() - begun
assert started["told_by"] == "driver" and started["verdict"] == "confirmed"
print(json.dumps({"torch": torch_done - begin, "first": logged - torch_done, "warm": warm, "look": look,
                  "append": append, "cuda": with_cuda, "bytes": len(json.dumps(first))}))
"""
_WRITER = """
import json, sys, time
import gpumap_widgets as gm
line = json.loads(sys.argv[2])
sys.stdin.readline()
began = time.perf_counter()
for _ in range(int(sys.argv[3])):
    gm.append_evidence(sys.argv[1], line)
print(time.perf_counter() - began)
"""
_READER = """
import sys, time
from gpumap_widgets.evidence.reading import evidence_in
began = time.perf_counter()
found = evidence_in(sys.argv[1]).of(rank=2)
print(time.perf_counter() - began, len(found.lines), len(found.broken))
"""


def _run(code: str, env: dict[str, str], *args: str) -> str:
    command, folder = [sys.executable, "-c", code, *args], env["PYTHONPATH"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a measured process failed: {done.stderr[-2000:]}")
    return done.stdout


def _writers(env: dict[str, str], file: Path, line: str, each: int) -> list[float]:
    """Milliseconds a line while so many processes append to one file at once."""
    command = [sys.executable, "-c", _WRITER, str(file), line, str(each)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, cwd=env["PYTHONPATH"], env=env, stdin=pipe, stdout=pipe, text=True)
        for _ in range(WRITERS)
    ]
    time.sleep(1.0)  # all of them are loaded
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    took = [float(process.communicate()[0]) for process in processes]
    if len(file.read_text().splitlines()) != WRITERS * each:
        raise RuntimeError("lines were lost")
    return [seconds / each * 1e3 for seconds in took]


def run(*, full: bool) -> Result:
    """Fresh processes on the eight equal GPUs; each logs, looks, starts CUDA and logs again."""
    include = simdriver.find_cuda_include(sys.executable)
    if include is None:
        raise Skipped("torch here is no CUDA build, or the CUDA headers that its wheels bring are missing")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        raise Skipped(f"no simulated driver: {exc}") from exc
    with tempfile.TemporaryDirectory() as name, installed() as package:
        folder = Path(name)
        base = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        env = environment(package, simdriver.environment(simdriver.EIGHT_A100, folder, built, base))
        env |= {"RANK": "2", "LOCAL_RANK": "2", "GPUMAP_CACHE_DIR": str(folder / "cache")}
        found: list[dict[str, Any]] = []
        for _ in range(1 + ROUNDS * (3 if full else 1)):
            found.append(json.loads(_run(_SCRIPT, env, str(folder / "e.jsonl"))))
        found = found[1:]  # the first reads the disk
        line = (folder / "e.jsonl").read_text().splitlines()[0]
        crowd = _writers(env, folder / "crowd.jsonl", line, 500)
        (folder / "many.jsonl").write_text(f"{line}\n" * LINES)
        seconds, count, broken = _run(_READER, env, str(folder / "many.jsonl")).split()
        if (int(count), int(broken)) != (LINES, 0):
            raise RuntimeError("lines were not read")
    torch = [one["torch"] * 1e3 for one in found]
    many = {key: [value * 1e3 for one in found for value in one[key]] for key in ("warm", "look", "append")}
    figures = [
        Figure("log_evidence(), the first, with imports", "ms", [one["first"] * 1e3 for one in found],
               "import torch", torch, Budget(SHARE, "ratio")),
        Figure("log_evidence(), later", "ms", many["warm"], budget=Budget(WARM, "p90")),
        Figure("  of it: the line appended", "ms", many["append"]),
        Figure(f"  a line while {WRITERS} processes append", "ms", crowd),
        Figure("log_evidence(start_cuda=True)", "ms", [one["cuda"] * 1e3 for one in found]),
        Figure("inspect_kernel()", "ms", many["look"], budget=Budget(WARM, "p90")),
        Figure("a line read and checked", "ms", [float(seconds) / LINES * 1e3]),
    ]  # fmt: skip
    notes = [
        f"a line of eight GPUs has {found[0]['bytes']} bytes",
        "the simulated NVML answers at once: on a GPU machine its start is added, once a call",
        "no line was lost, and CUDA was untouched until it was asked for",
    ]
    return Result(figures, notes)
