"""One run of the benchmark: device after device, each in a process of its own, ended whatever the outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import GpumapError
from ..frozen import FrozenDict
from ..identity import bare_uuid
from ..live.children import kill, start
from ..live.environment import complete_environment
from ..live.folder import LOG, private_folder
from ..live.program import HARDWARE, last_words
from ..planning.measured import Measurement, Measurements
from ..planning.ranges import Range
from ..texts import say
from ..topology import Topology
from .orders import Function, Order, Target, order_for

_PROGRAM = Path(__file__).with_name("program.py")
_START = 90.0
"""Seconds that a process may take to load torch and to start CUDA, on a slow disk."""
_POLL = 0.02


class MeasureRun:
    """A benchmark in the background. Use it once; every method may be called from any thread."""

    def __init__(self, order: Order, on_done: Callable[[MeasureRun], object] | None = None) -> None:
        """``on_done(run)`` is called once, on the run's own thread, when the last process is gone."""
        self.order = order
        self.at = 0
        """Which target is being measured."""
        self.measurements: Measurements | None = None
        """The outcome; None until the run is done."""
        self._on_done = on_done
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gpumap-measure", daemon=True)
        self._inherited: dict[str, str] = {}
        self._started = 0.0

    def start(self) -> MeasureRun:
        """Start and return at once."""
        self._inherited = dict(os.environ)
        self._started = time.monotonic()
        self._thread.start()
        return self

    def cancel(self) -> None:
        """End it: the process is killed within a moment."""
        self._cancelled.set()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started if self._started else 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; whether that is so. ``timeout`` in seconds."""
        if self._started and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return self.measurements is not None

    def result(self) -> Measurements:
        """Wait for the outcome. An interrupt of the waiting (Ctrl-C) cancels the run."""
        try:
            self.wait()
        except BaseException:
            self.cancel()
            self.wait()
            raise
        assert self.measurements is not None
        return self.measurements

    def _work(self) -> None:
        taken = datetime.now().astimezone().isoformat(timespec="seconds")
        rows: list[Measurement] = []
        versions: dict[str, str] = {}
        for self.at, target in enumerate(self.order.targets):  # noqa: B020 - what is shown while it runs
            facts = self._measured(target)
            versions |= {k: facts[k] for k in ("python", "torch", "cuda") if facts.get(k)}
            rows.append(measurement_from(target, facts))
        order = self.order
        self.measurements = Measurements(
            tuple(rows), order.dtype, order.seconds, taken, FrozenDict(versions), simulated=order.simulated
        )
        if self._on_done is not None:
            self._on_done(self)

    def _measured(self, target: Target) -> dict[str, Any]:
        """The facts of one process; ``problem`` where there are none."""
        if self._cancelled.is_set():
            return {"problem": say("measure.cancelled")}
        try:
            with private_folder() as folder, (folder / LOG).open("wb") as log:
                return self._asked(target, folder, log)
        except (OSError, ValueError) as exc:
            return {"problem": say("measure.failed", error=f"{type(exc).__name__}: {exc}")}

    def _asked(self, target: Target, folder: Path, log: Any) -> dict[str, Any]:
        order = self.order
        limit = _START + 3 * order.seconds
        request = {
            "device": target.torch_device,
            "dtype": order.dtype,
            "seconds": order.seconds,
            "memory_mib": order.memory_mib,
            "threads": order.threads,
            "function": dict(order.function) if order.function is not None else None,
            "hardware": str(HARDWARE),
            "parent": os.getpid(),
            "limit": int(limit) + 10,
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        env = complete_environment(self._inherited, target.env)
        answer = folder / "answer.json"
        command = [order.executable, "-X", "faulthandler", str(_PROGRAM), str(folder / "request.json"), str(answer)]
        with start(command, env, log=log) as process:
            try:
                problem = self._waited(process, time.monotonic() + limit, limit)
            finally:
                kill(process)  # and whatever it started
        if problem is not None:
            return {"problem": problem}
        if not answer.exists():
            tail = last_words(folder / LOG)
            return {"problem": say("measure.died", status=process.returncode, tail=tail or "-")}
        return dict(json.loads(answer.read_text(encoding="utf-8")))

    def _waited(self, process: subprocess.Popen[bytes], deadline: float, limit: float) -> str | None:
        """Why the process had to be ended; None when it ended by itself."""
        while process.poll() is None:
            if self._cancelled.is_set():
                return say("measure.cancelled")
            if time.monotonic() > deadline:
                return say("measure.timed-out", seconds=f"{limit:g}")
            time.sleep(_POLL)
        return None


def measurement_from(target: Target, facts: Mapping[str, Any]) -> Measurement:
    """What one process stated, as a row; why there is nothing in it where that is so."""
    name = target.name or facts.get("name")
    problem = facts.get("problem")
    if facts.get("no_torch"):
        problem = say("measure.no-torch")
    elif "error" in facts:
        problem = say("measure.failed", error=facts["error"])
    elif target.torch_device != "cpu" and problem is None:
        seen = facts.get("uuid")
        if facts.get("count") != 1 or (seen is not None and bare_uuid(target.device) not in (bare_uuid(seen), None)):
            problem = say("measure.other-gpu", seen=facts.get("name"))
    if problem is not None:
        return Measurement(target.device, name, problem=problem, others=target.others)
    found = {key: Range(*facts[key]) for key in ("tflops", "copy_gbs", "step_seconds") if key in facts}
    failed = "; ".join(f"{say(f'measure.part.{key}')}: {why}" for key, why in facts["problems"].items())
    return Measurement(target.device, name, problem=failed or None, others=target.others, **found)


def measure_gpus(
    devices: Topology | Sequence[str] | None = None,
    *,
    consent: bool = False,
    dtype: str = "float16",
    seconds: float = 3.0,
    memory_mib: int = 2048,
    function: Function | None = None,
    threads: int | None = None,
    executable: str = sys.executable,
) -> Measurements:
    """Measure how fast the GPUs of this machine are: matrix products, copies within memory, and a function of your own.

    ``devices``: this machine when None; or ``["cpu", …]``, which runs the same on the processor. ``consent``: must be
    True; without it nothing is run, and the error says what would be. ``dtype``: float16, bfloat16, float32 or float64.
    ``seconds`` that each device is kept busy; ``memory_mib`` that are taken of its memory at most. ``function``: called
    over and over with the name of the device (``cuda:0``), one call being a step; or ``"module:name"``. It runs in
    another process, from its own source, and must import what it needs. ``threads`` of a processor. ``executable``: the
    Python to run with; it needs torch.

    One device after the other, each in a process of its own that sees no other and is killed when its time is up.
    What goes wrong with one is `Measurement.problem`. Raises GpumapError for what cannot be asked, NoDriver without a
    driver.
    """
    order = order_for(
        devices,
        dtype=dtype,
        seconds=seconds,
        memory_mib=memory_mib,
        function=function,
        threads=threads,
        executable=executable,
    )
    if consent is not True:
        raise GpumapError(order.said, remedy=say("measure.consent-remedy"))
    return MeasureRun(order).start().result()
