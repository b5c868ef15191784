"""Which slots the DeepSpeed launcher takes on which host: its own parsing, by version, errors included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .shapes import older, whole

SORTS_SINCE = (0, 15, 2)
"""``parse_node_config_list`` came with 0.15.2 (read: 0.15.1 lacks it): slots are sorted and repeats dropped."""
CHECKS_SINCE = (0, 19, 7)
"""From 0.15.2 to 0.19.6 a request was checked against itself (read: 0.19.6 and 0.19.7), before and after not."""
_HOST = re.compile(r"(\S+)\s+slots=(\d+)", re.ASCII)
_MOST_SLOTS = 8192

Slots = Mapping[str, tuple[int, ...]]


class Refusal(Exception):
    """What the launcher raises: a key of `texts` and its fields."""

    def __init__(self, key: str, **fields: Any) -> None:
        super().__init__(key)
        self.key, self.fields = key, fields


class Version(NamedTuple):
    """What differs between versions."""

    sorts: bool
    checks: bool


def version_of(text: Any) -> Version:
    """The rules of a version; those of the newest where it is not known."""
    sorts = not older(text, SORTS_SINCE)
    return Version(sorts, not sorts or not older(text, CHECKS_SINCE))


def read_hostfile(text: str) -> dict[str, int]:
    """``_parse_hostfile``: host → number of slots, in order. Raises Refusal."""
    pool: dict[str, int] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _HOST.match(line)
        slots = whole(found[2]) if found else None
        if found is None or slots is None:
            raise Refusal("error.deepspeed.hostfile-entry", entry=line)
        if found[1] in pool:
            raise Refusal("error.deepspeed.hostfile-twice", host=found[1])
        pool[found[1]] = slots
    if not pool:
        raise Refusal("error.deepspeed.hostfile-empty")
    return pool


def active(pool: Mapping[str, int], include: str, exclude: str, rules: Version) -> Slots:
    """``parse_inclusion_exclusion``: what is left of a pool. Raises Refusal."""
    asked = _requests(include) if rules.sorts and not rules.checks and include else {}
    have = {
        host: tuple(sorted(set(asked[host]))) if host in asked else tuple(range(min(slots, _MOST_SLOTS + 1)))
        for host, slots in pool.items()
    }
    if include and exclude:
        raise Refusal("error.deepspeed.both")
    if not include and not exclude:
        return have
    requests = _merged(include or exclude) if rules.sorts else _separate(include or exclude)
    left: dict[str, tuple[int, ...]] = {} if include else dict(have)
    for host, slots in requests:
        if host not in have:
            raise Refusal("error.deepspeed.host", host=host)
        for slot in slots or ():
            if slot not in have[host]:
                raise Refusal("error.deepspeed.slot", slot=slot, host=host)
        if include:
            left[host] = have[host] if slots is None else slots
        elif slots is None:
            left[host] = ()
        else:
            left[host] = _without(left[host], slots)
    return {host: tuple(dict.fromkeys(left[host])) for host in have if left.get(host)}


def _without(held: tuple[int, ...], slots: tuple[int, ...]) -> tuple[int, ...]:
    kept = list(held)
    for slot in slots:
        if slot not in kept:
            raise Refusal("error.deepspeed.removed-twice")
        kept.remove(slot)
    return tuple(kept)


def _separate(text: str) -> list[tuple[str, tuple[int, ...] | None]]:
    """The nodes of a filter as old versions read them: one after the other, slots as given; None is the whole host."""
    return [_node(part) for part in text.split("@")]


def _merged(text: str) -> list[tuple[str, tuple[int, ...] | None]]:
    """The nodes of a filter as newer versions read them: by host, sorted, without repeats."""
    return [(host, tuple(sorted(set(slots))) or None) for host, slots in _requests(text).items()]


def _requests(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for part in text.split("@"):
        host, slots = _node(part)
        found.setdefault(host, []).extend(slots or ())
    return found


def _node(text: str) -> tuple[str, tuple[int, ...] | None]:
    """``NAME[:SLOT,…]``."""
    if ":" not in text:
        return text, None
    host, *rest = text.split(":")
    if len(rest) > 1:
        raise Refusal("error.deepspeed.colons")
    slots = []
    for entry in rest[0].split(","):
        slot = whole(entry)
        if slot is None:
            raise Refusal("error.deepspeed.int", entry=entry)
        slots.append(slot)
    return host, tuple(slots)
