"""Whatever the words and the options: layers of the table never raise, and say what they say in whole sentences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumap_widgets.layers import LAYERS, fold
from gpumap_widgets.layers.base import LayerRow, View
from gpumap_widgets.layers.words import Word
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Gpu, Topology
from tests.conftest import MIXED, SOAK, equal, split
from tests.test_layers import PLAIN, cases

MACHINES = (MIXED, equal(8), split(), Topology(), Topology((Gpu(None, "what"), Gpu(3, "Tesla T4"))))
COMMANDS = {kind: row for kind, row in LAYERS.items() if row.recognise is not None}
UUID = "GPU-b1e18600-0000-4000-8000-000000000001"
TEXTS = st.one_of(
    st.sampled_from(["", "0", "1", "2,0", "-1", "all", "auto", "gpu", UUID, "MIG-x", "localhost:1", "a:1@b", "CUDA1", "none", "999999999999", "1e9", "½", "٣", "\x00", "{x}", "%s", "${RANK}", "a=b"]),
    st.text(max_size=12),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.integers(-2, 12), st.booleans(), st.none(), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
NAMES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK", "RANK", "WORLD_SIZE", "GROUP_RANK", "PET_NPROC_PER_NODE"),
    *("PET_NNODES", "PET_VIRTUAL_LOCAL_RANK", "SLURM_LOCALID", "SLURM_NTASKS", "GGML_CUDA_DEVICES", "LLAMA_ARG_MAIN_GPU"),
    *("OLLAMA_SCHED_SPREAD", "TF_MIN_GPU_MULTIPROCESSOR_COUNT", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"),
)  # fmt: skip
ENVIRONMENTS = st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=4)
EXAMPLES = settings(max_examples=800 if SOAK else 40, deadline=None)


def seen_options(kind: str) -> dict[str, list[Any]]:
    """Every option that a case of this kind has, with its values."""
    found: dict[str, list[Any]] = {}
    for case in cases():
        layers = (
            case.given
            if not isinstance(case.given, str)
            else Scenario.from_command(case.machine, case.given, case.env, case.assume).layers
        )
        for layer in layers:
            for key, value in layer.options.items() if layer.kind == kind else ():
                found.setdefault(key, []).append(value)
    return found


def apply_safely(row: LayerRow, layer: Layer, env: dict[str, str], machine: Topology) -> None:
    """Apply a layer and what people believe of it, and say all of it."""
    if row.problem(layer.options) is not None:
        return
    view = View().with_env(env)
    for apply in filter(None, (row.apply, row.believed)):
        outcome = apply(view, layer.options, machine)
        assert outcome.views or outcome.error is not None or layer.kind in PLAIN
        assert len(outcome.own) in (0, len(outcome.views))
        assert all(str(step) for step in outcome.steps)
        assert all(str(step) for own in outcome.own for step in own)
        assert outcome.error is None or str(outcome.error)


@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_no_options_make_a_layer_raise(kind: str) -> None:
    row, seen = LAYERS[kind], seen_options(kind)

    @EXAMPLES
    @given(
        st.fixed_dictionaries({}, optional={k: st.one_of(st.sampled_from(v), st.sampled_from(v), VALUES) for k, v in seen.items()}),
        ENVIRONMENTS,
        st.sampled_from(MACHINES),
    )  # fmt: skip
    def run(options: dict[str, Any], env: dict[str, str], machine: Topology) -> None:
        apply_safely(row, Layer(kind, options), env, machine)

    run()


def vocabulary(kind: str) -> list[Word]:
    """The words of all cases of a kind that are commands."""
    found = {
        word for case in cases() if isinstance(case.given, str) and case.kind == kind for word in case.given.split()
    }
    return [Word(word) for word in sorted(found)] or [Word("-x")]


@pytest.mark.parametrize("kind", sorted(COMMANDS))
def test_no_words_make_a_layer_raise(kind: str) -> None:
    row, known = COMMANDS[kind], vocabulary(kind)
    assert row.recognise is not None
    recognise = row.recognise
    names = [Word(program.split()[-1]) for program in row.programs]
    assumed = st.dictionaries(
        st.sampled_from(["torch", "deepspeed", "vllm", "ray", "set_device", "device_offset", "cpus", "files", "actors", "fits", "node_rank", "script"]),
        st.one_of(VALUES, st.just({"hosts": "a slots=2"})),
        max_size=3,
    )  # fmt: skip

    @EXAMPLES
    @given(st.sampled_from(names), st.lists(st.one_of(st.sampled_from(known), st.builds(Word, TEXTS, st.booleans(), st.booleans())), max_size=9), assumed, ENVIRONMENTS)  # fmt: skip
    def run(name: Word, words: list[Word], facts: dict[str, Any], env: dict[str, str]) -> None:
        found = recognise((name, *words), facts)
        for layer in found.layers:
            assert layer.kind in LAYERS
            assert LAYERS[layer.kind].problem(layer.options) is None, layer
            apply_safely(LAYERS[layer.kind], layer, env, MIXED)
            scenario = Scenario(MIXED, found.layers)
            assert Scenario.from_json(scenario.to_json()) == scenario

    run()


@EXAMPLES
@given(
    st.lists(st.sampled_from([case for case in cases() if not isinstance(case.given, str)]), min_size=2, max_size=3),
    st.sampled_from(MACHINES),
)
def test_layers_stack_in_any_order(chosen: list[Any], machine: Topology) -> None:
    layers = [layer for case in chosen for layer in case.given]
    prediction = resolve(Scenario(machine, tuple(layers)))
    assert prediction.processes or prediction.error
    assert all(str(step) for step in fold(machine, layers).steps[0])
