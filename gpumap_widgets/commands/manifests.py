"""Commands that start what a file describes: ``docker compose up``, ``kubectl apply -f``. The files come from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..layers.containers_images import given
from ..layers.options import Option, Options
from ..layers.words import Word
from ..scenario import Layer
from . import compose, kubernetes
from .documents import mapping
from .recognise import program, side_by_side

_DEFAULTS = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_COMPOSE = Options(
    [
        Option("-f --file", key="file"),
        Option("--profile --env-file -p --project-name --project-directory --ansi --progress --parallel"),
        Option("--compatibility --dry-run --all-resources --verbose", 0),
    ]
)
_UP = Options(
    [Option("-t --timeout --scale --exit-code-from --attach --no-attach --pull --wait-timeout")], cluster=False
)
_RUN = Options(
    [
        Option("-e --env", key="env"),
        Option("--env-from-file", key="env_file"),
        Option("--entrypoint --name -u --user -w --workdir -v --volume -p --publish -l --label --cap-add --cap-drop"),
        Option("--index --pull"),
        Option("-d --detach --rm -T --no-TTY -i --interactive -P --service-ports --no-deps --use-aliases --build", 0),
        Option("--quiet-pull --quiet --remove-orphans --privileged -t --tty", 0),
    ]
)
_KUBECTL = Options(
    [
        Option("-f --filename", key="file"),
        Option("-n --namespace --context --kubeconfig --cluster --user -l --selector -o --output -c --container"),
        Option("-i --stdin -t --tty -R --recursive --force --server-side -A -q --quiet", 0),
    ]
)


def started(words: tuple[Word, ...], env: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...] | None:
    """The layers of a command that a file describes; None for any other command. Raises `shell.Unreadable`."""
    name = words[0].text.rpartition("/")[2]
    if name == "kubectl":
        return _kubectl(words[1:], env, assume)
    rest = words[1:]
    if name in ("docker", "podman", "nerdctl"):
        if not (rest and rest[0].text == "compose"):
            return None
        rest = rest[1:]
    return _compose(rest, env, assume)


def _compose(words: tuple[Word, ...], env: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...] | None:
    found = _COMPOSE.parse(words)
    command, rest = (found.rest[0].text, found.rest[1:]) if found.rest else ("", ())
    if command not in ("up", "run", "create", "exec"):
        return ()
    files = mapping(assume.get("files"))
    named = [word.text for word in found.values.get("file", ())] or [name for name in _DEFAULTS if name in files][:1]
    texts = [text for name in named if (text := _file(name, files)) is not None]
    if not texts or len(texts) < len(named):
        return (_missing(named[0] if named else _DEFAULTS[0]),)
    if command in ("up", "create"):
        return side_by_side(compose.services(texts, env, assume, _names(rest)))
    taken = _RUN.parse(rest)
    if not taken.rest:
        return ()
    inner = taken.rest[1:]
    own = tuple(word.text for word in inner) if command == "run" else ()
    (_, layers), *_ = compose.services(texts, env, assume, [taken.rest[0].text], own)
    changes = given(taken.values.get("env", ()), taken.values.get("env_file", ()), assume).options()
    if command == "exec":
        joined = Layer("docker-exec", {"container": layers[0].options, "tool": "docker", **changes})
        return (joined, *(program(inner, assume) or ()))
    first = layers[0].options
    merged = {**first, **changes, "set": {**first.get("set", {}), **changes.get("set", {})}}
    return (Layer("docker", merged), *layers[1:])


def _names(words: tuple[Word, ...]) -> list[str]:
    """What stands between the options of ``up``: names of services."""
    names = []
    rest = _UP.parse(words).rest
    while rest:
        names.append(rest[0].text)
        rest = _UP.parse(rest[1:]).rest
    return names


def _kubectl(words: tuple[Word, ...], env: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    found = _KUBECTL.parse(words)
    command, rest = (found.rest[0].text, found.rest[1:]) if found.rest else ("", ())
    if command == "exec":
        at = next((i for i, word in enumerate(rest) if word.text == "--"), len(rest))
        return (Layer("docker-exec", {"tool": "kubectl"}), *(program(rest[at + 1 :], assume) or ()))
    if command not in ("apply", "create", "replace"):
        return ()
    more = _KUBECTL.parse(rest)
    named = [word.text for word in (*found.values.get("file", ()), *more.values.get("file", ()))]
    text = _file(named[0], mapping(assume.get("files"))) if named else None
    if text is None:
        return (_missing(named[0] if named else "-f"),)
    return kubernetes.read(text, env, assume)


def _file(name: str, files: Mapping[str, Any]) -> str | None:
    """The text of a file by its path as typed, or by its name alone."""
    text = files.get(name, files.get(name.rpartition("/")[2]))
    return text if isinstance(text, str) else None


def _missing(name: str) -> Layer:
    return Layer("unreadable", {"why": "no-file", "name": name[:200]})
