"""From joined boards to a `Topology`, with what a reader should know about the reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...errors import ImpossibleMachine, UnreadableTopology
from ...topology import Gpu, Platform, Topology, from_catalogue
from .joining import Board, Machine
from .notes import notes_on
from .records import Numbering, Section


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


def reading_of(machine: Machine, platform: Platform | None, driver_version: str | None, extra: Sequence[str]) -> Reading:
    """The reading of one machine.

    Raises UnreadableTopology when its values contradict each other.
    """
    _number_by_address(machine)
    boards = _in_order(machine)
    order, order_notes = _default_order(machine, boards)
    sections = machine.sections
    shapes = tuple(dict.fromkeys(section.shape for section in sections))
    versions = [section.driver_version for section in sections if section.driver_version]
    platforms = [section.platform for section in sections if section.platform]
    gpus = tuple(_gpu(board) for board in boards)
    driver_version = versions[0] if versions else driver_version
    notes = tuple(dict.fromkeys([*extra, *order_notes, *notes_on(machine, boards, gpus, driver_version)]))
    try:
        topology = Topology(
            gpus,
            driver_version=driver_version,
            platform=platform or (platforms[0] if platforms else "linux"),
            default_order=order,
            source=" + ".join(shapes),
            notes=notes,
        )
    except ImpossibleMachine as error:
        raise UnreadableTopology(error.message, remedy=error.remedy) from error
    origins = tuple(MappingProxyType(dict(board.lines)) for board in boards)
    return Reading(topology, shapes, origins, notes)


def _gpu(board: Board) -> Gpu:
    gpu = Gpu(nvml_index=board.number, mig_instances=tuple(board.migs), **board.values)
    # Capability and SM count belong to the model; memory is what the text says or unknown.
    return replace(from_catalogue(gpu), memory_mib=gpu.memory_mib)


def _number_by_address(machine: Machine) -> None:
    """nvidia-smi lists by PCI address: that numbers the boards of lists which print addresses but no numbers."""
    if any(section.numbering is not Numbering.ADDRESS for section in machine.sections):
        return
    boards = [board for board in machine.boards if "problem" not in board.values]
    if any("pci_bus_id" not in board.values for board in boards):
        return
    addressed = sorted((address, id(board), board) for address, board in machine.by_address.items() if board in boards)
    for place, (_, _, board) in enumerate(addressed):
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


def _default_order(machine: Machine, boards: list[Board]) -> tuple[tuple[int, ...] | None, list[str]]:
    """CUDA's order as positions, when a list of CUDA devices covers every usable board."""
    ordinals = {board.ordinal: place for place, board in enumerate(boards) if board.ordinal is not None}
    if machine.unjoined:
        names = " and ".join(dict.fromkeys(machine.unjoined))
        return None, [f"The order in the {names} could not be kept: it shows neither addresses nor distinct names."]
    if not ordinals:
        return None, []
    usable = sum("problem" not in board.values for board in boards)
    if set(ordinals) != set(range(len(ordinals))) or len(ordinals) < usable:
        return None, [f"The list of CUDA devices has {len(ordinals)} of {usable} GPUs: it does not show CUDA's whole order."]
    return tuple(ordinals[i] for i in range(len(ordinals))), []
