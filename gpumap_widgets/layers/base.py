"""The types of the table of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..certainty import Certainty, least
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import Layer
from ..topology import Topology
from .words import Word

MOST_PROCESSES = 8192
"""More than any job that one machine starts; a larger number is refused instead of drawn."""


@dataclass(frozen=True)
class View:
    """What one process-to-be has before it: GPUs, variables, rank."""

    accessible: tuple[int, ...] | None = None
    """Positions in ``topology.gpus`` that are left, those that the driver cannot open included; None while nothing took
    any away."""
    mig: Mapping[int, tuple[int, ...]] = field(default_factory=FrozenDict)
    """Position → numbers of the MIG instances that are left, for GPUs that no longer have all of theirs."""
    served: tuple[int, ...] | None = None
    """Positions as an MPS server numbers them for its clients; None without one."""
    env: Mapping[str, str] = field(default_factory=FrozenDict)
    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    chosen: tuple[int, ...] | None = None
    """Ordinals that the convention of a launcher or framework makes it use, whether they exist or not."""
    certainty: Certainty = Certainty.CERTAIN
    """The weakest claim of the layers so far."""
    worker: str = ""
    """What the tool calls it, where that is no rank: ``actor 0``."""

    def with_env(self, changes: Mapping[str, str | None]) -> View:
        """The same view with some variables set, or unset where None."""
        env = {name: value for name, value in {**self.env, **changes}.items() if value is not None}
        return replace(self, env=FrozenDict(env))

    def left(self, topology: Topology) -> tuple[int, ...]:
        """Positions that are left, in NVML's order: what a tool counts that asks NVML here."""
        return topology.every if self.accessible is None else self.accessible

    def narrowed(self, positions: Iterable[int], mig: Mapping[int, tuple[int, ...]] | None = None) -> View:
        """The same view with these GPUs only, and with these instances only of those that ``mig`` names."""
        kept = tuple(sorted(set(positions)))
        instances = {i: n for i, n in {**self.mig, **(mig or {})}.items() if i in kept}
        served = None if self.served is None else tuple(i for i in self.served if i in kept)
        return replace(self, accessible=kept, mig=FrozenDict(instances), served=served)

    def instances(self, topology: Topology, position: int) -> tuple[int, ...]:
        """Numbers of the MIG instances that are left of a GPU."""
        return self.mig.get(position, tuple(range(len(topology.gpus[position].mig_instances))))

    def doubted(self, certainty: Certainty) -> View:
        """The same view, at most this certain."""
        return replace(self, certainty=least((self.certainty, certainty)))


class Outcome(NamedTuple):
    """What a layer made of one view."""

    views: tuple[View, ...]
    """One a process; () where nothing starts."""
    steps: tuple[Step, ...] = ()
    """What happened to all of them."""
    own: tuple[tuple[Step, ...], ...] = ()
    """By view: what happened to this one only; () where there is nothing of that kind."""
    error: Message | None = None
    """What the tool refuses, in its own terms; None when it starts."""
    certainty: Certainty = Certainty.CERTAIN
    """How sure that refusal is."""


Apply = Callable[[View, Mapping[str, Any], Topology], Outcome]


class Recognised(NamedTuple):
    """What a command line turned out to be."""

    layers: tuple[Layer, ...]
    rest: tuple[Word, ...] = ()
    """The command that it starts, to be recognised in turn; () where it starts none that is known."""
    script: Word | None = None
    """Shell text that it runs instead of words (``sh -c``)."""
    idle: bool = False
    """True for a command that starts nothing that could use a GPU: ``docker pull``."""


Recognise = Callable[[tuple[Word, ...], Mapping[str, Any]], Recognised]


def _no_problem(_: Mapping[str, Any]) -> str | None:
    return None


class LayerRow(NamedTuple):
    """One kind of layer."""

    apply: Apply
    """``(view, options, machine) -> Outcome``; options without a `problem` must not make it raise."""
    source: str
    """Where its facts come from, with the version that was read or run."""
    problem: Callable[[Mapping[str, Any]], str | None] = _no_problem
    """What is wrong with the shape of the options, in a few words; None for options that can be read."""
    family: str = "launcher"
    """``environment``, ``container``, ``scheduler``, ``launcher`` or ``framework``: the stage that its steps have."""
    programs: tuple[str, ...] = ()
    """Programs by which a command line starts it: ``torchrun``; ``-m module`` for ``python -m module``."""
    recognise: Recognise | None = None
    """``(words, assume) -> Recognised``; ``words[0]`` is the program. Never raises, whatever the words."""
    fresh: bool = False
    """Whether what it starts inherits no environment (a container that is no Apptainer)."""
    believed: Apply | None = None
    """What people take it to do, where a popular belief is known to be wrong; None elsewhere."""
    lasting: bool = False
    """True for a daemon: what a script starts after it runs under it."""


LAYERS: dict[str, LayerRow] = {}
"""Kind → row. The resolver and the reader of commands look here and nowhere else."""
