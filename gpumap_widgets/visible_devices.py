"""CUDA_VISIBLE_DEVICES on a machine: which devices a value makes visible, as the NVIDIA driver reads it.

Total: no text raises. `read` walks the tokens of a value (see `grammar`) over the devices of a machine, in CUDA's order,
and says which token picked what, where the list stopped, and on which rules the statement rests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .certainty import Basis
from .grammar import RULES, Kind, Rule, Token, tokenise, weakest
from .mig import find_mig, limit, read_unset
from .picks import Candidates, MigPlace, Pick, Reading, Stop, beside_lost, gpu_by_prefix

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
_MAY_BE_ANOTHER = frozenset({"uuid-bare", "uuid-blank", "uuid-case", "uuid-tail", "uuid-no-digits"})
"""Spellings that may name another device than the one that is taken here, and so one that stands there already."""
_OCTAL = re.compile(r"[ \t\n\v\f\r]*[+-]?(0[xX][0-9a-fA-F]+|[0-7]*)", re.ASCII)


def read(value: str | None, candidates: Candidates) -> Reading:
    """Which devices a value makes visible, in the order of their ordinals. Never raises.

    ``value`` None is an unset variable (every device), "" one that is set to nothing (none).
    """
    if value is None:
        return read_unset(candidates)
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
            if _may_be_none(picks, candidates):
                rules.add("mig-without-instances")
        elif picks:  # with nothing kept, both readings of a later repeat give nothing
            shared.update(_repeat_behind(tokens, stop))
    rules.update(beside_lost(picks, stop, tokens, candidates))
    if stop is not None and stop.empties:
        picks = ()
    if picks and _may_repeat(tokens[: stop.token + 1 if stop else None], stop):
        shared.add("may-repeat")
    shared.update(beside_lost(picks, stop, tokens, candidates))
    if candidates.mig:
        picks, limits = limit(picks, candidates)
        shared.update(limits)
        rules.update(pick.rule for pick in picks)
    rules |= shared
    return Reading(value, tokens, tuple(picks), stop, "list", tuple(sorted(rules)), tuple(sorted(shared)))


def _may_repeat(tokens: Sequence[Token], stop: Stop | None) -> bool:
    """Whether an entry whose reading is not known may be one that stands in the list already."""
    if stop is not None and stop.rule == "uuid-case":
        return True
    if any(token.rule in _MAY_BE_ANOTHER for token in tokens[1:]):
        return True
    odd = [i for i, token in enumerate(tokens) if token.rule in ("integer-leading-zero", "integer-huge")]
    return any(_other_values(tokens[i]) & {t.value for n, t in enumerate(tokens) if n != i} for i in odd)


def _other_values(token: Token) -> set[int]:
    """What a number could be in another base, or cut to 32 bits."""
    if token.rule == "integer-huge":
        return {token.value % 2**32}
    match = _OCTAL.match(token.text)
    digits = match.group(1) if match else ""
    return {0, int(digits[:40] or "0", 16 if digits[:2] in ("0x", "0X") else 8)}


def _may_be_none(picks: Sequence[Pick], candidates: Candidates) -> bool:
    """Whether one of these may be no device, and so end the list: a GPU in MIG mode without instances, or its number."""
    uncut = {place for place, instances in candidates.mig.items() if not instances}
    return any(
        pick.mig is None and (pick.place in uncut or (pick.by_number and any(place < pick.place for place in uncut)))
        for pick in picks
    )


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
            find = _find_gpu if family is Kind.GPU_UUID else find_mig
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
    if token.rule == "uuid":
        place = candidates.prefixes.place_of(token.text)
        if place is not None:
            return place, None, "uuid"
    found = gpu_by_prefix(token.text, candidates)
    if isinstance(found, str):
        return found
    if token.rule == "uuid-tail":
        return "unknown-uuid"
    return found, None, token.rule if candidates.uuids_shown or token.rule == "uuid" else "uuid-not-shown"
