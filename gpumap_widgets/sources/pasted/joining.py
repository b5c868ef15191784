"""Join what several outputs say about the same boards, and notice when they speak of different machines.

Boards are the same when their UUID or PCI address is; failing both, when nvidia-smi's number is and the names agree.
A board can have one UUID, one address and one number only: a contradiction means another machine (or another view,
such as a container's), and those are counted, never merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...identity import PciBusId
from .boards import Board, Machine
from .names import same_model
from .records import Numbering, Record, Section

MOST_MACHINES = 64
"""Where counting machines ends; enough to say that these are too many."""


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
            if run.weak and machines:
                machines[0].unjoined.append((run.shape, run.numbering))
                continue
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
    return Section(
        section.shape,
        section.numbering,
        records,
        section.driver_version,
        section.platform,
        section.announced,
        section.notes,
        section.host,
        section.weak,
    )


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
    strange = {name for name in names if name and not any(same_model(name, other) for other in known_names)}
    if strange and known_names and machine.by_number and run.numbering is not Numbering.ADDRESS:
        return None  # all but lspci print the driver's names, so a name that is not there is another machine's
    if run.numbering is Numbering.CUDA and machine.by_number and _all_have_other_keys(machine, run):
        return None
    return _by_unique_name(machine, run)


def _all_have_other_keys(machine: Machine, run: Section) -> bool:
    """Whether all boards on both sides have a UUID (or an address) and none is shared: then no name counts."""
    for key in ("uuid", "pci_bus_id"):
        if all(key in board.values for board in machine.boards) and all(key in record.values for record in run.records):
            return True
    return False


def _by_unique_name(machine: Machine, run: Section) -> list[Board | None]:
    """Boards by their names, where a name occurs once on both sides and no key contradicts."""
    counted = Counter(record.values.get("name") for record in run.records)
    found: list[Board | None] = []
    for record in run.records:
        name = record.values.get("name")
        if name is None or counted[name] > 1:
            found.append(None)
            continue
        boards = [b for b in machine.boards if b.name and same_model(b.name, name)]
        found.append(boards[0] if len(boards) == 1 and not _contradicts(boards[0], record, run) else None)
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
