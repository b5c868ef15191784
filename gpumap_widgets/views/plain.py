"""Columns of plain text, safe on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..texts import one_line, safe_text


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; columns that are empty throughout are left out."""
    keep = [i for i in range(len(head)) if any(row[i] for row in rows)] if rows else list(range(len(head)))
    lines = [[head[i] for i in keep], *([one_line(row[i]) for i in keep] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(keep))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def printable(lines: Sequence[str]) -> str:
    """Lines in which nothing moves the cursor of a terminal."""
    return safe_text("\n".join(lines))
