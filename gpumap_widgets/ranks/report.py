"""The rows of a job and what is worth saying about them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..explanation import clip, gpu_name
from ..frozen import FrozenDict
from ..job_findings import Fields, Seat, crowded, finding, listed, named, unselected
from ..mapping import Finding
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..texts import say
from ..topology import Gpu, MigInstance
from .row import RankRow

Rows = Sequence[RankRow]


@dataclass(frozen=True)
class RanksReport:
    """The processes of a job, one row each."""

    rows: tuple[RankRow, ...]
    silent: tuple[str, ...] = ()
    """Those that never answered."""

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is worth saying, most harmful first."""
        found = []
        for rule in RULES:
            fields = rule.when(self)
            if fields is not None:
                found.append(finding(rule.code, rule.severity, fields, rule.source, remedy=rule.remedy))
        return tuple(found)

    @property
    def simulated(self) -> bool:
        """Whether a simulated driver told any of it."""
        return any(row.simulated for row in self.rows)

    def __str__(self) -> str:
        from ..views.ranks import ranks_text

        return ranks_text(self)

    def to_frame(self) -> Any:
        """pandas: a row a process; ``.attrs["findings"]`` holds the findings as plain data."""
        from ..views.frames import ranks_frame

        return ranks_frame(self)


class RankRule(NamedTuple):
    """One row: when it speaks, and with which fields. None when it has nothing to say."""

    code: str
    severity: str
    when: Callable[[RanksReport], Fields | None]
    remedy: bool
    source: str


def called(row: RankRow) -> str:
    """The device of a row as a sentence names it, with the host where there are several."""
    mig = MigInstance(row.mig_uuid, row.mig_profile) if row.mig_uuid else None
    return gpu_name(Gpu(row.nvml_index, row.name, row.uuid, row.pci_bus_id), mig)


def several_hosts(rows: Iterable[RankRow]) -> bool:
    """Whether the rows are of more than one host."""
    return len({row.host for row in rows if row.host}) > 1


def _seats(report: RanksReport) -> list[Seat]:
    far = several_hosts(report.rows)
    return [
        Seat(
            row.label,
            row.device,
            say("ranks.on-host", gpu=called(row), host=row.host) if far else called(row),
            row.ordinal,
            None if row.by == "first device" else row.device_count,  # its engine chose, not nobody
        )
        for row in report.rows
        if row.reason is None
    ]


def _crowded(report: RanksReport) -> Fields | None:
    return crowded(_seats(report))


def _unselected(report: RanksReport) -> Fields | None:
    return unselected(_seats(report))


def _silent(report: RanksReport) -> Fields | None:
    if not report.silent:
        return None
    answered = named([row.label for row in report.rows]) if report.rows else say("ranks.nobody")
    return FrozenDict({"workers": named(report.silent), "answered": answered})


def _without(report: RanksReport) -> Fields | None:
    """Processes without a device, those with one reason together."""
    groups: dict[str, list[str]] = {}
    for row in report.rows:
        if row.reason is not None:
            groups.setdefault(row.reason, []).append(row.label)
    said = [say("ranks.why", workers=named(labels), why=clip(why, 200)) for why, labels in groups.items()]
    return FrozenDict({"groups": " ".join(said[:4])}) if said else None


def _differing(report: RanksReport) -> Fields | None:
    """Values of the two variables that are not the same everywhere. A list of one's own for every worker is meant, and
    so are those that Dask and Ray hand out.
    """
    said = []
    told = [row for row in report.rows if row.pid is not None]
    orders = _by_value(told, "cuda_device_order")
    if len(orders) > 1:
        said.append(_values(CUDA_DEVICE_ORDER, orders))
    for host in dict.fromkeys(row.host for row in told):
        rows = [row for row in told if row.host == host and row.rank is not None]
        lists = _by_value(rows, "cuda_visible_devices")
        if len(lists) > 1 and not _own_each(rows):
            said.append(_values(CUDA_VISIBLE_DEVICES, lists))
    return FrozenDict({"values": " ".join(said[:3])}) if said else None


def _own_each(rows: Rows) -> bool:
    """Whether every worker has a list of its own and no two are on one device: a launcher gave each its GPUs."""
    values = [row.cuda_visible_devices for row in rows]
    devices = [row.device for row in rows if row.device]
    return None not in values and len(set(values)) == len(values) and len(set(devices)) == len(devices)


def _by_value(rows: Rows, name: str) -> dict[str | None, list[str]]:
    groups: dict[str | None, list[str]] = {}
    for row in rows:
        groups.setdefault(getattr(row, name), []).append(row.label)
    return groups


def _values(variable: str, groups: dict[str | None, list[str]]) -> str:
    parts = [
        say("ranks.value", value=say("order.unset") if value is None else f"“{clip(value)}”", workers=named(labels))
        for value, labels in groups.items()
    ]
    return say("ranks.values", variable=variable, parts=listed(parts, 4))


def _unused(report: RanksReport) -> Fields | None:
    """GPUs of a host that none of its processes uses; of hosts only where every process has told its device."""
    said = []
    far = several_hosts(report.rows)
    machines = dict.fromkeys(row.machine or row.host for row in report.rows)
    for machine in machines:
        rows = [row for row in report.rows if (row.machine or row.host) == machine]
        if report.silent or any(row.device is None for row in rows):
            continue
        used = {name for row in rows for name in (row.uuid, row.pci_bus_id) if name}
        known = {gpu[1] or gpu[3]: gpu for row in rows for gpu in row.gpus}
        idle = [gpu for gpu in known.values() if used.isdisjoint({gpu[1], gpu[3]} - {None})]
        if idle:
            names = listed([gpu_name(Gpu(index, name, uuid, pci)) for index, uuid, name, pci in idle])
            said.append(say("ranks.on-host", gpu=names, host=rows[0].host) if far else names)
    return FrozenDict({"gpus": "; ".join(said[:4]), "n": len(said)}) if said else None


RULES: tuple[RankRule, ...] = (
    RankRule("worker-silent", "error", _silent, True, "the job's own store: it has no row of theirs"),
    RankRule("no-set-device", "error", _unselected, True, "the ranks' own rows; tritonbench pull request 869"),
    RankRule("workers-on-one-gpu", "warning", _crowded, True, "the ranks' own rows, by UUID"),
    RankRule("worker-without-gpu", "warning", _without, False, "the ranks' own rows"),
    RankRule("variables-differ", "warning", _differing, True, "the ranks' own rows"),
    RankRule("gpus-nobody-uses", "info", _unused, False, "NVML on every host"),
)
"""Most harmful first. The sentences are ``finding.<code>`` and ``remedy.<code>`` in `texts`."""
