"""Orders that people believe in, each resolved on the scenario at hand, to show where it goes wrong. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .certainty import Certainty
from .device_order import ORDER_RULES, rank
from .mapping import Prediction
from .resolver import resolve
from .scenario import CUDA_DEVICE_ORDER

BELIEVED = ("pci", "capability", "sm-count", "peak", "bandwidth", "memory")
"""Rows of `ORDER_RULES` that somebody takes for the default order."""


@dataclass(frozen=True)
class Belief:
    """One order that somebody believes in, on this scenario."""

    rule: str
    """Row of `ORDER_RULES`; the sentence is ``belief.<rule>``."""
    nvml_indices: tuple[int | None, ...]
    """What cuda:0, cuda:1, … would be."""
    agrees: bool | None
    """Whether that is the prediction too; None where the prediction itself is unknown."""
    evidence: str
    """On how many of the 69 reports since 2018 that show both orders it holds, and where it fails.

    Source: the reports that the default order is fitted to; people report machines whose orders differ.
    """


def believed_orders(prediction: Prediction) -> tuple[Belief, ...]:
    """What the scenario would give if CUDA counted by each believed order.

    () where the order is documented, seen, or of no consequence: then there is nothing left to believe.
    """
    if not prediction.processes or prediction.processes[0].order.rule not in ("weights", "promote-one"):
        return ()
    scenario = prediction.scenario
    plain = scenario.with_env(**{CUDA_DEVICE_ORDER: None})
    found = []
    for rule in BELIEVED:
        machine = replace(
            scenario.topology,
            default_order=rank(scenario.topology, rule),
            default_order_measured=True,
            default_order_date=None,
        )
        indices = resolve(plain.with_topology(machine)).nvml_indices
        known = prediction.certainty is not Certainty.UNKNOWN
        agrees = indices == prediction.nvml_indices if known else None
        evidence = "8 of 69" if rule == "pci" else ORDER_RULES[rule].evidence
        found.append(Belief(rule, indices, agrees, evidence))
    return tuple(found)
