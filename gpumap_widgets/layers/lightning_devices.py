"""What Lightning makes of ``Trainer(devices=…)``: its own parser, errors included."""

from __future__ import annotations

from typing import Any

from ..frozen import FrozenDict
from ..mapping import Message
from .shapes import whole
from .telling import quoted

_MOST = 8192


def parse_devices(devices: Any, count: int, *, elastic: bool = False) -> tuple[int, ...] | Message:
    """Ordinals that ``devices`` asks for where ``count`` are visible, or what Lightning raises.

    ``devices``: a number, a text or a tuple of numbers. ``elastic``: the process was started by torch's elastic agent;
    Lightning then lets a list pass where one GPU is visible.
    """
    if devices is None or type(devices) not in (int, str, tuple) or _mixed(devices):
        return _message("error.lightning.type", asked=repr(devices))
    if devices in ((), 0) or (isinstance(devices, str) and devices.strip() in ("0", "[]")):
        return _message("error.lightning.none", asked=repr(devices))
    asked = _numbers(devices) if isinstance(devices, str) else devices
    if asked is None:
        return _message("error.lightning.int", asked=repr(devices))
    if isinstance(asked, int):
        asked = tuple(range(count if asked == -1 else min(asked, _MOST)))
    if not asked:
        return _message("error.lightning.no-gpu")
    if elastic and len(asked) != 1 and count == 1:
        return asked
    if len(set(asked)) != len(asked):
        return _message("error.lightning.unique")
    if any(not 0 <= ordinal < count for ordinal in asked):
        return _message("error.lightning.only", asked=list(asked), has=list(range(count)))
    return asked


def _mixed(devices: Any) -> bool:
    return isinstance(devices, tuple) and any(type(one) is not int for one in devices)


def _numbers(text: str) -> int | tuple[int, ...] | None:
    """``"2"`` is a number, ``"2,"`` a list; None for what ``int()`` refuses."""
    if "," not in text:
        return whole(text)
    found = [whole(part) for part in text.split(",") if part]
    known = tuple(number for number in found if number is not None)
    return known if len(known) == len(found) else None


def _message(key: str, **fields: Any) -> Message:
    return Message(key, FrozenDict({name: quoted(value) for name, value in fields.items()}))
