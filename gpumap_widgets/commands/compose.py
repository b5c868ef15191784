"""Compose files, read into layers: every service is a container of Docker; several are jobs side by side.

Source: compose-spec, deploy.md and 05-services.md; docker/compose v5.5 hands device_ids on as they are (read).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ..layers.containers_images import env_file, facts, image_env, matters
from ..layers.words import Word
from ..scenario import Layer
from .dockerfile import image_of
from .documents import at, body, documents, listing, mapping, substitute, text_of
from .recognise import Job, program, side_by_side
from .shell import Unreadable

_LOOKS = re.compile(r"^[\"']?services[\"']?[ \t]*:[ \t]*(?:#.*)?$", re.MULTILINE)
_VARIABLE = re.compile(
    r"\$(?:\$|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<word>[^{}]*))?\})", re.ASCII
)
_FACTS = {"toolkit": "toolkit", "docker": "docker", "docker_daemon": "daemon"}


def looks_like(text: str) -> bool:
    """Whether a text is a Compose file."""
    return _LOOKS.search(text) is not None


def read(text: str, env: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers of a Compose file; ``${NAME}`` in it is filled in from the shell and from ``.env``. Raises
    `shell.Unreadable`.
    """
    return side_by_side(services([body(text)], env, assume))


def services(
    texts: Iterable[str],
    env: Mapping[str, str],
    assume: Mapping[str, Any],
    wanted: Iterable[str] = (),
    command: tuple[str, ...] = (),
) -> list[Job]:
    """The services of some files, later ones over earlier ones; only those ``wanted`` where any are named.

    ``command``: what runs instead of the service's own (``docker compose run``). Raises `shell.Unreadable`.
    """
    project: dict[str, Any] = {}
    for text in texts:
        found = documents(text)
        project = _merged(project, mapping(found[0]) if found else {})
    files = mapping(assume.get("files"))
    dotenv = _env_text(files[".env"]) if isinstance(files.get(".env"), str) else {}
    shell = {**{name: value or "" for name, value in dotenv.items()}, **env}
    names = set(wanted)
    jobs: list[Job] = []
    for name, service in mapping(project.get("services")).items():
        one = mapping(_filled(service, shell))
        if names and name not in names:
            continue
        if not names and listing(one.get("profiles")):
            continue  # started only where its profile is
        if command:
            one["command"] = list(command)
        jobs.append((name, _service(one, shell, assume)))
    if not jobs:
        raise Unreadable("yaml-no-container", 0)
    return jobs


_REPLACED = frozenset({"command", "entrypoint"})


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One file over another: mappings are merged, lists are added, a command is replaced (compose-spec, 13-merge.md)."""
    out = dict(under)
    for key, value in over.items():
        held = out.get(key)
        if key == "environment":
            held, value = _as_mapping(held), _as_mapping(value)  # noqa: PLW2901 - two forms of the same
        if isinstance(held, dict) and isinstance(value, dict):
            out[key] = _merged(held, value)
        elif isinstance(held, list) and isinstance(value, list) and key not in _REPLACED:
            out[key] = [*held, *value]
        else:
            out[key] = value
    return out


def _as_mapping(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    pairs = [(text_of(one) or "").partition("=") for one in value]
    return {name: given if equals else None for name, equals, given in pairs}


def _service(service: Mapping[str, Any], shell: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    files = mapping(assume.get("files"))
    built = service.get("build")
    path = (text_of(at(built, "dockerfile")) if isinstance(built, dict) else None) or "Dockerfile"
    image = image_of(files[path]) if built is not None and isinstance(files.get(path), str) else None
    known = image_env(assume) if image is None else {n: v for n, v in image.env.items() if matters(n)}
    runtime = text_of(service.get("runtime")) or assume.get("runtime")
    requests, refused = _requests(service)
    options: dict[str, Any] = {
        "requests": requests,
        "refused": refused,
        "devices": [text for one in listing(service.get("devices")) if (text := _device(one)) is not None],
        "runtime": runtime if isinstance(runtime, str) else "",
        "privileged": service.get("privileged") is True,
        "image": text_of(service.get("image")) or "",
        **_environment(service, shell, files),
        **facts(assume, _FACTS),
    }
    kept = {key: value for key, value in options.items() if value}
    if known is not None:
        kept["image_env"] = known
    entry = (
        _command(service.get("entrypoint"))
        if service.get("entrypoint") is not None
        else (image.entrypoint if image else ())
    )
    command = (
        _command(service.get("command")) if service.get("command") is not None else (image.command if image else ())
    )
    words = tuple(map(Word, (*entry, *command)))
    return (Layer("docker", kept), *(program(words, assume) or ()))


def _requests(service: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """``gpus`` and ``deploy.resources.reservations.devices`` as device requests, and why Compose refuses one; no count
    and no ids is all (compose-go, transform and schema).
    """
    gpus = service.get("gpus")
    rows: list[Any] = [{"count": gpus}] if isinstance(gpus, str) else listing(gpus)
    rows = [{"capabilities": ["gpu"], **mapping(row)} for row in rows]
    rows += listing(at(service, "deploy", "resources", "reservations", "devices"))
    out, refused = [], None
    for row in map(mapping, rows):
        ids, count = listing(row.get("device_ids")), row.get("count")
        if "count" in row and "device_ids" in row:
            refused = "both"
        elif "capabilities" not in row:
            refused = "capabilities"
        elif any(not isinstance(one, str) for one in ids):
            refused = "ids"
        number = -1 if count == "all" or ("count" not in row and not ids) else _whole(count)
        capabilities = [str(one) for one in listing(row.get("capabilities"))]
        driver = text_of(row.get("driver")) or ""
        out.append({"driver": driver, "count": number, "ids": [str(one) for one in ids], "capabilities": capabilities})
    return out, refused


def _whole(value: Any) -> int:
    text = text_of(value) or "0"
    return int(text) if re.fullmatch(r"[-+]?[0-9]{1,9}", text, re.ASCII) else 0


def _device(one: Any) -> str | None:
    """An entry of ``devices``: a text, or a mapping with ``source``."""
    text = text_of(one) if not isinstance(one, dict) else text_of(one.get("source"))
    return text if text is not None and ("nvidia" in text or "=" in text) else None


def _environment(service: Mapping[str, Any], shell: Mapping[str, str], files: Mapping[str, Any]) -> dict[str, Any]:
    """``env_file``, then ``environment`` in its two forms over it; a name alone takes the shell's value."""
    held: dict[str, str | None] = {}
    missing = []
    given = service.get("env_file")
    for one in given if isinstance(given, list) else [given] if given is not None else []:
        path = text_of(one if not isinstance(one, dict) else one.get("path")) or ""
        if isinstance(files.get(path), str):
            held |= _env_text(files[path])
        elif not (isinstance(one, dict) and one.get("required") is False):
            missing.append(path)
    own = service.get("environment")
    if isinstance(own, dict):
        held |= {str(key): text_of(value) for key, value in own.items()}
    for one in listing(own):
        key, equals, value = (text_of(one) or "").partition("=")
        held[key] = value if equals else None
    kept = {name: shell.get(name) if value is None else value for name, value in held.items() if name and matters(name)}
    return {"set": {name: value for name, value in kept.items() if value is not None}, "missing": missing}


def _env_text(text: str) -> dict[str, str | None]:
    """A file of variables as Compose reads it: quotes around a value are taken off, a comment behind it too."""
    out: dict[str, str | None] = {}
    for name, (how, value) in env_file(text).items():
        plain = value.strip()
        if len(plain) > 1 and plain[0] in "'\"" and (end := plain.find(plain[0], 1)) > 0:
            plain = plain[1:end]
        else:
            plain = re.split(r"\s#", plain, maxsplit=1)[0].strip()
        out[name.removeprefix("export").strip() or name] = plain if how == "set" else None
    return out


def _filled(value: Any, shell: Mapping[str, str]) -> Any:
    """``${NAME}``, ``${NAME:-default}`` and ``$$`` in every text; an unset one becomes nothing."""
    if isinstance(value, str):
        return substitute(_VARIABLE, lambda found: _one(found, shell), value)
    if isinstance(value, dict):
        return {key: _filled(inner, shell) for key, inner in value.items()}
    return [_filled(inner, shell) for inner in value] if isinstance(value, list) else value


def _one(found: re.Match[str], shell: Mapping[str, str]) -> str:
    name, how = found["name"] or found["braced"], found["how"] or ""
    if name is None:
        return "$"
    value = shell.get(name)
    there = bool(value) if how.startswith(":") else value is not None
    if how.endswith("+"):
        return found["word"] if there else ""
    return (value or "") if there or not how.endswith("-") else found["word"]


def _command(value: Any) -> tuple[str, ...]:
    """A command as a list, or as one text that is split as a shell splits it."""
    if isinstance(value, list):
        return tuple(text for one in value if (text := text_of(one)) is not None)
    try:
        return tuple(shlex.split(text_of(value) or ""))
    except ValueError:
        return ()
