"""Statements of a script and the variables that a shell holds while it runs them, without running anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..layers.words import Word
from .shell import LONGEST, Operator, Part, ShellWord, Token, Unreadable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


class Statement(NamedTuple):
    """A simple command."""

    words: tuple[ShellWord, ...]
    background: bool = False
    """It ends in ``&``: what follows runs beside it."""
    piped: bool = False
    """It reads from the statement before it."""


def statements(tokens: Iterable[Token]) -> Iterator[Statement]:
    """The simple commands of a script, in order."""
    words: list[ShellWord] = []
    piped = False
    for token in tokens:
        if isinstance(token, ShellWord):
            words.append(token)
            continue
        if words:
            yield Statement(tuple(words), token.text == "&", piped)
        words, piped = [], token.text in ("|", "|&") or (piped and token.text == "\n" and not words)
    if words:
        yield Statement(tuple(words), piped=piped)


def assignment(word: ShellWord) -> tuple[str, ShellWord] | None:
    """``NAME`` and the value of a word that is an assignment; None for any other word."""
    first = word.parts[0] if word.parts else None
    if first is None or first.kind != "literal" or first.quoted or "=" not in first.text:
        return None
    name, _, value = first.text.partition("=")
    if not _NAME.match(name):
        return None
    return name, ShellWord((Part("literal", value), *word.parts[1:]), word.at)


@dataclass
class Shell:
    """The variables of a shell while a script is read: what it exports, and what it keeps to itself."""

    exported: dict[str, str]
    own: dict[str, str] = field(default_factory=dict)
    inner: bool = False
    """True in text that another process's shell will run: what is not set here may be set there."""
    unset: set[str] = field(default_factory=set)

    @property
    def known(self) -> Mapping[str, str]:
        """Every variable that has a value here."""
        return {**self.exported, **self.own}

    def word(self, word: ShellWord) -> Word:
        """A word with its variables filled in, as far as this shell knows them."""
        if all(part.kind == "literal" for part in word.parts):
            return Word("".join(part.text for part in word.parts))
        if any(part.kind == "command" for part in word.parts):
            return Word(word.source, unknown=True)
        return self._filled(word)

    def _filled(self, word: ShellWord) -> Word:
        known = self.known
        pieces: list[tuple[str, bool]] = []
        for part in word.parts:
            if part.kind == "literal":
                pieces.append((part.text, False))
            elif part.kind == "arithmetic":
                value = arithmetic(part.text, known)
                if value is None:
                    return Word(word.source, unknown=True)
                pieces.append((str(value), False))
            else:
                pieces.append(self._variable(part, known))
        if sum(len(text) for text, _ in pieces) > LONGEST:
            raise Unreadable("long", word.at)  # variables that double one another
        if not any(is_open for _, is_open in pieces):
            return Word("".join(text for text, _ in pieces))
        return Word("".join(text if is_open else text.replace("$", "$$") for text, is_open in pieces), open=True)

    def _variable(self, part: Part, known: Mapping[str, str]) -> tuple[str, bool]:
        """A variable's value, or a template for the process that will have one."""
        value = known.get(part.text)
        if value is None and self.inner and part.text not in self.unset:
            return f"${{{part.text}{part.default or ''}}}", True
        if part.default is not None and (value is None or (part.default.startswith(":") and not value)):
            return part.default.lstrip(":")[1:], False
        return value or "", False


_SUM = re.compile(r"\s*(?:(\d{1,9})|\$?\{?([A-Za-z_]\w*)\}?)\s*(?:([-+*/%])|\Z)", re.ASCII)


def arithmetic(text: str, known: Mapping[str, str]) -> int | None:
    """A sum of whole numbers and variables with one operator or two, from left to right; None for anything else."""
    total, operator, at = 0, "+", 0
    for _ in range(3):
        found = _SUM.match(text, at)
        if found is None:
            return None
        value = found[1] if found[1] is not None else known.get(found[2], "")
        if not (value.isascii() and value.isdigit() and len(value) < len("1000000000")):
            return None
        step = _APPLY[operator](total, int(value)) if int(value) or operator not in "/%" else None
        if step is None:
            return None
        total = step
        if found[3] is None:
            return total if total >= 0 else None
        operator, at = found[3], found.end()
    return None


_APPLY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}

__all__ = ["Operator", "Shell", "Statement", "arithmetic", "assignment", "statements"]
