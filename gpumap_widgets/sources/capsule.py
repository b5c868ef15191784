"""A machine in a file: what somebody else needs to look at it without being on it, and what changed since the last time.

A capsule is one JSON object: the machine, the variables that touch the numbering, versions, who took it where and when.
Everything here is pure, except `take`. A text that is no sound capsule raises UnreadableTopology, whatever is in it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from ..catalog import look_up
from ..errors import GpumapError, ImpossibleMachine, UnreadableTopology
from ..explanation import gpu_name, message
from ..frozen import FrozenDict
from ..grammar import KEYWORDS
from ..identity import bare_uuid
from ..mapping import Message
from ..scenario import (
    CUDA_DEVICE_ORDER,
    CUDA_VISIBLE_DEVICES,
    Scenario,
    asdict_topology,
    is_relevant,
    topology_from_dict,
)
from ..texts import say
from ..topology import Gpu, MigInstance, Topology

SCHEMA = 1
"""Version of the format that `Capsule.to_json` writes."""
LIMIT = 2 * 1024 * 1024
"""Longest accepted text, in characters."""

_MARK = "gpumap_capsule"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|JWT|COOKIE", re.IGNORECASE)
"""SLURM_JWT and NVIDIA_API_KEY begin like variables that touch the numbering."""


class CapsuleProcess(NamedTuple):
    """A process that the driver showed on a GPU."""

    pid: int
    """As the host numbers it."""
    gpu: str | None = None
    """UUID of the GPU."""
    mig: str | None = None
    """UUID of the MIG device that it is on; None on a whole GPU."""
    nvml_index: int | None = None
    memory_mib: int | None = None
    """GPU memory that it uses, in MiB; None where the driver does not tell."""


@dataclass(frozen=True)
class Capsule:
    """A machine with what is needed to judge its numbering elsewhere."""

    topology: Topology
    env: Mapping[str, str] | None = None
    """The two variables and their siblings, as raw text; secrets and everything else are dropped. None: nobody looked."""
    taken: str | None = None
    """ISO time with zone."""
    host: str | None = None
    user: str | None = None
    versions: Mapping[str, str] = field(default_factory=FrozenDict)
    """``python``, ``torch``, ``cuda`` (that torch was built for), ``driver``."""
    labels: Mapping[str, str] = field(default_factory=FrozenDict)
    """The user's own names, by UUID: ``slot 3, left``."""
    processes: tuple[CapsuleProcess, ...] | None = None
    """None when they were not asked for, or the driver does not show them."""
    mask: str | None = None
    """Which salt the names are masked with (a fingerprint of it); None for a capsule with real names."""

    def __post_init__(self) -> None:
        if self.env is not None:
            kept = {k: v for k, v in self.env.items() if is_relevant(k) and not _SECRET.search(k)}
            object.__setattr__(self, "env", FrozenDict(kept))
        object.__setattr__(self, "versions", FrozenDict(self.versions))
        object.__setattr__(self, "labels", FrozenDict(self.labels))

    def to_json(self) -> str:
        """The capsule as JSON in ASCII; `from_json` gives an equal one back."""
        data: dict[str, Any] = {_MARK: SCHEMA}
        data |= {name: getattr(self, name) for name in _HEAD if getattr(self, name) is not None}
        data |= {name: dict(getattr(self, name)) for name in _TABLES if getattr(self, name) is not None}
        data["topology"] = asdict_topology(self.topology)
        if self.processes is not None:
            data["processes"] = [{k: v for k, v in p._asdict().items() if v is not None} for p in self.processes]
        return json.dumps(data, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Capsule:
        """Read what any release so far has written; text around the outermost braces is ignored.

        Raises UnreadableTopology for anything else: a damaged, too long or hostile text, or a newer format.
        """
        return _capsule(_migrated(_parsed(text)))

    def labelled(self, gpu: str, label: str) -> Capsule:
        """The same capsule with the user's own name for a GPU, given by nvidia-smi number or beginning of its UUID.

        Raises GpumapError when that is no GPU of this machine, or more than one, or one without a UUID.
        """
        wanted = gpu.strip()
        found = [g for g in self.topology.gpus if wanted.isdecimal() and str(g.nvml_index) == wanted]
        if not found and bare_uuid(wanted):
            found = [g for g in self.topology.gpus if g.uuid and bare_uuid(g.uuid).startswith(bare_uuid(wanted))]
        if len(found) != 1:
            key = "capsule.ambiguous-gpu" if found else "capsule.no-such-gpu"
            raise GpumapError(say(key, key=_shortened(gpu)), remedy=say("capsule.no-such-gpu-remedy"))
        if found[0].uuid is None:
            raise GpumapError(say("capsule.label-without-uuid", key=_shortened(gpu)))
        return replace(self, labels={**self.labels, found[0].uuid: label})

    def masked(self, salt: str | None = None) -> Capsule:
        """The capsule without the names of boards, host and user; addresses, models and numbers stay.

        A name always gets the same mask, within a capsule and between capsules masked with one ``salt``. UUIDs keep
        their form, and beginnings of them stay beginnings. No salt, or an empty one, means one that nobody will know.
        A masked capsule is returned as it is.
        """
        import secrets

        return self if self.mask is not None else _masked(self, salt or secrets.token_hex(16))


def is_capsule(text: str) -> bool:
    """Whether a text means to be a capsule, so that `Capsule.from_json` has the better words for what is wrong with it."""
    return 0 <= text.find("{") < text.find(f'"{_MARK}"')


def scenario_of(capsule: Capsule) -> Scenario:
    """A process started on that machine where the capsule was taken."""
    return Scenario.from_env(capsule.topology, capsule.env or {})


def take(*, processes: bool = False) -> Capsule:
    """A capsule of this machine and this process's variables, now. CUDA is not started, torch not imported.

    Raises NoDriver where the machine has no driver to ask.
    """
    import getpass
    import os
    import platform

    from . import nvml

    topology = nvml.this_machine()
    running: tuple[CapsuleProcess, ...] | None = None
    if processes:
        seen = nvml.processes(topology)
        topology = replace(topology, notes=(*topology.notes, *seen.notes))
        indices = [gpu.nvml_index for gpu in topology.gpus]
        rows = ((p.pid, p.gpu_uuid, p.mig_uuid, indices[p.position], p.memory_mib) for p in seen.processes)
        running = tuple(CapsuleProcess(*row) for row in rows)
    try:
        user: str | None = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a number without a name, usual in containers
        user = None
    versions = {"python": platform.python_version(), **_torch_versions()}
    if topology.driver_version:
        versions["driver"] = topology.driver_version
    return Capsule(
        topology,
        dict(os.environ),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        platform.node() or None,
        user,
        versions,
        processes=running,
    )


def _torch_versions() -> dict[str, str]:
    """Version of the torch that would be imported, and the CUDA that it was built for, from its files."""
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    try:
        torch = distribution("torch")
    except PackageNotFoundError:
        return {}
    try:
        source = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except (OSError, ValueError):
        source = ""
    found = {"torch": torch.version}
    for name, variable in (("torch", "__version__"), ("cuda", "cuda")):
        if match := re.search(rf"^{variable}\b[^'\n]{{0,80}}'([^'\n]{{1,80}})'", source, re.MULTILINE):
            found[name] = match[1]
    return found


# --- reading: plain data is checked field by field before anything is made of it --------------------------------------

_MOST = 4096
_HEAD: Mapping[str, int] = {"taken": 64, "host": 255, "user": 255, "mask": 64}
"""Text fields and their longest accepted length."""
_TABLES: Mapping[str, int] = {"versions": 200, "env": 131_072, "labels": 500}
"""Fields that hold texts by name, and the longest accepted text; of env, what Linux allows."""
_Spec = range | int | type[bool]
"""A whole number in a range, a text of at most so many characters, or a flag."""
_COUNT, _MIB = range(65_536), range(2**40)
_PLATFORM: Mapping[str, _Spec] = {"driver_version": 64, "platform": 16, "source": 1000}
_FLAGS: Mapping[str, _Spec] = {"simulated": bool, "default_order_measured": bool}
_NAMES: Mapping[str, _Spec] = {"name": 256, "uuid": 128, "pci_bus_id": 64, "problem": 2000}
_NUMBERS: Mapping[str, _Spec] = {"nvml_index": _COUNT, "memory_mib": _MIB, "sm_count": _COUNT}
_PLACE: Mapping[str, _Spec] = {"minor_number": range(2**20), "numa_node": range(-1, 2**32), "mig_mode": bool}
_TOPOLOGY = {**_PLATFORM, **_FLAGS}
_GPU = {**_NAMES, **_NUMBERS, **_PLACE}
_INSTANCE: Mapping[str, _Spec] = {"gpu_instance_id": _COUNT, "compute_instance_id": _COUNT, "mig_index": _COUNT}
_MIG = {"uuid": 128, "profile": 64, "memory_mib": _MIB, **_INSTANCE}
_PROCESS: Mapping[str, _Spec] = {"pid": range(2**32), "gpu": 128, "mig": 128, "nvml_index": _COUNT, "memory_mib": _MIB}

MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version → what turns plain data of that version into the next one. Version 1 is the first and still the current."""


def _broken(why: str) -> UnreadableTopology:
    return UnreadableTopology(say("capsule.broken", why=why), remedy=say("capsule.remedy"))


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > LIMIT:
        raise UnreadableTopology(say("capsule.too-large", limit=LIMIT // 2**20), remedy=say("capsule.remedy"))
    start, stop = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[max(start, 0) : stop], object_pairs_hook=_unique, parse_constant=_no_number)
    except UnreadableTopology:
        raise
    except RecursionError as exc:
        raise _broken(say("capsule.too-deep")) from exc
    except ValueError as exc:
        raise UnreadableTopology(say("capsule.not-json", error=exc), remedy=say("capsule.remedy")) from exc
    return _object(data, _MARK)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise _broken(say("capsule.duplicate", name=_shortened(twice)))
    return data


def _no_number(word: str) -> None:
    raise _broken(say("capsule.no-number", word=word))


def _migrated(data: dict[str, Any]) -> dict[str, Any]:
    """The data in the current version."""
    version = data.get(_MARK)
    if type(version) is not int or version < 1:
        raise UnreadableTopology(say("capsule.not-capsule"), remedy=say("capsule.remedy"))
    if version > SCHEMA:
        said = say("capsule.newer", version=_shown(version), known=SCHEMA)
        raise UnreadableTopology(said, remedy=say("capsule.remedy-newer"))
    for old in range(version, SCHEMA):
        data = MIGRATIONS[old](data)
    return data


def _capsule(data: dict[str, Any]) -> Capsule:
    head = _fields(data, _HEAD, "")
    if "taken" in head and not _is_time(head["taken"]):
        raise _wrong("taken", data["taken"], say("capsule.wanted.time"))
    tables: dict[str, Any] = {
        name: {key: _value(value, limit, f"{name}.{key}") for key, value in _object(data[name], name).items()}
        for name, limit in _TABLES.items()
        if data.get(name) is not None
    }
    processes = None
    if data.get("processes") is not None:
        rows = [_fields(_object(row, at), _PROCESS, at) for at, row in _list(data["processes"], "processes", 65_536)]
        if missing := [f"processes[{i}].pid" for i, row in enumerate(rows) if "pid" not in row]:
            raise _broken(say("capsule.missing", where=missing[0]))
        processes = tuple(CapsuleProcess(**row) for row in rows)
    if "topology" not in data:
        raise _broken(say("capsule.missing", where="topology"))
    return Capsule(_topology(_object(data["topology"], "topology")), **head, **tables, processes=processes)


def _topology(data: dict[str, Any]) -> Topology:
    plain = _fields(data, _TOPOLOGY, "topology")
    gpus = plain["gpus"] = [_gpu(_object(row, at), at) for at, row in _list(data.get("gpus"), "topology.gpus", 1024)]
    for name, limit, spec in (("notes", _MOST, LIMIT), ("default_order", len(gpus), range(len(gpus)))):
        if data.get(name) is not None and data[name] != []:
            plain[name] = [_value(value, spec, at) for at, value in _list(data[name], f"topology.{name}", limit)]
    try:
        return topology_from_dict(plain)
    except ImpossibleMachine as exc:
        raise UnreadableTopology(exc.message, remedy=exc.remedy) from exc


def _gpu(data: dict[str, Any], at: str) -> dict[str, Any]:
    plain = _fields(data, _GPU, at)
    if data.get("compute_capability") is not None:
        where = f"{at}.compute_capability"
        pair = [_value(number, range(1000), here) for here, number in _list(data["compute_capability"], where, 2)]
        if len(pair) != 2:
            raise _wrong(where, data["compute_capability"], say("capsule.wanted.pair"))
        plain["compute_capability"] = pair
    if data.get("mig_instances") is not None:
        rows = _list(data["mig_instances"], f"{at}.mig_instances", 256)
        plain["mig_instances"] = [_fields(_object(row, here), _MIG, here) for here, row in rows]
    return plain


def _fields(data: Mapping[str, Any], specs: Mapping[str, _Spec], at: str) -> dict[str, Any]:
    """The known fields of an object, each checked; null is as good as absent, unknown ones are left out."""
    where = f"{at}." if at else ""
    known = (name for name in specs if data.get(name) is not None)
    return {name: _value(data[name], specs[name], where + name) for name in known}


def _value(value: Any, spec: _Spec, where: str) -> Any:
    if isinstance(spec, range):
        sound, wanted = type(value) is int and value in spec, "whole"
    elif isinstance(spec, int):
        sound, wanted = type(value) is str and len(value) <= spec, "text"
    else:
        sound, wanted = type(value) is bool, "flag"
    if sound:
        return value
    low, high = (spec.start, spec.stop - 1) if isinstance(spec, range) else (0, 0)
    raise _wrong(where, value, say(f"capsule.wanted.{wanted}", low=low, high=high, limit=spec))


def _object(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict or len(value) > _MOST:
        raise _wrong(where, value, say("capsule.wanted.object", limit=_MOST))
    return value


def _list(value: Any, where: str, limit: int) -> list[tuple[str, Any]]:
    """The entries of a list, each with its place in words."""
    if type(value) is not list or len(value) > limit:
        raise _wrong(where, value, say("capsule.wanted.list", limit=limit))
    return [(f"{where}[{i}]", entry) for i, entry in enumerate(value)]


def _wrong(where: str, value: object, wanted: str) -> UnreadableTopology:
    return _broken(say("capsule.wrong-type", where=_shortened(where), got=_shown(value), wanted=wanted))


def _shown(value: object) -> str:
    """A value of any kind in a few harmless words."""
    if isinstance(value, str):
        return say("capsule.got.text", text=_shortened(value))
    if isinstance(value, list | dict):
        return say("capsule.got.list" if isinstance(value, list) else "capsule.got.object")
    return say("capsule.got.number", number=_shortened(json.dumps(value)))


def _shortened(text: str) -> str:
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text[:60])
    return f"{shown}…" if len(text) > len(shown) else shown


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


# --- masking ---------------------------------------------------------------------------------------------------------

_SHOWN = frozenset(
    {CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
    | {"GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK"}
)
"""Variables whose text is the point; of the others only plain numbers are shown in a masked capsule."""
_PLAIN = re.compile(r"[0-9,()x=+ -]*")
_BARE = r"(?<![0-9A-Za-z-])(?=[0-9]{0,8}[A-Fa-f-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}[0-9A-Fa-f-]*+)?+(?![0-9A-Za-z])"
_IN_LISTS = re.compile(rf"(?P<head>(?:GPU|MIG)-)(?P<tail>[0-9A-Fa-f][0-9A-Fa-f-]*)|{_BARE}", re.IGNORECASE)
"""Whatever CUDA could take for a UUID or the beginning of one."""
_IN_PROSE = re.compile(rf"(?P<head>(?:GPU|MIG)-)(?P<tail>[0-9A-Fa-f]{{4,8}}+[0-9A-Fa-f-]*+)(?![G-Zg-z])|{_BARE}")


class _Mask:
    """Masks by a keyed hash. A digit of a UUID depends on the digits before it only: beginnings stay beginnings."""

    def __init__(self, salt: str, host: str | None, user: str | None) -> None:
        import hmac

        self._digest = hmac.digest
        self._key = salt.encode("utf-8", "surrogatepass")
        self._pads: dict[str, int] = {}
        names = [(host, "host"), ((host or "").partition(".")[0], "host"), (user, "user")]
        self._names = {n: self.tag(n, kind) for n, kind in names if n and not n.isdigit() and n.lower() not in KEYWORDS}
        self._pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, self._names))})(?![\w-])")

    def _hash(self, text: str) -> bytes:
        return self._digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")

    def tag(self, text: str, kind: str) -> str:
        """A mask that shows only what kind of name it is."""
        return f"{kind}-{self._hash(f'{kind} {text}').hex()[:8]}"

    @property
    def fingerprint(self) -> str:
        """Tells two salts apart, and nothing else of them."""
        return self._hash("salt").hex()[:16]

    def _digits(self, text: str) -> str:
        shown, before = [], ""
        for digit in text:
            if digit == "-":
                shown.append(digit)
                continue
            if before not in self._pads:
                self._pads[before] = self._hash(f"uuid {before}")[0] & 15
            shown.append(f"{int(digit, 16) ^ self._pads[before]:x}")
            before = (before + digit.lower())[:64]
        masked = "".join(shown)
        return masked.upper() if text != text.lower() else masked

    def _found(self, match: re.Match[str]) -> str:
        return match["head"] + self._digits(match["tail"]) if match["head"] else self._digits(match[0])

    def uuid(self, uuid: str) -> str:
        """A UUID in its own form; anything else in its place as a whole."""
        return _IN_LISTS.sub(self._found, uuid) if _IN_LISTS.fullmatch(uuid) else self.tag(uuid, "name")

    def prose(self, text: str) -> str:
        """A sentence with the names in it masked."""
        return _IN_PROSE.sub(self._found, self._named(text))

    def _named(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._names[match[0]], text) if self._names else text

    def variable(self, name: str, value: str) -> str:
        """The value of an environment variable; one that may name anything becomes a mask as a whole."""
        if name in _SHOWN:
            return _IN_LISTS.sub(self._found, self._named(value))
        harmless = _PLAIN.fullmatch(value) and not name.endswith(("UID", "GID"))
        return value if harmless else self._names.get(value) or self.tag(value, "value")


def _masked(capsule: Capsule, salt: str) -> Capsule:
    mask = _Mask(salt, capsule.host, capsule.user)

    def masked(uuid: str | None) -> str | None:
        return mask.uuid(uuid) if uuid else uuid

    def each(value: Gpu | MigInstance) -> Any:
        return replace(value, uuid=masked(value.uuid))

    machine = capsule.topology
    gpus = tuple(
        replace(
            each(gpu),
            mig_instances=tuple(map(each, gpu.mig_instances)),
            problem=mask.prose(gpu.problem) if gpu.problem else None,
        )
        for gpu in machine.gpus
    )
    return replace(
        capsule,
        topology=replace(
            machine, gpus=gpus, source=mask.prose(machine.source), notes=tuple(map(mask.prose, machine.notes))
        ),
        env=None if capsule.env is None else {k: mask.variable(k, v) for k, v in capsule.env.items()},
        host=mask.tag(capsule.host, "host") if capsule.host else None,
        user=mask.tag(capsule.user, "user") if capsule.user else None,
        labels={mask.uuid(uuid): mask.prose(label) for uuid, label in capsule.labels.items()},
        processes=None
        if capsule.processes is None
        else tuple(p._replace(gpu=masked(p.gpu), mig=masked(p.mig)) for p in capsule.processes),
        mask=mask.fingerprint,
    )


# --- drift -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """One thing that is not as it was."""

    code: str
    """Key into `DRIFTS`."""
    said: Message
    fix: Message | None = None
    gpu: str = ""
    """UUID of the board that it is about; "" where it is about none, or the UUID is not known."""
    old: str = ""
    new: str = ""

    @property
    def severity(self) -> str:
        """``error`` (a number or UUID in use names another board now, or none), ``warning`` (it may), ``info``."""
        return DRIFTS[self.code]

    @property
    def message(self) -> str:
        """What drifted, in one sentence."""
        return self.said.text()

    @property
    def remedy(self) -> str | None:
        """What to do about it; None where there is nothing to do."""
        return self.fix.text() if self.fix else None


DRIFTS: Mapping[str, str] = {
    **dict.fromkeys(("other-machine", "removed", "replaced", "swapped", "swapped-models"), "error"),
    **dict.fromkeys(("unusable", "order"), "error"),
    **dict.fromkeys(("simulated", "unclear", "host", "platform", "added", "moved", "index", "mig"), "warning"),
    **dict.fromkeys(("mig-uuids", "variable", "driver-series"), "warning"),
    **dict.fromkeys(("driver", "minor", "usable-again", "version", "sibling"), "info"),
}
"""Code → severity, most harmful first: the order of the result. The sentences are ``drift.<code>`` in `texts`."""

_OF_A_JOB = re.compile(
    r"(SLURM|OMPI_COMM_WORLD|PMIX?|MASTER)_.*|MPI_LOCALRANKID|((LOCAL|GROUP|NODE)_)?RANK|(LOCAL_)?WORLD_SIZE"
)
"""Variables that differ from one start to the next; they say nothing about a drift."""
_VERSIONS = ("python", "torch", "cuda")
_MOST_NAMED = 8


def drift(old: Capsule, new: Capsule) -> tuple[Drift, ...]:
    """What changed from one capsule to a later one, most harmful first; () when nothing did.

    Boards are joined by UUID; what only one of the two knows is no drift. Raises GpumapError where nothing can be
    joined because only one is masked, or both are with different salts.
    """
    if old.mask != new.mask:
        said = say("drift.refused-salts" if old.mask and new.mask else "drift.refused-mixed")
        raise GpumapError(said, remedy=say("drift.refused-remedy"))
    pairing, places = _Pairing(old, new), list(DRIFTS)
    rows = [row for check in _CHECKS for row in check(pairing)]
    return tuple(sorted(rows, key=lambda row: places.index(row.code)))


def drift_rows(drifts: Iterable[Drift]) -> list[dict[str, str]]:
    """Drifts as rows of a table, every cell a text; "" where there is nothing."""
    names = ("severity", "code", "gpu", "old", "new", "message", "remedy")
    return [{name: getattr(row, name) or "" for name in names} for row in drifts]


class _Pairing:
    """Which board of the one capsule is which of the other."""

    def __init__(self, old: Capsule, new: Capsule) -> None:
        self.old, self.new = old, new
        before, after = old.topology.gpus, new.topology.gpus
        self.then_of: dict[int, int] = {}
        """Position in the new capsule → position in the old one."""
        left = set(range(len(before)))
        for key in ("uuid", "pci_bus_id", "nvml_index"):
            at = {_key(before[i], key): i for i in left}
            at.pop(None, None)
            for j, gpu in enumerate(after):
                i = at.get(_key(gpu, key))
                if i in left and j not in self.then_of and not _differ(before[i], gpu):
                    self.then_of[j] = i
                    left.discard(i)
        for i in sorted(left & set(range(len(after))) - set(self.then_of)):
            if before[i] == after[i]:  # nothing names it, and nothing is different either
                self.then_of[i] = i
                left.discard(i)
        self.pairs = [(before[i], after[j]) for j, i in self.then_of.items()]
        self.gone = [before[i] for i in sorted(left)]
        self.fresh = [gpu for j, gpu in enumerate(after) if j not in self.then_of]

    def named(self, gpu: Gpu, other: Gpu | None = None) -> Message | str:
        """A board as a sentence names it, with the user's label; ``other`` is the same board in the other capsule."""
        name = gpu_name(replace(gpu, name=gpu.name or (other.name if other else None)))
        return self.labelled(name, gpu.uuid or (other.uuid if other else None))

    def labelled(self, name: str, uuid: str | None) -> Message | str:
        """A name of a board with the user's label behind it, where there is one."""
        label = self.new.labels.get(uuid or "") or self.old.labels.get(uuid or "")
        return message("drift.labelled", gpu=name, label=label) if label else name

    def fix(self, key: str, **uuids: str | None) -> Message | None:
        """A remedy that names UUIDs, where they are known and real."""
        return None if self.new.mask or not all(uuids.values()) else message(f"drift.fix-{key}", **uuids)


def _key(gpu: Gpu, name: str) -> object:
    return bare_uuid(gpu.uuid) if name == "uuid" and gpu.uuid else getattr(gpu, name)


def _differ(one: Gpu, other: Gpu) -> bool:
    """Whether two descriptions are of different boards: by UUID where both have one, else by model and address."""
    if one.uuid and other.uuid:
        return bare_uuid(one.uuid) != bare_uuid(other.uuid)
    addresses = one.pci_bus_id, other.pci_bus_id
    return not _may_be_one_model(one, other) or (None not in addresses and addresses[0] != addresses[1])


def _may_be_one_model(one: Gpu, other: Gpu) -> bool:
    """Whether two names can be of one model, as far as they are known; tools leave the vendor out or cut them."""
    if one.name is None or other.name is None:
        return True
    a, b = (gpu.short_name.casefold() for gpu in (one, other))
    if a == b or (a.endswith("...") and b.startswith(a[:-3])) or (b.endswith("...") and a.startswith(b[:-3])):
        return True
    models = look_up(one.name), look_up(other.name)
    return None not in models and models[0] == models[1]


def _surroundings(join: _Pairing) -> Iterator[Drift]:
    old, new = join.old, join.new
    if old.host and new.host and old.host != new.host:
        code = "host" if join.pairs or not (join.gone and join.fresh) else "other-machine"
        yield _changed(code, old.host, new.host)
    if old.topology.simulated != new.topology.simulated:
        yield Drift("simulated", message("drift.simulated"))
    if old.topology.platform != new.topology.platform:
        yield _changed("platform", old.topology.platform, new.topology.platform)
    drivers = [capsule.topology.driver_version or capsule.versions.get("driver") for capsule in (old, new)]
    if all(drivers) and drivers[0] != drivers[1]:
        same = old.topology.driver_major == new.topology.driver_major
        yield _changed("driver" if same else "driver-series", str(drivers[0]), str(drivers[1]))
    for name in _VERSIONS:
        was, now = old.versions.get(name), new.versions.get(name)
        if was and now and was != now:
            yield _changed("version", was, now, name=message(f"drift.name.{name}"))


def _changed(code: str, old: str, new: str, **more: Any) -> Drift:
    return Drift(code, message(f"drift.{code}", old=old, new=new, **more), old=old, new=new)


def _variables(join: _Pairing) -> Iterator[Drift]:
    old, new = join.old.env, join.new.env
    for name in sorted({*(old or ()), *(new or ())}):
        if old is None or new is None or old.get(name) == new.get(name) or _OF_A_JOB.fullmatch(name):
            continue
        was, now = (say("drift.value", value=env[name]) if name in env else say("drift.unset") for env in (old, new))
        yield _changed("variable" if name in _SHOWN else "sibling", was, now, name=name)


def _boards(join: _Pairing) -> Iterator[Drift]:
    """Boards that came, went, or took another's slot; and those of which nothing tells."""
    gone, fresh = list(join.gone), list(join.fresh)
    for key in ("pci_bus_id", "nvml_index"):
        slots = {_key(gpu, key): gpu for gpu in fresh if _key(gpu, key) is not None}
        for was in list(gone):
            now = slots.get(_key(was, key))
            if now is None or now not in fresh or not _differ(was, now):
                continue
            if key == "nvml_index" and None not in (was.pci_bus_id, now.pci_bus_id):
                continue  # an address tells slots apart, a number does not
            gone.remove(was)
            fresh.remove(now)
            fix = join.fix("replaced", uuid=was.uuid, other=now.uuid)
            fields = {"gpu": _with_uuid(join.named(was), was), "other": _with_uuid(join.named(now), now)}
            uuids = (now.uuid or "", was.uuid or "", now.uuid or "")
            yield Drift("replaced", message("drift.replaced", **fields), fix, *uuids)
    unclear_old = [gpu for gpu in gone if not all(_differ(gpu, other) for other in fresh)]
    unclear_new = [gpu for gpu in fresh if not all(_differ(gpu, other) for other in gone)]
    if unclear_old:
        said = message("drift.unclear", n=len(unclear_old), m=len(unclear_new))
        yield Drift("unclear", said, message("drift.unclear-remedy"))
    for gpu in (gpu for gpu in gone if gpu not in unclear_old):
        said = message("drift.removed", gpu=_with_uuid(join.named(gpu), gpu))
        yield Drift("removed", said, join.fix("list", uuid=gpu.uuid), gpu.uuid or "", old=gpu.uuid or "")
    for gpu in (gpu for gpu in fresh if gpu not in unclear_new):
        said = message("drift.added", gpu=_with_uuid(join.named(gpu), gpu))
        yield Drift("added", said, None, gpu.uuid or "", new=gpu.uuid or "")


def _with_uuid(name: Message | str, gpu: Gpu) -> Message | str:
    return message("drift.with-uuid", gpu=name, uuid=gpu.uuid) if gpu.uuid else name


_PLACES = {"pci_bus_id": "moved", "nvml_index": "index", "minor_number": "minor"}


def _moves(join: _Pairing) -> Iterator[Drift]:
    """The same boards at other places: two that exchanged theirs are one row, the rest a row each."""
    moved = [{name for name in _PLACES if len({getattr(a, name), getattr(b, name), None}) == 3} for a, b in join.pairs]
    for name in ("pci_bus_id", "nvml_index"):
        held = {getattr(a, name): i for i, (a, _) in enumerate(join.pairs)}
        for i, (was, now) in enumerate(join.pairs):
            j = held.get(getattr(now, name), i)
            other_was, other_now = join.pairs[j]
            if j == i or not {name} <= moved[i] & moved[j] or getattr(other_now, name) != getattr(was, name):
                continue
            for place in moved[i] & moved[j]:  # whatever else they exchanged is in the same row
                before, after = (
                    (getattr(a, place), getattr(b, place)) for a, b in ((was, other_was), (now, other_now))
                )
                if before == after[::-1]:
                    moved[i].discard(place)
                    moved[j].discard(place)
            yield _swap(join, (was, now), (other_was, other_now))
    for (was, now), names in zip(join.pairs, moved, strict=True):
        for name in sorted(names):
            code, old, new = _PLACES[name], str(getattr(was, name)), str(getattr(now, name))
            said = message(f"drift.{code}", gpu=join.named(now, was), old=old, new=new)
            fix = None if code == "minor" else join.fix("pin", uuid=now.uuid)
            yield Drift(code, said, fix, now.uuid or "", old, new)


def _swap(join: _Pairing, one: tuple[Gpu, Gpu], other: tuple[Gpu, Gpu]) -> Drift:
    """Two boards that exchanged their places, each as it was and as it is."""
    first, second = (
        message("drift.place", gpu=join.labelled(str(now.uuid or was.uuid), now.uuid), old=_place(was), new=_place(now))
        for was, now in (one, other)
    )
    names = [now.name or was.name for was, now in (one, other)]
    if names[0] == names[1]:
        code, said = "swapped", message("drift.swapped", name=names[0], first=first, second=second)
    else:
        fields = {"gpu": names[0], "other": names[1], "first": first, "second": second}
        code, said = "swapped-models", message("drift.swapped-models", **fields)
    uuid = one[1].uuid
    return Drift(code, said, join.fix("pin", uuid=uuid), uuid or "", str(_place(one[0])), str(_place(one[1])))


def _place(gpu: Gpu) -> Message:
    pci = gpu.pci.short if gpu.pci else None
    if gpu.nvml_index is None:
        return message("drift.bus", pci=pci) if pci else message("drift.nowhere")
    key = "drift.smi-bus" if pci else "drift.smi"
    return message(key, index=gpu.nvml_index, pci=pci)


def _states(join: _Pairing) -> Iterator[Drift]:
    """Boards that cannot be used any more or can again, and MIG layouts."""
    for was, now in join.pairs:
        gpu, uuid = join.named(now, was), now.uuid or was.uuid or ""
        old, new = (g.problem or say("drift.usable") for g in (was, now))
        if bool(was.problem) != bool(now.problem):
            code = "unusable" if now.problem else "usable-again"
            yield Drift(code, message(f"drift.{code}", gpu=gpu, old=old, new=new), None, uuid, old, new)
        layouts = [_layout(g) for g in (was, now)]
        if None in layouts or was.problem or now.problem:
            continue
        old, new = (_layout_text(g, layout or ()) for g, layout in zip((was, now), layouts, strict=True))
        uuids = [{m.uuid for m in g.mig_instances} for g in (was, now)]
        if old != new:
            yield Drift("mig", message("drift.mig", gpu=gpu, old=old, new=new), None, uuid, old, new)
        elif uuids[0] != uuids[1] and None not in uuids[0] | uuids[1]:
            said, texts = message("drift.mig-uuids", gpu=gpu), (", ".join(sorted(map(str, u))) for u in uuids)
            yield Drift("mig-uuids", said, message("drift.fix-mig"), uuid, *texts)


def _layout(gpu: Gpu) -> tuple[str, ...] | None:
    """The profiles of the MIG instances in order; None where MIG is not known of."""
    if gpu.mig_mode is None:
        return None
    return tuple(sorted(m.profile or say("drift.mig-unnamed") for m in gpu.mig_instances))


def _layout_text(gpu: Gpu, layout: Sequence[str]) -> str:
    if not gpu.mig_mode:
        return say("drift.mig-off")
    counts = Counter(layout)
    return ", ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items()) or say("drift.mig-empty")


def _order(join: _Pairing) -> Iterator[Drift]:
    """CUDA's default order of the boards that are in both, where both capsules have seen it."""
    then, now = join.old.topology, join.new.topology
    if then.default_order is None or now.default_order is None:
        return
    common = set(join.then_of.values()) & set(then.default_order)
    new = [join.then_of[j] for j in now.default_order if join.then_of.get(j) in common]
    old = [i for i in then.default_order if i in set(new)]
    if old != new:
        texts = [_list_text([str(join.named(then.gpus[i])) for i in order]) for order in (old, new)]
        first = then.gpus[new[0]].uuid
        yield replace(_changed("order", *texts), fix=join.fix("pin", uuid=first), gpu=first or "")


def _list_text(names: Sequence[str]) -> str:
    more = [say("drift.more", n=len(names) - _MOST_NAMED)] if len(names) > _MOST_NAMED else []
    return "; ".join([*names[:_MOST_NAMED], *more])


_CHECKS: tuple[Callable[[_Pairing], Iterator[Drift]], ...] = (
    _boards,
    _moves,
    _states,
    _order,
    _surroundings,
    _variables,
)
