"""A run saved to a file, and a file read back."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime
from pathlib import Path

from ..comparison import compare
from ..errors import UnreadableRecording
from ..mapping import Observation, Prediction
from ..sources.capsule.taking import user_name
from ..sources.checked import OddData, object_in
from ..sources.files import write_whole
from ..texts import say
from .hiding import masked_recording, without_secrets
from .plain import plain_recording, recording_from
from .value import MARK, Recording, foretold_by

LIMIT = 4 * 1024 * 1024
"""Longest accepted file, in bytes."""


def save_recording(
    path: str | os.PathLike[str],
    prediction: Prediction,
    observation: Observation,
    *,
    mask: bool = False,
    salt: str | None = None,
) -> Recording:
    """Save a run to a file, whole or not at all, and return what was saved. Variables whose names speak of secrets are left out.

    ``mask``: hide the names of boards, host and user, as `Capsule.masked` does; ``salt`` implies it, and makes recordings
    that can be joined. Raises GpumapError when the file cannot be written.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        release: str | None = version("gpumap-widgets")
    except PackageNotFoundError:
        release = None
    prediction, observation = without_secrets(prediction, observation)
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    result = compare(prediction, observation)
    told = (result.verdict, result.reason.text(), foretold_by(prediction))
    recording = Recording(prediction, observation, now, platform.node() or None, user_name(), release, *told)
    if mask or salt:
        recording = masked_recording(recording, salt)
    write_whole(path, json.dumps(plain_recording(recording), indent=1))
    return recording


def load_recording(path: str | os.PathLike[str]) -> Recording:
    """A saved run. Raises UnreadableRecording, a GpumapError, with the reason for a file that is none, or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(LIMIT + 1).decode(errors="replace")
        return recording_from(object_in(text, LIMIT, MARK))
    except OddData as exc:
        said = say(f"recording.{exc.kind}", why=exc.why, limit=LIMIT // 2**20)
    except (OSError, ValueError) as exc:
        said = say("cli.no-file", file=os.fspath(path), error=getattr(exc, "strerror", None) or exc)
    raise UnreadableRecording(said, remedy=say("recording.remedy"))
