"""Docker: which GPUs a container gets, what they are called inside, and which environment it starts with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..device_order import device_order
from ..frozen import FrozenDict
from ..mapping import Message, Step, message
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from . import variables
from .base import Outcome, View
from .containers_flag import Request, read_gpus
from .containers_images import NVIDIA_DRIVER_CAPABILITIES, NVIDIA_VISIBLE_DEVICES, environment_of
from .containers_requests import (
    CLI,
    COMPOSE,
    DAEMON,
    PRIVILEGED,
    TOOLKIT,
    Asked,
    gpus_asked,
    requests_of,
    select,
    step,
)


def left_over(view: View, topology: Topology) -> Step:
    """Which GPUs a container has, and how they are called."""
    left = view.left(topology)
    names = ", ".join(
        f"{topology.gpus[i].short_name} ({'?' if topology.gpus[i].nvml_index is None else topology.gpus[i].nvml_index})"
        for i in left[:8]
    )
    names += ", …" if len(left) > 8 else ""
    key = "step.container.left" if left else "step.container.none"
    return step(key, "NVIDIA/nvidia-docker issue 907, NVIDIA staff", view.certainty, gpus=names)


def apply_docker(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A container of Docker: the GPUs that it was given, numbered from 0, and an environment of its own."""
    if options.get("refused") in ("both", "capabilities", "ids"):
        return Outcome((), error=message(f"error.compose.{options['refused']}"))
    changes = environment_of(options, view.env)
    wrapped = {NVIDIA_VISIBLE_DEVICES: view.env["NV_GPU"].replace(" ", ",")} if _wrapped(view, options) else {}
    env = {**options.get("image_env", {}), **wrapped, **{n: v for n, v in changes.items() if v is not None}}
    env = {name: value for name, value in env.items() if changes.get(name, "") is not None}
    asked = gpus_asked(options, env)
    if isinstance(asked, Message):
        return Outcome((), error=asked)
    steps = list(_asked_how(options))
    if options.get("assumed"):
        view = view.doubted(Certainty.UNKNOWN)
        steps.append(step("step.dockerfile.assumed", CLI, Certainty.UNKNOWN))
    outer = view
    if options.get("daemon") == "host":
        view = replace(view, accessible=None, mig=FrozenDict(), served=None)
    elif view.accessible is not None:
        view = view.doubted(Certainty.LIKELY)
        steps.append(step("step.docker.inside", DAEMON, Certainty.LIKELY))
    if asked.names is None:
        said, inner = _without_request(view, options, env)
        steps += said
    else:
        chosen = select(view, asked, topology)
        if isinstance(chosen, Outcome):
            return chosen._replace(steps=(*steps, *chosen.steps))
        inner, more = chosen
        steps += more
    if asked.value is not None:
        env[NVIDIA_VISIBLE_DEVICES] = asked.value
    inner, said = more_nodes(inner, view, options, topology)
    steps += said
    steps.append(left_over(inner, topology))
    inner, said = _without_driver(inner, options, env, asked)
    steps += said
    steps += kept_out(outer.env, env)
    return contain(inner, env, steps, options)


def _wrapped(view: View, options: Mapping[str, Any]) -> bool:
    """Whether nvidia-docker 2 turns NV_GPU into a variable of the container."""
    return bool(options.get("nv_gpu")) and bool(view.env.get("NV_GPU"))


def contain(view: View, env: Mapping[str, str], steps: Iterable[Step], options: Mapping[str, Any]) -> Outcome:
    """What starts in a container, with its environment and with doubts about what nobody told."""
    said = list(steps)
    unknown = tuple(options.get("unknown", ()))
    outcome = variables.apply(view, {"clear": True, "set": FrozenDict(env), "unknown": unknown}, Topology())
    inner = replace(outcome.views[0], chosen=None)
    for path in options.get("missing", ()):
        said.append(step("step.container.file", "docker/cli opts, read", Certainty.UNKNOWN, path=variables.clip(path)))
        inner = inner.doubted(Certainty.UNKNOWN)
    return Outcome((inner,), (*said, *outcome.steps))


def _asked_how(options: Mapping[str, Any]) -> Iterator[Step]:
    """What the command line or the Compose file asks the daemon for."""
    for value in options.get("gpus", ()):
        request = read_gpus(value)
        if isinstance(request, Request):
            fields = {"value": variables.clip(value), "count": request.number, "ids": ", ".join(request.ids)}
            yield step(f"step.docker.{_how(request)}", CLI, **fields)
            numbers = [field for field in value.split(",") if field.isdigit()]
            if request.ids and numbers and '"' not in value:
                yield step("step.docker.unquoted", CLI, **{**fields, "number": numbers[-1]})
            elif len(numbers) > 1 and not request.ids:
                yield step("step.docker.count-list", CLI, **fields)
    for row in options.get("requests", ()):
        request = Request(row.get("count", 0), tuple(row.get("ids", ())))
        yield step(f"step.compose.{_how(request)}", COMPOSE, count=request.number, ids=", ".join(request.ids))
    cdi = ", ".join(name for name in options.get("devices", ()) if name.startswith("nvidia.com/gpu="))
    if cdi:
        yield step("step.docker.cdi", CLI, names=variables.clip(cdi))


def _how(request: Request) -> str:
    return "ids" if request.ids else "all" if request.number < 0 else "count" if request.number else "zero"


def _without_request(view: View, options: Mapping[str, Any], env: Mapping[str, str]) -> tuple[list[Step], View]:
    """Nothing asks for GPUs: none is there, unless the container is privileged or has their nodes."""
    said = [step("step.docker.no-gpus", DAEMON)]
    certainty = Certainty.CERTAIN
    if NVIDIA_VISIBLE_DEVICES in env and options.get("runtime") is None:
        said.append(step("step.docker.variable-alone", TOOLKIT, Certainty.LIKELY, value=env[NVIDIA_VISIBLE_DEVICES]))
        certainty = Certainty.LIKELY
    elif options.get("runtime") is None and (options.get("gpus") or "image_env" not in options):
        certainty = Certainty.LIKELY  # the daemon may have nvidia as its default runtime, and the image its own list
        said.append(step("step.docker.default-runtime", "NVIDIA/nvidia-docker issue 1506", Certainty.LIKELY))
    return said, view.narrowed(()).doubted(certainty)


def more_nodes(inner: View, outer: View, options: Mapping[str, Any], topology: Topology) -> tuple[View, list[Step]]:
    """Device nodes that come without NVIDIA's tools: all of them where privileged, and those of ``--device``."""
    if options.get("privileged"):
        every = replace(inner, accessible=outer.accessible, mig=outer.mig).doubted(Certainty.LIKELY)
        return every, [step("step.container.privileged", PRIVILEGED, Certainty.LIKELY)]
    nodes = [name.split(":")[0] for name in options.get("devices", ()) if name.startswith("/dev/nvidia")]
    minors = [int(text) for node in nodes if (text := node.removeprefix("/dev/nvidia")).isdigit()]
    if not minors:
        return inner, []
    gpus, left = topology.gpus, outer.left(topology)
    told = all(gpus[i].minor_number is not None for i in left)
    by_minor = {gpus[i].minor_number if told else gpus[i].nvml_index: i for i in left}
    missing = next((minor for minor in minors if minor not in by_minor), None)
    found = [by_minor[minor] for minor in minors if minor in by_minor]
    certainty = Certainty.UNKNOWN if missing is not None or not told else Certainty.LIKELY
    more = inner.narrowed((*inner.left(topology), *found)).doubted(certainty)
    return more, [step("step.container.nodes", "nvml.h, minor number", certainty, nodes=", ".join(map(str, minors)))]


def _without_driver(
    view: View, options: Mapping[str, Any], env: Mapping[str, str], asked: Asked
) -> tuple[View, list[Step]]:
    """Driver capabilities without ``compute`` leave libcuda out, on the legacy path."""
    requests = requests_of(options)
    named_caps = [set(r.capabilities) - {"gpu", "nvidia"} for r in requests] if isinstance(requests, list) else []
    asked_for = set().union(*named_caps) if named_caps else set()
    text = env.get(NVIDIA_DRIVER_CAPABILITIES, "")
    wanted = asked_for or {entry.strip() for entry in text.split(",") if entry.strip()}
    if asked.path != "legacy" or not asked.names or not wanted or wanted & {"compute", "all"}:
        return view, []
    said = step("step.container.no-compute", TOOLKIT, Certainty.LIKELY, capabilities=",".join(sorted(wanted)))
    return view.narrowed(()).doubted(Certainty.LIKELY), [said]


def kept_out(outer: Mapping[str, str], inner: Mapping[str, str]) -> list[Step]:
    """The variables of the shell that people expect inside."""
    names = [n for n in (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER) if n in outer and n not in inner]
    return [step("step.container.kept-out", CLI, name=n, value=variables.clip(outer[n])) for n in names]


def believed_docker(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: ``device=N`` counts as the host's CUDA does, and the list's order is the order inside."""
    requests = requests_of(options)
    outcome = apply_docker(view, options, topology)
    if isinstance(requests, Message) or not outcome.views:
        return outcome
    order = device_order(topology, view.env.get(CUDA_DEVICE_ORDER), view.accessible).places
    ids = [one for request in requests for one in request.ids if one.isascii() and one.isdigit() and len(one) < 5]
    taken = tuple(dict.fromkeys(order[int(one)] for one in ids if int(one) < len(order)))
    if not taken:
        return outcome
    inner = replace(outcome.views[0].narrowed(taken), served=taken)
    return outcome._replace(views=(inner,))


def docker(gpus: str | Iterable[str] = (), **options: Any) -> Layer:
    """``docker run``: a container of Docker, or of what behaves like it.

    ``gpus``: values of ``--gpus`` as the CLI gets them, ``'"device=0,2"'``. ``devices``: of ``--device``. ``runtime``:
    ``nvidia``. ``set``, ``inherit``: of ``-e``. ``image_env``: ENV of the image. ``privileged``. ``toolkit``:
    ``legacy``, ``cdi`` or a version of NVIDIA's container toolkit; ``docker``: a version. ``daemon``: ``host`` where
    the daemon does not run in what is left.
    """
    given = (gpus,) if isinstance(gpus, str) else tuple(gpus)
    return Layer("docker", {**({"gpus": given} if given else {}), **{k: v for k, v in options.items() if v}})
