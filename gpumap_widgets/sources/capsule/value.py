"""The capsule itself: one JSON object with the machine, the variables that touch the numbering, versions, who, when."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...errors import GpumapError
from ...frozen import FrozenDict
from ...identity import bare_uuid
from ...planning.measured import Measurements
from ...scenario import Scenario, asdict_topology, is_relevant
from ...texts import say
from ...topology import Topology
from ..checked import shortened
from .measured import plain

SCHEMA = 1
"""Version of the format that `Capsule.to_json` writes."""
LIMIT = 2 * 1024 * 1024
"""Longest accepted text, in characters."""

MARK = "gpumap_capsule"
HEAD: Mapping[str, int] = {"taken": 64, "host": 255, "user": 255, "mask": 64}
"""Text fields and their longest accepted length."""
TABLES: Mapping[str, int] = {"versions": 200, "env": 131_072, "labels": 500}
"""Fields that hold texts by name, and the longest accepted text; of env, what Linux allows."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|JWT|COOKIE", re.IGNORECASE)
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
    measured: Measurements | None = None
    """How fast its GPUs were; None when nobody measured."""
    mask: str | None = None
    """Which salt the names are masked with (a fingerprint of it); None for a capsule with real names."""

    def __post_init__(self) -> None:
        if self.env is not None:
            kept = {k: v for k, v in self.env.items() if is_relevant(k) and not SECRET.search(k)}
            object.__setattr__(self, "env", FrozenDict(kept))
        object.__setattr__(self, "versions", FrozenDict(self.versions))
        object.__setattr__(self, "labels", FrozenDict(self.labels))

    def to_json(self) -> str:
        """The capsule as JSON in ASCII; `from_json` gives an equal one back."""
        data: dict[str, Any] = {MARK: SCHEMA}
        data |= {name: getattr(self, name) for name in HEAD if getattr(self, name) is not None}
        data |= {name: dict(getattr(self, name)) for name in TABLES if getattr(self, name) is not None}
        data["topology"] = asdict_topology(self.topology)
        if self.processes is not None:
            data["processes"] = [{k: v for k, v in p._asdict().items() if v is not None} for p in self.processes]
        if self.measured is not None:
            data["measured"] = plain(self.measured)
        return json.dumps(data, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Capsule:
        """Read what any release so far has written; text around the outermost braces is ignored.

        Raises UnreadableTopology for anything else: a damaged, too long or hostile text, or a newer format.
        """
        from .reading import read_capsule

        return read_capsule(text)

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
            raise GpumapError(say(key, key=shortened(gpu)), remedy=say("capsule.no-such-gpu-remedy"))
        if found[0].uuid is None:
            raise GpumapError(say("capsule.label-without-uuid", key=shortened(gpu)))
        return replace(self, labels={**self.labels, found[0].uuid: label})

    def masked(self, salt: str | None = None) -> Capsule:
        """The capsule without the names of boards, host and user; addresses, models and numbers stay.

        A name always gets the same mask, within a capsule and between capsules masked with one ``salt``. UUIDs keep
        their form, and beginnings of them stay beginnings. No salt, or an empty one, means one that nobody will know.
        A masked capsule is returned as it is.
        """
        import secrets

        from .masking import masked_capsule

        return self if self.mask is not None else masked_capsule(self, salt or secrets.token_hex(16))


def is_capsule(text: str) -> bool:
    """Whether a text means to be a capsule, so that `Capsule.from_json` has the better words for what is wrong with it."""
    return 0 <= text.find("{") < text.find(f'"{MARK}"')


def scenario_of(capsule: Capsule) -> Scenario:
    """A process started on that machine where the capsule was taken."""
    return Scenario.from_env(capsule.topology, capsule.env or {})
