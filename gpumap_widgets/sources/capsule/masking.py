"""Names replaced by masks that can still be joined: a keyed hash, so that the same name always gets the same mask."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...grammar import KEYWORDS
from ...planning.measured import Measurements
from ...scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ...topology import Gpu, MigInstance
from .value import Capsule

SHOWN = frozenset(
    {CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
    | {"GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK"}
)
"""Variables whose text is the point; of the others only plain numbers are shown in a masked capsule."""
_PLAIN = re.compile(r"[0-9,()x=+ -]*")
_BARE = r"(?<![0-9A-Za-z-])(?=[0-9]{0,8}[A-Fa-f-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}[0-9A-Fa-f-]*+)?+(?![0-9A-Za-z])"
_IN_LISTS = re.compile(rf"(?P<head>(?:GPU|MIG)-)(?P<tail>[0-9A-Fa-f][0-9A-Fa-f-]*)|{_BARE}", re.IGNORECASE)
"""Whatever CUDA could take for a UUID or the beginning of one."""
_IN_PROSE = re.compile(rf"(?P<head>(?:GPU|MIG)-)(?P<tail>[0-9A-Fa-f]{{4,8}}+[0-9A-Fa-f-]*+)(?![G-Zg-z])|{_BARE}")


class Mask:
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
        if name in SHOWN:
            return _IN_LISTS.sub(self._found, self._named(value))
        harmless = _PLAIN.fullmatch(value) and not name.endswith(("UID", "GID"))
        return value if harmless else self._names.get(value) or self.tag(value, "value")


def masked_capsule(capsule: Capsule, salt: str) -> Capsule:
    """See `Capsule.masked`."""
    mask = Mask(salt, capsule.host, capsule.user)

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
        measured=None if capsule.measured is None else _measured(capsule.measured, mask),
        mask=mask.fingerprint,
    )


def _measured(measured: Measurements, mask: Mask) -> Measurements:
    rows = (
        row._replace(device=mask.uuid(row.device) if row.device[:4] != "cpu:" else row.device) for row in measured.rows
    )
    return replace(
        measured, rows=tuple(row._replace(problem=mask.prose(row.problem) if row.problem else None) for row in rows)
    )
