"""What a plain script does inside, where no command tells: ``assume={"script": "hf_trainer"}``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..scenario import Layer
from .arrays import jax, tensorflow
from .huggingface import device_map, hf_trainer
from .trainers import lightning

_DEVICE_MAP = "device_map="


def _lightning(assume: Mapping[str, Any]) -> Layer:
    known = {
        key: assume[key] for key in ("devices", "strategy", "accelerator", "num_nodes", "notebook") if key in assume
    }
    return lightning(**known)


def _jax(assume: Mapping[str, Any]) -> Layer:
    ids = assume.get("local_device_ids")
    ids = [int(part) for part in ids.split(",")] if isinstance(ids, str) else ids
    return jax(ids, distributed=bool(assume.get("distributed")))


def _tensorflow(assume: Mapping[str, Any]) -> Layer:
    ids = assume.get("visible_device_list", "")
    return tensorflow(str(ids) if isinstance(ids, int) else ids)


SCRIPTS: Mapping[str, Callable[[Mapping[str, Any]], Layer]] = {
    "hf_trainer": lambda _: hf_trainer(),
    "device_map": lambda assume: device_map(assume.get("device_map", "auto")),
    "lightning": _lightning,
    "jax": _jax,
    "tensorflow": _tensorflow,
}
"""Names of ``assume["script"]``; also ``device_map=auto`` and the like."""


def script_layers(assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layer of what a script does; () where ``assume`` does not say, or says something unknown."""
    name = assume.get("script")
    if not isinstance(name, str):
        return ()
    if name.startswith(_DEVICE_MAP):
        return (device_map(name.removeprefix(_DEVICE_MAP)),)
    known = SCRIPTS.get(name)
    try:
        return () if known is None else (known(assume),)
    except (TypeError, ValueError):
        return ()
