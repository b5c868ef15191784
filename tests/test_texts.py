"""Every sentence is there, is used, and gets the fields that it needs."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import gpumap_widgets
from gpumap_widgets import device_order, texts
from gpumap_widgets.catalog import models
from gpumap_widgets.certainty import Certainty
from gpumap_widgets.diagnosis import RULES as FINDING_RULES
from gpumap_widgets.explanation import _ORDER_SOURCES
from gpumap_widgets.grammar import RULES
from gpumap_widgets.layers import mps_daemon
from gpumap_widgets.mapping import Message, Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.texts import LANGUAGES, say, sentences
from gpumap_widgets.texts.en import engine, findings
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from gpumap_widgets.views.graph import graph
from gpumap_widgets.views.html import findings_html, prediction_html, steps_html, tokens_html, topology_html
from tests import test_device_order, test_visible_devices
from tests.conftest import MIXED, equal, predict, split

ROOT = Path(gpumap_widgets.__file__).parent
SENTENCES = sentences("en")
FAMILIES = {key.partition(".")[0] for key in SENTENCES}


# ---- what the code names ----


class Use(NamedTuple):
    """One place that says a sentence."""

    where: str
    patterns: tuple[str, ...]
    """What the key may be, as regular expressions; () where it cannot be told from the code."""
    sure: bool
    """Whether the key stands in the call; else it comes from a variable, which may hold other things elsewhere."""
    fields: frozenset[str]
    open_fields: bool
    """Whether more fields come from a mapping."""


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of the package, less the sentences themselves."""
    paths = (path for path in sorted(ROOT.rglob("*.py")) if "texts" not in path.relative_to(ROOT).parts)
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def patterns(node: ast.expr | None, local: dict[str, list[ast.expr]], depth: int = 0) -> list[str]:
    """What a text may be, as regular expressions."""
    if depth > 4:
        return []
    if isinstance(node, ast.Constant):
        return [re.escape(node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return patterns(node.body, local, depth) + patterns(node.orelse, local, depth)
    if isinstance(node, ast.BoolOp):
        return [p for value in node.values for p in patterns(value, local, depth)]
    if isinstance(node, ast.JoinedStr):
        heads = [""]
        for part in node.values:
            inner = (
                patterns(part.value, local, depth)
                if isinstance(part, ast.FormattedValue)
                else patterns(part, local, depth)
            )
            heads = [head + tail for head in heads for tail in inner or [".+"]]
        return heads
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = patterns(node.left, local, depth) or [".+"], patterns(node.right, local, depth) or [".+"]
        return [a + b for a in left for b in right]
    if isinstance(node, ast.Name):
        return [p for value in local.get(node.id, ()) for p in patterns(value, local, depth + 1)]
    return []


def _assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """Name → what a function assigns to it."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.value is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    inside = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    nested = {id(inner) for outer in inside for inner in ast.walk(outer) if inner is not outer}
    yield from (function for function in inside if id(function) not in nested)
    yield ast.Module(
        [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)], []
    )


@cache
def uses() -> tuple[Use, ...]:
    """Every call of say(), Message() and message() in the package."""
    found = []
    for where, tree in trees().items():
        for function in _functions(tree):
            local = _assigned(function)
            for node in ast.walk(function):
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if called not in ("say", "_say", "Message", "message"):
                    continue
                names = {k.arg for k in node.keywords if k.arg}
                more = any(k.arg is None for k in node.keywords)
                if called == "Message":
                    names, more = _mapping_keys(node.args[1] if len(node.args) > 1 else None)
                keys = tuple(dict.fromkeys(patterns(node.args[0], local)))
                sure = not any(isinstance(n, ast.Name) for n in ast.walk(node.args[0]))
                found.append(Use(f"{where}:{node.lineno}", keys, sure, frozenset(names), more))
    return tuple(found)


def _mapping_keys(node: ast.expr | None) -> tuple[set[str], bool]:
    """The keys of ``FrozenDict({...})`` or ``{...}``; True where there may be more."""
    if node is None:
        return set(), False
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    if not isinstance(node, ast.Dict):
        return set(), True
    keys = {k.value for k in node.keys if isinstance(k, ast.Constant)}
    return {str(k) for k in keys}, len(keys) < len(node.keys)


@cache
def constants() -> frozenset[str]:
    """Every text constant of the package; docstrings and the pieces of f-strings aside."""
    found = set()
    for tree in trees().values():
        nodes = list(ast.walk(tree))
        aside = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        aside |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        found |= {
            n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in aside
        }
    return frozenset(found)


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def matching(pattern: str) -> list[str]:
    return [key for key in SENTENCES if re.fullmatch(pattern, key)]


def test_there_are_calls_to_look_at() -> None:
    assert len(uses()) > 100
    assert sum(1 for use in uses() if use.patterns) > 0.9 * len(uses())


def test_every_key_that_is_named_has_a_sentence() -> None:
    wrong = []
    for use in uses():
        missing = [pattern for pattern in use.patterns if not matching(pattern)]
        if missing and (use.sure or len(missing) == len(use.patterns)):
            wrong.append((use.where, missing))
    assert wrong == []


NO_KEYS = {"memory.total", "memory.used", "memory.free"}
"""Texts that look like keys: fields of nvidia-smi."""


def test_every_text_that_looks_like_a_key_has_a_sentence() -> None:
    like_a_key = re.compile(rf"({'|'.join(sorted(FAMILIES))})\.[a-z][a-z0-9 _-]*")
    wrong = {text for text in constants() if like_a_key.fullmatch(text) and text not in SENTENCES}
    assert {text for text in wrong - NO_KEYS if not text.endswith((".py", ".dll", ".so", ".csv"))} == set()


def test_every_sentence_is_named_somewhere() -> None:
    named = set(constants()) | {key for use in uses() for pattern in use.patterns for key in matching(pattern)}
    for tree in trees().values():  # an f-string that begins like a key may be handed on before it is said
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                head = str(node.values[0].value).partition(".")
                named |= {key for p in patterns(node, {}) if head[1] and head[0] in FAMILIES for key in matching(p)}
    assert set(SENTENCES) - named == set()


def test_every_sentence_gets_its_fields() -> None:
    """Where the key stands in the code; those that are put together are said in full further down."""
    wrong = []
    for use in uses():
        exact = [key for pattern in use.patterns if ".+" not in pattern for key in matching(pattern)]
        lacking = {key: fields_of(SENTENCES[key]) - use.fields for key in exact}
        short = {key: names for key, names in lacking.items() if names}
        if not use.open_fields and short and (use.sure or len(short) == len(lacking)):
            wrong.append((use.where, short))
    assert wrong == []


def test_no_field_is_given_for_nothing() -> None:
    wrong = []
    for use in uses():
        wanted = {name for pattern in use.patterns for key in matching(pattern) for name in fields_of(SENTENCES[key])}
        if use.sure and use.patterns and use.fields - wanted:
            wrong.append((use.where, use.fields - wanted))
    assert wrong == []


# ---- families whose names are made up of other tables ----


def family(head: str) -> set[str]:
    """The names of a family: what stands behind ``head.``."""
    return {key.removeprefix(f"{head}.") for key in SENTENCES if key.startswith(f"{head}.")}


def test_every_rule_of_the_grammar_has_its_sentence() -> None:
    assert family("rule") == set(RULES)


def test_every_finding_has_its_sentences() -> None:
    assert family("finding") == {rule.code for rule in FINDING_RULES}
    assert family("remedy") == {rule.code for rule in FINDING_RULES if rule.remedy}
    assert {rule.severity for rule in FINDING_RULES} <= family("severity")


def test_every_order_has_its_sentence_and_its_source() -> None:
    assert family("step.order") == set(_ORDER_SOURCES) == {"single", "pci", "seen", "weights", "promote-one", "served"}


def test_every_doubt_has_its_sentence() -> None:
    tree = trees()["device_order.py"]
    deciding = ("_order", "served_order", "_pci", "_general_doubt", "_graded", "pair_certainty")
    named = {
        node.value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in deciding
        for node in ast.walk(ast.Module(function.body[_has_doc(function) :], []))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    others = {
        "single",
        "pci",
        "seen",
        "weights",
        "promote-one",
        "served",
        "undocumented",
        *device_order.DOCUMENTED_VALUES,
    }
    assert named - others == family("doubt")


def _has_doc(function: ast.FunctionDef) -> bool:
    return ast.get_docstring(function) is not None


def test_every_certainty_has_its_sentence() -> None:
    assert {str(certainty) for certainty in Certainty} <= family("sentence")


# ---- said in full ----


class Recorder(dict):  # type: ignore[type-arg]
    """The sentences, remembering which were said."""

    def __init__(self) -> None:
        super().__init__(SENTENCES)
        self.said: set[str] = set()

    def __getitem__(self, key: str) -> str:
        self.said.add(key)
        return super().__getitem__(key)


def _more_machines() -> Iterator[Topology]:
    yield from (Topology(), equal(1), Topology((Gpu(),)), equal(40), split(), split(None), MIXED)
    yield replace(MIXED, gpus=tuple(replace(gpu, problem="lost.") for gpu in MIXED.gpus))
    yield replace(MIXED, gpus=(*MIXED.gpus[:3], replace(MIXED.gpus[3], problem="lost.")))
    yield replace(MIXED, default_order=(3, 2, 1, 0))
    dated = {"default_order_measured": True, "default_order_date": "2026-03-01T12:00:00+01:00"}
    yield replace(MIXED, default_order=(1, 0, 2, 3), **dated)
    yield Topology((Gpu(None, "Tesla T4", pci_bus_id="5E:00.0"), Gpu(None, "4090"), Gpu(3, "what", memory_mib=512)))
    yield Topology((Gpu(0, "A100", mig_instances=(MigInstance(None, "3g.20gb"),)),), driver_version="575")
    yield Topology.of("Tesla T4", "3090", platform="wsl")
    yield Topology.of("GRID T4-16Q", "3090")
    yield Topology(tuple(Gpu(None, f"card {i % 6}") for i in range(30)))
    yield from (Topology.of(*(m.name for m in models()[i : i + 3])) for i in range(0, len(models()), 40))


def corpus() -> Iterator[Prediction]:
    """Scenarios that together say everything the engine has to say."""
    for row in test_visible_devices.all_rows():
        yield predict(test_visible_devices.machine(row.machine), row.value)
        yield predict(test_visible_devices.machine(row.machine), row.value, "PCI_BUS_ID")
    for report in test_device_order.REPORTS:
        yield predict(test_device_order.machine(report.names, report.driver), "1,0")
    for topology in _more_machines():
        for order in (None, "FASTEST_FIRST", "PCI_BUS_ID", "odd", ""):
            for value in (None, "", "0", "1,2,9", "0,0", "GPU-zz"):
                yield predict(topology, value, order)
    yield resolve(Scenario.from_command(MIXED, "torchrun --nproc-per-node=5 t.py"))
    yield resolve(Scenario(MIXED, (Layer("teleport"),)))
    yield resolve(Scenario(MIXED, (Layer("environment", {"set": 5}),)))
    for served in ("0,1", "1,0"):
        yield resolve(Scenario(MIXED, (mps_daemon(served),)))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(texts, "sentences", lambda lang: recorder)
    return recorder


def _say_all(predictions: Iterable[Prediction]) -> Iterator[str]:
    for prediction in predictions:
        yield from map(str, prediction.steps)
        for finding in prediction.findings:
            yield from (finding.message, finding.remedy or "")
        yield str(prediction)
        yield str(prediction.scenario.topology)
        yield prediction_html(prediction) + topology_html(prediction.scenario.topology)
        yield steps_html(prediction.steps) + findings_html(prediction.findings)
        yield "".join(tokens_html(process) for process in prediction.processes)
        yield repr(graph(prediction))


SAID_ELSEWHERE = {"graph.agrees", "graph.differs", "graph.not-checked", "graph.no-device"} | {
    *("graph.container", "graph.container-sub", "graph.container-host", "graph.container-out", "graph.rank-missing")
}
"""By a comparison, or in a container."""
PLAIN = {"integer", "uuid", "unset", "empty-value", "mig-single", "mig-one-of-each"}
"""Rules that nobody needs to hear of beside a token; `step.list.*` says the last four."""


def test_the_engine_can_say_everything_it_has_to_say(recorder: Recorder) -> None:
    for text in _say_all(corpus()):
        assert isinstance(text, str)
    wanted = {
        *engine.SENTENCES,
        *findings.SENTENCES,
        *(key for key in SENTENCES if key.startswith(("sentence.", "graph."))),
    }
    assert wanted - recorder.said - SAID_ELSEWHERE - {f"rule.{rule}" for rule in PLAIN} == set()


# ---- the sentences themselves ----


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_language_is_whole(lang: str) -> None:
    assert set(sentences(lang)) == set(SENTENCES)
    for key, text in sentences(lang).items():
        assert fields_of(text) == fields_of(SENTENCES[key]), key
        assert all(name.isidentifier() for name in fields_of(text)), key
        assert text, key
        assert "  " not in text.strip(), key
        assert "\t" not in text, key


def test_fields_are_put_in_as_they_are() -> None:
    assert say("order.value", value="{0} {value} %s") == "“{0} {value} %s”"
    assert Message("order.value", {"value": "{x}"}).text("en") == "“{x}”"
    assert str(Message("kept.none")) == SENTENCES["kept.none"]
    assert Message("a", {"b": 1}) == Message("a", {"b": 1})


@pytest.mark.parametrize(("key", "lang"), [("no.such", "en"), ("kept.none", "tlh"), ("kept.none", "")])
def test_what_is_not_there_raises(key: str, lang: str) -> None:
    with pytest.raises(KeyError):
        say(key, lang)
    with pytest.raises(KeyError):
        say("step.set", "en", name="only one of two")


def test_no_prose_outside_the_texts() -> None:
    """Reasons and messages of the engine live in the texts; a sentence in the code would escape translation."""
    layers = [where for where in trees() if where.startswith(("layers/", "commands/"))]
    silent = ("resolver.py", "explanation.py", "diagnosis.py", "editing.py", "views/rows.py", *layers)
    prose = re.compile(r"[A-Z][a-z]+ [a-z]+ [a-z]+ .*[.!]")
    for where in silent:
        docs = {id(n.value) for n in ast.walk(trees()[where]) if isinstance(n, ast.Expr)}
        found = [
            n.value
            for n in ast.walk(trees()[where])
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs
        ]
        assert [text for text in found if prose.fullmatch(text)] == [], where
