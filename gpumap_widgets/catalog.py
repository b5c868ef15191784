"""The catalogue of NVIDIA GPU models: from a name, as any tool prints it, to capability, SM count, memory and speeds.

nvidia-smi tells neither capability nor SM count, and the default order of CUDA rests on both, so a table by name must
stand in. The facts are in ``catalog.csv``, one row a model (or a memory variant of it), each with its source and with
the fields that are not sure. A look-up is loose about spelling and never guesses between different models:

1. nvidia-smi's own spelling wins: "T1000" is the "NVIDIA T1000", not the mobile "Quadro T1000".
2. Several products under one printed name: memory decides; else the first row, the common product, and what differs
   is in `Model.unsure` (an RTX 3080 has 68 SMs with 10 GB and 70 with 12 GB).
3. A name that leaves form factor or memory open stands for all that it fits: "Tesla V100" has what every V100 has in
   common, "H100" has a capability but no SM count. When even the capabilities differ ("RTX 4000") there is no answer.
4. A name cut with "..." has an answer only when all models that it fits agree on capability and SM count.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from os.path import commonprefix
from typing import NamedTuple

_LONGEST = 120  # no model name is near it; what is longer is no name and must cost nothing
_NVIDIA_SMI_WIDTHS = (18, 27)  # room for a name in its tables before and since driver 530: it cuts only longer names

_ARCHITECTURES = frozenset("fermi kepler maxwell pascal volta turing ampere ada hopper blackwell".split())
_BRANDS = frozenset({"geforce", "quadro", "tesla"})
_FORMS = frozenset("pcie sxm sxm2 sxm3 sxm4 sxm5 sxm6 nvl fhhl dgxs workstation server".split())
_LAPTOP = frozenset({"laptop", "mobile", "notebook"})
_FILLERS = frozenset(
    "nvidia corporation graphics gpu card edition generation design with tensor core lovelace grace superchip active "
    "founders collectors ac hbm2 hbm2e hbm3e".split()
)
_ALIASES = {"k20": "k20m", "k20x": "k20xm", "k40": "k40m"}  # passive and active boards of one product


@dataclass(frozen=True, slots=True)
class Model:
    """One GPU of a board (a Tesla K80 has two). None where a figure is not known, or not the same for all it may be.

    ``unsure`` names the fields that may be wrong: recalled and not looked up, differing between sources, depending on
    a laptop's power limit, or differing between products with this name. ``source`` says where the figures are from.
    """

    name: str
    """As nvidia-smi prints it on current drivers, or on the last that knew it. For a name that fits several models,
    what their names have in common. "... Mobile" is the spelling of lspci, where nvidia-smi has no own name."""
    architecture: str
    compute_capability: tuple[int, int] | None
    sm_count: int | None
    """Streaming multiprocessors that are enabled."""
    cuda_cores: int | None
    boost_mhz: int | None
    """Quoted boost clock (before Kepler: shader clock); what a running GPU does depends on power and cooling."""
    memory_mib: int | None
    """Total that nvidia-smi shows; ECC and drivers move it by some percent."""
    memory_gb: float | None
    """As sold, in units of 1024 MiB."""
    bandwidth_gbs: float | None
    """Memory bandwidth, 10⁹ bytes a second."""
    fp32_tflops: float | None
    """Peak at boost: two operations a core and cycle."""
    fp16_tensor_tflops: float | None
    """Dense FP16 peak of the tensor cores, 0 without any. GeForce cards halve it when they accumulate in FP32."""
    unsure: tuple[str, ...]
    source: str


class _Words(NamedTuple):
    """A name taken apart. Two names of one model differ in brand, memory and form at most."""

    core: str
    brands: frozenset[str]
    architectures: frozenset[str]
    gigabytes: frozenset[int]
    forms: frozenset[str]


class _Row(NamedTuple):
    model: Model
    words: _Words
    printed: str  # squeezed, for cut names


def models() -> tuple[Model, ...]:
    """All rows of the catalogue, oldest generation first. Read from the package at the first use of the catalogue."""
    return tuple(row.model for row in _rows())


def is_vgpu(name: str) -> bool:
    """Whether a name is that of a virtual GPU ("GRID T4-16Q", "NVIDIA A100-1-5C"): a share of a board, whose size the
    name does not tell. By the type names in NVIDIA's vGPU user guides: board, perhaps slices, then memory and series.
    """
    text = name.strip().lower()
    return len(text) <= _LONGEST and bool(_VGPU.search(text))


_VGPU = re.compile(r"-\d{1,3}(?:q|a|b\d?|c|cme)$|^(?:nvidia )?grid (?:k100|k200|k\d{3}q|[a-z0-9 ]+-\d{1,3})$")


def look_up(name: str, memory_mib: int | None = None) -> Model | None:
    """The model that a name means, or None when it is none of the catalogue's or might be several of different kind.

    ``name`` in the spelling of any tool: case, brand words, dashes, (TM), memory and form factor may be there or not.
    ``memory_mib``, the total that a tool showed, decides between variants; it never overrules the name, since tools
    and drivers differ in what they count. Where a name fits several models, speeds are the lowest of theirs and named
    in ``unsure``, memory is None unless all agree. The SM count of a virtual GPU is not its board's: always None.
    Never raises.
    """
    return None if len(name) > _LONGEST else _look_up(name, memory_mib)


@lru_cache(maxsize=2048)
def _look_up(name: str, memory_mib: int | None) -> Model | None:
    if is_vgpu(name):
        return None
    text = name.strip()
    if text.endswith(("...", "…")):
        return _cut(text, memory_mib)
    words = _words(text)
    rows = _index().get(words.core, ())
    exact = [row for row in rows if row.words == words]
    return _choose(exact or _matching(words, rows), memory_mib)


def _matching(words: _Words, rows: tuple[_Row, ...]) -> list[_Row]:
    """Rows that contradict nothing that the name says, the closest in spelling where some are closer."""
    found = [row for row in rows if words.architectures <= {row.model.architecture.lower()} and _sized(words, row)]
    if words.brands:
        same = [row for row in found if words.brands & row.words.brands]
        # "Quadro RTX A6000", "Tesla A100", "GeForce TITAN V": brands that people add to names that have none
        found = same or [row for row in found if not row.words.brands and _may_add(words.brands, row)]
    found = [row for row in found if not row.words.core.isdigit() or words.brands]  # "600" alone is no Quadro 600
    if words.forms:
        same = [row for row in found if row.words.forms and all(_has_form(row, form) for form in words.forms)]
        found = same or [row for row in found if not row.words.forms]
    spelled = [row for row in found if (row.words.gigabytes, row.words.forms) == (words.gigabytes, words.forms)]
    return spelled or found


def _sized(words: _Words, row: _Row) -> bool:
    gb = row.model.memory_gb
    return not words.gigabytes or gb is None or words.gigabytes <= row.words.gigabytes | {round(gb)}


def _may_add(brands: frozenset[str], row: _Row) -> bool:
    return "geforce" not in brands or "titan" in row.words.core


def _has_form(row: _Row, form: str) -> bool:
    return form in row.words.forms or (form == "sxm" and any(own.startswith("sxm") for own in row.words.forms))


def _choose(rows: list[_Row], memory_mib: int | None) -> Model | None:
    """One model for rows that a full name fits."""
    found = [row.model for row in rows]
    if memory_mib is not None:
        found = [model for model in found if _fits(model, memory_mib)] or found
    if len(found) <= 1:
        return found[0] if found else None
    if len({model.name for model in found}) == 1:
        return _in_common(found, first_wins=True)
    if len({model.compute_capability for model in found}) > 1:
        return None
    return _in_common(found)


def _cut(text: str, memory_mib: int | None) -> Model | None:
    """One model for a name that a narrow table cut."""
    shown = text.rstrip(".…")
    head = _squeezed(shown)
    if not head:
        return None
    with_maker = shown.lower().startswith("nvidia")
    # a name that has room is not cut, which leaves "GeForce GTX 108..." to longer names than "GeForce GTX 1080"
    room = len(text) if text.endswith("...") and len(text) in _NVIDIA_SMI_WIDTHS else 0
    found = []
    for row in _rows():
        full = row.model.name if with_maker else row.model.name.removeprefix("NVIDIA ")
        if row.printed.startswith(head) and len(full) >= room and not full.endswith(" Mobile"):
            found.append(row.model)
    if memory_mib is not None:
        found = [model for model in found if _fits(model, memory_mib)]
    if len({(model.compute_capability, model.sm_count) for model in found}) != 1 or found[0].sm_count is None:
        return None
    return _in_common(found)


def _fits(model: Model, memory_mib: int) -> bool:
    """Whether a total shown by a tool may be this model's; ECC and the driver take up to a tenth of what is sold."""
    if model.memory_mib is not None and abs(memory_mib - model.memory_mib) <= model.memory_mib * 0.02:
        return True
    return model.memory_gb is None or 0.89 <= memory_mib / (model.memory_gb * 1024) <= 1.02


_IDENTITY = ("architecture", "compute_capability", "sm_count", "cuda_cores")
_SPEEDS = ("boost_mhz", "bandwidth_gbs", "fp32_tflops", "fp16_tensor_tflops")
_MEMORY = ("memory_mib", "memory_gb")


def _in_common(found: list[Model], *, first_wins: bool = False) -> Model:
    """What is the same in several models; with ``first_wins`` the first one's figures where they differ."""
    if len(found) == 1:
        return found[0]
    changes: dict[str, object] = {}
    unsure = {field for model in found for field in model.unsure}
    for field in _IDENTITY + _SPEEDS + _MEMORY:
        values = [getattr(model, field) for model in found]
        if len(set(values)) == 1:
            continue
        if field in _MEMORY or (field in _IDENTITY and not first_wins):
            changes[field] = None
            unsure.discard(field)
            continue
        unsure.add(field)
        if not first_wins:
            changes[field] = None if None in values else min(values)
    changes["name"] = commonprefix([model.name for model in found]).rstrip(" -(")
    changes["unsure"] = tuple(field for field in _IDENTITY + _SPEEDS + _MEMORY if field in unsure)
    return replace(found[0], **changes)  # type: ignore[arg-type]  # fields by name


_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,3}) ?(?:gb|gib|g)\b")
_ASIDE = re.compile(r"\(([^()]*)\)")
_BRACKET = re.compile(r"\[([^][]*)\]")
_WORD = re.compile(r"[a-z0-9]+")


def _squeezed(name: str) -> str:
    return "".join(_WORD.findall(name.lower())).removeprefix("nvidia")


def _is_telling(word: str) -> bool:
    return word in _ARCHITECTURES or word in _LAPTOP or word in _FORMS or (word.endswith("gb") and word[:-2].isdigit())


def _words(name: str) -> _Words:
    text = name.lower()
    inner = _BRACKET.search(text)
    if inner:  # lspci: "GP107M [GeForce GTX 1050 Mobile]"
        text = inner[1]
    text = _SIZE.sub(r"\1gb", text).replace("max-q", "maxq").replace("max q", "maxq")
    # remarks in parentheses are somebody's words, (R) and (TM) nobody's; only what tells models apart is kept
    text = _ASIDE.sub(lambda m: f" {' '.join(word for word in _WORD.findall(m[1]) if _is_telling(word))} ", text)
    core: list[str] = []
    kinds: dict[str, set[str]] = {"brand": set(), "architecture": set(), "size": set(), "form": set(), "place": set()}
    for word in _WORD.findall(text):
        if word in _BRANDS:
            kinds["brand"].add(word)
        elif word in _ARCHITECTURES:
            kinds["architecture"].add(word)
        elif word in _LAPTOP or word == "maxq":
            kinds["place"].add("maxq" if word == "maxq" else "laptop")
        elif word in _FORMS or word == "hbm3":  # "H100 80GB HBM3" is the SXM5 board
            kinds["form"].add("sxm5" if word == "hbm3" else word)
        elif word.endswith("gb") and word[:-2].isdigit():
            kinds["size"].add(word[:-2])
        elif word not in _FILLERS:
            core.append(word)
    # "RTX4090", "RTX 4090" and "RTX-4090" are one, "RTX 40 90" is not: numbers do not grow together
    joined = re.sub(r"(?<=\d) (?=\d)", "_", " ".join(core)).replace(" ", "")
    joined = _ALIASES.get(joined, joined)
    place = "laptop" if "laptop" in kinds["place"] else "".join(kinds["place"])  # lspci: "Mobile / Max-Q"
    return _Words(
        joined + place if joined else "",
        frozenset(kinds["brand"]),
        frozenset(kinds["architecture"]),
        frozenset(map(int, kinds["size"])),
        frozenset(kinds["form"]),
    )


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[_Row, ...]]:
    """Rows by core name; also by the bare number ("4090", "A4000", "TITAN X") where people drop GTX or RTX."""
    index: dict[str, list[_Row]] = {}
    for row in _rows():
        core = row.words.core
        index.setdefault(core, []).append(row)
        bare = core[3:]
        if core.startswith(("gtx", "rtx")) and ("geforce" in row.words.brands or bare.startswith("a")):
            if bare != "titan":  # four generations are called that
                index.setdefault(bare, []).append(row)
    return {core: tuple(rows) for core, rows in index.items()}


@lru_cache(maxsize=1)
def _rows() -> tuple[_Row, ...]:
    text = (files(__package__) / "catalog.csv").read_text(encoding="utf-8")
    return tuple(_row(fields) for fields in csv.DictReader(text.splitlines()))


def _row(fields: dict[str, str]) -> _Row:
    def whole(field: str) -> int | None:
        return int(fields[field]) if fields[field] else None

    def real(field: str) -> float | None:
        return float(fields[field]) if fields[field] else None

    major, _, minor = fields["compute_capability"].partition(".")
    model = Model(
        name=fields["name"],
        architecture=fields["architecture"],
        compute_capability=(int(major), int(minor)) if minor else None,
        sm_count=whole("sm_count"),
        cuda_cores=whole("cuda_cores"),
        boost_mhz=whole("boost_mhz"),
        memory_mib=whole("memory_mib"),
        memory_gb=real("memory_gb"),
        bandwidth_gbs=real("bandwidth_gbs"),
        fp32_tflops=real("fp32_tflops"),
        fp16_tensor_tflops=real("fp16_tensor_tflops"),
        unsure=tuple(fields["unsure"].split(";")) if fields["unsure"] else (),
        source=fields["source"],
    )
    return _Row(model, _words(model.name), _squeezed(model.name))
