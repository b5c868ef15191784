"""Exercises without end: a scenario, a question, an answer that is checked, and the misconception behind a wrong one.

A misconception is a row of `MISCONCEPTIONS`: what it makes of a scenario, and scenarios in which that is wrong. Pure; a
seed gives the same exercise everywhere. Answers are texts, as a learner types them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from .certainty import Certainty
from .errors import GpumapError
from .explanation import gpu_name
from .mapping import Message, Prediction, Process, message
from .misconceptions import COUNT, LIST, MISCONCEPTIONS, WHICH, Map, map_of
from .resolver import resolve
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from .topology import Topology

NONE = "none"
"""The answer that there is no such device."""
_TRIES = 200


class NoExercise(GpumapError):
    """A machine does not have what an exercise needs."""


@dataclass(frozen=True)
class Grade:
    """What became of an answer."""

    correct: bool
    misconception: str | None
    """The misconception that gives just this answer; None for a right answer, or a wrong one that nobody recognises."""
    said: Message
    source: str

    def __str__(self) -> str:
        return self.said.text()


@dataclass(frozen=True)
class Exercise:
    """One question on one scenario. ``worker`` is the process that it asks about, ``ordinal`` the k of cuda:k."""

    misconception: str
    """Row of `MISCONCEPTIONS` that it is about."""
    seed: int
    scenario: Scenario
    kind: str
    """``which``, ``count`` or ``list``."""
    ordinal: int = 0
    worker: int = 0
    target: int | None = None
    """For ``list``: the GPU that is wanted, as a position in ``topology.gpus``."""

    @cached_property
    def prediction(self) -> Prediction:
        """What the model says."""
        return resolve(self.scenario)

    @property
    def process(self) -> Process:
        """The process that is asked about."""
        return self.prediction.processes[self.worker]

    @cached_property
    def prompt(self) -> Message:
        """The question."""
        gpu = "" if self.target is None else gpu_name(self.scenario.topology.gpus[self.target])
        who = self.process.label
        return message(f"exercise.{self.kind}{'.of' if who else ''}", ordinal=self.ordinal, gpu=gpu, who=who)

    @cached_property
    def answer(self) -> str:
        """A right answer: an nvidia-smi index or ``none``, a number, or a list."""
        if self.kind == LIST:
            return _list_for(self)
        return _answer(self, map_of(self.process))

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """Every answer that can be chosen; () where it is typed."""
        gpus = self.scenario.topology.gpus
        if self.kind == WHICH:
            return (*(str(gpu.nvml_index) for gpu in gpus), NONE)
        return tuple(str(n) for n in range(len(gpus) + 1)) if self.kind == COUNT else ()

    def check(self, answer: str) -> Grade:
        """Grade an answer. Any text is an answer; a wrong one is explained by the misconception that produces it."""
        answer = answer.strip()
        row = MISCONCEPTIONS[self.misconception]
        if self._right(answer):
            return Grade(True, None, message(f"exercise.right.{self.misconception}"), row.source)
        for code in (self.misconception, *(code for code in MISCONCEPTIONS if code != self.misconception)):
            if self._thought(code) == answer:
                return Grade(False, code, message(f"exercise.wrong.{code}"), MISCONCEPTIONS[code].source)
        return Grade(False, None, message("exercise.wrong", answer=self.answer), row.source)

    def _right(self, answer: str) -> bool:
        if self.kind != LIST:
            return answer == self.answer
        after = resolve(_with_list(self.scenario, answer))
        devices = after.processes[self.worker].devices if len(after.processes) > self.worker else ()
        return self.ordinal < len(devices) and devices[self.ordinal].position == self.target and _sure(after)

    def _thought(self, code: str) -> str | None:
        """The answer that a misconception leads to; None where it leads to none."""
        if self.kind == LIST:
            return str(self.scenario.topology.gpus[self.target or 0].nvml_index) if code == "order" else None
        return _answer(self, MISCONCEPTIONS[code].thinks(self.prediction, self.worker))


def _answer(exercise: Exercise, found: Map) -> str:
    if exercise.kind == COUNT:
        return str(len(found))
    if exercise.ordinal >= len(found):
        return NONE
    return str(exercise.scenario.topology.gpus[found[exercise.ordinal]].nvml_index)


def _with_list(scenario: Scenario, value: str) -> Scenario:
    return scenario.with_env(**{CUDA_VISIBLE_DEVICES: value})


def _list_for(exercise: Exercise) -> str:
    """The shortest list of numbers that puts the target where it is wanted."""
    places = exercise.process.order.places
    numbers = [places.index(i) for i in places if i != exercise.target]
    numbers.insert(exercise.ordinal, places.index(exercise.target or 0))
    return ",".join(map(str, numbers[: exercise.ordinal + 1]))


def _sure(prediction: Prediction) -> bool:
    return prediction.certainty in (Certainty.CERTAIN, Certainty.LIKELY)


# --- generating -------------------------------------------------------------------------------------------------------


def exercise(misconception: str, seed: int, machine: Topology) -> Exercise:
    """One exercise; a seed gives the same one everywhere.

    The misconception gives a wrong answer to it, and the model is certain or likely of its own.
    Raises NoExercise for a machine on which there is none, such as order on equal GPUs; KeyError for an unknown row.
    """
    row = MISCONCEPTIONS[misconception]
    if not machine.usable:
        raise NoExercise("This machine has no GPU that CUDA could use.")
    random = Random(f"{misconception} {seed}")  # noqa: S311 - a sheet, no secret
    for _, layers in zip(range(_TRIES), row.scenarios(machine, random), strict=False):
        scenario = Scenario(machine, layers)
        prediction = resolve(scenario)
        if not prediction.processes or not _sure(prediction):
            continue
        one = _question(misconception, seed, prediction, random)
        if one._thought(misconception) not in (None, one.answer):  # noqa: SLF001 - its own module
            return one
    raise NoExercise(f"This machine has no exercise on “{misconception}”.", remedy="Take one with different GPUs.")


def _question(misconception: str, seed: int, prediction: Prediction, random: Random) -> Exercise:
    kind = random.choice(MISCONCEPTIONS[misconception].kinds)
    worker = random.randrange(len(prediction.processes))
    ordinal = random.randrange(max(1, len(prediction.processes[worker].devices)))
    scenario, target = prediction.scenario, None
    if misconception == "renumber":
        ordinal = random.randrange(max(1, len(scenario.topology.usable)))
    if misconception == "launcher":
        ordinal, worker = 0, random.randrange(1, max(2, len(prediction.processes)))
    if kind == LIST:
        scenario = scenario.with_env(**{CUDA_VISIBLE_DEVICES: None})
        target, ordinal = random.choice(scenario.topology.usable), 0
    return Exercise(misconception, seed, scenario, kind, ordinal, worker, target)


def sheet(
    machine: Topology, count: int = 10, seed: int = 0, misconceptions: Sequence[str] | None = None
) -> tuple[Exercise, ...]:
    """A sheet of exercises for a class: the misconceptions in turn, those that the machine has an exercise on."""
    made: list[Exercise] = []
    codes = list(MISCONCEPTIONS if misconceptions is None else misconceptions)
    round_ = 0
    while len(made) < count and codes:
        for code in list(codes):
            try:
                made.append(exercise(code, seed + round_, machine))
            except NoExercise:
                codes.remove(code)
        round_ += 1
    if not made:
        raise NoExercise("This machine has no exercise on any of these.")
    return tuple(made[:count])


def results(exercises: Sequence[Exercise], answers: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for every learner and exercise: what was answered, whether it is right, by which misconception not."""
    rows = []
    for who, given in answers.items():
        for number, (one, answer) in enumerate(zip(exercises, given, strict=False), 1):
            grade = one.check(answer)
            rows.append(
                {
                    "learner": who,
                    "exercise": number,
                    "about": one.misconception,
                    "answer": answer,
                    "right": one.answer,
                    "correct": grade.correct,
                    "misconception": grade.misconception,
                }
            )
    return rows


def jupyterquiz(exercises: Sequence[Exercise], lang: str = "en") -> list[dict[str, Any]]:
    """The exercises that have choices as questions of jupyterquiz (its JSON format, version 2)."""
    return [
        {
            "question": f"{_setting(one)} {one.prompt.text(lang)}",
            "type": "multiple_choice",
            "answers": [
                {"answer": text, "correct": (grade := one.check(text)).correct, "feedback": grade.said.text(lang)}
                for text in one.choices
            ],
        }
        for one in exercises
        if one.choices
    ]


def _setting(one: Exercise) -> str:
    gpus = "; ".join(gpu_name(gpu) for gpu in one.scenario.topology.gpus)
    env = one.scenario.environment
    names = (CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES)
    values = ", ".join(f"{name}={env[name]!r}" if name in env else f"{name} unset" for name in names)
    launchers = "".join(f", {layer.label}" for layer in one.scenario.layers[1:])
    return f"{gpus}. {values}{launchers}."
