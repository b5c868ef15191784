"""What changed from one capsule to a later one, most harmful first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...catalog import look_up
from ...errors import GpumapError
from ...explanation import gpu_name
from ...identity import bare_uuid
from ...mapping import Message, message
from ...texts import say
from ...topology import Gpu
from .masking import SHOWN
from .value import Capsule


@dataclass(frozen=True)
class Drift:
    """One thing that is not as it was."""

    code: str
    """Key into `DRIFTS`."""
    said: Message
    fix: Message | None = None
    gpu: str = ""
    """UUID of the board that it is about; "" where it is about none, or the UUID is not known."""
    old: str = ""
    new: str = ""

    @property
    def severity(self) -> str:
        """``error`` (a number or UUID in use names another board now, or none), ``warning`` (it may), ``info``."""
        return DRIFTS[self.code]

    @property
    def message(self) -> str:
        """What drifted, in one sentence."""
        return self.said.text()

    @property
    def remedy(self) -> str | None:
        """What to do about it; None where there is nothing to do."""
        return self.fix.text() if self.fix else None


DRIFTS: Mapping[str, str] = {
    **dict.fromkeys(("other-machine", "removed", "replaced", "swapped", "swapped-models"), "error"),
    **dict.fromkeys(("unusable", "order"), "error"),
    **dict.fromkeys(("simulated", "unclear", "host", "platform", "added", "moved", "index", "mig"), "warning"),
    **dict.fromkeys(("mig-uuids", "variable", "driver-series"), "warning"),
    **dict.fromkeys(("driver", "minor", "usable-again", "version", "sibling"), "info"),
}
"""Code → severity, most harmful first: the order of the result. The sentences are ``drift.<code>`` in `texts`."""

_OF_A_JOB = re.compile(
    r"(SLURM|OMPI_COMM_WORLD|PMIX?|MASTER)_.*|MPI_LOCALRANKID|((LOCAL|GROUP|NODE)_)?RANK|(LOCAL_)?WORLD_SIZE"
)
"""Variables that differ from one start to the next; they say nothing about a drift."""
_VERSIONS = ("python", "torch", "cuda")
_MOST_NAMED = 8


def drift(old: Capsule, new: Capsule) -> tuple[Drift, ...]:
    """What changed from one capsule to a later one, most harmful first; () when nothing did.

    Boards are joined by UUID; what only one of the two knows is no drift. Raises GpumapError where nothing can be
    joined because only one is masked, or both are with different salts.
    """
    if old.mask != new.mask:
        said = say("drift.refused-salts" if old.mask and new.mask else "drift.refused-mixed")
        raise GpumapError(said, remedy=say("drift.refused-remedy"))
    pairing, places = _Pairing(old, new), list(DRIFTS)
    rows = [row for check in _CHECKS for row in check(pairing)]
    return tuple(sorted(rows, key=lambda row: places.index(row.code)))


def drift_rows(drifts: Iterable[Drift]) -> list[dict[str, str]]:
    """Drifts as rows of a table, every cell a text; "" where there is nothing."""
    names = ("severity", "code", "gpu", "old", "new", "message", "remedy")
    return [{name: getattr(row, name) or "" for name in names} for row in drifts]


class _Pairing:
    """Which board of the one capsule is which of the other."""

    def __init__(self, old: Capsule, new: Capsule) -> None:
        self.old, self.new = old, new
        before, after = old.topology.gpus, new.topology.gpus
        self.then_of: dict[int, int] = {}
        """Position in the new capsule → position in the old one."""
        left = set(range(len(before)))
        for key in ("uuid", "pci_bus_id", "nvml_index"):
            at = {_key(before[i], key): i for i in left}
            at.pop(None, None)
            for j, gpu in enumerate(after):
                i = at.get(_key(gpu, key))
                if i in left and j not in self.then_of and not _differ(before[i], gpu):
                    self.then_of[j] = i
                    left.discard(i)
        for i in sorted(left & set(range(len(after))) - set(self.then_of)):
            if before[i] == after[i]:  # nothing names it, and nothing is different either
                self.then_of[i] = i
                left.discard(i)
        self.pairs = [(before[i], after[j]) for j, i in self.then_of.items()]
        self.gone = [before[i] for i in sorted(left)]
        self.fresh = [gpu for j, gpu in enumerate(after) if j not in self.then_of]

    def named(self, gpu: Gpu, other: Gpu | None = None) -> Message | str:
        """A board as a sentence names it, with the user's label; ``other`` is the same board in the other capsule."""
        name = gpu_name(replace(gpu, name=gpu.name or (other.name if other else None)))
        return self.labelled(name, gpu.uuid or (other.uuid if other else None))

    def labelled(self, name: str, uuid: str | None) -> Message | str:
        """A name of a board with the user's label behind it, where there is one."""
        label = self.new.labels.get(uuid or "") or self.old.labels.get(uuid or "")
        return message("drift.labelled", gpu=name, label=label) if label else name

    def fix(self, key: str, **uuids: str | None) -> Message | None:
        """A remedy that names UUIDs, where they are known and real."""
        return None if self.new.mask or not all(uuids.values()) else message(f"drift.fix-{key}", **uuids)


def _key(gpu: Gpu, name: str) -> object:
    return bare_uuid(gpu.uuid) if name == "uuid" and gpu.uuid else getattr(gpu, name)


def _differ(one: Gpu, other: Gpu) -> bool:
    """Whether two descriptions are of different boards: by UUID where both have one, else by model and address."""
    if one.uuid and other.uuid:
        return bare_uuid(one.uuid) != bare_uuid(other.uuid)
    addresses = one.pci_bus_id, other.pci_bus_id
    return not _may_be_one_model(one, other) or (None not in addresses and addresses[0] != addresses[1])


def _may_be_one_model(one: Gpu, other: Gpu) -> bool:
    """Whether two names can be of one model, as far as they are known; tools leave the vendor out or cut them."""
    if one.name is None or other.name is None:
        return True
    a, b = (gpu.short_name.casefold() for gpu in (one, other))
    if a == b or (a.endswith("...") and b.startswith(a[:-3])) or (b.endswith("...") and a.startswith(b[:-3])):
        return True
    models = look_up(one.name), look_up(other.name)
    return None not in models and models[0] == models[1]


def _surroundings(join: _Pairing) -> Iterator[Drift]:
    old, new = join.old, join.new
    if old.host and new.host and old.host != new.host:
        code = "host" if join.pairs or not (join.gone and join.fresh) else "other-machine"
        yield _changed(code, old.host, new.host)
    if old.topology.simulated != new.topology.simulated:
        yield Drift("simulated", message("drift.simulated"))
    if old.topology.platform != new.topology.platform:
        yield _changed("platform", old.topology.platform, new.topology.platform)
    drivers = [capsule.topology.driver_version or capsule.versions.get("driver") for capsule in (old, new)]
    if all(drivers) and drivers[0] != drivers[1]:
        same = old.topology.driver_major == new.topology.driver_major
        yield _changed("driver" if same else "driver-series", str(drivers[0]), str(drivers[1]))
    for name in _VERSIONS:
        was, now = old.versions.get(name), new.versions.get(name)
        if was and now and was != now:
            yield _changed("version", was, now, name=message(f"drift.name.{name}"))


def _changed(code: str, old: str, new: str, **more: Any) -> Drift:
    return Drift(code, message(f"drift.{code}", old=old, new=new, **more), old=old, new=new)


def _variables(join: _Pairing) -> Iterator[Drift]:
    old, new = join.old.env, join.new.env
    for name in sorted({*(old or ()), *(new or ())}):
        if old is None or new is None or old.get(name) == new.get(name) or _OF_A_JOB.fullmatch(name):
            continue
        was, now = (say("drift.value", value=env[name]) if name in env else say("drift.unset") for env in (old, new))
        yield _changed("variable" if name in SHOWN else "sibling", was, now, name=name)


def _boards(join: _Pairing) -> Iterator[Drift]:
    """Boards that came, went, or took another's slot; and those of which nothing tells."""
    gone, fresh = list(join.gone), list(join.fresh)
    for key in ("pci_bus_id", "nvml_index"):
        slots = {_key(gpu, key): gpu for gpu in fresh if _key(gpu, key) is not None}
        for was in list(gone):
            now = slots.get(_key(was, key))
            if now is None or now not in fresh or not _differ(was, now):
                continue
            if key == "nvml_index" and None not in (was.pci_bus_id, now.pci_bus_id):
                continue  # an address tells slots apart, a number does not
            gone.remove(was)
            fresh.remove(now)
            fix = join.fix("replaced", uuid=was.uuid, other=now.uuid)
            fields = {"gpu": _with_uuid(join.named(was), was), "other": _with_uuid(join.named(now), now)}
            uuids = (now.uuid or "", was.uuid or "", now.uuid or "")
            yield Drift("replaced", message("drift.replaced", **fields), fix, *uuids)
    unclear_old = [gpu for gpu in gone if not all(_differ(gpu, other) for other in fresh)]
    unclear_new = [gpu for gpu in fresh if not all(_differ(gpu, other) for other in gone)]
    if unclear_old:
        said = message("drift.unclear", n=len(unclear_old), m=len(unclear_new))
        yield Drift("unclear", said, message("drift.unclear-remedy"))
    for gpu in (gpu for gpu in gone if gpu not in unclear_old):
        said = message("drift.removed", gpu=_with_uuid(join.named(gpu), gpu))
        yield Drift("removed", said, join.fix("list", uuid=gpu.uuid), gpu.uuid or "", old=gpu.uuid or "")
    for gpu in (gpu for gpu in fresh if gpu not in unclear_new):
        said = message("drift.added", gpu=_with_uuid(join.named(gpu), gpu))
        yield Drift("added", said, None, gpu.uuid or "", new=gpu.uuid or "")


def _with_uuid(name: Message | str, gpu: Gpu) -> Message | str:
    return message("drift.with-uuid", gpu=name, uuid=gpu.uuid) if gpu.uuid else name


_PLACES = {"pci_bus_id": "moved", "nvml_index": "index", "minor_number": "minor"}


def _moves(join: _Pairing) -> Iterator[Drift]:
    """The same boards at other places: two that exchanged theirs are one row, the rest a row each."""
    moved = [{name for name in _PLACES if len({getattr(a, name), getattr(b, name), None}) == 3} for a, b in join.pairs]
    for name in ("pci_bus_id", "nvml_index"):
        held = {getattr(a, name): i for i, (a, _) in enumerate(join.pairs)}
        for i, (was, now) in enumerate(join.pairs):
            j = held.get(getattr(now, name), i)
            other_was, other_now = join.pairs[j]
            if j == i or not {name} <= moved[i] & moved[j] or getattr(other_now, name) != getattr(was, name):
                continue
            for place in moved[i] & moved[j]:  # whatever else they exchanged is in the same row
                before, after = (
                    (getattr(a, place), getattr(b, place)) for a, b in ((was, other_was), (now, other_now))
                )
                if before == after[::-1]:
                    moved[i].discard(place)
                    moved[j].discard(place)
            yield _swap(join, (was, now), (other_was, other_now))
    for (was, now), names in zip(join.pairs, moved, strict=True):
        for name in sorted(names):
            code, old, new = _PLACES[name], str(getattr(was, name)), str(getattr(now, name))
            said = message(f"drift.{code}", gpu=join.named(now, was), old=old, new=new)
            fix = None if code == "minor" else join.fix("pin", uuid=now.uuid)
            yield Drift(code, said, fix, now.uuid or "", old, new)


def _swap(join: _Pairing, one: tuple[Gpu, Gpu], other: tuple[Gpu, Gpu]) -> Drift:
    """Two boards that exchanged their places, each as it was and as it is."""
    first, second = (
        message("drift.place", gpu=join.labelled(str(now.uuid or was.uuid), now.uuid), old=_place(was), new=_place(now))
        for was, now in (one, other)
    )
    names = [now.name or was.name for was, now in (one, other)]
    if names[0] == names[1]:
        code, said = "swapped", message("drift.swapped", name=names[0], first=first, second=second)
    else:
        fields = {"gpu": names[0], "other": names[1], "first": first, "second": second}
        code, said = "swapped-models", message("drift.swapped-models", **fields)
    uuid = one[1].uuid
    return Drift(code, said, join.fix("pin", uuid=uuid), uuid or "", str(_place(one[0])), str(_place(one[1])))


def _place(gpu: Gpu) -> Message:
    pci = gpu.pci.short if gpu.pci else None
    if gpu.nvml_index is None:
        return message("drift.bus", pci=pci) if pci else message("drift.nowhere")
    key = "drift.smi-bus" if pci else "drift.smi"
    return message(key, index=gpu.nvml_index, pci=pci)


def _states(join: _Pairing) -> Iterator[Drift]:
    """Boards that cannot be used any more or can again, and MIG layouts."""
    for was, now in join.pairs:
        gpu, uuid = join.named(now, was), now.uuid or was.uuid or ""
        old, new = (g.problem or say("drift.usable") for g in (was, now))
        if bool(was.problem) != bool(now.problem):
            code = "unusable" if now.problem else "usable-again"
            yield Drift(code, message(f"drift.{code}", gpu=gpu, old=old, new=new), None, uuid, old, new)
        layouts = [_layout(g) for g in (was, now)]
        if None in layouts or was.problem or now.problem:
            continue
        old, new = (_layout_text(g, layout or ()) for g, layout in zip((was, now), layouts, strict=True))
        uuids = [{m.uuid for m in g.mig_instances} for g in (was, now)]
        if old != new:
            yield Drift("mig", message("drift.mig", gpu=gpu, old=old, new=new), None, uuid, old, new)
        elif uuids[0] != uuids[1] and None not in uuids[0] | uuids[1]:
            said, texts = message("drift.mig-uuids", gpu=gpu), (", ".join(sorted(map(str, u))) for u in uuids)
            yield Drift("mig-uuids", said, message("drift.fix-mig"), uuid, *texts)


def _layout(gpu: Gpu) -> tuple[str, ...] | None:
    """The profiles of the MIG instances in order; None where MIG is not known of."""
    if gpu.mig_mode is None:
        return None
    return tuple(sorted(m.profile or say("drift.mig-unnamed") for m in gpu.mig_instances))


def _layout_text(gpu: Gpu, layout: Sequence[str]) -> str:
    if not gpu.mig_mode:
        return say("drift.mig-off")
    counts = Counter(layout)
    return ", ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items()) or say("drift.mig-empty")


def _order(join: _Pairing) -> Iterator[Drift]:
    """CUDA's default order of the boards that are in both, where both capsules have seen it."""
    then, now = join.old.topology, join.new.topology
    if then.default_order is None or now.default_order is None:
        return
    common = set(join.then_of.values()) & set(then.default_order)
    new = [join.then_of[j] for j in now.default_order if join.then_of.get(j) in common]
    old = [i for i in then.default_order if i in set(new)]
    if old != new:
        texts = [_list_text([str(join.named(then.gpus[i])) for i in order]) for order in (old, new)]
        first = then.gpus[new[0]].uuid
        yield replace(_changed("order", *texts), fix=join.fix("pin", uuid=first), gpu=first or "")


def _list_text(names: Sequence[str]) -> str:
    more = [say("drift.more", n=len(names) - _MOST_NAMED)] if len(names) > _MOST_NAMED else []
    return "; ".join([*names[:_MOST_NAMED], *more])


_CHECKS: tuple[Callable[[_Pairing], Iterator[Drift]], ...] = (
    _boards,
    _moves,
    _states,
    _order,
    _surroundings,
    _variables,
)
