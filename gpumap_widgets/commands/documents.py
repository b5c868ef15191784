"""YAML as plain data: the only place that loads it. Bounded in size, depth and what aliases expand to.

Scalars are read as Go's YAML readers do, which Compose and Kubernetes use, where PyYAML differs: ``1:2`` is text, a date
is text, only ``true`` and ``false`` are truth values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar

from .shell import LONGEST, Unreadable

_DEEPEST = 60
_MOST_NODES = 20_000
"""Nodes of a document with its aliases filled in; a manifest has hundreds."""
_HERE = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1[^\n]*\n", re.ASCII)


_SCALARS: tuple[tuple[str, str, list[str]], ...] = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]{1,3})?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
)
"""Tag, what a plain scalar must look like, and with what it begins."""


def body(text: str) -> str:
    """The text of a here-document where a text holds one (``kubectl apply -f - <<EOF``), else the text itself."""
    found = _HERE.search(text)
    if found is None:
        return text
    end = re.search(rf"^\s*{found[2]}\s*$", text[found.end() :], re.MULTILINE)
    return text[found.end() :] if end is None else text[found.end() : found.end() + end.start()]


def documents(text: str) -> list[Any]:
    """The documents of a YAML text: dicts, lists, texts, whole numbers, floats, truth values and None.

    Raises `shell.Unreadable` for text that is no YAML, or more of it than any manifest has.
    """
    import yaml  # noqa: TID251

    if len(text) > LONGEST:
        raise Unreadable("long", 0)
    found: list[Any] = []
    try:
        _bounded(yaml, text)
        loader = _loader()(text)
        while loader.check_node():
            node = loader.get_node()
            _expanded(yaml, node)
            found.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise Unreadable("yaml", mark.line if mark else 0) from exc
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as exc:
        raise Unreadable("yaml", 0) from exc
    return found


def _bounded(yaml: Any, text: str) -> None:
    """Refuse what is too deep or too large, before anything is built."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or count > 2 * _MOST_NODES:
            raise Unreadable("yaml-large", event.start_mark.line)


def _expanded(yaml: Any, root: Any) -> None:
    """Refuse aliases that hold themselves, or that multiply a document."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(node: Any) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in open_:
            raise Unreadable("yaml-alias", node.start_mark.line)
        if id(node) not in sizes:
            open_.add(id(node))
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            inner = [part for pair in pairs for part in pair] or node.value
            _once([key for key, _ in pairs if isinstance(key, yaml.ScalarNode)])
            sizes[id(node)] = 1 + sum(map(size, inner))
            open_.discard(id(node))
            if sizes[id(node)] > _MOST_NODES:
                raise Unreadable("yaml-alias", node.start_mark.line)
        return sizes[id(node)]

    size(root)


def _once(keys: Iterable[Any]) -> None:
    """Refuse a key that stands twice in a mapping, as Go's readers do."""
    seen: set[str] = set()
    for key in keys:
        if key.value in seen:
            raise Unreadable("yaml-twice", key.start_mark.line)
        seen.add(key.value)


@cache
def _loader() -> Any:
    """PyYAML's safe loader with Go's scalars."""
    import yaml  # noqa: TID251

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    for tag, pattern, first in _SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), first)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
    Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))
    return Loader


LONGEST_VALUE = 131_072
"""Characters of a variable; Linux starts no program with a longer one (execve, MAX_ARG_STRLEN)."""


def substitute(pattern: re.Pattern[str], one: Callable[[re.Match[str]], str], text: str) -> str:
    """``pattern.sub``, but bounded: raises `shell.Unreadable` for a result that is longer than any variable."""
    pieces: list[str] = []
    at = total = 0
    for found in pattern.finditer(text):
        filled = one(found)
        pieces += (text[at : found.start()], filled)
        at, total = found.end(), total + len(filled)
        if total > LONGEST_VALUE:
            raise Unreadable("long", 0)
    return "".join((*pieces, text[at:]))


def mapping(value: Any) -> dict[str, Any]:
    """A mapping with keys of text; an empty one for anything else."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def at(value: Any, *keys: str) -> Any:
    """What stands under some keys, None where one is missing."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def text_of(value: Any) -> str | None:
    """A scalar as a process gets it in its environment; None for null, lists and mappings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
