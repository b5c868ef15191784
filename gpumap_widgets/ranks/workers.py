"""The same map from Dask and Ray: their own engines run `ask_process` in every worker, and nothing else is added."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import GpumapError
from ..texts import say
from .asking import ask_process
from .report import RanksReport
from .row import RankRow

if TYPE_CHECKING:
    import pandas as pd  # noqa: TID251 - for its type only


def report_workers(client: Any, *, start_cuda: bool = False, quiet: bool = False) -> pd.DataFrame:
    """Which GPU does every worker of a Dask cluster use? ``client``: a `distributed.Client`.

    Runs through ``Client.run``, in the workers' own processes, where this package must be installed. A worker that has
    not started CUDA is taken to use the first device of its list, as dask-cuda arranges it; without a list nothing tells.
    Prints the table (unless ``quiet``) and returns it, as `report_ranks` does; a worker that fails is a row with its
    reason. Raises GpumapError for an asynchronous client: await ``client.run`` yourself there.
    """
    answers = client.run(partial(_ask, start_cuda=start_cuda), on_error="return")
    if inspect.isawaitable(answers):
        if inspect.iscoroutine(answers):
            answers.close()
        raise GpumapError(say("ranks.asynchronous"))
    return _told([_row(address, answer) for address, answer in _by_name(client, answers)], quiet=quiet)


def _by_name(client: Any, answers: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Answers by the workers' own names where the scheduler knows them, in their order."""
    known = client.scheduler_info().get("workers", {}) if hasattr(client, "scheduler_info") else {}
    named = [(known.get(address, {}).get("name", address), answer) for address, answer in answers.items()]
    named.sort(key=lambda pair: (not isinstance(pair[0], int), pair[0] if isinstance(pair[0], int) else str(pair[0])))
    return [(f"worker {name}" if isinstance(name, int) else str(name), answer) for name, answer in named]


def report_actors(
    actors: Iterable[Any], *, start_cuda: bool = False, timeout: float = 120.0, quiet: bool = False
) -> pd.DataFrame:
    """Which GPU does every actor of a Ray job use? ``actors``: their handles; or a mapping from names to handles.

    Runs in the actors' own processes through Ray's ``__ray_call__``, which every actor has (Ray 2.10 and later); this
    package must be installed there. An actor that has not started CUDA is taken to use the first device of the list that
    Ray gave it. Prints the table (unless ``quiet``) and returns it, as `report_ranks` does; an actor that is dead or does
    not answer within ``timeout`` seconds is a row with its reason. A Ray task cannot be asked from outside: call
    `report_ranks` in it, which reports that process alone.
    """
    ray = sys.modules.get("ray")
    named = dict(actors) if isinstance(actors, Mapping) else {f"actor {k}": actor for k, actor in enumerate(actors)}
    if ray is None and named:
        raise GpumapError(say("ranks.no-ray"))
    asked = {name: actor.__ray_call__.remote(_ask_actor, start_cuda=start_cuda) for name, actor in named.items()}
    ready: set[Any] = set()
    if ray is not None and asked:
        ready = set(ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout)[0])
    rows = [_row(name, _fetched(ray, ref) if ref in ready else None, timeout) for name, ref in asked.items()]
    return _told(rows, quiet=quiet)


def _fetched(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except Exception as exc:  # noqa: BLE001 - a dead actor raises what Ray likes; it becomes the reason of its row
        return exc


def _ask(*, start_cuda: bool) -> RankRow:
    """In a worker. Its own list, where it has one, begins with its own device."""
    row = ask_process(first_device=True, start_cuda=start_cuda)
    if row.by == "first device" and not row.cuda_visible_devices:
        return ask_process(start_cuda=start_cuda)
    return row


def _ask_actor(_: object, *, start_cuda: bool) -> RankRow:
    """In an actor: Ray hands over its instance."""
    return _ask(start_cuda=start_cuda)


def _row(name: str, answer: Any, timeout: float | None = None) -> RankRow:
    if isinstance(answer, RankRow):
        return replace(answer, worker=name)
    if answer is None:
        return RankRow(worker=name, reason=say("ranks.no-answer", seconds=f"{timeout:g}"))
    error = f"{type(answer).__name__}: {answer}".strip().split("\n", 1)[0][:300]
    return RankRow(worker=name, reason=say("ranks.failed", error=error))


def _told(rows: Sequence[RankRow], *, quiet: bool) -> pd.DataFrame:
    report = RanksReport(tuple(rows))
    if not quiet:
        sys.stdout.write(f"{report}\n")
        sys.stdout.flush()
    frame: pd.DataFrame = report.to_frame()
    return frame
