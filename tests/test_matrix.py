"""Many workers at once: the matrix as data, text, page and frame, and what a prediction of many says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.mapping import Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Gpu, Topology
from gpumap_widgets.views.matrix import HIDDEN, OUTSIDE, SEES, UNUSABLE, USES, Matrix, matrix
from gpumap_widgets.views.matrix_text import SIGNS
from gpumap_widgets.views.rows import doubt, prediction_rows, sentence
from gpumap_widgets.views.workers import MARKS, matrix_html
from tests.conftest import MIXED, equal, split
from tests.test_views import HOSTILE, Page

LOST = replace(MIXED, gpus=(*MIXED.gpus[:3], replace(MIXED.gpus[3], problem="the GPU is lost.")))


def of(command: str, machine: Topology = MIXED, **assume: Any) -> Prediction:
    return resolve(Scenario.from_command(machine, command, {}, assume))


PREDICTIONS: Mapping[str, Prediction] = {
    "torchrun": of("torchrun --nproc-per-node=4 t.py"),
    "no set_device": of("torchrun --nproc-per-node=4 t.py", set_device=False),
    "an offset": of("torchrun --nproc-per-node=4 t.py", device_offset=3),
    "virtual": of("torchrun --virtual-local-rank --nproc-per-node=4 t.py"),
    "16 ranks": of("torchrun --nproc-per-node=8 --nnodes=2 t.py", equal(8), node_rank="all"),
    "64 ranks": of("torchrun --nproc-per-node=8 --nnodes=8 t.py", equal(8), node_rank="all"),
    "64 on one": of("torchrun --nproc-per-node=64 t.py", equal(8)),
    "jobs": of("CUDA_VISIBLE_DEVICES=0,1 python a.py & CUDA_VISIBLE_DEVICES=1,0,9 python b.py & python c.py"),
    "a container": of("docker run --gpus '\"device=1,2\"' image torchrun --nproc-per-node=2 t.py"),
    "lost": of("torchrun --nproc-per-node=3 t.py", LOST),
    "mig": of("torchrun --nproc-per-node=2 t.py", split()),
    "no gpu": of("torchrun --nproc-per-node=2 t.py", Topology()),
    "bare": of("torchrun --nproc-per-node=2 t.py", Topology((Gpu(), Gpu(name="Tesla T4")))),
}


def states(shown: Matrix) -> list[list[str]]:
    """The first block as one character a cell."""
    return ["".join(SIGNS[cell.state] for cell in line.cells) for line in shown.blocks[0].lines]  # type: ignore[misc]


# ---- data ----


def test_one_worker_a_gpu() -> None:
    shown = matrix(PREDICTIONS["torchrun"])
    (block,) = shown.blocks
    assert [gpu.nvml_index for gpu in block.gpus] == [0, 1, 2, 3]
    assert [line.label for line in block.lines] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert [[cell.ordinals for cell in line.cells] for line in block.lines] == [[(1,), (0,), (2,), (3,)]] * 4
    assert [line.cells.index(next(c for c in line.cells if c.used)) for line in block.lines] == [1, 0, 2, 3]
    assert {cell.certainty for cell in shown.cells()} == {"likely"}
    assert not shown.mixed


def test_workers_that_are_alike_are_one_row() -> None:
    (line,) = matrix(PREDICTIONS["no set_device"]).blocks[0].lines
    assert line.label == "ranks 0–3"
    assert [cell.state for cell in line.cells] == [SEES, USES, SEES, SEES]
    lines = matrix(PREDICTIONS["64 on one"]).blocks[0].lines
    assert [line.label for line in lines] == [*(f"rank {k}" for k in range(8)), "ranks 8–63"]
    assert lines[-1].missing == tuple(range(8, 64))


def test_nodes_that_are_alike_are_one_block() -> None:
    shown = matrix(PREDICTIONS["64 ranks"])
    (block,) = shown.blocks
    assert len(block.lines) == 8
    assert block.lines[0].workers == tuple(f"rank {k}" for k in range(0, 64, 8))
    assert block.lines[7].label == "ranks 7, 15 … 63"
    assert block.label == "8 equal hosts: nodes 0–7"
    assert block.model == "8 × A100-SXM4-40GB"
    assert dict(block.members)["node 2"] == tuple(f"rank {k}" for k in range(16, 24))


def test_what_a_gpu_can_be_to_a_worker() -> None:
    assert states(matrix(PREDICTIONS["a container"])) == ["/* /", "/ */"]
    assert states(matrix(PREDICTIONS["lost"])) == [" * !", "*  !", "  *!"]
    assert states(matrix(PREDICTIONS["virtual"])) == ["-*--", "*---", "--*-", "---*"]
    shown = {cell.state for prediction in PREDICTIONS.values() for cell in matrix(prediction).cells()}
    assert shown == {USES, SEES, HIDDEN, OUTSIDE, UNUSABLE} == set(SIGNS) == set(MARKS)


def test_the_only_device_is_used_whatever_chooses() -> None:
    assert states(matrix(of("CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=2,3 python b.py"))) == [
        "-*--",
        "--  ",
    ]


def test_slices_of_one_gpu_stand_in_one_cell() -> None:
    first = matrix(PREDICTIONS["mig"]).blocks[0].lines[0].cells[0]
    assert len(first.ordinals) == 2
    assert first.profiles == ("3g.20gb", "2g.10gb")
    assert "*cuda:0 (3g.20gb),cuda:1 (2g.10gb)" in str(matrix(PREDICTIONS["mig"]))


def test_columns_are_in_the_order_of_nvidia_smi_and_keep_their_colours() -> None:
    turned = Topology(tuple(reversed(MIXED.gpus)))
    (block,) = matrix(of("torchrun --nproc-per-node=2 t.py", turned)).blocks
    assert [gpu.nvml_index for gpu in block.gpus] == [0, 1, 2, 3]
    assert block.positions == (3, 2, 1, 0)


def test_what_does_not_start_says_why() -> None:
    shown = matrix(of("torchrun --nproc-per-node=two t.py"))
    assert "nproc" in (shown.blocks[0].error or "")
    assert "nproc" in str(shown)
    assert "nproc" in Page(shown._repr_html_()).said


@given(st.integers(1, 12), st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from(["", "0,1", "1,0,2", "9"]))
def test_nothing_is_lost_by_drawing_together(size: int, nodes: int, virtual: bool, lazy: bool, visible: str) -> None:
    """Every worker is in exactly one row, and the row says of each GPU what the process has."""
    flags = " --virtual-local-rank" if virtual else ""
    prefix = f"CUDA_VISIBLE_DEVICES={visible} " if visible else ""
    command = f"{prefix}torchrun{flags} --nproc-per-node={size} --nnodes={nodes} t.py"
    prediction = of(command, equal(3), node_rank="all", set_device=not lazy)
    shown = matrix(prediction)
    if prediction.error is not None:
        return
    place = {worker: line for block in shown.blocks for line in block.lines for worker in line.workers}
    assert sum(len(line.workers) for block in shown.blocks for line in block.lines) == size * nodes == len(place)
    for process in prediction.processes:
        line = place[f"rank {process.rank}"]
        have = {device.position: device.ordinal for device in process.devices}
        assert [cell.ordinals for cell in line.cells] == [(have[i],) if i in have else () for i in range(3)]
        assert sorted(i for cell in line.cells for i in cell.used) == sorted(process.uses)
        assert set(process.missing) <= set(line.missing)


# ---- text, page, frame ----


@pytest.mark.parametrize("name", PREDICTIONS)
def test_text_page_and_frame_speak_of_all_workers(name: str) -> None:
    prediction = PREDICTIONS[name]
    shown = prediction.matrix()
    plain, page = str(prediction), Page(prediction._repr_html_())
    assert plain.startswith(sentence(prediction))
    assert sentence(prediction) in unescape(page.said)
    lines = [line for block in shown.blocks for line in block.lines]
    for line in lines:
        assert line.label in plain
        assert line.label in page.said
    assert page.elements["tr"] == len(lines) + len(shown.blocks)
    frame = prediction.to_frame()
    assert len(frame) == len(prediction_rows(prediction))
    assert set(frame["worker"]) == {w for line in lines for w in line.workers if prediction_rows(prediction)}
    table = shown.to_frame()
    assert list(table["workers"]) == [line.label for line in lines]
    for row, line in zip(table.itertuples(index=False), lines, strict=True):
        for text, cell in zip(row[2:], line.cells, strict=True):
            assert [f"cuda:{i}" in str(text) for i in cell.ordinals] == [True] * len(cell.ordinals)
            assert ("*" in str(text)) == bool(cell.used)


@pytest.mark.parametrize("name", PREDICTIONS)
def test_pages_are_well_formed(name: str) -> None:
    page = Page(PREDICTIONS[name]._repr_html_())
    assert not any(attribute.startswith("on") for attribute in page.attributes)
    assert len(set(page.cells)) <= 1, "every row has the cells that the head has"


def test_what_is_used_is_not_told_by_colour_alone() -> None:
    html = matrix_html(matrix(PREDICTIONS["a container"]))
    said = Page(html).said
    for state in (USES, SEES, OUTSIDE):
        assert MARKS[state] in said
    assert "used by it" in said
    assert "gpumap-sure-likely" in html
    assert "likely" in said


def test_cells_are_marked_where_some_are_surer_than_others() -> None:
    t4 = MIXED.gpus[0].uuid
    shown = matrix(of(f"CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES={t4} python b.py"))
    assert shown.mixed
    assert "*cuda:0~" in str(shown)
    assert "~ likely" in str(shown)
    assert "~" not in str(matrix(PREDICTIONS["torchrun"]))


def test_the_frame_says_who_uses_what() -> None:
    frame = PREDICTIONS["torchrun"].to_frame()
    used = frame[frame["uses"] == True]  # noqa: E712 - a column
    assert list(used["worker"]) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert list(used["nvml_index"]) == [1, 0, 2, 3]
    assert PREDICTIONS["jobs"].to_frame()["uses"].isna().all()
    assert set(PREDICTIONS["16 ranks"].to_frame()["node_rank"]) == {0, 1}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_from_outside_stays_text(text: str) -> None:
    machine = Topology((Gpu(0, text, text, "01:00.0"), Gpu(1, text, problem=text)))
    layer = Layer("jobs", {"jobs": [[{"kind": "environment", "options": {"set": {"CUDA_VISIBLE_DEVICES": text}}}]] * 2})
    prediction = resolve(Scenario(machine, (layer,)))
    page = Page(prediction._repr_html_())
    assert page.elements["script"] == page.elements["h1"] == page.elements["b"] == 0
    assert not {"onmouseover", "x"} & set(page.attributes)
    assert all(c.isprintable() or c == "\n" for c in str(prediction))
    assert all(c.isprintable() or c == "\n" for c in str(prediction.matrix()))


# ---- the sentence ----


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "torchrun",
            "4 workers: rank 0 uses cuda:0, the RTX 4090 (nvidia-smi 1, bus 86); rank 1 uses cuda:1, the Tesla",
        ),
        ("no set_device", "ranks 0–3 use cuda:0, the RTX 4090"),
        ("an offset", "ranks 1–3: the device that is asked for is not there"),
        ("64 ranks", "64 workers on 8 nodes: ranks 0, 8 … 56 use cuda:0"),
        ("64 ranks", "and 32 more"),
        ("jobs", "in job 2 cuda:0 is the Tesla T4"),
        ("no gpu", "ranks 0, 1: the device that is asked for is not there"),
        ("virtual", "rank 3 uses cuda:0, the Tesla T4 (nvidia-smi 3"),
    ],
)
def test_the_sentence(name: str, said: str) -> None:
    assert said in sentence(PREDICTIONS[name])


def test_what_nobody_sees_is_said_once() -> None:
    assert sentence(of("CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=0,1 python b.py")).endswith(
        "Hidden: 2 × Tesla T4 (nvidia-smi 2, 3)."
    )


def test_a_list_that_ends_early_is_shown_with_its_worker() -> None:
    text = str(PREDICTIONS["jobs"])
    assert "job 2:\nCUDA_VISIBLE_DEVICES=1,0,9\n" in text
    assert text.count("ends the list") == 1


def test_the_doubt_is_that_of_the_least_certain_worker() -> None:
    prediction = of("CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=010 python b.py")
    assert prediction.certainty == "unknown"
    assert "base" in doubt(prediction)
    container = of("docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=$UNSET image python t.py")
    assert container.certainty == "certain" or len(doubt(container)) > 10
