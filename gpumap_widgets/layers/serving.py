"""SGLang: CUDA ordinals from a base and a step, or one visible GPU a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .expanding import expanding
from .options import Option, Options
from .serving_options import SGLANG_SWITCHES, SGLANG_VALUES
from .shapes import SWITCH, TEXT_OR_NUMBER, number_of, shaped
from .telling import Teller, crowd
from .words import Word

_SOURCE = "sglang 0.5.23 entrypoints/engine.py, managers/data_parallel_controller.py and platforms/cuda.py, read"
_tell = Teller("framework", _SOURCE)
ONE_VISIBLE = "SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS"
_TRUE = ("true", "1", "yes", "y", "on", "t")
_GPU = {
    "tp": "--tp-size --tensor-parallel-size --tp",
    "pp": "--pp-size --pipeline-parallel-size --pp",
    "dp": "--dp-size --data-parallel-size --dp",
    "attn_dp": "--attn-dp-size --attention-data-parallel-size",
    "base_gpu_id": "--base-gpu-id",
    "gpu_id_step": "--gpu-id-step",
    "nnodes": "--nnodes",
    "node_rank": "--node-rank",
}
_OPTIONS = Options(
    [
        *(Option(names, 1, key) for key, names in _GPU.items()),
        Option("--enable-dp-attention", 0, "dp_attention"),
        *(Option(f"--{name}", 0) for name in SGLANG_SWITCHES.split()),
        *(Option(f"--{name}") for name in SGLANG_VALUES.split()),
        Option("-h", 0),
    ],
    abbreviate=True,
    cluster=False,
)


def sglang(
    tensor_parallel: int = 1,
    *,
    pipeline_parallel: int = 1,
    data_parallel: int = 1,
    base_gpu_id: int = 0,
    gpu_id_step: int = 1,
    one_visible: bool | None = None,
    **options: Any,
) -> Layer:
    """``python -m sglang.launch_server``: one scheduler process a GPU.

    ``base_gpu_id`` and ``gpu_id_step`` as its flags have them. ``one_visible``: SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS;
    None leaves it to the environment. Others: ``nnodes``, ``node_rank``, ``dp_attention``.
    """
    given: dict[str, Any] = {"tp": tensor_parallel, "pp": pipeline_parallel, "dp": data_parallel}
    given |= {"base_gpu_id": base_gpu_id}
    given |= {"gpu_id_step": gpu_id_step, "one_visible": one_visible, **options}
    return Layer("sglang", {key: value for key, value in given.items() if value is not None})


def _recognise(words: tuple[Word, ...], _: Mapping[str, Any]) -> Recognised:
    rest = words[1:]
    if words[0].text.rpartition("/")[2] == "sglang":
        if not rest or rest[0].text != "serve":
            return Recognised(())
        rest = rest[1:]
    found = _OPTIONS.parse(rest, mixed=True)
    return Recognised((Layer("sglang", found.options(_GPU, ("dp_attention",))),))


def _apply(view: View, options: Mapping[str, Any], _: Topology) -> Outcome:
    counts: dict[str, int] = {}
    for key, names in _GPU.items():
        least = 0 if key in ("base_gpu_id", "node_rank") else 1
        number = number_of(options.get(key, least))
        if number is None or number < least:
            return _tell.refused("error.sglang.number", option=names.split()[0], asked=str(options[key]))
        counts[key] = number
    shared = bool(options.get("dp_attention")) or counts["attn_dp"] > 1
    groups = 1 if shared else counts["dp"]
    crowded = crowd(counts["tp"] * counts["pp"] * groups)
    if crowded is not None:
        return crowded
    ids = [gpu_id for group in range(groups) for gpu_id in _gpu_ids(counts, group)]
    if not ids:
        return _tell.refused("error.sglang.nobody", tp=counts["tp"], pp=counts["pp"], nodes=counts["nnodes"])
    one = options.get("one_visible")
    one = view.env.get(ONE_VISIBLE, "").lower() in _TRUE if one is None else one
    return _one_visible(view, ids) if one else _plain(view, ids)


def _gpu_ids(counts: Mapping[str, int], group: int) -> Iterator[int]:
    """CUDA ordinals of one data-parallel group on this node. The step does not apply to the pipeline's part."""
    nodes, tp, pp = counts["nnodes"], counts["tp"], counts["pp"]
    pipes, spread = max(pp // nodes, 1), max(nodes // pp, 1)
    width = tp // spread
    start = counts["base_gpu_id"] + group * tp * pp * counts["gpu_id_step"]
    for pipe in range(pipes):
        yield from (start + pipe * width + k * counts["gpu_id_step"] for k in range(width))


def _plain(view: View, ids: list[int]) -> Outcome:
    views = tuple(replace(view, rank=k, local_rank=k, chosen=(gpu_id,)) for k, gpu_id in enumerate(ids))
    return Outcome(views, (_tell.step("step.sglang", count=len(ids), ids=", ".join(map(str, ids))),))


def _one_visible(view: View, ids: list[int]) -> Outcome:
    """``reindex_device_id``: each process gets one entry of the list, as its cuda:0."""
    listed = view.env.get(CUDA_VISIBLE_DEVICES, "")
    entries = listed.split(",") if listed else None
    if entries is not None and max(ids) >= len(entries):
        return _tell.refused("error.sglang.index", asked=max(ids), value=listed)
    given = [str(gpu_id) if entries is None else entries[gpu_id] for gpu_id in ids]
    views = [view.with_env({CUDA_VISIBLE_DEVICES: entry}) for entry in given]
    warned = view.env.get(CUDA_DEVICE_ORDER) != "PCI_BUS_ID"
    said = (_tell.step("step.sglang.one-warns" if warned else "step.sglang.one", count=len(ids)),)
    return Outcome(tuple(replace(one, rank=k, local_rank=k, chosen=(0,)) for k, one in enumerate(views)), said)


ROWS: Mapping[str, LayerRow] = {
    "sglang": LayerRow(
        expanding(_apply, ("node_rank",)),
        _SOURCE,
        shaped(**dict.fromkeys(_GPU, TEXT_OR_NUMBER), dp_attention=SWITCH, one_visible=SWITCH),
        "framework",
        programs=("-m sglang.launch_server", "sglang"),
        recognise=_recognise,
    ),
}
