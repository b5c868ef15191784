"""The words of CUDA_VISIBLE_DEVICES: how entries are spelt, and what backs each rule of the grammar.

Total: no text raises. `tokenise` cuts a value at its commas and says what each token looks like, with its span in the
text. What a list of tokens means on a machine is said by `visible_devices`.

Every rule carries its basis. Documented by NVIDIA means certain; read in source or reported by a run means likely;
inferred from those likely at most; where no source tells, the most plausible reading is given and marked unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from .certainty import Basis
from .identity import is_full_uuid


class Kind(StrEnum):
    """What a token was read as."""

    INTEGER = "integer"
    GPU_UUID = "gpu uuid"
    MIG_UUID = "mig uuid"
    INVALID = "invalid"


class Token(NamedTuple):
    """One entry of the list, as written."""

    text: str
    start: int
    """Where it begins in the value."""
    kind: Kind
    value: int
    """The number of an INTEGER (negative ones end the list); -1 for the other kinds."""
    rule: str
    """Key into `RULES`: what this spelling is, and what backs the reading."""

    @property
    def end(self) -> int:
        """Where it ends in the value (exclusive)."""
        return self.start + len(self.text)


class Rule(NamedTuple):
    """A rule of the grammar: what backs it, and where that can be read."""

    basis: Basis
    source: str


_GUIDE = "CUDA Programming Guide 5.2.1.1, CUDA_VISIBLE_DEVICES"
_TORCH = "pytorch test_cuda_nvml_based_avail.py; its PR 92315 says it was checked on driver 525.60.13"
_MIG = "NVIDIA MIG User Guide, CUDA device enumeration"
_NONE = "no source for the driver"

RULES: Mapping[str, Rule] = {
    # how a token is spelt
    "integer": Rule(Basis.DOCUMENTED, _GUIDE),
    "integer-blank": Rule(Basis.SOURCE, _TORCH),
    "integer-signed": Rule(Basis.SOURCE, _TORCH),
    "integer-word-tail": Rule(Basis.SOURCE, _TORCH),
    "integer-range": Rule(Basis.REPORTED, "pytorch PR 84879: ranges are not supported (driver 510)"),
    "integer-odd-tail": Rule(Basis.UNKNOWN, _NONE),
    "integer-odd-blank": Rule(Basis.UNKNOWN, _NONE),
    "integer-leading-zero": Rule(Basis.UNKNOWN, f"{_NONE}: the number base is not known"),
    "integer-huge": Rule(Basis.UNKNOWN, f"{_NONE}: whether numbers are cut to 32 bits is not known"),
    "uuid": Rule(Basis.DOCUMENTED, _GUIDE),
    "uuid-prefix": Rule(Basis.DOCUMENTED, f"{_GUIDE}; shapes run on a driver in pytorch PR 92315"),
    "uuid-short-prefix": Rule(Basis.SOURCE, _TORCH),
    "uuid-no-digits": Rule(Basis.UNKNOWN, _NONE),
    "uuid-blank": Rule(Basis.UNKNOWN, _NONE),
    "uuid-case": Rule(Basis.UNKNOWN, f"{_NONE}: whether case counts is not known"),
    "uuid-tail": Rule(Basis.UNKNOWN, _NONE),
    "uuid-bare": Rule(Basis.UNKNOWN, f"{_NONE}: it may be read as a number"),
    "mig-uuid": Rule(Basis.DOCUMENTED, _MIG),
    "mig-path": Rule(Basis.DOCUMENTED, _MIG),
    "mig-path-short": Rule(Basis.SOURCE, "nvitop, api/device.py docstring"),
    "mig-prefix": Rule(Basis.UNKNOWN, _NONE),
    "word": Rule(Basis.SOURCE, _TORCH),
    "empty": Rule(Basis.INFERRED, f"{_GUIDE}: an invalid entry ends the list"),
    "sign": Rule(Basis.INFERRED, f"{_GUIDE}: an invalid entry ends the list"),
    "bracket": Rule(Basis.INFERRED, f"{_GUIDE}: an invalid entry ends the list"),
    "keyword": Rule(Basis.INFERRED, "a word of another tool (NVIDIA_VISIBLE_DEVICES, Slurm); CUDA knows no words"),
    "foreign-digit": Rule(Basis.INFERRED, "strtoul reads ASCII digits only"),
    "blank": Rule(Basis.UNKNOWN, _NONE),
    # what happens to the list
    "unset": Rule(Basis.DOCUMENTED, _GUIDE),
    "empty-value": Rule(Basis.DOCUMENTED, f"{_GUIDE}; cuInit returns 100, seen in nvitop PR 26"),
    "negative": Rule(Basis.DOCUMENTED, _GUIDE),
    "out-of-range": Rule(Basis.DOCUMENTED, _GUIDE),
    "unknown-uuid": Rule(Basis.SOURCE, _TORCH),
    "ambiguous-uuid": Rule(Basis.SOURCE, _TORCH),
    "unknown-mig": Rule(Basis.INFERRED, f"{_GUIDE}: an invalid entry ends the list"),
    "mig-numbers-not-shown": Rule(Basis.UNKNOWN, "the machine's description shows no MIG instance numbers"),
    "uuid-not-shown": Rule(Basis.UNKNOWN, "the machine's description does not show every UUID"),
    "lost-number": Rule(Basis.UNKNOWN, f"{_NONE} on whether a GPU that cannot be used keeps its number"),
    "lost-neighbour": Rule(Basis.REPORTED, "meta-llama/llama-models issue 200: the others go on working"),
    "may-repeat": Rule(Basis.UNKNOWN, "an entry whose reading is not known may name a device a second time"),
    "integer-after-uuid": Rule(Basis.SOURCE, _TORCH),
    "uuid-after-integer": Rule(Basis.UNKNOWN, _NONE),
    "mixed-families": Rule(Basis.UNKNOWN, f"{_NONE} on MIG and GPU UUIDs in one list"),
    "repeat": Rule(Basis.SOURCE, f"{_TORCH}; nvitop docstring"),
    "repeat-other-spelling": Rule(Basis.UNKNOWN, f"{_NONE} on one number in two spellings"),
    "repeat-uuid": Rule(Basis.SOURCE, _TORCH),
    "repeat-mig": Rule(Basis.UNKNOWN, f"{_NONE} on a MIG device named twice"),
    "repeat-behind-negative": Rule(Basis.REPORTED, "pytorch PR 92315, NVIDIA staff: the CUDA runtime on an 8-GPU node"),
    "repeat-behind-stop": Rule(Basis.UNKNOWN, f"{_NONE}: torch looks for repeats before it looks at the range"),
    "mig-first-only": Rule(Basis.DOCUMENTED, f"{_MIG}: before driver 570 one MIG device a process"),
    "mig-one-of-each": Rule(
        Basis.UNKNOWN, f"{_MIG}: from driver 570 one compute instance of each; order not documented"
    ),
    "mig-single": Rule(Basis.DOCUMENTED, _MIG),
    "mig-same-instance": Rule(Basis.UNKNOWN, f"{_MIG}: of several compute instances of one GPU instance one is picked"),
    "mig-gpu-uuid": Rule(Basis.UNKNOWN, f"{_NONE} on the UUID of a GPU in MIG mode; cuda-core refuses such a GPU"),
    "mig-alone": Rule(Basis.INFERRED, f"{_MIG}: before driver 570 no whole GPU stands beside a MIG device"),
    "mig-instance-not-shown": Rule(Basis.UNKNOWN, "the machine's description shows no GPU instance numbers"),
    "mig-integer-old": Rule(Basis.DOCUMENTED, f"{_MIG}: before driver 570 its first MIG device"),
    "mig-integer": Rule(Basis.UNKNOWN, f"{_NONE} on the number of a GPU in MIG mode from driver 570 on"),
    "mig-neighbour": Rule(Basis.INFERRED, f"{_MIG}: a whole GPU keeps its number beside one in MIG mode"),
    "mig-without-instances": Rule(
        Basis.UNKNOWN, f"{_NONE} on whether a MIG-mode GPU without instances keeps its number"
    ),
    "mig-driver-unknown": Rule(Basis.UNKNOWN, "the rules changed with driver 570 and the driver version is not known"),
}
"""Every rule by key. The sentences that go with the keys are in `texts`."""

KEYWORDS = frozenset({"all", "none", "void", "nodevfiles", "null", "false", "true", "auto"})
_INTEGER = re.compile(r"([ \t\n\v\f\r]*)([+-]?)([0-9]+)", re.ASCII)
_BARE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}|$)", re.ASCII)
_BIG = 2**32
_UUID_LENGTH = 40


def tokenise(value: str) -> tuple[Token, ...]:
    """Cut a value at its commas and say what each token looks like. Never raises; "" gives no token."""
    if not value:
        return ()
    tokens = []
    start = 0
    for text in value.split(","):
        kind, number, rule = _classify(text, first=start == 0)
        tokens.append(Token(text, start, kind, number, rule))
        start += len(text) + 1
    return tuple(tokens)


def _classify(text: str, *, first: bool) -> tuple[Kind, int, str]:
    """Kind, number and rule of one token; ``first`` because blanks before the first token are another case."""
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") and len(text) < 10:
        return Kind.INTEGER, int(text), "integer"  # nearly all tokens there are
    if len(text) == _UUID_LENGTH and text.startswith("GPU-") and is_full_uuid(text):
        return Kind.GPU_UUID, -1, "uuid"
    stripped = text.strip(" \t\n\v\f\r")
    if stripped.startswith("GPU-"):
        return Kind.GPU_UUID, -1, _uuid_rule(text, stripped)
    if stripped.startswith("MIG-"):
        return Kind.MIG_UUID, -1, _mig_rule(text, stripped)
    if not stripped:
        return Kind.INVALID, -1, "blank" if text else "empty"
    if stripped[:4].lower() in ("gpu-", "mig-"):
        return Kind.INVALID, -1, "uuid-case"
    match = _INTEGER.match(text)
    if match is None:
        return Kind.INVALID, -1, _invalid_rule(stripped)
    blanks, sign, digits = match.groups()
    if _BARE.match(stripped) and not stripped.isdigit():
        return Kind.INTEGER, _number(digits, sign), "uuid-bare"
    return Kind.INTEGER, _number(digits, sign), _integer_rule(blanks, sign, digits, text[match.end() :], first=first)


def _number(digits: str, sign: str) -> int:
    """The value of a run of digits; runs too long for any GPU are not converted in full (bounded time)."""
    number = int(digits) if len(digits) <= 20 else _BIG**2
    return -number if sign == "-" else number


def _integer_rule(blanks: str, sign: str, digits: str, tail: str, *, first: bool) -> str:
    """The row of `RULES` for a token that begins like a number: the least certain of its oddities."""
    if len(digits) >= 10 and _number(digits, "") >= _BIG:
        return "integer-huge"
    if len(digits) > 1 and digits[0] == "0":
        return "integer-leading-zero"
    if digits == "0" and tail[:1] in ("x", "X"):
        return "integer-leading-zero"
    if blanks.strip(" ") or (blanks and first):
        return "integer-odd-blank"
    if tail:
        if tail[0] == "-":
            return "integer-range"
        return "integer-word-tail" if tail[0].isascii() and tail[0].isalpha() else "integer-odd-tail"
    if sign and not (sign == "-" and int(digits)):  # a plain negative number is the guide's own example
        return "integer-signed"
    return "integer-blank" if blanks else "integer"


def _uuid_rule(text: str, stripped: str) -> str:
    if text != stripped:
        return "uuid-blank"
    digits = len(text) - 4
    if digits == 0:
        return "uuid-no-digits"
    if is_full_uuid(text):
        return "uuid"
    if digits > 36:
        return "uuid-tail"
    return "uuid-prefix" if digits >= 4 else "uuid-short-prefix"


def _mig_rule(text: str, stripped: str) -> str:
    if text != stripped:
        return "uuid-blank"
    if is_full_uuid(text):
        return "mig-uuid"
    parent, _, numbers = text.removeprefix("MIG-").partition("/")
    if parent.startswith("GPU-") and re.fullmatch(r"[0-9]{1,4}/[0-9]{1,4}", numbers, re.ASCII):
        return "mig-path" if is_full_uuid(parent) else "mig-path-short"
    return "mig-prefix"


def _invalid_rule(stripped: str) -> str:
    if stripped.lower() in KEYWORDS:
        return "keyword"
    if stripped[0] in "+-":
        return "sign"
    if stripped[0] in "\"'[({<":
        return "bracket"
    return "foreign-digit" if stripped[0].isdigit() else "word"


def weakest(rules: Sequence[str]) -> Basis:
    """The weakest basis among some rules; documented when there is none."""
    return max((RULES[rule].basis for rule in rules if rule in RULES), default=Basis.DOCUMENTED)
