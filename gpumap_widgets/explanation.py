"""Why a prediction is what it is, as steps: one a thing that happened. Pure; made only when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .certainty import Basis, Certainty, least
from .device_order import ORDER_RULES
from .frozen import FrozenDict
from .layers import LAYERS, View
from .mapping import Device, Message, Prediction, Process, Step
from .scenario import CUDA_DEVICE_ORDER
from .strength import WEIGHTS, strength
from .texts import say
from .topology import Gpu, MigInstance, Topology
from .visible_devices import RULES, Pick, Stop

_GUIDE = "CUDA Programming Guide 5.2.1"
_ORDER_SOURCES = {
    "single": _GUIDE,
    "pci": f"{_GUIDE}.2, CUDA_DEVICE_ORDER",
    "weights": f"fitted to public reports: {ORDER_RULES['weights'].evidence}",
    "promote-one": f"fitted to public reports: {ORDER_RULES['promote-one'].evidence}",
    "seen": "the machine's own output",
}


def explain(prediction: Prediction) -> tuple[Step, ...]:
    """The steps of a prediction, outermost first; those of CUDA for the first process."""
    topology = prediction.scenario.topology
    steps = list(_machine(topology))
    views: tuple[View, ...] = (View(),)
    for layer in prediction.scenario.layers:
        row = LAYERS.get(layer.kind)
        if row is None or row.problem(layer.options):
            break
        results = [row.apply(view, layer.options, topology) for view in views]
        views = tuple(view for new, _ in results for view in new)
        steps += [step for _, said in results[:1] for step in said]
    for process in prediction.processes[:1]:
        steps += _order(topology, process)
        steps += _list(topology, process)
        steps += _numbering(topology, process)
    return tuple(steps)


def message(key: str, **fields: Any) -> Message:
    """A message by key and fields."""
    return Message(key, FrozenDict(fields))


def clip(text: str, width: int = 60) -> str:
    """A text from outside as a sentence may quote it: its middle left out where it is long."""
    return text if len(text) <= width else f"{text[: width * 2 // 3]}…{text[-(width // 3) :]}"


def counted(n: int) -> str:
    """``4 GPUs``, ``1 GPU``, ``no GPU``."""
    return say("count.no-gpu" if n == 0 else "count.one-gpu" if n == 1 else "count.gpus", n=n)


def gpu_name(gpu: Gpu, mig: MigInstance | None = None) -> str:
    """A GPU as a sentence names it: ``Tesla T4 at 5E:00.0 (nvidia-smi 0)``, as far as it is known."""
    pci = gpu.pci.short if gpu.pci else None
    fields = {"name": gpu.short_name, "pci": pci, "index": gpu.nvml_index}
    kind = ("full" if pci else "no-pci") if gpu.nvml_index is not None else ("no-index" if pci else "bare")
    said = say(f"gpu.{kind}", **fields)
    return say("gpu.mig", profile=mig.profile or mig.uuid or "?", gpu=said) if mig else said


def _machine(topology: Topology) -> Iterator[Step]:
    said = message("step.machine", count=counted(len(topology.gpus)), source=topology.source)
    yield Step("machine", said, Certainty.CERTAIN, topology.source)
    for position, gpu in enumerate(topology.gpus):
        if gpu.problem:
            said = message("step.unusable", index=gpu.nvml_index, name=gpu.short_name, problem=gpu.problem)
            yield Step("machine", said, Certainty.UNKNOWN, topology.source, position=position)


def _order(topology: Topology, process: Process) -> Iterator[Step]:
    order = process.order
    value = process.env.get(CUDA_DEVICE_ORDER)
    shown = say("order.unset") if value is None else say("order.value", value=clip(value))
    source = _ORDER_SOURCES[order.rule]
    fields = {"value": shown, "count": counted(len(order.places)), "driver": topology.driver_version}
    yield Step("order", message(f"step.order.{order.rule}", source=topology.source, **fields), order.certainty, source)
    if order.doubt:
        yield Step("order", message(f"doubt.{order.doubt}", value=clip(value or "")), order.certainty, source)
    scores = [strength(topology.gpus[i]).score for i in order.places]
    for place, (position, certainty) in enumerate(zip(order.places, order.certainties, strict=True)):
        gpu = topology.gpus[position]
        backed = weight_evidence(strength(gpu).capability) if order.rule == "weights" else None
        yield Step("order", _place(gpu, place, order.rule, scores), certainty, backed or source, position=position)


def _place(gpu: Gpu, place: int, rule: str, scores: list[float | None]) -> Message:
    """Why a GPU stands where it stands, in numbers where the rule has numbers."""
    name = gpu_name(gpu)
    if rule != "weights":
        return message("step.place.plain", place=place, gpu=name)
    power = strength(gpu)
    if power.score is None:
        return message("step.place.unscored", place=place, gpu=name)
    tie = say("step.place.tie") if scores.count(power.score) > 1 else ""
    fields = {"sms": power.sm_count, "weight": f"{power.weight:g}", "score": f"{power.score:g}", "tie": tie}
    return message("step.place.weights", place=place, gpu=name, **fields)


def score_text(gpu: Gpu) -> str | None:
    """``128 SMs × 2 = 256``: what the default order is computed from; None where the SM count is not known."""
    power = strength(gpu)
    if power.score is None:
        return None
    return f"{power.sm_count} SM × {power.weight:g} = {power.score:g}"


def weight_evidence(capability: tuple[int, int] | None) -> str | None:
    """What the reports say about the weight of an architecture; None where no report names it."""
    if capability is None or capability not in WEIGHTS:
        return None
    weight, interval = WEIGHTS[capability]
    return f"weight {weight:g} of capability {capability[0]}.{capability[1]}: {interval}"


# --- the list --------------------------------------------------------------------------------------------------------


def _list(topology: Topology, process: Process) -> Iterator[Step]:
    reading = process.reading
    if reading.whole != "list":
        certainty = least([reading.basis.certainty])
        yield Step("list", message(f"step.list.{reading.whole}"), certainty, RULES[reading.whole].source)
        return
    picked = {pick.token: pick for pick in reading.picks}
    for number in range(len(reading.tokens)):
        yield _token_step(topology, process, number, picked.get(number))
    for rule in reading.shared:
        if f"rule.{rule}" != f"rule.{reading.stop.rule if reading.stop else ''}":
            yield Step("list", message(f"rule.{rule}"), RULES[rule].basis.certainty, RULES[rule].source)


def _token_step(topology: Topology, process: Process, number: int, pick: Pick | None) -> Step:
    """What became of one token."""
    reading, stop = process.reading, process.reading.stop
    token = reading.tokens[number]
    if pick is not None:
        position = process.order.places[pick.place]
        mig = None if pick.mig is None else topology.gpus[position].mig_instances[pick.mig]
        odd = pick.rule if pick.rule.startswith("mig-") else token.rule
        spelling = say("spelling", why=say(f"rule.{odd}")) if odd not in ("integer", "uuid") else ""
        key = "step.token.kept" if pick.by_number else "step.token.kept-uuid"
        fields = {"token": clip(token.text), "gpu": gpu_name(topology.gpus[position], mig), "place": pick.place}
        certainty = reading.basis_of(pick).certainty
        return Step("list", message(key, spelling=spelling, **fields), certainty, _source(odd), number, position)
    if stop is not None and number == stop.token:
        basis = max(RULES[stop.rule].basis, RULES[stop.spelling].basis if stop.spelling else Basis.DOCUMENTED)
        why = stop_reason(process)
        kept = say("kept.some" if reading.picks else "kept.none")
        key = "step.token.empties" if stop.empties else "step.token.stop"
        return Step(
            "list",
            message(key, token=clip(token.text), why=why, kept=kept),
            basis.certainty,
            _source(stop.rule),
            number,
        )
    if stop is not None and number > stop.token:
        return Step(
            "list", message("step.token.ignored", token=clip(token.text)), Certainty.CERTAIN, _source(stop.rule), number
        )
    if stop is not None and stop.empties:
        return Step("list", _lost(topology, process, number), Certainty.CERTAIN, _source(stop.rule), number)
    why = say("rule.mig-first-only")
    return Step(
        "list",
        message("step.token.dropped", token=clip(token.text), why=why),
        Certainty.CERTAIN,
        _source("mig-first-only"),
        number,
    )


def _lost(topology: Topology, process: Process, number: int) -> Message:
    """A token that stands before the repeat which empties the list."""
    token, places = process.reading.tokens[number], process.order.places
    by_number = 0 <= token.value < len(places)
    gpu = gpu_name(topology.gpus[places[token.value]]) if by_number else ""
    return message("step.token.lost" if by_number else "step.token.lost-uuid", token=clip(token.text), gpu=gpu)


def _source(rule: str) -> str:
    return RULES[rule].source


def stop_reason(process: Process) -> str:
    """Why the list ended where it ended, as the rest of a sentence; "" when it did not."""
    stop: Stop | None = process.reading.stop
    if stop is None:
        return ""
    other = clip(process.reading.tokens[stop.other].text) if stop.other is not None else ""
    reason = say(f"rule.{stop.rule}", count=counted(len(process.order.places)), other=other)
    if stop.spelling and RULES[stop.spelling].basis is Basis.UNKNOWN:
        reason += f" ({say(f'rule.{stop.spelling}')})"
    return reason


def _numbering(topology: Topology, process: Process) -> Iterator[Step]:
    for device in process.devices:
        said = message("step.numbering", ordinal=device.ordinal, gpu=device_name(device))
        yield Step("numbering", said, device.certainty, _GUIDE, device.token, device.position)
    if not process.devices:
        yield Step("numbering", message("step.numbering.none"), process.certainty, _GUIDE)
    for position in process.hidden:
        said = message("step.hidden", gpu=gpu_name(topology.gpus[position]))
        yield Step("numbering", said, process.certainty, _GUIDE, position=position)


def device_name(device: Device) -> str:
    """A CUDA device as a sentence names it."""
    return gpu_name(device.gpu, device.mig)
