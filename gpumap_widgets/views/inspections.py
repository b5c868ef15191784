"""Inspections of running processes: what is known is laid out once, then written as text or as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from ..explanation import device_name
from ..inspection.kernel import KernelInspection
from ..inspection.naming import full_uuid, place_of
from ..inspection.process import MachineInspection, ProcessInspection
from ..mapping import Finding
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..texts import say
from .html import findings_html, page, plain_table, tag
from .plain import grid, printable
from .rows import memory_text
from .text import number

_MOST_NAMED = 16
_ALWAYS = (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER)


@dataclass(frozen=True)
class _Table:
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Report:
    title: str
    said: tuple[str, ...]
    tables: tuple[_Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def kernel_text(one: KernelInspection) -> str:
    """This process as text."""
    return _text(_kernel(one))


def kernel_html(one: KernelInspection) -> str:
    """This process as HTML."""
    return _html(_kernel(one))


def process_text(one: ProcessInspection) -> str:
    """A process as text."""
    return _text(_process(one))


def process_html(one: ProcessInspection) -> str:
    """A process as HTML."""
    return _html(_process(one))


def machine_text(one: MachineInspection) -> str:
    """All processes on a machine's GPUs as text."""
    return _text(_machine(one))


def machine_html(one: MachineInspection) -> str:
    """All processes on a machine's GPUs as HTML."""
    return _html(_machine(one))


# --- what is laid out ------------------------------------------------------------------------------------------------


def _kernel(one: KernelInspection) -> _Report:
    said = [say("inspect.certainty", said=one.first, certainty=one.first_certainty), one.said.text()]
    if one.started_by:
        said.append(say("inspect.started-by", names=", ".join(one.started_by)))
    elif one.able:
        said.append(say("inspect.able", names=", ".join(one.able)))
    said += [say("inspect.certainty", said=one.why_used, certainty=one.used_certainty), one.advice.text()]
    names = dict.fromkeys((*_ALWAYS, *sorted({*(one.at_start or ()), *one.now})))
    rows = tuple((name, _value(one.at_start, name), _value(one.now, name)) for name in names)
    tables = [_Table(say("inspect.caption.variables"), ("variable", "at_start", "now"), rows)]
    if one.devices:
        tables.insert(0, _devices(one))
    notes = [note.text() for note in one.notes]
    return _Report(
        say("inspect.title.kernel", pid=one.pid), tuple(said), tuple(tables), (), (*notes, *_simulated(one.simulated))
    )


def _devices(one: KernelInspection) -> _Table:
    rows = []
    for device in one.devices:
        place = place_of(device, one.machine)
        index = one.machine.gpus[place].nvml_index if one.machine and place is not None else None
        uuid = full_uuid(device, one.machine) or ""
        rows.append((f"cuda:{device.ordinal}", number(index), device.name or "", uuid, memory_text(device.memory_mib)))
    columns = ("ordinal", "nvml_index", "name", "uuid", "memory")
    return _Table(say("inspect.caption.devices"), columns, tuple(rows))


def _process(one: ProcessInspection) -> _Report:
    system = one.system
    said = [say("inspect.certainty", said=one.said, certainty=one.certainty)]
    if system.container:
        said.append(say("inspect.in-container", kind=system.container[0], name=system.container[1]))
    tables = []
    if one.held and one.machine:
        gpus = one.machine.gpus
        held = tuple(
            (number(gpus[r.position].nvml_index), gpus[r.position].label, r.mig_uuid or r.gpu_uuid or "", _mib(r.memory_mib))
            for r in one.held
        )  # fmt: skip
        columns = ("nvml_index", "name", "uuid", "used_mib")
        tables.append(_Table(say("inspect.caption.held"), columns, held))
    names = dict.fromkeys((*_ALWAYS, *sorted(system.environ or ())))
    rows = tuple((name, _value(system.environ, name)) for name in names)
    tables.append(_Table(say("inspect.caption.variables"), ("variable", "at_start"), rows))
    of = say("inspect.title.of", user=system.user) if system.user else ""
    title = say("inspect.title.process", pid=one.pid, of=of, command=system.command or say("inspect.not-known"))
    notes = [why.text() for why in one.unseen]
    return _Report(title, tuple(said), tuple(tables), one.findings, (*notes, *_simulated(one.simulated)))


def _machine(one: MachineInspection) -> _Report:
    rows = []
    for process in one.processes:
        system = process.system
        held = ", ".join(number(index) for index in process.held_indices)
        first = say("inspect.not-known")
        if process.first:
            first = say("inspect.certainty", said=device_name(process.first), certainty=process.certainty)
        told = (system.user or "", process.job or "", number(process.rank), held, first, system.command or "")
        rows.append((str(process.pid), *told))
    columns = ("pid", "user", "job", "rank", "held", "first", "command")
    table = _Table(say("inspect.caption.processes"), columns, tuple(rows))
    title = say("inspect.title.machine", count=len(rows))
    reasons: dict[str, list[str]] = {}
    for process in one.processes:
        for why in process.unseen:
            reasons.setdefault(why.text(), []).append(str(process.pid))
    unseen = [say("inspect.unseen-of", why=why, pids=", ".join(pids[:_MOST_NAMED])) for why, pids in reasons.items()]
    notes = (*one.notes, *unseen, *_simulated(one.machine.simulated))
    return _Report(title, (), (table,) if rows else (), one.findings, notes)


def _value(env: Mapping[str, str] | None, name: str) -> str:
    return say("inspect.not-known") if env is None else env[name] if name in env else say("inspect.unset")


def _mib(mib: int | None) -> str:
    return say("inspect.not-known") if mib is None else say("memory.mib", mib=mib)


def _simulated(simulated: bool) -> tuple[str, ...]:  # noqa: FBT001 - a fact
    return (say("inspect.simulated"),) if simulated else ()


# --- how it is written -----------------------------------------------------------------------------------------------


def _text(report: _Report) -> str:
    lines = [report.title, *report.said]
    for table in report.tables:
        lines.append(grid([say(f"column.{name}") for name in table.columns], table.rows))
    for finding in report.findings:
        fields = {"severity": say(f"severity.{finding.severity}"), "message": finding.message}
        lines.append(say("inspect.finding", remedy=finding.remedy or "", **fields).rstrip())
    return printable([*lines, *report.notes])


def _html(report: _Report) -> str:
    said = "".join(tag("p", escape(line)) for line in report.said)
    tables = "".join(plain_table(table.caption, table.columns, table.rows) for table in report.tables)
    notes = "".join(tag("p", escape(note), "gpumap-note") for note in report.notes)
    found = findings_html(report.findings) if report.findings else ""
    return page(tag("strong", escape(report.title)) + tag("div", said, "gpumap-sentence") * bool(said) + found + tables + notes)  # fmt: skip
