"""What can stand between a machine and CUDA: one table of layers, one row a kind.

A layer is a function from a view of the machine to the views that its processes have, with the steps that say what it
did. Adding one touches one module of this package and its cases.
"""

from __future__ import annotations

from .base import LAYERS, LayerRow, View
from .environment import ENVIRONMENT_ROW

LAYERS.update({"environment": ENVIRONMENT_ROW})

__all__ = ["LAYERS", "LayerRow", "View"]
