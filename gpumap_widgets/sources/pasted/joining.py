"""Join what several outputs say about the same boards, and notice when they speak of different machines.

Boards are the same when their UUID or PCI address is; failing both, when nvidia-smi's number is and the names agree.
A board can have one UUID, one address and one number only: a contradiction means another machine (or another view,
such as a container's), and those are counted, never merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...identity import PciBusId
from ...topology import MigInstance
from .names import fuller, same_model
from .records import Numbering, Record, Section

MOST_MACHINES = 64
"""Where counting machines ends; enough to say that these are too many."""


@dataclass(eq=False)
class Board:
    """A GPU of the machine with everything that was said about it."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    migs: list[MigInstance] = field(default_factory=list)
    number: int | None = None
    """nvidia-smi's number."""
    printed: bool = False
    """Whether that number was printed, not implied by the place in a list."""
    ordinal: int | None = None
    cut: bool = False

    def learn(self, record: Record) -> None:
        """Fill what was unknown; what is known stays, except that a full name replaces a cut one."""
        for name, value in record.values.items():
            if name == "nvml_index":
                continue
            if name not in self.values:
                self.values[name] = value
                self.lines[name] = record.lines[name]
            elif name == "name" and (better := fuller(self.values[name], value)) != self.values[name]:
                self.values[name], self.lines[name] = better, record.lines[name]
        if record.migs:
            self.migs = _migs_joined(self.migs, record.migs)
            self.lines.setdefault("mig_instances", record.lines.get("mig_instances", 1))
        self.cut = self.cut and record.cut

    @property
    def name(self) -> str | None:
        """The name as far as it is known."""
        return self.values.get("name")


@dataclass
class Machine:
    """Boards of one machine with the ways to find them again."""

    boards: list[Board] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    by_uuid: dict[str, Board] = field(default_factory=dict)
    by_address: dict[PciBusId, Board] = field(default_factory=dict)
    by_number: dict[int, Board] = field(default_factory=dict)
    by_ordinal: dict[int, Board] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """Boards that an output lists beyond those of nvidia-smi, by the shape of that output."""
    unjoined: list[tuple[str, Numbering]] = field(default_factory=list)
    """Outputs with rows that could not be joined to boards."""
    board_of: dict[int, Board] = field(default_factory=dict)
    """By the id of the record."""

    def add(self, record: Record, numbering: Numbering) -> Board:
        """A board that was not known before."""
        board = Board(cut=record.cut)
        self.boards.append(board)
        self.fill(board, record, numbering)
        return board

    def fill(self, board: Board, record: Record, numbering: Numbering) -> None:
        """Tell a known board what a record says, and keep the indexes."""
        board.learn(record)
        self.board_of[id(record)] = board
        if numbering in (Numbering.NVML, Numbering.ROW) and record.number is not None and board.number is None:
            if record.number not in self.by_number:
                board.number, board.printed = record.number, numbering is Numbering.NVML
                self.by_number[record.number] = board
                board.lines.setdefault("nvml_index", record.lines.get("nvml_index", min(record.lines.values(), default=1)))
        if numbering is Numbering.CUDA and record.number is not None and board.ordinal is None:
            board.ordinal = record.number
            self.by_ordinal.setdefault(record.number, board)
        if (uuid := board.values.get("uuid")) is not None:
            self.by_uuid[uuid] = board
        if (bus := board.values.get("pci_bus_id")) is not None and (address := PciBusId.parse(bus)):
            self.by_address[address] = board


def join(sections: Sequence[Section]) -> list[Machine]:
    """The machines that sections describe; more than one means that they contradict each other."""
    machines: list[Machine] = []
    runs = [run for section in sections for run in _runs(section)]
    runs.sort(key=lambda run: run.numbering)  # stable: numbers of nvidia-smi first, each kind in the order of the text
    for run in runs:
        if len(machines) >= MOST_MACHINES:
            break
        for machine in machines:
            matches = _match(machine, run)
            if matches is not None:
                _pour(machine, run, matches)
                break
        else:
            machine = Machine()
            machines.append(machine)
            _pour(machine, run, [None] * len(run.records))
    return [machine for machine in machines if machine.boards]


def _runs(section: Section) -> Iterator[Section]:
    """A section cut wherever a number comes again: outputs of several tasks or machines without anything between."""
    run: list[Record] = []
    numbers: set[int] = set()
    for record in section.records:
        if section.numbering in (Numbering.NVML, Numbering.CUDA) and record.number in numbers:
            yield _part(section, run)
            run, numbers = [], set()
        run.append(record)
        if record.number is not None:
            numbers.add(record.number)
    yield _part(section, run)


def _part(section: Section, records: list[Record]) -> Section:
    if section.numbering is Numbering.ROW:
        for place, record in enumerate(records):
            record.number = place
    return Section(section.shape, section.numbering, records, section.driver_version, section.platform,
                   section.announced, section.notes, section.host)


def _match(machine: Machine, run: Section) -> list[Board | None] | None:
    """For each record the board that it is, None for a new one; None at all when this is another machine."""
    if run.host and machine.hosts and run.host not in machine.hosts and not _share_uuid(machine, run):
        return None
    matches: list[Board | None] = []
    for record in run.records:
        board = machine.by_uuid.get(record.values.get("uuid", "")) or machine.by_address.get(record.address)  # type: ignore[arg-type]
        if board is None:
            board = _by_number(machine, record, run)
            if board is not None and not same_model(board.name, record.values.get("name")):
                return None
        if board is not None and _contradicts(board, record, run):
            return None
        matches.append(board)
    if any(matches):
        return matches
    return _without_keys(machine, run)


def _share_uuid(machine: Machine, run: Section) -> bool:
    return any(record.values.get("uuid") in machine.by_uuid for record in run.records)


def _by_number(machine: Machine, record: Record, run: Section) -> Board | None:
    if record.number is None:
        return None
    if run.numbering is Numbering.NVML:
        return machine.by_number.get(record.number)
    if run.numbering is Numbering.ROW:
        board = machine.by_number.get(record.number)
        # A place in a list is a weak number: it joins only where the lists are equally long.
        return board if board is not None and len(run.records) == len(machine.boards) else None
    if run.numbering is Numbering.CUDA:
        return machine.by_ordinal.get(record.number)
    return None


def _contradicts(board: Board, record: Record, run: Section) -> bool:
    uuid, address = record.values.get("uuid"), record.address
    bus = board.values.get("pci_bus_id")
    if uuid and board.values.get("uuid", uuid) != uuid:
        return True
    if address and bus and PciBusId.parse(bus) != address:
        return True
    if run.numbering is Numbering.NVML and record.number is not None:
        return board.number is not None and board.printed and board.number != record.number
    return False


def _without_keys(machine: Machine, run: Section) -> list[Board | None] | None:
    """Records that share neither key nor number with the machine: other boards of it, or the same ones by name?"""
    if run.numbering is Numbering.NVML:
        return [None] * len(run.records)
    names = [record.values.get("name") for record in run.records]
    known_names = {board.name for board in machine.boards if board.name}
    if machine.by_number and run.numbering is not Numbering.ADDRESS and known_names:
        # lspci's names are its own; all others print the driver's, so a name that is not there is another machine's.
        if any(name and not any(same_model(name, other) for other in known_names) for name in set(names)):
            return None
    return _by_unique_name(machine, names)


def _by_unique_name(machine: Machine, names: Sequence[str | None]) -> list[Board | None]:
    """Boards by their names, where a name occurs once on both sides."""
    counted = Counter(names)
    found: list[Board | None] = []
    for name in names:
        boards = [b for b in machine.boards if name and b.name and same_model(b.name, name)] if counted[name] == 1 else []
        found.append(boards[0] if len(boards) == 1 else None)
    return found


def _pour(machine: Machine, run: Section, matches: Sequence[Board | None]) -> None:
    """Fill the machine with a run."""
    machine.sections.append(run)
    if run.host:
        machine.hosts.add(run.host)
    numbered = bool(machine.by_number)
    if run.numbering is Numbering.ADDRESS:
        secondary = numbered or bool(machine.by_ordinal)
    else:
        secondary = numbered and run.numbering is not Numbering.NVML
    for record, board in zip(run.records, matches, strict=True):
        if board is not None:
            machine.fill(board, record, run.numbering if not secondary or all(matches) else Numbering.UNPLACED)
        elif not secondary:
            machine.add(record, run.numbering)
    if secondary and not all(matches):
        missing = sum(board is None for board in matches)
        if run.numbering is Numbering.ADDRESS:
            machine.left_out[run.shape] += missing
        else:
            machine.unjoined.append((run.shape, run.numbering))


def _migs_joined(known: list[MigInstance], new: list[MigInstance]) -> list[MigInstance]:
    """MIG devices by their number under the GPU: the table has instances and memory, the list profile and UUID."""
    if not known:
        return list(new)
    by_index = {mig.mig_index: place for place, mig in enumerate(known) if mig.mig_index is not None}
    result = list(known)
    for mig in new:
        place = by_index.get(mig.mig_index) if mig.mig_index is not None else None
        if place is None:
            if mig not in result:
                result.append(mig)
            continue
        old = result[place]
        result[place] = MigInstance(
            old.uuid or mig.uuid,
            old.profile or mig.profile,
            old.gpu_instance_id if old.gpu_instance_id is not None else mig.gpu_instance_id,
            old.compute_instance_id if old.compute_instance_id is not None else mig.compute_instance_id,
            old.memory_mib if old.memory_mib is not None else mig.memory_mib,
            old.mig_index,
        )
    return result
