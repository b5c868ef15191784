"""The program that a launcher starts in place of the user's script: each worker leaves a file of facts.

Its text is run behind those of `hardware` and `probe`, in one namespace. What torch tells and what the driver tells are
both stated, since torch has started the driver in this process by then.
"""

from __future__ import annotations

import json
import os
from typing import Any

if globals().get("__package__"):  # for whoever reads this as a module; else the two were run before
    from .hardware import device, leash, load_driver
    from .probe import report


def work(folder: str, seconds: int, names: tuple[str, ...]) -> None:
    """Write what this worker has got into the folder, whole or not at all."""
    leash(seconds)
    facts = report(names)
    cuda = load_driver(facts)
    if cuda is not None:
        facts["driver_devices"] = [device(cuda, i) for i in range(len(facts["devices"]))]
    facts["ranks"] = {name: _number(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    place = os.path.join(folder, f"worker-{os.getpid()}")  # noqa: PTH118
    with open(f"{place}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(facts, file)
    os.rename(f"{place}.part", f"{place}.json")  # noqa: PTH104


def _number(name: str) -> Any:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
