"""Who asks for which GPUs of a container, and which ones NVIDIA's tools then put into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..certainty import Certainty, least
from ..frozen import FrozenDict
from ..mapping import Message, Step, message
from ..topology import Topology
from . import variables
from .base import Outcome, View
from .containers_devices import Named, named
from .containers_flag import Refused, Request, read_gpus
from .containers_images import NVIDIA_VISIBLE_DEVICES, nvidia_image

CLI = "docker/cli opts/gpus.go; docker 28.2.2, run against a daemon that recorded the request"
COMPOSE = "compose-spec deploy.md; compose-go transform; docker/compose v5.5, read"
DAEMON = "moby daemon/devices_nvidia_linux.go, read at v29.7 and before 29.2"
TOOLKIT = "NVIDIA/nvidia-container-toolkit v1.20 and libnvidia-container src/cli/common.c, read"
PRIVILEGED = "NVIDIA/nvidia-docker issue 764, NVIDIA staff; kubernetes/kubernetes issue 81256"
WSL = "NVIDIA/nvidia-container-toolkit issue 21, NVIDIA staff; docker/for-win issue 12677"
_CAPABILITIES = frozenset({"gpu", "nvidia", "compute", "compat32", "graphics", "utility", "video", "display"})
"""What the daemon's nvidia driver answers to."""
_JIT_SINCE = (1, 18)
_DAEMON_CDI_SINCE = (29, 2)


class Asked(NamedTuple):
    """What a container asks NVIDIA's tools for."""

    names: tuple[str, ...] | None
    """GPUs by any name, ``all`` among them; None where nothing asks."""
    path: str = "legacy"
    """How the names are read: a key of `containers_devices.PATHS`."""
    sure: bool = True
    """Whether the path is known; else both are tried, and a difference is a doubt."""
    fallback: bool = False
    """Whether the daemon tries the other path where this one fails."""
    value: str | None = None
    """NVIDIA_VISIBLE_DEVICES as the container has it; None where nothing sets it here."""
    certainty: Certainty = Certainty.CERTAIN
    steps: tuple[Step, ...] = ()


def step(key: str, source: str, certainty: Certainty = Certainty.CERTAIN, /, **fields: Any) -> Step:
    """A step of the stage ``container``."""
    return Step("container", Message, (key, FrozenDict(fields)), certainty, source)


def at_least(version: Any, wanted: Sequence[int]) -> bool | None:
    """Whether a version is that new; None for what is no version, or too short a one to tell."""
    parts = str(version or "").removeprefix("v").split(".")[: len(wanted)]
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    numbers = tuple(map(int, parts))
    if len(parts) < len(wanted) and numbers == tuple(wanted[: len(parts)]):
        return None
    return numbers >= tuple(wanted)


def requests_of(options: Mapping[str, Any]) -> list[Request] | Message:
    """The device requests: ``--gpus`` as typed, and those that Compose spells out; what the CLI refuses."""
    found: list[Request] = []
    for value in options.get("gpus", ()):
        request = read_gpus(value)
        if isinstance(request, Refused):
            return message("error.docker.flag", value=variables.clip(value), why=request.why)
        found.append(request)
    for row in options.get("requests", ()):
        caps = tuple(row.get("capabilities", ("gpu",)))
        found.append(Request(row.get("count", 0), tuple(row.get("ids", ())), row.get("driver", ""), caps))
    return found


def ids_of(request: Request) -> tuple[str, ...] | Message:
    """What the daemon makes of one request: names of GPUs, or what it answers instead."""
    capabilities = " ".join(request.capabilities)
    if request.driver not in ("", "nvidia", "cdi") or not set(request.capabilities) <= _CAPABILITIES:
        return message("error.docker.driver", driver=request.driver, capabilities=capabilities)
    if request.number != 0 and request.ids:
        return message("error.docker.both")
    if request.ids:
        return request.ids
    return ("all",) if request.number < 0 else tuple(map(str, range(min(request.number, MOST_GPUS))))


MOST_GPUS = 1024
"""Counts beyond this are no less unknown."""


def gpus_asked(options: Mapping[str, Any], env: Mapping[str, str]) -> Asked | Message:
    """Who asks for which GPUs: ``--gpus`` and ``--device`` by the daemon, the nvidia runtime by a variable."""
    requests = requests_of(options)
    if isinstance(requests, Message):
        return requests
    if options.get("unknown_gpus"):
        return Asked(
            ("all",), certainty=Certainty.UNKNOWN, steps=(step("step.docker.unknown", CLI, Certainty.UNKNOWN),)
        )
    nvidia = options.get("runtime") == "nvidia"
    names: list[tuple[str, ...]] = []
    cdi = [name for name in options.get("devices", ()) if not name.startswith("/")]
    for request in requests:
        ids = ids_of(request)
        if isinstance(ids, Message):
            return ids
        if request.driver == "cdi":
            cdi += ids
        elif ids:
            names.append(ids)
    foreign = next((name for name in cdi if not name.startswith("nvidia.com/gpu=")), None)
    if foreign is not None:
        return message("error.docker.cdi-name" if "=" in foreign else "error.docker.device", name=foreign)
    if cdi:
        listed = tuple(name.partition("=")[2] for name in cdi) + tuple(one for ids in names for one in ids)
        return Asked(tuple(dict.fromkeys(listed)), "cdi", value="void", certainty=Certainty.CERTAIN)
    if names:
        path, sure, fallback = _daemon_path(options, nvidia=nvidia)
        if path == "cdi":
            return Asked(tuple(one for ids in names for one in ids), path, sure, fallback, "void")
        certainty = Certainty.CERTAIN if len(names) == 1 else Certainty.LIKELY  # the last variable wins
        return Asked(names[-1], path, sure, value=",".join(names[-1]), certainty=certainty)
    if nvidia:
        return by_variable(options, env)
    return Asked(None)


def _daemon_path(options: Mapping[str, Any], *, nvidia: bool) -> tuple[str, bool, bool]:
    """How a request of the daemon gets into the container, whether that is known, and whether it tries the other."""
    toolkit, newer = options.get("toolkit"), at_least(options.get("docker"), _DAEMON_CDI_SINCE)
    if toolkit in PATH_NAMES:
        return toolkit, True, False
    jit = nvidia and at_least(toolkit, _JIT_SINCE)
    if jit or newer:
        return "cdi", bool(jit), not jit
    return "legacy", newer is False and jit is False, False


def by_variable(options: Mapping[str, Any], env: Mapping[str, str]) -> Asked:
    """NVIDIA_VISIBLE_DEVICES, as the nvidia runtime reads it."""
    value, image = env.get(NVIDIA_VISIBLE_DEVICES), options.get("image_env")
    certainty, said = Certainty.CERTAIN, "step.container.variable"
    if value is None and image is None:
        certainty = Certainty.LIKELY if nvidia_image(options.get("image", "")) else Certainty.UNKNOWN
        value, said = "all", "step.container.image-all"
    elif value is None:
        old = bool(env.get("CUDA_VERSION")) and not env.get("NVIDIA_REQUIRE_CUDA")
        value, said = ("all", "step.container.old-image") if old else ("", "step.container.variable-unset")
    entries = tuple(entry.strip() for entry in value.split(",") if entry.strip())
    toolkit = options.get("toolkit")
    newer = at_least(toolkit, _JIT_SINCE)
    path = toolkit if toolkit in PATH_NAMES else "legacy" if newer is False else "cdi"
    sure = toolkit in PATH_NAMES or newer is not None
    steps = (step(said, TOOLKIT, certainty, value=variables.clip(value)),)
    if not entries or "void" in entries or "none" in entries:
        return Asked((), path, sure, value=value, certainty=certainty, steps=steps)
    shown = "void" if path == "cdi" else value
    return Asked(entries, path, sure, value=shown, certainty=certainty, steps=steps)


PATH_NAMES = ("legacy", "cdi")


def select(view: View, asked: Asked, topology: Topology) -> tuple[View, tuple[Step, ...]] | Outcome:
    """The view with the GPUs that were asked for, and what is worth saying; an outcome where the runtime refuses."""
    assert asked.names is not None
    found = named(asked.names, asked.path, view, topology)
    other_path = next(path for path in PATH_NAMES if path != asked.path)
    other = found if asked.sure else named(asked.names, other_path, view, topology)
    differ = not found.same_gpus(other)
    if found.unknown is not None and asked.fallback:
        found, other = other, found
    steps = list(asked.steps)
    certainty = asked.certainty
    if differ:
        certainty = least((certainty, Certainty.LIKELY))
        steps.append(_paths_differ(other, other_path))
    if found.unknown is not None:
        error = message(f"error.container.unknown-{asked.path}", name=found.unknown)
        return Outcome((), tuple(steps), error=error, certainty=certainty)
    if asked.path == "cdi" and not found.positions and asked.names:
        certainty = least((certainty, Certainty.LIKELY))
        steps.append(step("step.container.cdi-repeat", TOOLKIT, Certainty.LIKELY))
    if () in found.mig.values():
        sure = Certainty.LIKELY if asked.path == "legacy" else Certainty.UNKNOWN
        certainty = least((certainty, sure))
        steps.append(step("step.container.mig-whole", TOOLKIT, sure))
    if topology.platform != "linux" and asked.names:
        certainty = least((certainty, Certainty.LIKELY))
        steps.append(step("step.container.wsl", WSL, Certainty.LIKELY))
        return view.doubted(certainty), tuple(steps)
    if found.hidden:
        certainty = Certainty.UNKNOWN
        steps.append(step("step.container.not-shown", topology.source, Certainty.UNKNOWN))
    if any(topology.gpus[i].problem for i in view.left(topology)):
        certainty = Certainty.UNKNOWN
        steps.append(step("step.container.lost", "NVIDIA/nvidia-docker issue 1280", Certainty.UNKNOWN))
    kept = view.narrowed(found.positions, found.mig).doubted(certainty)
    return kept, tuple(steps)


def _paths_differ(other: Named, path: str) -> Step:
    key = "refuses" if other.unknown is not None else "others" if other.positions else "none"
    return step(f"step.container.path-{key}", TOOLKIT, Certainty.LIKELY, path=path, name=other.unknown or "")
