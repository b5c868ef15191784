"""The commands `inspect` and `evidence`: what they say, to people and to programs, and their exit status.

0: all well; 1: something stands out (a finding, a damaged line, nobody of that rank); 2, from the caller: no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .evidence.reading import Evidence, EvidenceLine, evidence_in
from .inspection.plain import finding_dict
from .inspection.process import inspect_process, inspect_processes
from .mapping import Finding
from .texts import say
from .views.text import grid, number

_OK, _STANDS_OUT = 0, 1
_COLUMNS = ("time", "host", "job", "rank", "pid", "ordinal", "used", "nvml_index", "name", "uuid", "told_by")


class Told(NamedTuple):
    """What a command has to say."""

    status: int
    text: str
    data: Mapping[str, Any]


def inspect_command(pid: int | None) -> Told:
    """One process, or all those on the GPUs of this machine."""
    found = inspect_processes() if pid is None else inspect_process(pid)
    return Told(_STANDS_OUT if found.findings else _OK, str(found), found.to_dict())


def evidence_command(files: Sequence[str], rank: int | None, job: str | None) -> Told:
    """Which GPUs the processes in these files used."""
    found = evidence_in(files).of(rank, job)
    findings = found.findings
    data = {
        "lines": [{"file": line.file, "line": line.number, **line.data} for line in found.lines],
        "broken": [line._asdict() for line in found.broken],
        "foreign": found.foreign,
        "findings": [finding_dict(finding) for finding in findings],
    }
    well = found.lines and not found.broken and not findings
    return Told(_OK if well else _STANDS_OUT, "\n".join(_evidence(found, findings, asked=bool(rank or job))), data)


def _evidence(found: Evidence, findings: Sequence[Finding], *, asked: bool) -> list[str]:
    rows = [row for line in found.lines for row in _rows(line)]
    lines = [grid([say(f"column.{name}") for name in _COLUMNS], rows)] if rows else []
    if not rows:
        lines.append(say("evidence.nobody" if asked else "evidence.none"))
    for finding in findings:
        fields = {"severity": say(f"severity.{finding.severity}"), "message": finding.message}
        lines.append(say("inspect.finding", remedy=finding.remedy or "", **fields).rstrip())
    return [*lines, *(say("evidence.line-broken", **broken._asdict()) for broken in found.broken)]


def _rows(line: EvidenceLine) -> list[list[str]]:
    """The devices that it used, or all that it had where nothing tells which it used."""
    data, uses = line.data, line.data["uses"]
    who = data["told_by"] or ""
    if who == "prediction":
        who = say("evidence.predicted", certainty=data["certainty"] or "?")
    if data["simulated"]:
        who = say("evidence.simulated", who=who)
    used = say("evidence.used", by=uses["by"] or "?") if uses and line.used else ""
    head = [data["time"], data["host"] or "", data["job"] or "", number(data["rank"]), number(data["pid"])]
    return [
        [
            *head,
            f"cuda:{device['ordinal']}" if "ordinal" in device else say("cell.none"),
            used,
            number(device.get("nvml_index")),
            device.get("name", ""),
            device.get("uuid", ""),
            who,
        ]
        for device in line.used or data["devices"] or [{}]
    ]
