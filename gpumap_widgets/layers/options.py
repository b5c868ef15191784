"""Options of a command line by a table, as the tool's own parser would take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .words import Word


class Option(NamedTuple):
    """One option of a tool."""

    names: str
    """Its spellings, separated by blanks: ``"--nproc-per-node --nproc_per_node -n"``."""
    takes: int | str = 1
    """How many words it takes: 0 for a switch, 1, ``"?"`` (only glued with ``=``), ``"+"`` (all up to the next option)."""
    key: str = ""
    """Name under which its value is returned; "" for an option that does not touch the GPUs."""


class Parsed(NamedTuple):
    """A command line taken apart."""

    values: Mapping[str, tuple[Word, ...]]
    """By key: what was given, in order; a switch gives one empty word."""
    rest: tuple[Word, ...]
    """From the first word that is neither an option nor an option's value."""
    unrecognised: tuple[str, ...]
    """Options that the table does not know, as they were typed."""

    def text(self, key: str, default: str | None = None) -> str | None:
        """The last value of an option, ``default`` where it was not given."""
        given = self.values.get(key)
        return given[-1].text if given else default

    def has(self, key: str) -> bool:
        """Whether an option was given."""
        return key in self.values

    def options(self, texts: Iterable[str], switches: Iterable[str] = ()) -> dict[str, Any]:
        """What was given as options of a layer.

        Texts as they were typed; those that name variables of the process itself under ``expand``, those that only a
        shell could work out under ``unknown``; options that the table does not know under ``unrecognised``.
        """
        found: dict[str, Any] = {key: True for key in switches if key in self.values}
        for key in texts:
            word = self.values[key][-1] if self.values.get(key) else None
            if word is not None and (word.open or word.unknown):
                found.setdefault("expand" if word.open else "unknown", {})[key] = word.text
            elif word is not None:
                found[key] = word.text
        return {**found, "unrecognised": self.unrecognised} if self.unrecognised else found


_SWITCH = Word("")
Keep = Callable[[Option, Iterable[Word]], None]


class Options:
    """The options of one tool.

    ``abbreviate``: unique beginnings of long options count (argparse, getopt_long). ``cluster``: short switches may
    share a dash and a value may follow without blank: ``-it``, ``-n4``. ``underscores``: ``_`` and ``-`` are the same.
    ``single_dash``: long options have one dash (``-np``).
    """

    def __init__(
        self,
        rows: Iterable[Option],
        *,
        abbreviate: bool = False,
        cluster: bool = True,
        underscores: bool = False,
    ) -> None:
        self._abbreviate, self._cluster, self._underscores = abbreviate, cluster, underscores
        self._by_name = {self._plain(name): row for row in rows for name in row.names.split()}

    def _plain(self, name: str) -> str:
        return name[:2] + name[2:].replace("_", "-") if self._underscores else name

    def _find(self, name: str) -> Option | None:
        name = self._plain(name)
        row = self._by_name.get(name)
        if row is None and self._abbreviate and name.startswith("--") and len(name) > len("--"):
            found = {self._by_name[full] for full in self._by_name if full.startswith(name)}
            return found.pop() if len(found) == 1 else None
        return row

    def parse(self, words: Sequence[Word], *, mixed: bool = False) -> Parsed:
        """Take the options off the front of a command line (without the program). Never raises.

        ``mixed``: options may also stand behind other words, and ``rest`` is all of those.
        """
        values: dict[str, list[Word]] = {}
        unrecognised: list[str] = []
        others: list[Word] = []
        at = 0

        def keep(row: Option, given: Iterable[Word]) -> None:
            if row.key:
                values.setdefault(row.key, []).extend(given)

        while at < len(words):
            word = words[at]
            text = word.text
            if text == "--":
                at += 1
                break
            if len(text) < len("-x") or text[0] != "-":
                if not mixed:
                    break
                others.append(word)
                at += 1
                continue
            at += 1
            name, glued, value = text.partition("=")
            row = self._find(name)
            if row is not None and glued:
                keep(row, (word._replace(text=value),))
            elif row is not None:
                at = self._take(row, words, at, keep)
            elif self._cluster and text[1] != "-" and self._find(text[:2]) is not None:
                at = self._short(word, words, at, keep, unrecognised)
            else:
                unrecognised.append(text)
        rest = (*others, *words[at:])
        return Parsed({k: tuple(v) for k, v in values.items()}, rest, tuple(unrecognised))

    @staticmethod
    def _take(row: Option, words: Sequence[Word], at: int, keep: Keep) -> int:
        if row.takes in (0, "?"):
            keep(row, (_SWITCH,))
            return at
        end = at + 1 if row.takes == 1 else at
        if row.takes == "+":
            while end < len(words) and not words[end].text.startswith("-"):
                end += 1
        elif isinstance(row.takes, int):
            end = at + row.takes
        keep(row, words[at:end])
        return min(end, len(words))

    def _short(self, word: Word, words: Sequence[Word], at: int, keep: Keep, unrecognised: list[str]) -> int:
        """``-it`` and ``-n4``: short options that share a dash."""
        text = word.text
        for i in range(1, len(text)):
            row = self._find(f"-{text[i]}")
            if row is None:
                unrecognised.append(f"-{text[i:]}")
                return at
            rest = text[i + 1 :]
            if row.takes != 0:
                if rest:
                    keep(row, (word._replace(text=rest.removeprefix("=")),))
                    return at
                return self._take(row, words, at, keep)
            keep(row, (_SWITCH,))
        return at
