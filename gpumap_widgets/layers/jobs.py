"""Several programs side by side, and a command that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import Layer
from ..topology import Topology
from .base import LayerRow, Outcome, View
from .folding import fold

_SOURCE = "POSIX shell: each command of a script has the environment at its place"


def _apply_jobs(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """Each of ``jobs``, a list of layers, starts from the same view. ``names``: what they are called."""
    jobs, names = options.get("jobs", ()), options.get("names", ())
    views: list[View] = []
    own: list[tuple[Step, ...]] = []
    for number, job in enumerate(jobs):
        folded = fold(topology, [Layer.from_dict(row) for row in job], view)
        name = names[number] if number < len(names) else ""
        if folded.error is not None:
            fields = {"job": name or number + 1, "error": folded.error}
            return Outcome((), error=Message("error.job", FrozenDict(fields)), certainty=folded.certainty)
        for one, trail in zip(folded.views, folded.steps, strict=True):
            named = one if one.worker else replace(one, worker=f"{name or f'job {number + 1}'}{_rank(one)}")
            views.append(named)
            own.append(trail)
    said = Step("environment", Message, ("step.jobs", FrozenDict({"count": len(jobs)})), Certainty.CERTAIN, _SOURCE)
    return Outcome(tuple(views), (said,), tuple(own))


def _rank(view: View) -> str:
    return "" if view.rank is None else f", rank {view.rank}"


def _jobs_problem(options: Mapping[str, Any]) -> str | None:
    jobs = options.get("jobs", ())
    if not isinstance(jobs, tuple) or any(not isinstance(job, tuple) for job in jobs):
        return "“jobs” is no list of lists"
    names = options.get("names", ())
    if not isinstance(names, tuple) or any(not isinstance(name, str) for name in names):
        return f"“names” is {names!r}, no list of texts"
    try:
        for job in jobs:
            for row in job:
                Layer.from_dict(row)
    except (TypeError, KeyError) as exc:
        return str(exc)
    return None


def _apply_unreadable(_: View, options: Mapping[str, Any], __: Topology) -> Outcome:
    at = int(options.get("at", 0)) + 1  # a character; a line in YAML
    fields = FrozenDict({"at": at, "name": options.get("name", "")})
    return Outcome((), error=Message(f"error.command.{options['why']}", fields), certainty=Certainty.UNKNOWN)


WHYS = (
    *("long", "quote", "backtick", "parenthesis", "brace"),
    *("yaml", "yaml-large", "yaml-alias", "yaml-twice", "yaml-no-container", "no-file", "idle"),
)
"""Why a command cannot be read: keys of sentences."""


def _unreadable_problem(options: Mapping[str, Any]) -> str | None:
    why, at = options.get("why"), options.get("at", 0)
    named = isinstance(options.get("name", ""), str)
    return None if why in WHYS and type(at) is int and named else f"“why” is {why!r}, “at” is {at!r}"


ROWS: Mapping[str, LayerRow] = {
    "jobs": LayerRow(_apply_jobs, _SOURCE, _jobs_problem, "environment"),
    "unreadable": LayerRow(_apply_unreadable, _SOURCE, _unreadable_problem, "environment"),
}
