"""The grammar of a POSIX shell, as far as a command line that starts a program needs it. Text in, frozen values out.

Nothing is expanded here but quotes: a word keeps the variables that it names, for `statements` to fill in.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import GpumapError

LONGEST = 200_000
"""Characters of a command; a longer text is none."""
_DEEPEST = 20
"""How deep substitutions may nest."""


class Unreadable(GpumapError):
    """A text that no shell would take. ``why`` is a key, ``at`` the place in characters."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(f"{why} at character {at}")
        self.why, self.at = why, at


class Part(NamedTuple):
    """A piece of a word."""

    kind: str
    """``literal``; ``variable``; ``command`` (a substitution, whose result only a shell knows); ``arithmetic``."""
    text: str
    """The literal, the name of the variable, or the source of the substitution."""
    default: str | None = None
    """``:-word`` or ``-word`` of ``${NAME:-word}``."""
    quoted: bool = False


class ShellWord(NamedTuple):
    """One word: its parts, and where it stands."""

    parts: tuple[Part, ...]
    at: int

    @property
    def literal(self) -> str | None:
        """Its text where nothing in it is to be filled in; None where something is."""
        return "".join(p.text for p in self.parts) if all(p.kind == "literal" for p in self.parts) else None

    @property
    def source(self) -> str:
        """The word roughly as it was typed."""
        return "".join(p.text if p.kind == "literal" else _shown(p) for p in self.parts)


def _shown(part: Part) -> str:
    if part.kind == "variable":
        return f"${{{part.text}{part.default or ''}}}"
    return f"$(({part.text}))" if part.kind == "arithmetic" else f"$({part.text})"


class Operator(NamedTuple):
    """``;``, a line's end, ``&``, ``&&``, ``||``, ``|``, a parenthesis."""

    text: str
    at: int


Token = ShellWord | Operator

_OPERATORS = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
_REDIRECTION = re.compile(r"\d*(?:>>|>\||>&|<&|<>|<<<|>|<)|&>>?")
_HERE = re.compile(r"\d*<<-?[ \t]*(['\"]?)([A-Za-z_][\w.-]*)\1", re.ASCII)
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>#]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]", re.ASCII)
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)((?::?-)[^{}$`'\"]*)?\}", re.ASCII)


def read_script(text: str) -> tuple[Token, ...]:
    """The tokens of a script; comments, redirections and here-documents left out. Raises Unreadable."""
    return tuple(_tokens(text.replace("\r\n", "\n")))


def _tokens(text: str) -> list[Token]:
    out: list[Token] = []
    here: list[str] = []
    at, end = 0, len(text)
    skip_word = False  # the word after a redirection is a file
    while at < end:
        char = text[at]
        if char == "\n":
            out.append(Operator("\n", at))
            at = _after_documents(text, at + 1, here)
            here = []
        elif char.isspace():
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif char == "#":
            at = _line_end(text, at)
        elif (found := _HERE.match(text, at)) is not None:
            here.append(found[2])
            at = found.end()
        elif (found := _REDIRECTION.match(text, at)) is not None:
            at, skip_word = found.end(), True
        elif (found := _OPERATORS.match(text, at)) is not None:
            out.append(Operator(found.group(), at))
            at = found.end()
        else:
            word, at = _word(text, at)
            if not skip_word:
                out.append(word)
            skip_word = False
    return out


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _after_documents(text: str, at: int, names: list[str]) -> int:
    """The place behind the here-documents that begin at a line."""
    for name in names:
        while at < len(text):
            stop = _line_end(text, at)
            line = text[at:stop].strip("\t")
            at = min(stop + 1, len(text))
            if line == name:
                break
    return at


def _word(text: str, at: int) -> tuple[ShellWord, int]:
    start, parts = at, []
    while at < len(text):
        char = text[at]
        if char.isspace() or (char in ";&|()<>") or text.startswith("\\\n", at):
            break
        if char == "'":
            stop = text.find("'", at + 1)
            if stop < 0:
                raise Unreadable("quote", at)
            parts.append(Part("literal", text[at + 1 : stop], quoted=True))
            at = stop + 1
        elif char == '"':
            found, at = _double_quoted(text, at)
            parts += found
        elif char == "\\":
            parts.append(Part("literal", text[at + 1 : at + 2], quoted=True))
            at += 2
        elif char in "$`":
            part, at = _expansion(text, at)
            parts.append(part)
        else:
            plain = _PLAIN.match(text, at)
            piece = plain.group() if plain else char
            parts.append(Part("literal", piece))
            at += len(piece)
    return ShellWord(tuple(parts), start), at


def _double_quoted(text: str, at: int) -> tuple[list[Part], int]:
    start, parts, run = at, [Part("literal", "", quoted=True)], at + 1
    at += 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            kept = text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n")
            parts.append(Part("literal", text[run:at] if kept else text[run : at + 2], quoted=True))
            if kept and text[at + 1] != "\n":
                parts.append(Part("literal", text[at + 1], quoted=True))
            at += 2
            run = at
        elif text[at] in "$`":
            parts.append(Part("literal", text[run:at], quoted=True))
            part, at = _expansion(text, at)
            parts.append(part._replace(quoted=True))
            run = at
        else:
            at += 1
    if at >= len(text):
        raise Unreadable("quote", start)
    parts.append(Part("literal", text[run:at], quoted=True))
    return [p for i, p in enumerate(parts) if p.text or i == 0 or p.kind != "literal"], at + 1


def _expansion(text: str, at: int) -> tuple[Part, int]:
    """What begins with a dollar or a backtick."""
    if text[at] == "`":
        stop = text.find("`", at + 1)
        if stop < 0:
            raise Unreadable("backtick", at)
        return Part("command", text[at + 1 : stop]), stop + 1
    if text.startswith("$'", at):
        stop = text.find("'", at + 2)
        if stop < 0:
            raise Unreadable("quote", at)
        return Part("literal", text[at + 2 : stop], quoted=True), stop + 1
    if text.startswith("$((", at):
        stop = text.find("))", at)
        if stop < 0:
            raise Unreadable("parenthesis", at)
        return Part("arithmetic", text[at + 3 : stop]), stop + 2
    if text.startswith("$(", at):
        stop = _closing(text, at + 1)
        return Part("command", text[at + 2 : stop]), stop + 1
    if text.startswith("${", at):
        braced = _BRACED.match(text, at + 1)
        if braced is not None:
            return Part("variable", braced[1], braced[2]), braced.end()
        stop = text.find("}", at)
        if stop < 0:
            raise Unreadable("brace", at)
        return Part("command", text[at + 2 : stop]), stop + 1  # a form that this reader does not follow
    name = _NAME.match(text, at + 1)
    if name is None:
        return Part("literal", "$"), at + 1
    return Part("variable", name.group()), name.end()


def _closing(text: str, at: int) -> int:
    """Place of the parenthesis that closes the one at ``at``, quotes passed over."""
    start, depth = at, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "'\"":
            at = text.find(char, at + 1)
            if at < 0:
                break
        elif char == "(":
            depth += 1
            if depth > _DEEPEST:
                break
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise Unreadable("parenthesis", start)
