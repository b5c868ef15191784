"""Ray and dask-cuda: workers that get a list of GPUs each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Step
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .expanding import expanding
from .options import Option, Options
from .ray_slots import NodePool, original_ids, python_set
from .shapes import AMOUNTS, TEXT, TEXT_OR_NUMBER, amount_of, facts, number_of, older, shaped, whole
from .telling import Teller, crowd
from .words import Word

_SOURCE = (
    "ray 2.60.0 _private/worker.py, _private/utils.py, accelerators/nvidia_gpu.py, resource_and_label_spec.py; run"
)
_tell = Teller("launcher", _SOURCE)
_NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
_ZERO = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
_TRUE = ("1", "true", "yes", "on")
_ZERO_KEPT_SINCE = (2, 56, 0)
"""ray-project/ray pull request 62492, in 2.56.0 and not in 2.55.0 (read): a task without GPUs keeps what it inherits."""
_TRAIN = "ray 2.60.0 train/torch/config.py: share_cuda_visible_devices is true; read"
_train = Teller("launcher", _TRAIN)


def ray(
    actors: Sequence[float] = (1,),
    *,
    num_gpus: int | None = None,
    kind: str = "actor",
    version: str | None = None,
) -> Layer:
    """Actors (or tasks) of Ray on one node: ``actors`` is the ``num_gpus`` that each asks for, ``[1, 1]`` or ``[0.5]``.

    ``num_gpus``: of ``ray.init`` or ``ray start``; None counts. ``kind``: ``actor`` or ``task``, for their names.
    ``version``: of Ray.
    """
    options = {"actors": list(actors), "num_gpus": num_gpus, "kind": kind, "ray": version}
    return Layer("ray", {key: value for key, value in options.items() if value is not None})


def ray_train(num_workers: int = 1, *, gpus_per_worker: float = 1, num_gpus: int | None = None) -> Layer:
    """``TorchTrainer(scaling_config=ScalingConfig(num_workers=n, use_gpu=True))`` on one node.

    Every worker's list is the union of those of the node's workers. ``num_gpus``: as in `ray`.
    """
    options = {"actors": [gpus_per_worker] * num_workers, "num_gpus": num_gpus}
    return Layer("ray_train", {key: value for key, value in options.items() if value is not None})


_RAY_OPTIONS = Options(
    [
        Option("--num-gpus", key="num_gpus"),
        Option("--head --block --no-monitor --disable-usage-stats --include-dashboard -v --verbose -y --yes --help", 0),
        Option("--address --port --num-cpus --resources --labels --node-ip-address --dashboard-host --dashboard-port"),
        Option("--object-store-memory --memory --temp-dir --redis-password --redis-username --min-worker-port"),
        Option(
            "--max-worker-port --worker-port-list --ray-client-server-port --node-manager-port --object-manager-port"
        ),
        Option("--plasma-directory --object-spilling-directory --autoscaling-config --metrics-export-port --node-name"),
    ],
)


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    """``ray start``: the command tells how many GPUs the node offers, not who asks for them."""
    if len(words) < 2 or words[1].text != "start":
        return Recognised(())
    found = _RAY_OPTIONS.parse(words[2:], mixed=True)
    actors = assume.get("actors")
    if isinstance(actors, str | int | float):  # as a person writes facts: actors=1,0.5
        actors = [amount_of(part) for part in str(actors).split(",")]
    known = facts({**assume, "actors": actors}, actors=AMOUNTS, ray=TEXT)
    return Recognised((Layer("ray", found.options(("num_gpus",)) | known),))


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    placed = _placed(view, options, topology, _tell)
    if isinstance(placed, Outcome):
        return placed
    said, slots = placed
    noset = view.env.get(_NOSET, "").lower() in _TRUE
    kind = str(options.get("kind", "actor"))
    views = []
    for k, held in enumerate(slots):
        worker = replace(view, worker=f"{kind} {k}", rank=None, local_rank=None)
        views.append(_listed(worker, held, options, noset=noset))
    if noset:
        said.append(_tell.step("step.ray.noset", name=_NOSET))
    if any(not held for held in slots) and not noset:
        said.append(_tell.step("step.ray.zero"))
    if any(len(held) > 1 for held in slots) and CUDA_VISIBLE_DEVICES in view.env and not noset:
        said.append(_tell.step("step.ray.varies", Certainty.UNKNOWN))
    return Outcome(tuple(views), tuple(said))


def _placed(
    view: View, options: Mapping[str, Any], topology: Topology, tell: Teller
) -> tuple[list[Step], list[tuple[int, ...]]] | Outcome:
    """Which of the node's slots each worker holds."""
    ids = original_ids(view)
    detected = len(topology.gpus if view.accessible is None else view.accessible)
    count = number_of(options.get("num_gpus"))
    if count is None and "num_gpus" in options:
        return tell.refused("error.ray.number", asked=str(options["num_gpus"]))
    if count is not None and ids is not None and count > len(ids):
        return tell.refused("error.ray.num-gpus", asked=count, ids=",".join(ids))
    if count is not None and count < 0:
        return tell.refused("error.ray.negative", asked=count)
    counted = min(detected, len(ids)) if ids is not None else detected
    count = counted if count is None else count
    crowded = crowd(max(count, len(options.get("actors", ()))))
    if crowded is not None:
        return crowded
    said = [tell.step("step.ray.node", count=count)]
    actors = options.get("actors")
    if actors is None:
        actors = (1,) * count
        said.append(tell.step("step.ray.assumed", Certainty.UNKNOWN, count=count))
    if not actors:
        return tell.refused("error.ray.nobody", tuple(said))
    if any(amount > 1 and amount != int(amount) for amount in actors):
        return tell.refused("error.ray.fraction", tuple(said))
    pool = NodePool(count)
    slots = []
    for k, amount in enumerate(actors):
        held = pool.take(amount)
        if held is None:
            return tell.refused("error.ray.pending", tuple(said), Certainty.LIKELY, worker=k, asked=f"{amount:g}")
        slots.append(held)
    return said, slots


def _listed(view: View, held: tuple[int, ...], options: Mapping[str, Any], *, noset: bool) -> View:
    """The list that Ray sets for one worker. A set has no order: with several entries it varies from run to run."""
    if not held:
        emptied = older(options.get("ray"), _ZERO_KEPT_SINCE)
        emptied = view.env[_ZERO].lower() in _TRUE if _ZERO in view.env else emptied
        return view if noset or not emptied else replace(view.with_env({CUDA_VISIBLE_DEVICES: ""}), chosen=())
    if noset:
        return view
    ids = original_ids(view)
    if ids is None:
        return view.with_env({CUDA_VISIBLE_DEVICES: ",".join(map(str, python_set(held)))})
    inside = all(slot < len(ids) for slot in held)
    entries = list(dict.fromkeys(ids[slot] for slot in held)) if inside else list(dict.fromkeys(ids))
    listed = view.with_env({CUDA_VISIBLE_DEVICES: ",".join(entries)})
    return listed.doubted(Certainty.UNKNOWN) if len(entries) > 1 else listed


def _apply_train(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    placed = _placed(view, options, topology, _train)
    if isinstance(placed, Outcome):
        return placed
    said, slots = placed
    ids = original_ids(view)
    named = [[str(slot) if ids is None or slot >= len(ids) else ids[slot] for slot in held] for held in slots]
    named.sort(key=lambda held: min(map(_by_number, held), default=(0, "")))
    union = sorted({name for held in named for name in held}, key=_by_number if ids is None else None)
    if union:
        view = view.with_env({CUDA_VISIBLE_DEVICES: ",".join(union)})
    views = []
    for k, held in enumerate(named):
        ranks = {"RANK": k, "LOCAL_RANK": k, "WORLD_SIZE": len(named), "LOCAL_WORLD_SIZE": len(named)}
        worker = view.with_env({name: str(value) for name, value in ranks.items()})
        chosen = tuple(union.index(name) for name in held)
        views.append(replace(worker, rank=k, local_rank=k, chosen=chosen, worker=f"worker {k}"))
    said.append(_train.step("step.ray.train", Certainty.LIKELY, value=",".join(union)))
    return Outcome(tuple(views), tuple(said))


def _by_number(name: str) -> tuple[int, str]:
    number = whole(name)
    return (10**9, name) if number is None else (number, "")


RAY_SHAPE = shaped(actors=AMOUNTS, num_gpus=TEXT_OR_NUMBER, kind=TEXT, ray=TEXT)
ROWS: Mapping[str, LayerRow] = {
    "ray": LayerRow(expanding(_apply), _SOURCE, RAY_SHAPE, programs=("ray",), recognise=_recognise),
    "ray_train": LayerRow(_apply_train, _TRAIN, RAY_SHAPE),
}
