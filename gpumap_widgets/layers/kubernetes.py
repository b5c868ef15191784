"""Kubernetes: the GPUs that a device plugin gives a container of a pod, and the environment that it starts with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..certainty import Certainty, least
from ..frozen import FrozenDict
from ..mapping import Message, Step
from ..scenario import Layer
from ..topology import Topology
from . import variables
from .base import LayerRow, Outcome, View
from .containers import contain, left_over
from .containers_commands import problem as container_problem
from .containers_devices import Named, named
from .containers_images import NVIDIA_VISIBLE_DEVICES, nvidia_image
from .containers_requests import PRIVILEGED, step

PLUGIN = "NVIDIA/k8s-device-plugin v0.20, internal/plugin/server.go and internal/rm, read; README"
GKE = "GoogleCloudPlatform/container-engine-accelerators 992db81, pkg/gpu/nvidia/manager.go, read"
KUBELET = "kubernetes.io, Schedule GPUs; kubernetes/kubernetes pkg/kubelet/kubelet_pods.go, read"
_VOLUMES = "/var/run/nvidia-container-devices"
_MOST = 1024


class Given(NamedTuple):
    """What a plugin gave, and how sure that is."""

    devices: Named
    certainty: Certainty
    key: str
    """Sentence that says where it is from."""


def apply_kubernetes(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """One container of a pod. A container that asks for no GPU gets what its image asks for, by NVIDIA's own runtime."""
    env = {**options.get("image_env", {}), **options.get("set", {})}
    resource, count = options.get("resource", "nvidia.com/gpu"), options.get("count", 0)
    if options.get("refused"):
        return Outcome((), error=Message(f"error.kubernetes.{options['refused']}", FrozenDict({"resource": resource})))
    steps = [step("step.kubernetes.asks", KUBELET, count=count, resource=resource)] if count else []
    if options.get("replicas", 1) > 1:
        steps.append(step("step.kubernetes.replicas", KUBELET, replicas=options["replicas"]))
    if not count:
        inner, said = _unasked(view, options, env)
        steps += said
    else:
        given = _allocated(view, options, topology)
        if isinstance(given, Outcome):
            return given._replace(steps=(*steps, *given.steps))
        steps.append(step(given.key, PLUGIN, given.certainty))
        inner = view.narrowed(given.devices.positions, given.devices.mig).doubted(given.certainty)
        inner, value, how = _variable(inner, view, given.devices, options, topology)
        if value is not None:
            env[NVIDIA_VISIBLE_DEVICES] = value
        steps.append(how)
    if options.get("sharing"):
        steps.append(step(f"step.kubernetes.{options['sharing']}", PLUGIN))
    if options.get("privileged"):
        inner = replace(inner, accessible=view.accessible, mig=view.mig).doubted(Certainty.LIKELY)
        steps.append(step("step.container.privileged", PRIVILEGED, Certainty.LIKELY))
    steps.append(left_over(inner, topology))
    return contain(inner, env, steps, options)


def _unasked(view: View, options: Mapping[str, Any], env: Mapping[str, str]) -> tuple[View, list[Step]]:
    """No GPU is requested: nothing by the plugin, but the nvidia runtime still reads the image's variable."""
    closed = options.get("plugin") == "gke" or options.get("list_strategy", "envvar") != "envvar"
    value = env.get(NVIDIA_VISIBLE_DEVICES)
    if closed or options.get("accept_envvar") is False or (value is None and "image_env" in options):
        return view.narrowed(()), [step("step.kubernetes.none", PLUGIN)]
    if value is not None and value.strip() in ("", "none", "void"):
        return view.narrowed(()), [step("step.container.variable", PLUGIN, value=value)]
    sure = Certainty.LIKELY if value is not None or nvidia_image(options.get("image", "")) else Certainty.UNKNOWN
    return view.doubted(sure), [step("step.kubernetes.unasked", PLUGIN, sure)]


def _allocated(view: View, options: Mapping[str, Any], topology: Topology) -> Given | Outcome:
    """The devices behind a request: those that were told, all there are, or the first that are free."""
    count, resource = options.get("count", 0), options.get("resource", "nvidia.com/gpu")
    shared = bool(options.get("sharing"))
    told = options.get("allocated")
    if told is not None:
        devices = named(map(str, told), "legacy", view, topology)
        if devices.unknown is not None:
            return Outcome((), error=_refusal("unknown", name=devices.unknown, resource=resource))
        return Given(devices, Certainty.UNKNOWN if devices.hidden else Certainty.CERTAIN, "step.kubernetes.told")
    if shared and count > 1 and options.get("one_replica"):
        return Outcome((), error=_refusal("too-many", count=count, resource=resource))
    pool = _pool(view, resource, options, topology)
    taken = 0 if shared else options.get("taken", 0)
    if (count + taken > len(pool) and not shared) or not pool:
        return Outcome((), error=_refusal("pending", count=count, resource=resource, free=max(len(pool) - taken, 0)))
    picked = pool[:1] if shared else pool[taken : taken + count]
    whole = len(picked) == len(pool)
    guessed = any(number is not None for _, number in pool) and not resource.startswith("nvidia.com/mig-")
    certainty = Certainty.CERTAIN if whole and not guessed else Certainty.UNKNOWN
    return Given(_as_named(picked), certainty, "step.kubernetes.every" if whole else "step.kubernetes.choice")


def _refusal(key: str, **fields: Any) -> Message:
    return Message(f"error.kubernetes.{key}", FrozenDict(fields))


def _pool(view: View, resource: str, options: Mapping[str, Any], topology: Topology) -> list[tuple[int, int | None]]:
    """The devices of a resource: (position, MIG instance). Those that cannot be used are unhealthy and not offered."""
    gpus = topology.gpus
    left = [i for i in view.left(topology) if gpus[i].problem is None]
    slices = [(i, n) for i in left if gpus[i].mig_mode for n in view.instances(topology, i)]
    if resource.startswith("nvidia.com/mig-"):
        profile = resource.removeprefix("nvidia.com/mig-").removesuffix(".shared")
        return [(i, n) for i, n in slices if (gpus[i].mig_instances[n].profile or "").replace("+", ".") == profile]
    sliced = bool(left) and all(gpus[i].mig_mode for i in left)
    if options.get("mig_strategy", "single" if sliced and slices else "none") == "single" and slices:
        return list(slices)
    mixed = options.get("mig_strategy") == "mixed"
    return [(i, None) for i in left if not (mixed and gpus[i].mig_mode)]


def _as_named(picked: Iterable[tuple[int, int | None]]) -> Named:
    mig: dict[int, list[int]] = {}
    pairs = list(picked)
    for position, number in pairs:
        if number is not None:
            mig.setdefault(position, []).append(number)
    instances = FrozenDict({i: tuple(sorted(numbers)) for i, numbers in mig.items()})
    return Named(tuple(dict.fromkeys(i for i, _ in pairs)), instances)


def _variable(
    inner: View, outer: View, devices: Named, options: Mapping[str, Any], topology: Topology
) -> tuple[View, str | None, Step]:
    """How the plugin tells the runtime, its variable, and what one in the pod's own env does to that."""
    if options.get("plugin") == "gke":
        return inner, None, step("step.kubernetes.gke", GKE)
    strategy, own = options.get("list_strategy", "envvar"), options.get("set", {}).get(NVIDIA_VISIBLE_DEVICES)
    if own is not None and strategy == "envvar":
        names = tuple(name.strip() for name in own.split(",") if name.strip())
        nothing = not names or "void" in names or "none" in names
        found = Named() if nothing else named(names, "legacy", outer, topology)
        kept = outer.narrowed(found.positions, found.mig).doubted(least((inner.certainty, Certainty.LIKELY)))
        said = step("step.kubernetes.overridden", KUBELET, Certainty.LIKELY, value=variables.clip(own))
        return (inner if found.unknown is not None else kept), None, said
    value = {"volume-mounts": _VOLUMES}.get(strategy, "void")
    if strategy == "envvar":
        value = ",".join(_names(devices, topology, index=options.get("id_strategy") == "index"))
    return inner, value, step("step.kubernetes.strategy", PLUGIN, strategy=strategy, value=variables.clip(value))


def _names(devices: Named, topology: Topology, *, index: bool) -> list[str]:
    """What the plugin calls its devices: UUIDs, or NVML's numbers; a question mark for what is not known."""
    out: list[str] = []
    for i in devices.positions:
        gpu = topology.gpus[i]
        number = "?" if gpu.nvml_index is None else str(gpu.nvml_index)
        for n in devices.mig.get(i, (None,)):
            if n is None:
                out.append(number if index else gpu.uuid or "?")
            else:
                out.append(f"{number}:{n}" if index else gpu.mig_instances[n].uuid or "?")
    return out


def pod(
    count: int = 0,
    resource: str = "nvidia.com/gpu",
    *,
    allocated: Iterable[int | str] | None = None,
    env: Mapping[str, str] = FrozenDict(),
    **options: Any,
) -> Layer:
    """One container of a Kubernetes pod with ``resource: count`` in its limits.

    ``allocated``: which devices the plugin gave, by NVML index, UUID or ``gpu:mig``. ``list_strategy``:
    DEVICE_LIST_STRATEGY, ``id_strategy``: DEVICE_ID_STRATEGY, ``mig_strategy``: ``none``, ``single``, ``mixed``;
    ``sharing``: ``time-slicing`` or ``mps``; ``plugin``: ``gke``.
    """
    told = {} if allocated is None else {"allocated": tuple(allocated)}
    return Layer(
        "kubernetes", {"count": count, "resource": resource, **told, **({"set": env} if env else {}), **options}
    )


_WORDS = {
    "resource": None,
    "list_strategy": ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
    "id_strategy": ("uuid", "index"),
    "mig_strategy": ("none", "single", "mixed"),
    "sharing": ("time-slicing", "mps"),
    "plugin": ("nvidia", "gke"),
    "refused": ("fraction", "no-limit", "unequal", "env"),
}
"""Options that are one word, and which words."""


def problem(options: Mapping[str, Any]) -> str | None:
    """``count``, ``taken`` and ``replicas`` are whole numbers, ``allocated`` a list; the rest as in a Docker container."""
    for key in ("count", "taken", "replicas"):
        number = options.get(key, 1)
        if type(number) is not int or not 0 <= number <= _MOST:
            return f"“{key}” is {number!r}, no count"
    told = options.get("allocated", ())
    if not isinstance(told, tuple) or any(not isinstance(one, int | str) for one in told):
        return f"“allocated” is {told!r}, no list of devices"
    for key, words in _WORDS.items():
        word = options.get(key)
        if word is not None and (not isinstance(word, str) or (words is not None and word not in words)):
            return f"“{key}” is {word!r}"
    return container_problem(options)


ROWS: Mapping[str, LayerRow] = {
    "kubernetes": LayerRow(apply_kubernetes, f"{PLUGIN}; {KUBELET}", problem, "container", fresh=True),
}
