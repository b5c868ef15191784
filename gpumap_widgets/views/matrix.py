"""Many workers at once, as data: a row a worker, a column a GPU, in each cell which ``cuda:i`` that GPU is there.

Rows that are alike are drawn together, and so are nodes that are alike: 64 ranks on 8 equal nodes are 8 rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..certainty import Certainty, least
from ..job_findings import named, numbered, worker_name
from ..mapping import Prediction, Process
from ..texts import say
from ..topology import Gpu, Topology

USES, SEES, HIDDEN, OUTSIDE, UNUSABLE = "uses", "sees", "hidden", "outside", "unusable"
"""What a GPU is to a worker: used by a convention; visible; not named by the list; taken away by a container or cgroup;
broken.
"""


class Cell(NamedTuple):
    """One GPU as one worker has it."""

    state: str
    ordinals: tuple[int, ...] = ()
    """The i of each ``cuda:i`` that is on it: several where several MIG devices are; () where it does not see it."""
    used: tuple[int, ...] = ()
    """Those of them that it uses by its launcher's convention."""
    certainty: Certainty = Certainty.CERTAIN
    profiles: tuple[str, ...] = ()
    """MIG profiles, by ordinal; () for a whole GPU."""


@dataclass(frozen=True)
class Line:
    """One row: workers for which the GPUs are all the same."""

    workers: tuple[str, ...]
    cells: tuple[Cell, ...]
    missing: tuple[int, ...] = ()
    """Ordinals that they ask for and do not have."""

    @property
    def label(self) -> str:
        """Who they are: ``rank 3``, ``ranks 0, 8 … 56``."""
        return named(self.workers)


@dataclass(frozen=True)
class Block:
    """One host, or hosts that are alike."""

    hosts: tuple[str, ...]
    """() where there is only one, without a name."""
    gpus: tuple[Gpu, ...]
    """In nvidia-smi's order; of several hosts those of the first, whose UUIDs are its own."""
    positions: tuple[int, ...]
    """Where each stands in the machine's ``gpus``: it decides the colour."""
    lines: tuple[Line, ...]
    error: str | None = None
    """Why nothing starts here; None where it starts."""
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Host → its workers."""

    @property
    def label(self) -> str:
        """The hosts in a few words."""
        if len(self.hosts) < 2:
            return self.hosts[0] if self.hosts else ""
        nodes = [host.removeprefix("node ") for host in self.hosts]
        plain = all(node.isdecimal() for node in nodes) and all(host.startswith("node ") for host in self.hosts)
        shown = say("matrix.nodes", nodes=numbered(map(int, nodes))) if plain else named(self.hosts)
        return say("matrix.equal", n=len(self.hosts), hosts=shown)

    @property
    def model(self) -> str:
        """What all its GPUs are, ``8 × A100``; "" where they differ."""
        names = {gpu.short_name for gpu in self.gpus}
        return say("matrix.all", n=len(self.gpus), name=names.pop()) if len(names) == 1 else ""


@dataclass(frozen=True)
class Matrix:
    """Workers × GPUs, host by host."""

    blocks: tuple[Block, ...]
    certainty: Certainty = Certainty.CERTAIN

    @property
    def mixed(self) -> bool:
        """Whether some cells are surer than others; else the certainty of the whole says it."""
        return len({cell.certainty for cell in self.cells() if cell.ordinals}) > 1

    def cells(self) -> Iterable[Cell]:
        """All cells."""
        return (cell for block in self.blocks for line in block.lines for cell in line.cells)

    def __str__(self) -> str:
        from .matrix_text import matrix_text

        return matrix_text(self)

    def _repr_html_(self) -> str:
        from .workers import matrix_page

        return matrix_page(self)

    def to_frame(self) -> Any:
        """pandas: a row a line, a column a GPU; the cells are texts such as ``cuda:1`` and ``cuda:1 *`` for one used."""
        from .frames import matrix_frame

        return matrix_frame(self)


def matrix(prediction: Prediction) -> Matrix:
    """The workers of a prediction. One block, or one for each kind of node where its workers stand on several."""
    topology = prediction.scenario.topology
    if prediction.error is not None:
        return Matrix((replace(empty_block(topology), error=prediction.error),), prediction.certainty)
    numbers: dict[int | None, list[int]] = {}
    for number, process in enumerate(prediction.processes):
        numbers.setdefault(process.node_rank, []).append(number)
    several = len(numbers) > 1
    blocks = [
        block(
            topology,
            [(worker_name(prediction.processes[i], i), prediction.processes[i]) for i in members],
            say("matrix.node", n=node) if several else "",
        )
        for node, members in numbers.items()
    ]
    return matrix_of(blocks, prediction.certainty)


def matrix_of(blocks: Iterable[Block], certainty: Certainty) -> Matrix:
    """Blocks with equal hosts drawn together."""
    groups: dict[Any, list[Block]] = {}
    for one in blocks:
        shape = tuple((gpu.nvml_index, gpu.name, gpu.pci_bus_id) for gpu in one.gpus)
        rows = tuple((line.cells, line.missing, len(line.workers)) for line in one.lines)
        groups.setdefault((shape, rows, one.error), []).append(one)
    return Matrix(tuple(_together(group) for group in groups.values()), certainty)


def _together(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if len(blocks) == 1:
        return first
    lines = tuple(
        replace(line, workers=tuple(worker for one in blocks for worker in one.lines[k].workers))
        for k, line in enumerate(first.lines)
    )
    hosts = tuple(host for one in blocks for host in one.hosts)
    return replace(first, hosts=hosts, lines=lines, members=tuple(pair for one in blocks for pair in one.members))


def empty_block(topology: Topology, host: str = "") -> Block:
    """A host with its GPUs and no worker."""
    known = all(gpu.nvml_index is not None for gpu in topology.gpus)
    order = sorted(range(len(topology.gpus)), key=lambda i: topology.gpus[i].nvml_index if known else i)  # type: ignore[arg-type, return-value]
    return Block((host,) if host else (), tuple(topology.gpus[i] for i in order), tuple(order), ())


def block(topology: Topology, workers: Sequence[tuple[str, Process]], host: str = "") -> Block:
    """The workers of one host, those that have the same of every GPU in one line."""
    bare = empty_block(topology, host)
    lines: dict[Any, Line] = {}
    for label, process in workers:
        cells = tuple(_cell(topology, process, position) for position in bare.positions)
        key = (cells, bool(process.missing))
        line = lines.get(key, Line((), cells))
        missing = tuple(sorted({*line.missing, *process.missing}))
        lines[key] = replace(line, workers=(*line.workers, label), missing=missing)
    members = ((host, tuple(label for label, _ in workers)),) if host else ()
    return replace(bare, lines=tuple(lines.values()), members=members)


def _cell(topology: Topology, process: Process, position: int) -> Cell:
    devices = [device for device in process.devices if device.position == position]
    if devices:
        ordinals = tuple(device.ordinal for device in devices)
        told = process.chosen is not None or len(process.devices) == 1
        used = tuple(i for i in ordinals if i in process.uses) if told else ()
        sure = least(device.certainty for device in devices)
        profiles = tuple(device.mig.profile or "MIG" for device in devices if device.mig)
        return Cell(USES if used else SEES, ordinals, used, sure, profiles)
    if topology.gpus[position].problem:
        return Cell(UNUSABLE)
    return Cell(HIDDEN if position in process.accessible else OUTSIDE)
