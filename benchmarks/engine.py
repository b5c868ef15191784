"""`resolve` beside torch's own parser of the same list, its growth with the machine, and its memory over many pairs.

No list is ever resolved twice, so that nothing that remembers lists can help; what is worked out once a machine may be.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpumap_widgets import Scenario, Topology, resolve

from .figures import Budget, Figure, Result, Skipped, median, number
from .machines import EQUAL, again, identities, machine, numbers, typed
from .processes import environment, installed

VARIABLE = "CUDA_VISIBLE_DEVICES"
GPUS = TOKENS = 16
LISTS, BATCH = 1000, 50
"""Lists a way of calling, and how many of them make one sample (a sample is their mean)."""
RATIO = Budget(20, "ratio", goal=10)
SIZES = tuple(2**k for k in range(4, 13))
ROUNDS = 5
FIT_FROM = 256
"""Growth is fitted from this size on: below, what a call costs anyway would flatter it."""
EXPONENT = Budget(1.1, "most")
"""Of the fit against n log n; the tenth is for the noise of a shared machine."""
PAIRS, MILLION = 100_000, 1_000_000
GROWTH = Budget(8, "most")
"""MiB over the last nine tenths of the pairs."""
COLD_PROCESSES = 7

_FIRST = """
import random, time
from benchmarks.machines import EQUAL, MODELS, machine, numbers
from gpumap_widgets import Scenario, resolve
value = numbers(random.Random(1), {count})
scenario = Scenario.from_env(machine({count}, {models}), {{"CUDA_VISIBLE_DEVICES": value}})
started = time.perf_counter()
resolve(scenario).steps
print(1e6 * (time.perf_counter() - started))
"""


def _torch_parser() -> Callable[[], Sequence[object]]:
    """torch's reading of the variable. Raises Skipped without torch."""
    try:
        from torch.cuda import _parse_visible_devices
    except ImportError as exc:
        raise Skipped(f"torch is not installed ({exc})") from exc
    return _parse_visible_devices  # type: ignore[no-any-return]


class Way(NamedTuple):
    """One way of calling the engine: what is made ready, and what is timed."""

    what: str
    ready: Callable[[Topology, str], Any]
    call: Callable[[Any], object]
    budget: Budget | None = None


def _scenario(topology: Topology, value: str) -> Scenario:
    return Scenario.from_env(topology, {VARIABLE: value})


def _steps(scenario: Scenario) -> object:
    return resolve(scenario).steps


def _everything(given: tuple[Topology, str]) -> object:
    prediction = resolve(_scenario(*given))
    return [str(step) for step in prediction.steps], [(f.message, f.remedy) for f in prediction.findings]


WAYS = (
    Way("resolve", _scenario, resolve),
    Way("resolve, steps", _scenario, _steps, RATIO),
    Way("from_env, resolve, steps", lambda *given: given, lambda given: resolve(_scenario(*given)).steps),
    Way("the same, findings, every sentence", lambda *given: given, _everything),
    Way("resolve, steps, first on a machine", lambda topology, value: _scenario(again(topology), value), _steps),
)


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """torch reads the process's own environment: whatever is done to it is undone."""
    kept = os.environ.get(VARIABLE)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if kept is not None:
            os.environ[VARIABLE] = kept


def _timed(call: Callable[..., object], *given: Any) -> int:
    """ns by the clock on the wall: the clock of the thread takes too long to read."""
    started = time.perf_counter_ns()
    call(*given)
    return time.perf_counter_ns() - started


def _worked(call: Callable[..., object], *given: Any) -> int:
    """ns that this thread worked: on a shared machine the truer measure for long calls."""
    started = time.thread_time_ns()
    call(*given)
    return time.thread_time_ns() - started


def _with_torch(
    parser: Callable[[], Sequence[object]], ways: Sequence[Way], topology: Topology, values: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """µs of each way and of torch, in batches. Each list goes to torch and to one of the ways, which take
    turns; what is timed first takes turns too.
    """
    calls: dict[str, tuple[list[int], list[int]]] = {way.what: ([], []) for way in ways}
    with _environment_kept():
        for i, value in enumerate(values):
            way, turn = ways[i % len(ways)], i // len(ways)
            mine, base = calls[way.what]
            os.environ[VARIABLE] = value
            given = way.ready(topology, value)
            if turn % 2:
                base.append(_timed(parser))
                mine.append(_timed(way.call, given))
            else:
                mine.append(_timed(way.call, given))
                base.append(_timed(parser))
    return {what: (_samples(mine), _samples(base)) for what, (mine, base) in calls.items()}


def _samples(nanoseconds: Sequence[int]) -> list[float]:
    """µs a call, a sample a batch: the mean of its quicker nine tenths, since the rest were mostly interrupted."""
    kept = BATCH * 9 // 10
    starts = range(0, len(nanoseconds) - BATCH + 1, BATCH)
    return [sum(sorted(nanoseconds[i : i + BATCH])[:kept]) / kept / 1000 for i in starts]


def _same_work(parser: Callable[[], Sequence[object]], topology: Topology, value: str) -> None:
    """Both must keep the whole list, or the comparison would be of different work."""
    with _environment_kept():
        os.environ[VARIABLE] = value
        theirs = len(parser())
    ours = len(resolve(_scenario(topology, value)).processes[0].devices)
    if not ours == theirs == value.count(",") + 1:
        raise RuntimeError(f"{value!r}: {ours} devices here, {theirs} by torch")


def _beside_torch(parser: Callable[[], Sequence[object]], *, full: bool) -> list[Figure]:
    """The figures for 16 GPUs."""
    rng = random.Random(7)
    mixed, equal = machine(GPUS), machine(GPUS, EQUAL)
    count = LISTS * (4 if full else 1)
    _same_work(parser, mixed, numbers(rng, GPUS))
    _same_work(parser, equal, identities(rng, equal))
    few = WAYS[:2]
    plans: list[tuple[str, Topology, Sequence[Way], Callable[[], str]]] = [
        ("8 models × 2, numbers", mixed, WAYS, lambda: numbers(rng, GPUS)),
        ("16 equal, numbers", equal, WAYS, lambda: numbers(rng, GPUS)),
        ("8 models × 2, UUIDs", mixed, few, lambda: identities(rng, mixed)),
        ("8 models × 2, as typed (cut, odd, repeats)", mixed, few, lambda: typed(rng, mixed, TOKENS)),
    ]
    figures = []
    for name, topology, ways, make in plans:
        warm = _distinct(make, 20 * len(ways))
        values = _distinct(make, count * len(ways), warm)
        _with_torch(parser, ways, topology, tuple(warm))
        found = _with_torch(parser, ways, topology, tuple(values))
        for way in ways:
            mine, base = found[way.what]
            typed_list = "typed" in name
            budget = None if typed_list else way.budget
            figures.append(Figure(f"{name}: {way.what}", "µs", mine, "torch's parser", base, budget))
    return figures


def _distinct(make: Callable[[], str], count: int, but: dict[str, None] | None = None) -> dict[str, None]:
    """So many different lists, none of them among some others."""
    found: dict[str, None] = {}
    while len(found) < count:
        value = make()
        if not but or value not in but:
            found[value] = None
    return found


def _first_in_process() -> list[Figure]:
    """The very first call of a process: sentences load, the catalogue is searched."""
    figures = []
    with installed() as folder:
        for what, models in (("8 models × 2", "MODELS"), ("16 equal", "EQUAL")):
            code = _FIRST.format(count=GPUS, models=models)
            times = [float(_python(folder, "-c", code)) for _ in range(COLD_PROCESSES)]
            figures.append(Figure(f"{what}: resolve, steps, first of a process", "µs", times))
    return figures


def _python(folder: Path, *arguments: str) -> str:
    """What an interpreter prints that has the package from that folder."""
    command, env = [sys.executable, *arguments], environment(folder)
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


# --- growth ----------------------------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """A way of calling whose growth is measured: on which kind of machine, with which kind of list."""

    way: Way
    models: str
    make: Callable[[random.Random, Topology], str]
    what: str


def _numbers_of(rng: random.Random, topology: Topology) -> str:
    return numbers(rng, len(topology.gpus))


_PLAIN, _STEPPED, _FIRST_CALL = WAYS[0], WAYS[1], WAYS[4]
GROWTHS = (
    Growth(_PLAIN, "mixed", _numbers_of, "resolve, numbers, 8 models"),
    Growth(_STEPPED, "mixed", _numbers_of, "resolve, steps, numbers, 8 models"),
    Growth(_STEPPED, "equal", _numbers_of, "resolve, steps, numbers, equal"),
    Growth(_STEPPED, "mixed", identities, "resolve, steps, UUIDs, 8 models"),
    Growth(_FIRST_CALL, "mixed", _numbers_of, "resolve, steps, first on a machine, 8 models"),
)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of log(time) over log(n), by least squares."""
    xs, ys = [math.log(n) for n in sizes], [math.log(t) for t in times]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


def _growth(parser: Callable[[], Sequence[object]], *, full: bool) -> tuple[list[Figure], list[str]]:
    """Every way at every size, in rounds over all of them, then the fits."""
    rng = random.Random(11)
    machines = {"mixed": [machine(n) for n in SIZES], "equal": [machine(n, EQUAL) for n in SIZES]}
    times: dict[str, list[list[float]]] = {g.what: [[] for _ in SIZES] for g in GROWTHS}
    theirs: list[list[float]] = [[] for _ in SIZES]
    with _environment_kept():
        for round_ in range((ROUNDS * 3 if full else ROUNDS) + 1):
            for i, n in enumerate(SIZES):
                repeats = max(1, 256 // n)
                for growth in GROWTHS:
                    topology = machines[growth.models][i]
                    ready = [growth.way.ready(topology, growth.make(rng, topology)) for _ in range(repeats)]
                    gc.collect()
                    took = sum(_worked(growth.way.call, given) for given in ready) / repeats / 1000
                    if round_:  # the first one warms up
                        times[growth.what][i].append(took)
                os.environ[VARIABLE] = numbers(rng, n)
                theirs[i].append(sum(_worked(parser) for _ in range(repeats)) / repeats / 1000)
    figures, notes = [], []
    for growth in GROWTHS:
        found = [median(t) for t in times[growth.what]]
        figures.append(_fitted(growth.what, found, EXPONENT))
        notes.append(_listed(growth.what, found))
    found = [median(t) for t in theirs]
    figures.append(_fitted("torch's parser, numbers", found, None))
    notes.append(_listed("torch's parser, numbers", found))
    return figures, notes


def _listed(what: str, times: Sequence[float]) -> str:
    return f"{what}: µs at " + ", ".join(f"{n}: {number(t)}" for n, t in zip(SIZES, times, strict=True))


def _fitted(what: str, times: Sequence[float], budget: Budget | None) -> Figure:
    """The exponent against n log n, which is 1 for n log n and a little below 1 for n."""
    top = [(n, t) for n, t in zip(SIZES, times, strict=True) if n >= FIT_FROM]
    sizes = [n for n, _ in top]
    plain = exponent(sizes, [t for _, t in top])
    unit = exponent(sizes, [n * math.log(n) for n in sizes])
    details = {"exponent_of_n": plain, "microseconds": dict(zip(map(str, SIZES), times, strict=True))}
    return Figure(f"growth against n log n: {what}", "", [plain / unit], budget=budget, details=details)


# --- memory ----------------------------------------------------------------------------------------------------------


def _memory(*, full: bool) -> tuple[Figure, str]:
    count = MILLION if full else PAIRS
    with installed() as folder:
        said = json.loads(_python(folder, "-m", "benchmarks.pairs", str(count)))
    seen = said["rss"]
    warm = len(seen) // 10  # caches with a limit are full by then
    grown = max(seen[warm:]) - seen[warm]
    figure = Figure(f"memory over {count:,} pairs after the first tenth", "MiB", [grown], budget=GROWTH, details=said)
    note = (
        f"{count:,} (machine, list) pairs: {seen[0]:.1f} MiB before, {seen[warm]:.1f} after a tenth, "
        f"{seen[len(seen) // 2]:.1f} after half, {seen[-1]:.1f} at the end; "
        f"{1e6 * said['engine'] / count:.0f} µs a pair in the engine, each on a machine that it had not seen"
    )
    return figure, note


def run(*, full: bool) -> Result:
    """All of it."""
    parser = _torch_parser()
    gc.collect()
    gc.freeze()  # torch's own objects are no load of the engine's
    figures = _beside_torch(parser, full=full)
    figures += _first_in_process()
    growth, notes = _growth(parser, full=full)
    memory, said = _memory(full=full)
    how = f"a sample is {BATCH} calls, each on a list of its own: the mean of the quicker nine tenths, the collector on"
    notes = [how, "growth is by the time that the thread worked", *notes, said]
    return Result([*figures, *growth, memory], notes)
