"""A prediction beside what witnesses said: a verdict for each of them, and one for the whole. Pure.

The whole is refuted by whoever contradicts it, confirmed by whoever was heard and confirms it. Where witnesses
contradict each other it says who is nearer to the hardware (`mapping.WITNESSES`), and where the hardware contradicts
the prediction, which rule of it failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .edges import AGREES, CONFIRMED, DIFFERS, NOT_CHECKED, NOTHING, REFUTED, Heard, chain, edge_name, hear
from .frozen import FrozenDict
from .identity import bare_uuid
from .mapping import WITNESSES, Comparison, Edge, Message, Observation, Prediction, Step, message
from .scenario import ENVIRONMENT


def compare(prediction: Prediction, observation: Observation, *more: Observation) -> Comparison:
    """Whether the hardware agrees with the prediction, ordinal by ordinal: by everything that was observed.

    Each observation speaks of the process of its rank, or of the first; what stands in its ``others`` counts too.
    """
    seen = [one for given in (observation, *more) for one in given.each]
    order = {name: place for place, name in enumerate(WITNESSES)}
    heard = [hear(prediction, one) for one in sorted(seen, key=lambda one: (order[one.witness], one.rank or 0))]
    verdict, said = _whole(heard)
    edges = _together(heard)
    failed = _failed(prediction, heard) if verdict == REFUTED else None
    if failed is not None:
        said.append(message("compare.rule", rule=failed.message, source=failed.source))
    said += _about_the_run(prediction, heard)
    parts = tuple(_part(prediction, one) for one in heard) if len(heard) > 1 else ()
    joined = next((one.joined_by for one in heard if one.joined_by != NOTHING), NOTHING)
    reason = chain("compare.two", said)
    return Comparison(prediction, observation, verdict, reason, edges, joined, _exercised(heard), failed, parts)


def observations_in(comparison: Comparison) -> tuple[Observation, ...]:
    """What a comparison rests on, one observation a witness, to be compared again beside more."""
    return tuple(replace(part.observation, others=()) for part in comparison.each)


def _part(prediction: Prediction, one: Heard) -> Comparison:
    reason = chain("compare.two", one.said)
    return Comparison(
        prediction, one.observation, one.verdict, reason, one.edges, one.joined_by, _exercised([one]), None
    )


# --- the whole -------------------------------------------------------------------------------------------------------


def _whole(heard: Sequence[Heard]) -> tuple[str, list[Message]]:
    """The verdict of all witnesses together, in words."""
    if len(heard) == 1:
        return heard[0].verdict, list(heard[0].said)
    against = [one for one in heard if one.verdict == REFUTED]
    agreeing = [one for one in heard if one.verdict == CONFIRMED]
    unclear = [one for one in heard if one.verdict == NOT_CHECKED]
    if against:
        said = [*against[0].said, *_against(against, agreeing)]
        return REFUTED, [*said, *_unheard(unclear)]
    elsewhere = [one for one in unclear if one.overridden]
    if agreeing and not elsewhere:
        return CONFIRMED, [*_confirmed(agreeing), *_by(agreeing), *_unheard(unclear)]
    if elsewhere:
        return NOT_CHECKED, [*elsewhere[0].said, *_by(agreeing)]
    return NOT_CHECKED, _why_not(unclear)


def _confirmed(agreeing: Sequence[Heard]) -> list[Message]:
    """What the nearest witness said; of several workers together."""
    workers = {one.worker: len(one.edges) for one in agreeing}
    if len(workers) == 1:
        return list(agreeing[0].said)
    return [message("compare.confirmed-workers", count=len(workers), devices=sum(workers.values()))]


def _why_not(unclear: Sequence[Heard]) -> list[Message]:
    """Why nobody can say anything: torch's reason, which is what a user runs, and others that differ from it."""
    first = unclear[-1]
    rest = [one for one in unclear if _reason(one) != _reason(first)]
    return [*first.said, *_unheard(rest)]


def _reason(one: Heard) -> str:
    """Its reason without the part that differs by witness: a driver that hangs hangs for both."""
    return one.said[0].key.replace("child-", "")


def _unheard(unclear: Iterable[Heard]) -> list[Message]:
    found = {one.observation.witness: one for one in reversed(list(unclear))}
    return [message("compare.unheard", who=_who(name), reason=one.said[0]) for name, one in found.items()]


def _by(agreeing: Sequence[Heard]) -> list[Message]:
    names = dict.fromkeys(one.observation.witness for one in agreeing)
    who = [_who(name) for name in names]
    if len(who) > 1:
        who[-2:] = [message("compare.and", first=who[-2], second=who[-1])]
    return [message("compare.by", who=chain("compare.comma", who))] if who else []


def _who(witness: str) -> Message:
    return message(f"witness.{witness}")


def _against(against: Sequence[Heard], agreeing: Sequence[Heard]) -> list[Message]:
    """Where witnesses contradict each other: on what, and who is nearer to the hardware."""
    if not agreeing and all(_same_devices(against[0], one) for one in against[1:] if one.worker == against[0].worker):
        return []
    pair = next(
        ((a, b) for a in against for b in (*agreeing, *against) if a.worker == b.worker and not _same_devices(a, b)),
        None,
    )
    if pair is None:
        return []
    near, far = sorted(pair, key=lambda one: WITNESSES.index(one.observation.witness))
    names = {"near": _who(near.observation.witness), "far": _who(far.observation.witness)}
    said = [message("compare.contradiction", ordinal=_first_difference(near, far), **names)]
    lost = _gone(near.observation, far.observation)
    if lost:
        said.append(message("compare.gone-between", count=lost))
    return said


def _same_devices(a: Heard, b: Heard) -> bool:
    ours, theirs = ([edge.seen_position for edge in one.edges if edge.observed] for one in (a, b))
    return ours == theirs


def _first_difference(a: Heard, b: Heard) -> int:
    pairs = zip(a.edges, b.edges, strict=False)
    return next((x.ordinal for x, y in pairs if x.seen_position != y.seen_position), min(len(a.edges), len(b.edges)))


def _gone(a: Observation, b: Observation) -> int:
    """How many GPUs NVML showed to one of them and not to the other."""
    if a.present is None or b.present is None:
        return 0
    ours, theirs = ({uuid for uuid, _ in one.present or () if uuid} for one in (a, b))
    return len(ours ^ theirs)


def _together(heard: Sequence[Heard]) -> tuple[Edge, ...]:
    """The edges of all witnesses: what the nearest one to the hardware saw, and each one's own edge beside it."""
    found: dict[tuple[int | None, int], dict[str, Edge]] = {}
    for one in heard:
        for edge in one.edges:
            found.setdefault((edge.rank, edge.ordinal), {})[one.observation.witness] = edge
    if len(heard) == 1:
        return heard[0].edges
    return tuple(_edge(by) for _, by in sorted(found.items(), key=lambda item: (item[0][0] or 0, item[0][1])))


def _edge(by: dict[str, Edge]) -> Edge:
    verdicts = [edge.verdict for edge in by.values()]
    verdict = DIFFERS if DIFFERS in verdicts else AGREES if AGREES in verdicts else NOT_CHECKED
    told = next(edge for edge in by.values() if edge.verdict == verdict)
    named = {name: by[name] for name in WITNESSES if name in by}
    return Edge(
        told.rank,
        told.ordinal,
        told.predicted,
        told.observed,
        verdict,
        told.reason,
        told.seen_position,
        FrozenDict(named),
    )


# --- the rule that failed --------------------------------------------------------------------------------------------


def _failed(prediction: Prediction, heard: Sequence[Heard]) -> Step | None:
    """The step of the prediction that the nearest witness contradicts; None where the prediction is not at fault."""
    nearest = next(one for one in heard if one.verdict != NOT_CHECKED)
    if nearest.verdict != REFUTED or nearest.worker is None:
        return None
    steps = prediction.steps_of(nearest.worker)
    process = prediction.processes[nearest.worker]
    stage, token = _stage(prediction, nearest)
    if stage == "list" and token is None and process.reading.stop is not None:
        token = process.reading.stop.token
    if stage == "launcher":
        return next((step for step in reversed(steps) if step.stage in ("launcher", "framework")), None)
    own = [step for step in steps if step.stage == stage]
    return next((step for step in own if token is not None and step.token == token), own[0] if own else None)


def _stage(prediction: Prediction, one: Heard) -> tuple[str, int | None]:
    """Which part of the prediction failed, and at which entry of the list where that can be told.

    A GPU that NVML does not show any more, or that was not described: the machine. Other variables than a launcher
    was foretold to give: the launcher. As many devices as foretold, picked by number: the order, since every entry
    counted. Anything else: the reading of the list.
    """
    wrong = [edge for edge in one.edges if edge.verdict == DIFFERS]
    if not wrong:
        return "launcher", None
    if any(message.key == "compare.launched-otherwise" for message in one.said):
        return "launcher", None
    present = one.observation.present
    shown = None if present is None else {uuid for uuid, _ in present}
    for edge in wrong:
        uuid = edge.predicted.gpu.uuid if edge.predicted else None
        gone = edge.observed is None and shown is not None and uuid and bare_uuid(uuid) not in shown
        if gone or (edge.reason is not None and edge.reason.key == "compare.stranger"):
            return "machine", None
    assert one.worker is not None
    reading = prediction.processes[one.worker].reading
    counted = len(one.observation.devices) == len(reading.picks)
    first = wrong[0].ordinal
    pick = reading.picks[first] if first < len(reading.picks) else None
    if counted and pick is not None and pick.by_number:
        return "order", None
    return "list", pick.token if pick is not None else None


# --- what must be known of any run that gave an answer ---------------------------------------------------------------


def _about_the_run(prediction: Prediction, heard: Sequence[Heard]) -> list[Message]:
    ran = [one for one in heard if one.observation.problem is None]
    if not ran or prediction.error is not None:
        return []
    said = list(dict.fromkeys(note for one in ran for note in one.observation.notes))
    if any(one.observation.simulated for one in ran):
        said.append(message("compare.simulated"))
    inside = next((one.observation.container for one in ran if one.observation.container), None)
    if inside:
        said.append(message("compare.in-container", kind=inside))
    exercised = _exercised(heard)
    kinds = [layer.kind for layer in prediction.scenario.layers if layer.kind not in (ENVIRONMENT, *exercised)]
    if kinds:
        done = ", ".join(exercised)
        key = "compare.not-exercised" if done == "cuda" else "compare.exercised"
        said.append(message(key, done=done, kinds=", ".join(dict.fromkeys(kinds))))
    count, workers = len(prediction.processes), {one.worker for one in ran}
    if len(workers) < count:
        key = "compare.first-process" if workers == {0} else "compare.some-processes"
        said.append(message(key, count=count, ran=len(workers)))
    return said


def _exercised(heard: Sequence[Heard]) -> tuple[str, ...]:
    """The layers that were really gone through: launchers that were started, and CUDA."""
    ran = [one.observation for one in heard if one.observation.problem is None and one.worker is not None]
    return (*dict.fromkeys(kind for one in ran for kind in one.ran), "cuda") if ran else ()


__all__ = ["AGREES", "CONFIRMED", "DIFFERS", "NOT_CHECKED", "REFUTED", "compare", "edge_name", "observations_in"]
