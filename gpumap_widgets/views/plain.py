"""Columns of plain text, safe on a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; columns that are empty throughout are left out."""
    keep = [i for i in range(len(head)) if any(row[i] for row in rows)] if rows else list(range(len(head)))
    lines = [[head[i] for i in keep], *([one_line(row[i]) for i in keep] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(keep))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def one_line(text: str) -> str:
    """Control characters of pasted text must not move the cursor of a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def one_line_each(lines: Sequence[str]) -> list[str]:
    """The same for texts that have lines of their own."""
    return ["\n".join(one_line(part) for part in line.split("\n")) for line in lines]
