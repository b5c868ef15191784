"""Kubernetes manifests, read into layers: one job for every container of the first pod of every object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..layers.containers_images import facts, image_env, matters
from ..layers.words import Word
from ..scenario import Layer
from .documents import at, body, documents, listing, mapping, substitute, text_of
from .recognise import Job, program, side_by_side
from .shell import Unreadable

_LOOKS = re.compile(r"^[ \t]*[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
_KIND = re.compile(r"^[ \t]*[\"']?kind[\"']?[ \t]*:", re.MULTILINE)
_GPU = re.compile(r"nvidia\.com/(?:gpu|mig-)", re.ASCII)
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)", re.ASCII)
_DEEPEST = 12
_FACTS = {
    "device_list_strategy": "list_strategy",
    "device_id_strategy": "id_strategy",
    "mig_strategy": "mig_strategy",
    "sharing": "sharing",
    "device_plugin": "plugin",
}
"""Facts from outside → options of the layer."""


def looks_like(text: str) -> bool:
    """Whether a text is a manifest."""
    return _LOOKS.search(text) is not None and _KIND.search(text) is not None


def read(text: str, _: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers of a manifest. Several containers are jobs side by side. Raises `shell.Unreadable`."""
    objects = [one for document in documents(body(text)) for one in _objects(document)]
    maps = {
        str(at(one, "metadata", "name")): mapping(one.get("data")) for one in objects if one.get("kind") == "ConfigMap"
    }
    jobs: list[Job] = []
    for one in objects:
        for spec, replicas in _pods(one):
            jobs += _containers(spec, replicas, maps, assume)
    if not jobs:
        raise Unreadable("yaml-no-container", 0)
    return side_by_side(jobs)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """The objects of a document; those of a List each."""
    one = mapping(document)
    items = [mapping(item) for item in listing(one.get("items"))]
    yield from items if one.get("kind") in ("List", "PodList") else [one]


def _pods(value: Any, depth: int = 0, replicas: int = 1) -> Iterator[tuple[dict[str, Any], int]]:
    """Specifications of pods anywhere in an object, with the number of pods."""
    one = mapping(value)
    if listing(one.get("containers")):
        yield one, replicas
    elif depth < _DEEPEST:
        given = next(
            (one[key] for key in ("replicas", "parallelism", "completions") if type(one.get(key)) is int), None
        )
        count = replicas if given is None else min(max(given, 0), 1024)
        for inner in one.values():
            for part in inner if isinstance(inner, list) else [inner]:
                yield from _pods(part, depth + 1, count)


def _containers(
    spec: Mapping[str, Any], replicas: int, maps: Mapping[str, Mapping[str, Any]], assume: Mapping[str, Any]
) -> list[Job]:
    """The containers of a pod, which get different GPUs."""
    containers = [mapping(one) for one in listing(spec.get("containers"))]
    jobs, taken = list[Job](), dict[str, int]()
    told = assume.get("allocated")
    dealt = list(told) if isinstance(told, list | tuple) else []
    selector = mapping(spec.get("nodeSelector"))
    for one in containers:
        options = _request(one)
        resource, count = options.get("resource", "nvidia.com/gpu"), options.get("count", 0)
        if count and isinstance(told, Mapping):
            own = told.get(one.get("name"))
            options |= {"allocated": list(own)} if isinstance(own, list | tuple) else {}
        elif count and dealt:
            options["allocated"], dealt = dealt[:count], dealt[count:]
        elif taken.get(resource):
            options["taken"] = taken[resource]
        taken[resource] = taken.get(resource, 0) + count
        given, env = _environment(one, maps)
        options |= given
        options |= facts(assume, _FACTS)
        options |= _gke(selector) | ({"sharing": "time-slicing"} if resource.endswith(".shared") else {})
        options["image"] = text_of(one.get("image")) or ""
        known = image_env(assume)
        options |= {} if known is None else {"image_env": known}
        options |= {"privileged": True} if at(one, "securityContext", "privileged") is True else {}
        options |= {"accept_envvar": False} if assume.get("accept_envvar") is False else {}
        options |= {"one_replica": True} if assume.get("fail_requests_greater_than_one") else {}
        options |= {"replicas": replicas} if replicas > 1 else {}
        words = [_filled(text, env) for text in _words(one)]
        inner = program(tuple(map(Word, words)), assume) or ()
        jobs.append((str(one.get("name") or ""), (Layer("kubernetes", options), *inner)))
    return jobs


def _request(container: Mapping[str, Any]) -> dict[str, Any]:
    """Which resource a container asks for and how many, or why the API refuses it."""
    limits = mapping(at(container, "resources", "limits"))
    requests = mapping(at(container, "resources", "requests"))
    resource = next((name for name in (*limits, *requests) if _GPU.match(name)), None)
    if resource is None:
        return {}
    limit, request = (_quantity(held.get(resource)) for held in (limits, requests))
    refused = None
    if resource not in limits:
        refused = "no-limit"
    elif limit is None or (resource in requests and request is None):
        refused = "fraction"
    elif resource in requests and request != limit:
        refused = "unequal"
    why = {"refused": refused} if refused else {}
    return {"resource": resource, "count": limit or 0, **why}


def _quantity(value: Any) -> int | None:
    """A whole number of devices; None for any other quantity."""
    text = text_of(value) if not isinstance(value, bool) else None
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) and int(text) <= 1024 else None


def _environment(
    container: Mapping[str, Any], maps: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """``env`` and ``envFrom``, as options and as variables; later entries win, ``$(NAME)`` names those before."""
    held: dict[str, str] = {}
    unknown: dict[str, None] = {}
    missing: list[str] = []
    refused = None
    for source in map(mapping, listing(container.get("envFrom"))):
        name = str(at(source, "configMapRef", "name") or at(source, "secretRef", "name") or "envFrom")
        if name in maps and "configMapRef" in source:
            prefix = text_of(source.get("prefix")) or ""
            held |= {prefix + key: text for key, value in maps[name].items() if (text := text_of(value)) is not None}
        else:
            missing.append(name)
    for entry in map(mapping, listing(container.get("env"))):
        name, value = str(entry.get("name") or ""), entry.get("value")
        if not name:
            continue
        reference = mapping(at(entry, "valueFrom", "configMapKeyRef"))
        if reference:
            value = mapping(maps.get(str(reference.get("name")))).get(str(reference.get("key")))
        if entry.get("valueFrom") is not None and value is None:
            unknown[name] = None
            held.pop(name, None)
        elif value is None or isinstance(value, str):
            held[name] = _filled(value or "", held)
            unknown.pop(name, None)
        else:
            refused = "env"
    kept = {name: value for name, value in held.items() if matters(name)}
    out: dict[str, Any] = {"set": kept, "unknown": [name for name in unknown if matters(name)], "missing": missing}
    return {key: value for key, value in out.items() if value} | ({"refused": refused} if refused else {}), held


def _filled(text: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` of the container's own variables; what is not known stays as it is (kubernetes.io, Define
    Dependent Environment Variables).
    """
    return substitute(_REFERENCE, lambda found: "$" if found[1] is None else env.get(found[1], found[0]), text)


def _words(container: Mapping[str, Any]) -> Iterable[str]:
    return [
        text for key in ("command", "args") for one in listing(container.get(key)) if (text := text_of(one)) is not None
    ]


def _gke(selector: Mapping[str, Any]) -> dict[str, str]:
    """What the labels of GKE's nodes say about its plugin."""
    if not any(name.startswith("cloud.google.com/gke-") for name in selector):
        return {}
    sharing = {"time-sharing": "time-slicing", "mps": "mps"}.get(
        str(selector.get("cloud.google.com/gke-gpu-sharing-strategy"))
    )
    return {"plugin": "gke"} | ({"sharing": sharing} if sharing else {})
