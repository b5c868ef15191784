"""A machine in a file: what somebody else needs to look at it without being on it, and what changed since the last time.

A capsule is one JSON object: the machine, the variables that touch the numbering, versions, who took it where and when.
Everything here is pure, except `take`. A text that is no sound capsule raises UnreadableTopology, whatever is in it.
"""

from .drifting import DRIFTS, Drift, drift, drift_rows
from .taking import take
from .value import LIMIT, SCHEMA, Capsule, CapsuleProcess, is_capsule, scenario_of

__all__ = [
    "DRIFTS",
    "LIMIT",
    "SCHEMA",
    "Capsule",
    "CapsuleProcess",
    "Drift",
    "drift",
    "drift_rows",
    "is_capsule",
    "scenario_of",
    "take",
]
