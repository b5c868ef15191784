"""What a value of CUDA_VISIBLE_DEVICES is read over, and what comes of it: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .certainty import Basis
from .grammar import RULES, Token, weakest
from .identity import PrefixIndex


class MigPlace(NamedTuple):
    """A MIG instance as the grammar needs it."""

    uuid: str | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


class Candidates(NamedTuple):
    """The devices that CUDA can choose from, in CUDA's order (place 0 first)."""

    uuids: Sequence[str | None]
    """By place."""
    prefixes: PrefixIndex
    """Over ``uuids``."""
    mig: Mapping[int, tuple[MigPlace, ...]]
    """Place → instances, for GPUs in MIG mode; empty tuple for one without instances."""
    driver_major: int | None
    unusable: int = 0
    """How many GPUs of the machine cannot be used: whether CUDA counts them is not known."""

    @property
    def uuids_shown(self) -> bool:
        """Whether the UUID of every device is known; else a name may be that of one that is not."""
        return self.prefixes.complete


class Pick(NamedTuple):
    """One device that a value made visible; its ordinal is its place in `Reading.picks`."""

    place: int
    """Place in CUDA's order."""
    mig: int | None
    """Number of the instance in the GPU's list, None for a whole GPU."""
    token: int | None
    """Which token picked it; None when the variable is unset."""
    rule: str
    """Why this device: a key into `RULES`."""
    by_number: bool
    """Whether the pick depends on CUDA's order."""


class Stop(NamedTuple):
    """Where a list ended before its end, or what emptied it."""

    token: int
    rule: str
    empties: bool = False
    other: int | None = None
    """For a repeat: the token that named the device first."""
    spelling: str | None = None
    """For an invalid token: the rule that says what is wrong with how it is written, if that is less certain."""


class Reading(NamedTuple):
    """What the driver makes of one value on one machine."""

    value: str | None
    """None when the variable is unset."""
    tokens: tuple[Token, ...]
    picks: tuple[Pick, ...]
    stop: Stop | None
    whole: str
    """Rule that speaks about the list as a whole: ``unset``, ``empty-value``, ``list``, a MIG rule."""
    rules: tuple[str, ...]
    """Every rule that the result as a whole rests on."""
    shared: tuple[str, ...] = ()
    """Those of them that every single pick rests on too."""

    @property
    def basis(self) -> Basis:
        """The weakest of what the result rests on, the order of the GPUs aside."""
        return weakest(self.rules)

    def basis_of(self, pick: Pick) -> Basis:
        """The weakest of what one pick rests on, the order of the GPUs aside."""
        own = RULES[pick.rule].basis
        spelt = Basis.DOCUMENTED if pick.token is None else RULES[self.tokens[pick.token].rule].basis
        return max(own, spelt, weakest(self.shared))


def gpu_by_prefix(text: str, candidates: Candidates) -> int | str:
    """The place of the one GPU whose UUID begins with a text; the name of a rule where there is none or more."""
    found = candidates.prefixes.starting_with(text, limit=len(candidates.mig) + 2)
    if len(found) == 1:
        return found[0]
    if found:
        uncut = [place for place in found if candidates.mig.get(place) == ()]
        return "mig-without-instances" if len(found) - len(uncut) <= 1 else "ambiguous-uuid"
    folded = text.lower()
    if any(uuid and uuid.lower().startswith(folded) for uuid in candidates.uuids):
        return "uuid-case"
    return "unknown-uuid" if candidates.uuids_shown else "uuid-not-shown"


def beside_lost(
    picks: Sequence[Pick], stop: Stop | None, tokens: Sequence[Token], candidates: Candidates
) -> tuple[str, ...]:
    """What a GPU that cannot be used does to the others: their numbers are unknown, their names go on working."""
    if not candidates.unusable:
        return ()
    counted = any(pick.by_number for pick in picks)
    if stop is not None and stop.rule == "out-of-range":  # beyond every GPU, both readings agree
        counted |= tokens[stop.token].value < len(candidates.uuids) + candidates.unusable
    return ("lost-number",) if counted else ("lost-neighbour",) if picks else ()
