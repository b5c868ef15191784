"""What is worth saying about a scenario: a table of rules that judge a prediction. Layers state facts, rules judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from .device_order import DOCUMENTED_VALUES
from .explanation import clip, gpu_name, stop_reason
from .frozen import FrozenDict
from .layers.containers_flag import Request, read_gpus
from .layers.containers_images import NVIDIA_VISIBLE_DEVICES
from .mapping import Finding, Message, Prediction, Process, message
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, ENVIRONMENT, Layer
from .topology import Gpu

Fields = Mapping[str, Any]
_NEAR = 0.85
"""How alike two names must be to be taken for a slip."""
_OTHERS = frozenset({"NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
"""Names that look alike and are variables of their own."""


class FindingRule(NamedTuple):
    """One row: when it speaks, and with which fields. None when it has nothing to say."""

    code: str
    severity: str
    when: Callable[[Prediction, Process], Fields | None]
    remedy: bool
    source: str


def _unit(**fields: Any) -> Fields:
    return FrozenDict(fields)


def _emptied(_: Prediction, process: Process) -> Fields | None:
    stop = process.reading.stop
    if stop is None or not stop.empties:
        return None
    return _unit(value=clip(process.reading.value or ""), why=stop_reason(process))


def _cut(_: Prediction, process: Process) -> Fields | None:
    reading, stop = process.reading, process.reading.stop
    if stop is None or stop.empties:
        return None
    kept = len(reading.picks)
    return _unit(
        token=clip(reading.tokens[stop.token].text), kept=kept, named=len(reading.tokens), why=stop_reason(process)
    )


def _hides_all(_: Prediction, process: Process) -> Fields | None:
    return _unit() if process.reading.value == "" and process.order.places else None


def _undocumented_order(_: Prediction, process: Process) -> Fields | None:
    value = process.env.get(CUDA_DEVICE_ORDER)
    return _unit(value=clip(value)) if value is not None and value not in DOCUMENTED_VALUES else None


def _numbers_not_smi(prediction: Prediction, process: Process) -> Fields | None:
    """A number in the list that nvidia-smi gives to another GPU: the classic trap."""
    by_index = _by_smi(prediction, process)
    for pick, device in zip(process.reading.picks, process.devices, strict=True):
        if pick.token is None or not pick.by_number:
            continue
        meant = by_index.get(process.reading.tokens[pick.token].value)
        if meant is not None and meant is not device.gpu and meant.name != device.gpu.name:
            fields = {"number": process.reading.tokens[pick.token].value, "ordinal": device.ordinal}
            fix = f"{CUDA_VISIBLE_DEVICES}={meant.uuid}" if meant.uuid else f"{CUDA_DEVICE_ORDER}=PCI_BUS_ID"
            return _unit(**fields, gpu=gpu_name(device.gpu), meant=gpu_name(meant), fix=fix)
    return None


def _too_late(prediction: Prediction, _: Process) -> Fields | None:
    """A variable that is set when CUDA has started."""
    for layer in _environments(prediction):
        named = (
            {**layer.options.get("set", {}), **layer.options.get("default", {})} if layer.options.get("late") else {}
        )
        for name, value in named.items():
            if name in (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES):
                return _unit(name=name, value=clip(value))
    return None


def _near_miss(prediction: Prediction, _: Process) -> Fields | None:
    """A name that is nearly one of the two."""
    for layer in _environments(prediction):
        for name in (
            *layer.options.get("set", {}),
            *layer.options.get("expand", {}),
            *layer.options.get("default", {}),
        ):
            meant = get_close_matches(name.upper(), (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), 1, _NEAR)
            if meant and name not in _OTHERS and name != meant[0]:
                return _unit(name=clip(name), meant=meant[0])
    return None


def _unrecognised(prediction: Prediction, _: Process) -> Fields | None:
    """An option of a tool that its table does not know."""
    for layer in prediction.scenario.layers:
        words = layer.options.get("unrecognised") if layer.enabled else None
        if words:
            return _unit(tool=layer.kind, options=", ".join(clip(str(word), 30) for word in words[:5]))
    return None


def _environments(prediction: Prediction) -> list[Layer]:
    return [layer for layer in prediction.scenario.layers if layer.kind == ENVIRONMENT and layer.enabled]


def _by_smi(prediction: Prediction, process: Process) -> Mapping[int, Gpu]:
    """GPUs by the number that nvidia-smi shows where the process runs: in a container it counts from 0."""
    gpus = prediction.scenario.topology.gpus
    if len(process.left) < len(gpus):
        return {number: gpus[position] for number, position in enumerate(process.left)}
    return {gpu.nvml_index: gpu for gpu in gpus if gpu.nvml_index is not None}


def _host_numbers(prediction: Prediction, process: Process) -> Fields | None:
    """A number in the list that is the host's number of a GPU that is left, where fewer are left than that."""
    gpus, reading, stop = prediction.scenario.topology.gpus, process.reading, process.reading.stop
    if stop is None or stop.rule != "out-of-range" or not len(process.left) < len(gpus):
        return None
    by_host = {gpus[position].nvml_index: position for position in process.left}
    meant = [by_host.get(token.value) for token in reading.tokens if token.rule == "integer"]
    if not meant or None in meant or len(meant) < len(reading.tokens):
        return None
    named = [gpus[position] for position in meant if position is not None]
    fix = ",".join(gpu.uuid or "" for gpu in named) if all(gpu.uuid for gpu in named) else ""
    token = reading.tokens[stop.token]
    counted = {"count": len(process.left), "gpu": gpu_name(named[stop.token]), "number": token.value}
    return _unit(**counted, fix=f"{CUDA_VISIBLE_DEVICES}={fix}" if fix else f"unset {CUDA_VISIBLE_DEVICES}")


def _containers(prediction: Prediction) -> Iterator[Mapping[str, Any]]:
    """Options of the layers that take Docker's ``--gpus``, those of jobs side by side included."""
    for layer in prediction.scenario.layers:
        rows = [row for job in layer.options.get("jobs", ()) for row in job] if layer.kind == "jobs" else []
        for one in [Layer.from_dict(row) for row in rows] or [layer]:
            if one.enabled and one.kind in ("docker", "nerdctl"):
                yield one.options


def _split_list(prediction: Prediction, _: Process) -> Fields | None:
    """``--gpus device=2,0``: the comma ends the value, and 0 becomes a count of none."""
    for options in _containers(prediction):
        for value in options.get("gpus", ()):
            request = read_gpus(value)
            lone = [field for field in value.split(",") if field.isdigit()]
            if isinstance(request, Request) and request.ids and lone and '"' not in value:
                meant = ",".join((*request.ids, *lone))
                return _unit(value=clip(value), kept=",".join(request.ids), dropped=",".join(lone), meant=meant)
    return None


def _count_list(prediction: Prediction, _: Process) -> Fields | None:
    """``--gpus 1,2``: numbers without ``device=`` are counts, and the last one wins."""
    for options in _containers(prediction):
        for value in options.get("gpus", ()):
            request = read_gpus(value)
            if isinstance(request, Request) and not request.ids and sum(map(str.isdigit, value.split(","))) > 1:
                return _unit(value=clip(value), count=request.number)
    return None


def _unread_variable(prediction: Prediction, process: Process) -> Fields | None:
    """NVIDIA_VISIBLE_DEVICES is set for a container that has no GPU, because nothing there reads it."""
    for options in _containers(prediction):
        asks = any(options.get(key) for key in ("gpus", "requests", "devices", "runtime", "privileged"))
        value = options.get("set", {}).get(NVIDIA_VISIBLE_DEVICES)
        if value is not None and not asks and not process.left:
            return _unit(value=clip(value))
    return None


def _unusable(prediction: Prediction, _: Process) -> Fields | None:
    lost = [gpu for gpu in prediction.scenario.topology.gpus if gpu.problem]
    return _unit(gpu=gpu_name(lost[0]), problem=lost[0].problem, n=len(lost)) if lost else None


RULES: tuple[FindingRule, ...] = (
    FindingRule("list-emptied", "error", _emptied, True, "pytorch PR 92315; nvitop docstring"),
    FindingRule("hides-all", "warning", _hides_all, True, "CUDA Programming Guide 5.2.1.1"),
    FindingRule("list-cut", "error", _cut, True, "CUDA Programming Guide 5.2.1.1"),
    FindingRule("host-numbers-inside", "error", _host_numbers, True, "devitocodes/devito pull request 2710"),
    FindingRule("variable-unread", "error", _unread_variable, True, "NVIDIA Container Toolkit documentation, runtimes"),
    FindingRule("gpus-list-split", "warning", _split_list, True, "docker/cli opts/gpus.go; docker 28.2.2, run"),
    FindingRule("gpus-is-a-count", "warning", _count_list, True, "docker/cli opts/gpus.go; docker 28.2.2, run"),
    FindingRule("number-is-not-nvidia-smi", "warning", _numbers_not_smi, True, "NVIDIA/nvidia-docker issue 262"),
    FindingRule("undocumented-order", "warning", _undocumented_order, True, "CUDA Programming Guide 5.2.1.2"),
    FindingRule("set-too-late", "warning", _too_late, True, "CUDA Programming Guide 5.2.1: read once, at cuInit; run"),
    FindingRule(
        "near-miss-name", "warning", _near_miss, True, "CUDA Programming Guide 5.2.1: the names of the variables"
    ),
    FindingRule("unrecognised-option", "info", _unrecognised, False, "the option tables of this version"),
    FindingRule("unusable-gpu", "warning", _unusable, False, "nvml.h, return codes"),
)
"""Most harmful first. The sentences are ``finding.<code>`` and ``remedy.<code>`` in `texts`."""


def diagnose(prediction: Prediction) -> tuple[Finding, ...]:
    """The findings of a prediction, most harmful first; () for a clean scenario."""
    if not prediction.processes:
        return ()
    process = prediction.processes[0]
    found = []
    for rule in RULES:
        fields = rule.when(prediction, process)
        if fields is not None:
            fix: Message | None = message(f"remedy.{rule.code}", **fields) if rule.remedy else None
            found.append(Finding(rule.code, rule.severity, message(f"finding.{rule.code}", **fields), fix, rule.source))
    return tuple(found)
