"""Read whatever text a user can paste into a machine.

A pipeline: `clean` undoes what happened to the text on its way, a table of small readers (`SHAPES`) each finds the
outputs of one tool, `join` brings together what they say about the same boards, `reading_of` makes a `Topology` of it
and says what was missing. A text without a usable list of GPUs is refused with the reason (`refusals`).
"""

from __future__ import annotations

from ...errors import UnreadableTopology
from ...topology import Topology
from . import listing, query, table
from .clean import Text, clean
from .joining import join
from .reading import Reading, reading_of
from .records import Section, Shape

__all__ = ["SHAPES", "Reading", "read", "read_topology"]

SHAPES: tuple[Shape, ...] = (
    Shape("nvidia-smi table", ("|", "on ", "off "), table.read),
    Shape("nvidia-smi -L", ("gpu",), listing.read),
    Shape("nvidia-smi --query-gpu", (",", "name", "uuid"), query.read),
)
"""The readers, each with the words without which it need not look."""


def read_topology(text: str) -> Topology:
    """The machine that a text describes.

    Raises UnreadableTopology with the reason and what to paste instead.
    """
    return read(text).topology


def read(text: str) -> Reading:
    """The machine that a text describes, and where in the text each value stood.

    Raises UnreadableTopology with the reason and what to paste instead.
    """
    texts = clean(text)
    sections = [section for part in texts for section in _sections(part)]
    machines = join(sections)
    if not machines:
        raise UnreadableTopology("The text lists no GPU.", remedy="Paste the output of nvidia-smi -L.")
    if len(machines) > 1:
        raise UnreadableTopology(
            f"The text describes {len(machines)} machines, or views of one from several containers or tasks.",
            remedy="Paste the output of one machine at a time.",
        )
    return reading_of(machines[0], None, None, ())


def _sections(text: Text) -> list[Section]:
    found = []
    for shape in SHAPES:
        if any(hint in text.lower for hint in shape.hints):
            for section in shape.read(text):
                section.host = text.host
                found.append(section)
    return found
