"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..errors import GpumapError
from ..texts import say


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a file, which has the old content until the new one is complete.

    Raises GpumapError when it cannot be written.
    """
    try:
        target = Path(path)
        if target.exists() and not target.is_file():  # a terminal, a pipe: nothing to replace
            target.write_text(text, encoding="utf-8")
        else:
            replace_file(target.resolve(), text)
    except (OSError, ValueError) as exc:
        said = say("cli.not-written", file=os.fspath(path), error=getattr(exc, "strerror", None) or exc)
        raise GpumapError(said) from exc


def replace_file(path: Path, text: str) -> None:
    """The same for a path without links. Raises OSError."""
    aside = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
