"""Read whatever text a user can paste into a machine.

    clean ──► readers (SHAPES) ──► join ──► reading_of ──► Reading
      │            └ records with their lines     └ notes
      └ prefixes                        nothing readable ──► refuse

`clean` undoes what happened to the text on its way; the readers, a table, each find the outputs of one tool (`table`,
`listing`, `query` with `columns` and `guessing`, `reports`, `xml_reports`, `monitors`, `frameworks` with `logs`, `system`);
`join` brings together what they say about the same boards and notices several machines; `reading_of` makes a
`Topology` of it and says what was missing. A text without a usable list of GPUs is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UnreadableTopology
from ...topology import Topology
from ..capsule import Capsule, is_capsule
from . import frameworks, listing, monitors, query, reports, system, table, xml_reports
from .boards import Machine
from .cleaning import Text, clean
from .context import driver_in, failures_in, platform_of, settings_in, unlisted_uuids
from .joining import MOST_MACHINES, join
from .logs import LOOSE
from .merging import merge
from .reading import Reading, Surroundings, reading_of
from .records import Numbering, Section, Shape
from .refusals import refuse

__all__ = ["SHAPES", "Reading", "merge", "read", "read_topology"]

SHAPES: tuple[Shape, ...] = (
    Shape("nvidia-smi table", ("|", "on ", "off "), table.read),
    Shape("nvidia-smi -L", ("gpu",), listing.read),
    Shape("nvidia-smi --query-gpu", (",", "name", "uuid", "bus_id", "memory."), query.read),
    Shape("nvidia-smi -q", ("product name", "gpu uuid", "bus id"), reports.read),
    Shape("nvidia-smi -q -x", ("<gpu", "<!entity", "nvidia_smi_log"), xml_reports.read),
    Shape("nvidia-smi topo -m", ("gpu0", "gpu1", "gpu2"), monitors.read_topo),
    Shape("gpustat", ("[",), monitors.read_gpustat),
    Shape("nvtop", ("device 0",), monitors.read_nvtop),
    Shape("gpustat --json", ('"gpus"',), monitors.read_json),
    Shape("list of CUDA devices", ("",), frameworks.read),
    Shape("lspci", ("nvidia", "10de:"), system.read_lspci),
    Shape("/proc/driver/nvidia", ("model:",), system.read_proc),
)
"""The readers, each with the lower-case words without which it need not look."""


def read_topology(text: str) -> Topology:
    """The machine that a text describes.

    Raises UnreadableTopology with the reason and what to paste instead.
    """
    return read(text).topology


def read(text: str) -> Reading:
    """The machine that a text describes, and where in the text each value stood.

    Raises UnreadableTopology with the reason and what to paste instead.
    """
    if isinstance(text, str) and is_capsule(text):
        machine = Capsule.from_json(text).topology
        return Reading(machine, ("capsule",), (), machine.notes)
    texts = clean(text)
    sections = [section for part in texts for section in _sections(part)]
    machines = join(sections)
    failures = failures_in(texts)
    if not machines:
        raise refuse(texts, failures)
    if len(machines) > 1:
        raise _several(machines)
    odd = tuple(unlisted_uuids(texts, machines[0].by_uuid))
    around = Surroundings(platform_of(texts), driver_in(texts), settings_in(texts), failures, odd)
    return reading_of(machines[0], around)


def _sections(text: Text) -> list[Section]:
    found: list[Section] = []
    for shape in SHAPES:
        if any(hint in text.lower for hint in shape.hints):
            for section in shape.read(text):
                section.host = section.host or text.host
                found.append(section)
    taken = {line for s in found if s.numbering is not Numbering.CUDA for r in s.records for line in r.lines.values()}
    for section in found:
        if section.shape in LOOSE:  # "[0] Tesla T4" in a line that another reader understood is no ordinal
            section.records = [record for record in section.records if record.lines.get("name") not in taken]
    return [section for section in found if section.records]


def _several(machines: Sequence[Machine]) -> UnreadableTopology:
    """The refusal of a text about more than one machine."""
    count = f"{len(machines)}" if len(machines) < MOST_MACHINES else f"{MOST_MACHINES} or more"
    hosts = sorted({host for machine in machines for host in machine.hosts})
    named = f" ({', '.join(hosts[:8])})" if hosts else ""
    return UnreadableTopology(
        f"The text describes {count} machines{named}, or views of one from several tasks or containers: "
        "the same number stands for different GPUs.",
        remedy="Paste the output of one of them at a time.",
    )
