"""What is worth saying about a scenario: a table of rules that judge a prediction. Layers state facts, rules judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from .device_order import DOCUMENTED_VALUES
from .explanation import clip, gpu_name, message, stop_reason
from .frozen import FrozenDict
from .mapping import Finding, Message, Prediction, Process
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, ENVIRONMENT, Layer

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
    topology = prediction.scenario.topology
    by_index = {gpu.nvml_index: gpu for gpu in topology.gpus if gpu.nvml_index is not None}
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


def _unusable(prediction: Prediction, _: Process) -> Fields | None:
    lost = [gpu for gpu in prediction.scenario.topology.gpus if gpu.problem]
    return _unit(gpu=gpu_name(lost[0]), problem=lost[0].problem, n=len(lost)) if lost else None


RULES: tuple[FindingRule, ...] = (
    FindingRule("list-emptied", "error", _emptied, True, "pytorch PR 92315; nvitop docstring"),
    FindingRule("hides-all", "warning", _hides_all, True, "CUDA Programming Guide 5.2.1.1"),
    FindingRule("list-cut", "error", _cut, True, "CUDA Programming Guide 5.2.1.1"),
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
