"""Dockerfiles, read into layers: the image's ENV, and what it starts. How it is run a Dockerfile does not tell.

Source: docs.docker.com, Dockerfile reference: ENV, ARG, ENTRYPOINT, CMD, escape, here-documents.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..layers.containers_images import facts, matters
from ..layers.words import Word
from ..scenario import Layer
from .documents import substitute
from .recognise import program

_LOOKS = re.compile(
    r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:ARG[ \t]+[^\n]*\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*)*FROM[ \t]+\S", re.IGNORECASE
)
_VARIABLE = re.compile(
    r"\\\$|\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:[-+])(?P<word>[^{}]*))?\})", re.ASCII
)
_HERE = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1", re.ASCII)
_PAIR = re.compile(r"[^\s=]+=", re.ASCII)


class Image(NamedTuple):
    """What an image sets and starts."""

    env: Mapping[str, str] = {}
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    base: str = ""
    """The image that it is made from."""


def looks_like(text: str) -> bool:
    """Whether a text is a Dockerfile."""
    return _LOOKS.match(text) is not None


def read(text: str, _: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    """A container of this image, run with ``assume["gpus"]``, or with ``--gpus all`` where that is not told."""
    image = image_of(text)
    gpus = assume.get("gpus")
    options: dict[str, Any] = {
        "gpus": [gpus if isinstance(gpus, str) else "all"],
        "assumed": not isinstance(gpus, str),
        "image_env": {name: value for name, value in image.env.items() if matters(name)},
        **facts(assume, {key: key for key in ("toolkit", "docker", "runtime")}),
    }
    words = tuple(map(Word, (*image.entrypoint, *image.command)))
    return (
        Layer("docker", {key: value for key, value in options.items() if value or key == "image_env"}),
        *(program(words, assume) or ()),
    )


def image_of(text: str) -> Image:
    """What the last stage of a Dockerfile sets: its ENV, ENTRYPOINT and CMD. Raises `shell.Unreadable` for
    variables that grow beyond measure, and for nothing else.
    """
    env: dict[str, str] = {}
    arguments: dict[str, str] = {}
    stages: dict[str, Image] = {}
    image, name = Image(), ""
    for keyword, rest in _instructions(text):
        known = {**arguments, **env}
        if keyword == "FROM":
            stages[name] = image._replace(env=dict(env))
            words = _filled(rest, arguments).split()
            plain = [word for word in words if not word.startswith("--")]
            base = plain[0] if plain else ""
            image = stages.get(base.lower(), Image())._replace(base=base)
            env = dict(image.env)
            name = plain[2].lower() if len(plain) > 2 and plain[1].lower() == "as" else ""
        elif keyword == "ENV":
            env |= _pairs(rest, known)
        elif keyword == "ARG":
            argument, equals, value = rest.partition("=")
            if equals:
                arguments[argument.strip()] = _unquoted(_filled(value.strip(), known))
        elif keyword == "ENTRYPOINT":
            image = image._replace(entrypoint=_exec(rest), command=())
        elif keyword == "CMD":
            image = image._replace(command=_exec(rest))
    return image._replace(env=env)


def _instructions(text: str) -> list[tuple[str, str]]:
    """Keyword and rest of every instruction; continued lines joined, comments and here-documents left out."""
    escape = "`" if re.match(r"(?:#[^\n]*\n)*?#\s*escape\s*=\s*`", text, re.IGNORECASE) else "\\"
    out: list[tuple[str, str]] = []
    pending, here = "", list[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        if here:
            if line.strip() == here[0]:
                here.pop(0)
            continue
        if line.lstrip().startswith("#") or (pending and not line.strip()):
            continue
        joined = pending + line
        if joined.rstrip().endswith(escape):
            pending = joined.rstrip().removesuffix(escape)
            continue
        pending = ""
        keyword, _, rest = joined.strip().partition(" ")
        if keyword.upper() in ("RUN", "COPY", "ADD"):
            here = [found[2] for found in _HERE.finditer(rest)]
        elif keyword:
            out.append((keyword.upper(), rest.strip()))
    return out


def _pairs(rest: str, known: Mapping[str, str]) -> dict[str, str]:
    """``NAME=value NAME2="a b"`` or the old ``NAME value``."""
    if not _PAIR.match(rest):
        name, _, value = rest.partition(" ")
        return {name: _unquoted(_filled(value.strip(), known))} if name else {}
    try:
        words = shlex.split(_filled(rest, known), comments=False)
    except ValueError:
        return {}
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _filled(text: str, known: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        name = found["name"] or found["braced"]
        if name is None:
            return found[0]
        value = known.get(name)
        if found["how"] == ":+":
            return found["word"] if value else ""
        return value or (found["word"] if found["how"] == ":-" else "")

    return substitute(_VARIABLE, one, text)


def _exec(rest: str) -> tuple[str, ...]:
    """The list form as it is; the text form goes through a shell."""
    if rest.startswith("["):
        try:
            value = json.loads(rest)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
    return ("/bin/sh", "-c", rest) if rest else ()
