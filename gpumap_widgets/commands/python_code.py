"""Python code and notebook cells as text: which variables they set, before or after CUDA starts, and what they call.

The code is parsed by `ast` and never run. Statements count in the order of the text, whatever branch they stand in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..layers import dask_cuda, device_map, environment, jax, lightning, spawn, tensorflow
from ..scenario import Layer, is_relevant

_LONGEST = 100_000
_MAGIC = re.compile(r"^\s*%(?:env|set_env)\s+(\w+)\s*=?\s*(.*?)\s*$", re.ASCII)
_OTHER_MAGIC = re.compile(r"^\s*[%!]")
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d*\]: ?)")
_STARTS = frozenset(
    f"torch.cuda.{name}"
    for name in (
        *(
            "is_available",
            "current_device",
            "set_device",
            "get_device_name",
            "get_device_properties",
            "init",
            "synchronize",
        ),
        *("get_device_capability", "mem_get_info", "empty_cache", "memory_allocated", "manual_seed_all", "Stream"),
    )
)
"""Calls that start CUDA. ``device_count`` does not: it asks NVML (torch/cuda/__init__.py, run)."""


def looks_like(text: str) -> bool:
    """Whether a text is Python or a notebook cell: it parses, and calls, imports or sets something."""
    if len(text) > _LONGEST:
        return False
    tree = _parsed(text)
    if tree is None:
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom) or _telling(node) for node in tree.body)


def _telling(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)


def _parsed(text: str) -> ast.Module | None:
    lines = [_PROMPT.sub("", line) for line in text.splitlines()]
    plain = [_python(line) for line in lines]
    try:
        return ast.parse("\n".join(plain))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _python(line: str) -> str:
    """A line of a cell as Python: ``%env A=1`` sets a variable, other magics and ``!commands`` are left out."""
    magic = _MAGIC.match(line)
    if magic is not None:
        return f"os.environ[{magic[1]!r}] = {magic[2]!r}"
    return "pass" if _OTHER_MAGIC.match(line) else line


def read(text: str, env: Mapping[str, str], assume: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers of a script: variables in time, what it calls, variables that come too late."""
    del env
    tree = _parsed(text)
    reading = _Reading(bool(assume.get("set_device", True)))
    try:
        for node in _ordered(tree.body if tree else []):
            reading.take(node)
    except RecursionError:
        return (Layer("unreadable", {"why": "nested"}),)
    return reading.layers()


def _ordered(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node in the order of the text."""
    found = [node for top in nodes for node in ast.walk(top) if isinstance(node, ast.stmt | ast.expr)]
    yield from sorted(found, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))


def _dotted(node: ast.AST) -> str:
    """``torch.cuda.set_device`` of an attribute; "" for anything that is no plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else f".{'.'.join(reversed(parts))}"


def _constant(node: ast.AST | None) -> Any:
    """A literal; None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_environ(node: ast.AST) -> bool:
    return _dotted(node) in ("os.environ", "environ")


class _Reading:
    """What was read so far, in the order of the text."""

    def __init__(self, set_device: bool) -> None:  # noqa: FBT001 - a fact of the script
        self.started = False
        self.set_device = set_device
        self.early: dict[str, Any] = {}
        self.late: dict[str, Any] = {}
        self.calls: list[Layer] = []

    def take(self, node: ast.AST) -> None:
        """Look at one node."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if _is_environ(target.value):
                self._set("set", _constant(target.slice), _constant(node.value))
        elif isinstance(node, ast.Delete):
            for gone in node.targets:
                if isinstance(gone, ast.Subscript) and _is_environ(gone.value):
                    self._unset(_constant(gone.slice))
        elif isinstance(node, ast.Call):
            self._call(node)

    def _set(self, how: str, name: Any, value: Any) -> None:
        if not isinstance(name, str) or not is_relevant(name):
            return
        held = self.late if self.started else self.early
        if isinstance(value, str):
            held.setdefault(how, {})[name] = value
        else:
            held.setdefault("unknown", {})[name] = None

    def _unset(self, name: Any) -> None:
        if isinstance(name, str) and is_relevant(name):
            (self.late if self.started else self.early).setdefault("unset", {})[name] = None

    def _call(self, node: ast.Call) -> None:
        name = _dotted(node.func)
        if name.endswith("environ.setdefault") and len(node.args) > 1:
            self._set("default", _constant(node.args[0]), _constant(node.args[1]))
        elif name in ("os.putenv", "putenv") and len(node.args) > 1:
            self._set("set", _constant(node.args[0]), _constant(node.args[1]))
        elif name.endswith("environ.pop") and node.args:
            self._unset(_constant(node.args[0]))
        elif name.endswith("environ.update"):
            given = _constant(node.args[0]) if node.args else {}
            given = given if isinstance(given, dict) else {}
            for key, value in {**given, **{k.arg: _constant(k.value) for k in node.keywords if k.arg}}.items():
                self._set("set", key, value)
        else:
            self._cuda(node, name)
            self._framework(node, name)

    def _cuda(self, node: ast.Call, name: str) -> None:
        """Whether a call starts CUDA, and which device it names."""
        texts = [_constant(arg) for arg in (*node.args, *(k.value for k in node.keywords))]
        cuda = any(isinstance(text, str) and text.partition(":")[0] == "cuda" for text in texts)
        self.started |= name in _STARTS or name.endswith(".cuda") or (cuda and not name.endswith("device"))

    def _framework(self, node: ast.Call, name: str) -> None:
        make = _CALLS.get(name.rpartition(".")[2])
        if make is None:
            return
        keywords = {k.arg: k.value for k in node.keywords if k.arg}
        try:
            layer = make(self, node, keywords)
        except (TypeError, ValueError):
            return
        if layer is not None:
            self.calls.append(layer)

    def layers(self) -> tuple[Layer, ...]:
        """As layers, outermost first."""
        early = (_environment(self.early),) if self.early else ()
        late = (_environment(self.late, late=True),) if self.late else ()
        return (*early, *self.calls, *late)


def _environment(held: Mapping[str, Any], *, late: bool = False) -> Layer:
    names = {key: tuple(held[key]) for key in ("unset", "unknown") if key in held}
    return environment(held.get("set", {}), via="os.environ", late=late, default=held.get("default", {}), **names)


Make = Callable[[_Reading, ast.Call, Mapping[str, ast.expr]], Layer | None]


def _trainer(_: _Reading, __: ast.Call, given: Mapping[str, ast.expr]) -> Layer | None:
    """Lightning's Trainer names devices; the Trainer of transformers has no such argument."""
    if not {"devices", "strategy", "accelerator"} & set(given):
        return None
    known = {key: _constant(given[key]) for key in ("devices", "strategy", "accelerator") if key in given}
    return lightning(**{key: value for key, value in known.items() if value is not None})


def _spawn(reading: _Reading, node: ast.Call, given: Mapping[str, ast.expr]) -> Layer | None:
    if "torch" not in _dotted(node.func) and not _dotted(node.func).startswith(("mp.", "multiprocessing.", "spawn")):
        return None
    count = _constant(given.get("nprocs") or (node.args[2] if len(node.args) > 2 else None))
    return spawn(count, set_device=reading.set_device) if isinstance(count, int) else None


def _pretrained(_: _Reading, __: ast.Call, given: Mapping[str, ast.expr]) -> Layer | None:
    value = _constant(given.get("device_map"))
    return device_map(value) if isinstance(value, str | int) else None


def _jax(_: _Reading, node: ast.Call, given: Mapping[str, ast.expr]) -> Layer | None:
    if "jax" not in _dotted(node.func):
        return None
    ids = _constant(given.get("local_device_ids"))
    return jax(ids, distributed=True)


def _cluster(_: _Reading, __: ast.Call, given: Mapping[str, ast.expr]) -> Layer:
    return dask_cuda(_constant(given.get("n_workers")), visible=_constant(given.get("CUDA_VISIBLE_DEVICES")))


def _gpu_options(_: _Reading, __: ast.Call, given: Mapping[str, ast.expr]) -> Layer | None:
    value = _constant(given.get("visible_device_list"))
    return tensorflow(value) if isinstance(value, str) else None


_CALLS: Mapping[str, Make] = {
    "Trainer": _trainer,
    "Fabric": _trainer,
    "spawn": _spawn,
    "from_pretrained": _pretrained,
    "initialize": _jax,
    "LocalCUDACluster": _cluster,
    "GPUOptions": _gpu_options,
}
"""Calls of frameworks that choose GPUs, by the last part of their name."""
