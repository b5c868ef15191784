"""A running job's processes as text."""

from __future__ import annotations

from collections.abc import Sequence

from ..explanation import clip
from ..identity import PciBusId
from ..mapping import SEVERITIES, Finding
from ..ranks.report import RanksReport, several_hosts
from ..ranks.row import RankRow
from ..texts import say
from .plain import grid, printable
from .rows import memory_text
from .text import number, short_uuid


def findings_text(findings: Sequence[Finding]) -> list[str]:
    """A line a finding, its remedy behind it."""
    heads = {severity: say(f"severity.{severity}") for severity in SEVERITIES}
    return [" ".join(filter(None, (heads[f.severity], f.message, f.remedy))) for f in findings]


def ranks_text(report: RanksReport) -> str:
    """The processes of a job as a table, and what is worth saying about them."""
    hosts = list(dict.fromkeys(row.host for row in report.rows if row.host)) or ["?"]
    where = hosts[0] if len(hosts) == 1 else say("ranks.hosts", n=len(hosts))
    title = say("ranks.title-simulated" if report.simulated else "ranks.title", n=len(report.rows), hosts=where)
    names = ("worker", "host", "local_rank", "pid", "visible", "order", "uses", "nvml_index", "name", "pci", "uuid")
    head = [say(f"column.{name}") for name in (*names, "memory", "told_by")]
    rows = _rank_rows(report)
    return printable([title, *([grid(head, rows)] if rows else []), *findings_text(report.findings)])


def _rank_rows(report: RanksReport) -> list[list[str]]:
    """The cells of the table. A variable is called unset only where another worker has it; the host where there are several."""
    rows, far = report.rows, several_hosts(report.rows)
    given = [any(getattr(row, name) is not None for row in rows) for name in _VARIABLES]
    return [_rank_cells(row, given, far=far) for row in rows]


_VARIABLES = ("cuda_visible_devices", "cuda_device_order")


def _rank_cells(row: RankRow, given: Sequence[bool], *, far: bool) -> list[str]:
    mig = f" MIG {row.mig_profile or ''}".rstrip() if row.mig_uuid and "MIG" not in (row.name or "") else ""
    return [
        row.label,
        (row.host or "?") if far else "",
        number(row.local_rank),
        number(row.pid),
        *(
            _variable(getattr(row, name)) if some and row.pid is not None else ""
            for name, some in zip(_VARIABLES, given, strict=True)
        ),
        "" if row.ordinal is None else f"cuda:{row.ordinal}",
        number(row.nvml_index),
        clip(row.reason, 48) if row.reason else (row.name or "") + mig,
        short_pci(row.pci_bus_id),
        short_uuid(row.mig_uuid or row.uuid),
        memory_text(row.memory_mib),
        row.told_by or "",
    ]


def _variable(value: str | None) -> str:
    return say("graph.list-unset") if value is None else clip(value, 24) or say("graph.list-empty")


def short_pci(address: str | None) -> str:
    """An address as people say it; "" when it is not known."""
    pci = PciBusId.parse(address) if address else None
    return pci.short if pci else address or ""
