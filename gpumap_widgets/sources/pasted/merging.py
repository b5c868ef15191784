"""Complete a machine from a second paste of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from ...errors import UnreadableTopology
from ...topology import Gpu, Topology
from .boards import Machine
from .joining import join
from .notes import notes_on_gaps
from .reading import Surroundings, reading_of
from .records import Numbering, Record, Section

_VALUES = tuple(f.name for f in fields(Gpu) if f.name not in ("nvml_index", "mig_instances"))


def merge(first: Topology, second: Topology) -> Topology:
    """``first`` with its unknowns filled from ``second``, another reading of the same machine.

    GPUs are joined by UUID or PCI address or, failing both, by NVML index with equal names; what ``first`` knows
    stays, except that nvidia-smi is believed before a list of CUDA devices.
    Raises UnreadableTopology when the two are different machines.
    """
    parts = [(topology, _section(topology)) for topology in (first, second) if topology.gpus]
    if len(parts) < 2:
        return parts[0][0] if parts else first
    machines = join([section for _, section in parts])
    if len(machines) != 1 or not _shared(machines[0], parts):
        raise UnreadableTopology(
            "The second text describes another machine: its GPUs are not those of the first.",
            remedy="Paste outputs of one machine.",
        )
    machine = machines[0]
    measured = _carry_order(machine, parts)
    other_platform = next((t.platform for t, _ in parts if t.platform != "linux"), None)
    version = first.driver_version or second.driver_version
    merged = reading_of(machine, Surroundings(other_platform, version)).topology
    kept = [
        note
        for topology, _ in parts
        for note in topology.notes
        if note not in notes_on_gaps(topology.gpus, topology.driver_version)
    ]
    return replace(
        merged,
        default_order_measured=measured and merged.default_order is not None,
        simulated=first.simulated or second.simulated,
        notes=tuple(dict.fromkeys([*kept, *merged.notes])),
    )


def _shared(machine: Machine, parts: Sequence[tuple[Topology, Section]]) -> bool:
    """Whether both topologies tell of at least one same board."""
    boards = [
        {id(machine.board_of[id(r)]) for r in section.records if id(r) in machine.board_of} for _, section in parts
    ]
    return bool(boards[0] & boards[1])


def _carry_order(machine: Machine, parts: Sequence[tuple[Topology, Section]]) -> bool:
    """Give the boards the ordinals of the better known order; True when that was measured."""
    for board in machine.boards:
        board.ordinal = None
    machine.unjoined.clear()
    for topology, section in sorted(parts, key=lambda part: not part[0].default_order_measured):
        places = [id(section.records[position]) for position in topology.default_order or ()]
        if places and all(place in machine.board_of for place in places):
            for ordinal, place in enumerate(places):
                machine.board_of[place].ordinal = ordinal
            return topology.default_order_measured
    return False


def _section(topology: Topology) -> Section:
    """A topology as the section of which it was read."""
    ordinals = {position: ordinal for ordinal, position in enumerate(topology.default_order or ())}
    if all(gpu.nvml_index is not None for gpu in topology.gpus):
        numbering = Numbering.NVML
    else:
        numbering = Numbering.CUDA if ordinals else Numbering.UNPLACED
    section = Section(topology.source, numbering, driver_version=topology.driver_version)
    for position, gpu in enumerate(topology.gpus):
        record = Record(gpu.nvml_index if numbering is Numbering.NVML else ordinals.get(position))
        for name in _VALUES:
            record.put(name, getattr(gpu, name), 0)
        record.migs = list(gpu.mig_instances)
        section.records.append(record)
    return section
