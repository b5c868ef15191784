"""vLLM: which CUDA ordinal each worker takes. It reads numbers in CUDA_VISIBLE_DEVICES as NVML indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..mapping import Process, Step
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .cuda import process_of
from .expanding import expanding
from .options import Option, Options
from .serving_options import VLLM_SWITCHES, VLLM_VALUES
from .settings import read_settings
from .shapes import TEXT, TEXT_OR_NUMBER, facts, number_of, older, shaped, texts_of, whole
from .telling import Teller, crowd
from .words import Word

SOURCE = "vllm 0.33.0 v1/worker/gpu_worker.py, platforms/interface.py, platforms/cuda.py, engine/arg_utils.py; 0.20.1 to 0.26.0; read"
_tell = Teller("framework", SOURCE)
_IDS_SINCE = (0, 24, 0)
"""vllm-project/vllm pull request 45026: --device-ids and UUIDs are in 0.24.0, not in 0.23.0 (read)."""
_GPU = {
    "tp": "--tensor-parallel-size -tp",
    "pp": "--pipeline-parallel-size -pp",
    "pcp": "--prefill-context-parallel-size -pcp",
    "dp": "--data-parallel-size -dp",
    "dp_local": "--data-parallel-size-local -dpl",
    "nnodes": "--nnodes -n",
    "node_rank": "--node-rank -r",
    "device_ids": "--device-ids",
    "backend": "--distributed-executor-backend",
    "config": "--config",
}
_HARMLESS = ("node_rank", "config")
_COUNTS = ("tp", "pp", "pcp", "dp", "dp_local", "nnodes", "node_rank")
_OPTIONS = Options(
    [
        *(Option(names, 1, key) for key, names in _GPU.items()),
        *(Option(f"--{name} --no-{name}", 0) for name in VLLM_SWITCHES.split()),
        *(Option(f"--{name}") for name in VLLM_VALUES.split()),
        Option("-dcp -dpn -dpr -dpa -dpp -dpb -q -O -cc -ac -asc -sc"),
        Option("-dph -dpe -ep -h --help", 0),
    ],
    abbreviate=True,
    cluster=False,
    underscores=True,
)


def vllm(
    tensor_parallel: int = 1,
    *,
    pipeline_parallel: int = 1,
    data_parallel: int = 1,
    device_ids: str | None = None,
    backend: str | None = None,
    version: str | None = None,
    **options: Any,
) -> Layer:
    """``vllm serve`` or ``LLM(…)``: one worker a GPU, ``tensor_parallel`` × ``pipeline_parallel`` × ``data_parallel``.

    ``device_ids``: a list as text, numbers or UUIDs, since vLLM 0.24. ``backend``: ``mp``, ``ray``, … ``version``: of
    vLLM. Others: ``nnodes``, ``node_rank``, ``dp_local`` (engines on this node).
    """
    given = {"tp": tensor_parallel, "pp": pipeline_parallel, "dp": data_parallel, "device_ids": device_ids}
    given |= {"backend": backend, "vllm": version, **options}
    return Layer("vllm", {key: value for key, value in given.items() if value is not None})


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    rest = words[1:]
    if words[0].text.rpartition("/")[2] == "vllm":
        if not rest or rest[0].text != "serve":
            return Recognised(())
        rest = rest[1:]
    found = _OPTIONS.parse(rest, mixed=True)
    path, files = found.text("config"), texts_of(assume, "files")
    plain = {key: value for key, value in found.options(_GPU).items() if key != "config"}
    options = {**_from_file(files.get(path or "", "")), **plain, **facts(assume, vllm=TEXT)}
    return Recognised((Layer("vllm", options),))


def _from_file(text: str) -> dict[str, Any]:
    """``--config file.yaml``: the same options by their long names."""
    plain = {name.replace("_", "-"): value for name, value in (read_settings(text) or {}).items()}
    found = {key: plain.get(names.split()[0].removeprefix("--")) for key, names in _GPU.items()}
    return {key: value for key, value in found.items() if TEXT_OR_NUMBER.fits(value)}


class _Engine(NamedTuple):
    """What the flags say."""

    world: int
    """Workers of one engine."""
    local: int
    """Those of them on this node."""
    engines: int
    """Engines on this node."""


def _engine(options: Mapping[str, Any]) -> _Engine | Outcome:
    counts: dict[str, int] = {}
    for key in ("tp", "pp", "pcp", "dp", "nnodes"):
        number = number_of(options.get(key, 1))
        if number is None or number < 1:
            return _tell.refused("error.vllm.count", option=_GPU[key].split()[0], asked=str(options[key]))
        counts[key] = number
    world = counts["tp"] * counts["pp"] * counts["pcp"]
    here = number_of(options.get("dp_local"))
    engines = counts["dp"] if here is None else here
    local = world // counts["nnodes"] if counts["dp"] == 1 else world
    if local < 1 or engines < 1:
        return _tell.refused("error.vllm.nobody", world=world, nodes=counts["nnodes"])
    return _Engine(world, local, engines)


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    engine = _engine(options)
    if isinstance(engine, Outcome):
        return engine
    crowded = crowd(engine.local * max(engine.engines, 0))
    if crowded is not None:
        return crowded
    process = process_of(topology, view)
    numbers = _Numbers(view, options, topology, process)
    if isinstance(numbers.refusal, Outcome):
        return numbers.refusal
    ray = str(options.get("backend", "")).lower() == "ray"
    count = len(process.devices)
    if not ray and count < engine.local and "nnodes" not in options:
        return _tell.refused("error.vllm.world", world=engine.local, count=count)
    said = [_tell.step("step.vllm", count=engine.local * engine.engines)]
    if ray:
        said.append(_tell.step("step.vllm.ray", Certainty.UNKNOWN))
    if len({gpu.name for gpu in topology.gpus}) > 1 and view.env.get(CUDA_DEVICE_ORDER) != "PCI_BUS_ID":
        said.append(_tell.step("step.vllm.warns"))
    views, own = [], []
    for k in range(engine.local * engine.engines):
        ordinal = numbers.ordinal(k, engine)
        if isinstance(ordinal, Outcome):
            return ordinal
        name = f"engine {k // engine.local}, rank {k % engine.local}" if engine.engines > 1 else ""
        worker = replace(view, rank=k, local_rank=k, chosen=(ordinal,), worker=name)
        views.append(worker.doubted(Certainty.UNKNOWN) if ray else worker)
        own.append(numbers.asked(k, ordinal))
    return Outcome(tuple(views), tuple(said), tuple(own))


class _Numbers:
    """vLLM's three kinds of numbers: its own ranks, the ordinals of this process, and NVML indices."""

    def __init__(self, view: View, options: Mapping[str, Any], topology: Topology, process: Process) -> None:
        self._topology, self._process = topology, process
        self._nvml = process.order.places if view.accessible is None else view.accessible
        self._nvml = tuple(sorted(self._nvml))
        listed = view.env.get(CUDA_VISIBLE_DEVICES, "")
        ids = options.get("device_ids")
        old = older(options.get("vllm"), _IDS_SINCE)
        self.refusal: Outcome | None = None
        self._listed: list[int] | None = None
        self._assigned: list[int] | None = None
        if old and ids is not None:
            self.refusal = _tell.refused("error.vllm.no-device-ids", version=options["vllm"])
        if listed and self.refusal is None:
            self._listed = self._physical(listed.split(","), old=old)
        if ids is not None and self.refusal is None and str(options.get("backend", "")).lower() != "ray":
            self._assign([part.strip() for part in str(ids).split(",")])

    def _physical(self, entries: list[str], *, old: bool = False) -> list[int] | None:
        """``device_control_id_to_physical_device_id``: a number as it is, a UUID as its NVML index."""
        found = []
        for entry in entries:
            number = whole(entry)
            number = self._index(entry) if number is None and not old else number
            if number is None:
                key = "error.vllm.int" if old else "error.vllm.uuid"
                self.refusal = _tell.refused(key, asked=entry)
                return None
            found.append(number)
        return found

    def _index(self, uuid: str) -> int | None:
        """``nvmlDeviceGetHandleByUUID`` and ``nvmlDeviceGetIndex``; NVML wants the whole UUID."""
        for index, position in enumerate(self._nvml):
            gpu = self._topology.gpus[position]
            if gpu.uuid and gpu.uuid.lower() == uuid.lower():
                return index
            for number, instance in enumerate(gpu.mig_instances):
                if instance.uuid and instance.uuid.lower() == uuid.lower():
                    return number
        return None

    def _assign(self, ids: list[str]) -> None:
        """``_resolve_device_ids``."""
        if len(set(ids)) != len(ids):
            self.refusal = _tell.refused("error.vllm.duplicates", asked=",".join(ids))
            return
        plain = [whole(one) for one in ids if one.isdigit()]
        if 0 < len(plain) < len(ids):
            self.refusal = _tell.refused("error.vllm.mixed")
            return
        if not plain:
            self._assigned = self._physical(ids)
            return
        numbers = [number for number in plain if number is not None]
        if self._listed is None:
            self._assigned = numbers
            return
        beyond = [number for number in numbers if number >= len(self._listed)]
        if beyond or len(numbers) < len(plain):
            asked = str(beyond[0] if beyond else ids[0])
            self.refusal = _tell.refused("error.vllm.range", asked=asked, count=len(self._listed))
            return
        self._assigned = [self._listed[number] for number in numbers]

    def _logical(self, k: int) -> int | None:
        """The NVML index that rank k stands for."""
        held = self._assigned if self._assigned is not None else self._listed
        return k if held is None else held[k] if k < len(held) else None

    def ordinal(self, k: int, engine: _Engine) -> int | Outcome:
        """The CUDA ordinal that rank k takes, or why it takes none."""
        physical = self._logical(k)
        if physical is None and self._assigned is not None:
            return _tell.refused("error.vllm.few-ids", asked=len(self._assigned), count=engine.local * engine.engines)
        if physical is None or (self._assigned is None and k >= len(self._process.devices)):
            return _tell.refused("error.vllm.bounds", rank=k, count=len(self._process.devices))
        if self._listed is None:
            return physical
        if physical not in self._listed:
            return _tell.refused("error.vllm.hidden", asked=physical, rank=k)
        return self._listed.index(physical)

    def asked(self, k: int, ordinal: int) -> tuple[Step, ...]:
        """What it says where NVML is asked about another GPU than the work runs on."""
        physical = self._logical(k)
        if physical is None or physical >= len(self._nvml) or ordinal >= len(self._process.devices):
            return ()
        asked, used = self._topology.gpus[self._nvml[physical]], self._process.devices[ordinal].gpu
        if asked is used:
            return ()
        fields: dict[str, Any] = {
            "index": physical,
            "asked": asked.short_name,
            "ordinal": ordinal,
            "used": used.short_name,
        }
        return (_tell.step("step.vllm.other-gpu", **fields),)


def _believed(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: ``--device-ids`` are the numbers of nvidia-smi."""
    outcome = _apply(view.with_env({CUDA_DEVICE_ORDER: "PCI_BUS_ID"}), options, topology)
    return outcome if outcome.views else _apply(view, options, topology)


ROWS: Mapping[str, LayerRow] = {
    "vllm": LayerRow(
        expanding(_apply, _HARMLESS),
        SOURCE,
        shaped(**dict.fromkeys(_COUNTS, TEXT_OR_NUMBER), device_ids=TEXT_OR_NUMBER, backend=TEXT, vllm=TEXT),
        "framework",
        programs=("vllm", "-m vllm.entrypoints.openai.api_server", "-m vllm.entrypoints.api_server"),
        recognise=_recognise,
        believed=expanding(_believed, _HARMLESS),
    ),
}
