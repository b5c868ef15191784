"""One live run: a question to every witness, on threads of its own, with a certain end whatever the outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..identity import PciBusId
from ..mapping import Message, Observation, ObservedDevice
from .answer import NoAnswerError
from .children import Child
from .environment import complete_environment
from .folder import LOG, private_folder
from .job import Job, failure, together
from .kernel import POLL, Kernel
from .program import HARDWARE, leash_for, question
from .spare import Doubt, Spares

DRIVER, TORCH = "driver", "torch"
_SLOW_START = 30.0
"""Seconds within which a kernel starts, at least; half of the time-out where that is more."""
_GRACE = 5.0
"""Seconds that the driver's witness has left once torch has answered: CUDA is known to start by then."""


class Run(Job):
    """One question to the driver and to torch."""

    def __init__(
        self,
        env: Mapping[str, str],
        kernel_name: str | None = None,
        timeout: float = 60.0,
        on_done: Callable[[Run], object] | None = None,
        *,
        witnesses: tuple[str, ...] = (DRIVER, TORCH),
        on_driver: Callable[[Run], object] | None = None,
        spares: Spares | None = None,
    ) -> None:
        """As for `Job`. ``kernel_name``: a kernelspec; None for this interpreter, without the user's start-up files.

        ``on_driver(run)`` is called as soon as ``driver`` is there. ``spares`` may lend a kernel that waits.
        """
        super().__init__(env, timeout, on_done)
        self.kernel_name = kernel_name
        self.witnesses = witnesses
        self.driver: Observation | None = None
        """What the driver said; None until then."""
        self._on_driver, self._spares = on_driver, spares
        self._child: Child | None = None
        self._notes: tuple[Message, ...] = ()

    def _answer(self) -> Observation:
        driver = threading.Thread(target=self._ask_driver, name="gpumap-live-driver", daemon=True)
        if DRIVER in self.witnesses:
            env = complete_environment(self._inherited, self.env)
            self._child = Child(HARDWARE, "report_driver", env, self.timeout, tuple(self.env))
            driver.start()
        torch = None
        if TORCH in self.witnesses:
            torch = self._warm(driver) if self._spares is not None else None
            torch = torch or self._cold()
        self._await(driver, _GRACE if torch is not None else self.timeout)
        if self._spares is not None:
            self._spares.renew(worked=torch is not None and torch.problem is None)
        return together(one for one in (torch, self.driver) if one is not None)

    def _ask_driver(self) -> None:
        assert self._child is not None
        self.driver = self._observed(self._child.facts(), witness=DRIVER)
        if self._on_driver is not None and not self._cancelled.is_set():
            self._on_driver(self)

    def _await(self, driver: threading.Thread, patience: float) -> None:
        """Wait for the driver's answer, not longer than that many seconds and the run's own time; then end it."""
        end = time.monotonic() + patience
        try:
            while driver.is_alive():
                driver.join(POLL)
                self._look_at_clock()
                if time.monotonic() > end:
                    raise NoAnswerError("live.child-timed-out", seconds=f"{self.elapsed:.0f}")
        except NoAnswerError as reason:
            said = reason.problem
            if said.key == "live.timed-out":
                said = Message("live.child-timed-out", said.fields)
            assert self._child is not None
            self._child.stop(said)
            driver.join()

    def _warm(self, driver: threading.Thread) -> Observation | None:
        """The answer of a kernel that waited; None where there is none that can be relied on, which a note says."""
        assert self._spares is not None
        if self.kernel_name is not None or DRIVER not in self.witnesses:
            return None
        try:
            facts = self._spares.ask(self.env, self._inherited, self.timeout, self._look)
        except Doubt as doubt:
            self._notes = (doubt.said,) if doubt.said else ()
            return None
        except NoAnswerError as reason:
            return self._observed(reason.problem, warm=True)
        torch = self._observed(facts, warm=True)
        self._await(driver, self.timeout)
        unlike = None if self.driver is None else doubt_between(torch, self.driver)
        self._notes = (unlike,) if unlike else ()
        return None if unlike else torch

    def _cold(self) -> Observation:
        facts: Mapping[str, Any] | Message
        try:
            # a loop of a known kind: the policy of the notebook may be another, and zmq needs a selector
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                facts = runner.run(self._ask())
        except NoAnswerError as reason:
            facts = reason.problem
        except Exception as exc:  # noqa: BLE001 - a full disk, a broken installation: the notebook must learn of it
            facts = failure(exc)
        return self._observed(facts, kernel_name=self.kernel_name or "", notes=self._notes)

    async def _ask(self) -> Mapping[str, Any]:
        self._look(starting=True)
        with private_folder() as folder, (folder / LOG).open("wb") as log:
            kernel, env = Kernel(folder), complete_environment(self._inherited, self.env)
            limit = leash_for(self.timeout)
            try:
                await kernel.start(self.kernel_name, env, limit, log)
                await kernel.connect(self._look)
                facts = await kernel.ask(question("report", (tuple(self.env),), limit), self._look)
                return {**facts, "seconds": {**facts["seconds"], "kernel": kernel.up - self._started}}
            finally:
                await kernel.end()

    def _look(self, *, starting: bool) -> None:
        self._look_at_clock()
        if starting and self.elapsed > max(_SLOW_START, self.timeout / 2):
            raise NoAnswerError("live.slow-start", seconds=f"{self.elapsed:.0f}")


def doubt_between(torch: Observation, driver: Observation) -> Message | None:
    """Why a kernel that waited is not believed; None where the driver, asked afresh, says the same."""
    if driver.problem is not None or torch.problem is not None:
        both = driver.problem is not None and torch.problem is not None and driver.problem.key == torch.problem.key
        return None if both else Message("live.spare-unlike")
    same = len(torch.devices) == len(driver.devices)
    same = same and all(_same(a, b) for a, b in zip(torch.devices, driver.devices, strict=True))
    return None if same else Message("live.spare-unlike")


def _same(a: ObservedDevice, b: ObservedDevice) -> bool:
    if a.uuid and b.uuid:
        return a.uuid == b.uuid
    places = [PciBusId.parse(one.pci_bus_id) for one in (a, b) if one.pci_bus_id]
    return len(places) == 2 and places[0] == places[1]
