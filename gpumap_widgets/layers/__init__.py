"""What can stand between a machine and CUDA: one table of layers, one row a kind.

A layer is a function from a view of the machine to the views that its processes have, with the steps that say what it
did. Adding one touches one module of this package and its cases.
"""

from __future__ import annotations

from . import jobs, launchers
from .base import LAYERS, LayerRow, Outcome, Recognised, View
from .cuda import candidates, device_count, in_full, process_of
from .folding import Folded, fold
from .launchers import torchrun
from .variables import ENVIRONMENT_ROW, environment

LAYERS.update({"environment": ENVIRONMENT_ROW})
for _family in (jobs, launchers):
    LAYERS.update(_family.ROWS)

__all__ = [
    "LAYERS",
    "Folded",
    "LayerRow",
    "Outcome",
    "Recognised",
    "View",
    "candidates",
    "device_count",
    "environment",
    "fold",
    "in_full",
    "process_of",
    "torchrun",
]
