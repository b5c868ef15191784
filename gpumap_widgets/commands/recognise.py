"""From the statements of a script to layers: each word list goes to the row of the table that knows its program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..layers import LAYERS, environment
from ..layers.base import LayerRow
from ..layers.scripts import script_layers
from ..layers.words import Word
from ..scenario import Layer, is_relevant
from .shell import Token, read_script
from .statements import Shell, Statement, assignment, statements
from .wrappers import WRAPPERS

_PYTHON = re.compile(r"python(?:[23](?:\.\d+)?)?(?:\.exe)?\Z", re.ASCII)
_DEEPEST = 12
"""How many programs may start one another in one command."""


def layers_of(tokens: Iterable[Token], shell: Shell, assume: Mapping[str, Any], depth: int = 0) -> tuple[Layer, ...]:
    """The layers of a script. Several programs in it are jobs side by side: one layer that holds the layers of each.

    Raises `shell.Unreadable` for text inside it (``sh -c``) that no shell would take.
    """
    jobs: list[tuple[Layer, ...]] = []
    changes = Changes()
    for statement in statements(tokens):
        job = _statement(statement, shell, changes, assume, depth)
        if job is not None:
            jobs.append((*changes.layers(), *job))
    if not jobs and changes.idle:
        return (Layer("unreadable", {"why": "idle"}),)
    return side_by_side([("", job) for job in jobs]) if jobs else changes.layers()


Job = tuple[str, tuple[Layer, ...]]
"""What a program is called, "" where it has no name, and its layers."""


def side_by_side(jobs: Sequence[Job]) -> tuple[Layer, ...]:
    """The layers of programs that run beside one another; of the only one where there is one."""
    if len(jobs) == 1:
        return jobs[0][1]
    names = [name for name, _ in jobs]
    options = {
        "jobs": [[layer.to_dict() for layer in job] for _, job in jobs],
        **({"names": names} if any(names) else {}),
    }
    return (Layer("jobs", options),)


class Changes:
    """What a script has exported so far."""

    def __init__(self) -> None:
        self.set: dict[str, Word] = {}
        self.unset: dict[str, None] = {}
        self.idle = False
        """Whether a command was met that starts nothing that could use a GPU."""
        self.standing: tuple[Layer, ...] = ()
        """Daemons that were started, each behind what was exported until then."""

    def layers(self) -> tuple[Layer, ...]:
        """As layers; () where nothing was exported."""
        return (*self.standing, *_environment(self.set, tuple(self.unset), "export"))

    def start(self, daemon: Layer) -> None:
        """A daemon that what follows runs under."""
        self.standing = (*self.layers(), daemon)
        self.set, self.unset = {}, {}


def _environment(
    words: Mapping[str, Word], unset: tuple[str, ...], via: str, *, clear: bool = False, keep: tuple[str, ...] = ()
) -> tuple[Layer, ...]:
    """An environment layer of the variables that can matter; () where there are none."""
    kept = {name: word for name, word in words.items() if is_relevant(name) or looks_meant(name)}
    given = {name: word.text for name, word in kept.items() if not (word.open or word.unknown)}
    expand = {name: word.text for name, word in kept.items() if word.open}
    unknown = tuple(name for name, word in kept.items() if word.unknown)
    if not (kept or clear or any(is_relevant(name) for name in unset)):
        return ()
    return (environment(given, expand=expand, unknown=unknown, unset=unset, via=via, clear=clear, keep=keep),)


def looks_meant(name: str) -> bool:
    """Whether a name is a near miss of one that matters; such are kept, so that somebody can say so."""
    plain = name.upper().replace("-", "_")
    return "CUDA" in plain or "NVIDIA" in plain or "VISIBLE" in plain


def _statement(
    statement: Statement, shell: Shell, changes: Changes, assume: Mapping[str, Any], depth: int
) -> tuple[Layer, ...] | None:
    """The layers of one simple command; None where it starts no program that could use a GPU."""
    words, prefix = list(statement.words), {}
    while words and (found := assignment(words[0])) is not None:
        prefix[found[0]] = shell.word(found[1])
        words.pop(0)
    if not words:  # an assignment alone: the shell's own variable, or a new value of an exported one
        for name, value in prefix.items():
            (shell.exported if name in shell.exported else shell.own)[name] = value.text
            if name in shell.exported:
                changes.set[name] = value
        return None
    plain = tuple(shell.word(word) for word in words)
    if plain[0].text in BUILTINS:
        BUILTINS[plain[0].text](statement.words[len(statement.words) - len(words) :], shell, changes)
        return None
    if plain[0].text in UTILITIES or statement.piped:
        return None
    started = program(plain, assume, depth, {**shell.exported, **{name: word.text for name, word in prefix.items()}})
    changes.idle |= started is None
    if started and LAYERS[started[-1].kind].lasting:
        changes.start(_with_prefix(started[-1], prefix))
        return None
    return None if started is None else (*_environment(prefix, (), "prefix"), *started)


def _with_prefix(daemon: Layer, prefix: Mapping[str, Word]) -> Layer:
    """A daemon with the variables that were assigned in front of it, which nothing after it has."""
    given = {name: word.text for name, word in prefix.items() if is_relevant(name) and not (word.open or word.unknown)}
    return Layer(daemon.kind, {**daemon.options, "set": given}) if given else daemon


def program(
    words: tuple[Word, ...], assume: Mapping[str, Any], depth: int = 0, env: Mapping[str, str] | None = None
) -> tuple[Layer, ...] | None:
    """The layers of a command that is given as words; None where it starts nothing that could use a GPU.

    ``env``: the variables that it has, for files that it reads with variables in them.
    """
    layers: list[Layer] = []
    while words and depth < _DEEPEST:
        depth += 1
        name = words[0].text.rpartition("/")[2]
        if name in WRAPPERS:
            inner = WRAPPERS[name](words)
            layers += _environment(inner.set, inner.unset, name, clear=inner.clear, keep=inner.keep)
            if inner.script is not None:
                return (*layers, *_script(inner.script, assume, depth))
            words = inner.rest
            continue
        if name in BY_FILE:
            from .manifests import started  # those read commands in turn

            described = started(words, env or {}, assume)
            if described is not None:
                return (*layers, *described) if described else None
        found = _find(words)
        if found is None:
            return (*layers, *script_layers(assume))
        row, length = found
        assert row.recognise is not None
        known = row.recognise(words[length - 1 :], assume)
        if known.idle:
            return None
        layers += known.layers
        if known.script is not None:
            return (*layers, *_script(known.script, assume, depth))
        words = known.rest
    return tuple(layers)


def _script(script: Word, assume: Mapping[str, Any], depth: int) -> tuple[Layer, ...]:
    return layers_of(read_script(script.text), Shell({}, inner=True), assume, depth)


@cache
def _programs() -> dict[tuple[str, ...], LayerRow]:
    return {tuple(name.split()): row for row in LAYERS.values() for name in row.programs}


def _find(words: tuple[Word, ...]) -> tuple[LayerRow, int] | None:
    """The row that knows a program, and how many words name it."""
    table = _programs()
    name = words[0].text.rpartition("/")[2]
    if (name,) in table:
        return table[(name,)], 1
    if _PYTHON.match(name):
        at = 1
        while at < len(words) and words[at].text.startswith("-") and words[at].text not in ("-m", "-c"):
            at += 2 if words[at].text in ("-X", "-W") else 1
        if at + 1 < len(words) and words[at].text == "-m" and ("-m", words[at + 1].text) in table:
            return table[("-m", words[at + 1].text)], at + 2
    return None


# --- what a shell does itself -----------------------------------------------------------------------------------------


def _export(words: tuple[Any, ...], shell: Shell, changes: Changes) -> None:
    for word in words[1:]:
        found = assignment(word)
        if found is not None:
            value = shell.word(found[1])
            shell.exported[found[0]] = value.text
        else:
            name = shell.word(word).text
            if name not in shell.own:
                continue
            value = Word(shell.own.pop(name))
            shell.exported[name] = value.text
            found = (name, word)
        changes.set[found[0]] = value
        changes.unset.pop(found[0], None)


def _unset(words: tuple[Any, ...], shell: Shell, changes: Changes) -> None:
    for word in words[1:]:
        name = shell.word(word).text
        shell.exported.pop(name, None)
        shell.own.pop(name, None)
        shell.unset.add(name)
        changes.set.pop(name, None)
        changes.unset[name] = None


def _nothing(_: tuple[Any, ...], __: Shell, ___: Changes) -> None:
    """A builtin that does not touch variables."""


BUILTINS: Mapping[str, Callable[[tuple[Any, ...], Shell, Changes], None]] = {
    "export": _export,
    "declare": _export,
    "unset": _unset,
    **dict.fromkeys(["cd", "set", "shopt", "ulimit", "umask", "wait", "trap", "true", ":", "alias", "exit"], _nothing),
}
BY_FILE = frozenset({"docker", "docker-compose", "podman", "podman-compose", "nerdctl", "kubectl"})
"""Programs that can start what a file describes."""
UTILITIES = frozenset(
    {"echo", "printf", "mkdir", "sleep", "date", "hostname", "nvidia-smi", "module", "tee", "cat", "rm"}
)
"""Programs that stand in scripts and use no GPU by CUDA."""
