"""What comes into a container beside GPUs: variables of its image, of the command line, of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..scenario import is_relevant
from .words import Word, fill

NVIDIA_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NVIDIA_DRIVER_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_NAME = re.compile(r"[^\s=\0]+\Z")
_OF_NVIDIA = re.compile(r"(?:docker\.io/)?nvidia/|nvcr\.io/nvidia/", re.ASCII)
"""Images whose ENV sets NVIDIA_VISIBLE_DEVICES=all (NVIDIA Container Toolkit documentation, GPU enumeration)."""


ENTRYPOINTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "vllm/vllm-openai": (("vllm", "serve"), ()),
    "ollama/ollama": (("ollama",), ("serve",)),
    "ghcr.io/ggml-org/llama.cpp:server": (("llama-server",), ()),
}
"""Image → ENTRYPOINT and CMD, for images that people run by their arguments alone (their Dockerfiles, as quoted in
public ones built on them)."""


def entrypoint_of(image: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an image that is known starts; ((), ()) for any other."""
    name = image.removeprefix("docker.io/")
    return next(
        (started for known, started in ENTRYPOINTS.items() if re.match(rf"{re.escape(known)}(?:[:@-]|\Z)", name)),
        ((), ()),
    )


def matters(name: str) -> bool:
    """Whether a variable is worth keeping: it can touch GPUs, or nearly has the name of one that can."""
    plain = name.upper().replace("-", "_")
    return is_relevant(name) or "CUDA" in plain or "NVIDIA" in plain or "VISIBLE" in plain


def nvidia_image(image: str) -> bool:
    """Whether an image is known to set NVIDIA_VISIBLE_DEVICES=all."""
    return _OF_NVIDIA.match(image) is not None


class Given(NamedTuple):
    """Variables that a command line gives a container, as options of a layer."""

    set: Mapping[str, str]
    expand: Mapping[str, str]
    """Values that name variables of the process that starts the container."""
    inherit: tuple[str, ...]
    """Names whose values that process has; where it has none, the image's own is taken away."""
    adopt: tuple[str, ...]
    """The same, but the image's own stays."""
    unknown: tuple[str, ...]
    """Names whose values only a shell could work out."""
    missing: tuple[str, ...]
    """Files that were not given."""

    def options(self) -> dict[str, Any]:
        """As options of a layer: only what there is."""
        return {key: value for key, value in self._asdict().items() if value}


def given(env: Iterable[Word], files: Iterable[Word], assume: Mapping[str, Any], *, glob: bool = False) -> Given:
    """Variables of ``-e`` and ``--env-file``: files first, the last one wins (docker/cli opts, run).

    ``glob``: ``NAME*`` takes every variable that begins so (Podman).
    """
    how: dict[str, tuple[str, str]] = {}
    missing: list[str] = []
    contents = assume.get("files")
    for word in files:
        text = contents.get(word.text) if isinstance(contents, Mapping) else None
        if isinstance(text, str):
            how.update(env_file(text))
        else:
            missing.append(word.text)
    for word in env:
        name, equals, value = word.text.partition("=")
        if not _NAME.match(name):
            continue
        how.pop(name, None)
        kind = "unknown" if word.unknown else "expand" if word.open else "set"
        how[name] = (kind, value) if equals else ("adopt" if glob else "inherit", "")
    kept = {name: row for name, row in how.items() if matters(name) or name.endswith("*")}

    def of(kind: str) -> dict[str, str]:
        return {name: value for name, (row, value) in kept.items() if row == kind}

    return Given(
        of("set"), of("expand"), tuple(of("inherit")), tuple(of("adopt")), tuple(of("unknown")), tuple(missing)
    )


def env_file(text: str) -> dict[str, tuple[str, str]]:
    """Name → ("set", value) or ("adopt", "") by the lines of a file for ``--env-file`` (docker/cli pkg/kvfile).

    Values are taken as they are, quotes and trailing blanks included: so docker 28.2.2, run. Lines that the CLI would
    refuse are left out.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in text.removeprefix("\ufeff").split("\n"):
        plain = line.removesuffix("\r").lstrip()
        name, equals, value = plain.partition("=")
        if plain.startswith("#") or not _NAME.match(name):
            continue
        found.pop(name, None)
        found[name] = ("set", value) if equals else ("adopt", "")
    return found


def facts(assume: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Facts from outside that are one word or a version, under the names that options have."""
    held = {option: assume.get(fact) for fact, option in names.items()}
    return {option: str(value) for option, value in held.items() if isinstance(value, str | int | float) and str(value)}


def image_env(assume: Mapping[str, Any]) -> dict[str, str] | None:
    """ENV of the image as a fact from outside; None where it is not known."""
    held = assume.get("image_env")
    if not isinstance(held, Mapping):
        return None
    return {str(name): value for name, value in held.items() if isinstance(value, str) and matters(str(name))}


def environment_of(options: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str | None]:
    """Changes to the image's ENV that a command line makes, with the variables of the process that starts it."""
    out: dict[str, str | None] = {name: env.get(name) for name in options.get("inherit", ())}
    for name in options.get("adopt", ()):
        if name.endswith("*"):
            out.update({one: value for one, value in env.items() if one.startswith(name[:-1])})
        elif name in env:
            out[name] = env[name]
    out.update(options.get("set", {}))
    out.update({name: fill(text, env) for name, text in options.get("expand", {}).items()})
    return out
