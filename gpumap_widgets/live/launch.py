"""A launcher started for real, with the probe in place of the user's script: every worker reports what it got.

Only launchers of the table are started, on this machine alone. What the launcher starts is kept by `keeper` and cannot
outlive the run.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..frozen import FrozenDict
from ..layers import fold
from ..mapping import Message, Observation, Prediction
from ..scenario import ENVIRONMENT
from . import children
from .answer import NoAnswerError
from .environment import complete_environment
from .folder import LOG, private_folder
from .job import Job, together
from .keeper import TIMED_OUT
from .program import HARDWARE, PROBE, WORKER, last_words, leash_for

_POLL = 0.02
_SCRIPT = """import sys
ns = {{"__name__": "gpumap_program"}}
for path in {paths!r}:
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), ns)
ns["work"]({folder!r}, {limit}, {names!r})
"""


class Launcher(NamedTuple):
    """One launcher that can be started."""

    programs: tuple[tuple[str, ...], ...]
    """How a command begins that starts it: a program's name, or ``-m module`` behind an interpreter."""
    port: str
    """The option for the port at which its workers meet: a free one is given, so that no job is disturbed."""
    elsewhere: tuple[str, ...]
    """Options that bring in other machines; a value of 1 is this machine alone."""
    more: Callable[[Path], tuple[str, ...]] = lambda _: ()
    """Further options that keep it on this machine."""
    words: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    """From the options of its layer to the command that starts it; None where the layer does not tell."""


def _torchrun(options: Mapping[str, Any]) -> tuple[str, ...]:
    nodes = (f"--nnodes={options['nnodes']}",) if options.get("nnodes", 1) != 1 else ()
    virtual = ("--virtual-local-rank",) if options.get("virtual") else ()
    return ("torchrun", f"--nproc-per-node={options.get('nproc', 1)}", *nodes, *virtual)


LAUNCHERS: Mapping[str, Launcher] = {
    "torchrun": Launcher(
        (("torchrun",), ("-m", "torch.distributed.run"), ("-m", "torch.distributed.launch")),
        "--master-port",
        ("--nnodes", "--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr"),
        words=_torchrun,
    ),
    "accelerate": Launcher(
        (("accelerate", "launch"), ("accelerate-launch",), ("-m", "accelerate.commands.launch")),
        "--main_process_port",
        ("--num_machines", "--main_process_ip", "--deepspeed_hostfile", "--tpu", "--tpu_use_cluster"),
    ),
    "deepspeed": Launcher(
        (("deepspeed",), ("-m", "deepspeed.launcher.runner")),
        "--master_port",
        ("--num_nodes", "-H", "--hostfile", "--include", "-i", "--launcher", "--master_addr"),
        lambda folder: ("--hostfile", str(folder / "no-hostfile")),  # else it looks for /job/hostfile
    ),
}
"""Kind of layer → its launcher. Run: torchrun of torch 2.14.1, accelerate 1.15.0, deepspeed 0.19.8."""


def observe_workers(
    command: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 120.0
) -> tuple[Observation, ...]:
    """Start a launcher for real and say what each of its workers got: one observation a worker, by rank.

    ``command``: the launcher and its options as a list of words, without a script
    (``["torchrun", "--nproc-per-node=2"]``); torchrun, accelerate and deepspeed are known. ``env``: the GPU and rank
    variables that it is started with; any other such variable is unset. Blocks for ``timeout`` seconds at most. Never
    raises for what goes wrong: where no worker answered, there is one observation, whose `Observation.problem` says why.
    """
    launch = Launch(command, env or {}, timeout).start()
    launch.result()
    return launch.workers


class Start(NamedTuple):
    """What would be started for a scenario."""

    kind: str
    command: tuple[str, ...]
    env: Mapping[str, str]


def start_of(prediction: Prediction) -> Start | None:
    """The launcher that a scenario has, to be started for real; None where it has none that can be, or where something
    stands around it that is no variable (a container, a scheduler).
    """
    layers = [layer for layer in prediction.scenario.layers if layer.enabled]
    kinds = [layer.kind for layer in layers if layer.kind != ENVIRONMENT]
    row = LAUNCHERS.get(kinds[0]) if len(kinds) == 1 else None
    if prediction.error is not None or row is None or row.words is None:
        return None
    place = next(i for i, layer in enumerate(layers) if layer.kind == kinds[0])
    outer = fold(prediction.scenario.topology, layers[:place])
    return Start(kinds[0], row.words(layers[place].options), outer.views[0].env) if outer.views else None


class Launch(Job):
    """One start of a launcher."""

    thread_name = "gpumap-live-launch"

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        timeout: float = 120.0,
        on_done: Callable[[Launch], object] | None = None,
    ) -> None:
        """As for `Job` and `observe_workers`."""
        super().__init__(env, timeout, on_done)
        self.command = tuple(command)
        self.workers: tuple[Observation, ...] = ()
        """One observation a worker, by rank; () until it has ended, or where none answered."""

    def result(self) -> Observation:
        """Wait for the workers; the first one's observation, with all others beside it."""
        observation = super().result()
        self.workers = self.workers or (observation,)
        return observation

    def _answer(self) -> Observation:
        kind, start = recognised(self.command)
        with private_folder() as folder:
            self.workers = self._launch(kind, start, folder)
        return together(self.workers)

    def _launch(self, kind: str, start: int, folder: Path) -> tuple[Observation, ...]:
        env = complete_environment(self._inherited, self.env)
        script = folder / "worker.py"
        paths = [str(path) for path in (HARDWARE, PROBE, WORKER)]
        limit = leash_for(self.timeout)
        script.write_text(_SCRIPT.format(paths=paths, folder=str(folder), limit=limit, names=tuple(self.env)))
        command = [*self._program(env), *self.command[1:start], *_kept_here(kind, folder), *self.command[start:]]
        status, stopped = self._run([*command, str(script)], env, folder)
        found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("worker-*.json"))]
        if not found:
            words = last_words(folder / LOG) or "-"
            reason = Message("live.launcher-failed", FrozenDict({"launcher": kind, "status": status, "tail": words}))
            return (self._observed(stopped or reason, ran=(kind,)),)
        return self._workers(kind, found, stopped)

    def _program(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """The program by its full path: as the shell finds it, else beside this interpreter."""
        name = self.command[0]
        path = shutil.which(name, path=env.get("PATH"))
        if path is None and os.sep not in name and Path(sys.executable).with_name(name).exists():
            path = str(Path(sys.executable).with_name(name))
        if path is None:
            raise NoAnswerError("live.no-launcher", launcher=name, executable=sys.executable)
        return (path,)

    def _run(self, command: list[str], env: Mapping[str, str], folder: Path) -> tuple[str, Message | None]:
        """Status of the launcher, and why it was stopped."""
        keeper = [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), str(self.timeout)]
        stopped = None
        with (folder / LOG).open("wb") as log, children.start([*keeper, *command], env, str(folder), log) as process:
            while process.poll() is None:
                if self._cancelled.is_set() and process.stdin and not process.stdin.closed:
                    stopped = Message("live.cancelled", FrozenDict({"seconds": f"{self.elapsed:.1f}"}))
                    process.stdin.close()  # which makes the keeper clear up
                if self.elapsed > self.timeout + 5:  # the keeper itself is stuck
                    children.kill(process)
                time.sleep(_POLL)
        if process.returncode == TIMED_OUT and stopped is None:
            stopped = Message("live.launcher-timed-out", FrozenDict({"seconds": f"{self.timeout:g}"}))
        return str(process.returncode), stopped

    def _workers(self, kind: str, found: list[dict[str, Any]], stopped: Message | None) -> tuple[Observation, ...]:
        """One observation a worker; one that did not report says so."""
        by_rank = {facts["ranks"]["RANK"] or 0: facts for facts in found}
        count = max(*(facts["ranks"]["WORLD_SIZE"] or 0 for facts in found), *(rank + 1 for rank in by_rank))
        said = []
        for rank in range(count):
            facts = by_rank.get(rank)
            if facts is None:
                problem = stopped or Message("live.worker-silent", FrozenDict({"rank": rank, "launcher": kind}))
                said.append(self._observed(problem, rank=rank, ran=(kind,)))
                continue
            frame: dict[str, Any] = {"rank": rank, "local_rank": facts["ranks"]["LOCAL_RANK"], "ran": (kind,)}
            torch = self._observed(facts, **frame)
            if torch.problem is None and facts.get("driver_devices"):
                told = {k: v for k, v in facts.items() if k not in ("torch", "torch_error")}
                told |= {"devices": facts["driver_devices"], "seconds": {}}
                driver = self._observed(told, witness="driver", **frame)
                frame["others"] = (driver,)
                torch = self._observed(facts, **frame)
            said.append(torch)
        return tuple(said)


def recognised(command: Sequence[str]) -> tuple[str, int]:
    """Which launcher a command starts, and how many words begin it. Raises NoAnswerError for any other command, and
    for one that would start something on other machines.
    """
    words = list(command)
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise NoAnswerError("live.not-a-launcher", command=" ".join(map(str, words)) or "-")
    name = Path(words[0]).name
    interpreter = name.startswith(("python", "pypy"))
    for kind, row in LAUNCHERS.items():
        for program in row.programs:
            length = len(program) + (program[0] == "-m")
            begins = tuple(words[1:length]) == program if program[0] == "-m" else (name, *words[1:length]) == program
            if begins and interpreter == (program[0] == "-m"):
                _refuse_elsewhere(words[length:], row)
                return kind, length
    raise NoAnswerError("live.not-a-launcher", command=" ".join(words))


def _refuse_elsewhere(options: list[str], row: Launcher) -> None:
    for place, word in enumerate(options):
        name, _, value = word.partition("=")
        value = value or (options[place + 1] if place + 1 < len(options) else "")
        if name in row.elsewhere and value not in ("1", "1:1", "localhost", "127.0.0.1"):
            raise NoAnswerError("live.launch-elsewhere", option=name)


def _kept_here(kind: str, folder: Path) -> tuple[str, ...]:
    """Options that keep it from other machines and from another job's port; the user's own come behind them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    row = LAUNCHERS[kind]
    return (row.port, str(port), *row.more(folder))
