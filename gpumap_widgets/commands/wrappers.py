"""Programs that start another program and change at most its environment: ``env``, ``nohup``, ``sh -c``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..layers.options import Option, Options
from ..layers.words import Word


class Wrapped(NamedTuple):
    """What a wrapper hands on."""

    rest: tuple[Word, ...] = ()
    """The command that it starts."""
    script: Word | None = None
    """Shell text that it runs instead."""
    set: Mapping[str, Word] = {}
    unset: tuple[str, ...] = ()
    clear: bool = False
    keep: tuple[str, ...] = ()
    """Names that stay where it is cleared."""


_ENV = Options(
    [
        Option("-i --ignore-environment", 0, "clear"),
        Option("-u --unset", 1, "unset"),
        Option("-S --split-string", 1, "split"),
        Option("-0 --null -v --debug", 0),
        Option("-C --chdir"),
    ]
)


def _env(words: tuple[Word, ...]) -> Wrapped:
    found = _ENV.parse(words[1:])
    rest, given = list(found.rest), {}
    clear = found.has("clear")
    if rest and rest[0].text == "-":
        clear = True
        rest.pop(0)
    while rest and "=" in rest[0].text and not rest[0].unknown:
        word = rest.pop(0)
        name, _, value = word.text.partition("=")
        given[name] = word._replace(text=value)
    unset = tuple(word.text for word in found.values.get("unset", ()))
    return Wrapped(tuple(rest), set=given, unset=unset, clear=clear)


def _shell(words: tuple[Word, ...]) -> Wrapped:
    """``sh -c text``; a script file cannot be read from here."""
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text.startswith("-") and not text.startswith("--") and text.endswith("c") and at + 1 < len(words):
            return Wrapped(script=words[at + 1])
        if not text.startswith("-"):
            break
    return Wrapped()


_SUDO = Options(
    [
        Option("-E --preserve-env", "?", "keep"),
        Option(
            "-A -b -H -k -K -n -N -P -S -i -s -v -l -e --askpass --background --set-home --reset-timestamp --stdin", 0
        ),
        Option("--non-interactive --preserve-groups --login --shell --validate --list --edit", 0),
        Option(
            "-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -r --role -t --type -T"
        ),
        Option("--command-timeout -U --other-user"),
    ]
)


def _sudo(words: tuple[Word, ...]) -> Wrapped:
    """``sudo`` starts with an environment of its own unless told to keep it (sudoers, env_reset is on by default)."""
    found = _SUDO.parse(words[1:])
    rest, given = list(found.rest), {}
    while rest and "=" in rest[0].text and not rest[0].text.startswith("="):
        name, _, value = rest[0].text.partition("=")
        given[name] = rest.pop(0)._replace(text=value)
    kept = found.text("keep")
    names = tuple(name for name in (kept or "").split(",") if name)
    return Wrapped(tuple(rest), set=given, clear=kept is None or bool(names), keep=names)


def _plain(*options: Option) -> Callable[[tuple[Word, ...]], Wrapped]:
    table = Options(options)

    def unwrap(words: tuple[Word, ...]) -> Wrapped:
        return Wrapped(table.parse(words[1:]).rest)

    return unwrap


WRAPPERS: Mapping[str, Callable[[tuple[Word, ...]], Wrapped]] = {
    "env": _env,
    "sudo": _sudo,
    **dict.fromkeys(["sh", "bash", "zsh", "dash", "ksh"], _shell),
    **dict.fromkeys(["nohup", "exec", "setsid", "command", "builtin", "then", "do"], _plain()),
    "time": _plain(Option("-p -v -l", 0), Option("-f -o")),
    "nice": _plain(Option("-n --adjustment")),
    "ionice": _plain(Option("-c -n --class --classdata")),
    "stdbuf": _plain(Option("-i -o -e --input --output --error")),
    "numactl": _plain(Option("--cpunodebind --membind --physcpubind --interleave --preferred -N -m -C -i -p")),
    "taskset": _plain(Option("-c --cpu-list")),
    "xvfb-run": _plain(Option("-a --auto-servernum", 0), Option("-s --server-args -n")),
}
"""Program → how to find what it starts."""
