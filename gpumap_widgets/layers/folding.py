"""Layers applied to a machine, outermost first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..certainty import Certainty, least
from ..mapping import Step
from ..scenario import Layer
from ..texts import say
from ..topology import Topology
from .base import LAYERS, MOST_PROCESSES, Outcome, View


class Folded(NamedTuple):
    """Where the layers lead."""

    views: tuple[View, ...]
    """One a process; () where nothing starts."""
    steps: tuple[tuple[Step, ...], ...]
    """By view: what the layers did on the way to it. Where nothing starts, one row: what they did until then."""
    error: str | None
    """Why nothing starts; None when it starts."""
    certainty: Certainty = Certainty.CERTAIN
    """How sure it is that nothing starts; unknown where this version cannot follow the layers."""


def fold(topology: Topology, layers: Iterable[Layer], view: View | None = None, *, believed: bool = False) -> Folded:
    """Apply layers in their order; those that are switched off are passed over.

    ``believed``: do what people take a layer to do, where that is known to differ from what it does.
    """
    views: tuple[View, ...] = (view or View(),)
    trails: tuple[tuple[Step, ...], ...] = ((),)
    for layer in layers:
        if not layer.enabled:
            continue
        row = LAYERS.get(layer.kind)
        if row is None:
            return _lost(trails, say("error.unknown-layer", kind=layer.kind))
        odd = row.problem(layer.options)
        if odd is not None:
            return _lost(trails, say("error.odd-options", kind=layer.kind, why=odd))
        apply = row.believed if believed and row.believed else row.apply
        outcomes = [apply(one, layer.options, topology) for one in views]
        for one, outcome, trail in zip(views, outcomes, trails, strict=True):
            if outcome.error is not None:
                sure = least((one.certainty, outcome.certainty))
                return Folded((), ((*trail, *outcome.steps),), outcome.error.text(), sure)
        if sum(len(outcome.views) for outcome in outcomes) > MOST_PROCESSES:
            return _lost(trails, say("error.too-many-processes", most=MOST_PROCESSES))
        trails = tuple(way for outcome, trail in zip(outcomes, trails, strict=True) for way in _ways(outcome, trail))
        views = tuple(one for outcome in outcomes for one in outcome.views)
    return Folded(views, trails, None)


def _lost(trails: tuple[tuple[Step, ...], ...], error: str) -> Folded:
    return Folded((), trails[:1], error, Certainty.UNKNOWN)


def _ways(outcome: Outcome, trail: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    common = (*trail, *outcome.steps)
    if not outcome.own:
        return [common] * len(outcome.views)
    return [(*common, *own) for own in outcome.own]
