"""What MIG changes in the reading of CUDA_VISIBLE_DEVICES: before and from driver 570, beside whole GPUs, by any name.

Source: NVIDIA MIG User Guide, CUDA device enumeration; what it leaves open is unknown here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from .grammar import Token
from .picks import Candidates, Pick, Reading, beside_lost, gpu_by_prefix


def driver_era(candidates: Candidates) -> str:
    """Which MIG rules hold: ``old`` before driver 570, ``new`` from it on, ``?`` when the driver is not known."""
    major = candidates.driver_major
    return "?" if major is None else "old" if major < 570 else "new"


def read_unset(candidates: Candidates) -> Reading:
    """An unset variable: every device, MIG rules aside."""
    if not candidates.mig:
        picks = tuple(Pick(place, None, None, "unset", by_number=True) for place in range(len(candidates.uuids)))
        lost = beside_lost(picks, None, (), candidates)
        return Reading(None, (), picks, None, "unset", ("unset", *lost), lost)
    migs = [(place, n, m) for place, found in sorted(candidates.mig.items()) for n, m in enumerate(found)]
    era = driver_era(candidates)
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
    picks = tuple(Pick(place, n, None, rule, by_number=True) for place, n in shown)
    lost = ("lost-neighbour",) if candidates.unusable and picks else ()
    return Reading(None, (), picks, None, rule, (rule, *lost), lost)


def find_mig(token: Token, candidates: Candidates) -> tuple[int, int, str] | str:
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
    place = gpu_by_prefix(parent, candidates)
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


def limit(picks: Sequence[Pick], candidates: Candidates) -> tuple[Sequence[Pick], set[str]]:
    """Apply what MIG changes: names of a GPU in MIG mode, and how many instances one process may have."""
    era = driver_era(candidates)
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
