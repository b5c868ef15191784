"""The catalogue of NVIDIA GPU models: from a name, as any tool prints it, to capability, SM count, memory and speeds.

nvidia-smi tells neither capability nor SM count, and CUDA's default order rests on both, so a table by name must stand
in. The facts are in ``catalog.csv``, one row a model (or a memory variant of it), each with its source and with the
fields that are not sure. A look-up is loose about spelling and does not guess between different models:

1. nvidia-smi's own spelling wins: "T1000" is the "NVIDIA T1000", not the mobile "Quadro T1000".
2. Several products under one printed name: memory decides; else the first row, the common product, and what differs
   is in `Model.unsure` (an RTX 3080 has 68 SMs with 10 GB and 70 with 12 GB).
3. A name that leaves form factor or memory open stands for all that it fits: "Tesla V100" has what every V100 has in
   common, "H100" has a capability but no SM count. When even the capabilities differ ("RTX 4000") there is no answer.
4. A name cut with "..." has an answer only when all models that it fits agree on capability and SM count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

_LONGEST = 120  # no model name is near it; what is longer is no name and must cost nothing
_NVIDIA_SMI_WIDTHS = (18, 27)  # room for a name in the old and the new tables of nvidia-smi; only longer names are cut
_ALIASES = {"k20": "k20m", "k20x": "k20xm", "k40": "k40m"}  # boards of one product that differ in cooling

_KINDS = {
    word: kind
    for kind, words in {
        "architecture": "fermi kepler maxwell pascal volta turing ampere ada hopper blackwell",
        "brand": "geforce quadro tesla",
        "form": "pcie sxm sxm2 sxm3 sxm4 sxm5 sxm6 nvl fhhl dgxs hbm3 workstation server",
        "place": "laptop mobile notebook maxq",
        "filler": "nvidia corporation graphics gpu card edition generation design with tensor core lovelace grace "
        "superchip active founders collectors ac hbm2 hbm2e hbm3e lite hash rate lhr",
    }.items()
    for word in words.split()
}
"""What a word says besides the model's own name."""


@dataclass(frozen=True, slots=True)
class Model:
    """One GPU of a board (a Tesla K80 has two). None where a figure is not known, or not the same for all it may be."""

    name: str
    """As nvidia-smi prints it on current drivers, or on the last that knew it. For a name that fits several models,
    the beginning that they share. "... Mobile" is lspci's spelling, where nvidia-smi has no name of its own."""
    architecture: str
    compute_capability: tuple[int, int] | None
    sm_count: int | None
    """Streaming multiprocessors that are enabled."""
    cuda_cores: int | None
    boost_mhz: int | None
    """Quoted boost clock (before Kepler: shader clock); what a GPU really does depends on power and cooling."""
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
    """Fields that may be wrong: recalled and not looked up, differing between sources or between products with this
    name, or depending on a laptop's power limit."""
    source: str


class _Words(NamedTuple):
    """A name taken apart: what tells models apart, then what people add or leave out."""

    core: str
    brand: frozenset[str]
    architecture: frozenset[str]
    size: frozenset[str]
    form: frozenset[str]


class _Row(NamedTuple):
    model: Model
    words: _Words


def models() -> tuple[Model, ...]:
    """All rows of the catalogue, oldest generation first. The file is read at the first use of the catalogue."""
    return tuple(row.model for row in _rows())


_VGPU = re.compile(r"-\d{1,3}(?:q|a|b\d?|c|cme)$|^(?:nvidia )?grid (?:k100|k200|k\d{3}q|[a-z0-9 ]+-\d{1,3})$")


def is_vgpu(name: str) -> bool:
    """Whether a name is that of a virtual GPU ("GRID T4-16Q", "NVIDIA A100-1-5C"): a share of a board, whose size the
    name does not tell. By the type names in NVIDIA's vGPU user guides: board, perhaps slices, then memory and series.
    """
    return len(name) <= _LONGEST and _VGPU.search(name.strip().lower()) is not None


def look_up(name: str, memory_mib: int | None = None) -> Model | None:
    """Find the model that a name means: None when the catalogue has none, or several of different kind.

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
    found = [row.model for row in rows if row.words == words] or _matching(words, rows)
    if memory_mib is not None:
        found = [model for model in found if _fits(model, memory_mib)] or found
    if len({model.compute_capability for model in found}) != 1:
        return None
    return _in_common(found)


def _matching(words: _Words, rows: Sequence[_Row]) -> list[Model]:
    """Models that contradict nothing that the name says; the closest in spelling where some are closer."""
    found = [row for row in rows if words.architecture <= {row.model.architecture.lower()} and _has_size(row, words)]
    if words.brand:
        same = [row for row in found if words.brand & row.words.brand]
        found = same or [row for row in found if _may_be_called(row, words)]
    elif words.core.isdigit():  # "4090" is a GeForce; "600" or "4000" might be anything
        found = [row for row in found if "geforce" in row.words.brand]
    if words.form:
        same = [row for row in found if row.words.form and all(_has_form(row, form) for form in words.form)]
        found = same or [row for row in found if not row.words.form]
    spelled = [row for row in found if row.words.size == words.size and (words.form or not row.words.form)]
    return [row.model for row in spelled or found]


def _has_size(row: _Row, words: _Words) -> bool:
    gb = row.model.memory_gb
    return gb is None or words.size <= row.words.size | {str(round(gb))}


def _has_form(row: _Row, form: str) -> bool:
    return form in row.words.form or (form == "sxm" and any(own.startswith("sxm") for own in row.words.form))


def _may_be_called(row: _Row, words: _Words) -> bool:
    """Whether people may add the brand to a name that has none: "Quadro RTX A6000", "Tesla A100", "GeForce TITAN V".
    Not to "RTX 5000 Ada": without the last word, that is the name of another Quadro.
    """
    fits = "geforce" not in words.brand or "titan" in row.words.core
    return fits and not row.words.brand and row.words.architecture <= words.architecture


def _cut(text: str, memory_mib: int | None) -> Model | None:
    """One model for a name that a narrow table cut, if all that it may be agree on capability and SM count."""
    shown = text.rstrip(".…").lower()
    head = _squeezed(shown)
    # a name that has room is not cut, which leaves "GeForce GTX 108..." to names longer than "GeForce GTX 1080"
    room = len(text) if text.endswith("...") and len(text) in _NVIDIA_SMI_WIDTHS else 0
    found = []
    for model in models() if head else ():
        full = model.name if shown.startswith("nvidia") else model.name.removeprefix("NVIDIA ")
        if len(full) >= room and not full.endswith(" Mobile") and _squeezed(full).startswith(head):
            found.append(model)
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


def _in_common(found: list[Model]) -> Model:
    """Merge several models into what they share. Under one printed name, what they do not share is the first one's."""
    first, one_name = found[0], len({model.name for model in found}) == 1
    if len(found) == 1:
        return first
    pieces = zip(*(re.findall(r"\w+|\W+", model.name) for model in found), strict=False)
    shared = takewhile(lambda same: len(set(same)) == 1, pieces)
    changes: dict[str, Any] = {"name": "".join(same[0] for same in shared).rstrip(" -(") or first.name}
    if not one_name:
        changes["source"] = f"what {len(found)} models of this name share"
    unsure = {field for model in found for field in model.unsure}
    for field in _IDENTITY + _SPEEDS + _MEMORY:
        values = [getattr(model, field) for model in found]
        if len(set(values)) == 1:
            continue
        unsure.add(field)
        if field in _MEMORY or (field in _IDENTITY and not one_name):
            changes[field] = None
        elif not one_name:
            changes[field] = None if None in values else min(values)
    known = [field for field in _IDENTITY + _SPEEDS + _MEMORY if changes.get(field, getattr(first, field)) is not None]
    return replace(first, unsure=tuple(field for field in known if field in unsure), **changes)


_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,3}) ?(?:gb|gib|g)\b")
_REMARK = re.compile(r"\(([^()]*)\)")
_BRACKET = re.compile(r"\[([^][]*)\]")
_REVISION = re.compile(r"\brev\.? [a-z0-9]\b")
_GLUED = re.compile(r"(nvidia|geforce|quadro|tesla)(?=[a-z0-9])")
_WORD = re.compile(r"[a-z0-9]+")


def _squeezed(name: str) -> str:
    return "".join(_WORD.findall(name.lower())).removeprefix("nvidia")


def _kind(word: str) -> str:
    return "size" if word.endswith("gb") and word[:-2].isdigit() else _KINDS.get(word, "core")


def _telling(remark: re.Match[str]) -> str:
    """Of what stands in parentheses: "(Pascal)" and "(8 GB, laptop)" are part of the name, "(R)" and notes are not."""
    return f" {' '.join(word for word in _WORD.findall(remark[1]) if _kind(word) not in ('core', 'filler'))} "


def _words(name: str) -> _Words:
    text = name.lower()
    inner = _BRACKET.search(text)
    if inner:  # lspci: "TU102 [GeForce RTX 2080 Ti Rev. A]"
        text = _REVISION.sub("", inner[1])
    text = _SIZE.sub(r"\1gb", _GLUED.sub(r"\1 ", text)).replace("max-q", "maxq").replace("max q", "maxq")
    said: dict[str, list[str]] = {}
    for word in _WORD.findall(_REMARK.sub(_telling, text)):
        said.setdefault(_kind(word), []).append(word)
    # "RTX4090", "RTX 4090" and "RTX-4090" are one; numbers do not grow together, "RTX 40 90" is none
    core = re.sub(r"(?<=\d) (?=\d)", "_", " ".join(said.get("core", ()))).replace(" ", "")
    places = set(said.get("place", ()))  # lspci says "Mobile / Max-Q" where both have the same chip
    place = "" if not places else "maxq" if places == {"maxq"} else "laptop"
    return _Words(
        _ALIASES.get(core, core) + place if core else "",
        frozenset(said.get("brand", ())),
        frozenset(said.get("architecture", ())),
        frozenset(word.removesuffix("gb") for word in said.get("size", ())),
        frozenset("sxm5" if word == "hbm3" else word for word in said.get("form", ())),  # "H100 80GB HBM3" is SXM5
    )


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[_Row, ...]]:
    """Rows by core name; also by what is left ("4090", "A4000", "TITAN X") where people drop GTX or RTX."""
    index: dict[str, list[_Row]] = {}
    for row in _rows():
        core, bare = row.words.core, row.words.core[3:]
        index.setdefault(core, []).append(row)
        # "TITAN" alone stays out: four generations are called that
        if core[:3] in ("gtx", "rtx") and bare != "titan" and ("geforce" in row.words.brand or bare[0] == "a"):
            index.setdefault(bare, []).append(row)
    return {core: tuple(rows) for core, rows in index.items()}


@lru_cache(maxsize=1)
def _rows() -> tuple[_Row, ...]:
    import csv
    from importlib.resources import files  # both only at the first look-up: importing the package stays quick

    text = (files(__package__) / "catalog.csv").read_text(encoding="utf-8")
    return tuple(_row(fields) for fields in csv.DictReader(text.splitlines()))


def _row(fields: dict[str, str]) -> _Row:
    values: dict[str, Any] = dict(fields)
    for field in ("sm_count", "cuda_cores", *_SPEEDS, *_MEMORY):
        number = float if field.endswith(("_gb", "_gbs", "_tflops")) else int
        values[field] = number(fields[field]) if fields[field] else None
    values["compute_capability"] = tuple(map(int, fields["compute_capability"].split(".")))
    values["unsure"] = tuple(filter(None, fields["unsure"].split(";")))
    return _Row(Model(**values), _words(fields["name"]))
