"""Podman and nerdctl: containers that get their GPUs by CDI names; and commands in a container that runs already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Message, Step, message
from ..scenario import Layer
from ..topology import Topology
from . import variables
from .base import Outcome, View
from .containers import apply_docker, contain, docker, kept_out, left_over, more_nodes
from .containers_flag import Refused, read_fields
from .containers_images import NVIDIA_VISIBLE_DEVICES, environment_of
from .containers_requests import TOOLKIT, Asked, at_least, by_variable, select, step

PODMAN = "containers/podman libpod/util.go and docs/source/markdown/options, read at c6580b4"
NERDCTL = "containerd/nerdctl pkg/cmd/container/run_gpus.go and docs/gpu.md, read at v2.3"
_NERDCTL_CDI_SINCE = (2, 3)
_GPUS_SINCE, _CDI_SINCE = (5, 0), (4, 1)
_IGNORED = "NVIDIA/nvidia-container-runtime issue 190, NVIDIA staff; podman issue 19330"
_KIND = "nvidia.com/gpu="


def apply_podman(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A container of Podman: ``--gpus X`` is the CDI device ``nvidia.com/gpu=X``, so a number is NVML's, no count."""
    steps: list[Step] = []
    if options.get("gpus") and at_least(options.get("podman"), _GPUS_SINCE) is False:
        options, view = {**options, "gpus": ()}, view.doubted(Certainty.LIKELY)
        steps.append(step("step.podman.ignored", _IGNORED, Certainty.LIKELY))
    asked = _cdi_names(options)
    if isinstance(asked, Message):
        return Outcome((), error=asked)
    if asked.names and at_least(options.get("podman"), _CDI_SINCE) is False:
        return Outcome((), error=message("error.podman.no-cdi"), certainty=Certainty.LIKELY)
    env = _environment(options, view.env)
    if asked.names is None and options.get("toolkit") == "legacy":
        asked = by_variable({**options, "toolkit": "legacy"}, env)
    for value in options.get("gpus", ()):
        steps.append(step("step.podman.gpus", PODMAN, value=variables.clip(value)))
    inside = view
    if view.accessible is not None:
        inside = view.doubted(Certainty.LIKELY)
        steps.append(step("step.podman.inside", PODMAN, Certainty.LIKELY))
    if asked.names is None:
        steps.append(step("step.podman.no-gpus", PODMAN))
        inner = inside.narrowed(())
    else:
        chosen = select(inside, asked, topology)
        if isinstance(chosen, Outcome):
            return chosen._replace(steps=(*steps, *chosen.steps))
        inner, said = chosen
        steps += said
    if asked.value is not None:
        env[NVIDIA_VISIBLE_DEVICES] = asked.value
    inner, more = more_nodes(inner, inside, options, topology)
    return contain(inner, env, [*steps, *more, left_over(inner, topology), *kept_out(view.env, env)], options)


def _environment(options: Mapping[str, Any], host: Mapping[str, str]) -> dict[str, str]:
    """ENV of the image, less what is unset, plus the host's where asked for, plus the command line's."""
    image = {} if options.get("unset_all") else dict(options.get("image_env", {}))
    env = {name: value for name, value in image.items() if name not in options.get("unset", ())}
    env |= host if options.get("env_host") else {}
    return env | {name: value for name, value in environment_of(options, host).items() if value is not None}


def _cdi_names(options: Mapping[str, Any]) -> Asked | Message:
    names = [name for name in options.get("devices", ()) if not name.startswith("/")]
    for value in options.get("gpus", ()):
        fields = read_fields(value)
        if isinstance(fields, Refused):
            return message("error.podman.flag", value=variables.clip(value), why=fields.why)
        names += [_KIND + field for field in fields]
    if not names:
        return Asked(None)
    foreign = next((name for name in names if not name.startswith(_KIND)), None)
    if foreign is not None:
        return message("error.podman.cdi", name=foreign)
    return Asked(tuple(dict.fromkeys(name.removeprefix(_KIND) for name in names)), "cdi", value="void")


def believed_podman(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: ``--gpus`` means what it means to Docker."""
    return apply_docker(view, options, topology)


def podman(gpus: str = "", *, devices: tuple[str, ...] = (), **options: Any) -> Layer:
    """``podman run``: ``gpus`` of ``--gpus``, ``devices`` of ``--device``; the other options are those of `docker`."""
    return Layer("podman", docker(gpus or (), devices=tuple(devices), **options).options)


def apply_nerdctl(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A container of nerdctl: Docker's ``--gpus``, by CDI since 2.3 and by nvidia-container-cli before."""
    older = at_least(options.get("nerdctl"), _NERDCTL_CDI_SINCE) is False
    toolkit = options.get("toolkit") or ("legacy" if older else "cdi")
    return apply_docker(view, {**options, "toolkit": toolkit, "image_env": options.get("image_env", {})}, topology)


def nerdctl(gpus: str = "", **options: Any) -> Layer:
    """``nerdctl run``: the options are those of `docker`; ``nerdctl``: its version."""
    return Layer("nerdctl", docker(gpus or (), **options).options)


def apply_exec(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A command in a container that runs already: its GPUs and its ENV, plus what the command line sets."""
    steps = [step("step.docker.exec", TOOLKIT)]
    started = options.get("container")
    if started is None:
        steps.append(step("step.docker.exec-unknown", TOOLKIT, Certainty.UNKNOWN))
        inner, env = view.doubted(Certainty.UNKNOWN), dict[str, str]()
    else:
        apply = {"podman": apply_podman, "nerdctl": apply_nerdctl}.get(options.get("tool", ""), apply_docker)
        outcome = apply(view, started, topology)
        if not outcome.views:
            return outcome._replace(steps=(*steps, *outcome.steps))
        steps += outcome.steps
        inner, env = outcome.views[0], dict(outcome.views[0].env)
    for name, value in environment_of(options, view.env).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return contain(replace(inner, env=view.env), env, steps, options)


def docker_exec(container: Layer | None = None, **options: Any) -> Layer:
    """``docker exec`` into a container that another layer (`docker`, `podman`) started; None where it is not known."""
    known = {"container": container.options, "tool": container.kind} if container else {}
    return Layer("docker-exec", {**known, **options})
