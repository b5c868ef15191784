"""The inverse: from a wanted map to what to type. Every text is read back as a command and resolved before it is shown.

A way to start a program is a row of `VIAS` that offers texts, the smallest first; the surest that gives the wish wins.
What no text of a row can give is said with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .certainty import Certainty
from .device_order import pci_order
from .errors import GpumapError
from .frozen import FrozenDict
from .mapping import Message, Prediction, message
from .resolver import resolve
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from .topology import Gpu, Topology

UUID, INDEX = "uuid", "index"
FORMS = (UUID, INDEX)
_ORDER = f"{CUDA_DEVICE_ORDER}=PCI_BUS_ID"


class NoRemedy(GpumapError):
    """Nothing that can be typed gives what is wanted; the message says why."""


@dataclass(frozen=True)
class Wish:
    """What is wanted: GPUs in the order of their CUDA numbers, named by UUID or by index under PCI_BUS_ID."""

    topology: Topology
    positions: tuple[int, ...]
    """Positions in ``topology.gpus``."""
    form: str

    @property
    def count(self) -> int:
        """How many GPUs are wanted."""
        return len(self.positions)

    @property
    def whole(self) -> bool:
        """Whether every usable GPU of the machine is wanted."""
        return set(self.positions) == set(self.topology.usable)

    @property
    def uuids(self) -> str:
        """The wanted UUIDs with commas between them."""
        return ",".join(str(self.topology.gpus[i].uuid) for i in self.positions)

    @property
    def host(self) -> str:
        """The wanted GPUs as a runtime on the host takes them: UUIDs, or NVML indices."""
        if self.form == UUID:
            return self.uuids
        return ",".join(str(self.topology.gpus[i].nvml_index) for i in self.positions)

    def entries(self, *, inside: bool = False) -> str:
        """The list for CUDA_VISIBLE_DEVICES; ``inside`` counts within the wanted GPUs, as in a container of them."""
        if self.form == UUID:
            return self.uuids
        counted = pci_order(self.topology, self.positions if inside else self.topology.usable)
        return ",".join(str(counted.index(i)) for i in self.positions)

    def settings(self, *, inside: bool = False) -> list[dict[str, str]]:
        """Variables that give it, the smallest set first."""
        listed = {CUDA_VISIBLE_DEVICES: self.entries(inside=inside)}
        ordered = {CUDA_DEVICE_ORDER: "PCI_BUS_ID"}
        return [listed] if self.form == UUID else [ordered, {**ordered, **listed}]


class Via(NamedTuple):
    """One way to start a program."""

    texts: Callable[[Wish], Iterable[str]]
    """Texts that may do it, the smallest first."""
    caveats: tuple[str, ...] = ()
    """Keys of what its user must know: ``caveat.<key>``."""
    cannot: str = "general"
    """Key of why there may be none: ``cannot.<key>``."""
    assume: Callable[[Wish], Mapping[str, Any]] = lambda _: FrozenDict()
    """Facts under which the text is checked; they are part of its caveats."""


@dataclass(frozen=True)
class Remedy:
    """What to type in one place. ``text`` None: nothing does it there, ``why`` says why."""

    via: str
    form: str
    """``uuid`` or ``index``."""
    text: str | None
    caveats: tuple[Message, ...]
    why: Message | None
    prediction: Prediction | None
    """What the text gives, resolved."""

    @property
    def certainty(self) -> Certainty:
        """How sure it is that the text gives what is wanted."""
        return self.prediction.certainty if self.prediction else Certainty.UNKNOWN

    def __str__(self) -> str:
        return self.text if self.text is not None else str(self.why)


def remedies(topology: Topology, want: Sequence[str | int | Gpu], via: str | None = None) -> tuple[Remedy, ...]:
    """What to type so that cuda:0, cuda:1, … are the wanted GPUs, in every place and both forms.

    ``want``: UUIDs or unique beginnings, nvidia-smi indices, or `Gpu`s of the machine, in the order of their numbers.
    Raises NoRemedy for a wish that no machine like this can fulfil.
    """
    positions = _positions(topology, want)
    if via is not None and via not in VIAS:
        raise NoRemedy(f"Nobody starts programs by “{via}” here.", remedy=f"One of {', '.join(VIAS)}.")
    keys = VIAS if via is None else (via,)
    return tuple(_remedy(key, Wish(topology, positions, form)) for key in keys for form in FORMS)


def remedy(topology: Topology, want: Sequence[str | int | Gpu], via: str = "shell", form: str | None = None) -> Remedy:
    """The one text to type in one place: by UUID where that works there, else by index. Raises NoRemedy with the reason."""
    found = [one for one in remedies(topology, want, via) if form in (None, one.form)]
    for one in found:
        if one.text is not None:
            return one
    raise NoRemedy(" ".join(dict.fromkeys(str(one.why) for one in found)) or f"There is no form “{form}”.")


def _positions(topology: Topology, want: Sequence[str | int | Gpu]) -> tuple[int, ...]:
    positions = tuple(_position(topology, one) for one in want)
    if not positions:
        raise NoRemedy("No GPU is wanted.", remedy="Name at least one.")
    if len(set(positions)) < len(positions):
        raise NoRemedy("One GPU is wanted twice; CUDA would then see none.")
    return positions


def _position(topology: Topology, one: str | int | Gpu) -> int:
    gpus = topology.gpus
    if isinstance(one, Gpu):
        found = [i for i, gpu in enumerate(gpus) if gpu == one]
    elif isinstance(one, int):
        found = [i for i, gpu in enumerate(gpus) if gpu.nvml_index == one]
    else:
        found = [i for i, gpu in enumerate(gpus) if gpu.uuid and gpu.uuid.lower().startswith(one.lower())]
    if len(found) != 1:
        raise NoRemedy(f"{one} is {'no GPU' if not found else f'{len(found)} GPUs'} of this machine.")
    if (problem := gpus[found[0]].problem) is not None:
        raise NoRemedy(f"{one} cannot be used: {problem}")
    return found[0]


def _remedy(key: str, wish: Wish) -> Remedy:
    row = VIAS[key]
    unknown = _unnamed(wish)
    if unknown is not None:
        return Remedy(key, wish.form, None, (), unknown, None)
    texts = [
        (text, resolve(Scenario.from_command(wish.topology, text, assume=row.assume(wish)))) for text in row.texts(wish)
    ]
    good = [(text, prediction) for text, prediction in texts if fulfils(prediction, wish.positions)]
    if not good:
        return Remedy(key, wish.form, None, (), message(f"cannot.{row.cannot}"), None)
    text, prediction = min(good, key=lambda one: one[1].certainty.rank)  # the surest, of those the smallest
    caveats = tuple(message(f"caveat.{one}") for one in (*row.caveats, wish.form))
    return Remedy(key, wish.form, text, caveats, None, prediction)


def _unnamed(wish: Wish) -> Message | None:
    """Why the wanted GPUs cannot be named in this form; None where they can."""
    gpus = [wish.topology.gpus[i] for i in wish.positions]
    if wish.form == UUID and any(gpu.uuid is None for gpu in gpus):
        return message("cannot.no-uuid")
    if wish.form == INDEX and any(gpu.nvml_index is None or gpu.mig_mode for gpu in gpus):
        return message("cannot.no-index")
    return None


def fulfils(prediction: Prediction, positions: tuple[int, ...]) -> bool:
    """Whether every process has exactly these GPUs as its cuda:0, cuda:1, …, and that is likely at least."""
    maps = {tuple(device.position for device in process.devices) for process in prediction.processes}
    return maps == {positions} and prediction.certainty in (Certainty.CERTAIN, Certainty.LIKELY)


# --- the texts --------------------------------------------------------------------------------------------------------


def _prefix(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value} " for name, value in values.items())


def _prefixed(program: Callable[[Wish], str]) -> Callable[[Wish], Iterator[str]]:
    """A program behind assignments."""

    def texts(wish: Wish) -> Iterator[str]:
        for values in wish.settings():
            yield _prefix(values) + program(wish)

    return texts


def _python(wish: Wish) -> Iterator[str]:
    for values in wish.settings():
        lines = "".join(f'os.environ["{name}"] = "{value}"\n' for name, value in values.items())
        yield f"import os\n\n{lines}\nimport torch\n"


def _inner(wish: Wish) -> list[dict[str, str]]:
    """Variables inside a container that has the wanted GPUs only."""
    return [{}, *wish.settings(inside=True)]


def _docker(wish: Wish) -> Iterator[str]:
    for values in _inner(wish):
        flags = "".join(f"-e {name}={value} " for name, value in values.items())
        yield f"docker run --gpus '\"device={wish.host}\"' {flags}IMAGE python train.py"


def _compose(wish: Wish) -> Iterator[str]:
    ids = ", ".join(f'"{one}"' for one in wish.host.split(","))
    for values in _inner(wish):
        env = "".join(f'      {name}: "{value}"\n' for name, value in values.items())
        yield (
            "services:\n  train:\n    image: IMAGE\n    command: python train.py\n"
            + (f"    environment:\n{env}" if env else "")
            + "    deploy:\n      resources:\n        reservations:\n          devices:\n"
            + f"            - driver: nvidia\n              device_ids: [{ids}]\n              capabilities: [gpu]\n"
        )


def _kubernetes(wish: Wish) -> Iterator[str]:
    if not wish.whole:
        return
    for values in _inner(wish):
        env = "".join(f'        - name: {name}\n          value: "{value}"\n' for name, value in values.items())
        yield (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: train\nspec:\n  containers:\n    - name: train\n"
            "      image: IMAGE\n      command: [python, train.py]\n"
            + (f"      env:\n{env}" if env else "")
            + f"      resources:\n        limits:\n          nvidia.com/gpu: {wish.count}\n"
        )


def _slurm(wish: Wish) -> Iterator[str]:
    for values in wish.settings():
        count = len(wish.topology.usable)
        yield f"srun --exclusive --gres=gpu:{count} env {_prefix(values)}python train.py"


def _systemd(wish: Wish) -> Iterator[str]:
    for values in wish.settings():
        lines = "".join(f"Environment={name}={value}\n" for name, value in values.items())
        yield f"[Service]\n{lines}ExecStart=/usr/bin/python3 train.py\n"


def _deepspeed(wish: Wish) -> Iterator[str]:
    if wish.form == INDEX:
        yield f"{_ORDER} deepspeed --include localhost:{wish.entries()} train.py"


def _accelerate(wish: Wish) -> Iterator[str]:
    many = "--multi_gpu " if wish.count > 1 else ""
    start = f"accelerate launch {many}--num_processes {wish.count} "
    if wish.form == UUID:
        yield f"{_prefix(wish.settings()[0])}{start}train.py"
    else:
        yield f"{_ORDER} {start}--gpu_ids {wish.entries()} train.py"


def _all_given(wish: Wish) -> Mapping[str, Any]:
    """The scheduler or plugin gives every GPU of the node."""
    given = tuple(sorted(i for i in (wish.topology.gpus[p].nvml_index for p in wish.topology.usable) if i is not None))
    return {"allocated": given, "constrain_devices": True}


VIAS: Mapping[str, Via] = {
    "shell": Via(_prefixed(lambda _: "python train.py")),
    "python": Via(_python, ("python",)),
    "torchrun": Via(_prefixed(lambda wish: f"torchrun --nproc-per-node={wish.count} train.py"), ("local-rank",)),
    "accelerate": Via(_accelerate, ("local-rank",)),
    "deepspeed": Via(_deepspeed, ("local-rank", "deepspeed"), "deepspeed"),
    "docker": Via(_docker, ("docker",)),
    "compose": Via(_compose, ("docker",)),
    "kubernetes": Via(_kubernetes, ("kubernetes",), "kubernetes", _all_given),
    "slurm": Via(_slurm, ("slurm",), "slurm", _all_given),
    "systemd": Via(_systemd, ("systemd",)),
}
"""Where something can be typed."""
