"""CUDA_VISIBLE_DEVICES on a machine: which devices a value makes visible, as the NVIDIA driver reads it.

Total: no text raises. `read` walks the tokens of a value (see `grammar`) over the devices of a machine, in CUDA's order,
and says which token picked what, where the list stopped, and on which rules the statement rests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .certainty import Basis
from .grammar import RULES, Kind, Rule, Token, tokenise, weakest
from .identity import PrefixIndex

__all__ = [
    "RULES",
    "Candidates",
    "Kind",
    "MigPlace",
    "Pick",
    "Reading",
    "Rule",
    "Stop",
    "Token",
    "read",
    "tokenise",
    "weakest",
]

_CLOUDS_ALL = frozenset({"uuid-after-integer", "mixed-families"})
"""Stops that may do more than end the list: a mixed list could be read in another way altogether."""
_MAY_REPEAT = frozenset(
    {"integer-leading-zero", "integer-huge", "uuid-bare", "uuid-blank", "uuid-case", "uuid-tail", "uuid-no-digits"}
)
"""Spellings that may name another device than the one that is taken here, and so one that stands there already."""


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
    unusable: bool = False
    """Whether the machine has a GPU that cannot be used: whether CUDA counts it is not known."""

    @property
    def uuids_shown(self) -> bool:
        """Whether the UUID of every device is known; else a name may be that of one that is not."""
        return None not in self.uuids


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


def read(value: str | None, candidates: Candidates) -> Reading:
    """Which devices a value makes visible, in the order of their ordinals. Never raises.

    ``value`` None is an unset variable (every device), "" one that is set to nothing (none).
    """
    if value is None:
        return _read_unset(candidates)
    if value == "":
        return Reading(value, (), (), None, "empty-value", ("empty-value",))
    tokens = tokenise(value)
    picks, stop = _walk(tokens, candidates)
    rules = {tokens[p.token].rule for p in picks if p.token is not None}
    rules.update(p.rule for p in picks)
    shared: set[str] = set()
    if stop is not None:
        rules.update(rule for rule in (stop.rule, stop.spelling) if rule)
        if stop.rule in _CLOUDS_ALL:
            shared.add(stop.rule)
        if stop.empties:
            if candidates.mig and _is_uncut(candidates, tokens[stop.token], picks, stop):
                rules.add("mig-without-instances")
            picks = ()
        elif picks:  # with nothing kept, both readings of a later repeat give nothing
            shared.update(_repeat_behind(tokens, stop))
    read_tokens = tokens[1 : stop.token + 1 if stop else None]
    if any(token.rule in _MAY_REPEAT for token in read_tokens) or (picks and stop and stop.rule == "uuid-case"):
        shared.add("may-repeat")
    shared.update(_beside_lost(picks, stop, candidates))
    if candidates.mig:
        picks, limits = _mig_limits(picks, candidates)
        shared.update(limits)
    rules |= shared
    return Reading(value, tokens, tuple(picks), stop, "list", tuple(sorted(rules)), tuple(sorted(shared)))


def _is_uncut(candidates: Candidates, token: Token, picks: Sequence[Pick], stop: Stop) -> bool:
    """Whether a repeat is one of a GPU in MIG mode without instances, which may be no device at all."""
    again = [pick.place for pick in picks if pick.token == stop.other]
    return bool(again) and candidates.mig.get(again[0]) == () and token.kind is not Kind.MIG_UUID


def _beside_lost(picks: Sequence[Pick], stop: Stop | None, candidates: Candidates) -> tuple[str, ...]:
    """What a GPU that cannot be used does to the others: their numbers are unknown, their names go on working."""
    if not candidates.unusable:
        return ()
    counted = any(pick.by_number for pick in picks) or (stop is not None and stop.rule == "out-of-range")
    return ("lost-number",) if counted else ("lost-neighbour",) if picks else ()


def _walk(tokens: tuple[Token, ...], candidates: Candidates) -> tuple[Sequence[Pick], Stop | None]:
    """Follow the tokens until one ends the list."""
    family = Kind.INTEGER if tokens[0].kind is Kind.INVALID else tokens[0].kind
    count = len(candidates.uuids)
    picks: list[Pick] = []
    seen: dict[tuple[int, int | None], int] = {}
    for number, token in enumerate(tokens):
        mig: int | None = None
        if token.kind is not family:
            return picks, Stop(number, *_wrong_family(token, family))
        if family is Kind.INTEGER:
            place = token.value
            if place < 0:
                return picks, Stop(number, "negative", spelling=_odd_spelling(token))
            if place >= count:
                return picks, Stop(number, "out-of-range", spelling=_odd_spelling(token))
            rule = token.rule
        else:
            find = _find_gpu if family is Kind.GPU_UUID else _find_mig
            found = find(token, candidates)
            if isinstance(found, str):
                return picks, Stop(number, found, spelling=_odd_spelling(token))
            place, mig, rule = found
        first = seen.setdefault((place, mig), number)
        if first != number:
            spelling = token.rule if RULES[token.rule].basis is Basis.UNKNOWN else None
            return picks, Stop(
                number, _repeat_rule(family, tokens[first], token), empties=True, other=first, spelling=spelling
            )
        picks.append(Pick(place, mig, number, rule, family is Kind.INTEGER))
    return picks, None


def _odd_spelling(token: Token) -> str | None:
    """The token's own rule where it is weaker than documented: then what follows from it is no surer."""
    return token.rule if RULES[token.rule].basis > Basis.DOCUMENTED else None


def _wrong_family(token: Token, family: Kind) -> tuple[str, bool, None, str | None]:
    """Rule, and the spelling rule behind it, for a token that does not belong into this list."""
    if token.kind is Kind.INVALID:
        return token.rule, False, None, None
    if token.kind is Kind.INTEGER:
        return "integer-after-uuid", False, None, None
    if family is Kind.INTEGER:
        return "uuid-after-integer", False, None, None
    return "mixed-families", False, None, None


def _repeat_rule(family: Kind, first: Token, again: Token) -> str:
    if family is Kind.MIG_UUID:
        return "repeat-mig"
    if family is Kind.GPU_UUID:
        return "repeat-uuid"
    return "repeat" if first.text.strip(" ") == again.text.strip(" ") else "repeat-other-spelling"


def _repeat_behind(tokens: tuple[Token, ...], stop: Stop) -> tuple[str, ...]:
    """The rule for a repeat that only shows up behind the stop, if there is one."""
    seen: set[object] = set()
    for number, token in enumerate(tokens):
        key: object = token.value if token.kind is Kind.INTEGER else token.text
        if key in seen and number > stop.token and token.kind is not Kind.INVALID:
            return ("repeat-behind-negative" if stop.rule == "negative" else "repeat-behind-stop",)
        seen.add(key)
    return ()


def _find_gpu(token: Token, candidates: Candidates) -> tuple[int, None, str] | str:
    """The place that a ``GPU-…`` token names, with its rule; the name of a rule where it names none."""
    if token.rule == "uuid-blank":
        return token.rule  # as torch reads it; nobody knows for the driver
    found = _gpu_by_prefix(token.text, candidates)
    if isinstance(found, str):
        return found
    if token.rule == "uuid-tail":
        return "unknown-uuid"
    return found, None, token.rule if candidates.uuids_shown or token.rule == "uuid" else "uuid-not-shown"


def _gpu_by_prefix(text: str, candidates: Candidates) -> int | str:
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


def _find_mig(token: Token, candidates: Candidates) -> tuple[int, int, str] | str:
    """Place and instance that a ``MIG-…`` token names; the name of a rule where it names none."""
    if token.rule == "uuid-blank":
        return token.rule
    if token.rule in ("mig-path", "mig-path-short"):
        return _mig_by_path(token, candidates)
    places = [(p, n, m.uuid) for p, found in candidates.mig.items() for n, m in enumerate(found)]
    matches = [(place, number) for place, number, uuid in places if uuid is not None and uuid.startswith(token.text)]
    if len(matches) == 1:
        return *matches[0], token.rule
    if matches or token.rule == "mig-prefix":
        return "mig-prefix"
    folded = token.text.lower()
    if any(uuid is not None and uuid.lower().startswith(folded) for _, _, uuid in places):
        return "uuid-case"
    return "unknown-mig" if all(uuid is not None for _, _, uuid in places) else "uuid-not-shown"


def _mig_by_path(token: Token, candidates: Candidates) -> tuple[int, int, str] | str:
    """``MIG-GPU-<uuid>/<gpu instance>/<compute instance>``."""
    parent, gi, ci = token.text.removeprefix("MIG-").split("/")
    place = _gpu_by_prefix(parent, candidates)
    if isinstance(place, str):
        return "unknown-mig" if place == "unknown-uuid" else place
    rule = "uuid-no-digits" if parent == "GPU-" else token.rule
    if not candidates.uuids_shown and token.rule != "mig-path":
        rule = "uuid-not-shown"
    instances = candidates.mig.get(place, ())
    for number, instance in enumerate(instances):
        if (instance.gpu_instance_id, instance.compute_instance_id) == (int(gi), int(ci)):
            return place, number, rule
    unnumbered = any(i.gpu_instance_id is None or i.compute_instance_id is None for i in instances)
    return "mig-numbers-not-shown" if unnumbered else "unknown-mig"


def _era(candidates: Candidates) -> str:
    """Which MIG rules hold: ``old`` before driver 570, ``new`` from it on, ``?`` when the driver is not known."""
    major = candidates.driver_major
    return "?" if major is None else "old" if major < 570 else "new"


def _read_unset(candidates: Candidates) -> Reading:
    """An unset variable: every device, MIG rules aside."""
    if not candidates.mig:
        picks = tuple(Pick(place, None, None, "unset", by_number=True) for place in range(len(candidates.uuids)))
        lost = _beside_lost(picks, None, candidates)
        return Reading(None, (), picks, None, "unset", ("unset", *lost), lost)
    migs = [(place, n, m) for place, found in sorted(candidates.mig.items()) for n, m in enumerate(found)]
    era = _era(candidates)
    shown: list[tuple[int, int | None]]
    if not migs:
        rule = "mig-without-instances"
        shown = [(place, None) for place in range(len(candidates.uuids)) if place not in candidates.mig]
    elif era == "old":
        rule = "mig-first-only"
        shown = [(migs[0][0], migs[0][1])]
    else:
        homes: dict[tuple[int, int], tuple[int, int | None]] = {}
        for place, n, m in migs:  # instances without a number count as one each
            homes.setdefault((place, -1 - n if m.gpu_instance_id is None else m.gpu_instance_id), (place, n))
        whole = [(place, None) for place in range(len(candidates.uuids)) if place not in candidates.mig]
        shown = sorted([*homes.values(), *whole], key=lambda pair: (pair[0], pair[1] or 0))
        rule = "mig-single" if len(shown) == 1 else "mig-one-of-each" if era == "new" else "mig-driver-unknown"
    picks = tuple(Pick(place, n, None, rule, True) for place, n in shown)
    return Reading(None, (), picks, None, rule, (rule,))


def _mig_limits(picks: Sequence[Pick], candidates: Candidates) -> tuple[Sequence[Pick], set[str]]:
    """Apply what MIG changes: names of a GPU in MIG mode, and how many instances one process may have."""
    era = _era(candidates)
    rules: set[str] = set()
    out: list[Pick] = []
    for pick in picks:
        if pick.mig is not None:
            out.append(pick)
            continue
        instances = candidates.mig.get(pick.place)
        rule = _mig_rule(pick, candidates, era)
        if rule is not None and rule not in _OF_ONE_PICK:
            rules.add(rule)
        if instances is None:
            out.append(pick._replace(rule=rule) if rule else pick)
        elif instances:
            out.append(pick._replace(mig=0, rule=rule or pick.rule))
    named = [pick for pick in out if pick.mig is not None]
    if len(out) < 2 or not named:
        return out, rules
    if era == "old":
        rules.add("mig-first-only" if len(named) == len(out) else "mig-alone")
        return named[:1], rules
    if era == "?":
        rules.add("mig-driver-unknown")
    elif len(named) < len(out):
        rules.add("mixed-families")
    return out, rules | _shared_homes(named, candidates)


def _shared_homes(named: Sequence[Pick], candidates: Candidates) -> set[str]:
    """Whether some of the named instances lie in one GPU instance, of which a process gets one."""
    homes = [(p.place, candidates.mig[p.place][p.mig or 0].gpu_instance_id) for p in named]
    if len({place for place, _ in homes}) == len(homes):
        return set()
    if any(instance is None for _, instance in homes):
        return {"mig-instance-not-shown"}
    return {"mig-same-instance"} if len(set(homes)) < len(homes) else set()


_OF_ONE_PICK = frozenset({"mig-neighbour", "mig-integer-old"})
"""MIG rules that speak of one pick, not of the list."""


def _mig_rule(pick: Pick, candidates: Candidates, era: str) -> str | None:
    """The MIG rule for a pick of a whole GPU, by number or by UUID; None where MIG changes nothing."""
    instances = candidates.mig.get(pick.place)
    if not pick.by_number:
        return None if instances is None else "mig-gpu-uuid"
    if instances == () or any(not found and place < pick.place for place, found in candidates.mig.items()):
        return "mig-without-instances"
    if instances is None:
        return "mig-neighbour"
    return "mig-integer-old" if era == "old" else "mig-integer"
