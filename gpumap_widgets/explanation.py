"""Why a prediction is what it is, as steps: one a thing that happened. Pure; made only when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .certainty import Basis, Certainty
from .device_order import ORDER_RULES, DeviceOrder
from .grammar import RULES, Token
from .layers import fold
from .mapping import Device, Message, Prediction, Process, Step, message
from .picks import Pick, Stop
from .scenario import CUDA_DEVICE_ORDER
from .strength import WEIGHTS, Strength, strength
from .texts import say
from .topology import Gpu, MigInstance, Topology

_GUIDE = "CUDA Programming Guide 5.2.1"
_ORDER_SOURCES = {
    "single": _GUIDE,
    "pci": f"{_GUIDE}.2, CUDA_DEVICE_ORDER",
    "weights": f"fitted to public reports: {ORDER_RULES['weights'].evidence}",
    "promote-one": f"fitted to public reports: {ORDER_RULES['promote-one'].evidence}",
    "seen": "the machine's own output",
    "served": "NVIDIA MPS documentation, 5.2.1 CUDA_VISIBLE_DEVICES",
}


def explain(prediction: Prediction, worker: int = 0) -> tuple[Step, ...]:
    """The steps of a prediction, outermost first, on the way to one of its processes."""
    topology = prediction.scenario.topology
    steps = list(_machine(topology))
    steps += fold(topology, prediction.scenario.layers).steps[worker]
    for process in prediction.processes[worker : worker + 1]:
        steps += _order(topology, process)
        steps += _list(topology, process)
        steps += _numbering(topology, process)
    return tuple(steps)


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
    yield Step("machine", _say_machine, (topology,), Certainty.CERTAIN, topology.source)
    if len(topology.usable) < len(topology.gpus):
        for position, gpu in enumerate(topology.gpus):
            if gpu.problem:
                yield Step("machine", _say_unusable, (gpu,), Certainty.UNKNOWN, topology.source, position=position)


def _say_machine(topology: Topology) -> Message:
    return message("step.machine", count=counted(len(topology.gpus)), source=topology.source)


def _say_unusable(gpu: Gpu) -> Message:
    return message("step.unusable", index=gpu.nvml_index, name=gpu.short_name, problem=gpu.problem)


# --- the order -------------------------------------------------------------------------------------------------------


def _order(topology: Topology, process: Process) -> Iterator[Step]:
    order, source = process.order, _ORDER_SOURCES[process.order.rule]
    value = process.env.get(CUDA_DEVICE_ORDER)
    yield Step("order", _say_order, (topology, order, value), order.certainty, source)
    if order.doubt:
        yield Step("order", _say_doubt, (order.doubt, value), order.certainty, source)
    yield from topology.memo(("places", order.rule, order.places), lambda: tuple(_places(topology, order)))


def _say_order(topology: Topology, order: DeviceOrder, value: str | None) -> Message:
    shown = say("order.unset") if value is None else say("order.value", value=clip(value))
    fields = {"value": shown, "count": counted(len(order.places)), "driver": topology.driver_version}
    if order.rule == "seen" and topology.default_order_date:
        return message("step.order-measured", date=topology.default_order_date[:10], **fields)
    return message(f"step.order.{order.rule}", source=topology.source, **fields)


def _say_doubt(doubt: str, value: str | None) -> Message:
    return message(f"doubt.{doubt}", value=clip(value or ""))


def _places(topology: Topology, order: DeviceOrder) -> Iterator[Step]:
    """Why each GPU stands where it stands: made once a machine and order."""
    gpus = [topology.gpus[i] for i in order.places]
    scored = order.rule == "weights"
    scores = Counter(strength(gpu).score for gpu in gpus) if scored else Counter()
    for place, (gpu, position, certainty) in enumerate(zip(gpus, order.places, order.certainties, strict=True)):
        source = _ORDER_SOURCES[order.rule]
        if scored:
            power = strength(gpu)
            source = weight_evidence(power.capability) or source
            facts: tuple[Any, ...] = (gpu, place, power, scores[power.score] > 1)
            yield Step("order", _say_score, facts, certainty, source, position=position)
        else:
            yield Step("order", _say_place, (gpu, place), certainty, source, position=position)


def _say_place(gpu: Gpu, place: int) -> Message:
    return message("step.place.plain", place=place, gpu=gpu_name(gpu))


def _say_score(gpu: Gpu, place: int, power: Strength, tied: bool) -> Message:  # noqa: FBT001 - a fact in a row of them
    """A place in numbers: SM count × weight."""
    if power.score is None:
        return message("step.place.unscored", place=place, gpu=gpu_name(gpu))
    tie = say("step.place.tie") if tied else ""
    fields = {"sms": power.sm_count, "weight": f"{power.weight:g}", "score": f"{power.score:g}", "tie": tie}
    return message("step.place.weights", place=place, gpu=gpu_name(gpu), **fields)


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
    reading, stop = process.reading, process.reading.stop
    if reading.whole != "list":
        certainty, source = reading.basis.certainty, RULES[reading.whole].source
        yield Step("list", message, (f"step.list.{reading.whole}",), certainty, source)
    else:
        gpus, places, tokens = topology.gpus, process.order.places, reading.tokens
        picked = {pick.token: pick for pick in reading.picks}
        plain = reading.basis is Basis.DOCUMENTED  # then every pick is
        for number, token in enumerate(tokens):
            pick = picked.get(number)
            if pick is None:
                yield _not_picked(process, topology, number)
                continue
            position = places[pick.place]
            facts = (gpus[position], token, pick)
            certainty = Certainty.CERTAIN if plain else reading.basis_of(pick).certainty
            yield Step("list", _say_kept, facts, certainty, RULES[_odd(token, pick)].source, number, position)
    for rule in reading.shared:
        if stop is None or rule != stop.rule:
            yield Step("list", message, (f"rule.{rule}",), RULES[rule].basis.certainty, RULES[rule].source)


def _odd(token: Token, pick: Pick) -> str:
    """The rule worth naming for a token that counts: what MIG makes of it, else how it is spelt."""
    return pick.rule if pick.rule.startswith("mig-") else token.rule


def _say_kept(gpu: Gpu, token: Token, pick: Pick) -> Message:
    odd = _odd(token, pick)
    spelling = say("spelling", why=say(f"rule.{odd}")) if odd not in ("integer", "uuid") else ""
    mig = None if pick.mig is None else gpu.mig_instances[pick.mig]
    key = "step.token.kept" if pick.by_number else "step.token.kept-uuid"
    return message(key, token=clip(token.text), gpu=gpu_name(gpu, mig), place=pick.place, spelling=spelling)


def _not_picked(process: Process, topology: Topology, number: int) -> Step:
    """What became of a token that counts for nothing."""
    reading, stop = process.reading, process.reading.stop
    token = reading.tokens[number]
    if stop is None:
        source = RULES["mig-first-only"].source
        return Step("list", _say_dropped, (token,), Certainty.CERTAIN, source, number)
    source = RULES[stop.rule].source
    if number == stop.token:
        basis = max(RULES[stop.rule].basis, RULES[stop.spelling].basis if stop.spelling else Basis.DOCUMENTED)
        return Step("list", _say_stop, (process, token), basis.certainty, source, number)
    if number > stop.token:
        return Step("list", _say_ignored, (token,), Certainty.CERTAIN, source, number)
    return Step("list", _say_lost, (process, topology, token), Certainty.CERTAIN, source, number)


def _say_dropped(token: Token) -> Message:
    return message("step.token.dropped", token=clip(token.text), why=say("rule.mig-first-only"))


def _say_ignored(token: Token) -> Message:
    return message("step.token.ignored", token=clip(token.text))


def _say_stop(process: Process, token: Token) -> Message:
    reading = process.reading
    key = "step.token.empties" if reading.stop and reading.stop.empties else "step.token.stop"
    kept = say("kept.some" if reading.picks else "kept.none")
    return message(key, token=clip(token.text), why=stop_reason(process), kept=kept)


def _say_lost(process: Process, topology: Topology, token: Token) -> Message:
    """A token that stands before the repeat which empties the list."""
    places = process.order.places
    by_number = 0 <= token.value < len(places)
    gpu = gpu_name(topology.gpus[places[token.value]]) if by_number else ""
    return message("step.token.lost" if by_number else "step.token.lost-uuid", token=clip(token.text), gpu=gpu)


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
        yield Step("numbering", _say_device, (device,), device.certainty, _GUIDE, device.token, device.position)
    if not process.devices:
        yield Step("numbering", message, ("step.numbering.none",), process.certainty, _GUIDE)
    for position in process.hidden:
        yield Step("numbering", _say_hidden, (topology.gpus[position],), process.certainty, _GUIDE, position=position)


def _say_device(device: Device) -> Message:
    return message("step.numbering", ordinal=device.ordinal, gpu=device_name(device))


def _say_hidden(gpu: Gpu) -> Message:
    return message("step.hidden", gpu=gpu_name(gpu))


def device_name(device: Device) -> str:
    """A CUDA device as a sentence names it."""
    return gpu_name(device.gpu, device.mig)
