"""What importing the package costs, and that its modules build on each other in one direction."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import gpumap_widgets

PACKAGE = gpumap_widgets.__name__
ROOT = Path(gpumap_widgets.__file__).parent
HEAVY = (
    "torch",
    "pandas",
    "numpy",
    "plotly",
    "ipywidgets",
    "anywidget",
    "traitlets",
    "pynvml",
    "jupyter_client",
    "zmq",
    "IPython",
    "yaml",
)

LAYERS = (
    "guard", "errors", "frozen", "certainty", "texts", "identity", "catalog", "topology", "grammar", "picks", "mig", "visible_devices",
    "strength", "device_order", "scenario", "mapping", "layers", "commands", "explanation", "diagnosis", "job_findings", "resolver",
    "tool_readers", "readings", "beliefs", "expectation", "misconceptions", "exercises", "error_messages", "remedies", "tasks",
    "editing", "edges", "comparison", "planning", "sources",
    "inspection", "evidence", "recordings", "ranks", "clusters",
    "views", "live", "measuring", "widgets",
    "cli_records", "cli",
    "__main__",
)  # fmt: skip
"""Each may import those before it. A package counts as one: its modules may import each other, without a circle."""

DOORS = {
    # the lower module, the function, what it opens: methods that are convenient on a value and built far above it
    ("topology", "from_text", "sources.pasted"),
    ("topology", "__str__", "views.text"),
    ("topology", "_repr_html_", "views.html"),
    ("topology", "to_frame", "views.frames"),
    ("scenario", "from_command", "commands"),
    ("evidence.reading", "to_frame", "views.frames"),
    ("inspection.kernel", "__str__", "views.inspections"),
    ("inspection.kernel", "_repr_html_", "views.inspections"),
    ("inspection.process", "__str__", "views.inspections"),
    ("inspection.process", "_repr_html_", "views.inspections"),
    ("mapping", "__str__", "views.text"),
    ("mapping", "_repr_html_", "views.workers"),
    ("mapping", "matrix", "views.matrix"),
    ("mapping", "_repr_html_", "views.verdicts"),
    ("mapping", "to_frame", "views.frames"),
    ("ranks.report", "__str__", "views.ranks"),
    ("ranks.report", "to_frame", "views.frames"),
    ("clusters.value", "__str__", "views.clusters"),
    ("clusters.value", "_repr_html_", "views.clusters"),
    ("clusters.value", "to_frame", "views.frames"),
    ("clusters.prediction", "__str__", "views.clusters"),
    ("clusters.prediction", "_repr_html_", "views.clusters"),
    ("clusters.prediction", "matrix", "views.clusters"),
    ("clusters.prediction", "to_frame", "views.frames"),
    ("clusters.drifting", "__str__", "views.clusters"),
    ("clusters.drifting", "_repr_html_", "views.clusters"),
    ("clusters.drifting", "to_frame", "views.frames"),
    ("planning.data_parallel", "__str__", "views.plan_text"),
    ("planning.data_parallel", "_repr_html_", "views.plan_html"),
    ("planning.data_parallel", "to_frame", "views.frames"),
    ("planning.tasks", "__str__", "views.plan_text"),
    ("planning.tasks", "_repr_html_", "views.plan_html"),
    ("planning.tasks", "to_frame", "views.frames"),
}
ONLY_IN = {
    # a heavy package, and the one place (a module, or a package with all its modules) that imports it; of torch three:
    # programs that run in other processes, and what asks the torch that a job has loaded already
    "torch": "live.probe measuring.program ranks.stores",
    "pynvml": "sources.nvml",
    "plotly": "widgets.graph",
    "pandas": "views.frames",
    "ipywidgets": "widgets",
    "anywidget": "widgets",
    "traitlets": "widgets",
    "jupyter_client": "live.kernel",
    "zmq": "live.kernel",
    "yaml": "commands.documents",
    "numpy": "nowhere",
    "IPython": "nowhere",
}


class Import(NamedTuple):
    """One import of one module."""

    importer: str
    """Without the package's own name: ``views.html``; "" for the package itself."""
    imported: str
    """The same for modules of ours, else the foreign name."""
    ours: bool
    function: str
    """The function that it stands in, "" at the top of the module."""
    type_checking: bool


@cache
def modules() -> dict[str, Path]:
    """Every module by its name within the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _absolute(importer: str, is_package: bool, node: ast.ImportFrom) -> str:
    """The full dotted name that a ``from`` import starts at."""
    if not node.level:
        return node.module or ""
    here = [PACKAGE, *(importer.split(".") if importer else [])]
    base = here[: len(here) - (node.level - is_package)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _targets(importer: str, is_package: bool, node: ast.AST) -> Iterator[str]:
    """Dotted names of the modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(importer, is_package, node)
        for alias in node.names:
            inner = f"{base}.{alias.name}".removeprefix(f"{PACKAGE}.")
            yield f"{base}.{alias.name}" if base.startswith(PACKAGE) and inner in modules() else base
    elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func) and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def _walk(node: ast.AST, function: str, checking: bool) -> Iterator[tuple[ast.AST, str, bool]]:
    for child in ast.iter_child_nodes(node):
        inner, only = function, checking
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = function or child.name
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            only = True
        yield child, inner, only
        yield from _walk(child, inner, only)


@cache
def imports() -> tuple[Import, ...]:
    """All imports of the package."""
    found = []
    for importer, path in modules().items():
        is_package = path.name == "__init__.py"
        for node, function, checking in _walk(ast.parse(path.read_text(encoding="utf-8")), "", checking=False):
            for target in _targets(importer, is_package, node):
                ours = target == PACKAGE or target.startswith(f"{PACKAGE}.")
                name = target.removeprefix(PACKAGE).removeprefix(".") if ours else target
                found.append(Import(importer, name, ours, function, checking))
    return tuple(found)


def rank(module: str) -> int:
    """Its place; a module without one, which a test of its own reports, counts as standing where it is used."""
    head = module.partition(".")[0]
    return LAYERS.index(head) if head in LAYERS else -1


# ---- one direction ----


def test_every_module_has_a_place_in_the_order() -> None:
    heads = {name.split(".")[0] for name in modules() if name}
    assert heads - set(LAYERS) == set(), "a module without a place: put it where its imports allow"
    assert set(LAYERS) - heads == set(), "a place without a module"


def test_modules_import_only_what_stands_above_them() -> None:
    wrong = []
    for one in imports():
        if not one.ours or one.importer == "" or one.type_checking:
            continue
        if one.imported == "" and one.importer == "cli" and one.function:
            continue  # the version, when somebody asks for it
        if one.imported == "":
            wrong.append((*one, "the package itself: a circle"))
        elif (one.importer, one.function, one.imported) in DOORS:
            continue
        elif one.importer.split(".")[0] != one.imported.split(".")[0] and rank(one.imported) >= rank(one.importer) >= 0:
            wrong.append((*one, "below"))
    assert wrong == []


def test_types_too_are_imported_from_above_only() -> None:
    wrong = [
        one
        for one in imports()
        if one.ours and one.importer and one.type_checking and rank(one.imported) > rank(one.importer)
    ]
    assert wrong == []


def test_every_door_is_used_and_stands_in_a_function() -> None:
    used = {(one.importer, one.function, one.imported) for one in imports() if one.ours}
    assert used >= DOORS
    assert not [
        one
        for one in imports()
        if one.ours and not one.function and (one.importer, one.function, one.imported) in DOORS
    ]


def test_there_is_no_circle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for one in imports():
        if one.ours and not one.function and not one.type_checking and one.importer != one.imported:
            graph[one.importer].add(one.imported)
    while graph:
        leaves = {name for name, needed in graph.items() if not needed & set(graph)}
        assert leaves, f"a circle among {sorted(graph)}"
        graph = {name: needed for name, needed in graph.items() if name not in leaves}


def test_the_names_of_functions_and_modules_do_not_collide() -> None:
    heads = {name.split(".")[0] for name in modules() if name}
    assert {name for name in gpumap_widgets.__all__ if name in heads} == set()


# ---- heavy packages have one place ----


@pytest.mark.parametrize("package", ONLY_IN)
def test_a_heavy_package_has_one_place(package: str) -> None:
    places = ONLY_IN[package].split()
    users = {
        one.importer
        for one in imports()
        if not one.ours and not one.type_checking and one.imported.split(".")[0] == package
    }
    assert {u for u in users if not any(u == place or u.startswith(f"{place}.") for place in places)} == set()
    if places != ["nowhere"] and package not in ("anywidget", "zmq", "traitlets"):
        assert users, f"{package} is imported nowhere any more"


def test_the_engine_needs_the_standard_library_only() -> None:
    engine = LAYERS[: LAYERS.index("sources")]
    foreign = {
        (one.importer, one.imported)
        for one in imports()
        if not one.ours
        and one.importer.split(".")[0] in engine
        and one.imported.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == {("commands.documents", "yaml")}, "a manifest is read by a library, and by nothing else"


# ---- what an import loads ----


def fresh(script: str) -> list[str]:
    """What a fresh interpreter prints as JSON, outside this one."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120, cwd=ROOT.parent
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LOADED = f"import json, sys; print(json.dumps(sorted(set({HEAVY!r}) & set(sys.modules))))"


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert fresh(f"import {PACKAGE}; {LOADED}") == []


def test_predicting_and_printing_loads_nothing_heavy() -> None:
    script = f"""
import {PACKAGE} as gm
machine = gm.preset("mixed")
prediction = gm.resolve(gm.Scenario.from_env(machine, {{"CUDA_VISIBLE_DEVICES": "1,2"}}))
assert prediction.nvml_indices == (0, 2)
str(machine), str(prediction), machine._repr_html_(), prediction._repr_html_(), prediction.steps, prediction.findings
gm.Topology.from_text("GPU 0: Tesla T4 (UUID: GPU-a0e15e00-0000-4000-8000-000000000000)")
gm.Scenario.from_json(prediction.scenario.to_json())
"""
    assert fresh(f"{script}\n{LOADED}") == []


def test_a_frame_loads_pandas_and_nothing_else_of_ours() -> None:
    script = f"import {PACKAGE} as gm; gm.preset('mixed').to_frame(); {LOADED}"
    assert set(fresh(script)) - {"numpy"} == {"pandas"}


def test_live_is_lazy_too() -> None:
    assert (
        set(fresh(f"import {PACKAGE}.live, {PACKAGE}.live.answer; {LOADED}"))
        & {"torch", "jupyter_client", "ipywidgets", "pandas"}
        == set()
    )


# ---- names ----


def test_all_names_resolve() -> None:
    for name in gpumap_widgets.__all__:
        assert getattr(gpumap_widgets, name) is not None, name
        assert name in dir(gpumap_widgets)
    assert len(set(gpumap_widgets.__all__)) == len(gpumap_widgets.__all__)
    assert set(gpumap_widgets._LAZY) <= set(gpumap_widgets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'teleport'"):
        _ = gpumap_widgets.teleport  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Explorer", "Gpu", "Layer", "MigInstance", "Scenario", "Topology", "UnreadableTopology", "compare",
                                  "observe", "resolve", "GpumapError"])  # fmt: skip
def test_the_names_of_the_contract_are_there(name: str) -> None:
    assert name in gpumap_widgets.__all__


@pytest.mark.parametrize("name", [name for name in modules() if name and name != "live.probe"])
def test_every_module_can_be_imported(name: str) -> None:
    module = importlib.import_module(f"{PACKAGE}.{name}")
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), public


def test_all_modules_are_found() -> None:
    walked = {info.name.removeprefix(f"{PACKAGE}.") for info in pkgutil.walk_packages([str(ROOT)], f"{PACKAGE}.")}
    assert walked == {name for name in modules() if name}


def test_the_package_says_its_version_and_is_typed() -> None:
    assert gpumap_widgets.__version__
    assert (ROOT / "py.typed").exists()
