"""The types of the table of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..frozen import FrozenDict
from ..mapping import Step
from ..topology import Topology


@dataclass(frozen=True)
class View:
    """What one process-to-be has before it: GPUs, variables, rank."""

    accessible: tuple[int, ...] | None = None
    """Positions in ``topology.gpus`` that are left; None while nothing took any away."""
    env: Mapping[str, str] = field(default_factory=FrozenDict)
    rank: int | None = None
    local_rank: int | None = None
    chosen: tuple[int, ...] | None = None

    def with_env(self, changes: Mapping[str, str]) -> View:
        """The same view with some variables set."""
        return replace(self, env=FrozenDict({**self.env, **changes}))


Apply = Callable[[View, Mapping[str, Any], Topology], tuple[tuple[View, ...], tuple[Step, ...]]]


class LayerRow(NamedTuple):
    """One kind of layer."""

    apply: Apply
    """``(view, options, machine) -> (views, steps)``; options without a `problem` must not make it raise."""
    problem: Callable[[Mapping[str, Any]], str | None]
    """What is wrong with the shape of the options, in a few words; None for options that can be read."""
    source: str
    """Where its facts come from."""


LAYERS: dict[str, LayerRow] = {}
"""Kind → row. The resolver looks here and nowhere else."""
