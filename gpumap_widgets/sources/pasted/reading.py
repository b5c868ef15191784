"""From joined boards to a `Topology`, with what a reader should know about the reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ...catalog import look_up
from ...errors import ImpossibleMachine, UnreadableTopology
from ...topology import Gpu, Platform, Topology
from .boards import Board, Machine
from .context import Failure
from .notes import notes_on
from .records import Numbering, Record


@dataclass(frozen=True)
class Reading:
    """What was understood of a text."""

    topology: Topology
    shapes: tuple[str, ...] = ()
    """The outputs that were recognised, in the order of their weight."""
    origins: tuple[Mapping[str, int], ...] = ()
    """For each GPU of the topology: the line of the user's text that each of its fields comes from."""
    notes: tuple[str, ...] = ()
    """What was missing and how to get it, what was cut, what was not understood."""


@dataclass(frozen=True)
class Surroundings:
    """What the text tells outside of its lists."""

    platform: Platform | None = None
    driver_version: str | None = None
    settings: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER with their lines, where they are shown set."""
    failures: Sequence[Failure] = ()
    notes: tuple[str, ...] = ()


def reading_of(machine: Machine, around: Surroundings) -> Reading:
    """The reading of one machine.

    Raises UnreadableTopology when its values contradict each other.
    """
    failure_notes = [note for failure in around.failures for note in _mark_failure(machine, failure)]
    _number_by_address(machine)
    boards = _in_order(machine)
    order, order_notes = _default_order(machine, boards, around.settings)
    sections = machine.sections
    shapes = tuple(dict.fromkeys(section.shape for section in sections))
    versions = [section.driver_version for section in sections if section.driver_version]
    platforms = [section.platform for section in sections if section.platform]
    driver_version = versions[0] if versions else around.driver_version
    try:
        gpus = tuple(_gpu(board) for board in boards)
        notes = tuple(
            dict.fromkeys([*order_notes, *failure_notes, *around.notes, *notes_on(machine, gpus, driver_version)])
        )
        topology = Topology(
            gpus,
            driver_version=driver_version,
            platform=around.platform or (platforms[0] if platforms else "linux"),
            default_order=order,
            source=" + ".join(shapes),
            notes=notes,
        )
    except ImpossibleMachine as error:
        raise UnreadableTopology(error.message, remedy=error.remedy) from error
    origins = tuple(MappingProxyType(dict(board.lines)) for board in boards)
    return Reading(topology, shapes, origins, notes)


def _mark_failure(machine: Machine, failure: Failure) -> Iterator[str]:
    """Give a GPU that does not answer its problem, or its place in a list that has a gap for it; else a note.

    A message counts when it stands behind the list: before it, the machine may have been restarted.
    """
    board = machine.by_address.get(failure.address) if failure.address else None
    if board is None and failure.index is not None:
        board = machine.by_number.get(failure.index)
    problem = f"The text says of it: {failure.reason}."
    if board is not None:
        if failure.line > max(board.lines.values()):
            board.values.setdefault("problem", problem)
            board.lines.setdefault("problem", failure.line)
        return
    gaps = sorted(set(range(max(machine.by_number, default=-1) + 1)) - set(machine.by_number))
    number = failure.index if failure.index is not None else gaps[0] if len(gaps) == 1 else None
    if number is None or number > len(machine.by_number):
        yield f"{failure.place[0].upper()}{failure.place[1:]} does not answer ({failure.reason}) and is in no list."
        return
    lost = Record(number)
    lost.put("nvml_index", number, failure.line)
    lost.put("pci_bus_id", str(failure.address) if failure.address else None, failure.line)
    lost.put("problem", problem, failure.line)
    machine.add(lost, Numbering.NVML)


def _gpu(board: Board) -> Gpu:
    """A board as a `Gpu`. Capability and SM count belong to the model; memory is what the text says, or unknown."""
    values = dict(board.values)
    model = look_up(values["name"], values.get("memory_mib")) if "name" in values else None
    if model is not None:
        values.setdefault("compute_capability", model.compute_capability)
        values.setdefault("sm_count", model.sm_count)
    return Gpu(nvml_index=board.number, mig_instances=tuple(board.migs), **values)


def _number_by_address(machine: Machine) -> None:
    """nvidia-smi lists by PCI address: that numbers the boards of lists which print addresses but no numbers."""
    if any(section.numbering is not Numbering.ADDRESS for section in machine.sections):
        return
    if any("pci_bus_id" not in board.values for board in machine.boards):
        return
    usable = [board for _, board in sorted(machine.by_address.items()) if "problem" not in board.values]
    for place, board in enumerate(usable):
        board.number = place
        board.lines.setdefault("nvml_index", board.lines["pci_bus_id"])


def _in_order(machine: Machine) -> list[Board]:
    """NVML order where all have numbers; PCI order for lists of CUDA devices with addresses; else that of the text."""
    boards = machine.boards
    if all(board.number is not None for board in boards):
        return sorted(boards, key=lambda board: board.number or 0)
    if all(board.number is None for board in boards) and len(machine.by_address) == len(boards):
        places = {id(board): address for address, board in machine.by_address.items()}
        if any(board.ordinal is not None for board in boards) and len(places) == len(boards):
            return sorted(boards, key=lambda board: places[id(board)])
    return boards


def _default_order(
    machine: Machine, boards: list[Board], settings: Mapping[str, tuple[str, int]]
) -> tuple[tuple[int, ...] | None, list[str]]:
    """CUDA's order as positions, when a list of CUDA devices covers every usable board."""
    ordinals = {board.ordinal: place for place, board in enumerate(boards) if board.ordinal is not None}
    unjoined = dict.fromkeys(shape for shape, numbering in machine.unjoined if numbering is Numbering.CUDA)
    if unjoined:
        return None, [f"The order of the {' and '.join(unjoined)} is not kept: it does not tell which GPU is which."]
    if not ordinals:
        return None, []
    logs = [section for section in machine.sections if section.numbering is Numbering.CUDA]
    last = max((line for section in logs for record in section.records for line in record.lines.values()), default=0)
    set_before = [
        f"{name}={value}" for name, (value, line) in settings.items() if line <= last and value != "FASTEST_FIRST"
    ]
    if set_before and len(ordinals) > 1:
        shown = " and ".join(set_before)
        return None, [f"The text shows {shown}: the list of CUDA devices may follow that and not CUDA's own order."]
    usable = sum("problem" not in board.values for board in boards)
    if set(ordinals) != set(range(len(ordinals))) or len(ordinals) < usable:
        return None, [
            f"The list of CUDA devices has {len(ordinals)} of {usable} GPUs: it does not show CUDA's whole order."
        ]
    return tuple(ordinals[i] for i in range(len(ordinals))), []
