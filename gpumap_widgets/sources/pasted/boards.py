"""The boards of a machine, with everything that was said about each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ...identity import PciBusId
from ...topology import MigInstance
from .names import fuller
from .records import Numbering, Record, Section


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
        if numbering in (Numbering.NVML, Numbering.ROW) and board.number is None:
            self._number(board, record, printed=numbering is Numbering.NVML)
        if numbering is Numbering.CUDA and record.number is not None and board.ordinal is None:
            board.ordinal = record.number
            self.by_ordinal.setdefault(record.number, board)
        if (uuid := board.values.get("uuid")) is not None:
            self.by_uuid[uuid] = board
        if (bus := board.values.get("pci_bus_id")) is not None and (address := PciBusId.parse(bus)):
            self.by_address[address] = board

    def _number(self, board: Board, record: Record, *, printed: bool) -> None:
        if record.number is None or record.number in self.by_number:
            return
        board.number, board.printed = record.number, printed
        self.by_number[record.number] = board
        board.lines.setdefault("nvml_index", record.lines.get("nvml_index", min(record.lines.values(), default=1)))


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
