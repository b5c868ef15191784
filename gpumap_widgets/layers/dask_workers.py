"""dask-cuda: every worker sees the whole list, rotated so that its own GPU comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Message
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .options import Option, Options
from .shapes import NUMBER, SWITCH, TEXT, shaped, whole
from .telling import Teller, crowd, quoted
from .words import Word

_SOURCE = "dask-cuda 26.10.0 utils.py cuda_visible_devices, run; local_cuda_cluster.py new_worker_spec and cuda_worker.py, read"
_tell = Teller("launcher", _SOURCE)
_OPTIONS = Options(
    [
        Option("--scheduler-file --tls-ca-file --tls-cert --tls-key --host --worker-port --listen-address --name"),
        Option("--contact-address --nthreads --memory-limit --device-memory-limit --rmm-pool-size --pid-file"),
        Option("--rmm-maximum-pool-size --set-rmm-allocator-for-libs --rmm-release-threshold --rmm-log-directory"),
        Option("--resources --dashboard-address --local-directory --protocol --interface --preload --death-timeout"),
        Option("--dashboard-prefix --worker-class --pre-import --multiprocessing-method --enable-cudf-spill", 1),
        Option("--disable-cudf-spill --rmm-managed-memory --no-rmm-managed-memory --rmm-async --no-rmm-async", 0),
        Option("--rmm-track-allocations --no-rmm-track-allocations --dashboard --no-dashboard --cudf-spill-stats", 0),
        Option("--enable-tcp-over-ucx --disable-tcp-over-ucx --enable-infiniband --disable-infiniband --help", 0),
        Option("--enable-nvlink --disable-nvlink --enable-rdmacm --disable-rdmacm", 0),
    ]
)


def dask_cuda(
    n_workers: int | None = None,
    *,
    visible: str | Sequence[int | str] | None = None,
    cluster: bool = True,
) -> Layer:
    """``LocalCUDACluster(n_workers=…, CUDA_VISIBLE_DEVICES=…)``; with ``cluster=False`` ``dask cuda worker``.

    ``visible``: the argument CUDA_VISIBLE_DEVICES, a text or a list; None takes the environment.
    """
    text = visible if visible is None or isinstance(visible, str) else ",".join(map(str, visible))
    options = {"n_workers": n_workers, "visible": text, "cluster": cluster}
    return Layer("dask_cuda", {key: value for key, value in options.items() if value is not None})


def _recognise(words: tuple[Word, ...], _: Mapping[str, Any]) -> Recognised:
    rest = words[1:]
    if words[0].text.rpartition("/")[2] == "dask":
        if [word.text for word in rest[:2]] != ["cuda", "worker"]:
            return Recognised(())
        rest = rest[2:]
    found = _OPTIONS.parse(rest, mixed=True)
    more = {"unrecognised": found.unrecognised} if found.unrecognised else {}
    return Recognised((Layer("dask_cuda", {"cluster": False, **more}),))


def rotated(entries: Sequence[int | str], start: int) -> str:
    """``cuda_visible_devices(i, visible)``: the list from place ``start`` on, then what stood before."""
    return ",".join(map(str, [*entries[start:], *entries[:start]]))


def _parsed(text: str) -> list[int | str] | Message:
    """``parse_cuda_visible_device`` for each entry: whole numbers, and texts that begin like a UUID."""
    entries: list[int | str] = []
    for entry in text.split(","):
        number = whole(entry)
        if number is None and not entry.startswith(("GPU-", "MIG-")):
            return Message("error.dask.entry", FrozenDict({"entry": quoted(entry)}))
        entries.append(entry if number is None else number)
    return entries


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    cluster = options.get("cluster") is not False
    given = options.get("visible") if cluster else None
    text = given if given is not None else view.env.get(CUDA_VISIBLE_DEVICES)
    detected = len(topology.gpus if view.accessible is None else view.accessible)
    entries: list[int | str] | Message = list(range(detected)) if text is None else _parsed(str(text))
    if isinstance(entries, Message):
        return Outcome((), error=entries)
    wanted = options.get("n_workers") if cluster else None
    count = len(entries) if wanted is None else wanted
    if count < 1:
        return _tell.refused("error.dask.none")
    crowded = crowd(count)
    if crowded is not None:
        return crowded
    starts = _cluster_starts(entries, count) if cluster else list(range(count))
    if starts is None:
        return _tell.refused("error.dask.scale", (), Certainty.LIKELY, devices=rotated(entries, 0))
    key = "step.dask.cluster" if starts != list(range(count)) else "step.dask"
    views = [view.with_env({CUDA_VISIBLE_DEVICES: rotated(entries, start)}) for start in starts]
    named = tuple(replace(one, chosen=(0,), worker=f"worker {k}") for k, one in enumerate(views))
    return Outcome(named, (_tell.step(key, count=count),))


def _cluster_starts(entries: list[int | str], count: int) -> list[int] | None:
    """Where each worker's list begins: the cluster names workers by entry and takes the smallest name that is free.

    None where it cannot: more workers than different entries, or numbers beside UUIDs, which Python cannot compare.
    """
    kinds = {type(entry) for entry in entries}
    free = set(entries)
    if count > len(free) or (len(kinds) > 1 and count > 0):
        return None
    numbers: list[int | str] = sorted(entry for entry in free if isinstance(entry, int))
    texts: list[int | str] = sorted(entry for entry in free if isinstance(entry, str))
    return [entries.index(name) for name in (numbers or texts)[:count]]


ROWS: Mapping[str, LayerRow] = {
    "dask_cuda": LayerRow(
        _apply,
        _SOURCE,
        shaped(n_workers=NUMBER, visible=TEXT, cluster=SWITCH),
        programs=("dask", "dask-cuda-worker", "-m dask_cuda.cli"),
        recognise=_recognise,
    ),
}
