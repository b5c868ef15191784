"""The results: what was foretold, what was seen, and how the two compare. All frozen values.

Explanations are data: a step or a finding names a key and its fields, `texts` turns it into a sentence in the
reader's language, views print it. They are made when somebody asks, so that a prediction alone stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from .certainty import Certainty
from .device_order import DeviceOrder
from .frozen import FrozenDict
from .scenario import Scenario
from .texts import say
from .topology import Gpu, MigInstance
from .visible_devices import Reading


@dataclass(frozen=True)
class Message:
    """A sentence as a key and its fields."""

    key: str
    fields: Mapping[str, Any] = field(default_factory=FrozenDict)

    def text(self, lang: str = "en") -> str:
        """The sentence in a language (``en``)."""
        nested = {k: v.text(lang) if isinstance(v, Message) else v for k, v in self.fields.items()}
        return say(self.key, lang, **nested)

    def __str__(self) -> str:
        return self.text()


def message(key: str, /, **fields: Any) -> Message:
    """A message by key and fields."""
    return Message(key, FrozenDict(fields))


class Device(NamedTuple):
    """One CUDA device of a process."""

    ordinal: int
    """The i of ``cuda:i``."""
    gpu: Gpu
    mig: MigInstance | None
    """The MIG slice, None for a whole GPU."""
    certainty: Certainty
    """How sure it is that this ordinal is this GPU."""
    position: int
    """Where ``gpu`` stands in ``topology.gpus``."""
    place: int
    """Where it stands in CUDA's order, before the list."""
    token: int | None
    """Which token of the list named it; None when the variable is unset."""


@dataclass(frozen=True)
class Process:
    """What one process sees."""

    devices: tuple[Device, ...]
    """By ordinal."""
    env: Mapping[str, str]
    """The GPU and rank variables that it has."""
    accessible: tuple[int, ...]
    """Positions in ``topology.gpus`` that containers and cgroups leave and the driver can open."""
    order: DeviceOrder
    reading: Reading
    certainty: Certainty
    """Of the least certain edge, or of the reading that cut or emptied the list."""
    visible: tuple[int | None, ...]
    """Host NVML indices left by containers and cgroups."""
    rank: int | None = None
    local_rank: int | None = None
    chosen: tuple[int, ...] | None = None
    """Ordinals that the launcher's convention makes it use, whether they exist or not; None where nothing chooses."""
    node_rank: int | None = None
    worker: str = ""
    """What the tool calls it, where that is no rank: ``actor 0``."""
    left: tuple[int, ...] = ()
    """Positions in ``topology.gpus`` that NVML counts here: what containers and cgroups leave, whether it works or not."""
    mig: Mapping[int, tuple[int, ...]] = field(default_factory=FrozenDict)
    """Position → numbers of the MIG instances that are left, for GPUs that do not have all of theirs here."""

    @property
    def nvml_indices(self) -> tuple[int | None, ...]:
        """Host NVML index behind cuda:0, cuda:1, …; None in a place whose NVML index is not known."""
        return tuple(device.gpu.nvml_index for device in self.devices)

    @property
    def uses(self) -> tuple[int, ...]:
        """Ordinals that it uses by its launcher's convention, of those that exist; all of them where nothing chooses."""
        count = len(self.devices)
        return tuple(range(count)) if self.chosen is None else tuple(i for i in self.chosen if 0 <= i < count)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ordinals that the convention asks for and that do not exist: ``invalid device ordinal``."""
        return tuple(i for i in self.chosen or () if not 0 <= i < len(self.devices))

    @property
    def label(self) -> str:
        """What it is called in a table: ``rank 3``, ``actor 0``; "" where it is the only one."""
        return self.worker or ("" if self.rank is None else f"rank {self.rank}")

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """Positions of the GPUs of the machine that this process cannot reach."""
        shown = {device.position for device in self.devices}
        return tuple(i for i in self.order.places if i not in shown)


class Step(NamedTuple):
    """What one layer did to which value, and why. Its sentence is made when somebody reads it."""

    stage: str
    """``machine``; ``environment``, ``container``, ``scheduler``, ``launcher``, ``framework``; ``order``, ``list``, ``numbering``."""
    wording: Callable[..., Message]
    """Makes the message from ``facts``."""
    facts: tuple[Any, ...]
    certainty: Certainty
    source: str
    """What backs it."""
    token: int | None = None
    """The token of the list that it speaks of."""
    position: int | None = None
    """The GPU that it speaks of, as a position in ``topology.gpus``."""

    @property
    def message(self) -> Message:
        """What is said, as a key and its fields."""
        return self.wording(*self.facts)

    def __str__(self) -> str:
        return self.message.text()


SEVERITIES = ("error", "warning", "info")
"""Most harmful first: not what anybody wants; probably not what was meant; worth knowing."""


@dataclass(frozen=True)
class Finding:
    """Something worth saying about a scenario."""

    code: str
    severity: str
    """One of `SEVERITIES`."""
    said: Message
    fix: Message | None
    source: str

    @property
    def message(self) -> str:
        """What is wrong, in one sentence about this scenario."""
        return self.said.text()

    @property
    def remedy(self) -> str | None:
        """What to do or type instead; None where there is nothing to do."""
        return self.fix.text() if self.fix else None


def _no_steps(_: Prediction, __: int) -> tuple[Step, ...]:
    return ()


def _no_findings(_: Prediction) -> tuple[Finding, ...]:
    return ()


@dataclass(frozen=True)
class Prediction:
    """What the driver will do with a scenario, and how sure that is."""

    scenario: Scenario
    processes: tuple[Process, ...]
    certainty: Certainty
    error: str | None = None
    """What the launcher or the runtime would refuse; None when it starts."""
    _explain: Callable[[Prediction, int], tuple[Step, ...]] = field(default=_no_steps, repr=False, compare=False)
    _diagnose: Callable[[Prediction], tuple[Finding, ...]] = field(default=_no_findings, repr=False, compare=False)

    @property
    def nvml_indices(self) -> tuple[int | None, ...]:
        """Host NVML index behind cuda:0, cuda:1, … of the first process; () when nothing is visible."""
        return self.processes[0].nvml_indices if self.processes else ()

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What each layer did to which value, and why, outermost first; of the first process."""
        return self._explain(self, 0)

    def focus(self, worker: int) -> Prediction:
        """The same with one process only, by its place in ``processes``; its findings are those of the whole."""
        process = self.processes[worker]
        return replace(
            self,
            processes=(process,),
            certainty=process.certainty,
            _explain=lambda _, __: self._explain(self, worker),
            _diagnose=lambda _: self.findings,
        )

    def steps_of(self, worker: int) -> tuple[Step, ...]:
        """The same for another process, by its place in ``processes``."""
        return self._explain(self, worker)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is worth saying, most harmful first."""
        return self._diagnose(self)

    def __str__(self) -> str:
        from .views.text import prediction_text

        return prediction_text(self)

    def _repr_html_(self) -> str:
        from .views.workers import prediction_html

        return prediction_html(self)

    def matrix(self) -> Any:
        """Its workers × the GPUs, as a `views.matrix.Matrix`: what ``cuda:i`` every GPU is for every worker."""
        from .views.matrix import matrix

        return matrix(self)

    def to_frame(self) -> Any:
        """pandas: a row for every (process, ordinal) and, with no ordinal, for every hidden GPU."""
        from .views.frames import prediction_frame

        return prediction_frame(self)


# --- what the hardware said ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedDevice:
    """One CUDA device as a witness reported it. None where it does not tell."""

    ordinal: int
    uuid: str | None
    """Without prefix, lower case: the form in which torch prints it."""
    name: str | None
    pci_bus_id: str | None
    memory_mib: int | None
    compute_capability: tuple[int, int] | None


@dataclass(frozen=True)
class Observation:
    """What one witness, in a process of its own, said about a scenario."""

    devices: tuple[ObservedDevice, ...] = ()
    problem: Message | None = None
    """Why there is no answer; None when there is one (no device at all is an answer)."""
    env: Mapping[str, str] = field(default_factory=FrozenDict)
    """The GPU variables as read back from inside the process."""
    wanted_env: Mapping[str, str] = field(default_factory=FrozenDict)
    """Those that it was given; a kernelspec of its own can override them."""
    versions: Mapping[str, str] = field(default_factory=FrozenDict)
    """``python``, ``torch``, ``cuda`` (that torch was built for), ``driver``."""
    seconds: Mapping[str, float] = field(default_factory=FrozenDict)
    """How long each part took: ``kernel`` (until it answered), ``torch`` (its import), ``cuda`` (its start, devices
    asked), ``total``. Of a driver: ``cuda``, ``nvml``, ``total``."""
    started: str = ""
    """ISO time with zone."""
    kernel_name: str = ""
    simulated: bool = False
    """True when a simulated driver answered: it confirms the code path, never the hardware."""
    present: tuple[tuple[str | None, str | None], ...] | None = None
    """UUID (bare) and PCI address of each GPU that NVML showed there, whatever the list hides; None when it was mute."""
    witness: str = "torch"
    """Who says so; a row of `WITNESSES`."""
    rank: int | None = None
    """Of the worker that says so, as its launcher numbered it; None where no launcher ran."""
    local_rank: int | None = None
    ran: tuple[str, ...] = ()
    """Kinds of the layers that really ran around CUDA, outermost first: a launcher that was started for real."""
    container: str | None = None
    """The kind of container that all this happened in; None outside of any."""
    warm: bool = False
    """Whether a kernel that waited with torch loaded gave the answer."""
    notes: tuple[Message, ...] = ()
    """What else must be known of how it came about."""
    others: tuple[Observation, ...] = ()
    """What other witnesses said to the same question."""

    @property
    def each(self) -> tuple[Observation, ...]:
        """Every witness's observation, the nearest to the hardware first; of one witness, by rank."""
        found = (self, *self.others)
        return tuple(sorted(found, key=lambda one: (WITNESSES.index(one.witness), one.rank or 0)))


WITNESSES = ("footprint", "driver", "torch")
"""Who can say which GPU is ``cuda:i``, the nearest to the hardware first: where memory shows that was held on it, what
the driver tells, what torch tells."""


@dataclass(frozen=True)
class Edge:
    """One ordinal, foretold and seen."""

    rank: int | None
    ordinal: int
    predicted: Device | None
    """None when the run showed a device that was not foretold."""
    observed: ObservedDevice | None
    """None when a foretold device did not show."""
    verdict: str
    """``agrees``, ``differs`` or ``not checked``."""
    reason: Message | None
    seen_position: int | None = None
    """Position in ``topology.gpus`` of the GPU that was seen; None when it is none of this machine."""
    by: Mapping[str, Edge] = field(default_factory=FrozenDict)
    """The same edge as each single witness has it; empty where there is only one witness."""


@dataclass(frozen=True)
class Comparison:
    """A prediction beside what one or more witnesses said, joined by UUID."""

    prediction: Prediction
    observation: Observation
    verdict: str
    """``confirmed``, ``refuted`` or ``not checked``."""
    reason: Message
    edges: tuple[Edge, ...]
    joined_by: str
    """``uuid``, ``pci address`` or ``nothing``."""
    exercised: tuple[str, ...] = ("cuda",)
    """The layers that the run really went through."""
    failed: Step | None = None
    """The rule that the hardware contradicts, where it differs and that can be told."""
    parts: tuple[Comparison, ...] = ()
    """The comparison with each single witness, the nearest to the hardware first; () where there is only one."""

    @property
    def each(self) -> tuple[Comparison, ...]:
        """One comparison a witness: ``parts``, or this one where it is the only one."""
        return self.parts or (self,)

    @property
    def simulated(self) -> bool:
        """Whether a simulated driver answered."""
        return any(part.observation.simulated for part in self.each)

    def __str__(self) -> str:
        from .views.text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from .views.verdicts import comparison_html

        return comparison_html(self)

    def to_frame(self) -> Any:
        """pandas: a row for every ordinal, foretold beside seen."""
        from .views.frames import comparison_frame

        return comparison_frame(self)
