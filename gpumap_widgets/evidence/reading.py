"""Evidence read back, over many files: which GPU did rank 2 of this job use?

A line of a job's log counts where evidence stands in it, whatever a launcher wrote before it. A line that is damaged is
reported with its place and the reason; the others stay readable.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import GpumapError
from ..mapping import Finding, message
from ..sources.checked import OddData, Spec, fields_of, is_time, list_of, object_in, object_of, wrong
from ..texts import say
from .schema import MARK, SCHEMA

_LONGEST = 1024 * 1024
"""Characters of a line; a machine with 64 GPUs takes some 30 000."""
_MOST_DEVICES = 1024
_NUMBER, _RANK = range(2**32), range(2**31)
_HEAD: Mapping[str, Spec] = {
    **dict.fromkeys(("host", "user"), 255),
    **dict.fromkeys(("time", "what", "told_by", "certainty", "verdict"), 64),
    **dict.fromkeys(("rank", "local_rank", "world_size", "device_count"), _RANK),
    "pid": _NUMBER,
    "job": 4096,
    "reason": 65_536,
    "simulated": bool,
    **dict.fromkeys(("cuda_visible_devices", "cuda_device_order"), 131_072),
}
_DEVICE: Mapping[str, Spec] = {
    "ordinal": _RANK,
    "uuid": 128,
    "pci_bus_id": 64,
    "name": 256,
    "memory_mib": range(2**40),
    "nvml_index": range(65_536),
    "certainty": 64,
}
_VERSIONS: Mapping[str, Spec] = dict.fromkeys(("python", "torch", "cuda", "driver", "driver_cuda"), 200)


class EvidenceLine(NamedTuple):
    """One sound line."""

    file: str
    number: int
    """Of the line in its file, from 1."""
    data: Mapping[str, Any]

    @property
    def used(self) -> tuple[Mapping[str, Any], ...]:
        """The devices that the process used, as far as anything tells; () where nothing does."""
        ordinals = (self.data["uses"] or {}).get("ordinals", ())
        return tuple(device for device in self.data["devices"] if device.get("ordinal") in ordinals)


class BrokenLine(NamedTuple):
    """A line that means to be evidence and is none."""

    file: str
    number: int
    reason: str


@dataclass(frozen=True)
class Evidence:
    """All that stands in some files."""

    lines: tuple[EvidenceLine, ...]
    """By time."""
    broken: tuple[BrokenLine, ...] = ()
    foreign: int = 0
    """How many other lines there were."""

    def of(self, rank: int | None = None, job: str | None = None) -> Evidence:
        """Only the lines of one rank, or of one job: its whole name (``slurm 77``) or its number alone."""
        kept = (
            line
            for line in self.lines
            if (rank is None or line.data.get("rank") == rank) and (job is None or _is_job(line.data.get("job"), job))
        )
        return Evidence(tuple(kept), self.broken, self.foreign)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Ranks of one job on one host that used the same GPU, and runs that were refuted."""
        return (*_shared(self.lines), *_refuted(self.lines))

    def to_frame(self) -> Any:
        """pandas: a row for every device of every line, and one without a device for a line that has none."""
        from ..views.frames import evidence_frame

        return evidence_frame(self.lines)


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_evidence(paths: Paths, rank: int | None = None, job: str | None = None) -> Any:
    """The evidence in files as a pandas DataFrame: a row for every device of every line.

    ``paths``: a file, a folder (its ``*.jsonl``), a pattern, or several of these; logs that hold such lines among others
    too. ``rank`` and ``job`` keep the lines of one rank, of one job. In a row ``used`` says whether the process used that
    device, as far as ``used_by`` tells. Damaged lines are named in a warning and in ``frame.attrs["broken"]``, what stands
    out in ``frame.attrs["findings"]``. Raises GpumapError where a file cannot be read.
    """
    found = evidence_in(paths)
    if found.broken:
        first = found.broken[0]
        said = say("evidence.broken-lines", count=len(found.broken), **first._asdict())
        warnings.warn(said, UserWarning, stacklevel=2)
    kept = found.of(rank, job)
    frame = kept.to_frame()
    frame.attrs["broken"] = [line._asdict() for line in found.broken]
    frame.attrs["findings"] = [finding.message for finding in kept.findings]
    return frame


def evidence_in(paths: Paths) -> Evidence:
    """The evidence in files; see `read_evidence`."""
    lines: list[EvidenceLine] = []
    broken: list[BrokenLine] = []
    foreign = 0
    for path in _files(paths):
        for number, text in _lines(path):
            if MARK not in text:
                foreign += bool(text.strip())
                continue
            try:
                lines.append(EvidenceLine(path, number, _data(text)))
            except OddData as exc:
                broken.append(BrokenLine(path, number, exc.why))
    lines.sort(key=lambda line: _instant(line.data["time"]))
    return Evidence(tuple(lines), tuple(broken), foreign)


def _files(paths: Paths) -> Iterator[str]:
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        name = os.fspath(path)
        if Path(name).is_dir():
            yield from sorted(str(file) for file in Path(name).glob("*.jsonl"))
        elif any(sign in name for sign in "*?[") and not Path(name).exists():
            yield from sorted(glob(name, recursive=True))  # noqa: PTH207 - the pattern may be absolute
        else:
            yield name


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file by number; what is behind the longest that any machine makes is left out of a line."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as file:
            number, rest = 1, False
            while text := file.readline(_LONGEST + 1):
                if not rest:
                    yield number, text
                rest = not text.endswith("\n")
                number += not rest
    except (OSError, ValueError) as exc:
        raise GpumapError(say("cli.no-file", file=path, error=getattr(exc, "strerror", None) or exc)) from exc


def _data(text: str) -> dict[str, Any]:
    """One line, every field checked. Raises OddData."""
    start = text.find(f'{{"{MARK}"')
    try:
        data = object_in(text[max(start, 0) :], _LONGEST, MARK)
    except OddData as exc:
        if exc.kind == "broken":
            raise
        raise OddData(say(f"evidence.{exc.kind}", error=exc.why)) from exc
    if type(data.get(MARK)) is not int or data[MARK] < 1:
        raise OddData(say("evidence.no-version"))
    if data[MARK] > SCHEMA:
        raise OddData(say("evidence.newer", version=data[MARK], known=SCHEMA))
    found = dict.fromkeys(_HEAD) | fields_of(data, _HEAD, "")
    if not is_time(found["time"] or ""):
        raise wrong("time", data.get("time"), say("capsule.wanted.time"))
    rows = list_of(_given(data, "devices", []), "devices", _MOST_DEVICES)
    found["devices"] = [fields_of(object_of(row, at), _DEVICE, at) for at, row in rows]
    found["versions"] = fields_of(object_of(_given(data, "versions", {}), "versions"), _VERSIONS, "versions")
    found["env"] = {
        str(name): value for name, value in object_of(_given(data, "env", {}), "env").items() if isinstance(value, str)
    }
    found["problems"] = [str(why) for _, why in list_of(_given(data, "problems", []), "problems", 64)]
    found["uses"] = _used(data.get("uses"))
    return found


def _given(data: Mapping[str, Any], name: str, empty: Any) -> Any:
    """A field; null is as good as absent."""
    return empty if data.get(name) is None else data[name]


def _used(uses: Any) -> dict[str, Any] | None:
    if uses is None:
        return None
    told = fields_of(object_of(uses, "uses"), {"by": 200}, "uses")
    ordinals = [ordinal for _, ordinal in list_of(_given(uses, "ordinals", []), "uses.ordinals", _MOST_DEVICES)]
    return {"by": told.get("by"), "ordinals": [ordinal for ordinal in ordinals if type(ordinal) is int]}


def _instant(text: str) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(text)


def _is_job(job: str | None, wanted: str) -> bool:
    return job is not None and (job == wanted or wanted in job.split()[1:])


# --- findings --------------------------------------------------------------------------------------------------------


def _shared(lines: Iterable[EvidenceLine]) -> Iterator[Finding]:
    """The last line of each rank counts: a job that was started again logs again."""
    last: dict[tuple[Any, ...], EvidenceLine] = {}
    for line in lines:
        data = line.data
        if data["rank"] is not None and data["job"] is not None:
            last[data["host"], data["job"], data["rank"]] = line
    users: dict[tuple[Any, ...], dict[int, str]] = {}
    for (host, job, rank), line in last.items():
        for device in line.used:
            if device.get("uuid"):
                users.setdefault((host, job, device["uuid"], device.get("name")), {})[rank] = line.file
    for (host, job, uuid, name), ranks in users.items():
        if len(ranks) > 1:
            fields = {"ranks": ", ".join(map(str, sorted(ranks))), "job": job, "gpu": name or "?", "uuid": uuid}
            said = message("evidence.found.ranks-share", host=host or "?", **fields)
            fix = message("inspect.fix.ranks-share-gpu", **fields)
            yield Finding("ranks-share-gpu", "error", said, fix, ", ".join(sorted(set(ranks.values()))))


def _refuted(lines: Iterable[EvidenceLine]) -> Iterator[Finding]:
    for line in lines:
        if line.data["verdict"] == "refuted":
            fields = {"file": line.file, "number": line.number, "reason": line.data["reason"] or ""}
            yield Finding("refuted", "warning", message("evidence.found.refuted", **fields), None, line.file)
