"""CUDA_DEVICE_ORDER: in which order the driver counts the GPUs before CUDA_VISIBLE_DEVICES picks from them.

``PCI_BUS_ID`` is documented and exact. The default (``FASTEST_FIRST``) is "a simple heuristic" in NVIDIA's words and
nothing more is documented; what follows is a rule fitted to some 150 public reports, with the certainty that those
reports allow and no more. A machine whose order was seen uses what was seen.

The evidence: 69 of 69 machines with both orders printed (drivers from 2018 on) are sorted by SM count times a weight
for the compute capability, ties in PCI order; drivers before that moved one GPU to the front and left the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from .certainty import Certainty, least
from .identity import PciBusId
from .strength import Strength, strength
from .topology import Gpu, Topology

FASTEST_FIRST = "FASTEST_FIRST"
PCI_BUS_ID = "PCI_BUS_ID"
DOCUMENTED_VALUES = (FASTEST_FIRST, PCI_BUS_ID)

_PINNED = frozenset({(6, 1), (7, 0), (7, 5), (8, 6), (8, 9), (12, 0)})
"""Capabilities whose weights the reports pin well enough for a guess where the measures disagree."""
_FULL_SORT_DRIVER = 390
"""First driver series after the last that was seen to move one GPU only (387, December 2017)."""


@dataclass(frozen=True)
class DeviceOrder:
    """CUDA's order of the accessible GPUs, before CUDA_VISIBLE_DEVICES."""

    rule: str
    """Row of `ORDER_RULES` that made the order."""
    places: tuple[int, ...]
    """Positions in ``topology.gpus``, first counted first."""
    certainties: tuple[Certainty, ...]
    """By place: how sure it is that this GPU stands here."""
    doubt: str | None
    """Key of the reason why it is not certain; None when it is."""

    @property
    def certainty(self) -> Certainty:
        """Of the whole order."""
        return least(self.certainties)


class OrderRule(NamedTuple):
    """One way to order GPUs: the driver's, or one that people believe in."""

    key: Callable[[Gpu], tuple[float, ...]]
    """Smaller comes first; ties keep PCI order."""
    range: str
    """Where it holds, or that it is a belief."""
    evidence: str


def _descending(value: float | None) -> tuple[float, ...]:
    return (0, -value) if value is not None else (1, 0)


def _capability(gpu: Gpu) -> tuple[float, ...]:
    capability = strength(gpu).capability
    return (-capability[0], -capability[1]) if capability else (1, 0)


ORDER_RULES: Mapping[str, OrderRule] = {
    "weights": OrderRule(
        lambda gpu: _descending(strength(gpu).score),
        "drivers from 2018 on, not WSL",
        "69 of 69 machines with both orders printed; 147 of 151 model pairs",
    ),
    "promote-one": OrderRule(
        lambda gpu: _descending(strength(gpu).peak),
        "drivers before 2018: only the first by this key moves to the front",
        "8 of 8 machines with both orders printed",
    ),
    "pci": OrderRule(lambda _: (), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "documented in the CUDA Programming Guide"),
    "capability": OrderRule(_capability, "a belief", "36 of 69; a GB300 (10.3) comes before an RTX PRO 4000 (12.0)"),
    "sm-count": OrderRule(
        lambda gpu: _descending(strength(gpu).sm_count), "a belief", "59 of 69; a 4070 (46) comes before a 3090 (82)"
    ),
    "peak": OrderRule(lambda gpu: _descending(strength(gpu).peak), "a belief", "57 of 69; a 4090 comes before a 5090"),
    "bandwidth": OrderRule(lambda gpu: _descending(strength(gpu).bandwidth), "a belief", "53 of 69"),
    "memory": OrderRule(lambda gpu: _descending(gpu.memory_mib), "a belief", "41 of 69"),
}
"""How GPUs could be ordered. The driver uses the first three; the others are what people believe."""


def rank(topology: Topology, rule: str, accessible: Sequence[int] | None = None) -> tuple[int, ...]:
    """Positions in ``topology.gpus`` sorted by one row of `ORDER_RULES`, ties in PCI order.

    Raises KeyError for a rule that is not in the table.
    """
    places = pci_order(topology, topology.usable if accessible is None else tuple(accessible))
    row = ORDER_RULES[rule]
    if rule == "promote-one":
        first = min(places, key=lambda i: row.key(topology.gpus[i]), default=None)
        return places if first is None else (first, *(i for i in places if i != first))
    return tuple(sorted(places, key=lambda i: row.key(topology.gpus[i])))


def pci_order(topology: Topology, accessible: Sequence[int]) -> tuple[int, ...]:
    """Positions sorted by (domain, bus, device); by NVML index where an address is missing, then by position."""
    gpus = topology.gpus
    addresses = {i: gpus[i].pci for i in accessible}
    if all(addresses.values()):
        return tuple(sorted(accessible, key=lambda i: (addresses[i] or PciBusId(0, 0, 0))[:3]))
    indices = {i: gpus[i].nvml_index for i in accessible}
    if all(index is not None for index in indices.values()):
        return tuple(sorted(accessible, key=lambda i: indices[i] or 0))
    return tuple(accessible)


def device_order(topology: Topology, value: str | None, accessible: Sequence[int] | None = None) -> DeviceOrder:
    """CUDA's order of the accessible GPUs (positions in ``topology.gpus``; None for all usable ones) under a value of
    CUDA_DEVICE_ORDER (None for unset). Computed once a machine. Never raises on odd values.
    """
    places = topology.usable if accessible is None else tuple(accessible)
    meaning = "default" if value is None or value == FASTEST_FIRST else "pci" if value == PCI_BUS_ID else "undocumented"
    return topology.memo(("order", meaning, accessible), lambda: _order(topology, meaning, places))


def served_order(topology: Topology, value: str | None, places: tuple[int, ...]) -> DeviceOrder:
    """The order of an MPS server's clients: the server's own numbering (NVIDIA MPS documentation, 5.2.1).

    Whether a client's CUDA_DEVICE_ORDER sorts it again is not documented; it matters only where it asks for another.
    """
    if len(places) <= 1:
        return _same("single", places, Certainty.CERTAIN, None)
    if device_order(topology, value, tuple(sorted(places))).places == places:
        return _same("served", places, Certainty.CERTAIN, None)
    return _same("served", places, Certainty.UNKNOWN, "served-order")


def _order(topology: Topology, meaning: str, accessible: tuple[int, ...]) -> DeviceOrder:
    """The table of who decides: one GPU, the documented order, an order that was seen, else the heuristic."""
    if len(accessible) <= 1:
        return _same("single", accessible, Certainty.CERTAIN, None)
    if meaning == "pci":
        return _pci(topology, accessible)
    seen = topology.default_order
    if seen is not None and set(seen) >= set(accessible):
        rule, places = "seen", tuple(i for i in seen if i in set(accessible))
    else:
        major = topology.driver_major
        rule = "promote-one" if major is not None and major < _FULL_SORT_DRIVER else "weights"
        places = rank(topology, rule, accessible)
    if meaning == "undocumented":
        return _same(rule, places, Certainty.UNKNOWN, "undocumented-order")
    if rule == "seen":
        measured = topology.default_order_measured
        return _same(rule, places, *((Certainty.CERTAIN, None) if measured else (Certainty.LIKELY, "seen-in-log")))
    doubt = _general_doubt(topology, places, rule)
    return _same(rule, places, Certainty.UNKNOWN, doubt) if doubt else _graded(topology, rule, places)


def _pci(topology: Topology, accessible: tuple[int, ...]) -> DeviceOrder:
    """The documented order: certain where the places are known. On WSL one report shows the reverse of nvidia-smi."""
    doubt = "wsl" if topology.platform == "wsl" else None if _located(topology, accessible) else "no-addresses"
    return _same("pci", pci_order(topology, accessible), Certainty.UNKNOWN if doubt else Certainty.CERTAIN, doubt)


def _located(topology: Topology, places: Sequence[int]) -> bool:
    """Whether the PCI order can be told: by addresses, or by NVML's numbers, which follow it on ordinary machines."""
    gpus = [topology.gpus[i] for i in places]
    return all(gpu.pci for gpu in gpus) or all(gpu.nvml_index is not None for gpu in gpus)


def _same(rule: str, places: tuple[int, ...], certainty: Certainty, doubt: str | None) -> DeviceOrder:
    return DeviceOrder(rule, places, (certainty,) * len(places), doubt)


def _general_doubt(topology: Topology, places: tuple[int, ...], rule: str) -> str | None:
    """What makes the default order unknown for the machine as a whole."""
    gpus = [topology.gpus[i] for i in places]
    if topology.platform == "wsl":
        return "wsl"
    if any(strength(gpu).vgpu for gpu in gpus):
        return "vgpu"
    if any(gpu.mig_mode for gpu in gpus):
        return "mig"
    if rule == "promote-one":
        return "old-driver"
    kinds = {strength(gpu)[:3] for gpu in gpus}
    if len(kinds) < len(gpus) and not _located(topology, places):
        return "no-addresses"  # equal GPUs stand in PCI order, and nothing tells it
    if len(kinds) > 1 and any(strength(gpu).score is None for gpu in gpus):
        return "unknown-model"
    if any(gpu.name is None for gpu in gpus):
        return "unknown-model"
    return None


def _graded(topology: Topology, rule: str, places: tuple[int, ...]) -> DeviceOrder:
    """Certainty by pairs of models: a GPU is as sure of its place as the least sure pair that it is part of."""
    strengths = [strength(topology.gpus[i]) for i in places]
    counts: dict[Strength, int] = {}
    for s in strengths:
        counts[s] = counts.get(s, 0) + 1
    worst: dict[Strength, tuple[Certainty, str]] = {}
    for a, number in counts.items():
        pairs = [pair_certainty(a, b) for b in counts if b is not a or number > 1]
        worst[a] = max(pairs, key=lambda pair: pair[0].rank)
    certainties = tuple(worst[s][0] for s in strengths)
    doubt = max(worst.values(), key=lambda pair: pair[0].rank)[1]
    return DeviceOrder(rule, places, certainties, doubt)


@lru_cache(maxsize=8192)
def pair_certainty(a: Strength, b: Strength) -> tuple[Certainty, str]:
    """How sure it is which of two models comes first by default, and the key of the reason.

    The first row that applies decides, as the evidence was graded: equal models; scores within a tenth; Ada against
    Blackwell; every measure agrees; a capability whose weight is not pinned; the rest.
    """
    if a == b or (a.name and a.name == b.name and a.score == b.score):
        return Certainty.LIKELY, "equal-models"
    if a.score is None or b.score is None:
        return Certainty.UNKNOWN, "unknown-model"
    high = max(a.score, b.score)
    if high - min(a.score, b.score) <= high * 0.1:
        return Certainty.GUESS, "near-tie"
    if {a.capability, b.capability} == {(8, 9), (12, 0)}:
        return Certainty.LIKELY, "ada-blackwell"
    if _measures_agree(a, b):
        return Certainty.LIKELY, "measures-agree"
    if not {a.capability, b.capability} <= _PINNED:
        return Certainty.UNKNOWN, "weight-not-pinned"
    return Certainty.GUESS, "measures-disagree"


def _measures_agree(a: Strength, b: Strength) -> bool:
    """Whether capability, SM count, SM × clock, peak and bandwidth all put the same one first, as the score does."""
    if a.score is None or b.score is None or a.score < b.score:
        a, b = b, a

    def measures(s: Strength) -> tuple[object, ...]:
        product = s.sm_count * s.clock_mhz if s.sm_count and s.clock_mhz else None
        return ((s.capability, s.sm_count), s.sm_count, product, s.peak, s.bandwidth)

    pairs = list(zip(measures(a), measures(b), strict=True))
    if any(x is None or y is None for x, y in pairs):
        return False
    return all(x >= y for x, y in pairs)  # type: ignore[operator]  # both of one type, column by column
