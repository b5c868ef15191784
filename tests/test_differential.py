"""Two readings of one specification: ours against the simulated driver's C, and against the parser of real torch.

The C in ``simdriver/enumerate.h`` was written from the facts alone. Where we claim to know, the two must give the same
list; where we say "unknown" they may differ, and every way in which they do has a row with its reason. The same for
torch, which reads the list without the driver, in places on purpose and in places by mistake. GPUMAP_SOAK=1 tries
many more lists.
"""

from __future__ import annotations

import importlib
import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from gpumap_widgets.certainty import Basis
from gpumap_widgets.grammar import RULES
from gpumap_widgets.mapping import Process
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests import simdriver
from tests.conftest import SLICES, SOAK, UUIDS, equal, listed, pairs, process, split
from tests.simdriver import SimGpu, SimMachine, SimMig

TRIPLES = 24_000 if SOAK else 3_000
TEXTS = 60_000 if SOAK else 6_000
SEED = random.SystemRandom().randrange(2**32) if SOAK else 20_240_607
Devices = list[tuple[int, int | None]]


# ---- machines ----


def simulated(topology: Topology) -> SimMachine:
    """The same machine for the C reading."""
    gpus = tuple(
        SimGpu(
            gpu.label,
            gpu.uuid or "GPU-none",
            gpu.pci_bus_id or "",
            fault="lost" if gpu.problem else None,
            mig_mode=bool(gpu.mig_mode),
            mig=tuple(
                SimMig(m.uuid or "MIG-none", "1g.5gb", m.gpu_instance_id or 0, m.compute_instance_id or 0)
                for m in gpu.mig_instances
            ),
        )
        for gpu in topology.gpus
    )
    return SimMachine(gpus, topology.driver_version or "575.57.08", default_order=topology.default_order)


class Generator:
    """Machines and lists that are nearly right: what people write, and one step beside it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def digits(self, count: int) -> str:
        return "".join(self.random.choices("0123456789abcdef", k=count))

    def uuids(self, count: int) -> list[str]:
        """Distinct ones, of which some begin alike."""
        heads = [self.digits(8) for _ in range(3)]
        found: dict[str, None] = {}
        while len(found) < count:
            head = self.random.choice(heads)[: self.random.choice((0, 1, 4, 7, 8))]
            found[
                f"GPU-{(head + self.digits(8))[:8]}-{self.digits(4)}-4{self.digits(3)}-8{self.digits(3)}-{self.digits(12)}"
            ] = None
        return list(found)

    def slices(self) -> tuple[MigInstance, ...]:
        numbers = self.random.sample(
            [(gi, ci) for gi in range(1, 8) for ci in range(2)], self.random.choice((0, 1, 2, 2, 3, 7))
        )
        return tuple(
            MigInstance(f"MIG-{uuid[4:]}", "1g.5gb", *pair)
            for uuid, pair in zip(self.uuids(len(numbers)), numbers, strict=True)
        )

    def machine(self) -> Topology:
        """Up to 24 GPUs; on one in four machines some are in MIG mode, on one in six some are lost."""
        roll = self.random.random
        count = self.random.choice((1, 2, 2, 3, 4, 4, 8, 8, 12, 16, 24))
        mig, lost = roll() < 0.25, roll() < 0.17
        places = self.random.sample(range(0x1000), count)
        gpus = []
        for i, (uuid, place) in enumerate(zip(self.uuids(count), places, strict=True)):
            cut = mig and roll() < 0.5
            bus = f"{place >> 9:08x}:{place >> 1 & 0xFF:02x}:{place & 1:02x}.0"
            problem = "lost." if lost and roll() < 0.2 else None
            gpus.append(
                Gpu(
                    i, f"Card {i}", uuid, bus, mig_mode=cut, mig_instances=self.slices() if cut else (), problem=problem
                )
            )
        order = tuple(self.random.sample(range(count), count))
        return Topology(
            tuple(gpus),
            driver_version=self.random.choice(("575.57.08", "570.00", "565.77", "535.104.05")),
            default_order=order,
            default_order_measured=True,
        )

    def order(self) -> str | None:
        odd = ("", "pci_bus_id", "PCI_BUS_ID ", "nonsense")
        return self.random.choice((None, None, "FASTEST_FIRST", "PCI_BUS_ID", "PCI_BUS_ID", self.random.choice(odd)))

    # -- lists

    def number(self, count: int) -> str:
        choose = self.random.choice
        n = self.random.randrange(count + (self.random.random() < 0.15))
        plain = str(n)
        return choose((plain,) * 24 + (f" {plain}", f" {plain}", f"+{plain}", f"{plain}gpu", f"-{plain}", f"0{plain}", f"{plain} ",
                                       f"\t{plain}", f"{plain}-{n + 1}", f"0x{plain}", f"{plain}.5", f"{plain}\n"))  # fmt: skip

    def uuid(self, topology: Topology) -> str:
        full = self.random.choice(topology.gpus).uuid or ""
        cut = full[: self.random.choice((40, 40, 12, 12, 13, 8, 6, 5))]
        odd = (
            full + "x",
            full + " ",
            " " + full,
            full.upper(),
            full.lower(),
            full[4:],
            "GPU-",
            f"GPU-{self.digits(5)}",
        )
        return self.random.choice((cut,) * 12 + (self.random.choice(odd),))

    def slice(self, topology: Topology) -> str:
        owner = self.random.choice([gpu for gpu in topology.gpus if gpu.mig_instances] or list(topology.gpus))
        if not owner.mig_instances:
            return self.random.choice(
                (f"MIG-{self.digits(8)}-0000-4000-8000-{self.digits(12)}", "MIG-", f"MIG-{owner.uuid}/1/0")
            )
        one = self.random.choice(owner.mig_instances)
        parent = (owner.uuid or "")[: self.random.choice((40, 12, 6))]
        path = f"MIG-{parent}/{one.gpu_instance_id}/{one.compute_instance_id}"
        odd = (
            (one.uuid or "")[:12],
            (one.uuid or "") + "x",
            f"{path}x",
            f"{path}/0",
            f"MIG-{parent}/9/9",
            f"MIG-{parent}/1",
            (one.uuid or "").upper(),
        )
        return self.random.choice((one.uuid or "",) * 6 + (path,) * 3 + (self.random.choice(odd),))

    def odd(self) -> str:
        return self.random.choice(("", "", " ", "-1", "-1", "foo", "all", "none", "+", "-", "--1", '"0', "[0", "0;1", "1 2", "4294967296",
                                   "99999999999999999999", "-18446744073709551615", "１", "²", "é", "0" * 30, "NoDevFiles", "None"))  # fmt: skip

    def value(self, topology: Topology) -> str | None:
        """A list of one family mostly, with an odd entry, a foreign one or a repeat here and there."""
        count = len(topology.gpus)
        kind = self.random.choices(
            ("unset", "empty", "whole", "number", "uuid", "mig", "mixed"), (3, 1, 4, 14, 8, 6, 3)
        )[0]
        if kind in ("unset", "empty"):
            return None if kind == "unset" else ""
        if kind == "whole":
            numbers = self.random.sample(range(count), count)
            return listed(numbers if self.random.random() < 0.5 else [topology.gpus[i].uuid for i in numbers])
        makers: dict[str, Callable[[], str]] = {
            "number": lambda: self.number(count), "uuid": lambda: self.uuid(topology), "mig": lambda: self.slice(topology),
        }  # fmt: skip
        entries = []
        for _ in range(self.random.choice((1, 1, 2, 2, 3, 3, 4, 6, 10, 26))):
            entries.append(makers[kind if kind != "mixed" else self.random.choice(list(makers))]())
        if self.random.random() < 0.5:  # distinct entries, or nearly every longer list would hold a repeat
            entries = list(dict.fromkeys(entries))
        for chance, make in ((0.12, self.odd), (0.05, lambda: self.random.choice(entries)), (0.04, makers["uuid"])):
            if self.random.random() < chance:
                entries.insert(self.random.randrange(len(entries) + 1), make())
        return ",".join(entries)


# ---- against the C reading ----


@pytest.fixture(scope="session")
def library() -> Path:
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as reason:
        pytest.skip(str(reason))


class Difference(NamedTuple):
    """A way in which the C differs from us where we say that nobody knows."""

    rule: str
    """The rule, a key into `visible_devices.RULES`, that makes our reading unknown."""
    machine: Topology
    value: str
    ours: Devices
    theirs: Devices
    reason: str


FIRST, SECOND, WHOLE = (0, 0), (0, 1), (1, None)
UNCUT = replace(split(), gpus=(replace(split().gpus[0], mig_instances=()), split().gpus[1]))
SHARED = replace(split(), gpus=(
    replace(split().gpus[0], mig_instances=tuple(MigInstance(u, "1c.2g.10gb", 3, ci) for ci, u in enumerate(SLICES))), split().gpus[1],
))  # fmt: skip
KNOWN = [
    Difference("uuid-no-digits", equal(1), "GPU-", [(0, None)], [],
               "we read a bare GPU- as torch does, an empty beginning that one GPU alone has; C asks for a digit"),
    Difference("mig-prefix", split(), "MIG-6c1f0a52", [FIRST], [],
               "we let the beginning of a MIG UUID count as that of a GPU does; C wants it complete"),
    Difference("repeat-mig", split(), f"{SLICES[0]},MIG-6c1f0a52", [], [FIRST],
               "the same: to us the second entry repeats the first, to C it names nothing and ends the list"),
    Difference("mig-same-instance", SHARED, listed(SLICES), [FIRST, SECOND], [FIRST],
               "of two compute instances of one GPU instance one is picked, nobody tells which: we list both, C the first"),
    Difference("mig-without-instances", UNCUT, "1", [WHOLE], [],
               "to us a GPU in MIG mode without instances keeps its number, to C it has none"),
    Difference("mig-without-instances", UNCUT, "0", [], [WHOLE], "the same, seen from the other side"),
    Difference("mig-gpu-uuid", UNCUT, f"{UUIDS[0]},{UUIDS[2]}", [WHOLE], [],
               "by its UUID we pass over a GPU in MIG mode without instances, C ends the list there"),
    Difference("integer-huge", equal(4), "0" * 30, [], [(0, None)],
               "we convert no more than twenty digits, so thirty zeros are out of range; C reads 0"),
]  # fmt: skip
EXPLAINED = {row.rule for row in KNOWN}


def unknown_rules(shown: Process) -> set[str]:
    """The rules that make a reading unknown."""
    named = {*shown.reading.rules, *(pick.rule for pick in shown.reading.picks)}
    return {rule for rule in named & set(RULES) if RULES[rule].basis is Basis.UNKNOWN}


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: f"{row.rule}: {row.value[:20]}")
def test_a_known_difference_is_still_there(library: Path, row: Difference) -> None:
    shown = process(row.machine, row.value, "PCI_BUS_ID")
    assert pairs(shown) == row.ours, row.reason
    assert simdriver.enumerate_devices(library, simulated(row.machine), "PCI_BUS_ID", row.value) == row.theirs, (
        row.reason
    )
    assert shown.certainty == "unknown", row.reason
    assert row.rule in unknown_rules(shown), row.reason


def triples(seed: int, count: int) -> Iterator[tuple[Topology, str | None, str | None]]:
    """Machines, each with a dozen values of the two variables."""
    generator = Generator(seed)
    for left in range(count, 0, -12):
        machine = generator.machine()
        for _ in range(min(left, 12)):
            yield machine, generator.value(machine), generator.order()


def test_the_two_readings_agree(library: Path) -> None:
    certainties: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    for machine, value, order in triples(SEED, TRIPLES):
        shown = process(machine, value, order)
        certainties[shown.certainty] += 1
        theirs = simdriver.enumerate_devices(library, simulated(machine), order, value)
        if pairs(shown) == theirs:
            continue
        case = f"seed {SEED}: {value!r} under {order!r}: we {pairs(shown)}, C {theirs}, {machine!r}"
        assert shown.certainty == "unknown", case
        reasons = unknown_rules(shown) & EXPLAINED
        assert reasons, f"no row of KNOWN explains it: {case}"
        differing.update(reasons)
    print(dict(certainties), dict(differing))
    assert sum(certainties.values()) == TRIPLES
    assert min(certainties["certain"], certainties["likely"], certainties["unknown"]) > TRIPLES // 10, (
        "the generator leans"
    )


UNTOLD = {"mig-numbers-not-shown", "mig-instance-not-shown", "uuid-not-shown", "mig-driver-unknown", "mig-single"}
"""Rules for descriptions that leave something out, which the driver never has to do with."""


def test_the_generator_reaches_far() -> None:
    """What the lists must hold for the comparison to mean something."""
    rules: Counter[str] = Counter()
    sizes, lengths = set(), Counter[int]()
    for machine, value, _ in triples(7, 6_000):
        shown = process(machine, value, "PCI_BUS_ID")
        reading = shown.reading
        rules.update(
            {*reading.rules, reading.whole, *(t.rule for t in reading.tokens), *(p.rule for p in reading.picks)}
        )
        sizes.add(len(machine.gpus))
        lengths[len(shown.devices)] += 1
    never = set(RULES) - set(rules) - UNTOLD
    assert never == set()
    assert max(sizes) == 24
    assert sum(count for length, count in lengths.items() if length > 4) > 300


# ---- against the parser of torch ----


@pytest.fixture(scope="module")
def torch_cuda() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("torch.cuda")
    except ImportError as error:
        pytest.skip(f"torch is not installed: {error}")


Reader = Callable[[Topology, str | None], Any]
RAISES = "raises ValueError"
ASKS = "asks the driver"


@pytest.fixture
def by_torch(torch_cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """torch's reading of a list on a machine, as its NVML-based count resolves it."""
    env = {k: v for k, v in os.environ.items() if not k.endswith("_VISIBLE_DEVICES")}
    monkeypatch.setattr(os, "environ", env)  # a plain dict, so that any text can stand in it

    def read(machine: Topology, value: str | None) -> Any:
        env.pop("CUDA_VISIBLE_DEVICES", None)
        if value is not None:
            env["CUDA_VISIBLE_DEVICES"] = value
        try:
            entries = torch_cuda._parse_visible_devices()
        except ValueError:
            return RAISES
        if entries and isinstance(entries[0], str):
            if entries[0].startswith("MIG-"):
                return ASKS
            return torch_cuda._transform_uuid_to_ordinals(entries, [gpu.uuid for gpu in machine.gpus])
        inside = [entry < len(machine.gpus) for entry in entries]
        return entries[: inside.index(False) if False in inside else None]

    return read


class TorchDifference(NamedTuple):
    """One way in which torch reads a list otherwise than we say that the driver does."""

    cause: str
    value: str | None
    gpus: int
    ours: list[int]
    theirs: Any
    reason: str


TORCH_KNOWN = [
    TorchDifference("sign", "+", 4, [], RAISES, "its strtoul hands a lone sign to int()"),
    TorchDifference("sign", "0,-", 4, [0], RAISES, "the same behind a good entry"),
    TorchDifference("sign", "--1", 4, [], RAISES, "the same: the head is the first sign"),
    TorchDifference("sign", "9,+", 4, [], RAISES, "the same behind one that is out of range, which it looks at later"),
    TorchDifference("foreign digit", "²", 4, [], RAISES, "str.isdigit takes superscripts, int() does not"),
    TorchDifference("foreign digit", "1²", 4, [1], RAISES, "the same in a tail"),
    TorchDifference(
        "foreign digit", "１", 4, [], [1], "str.isdigit and int() take the digits of any script, C takes ASCII"
    ),
    TorchDifference("foreign digit", "1２", 16, [1], [12], "the same in a tail"),
    TorchDifference("repeat behind", "0,9,0", 4, [0], [], "it looks for repeats before it looks at the range"),
    TorchDifference("repeat behind", "0,9,9", 4, [0], [], "the same: not even a device is repeated"),
    TorchDifference("repeat behind", "GPU-7d20,GPU-zz,GPU-7d20", 8, [2], [], "the same with a UUID that no GPU has"),
    TorchDifference("wide blank", "\u00a01", 4, [], [1], "str.strip takes blanks that C does not know"),
    TorchDifference("wide blank", "0,1\x1c,\u20032", 4, [0, 1], [0, 1, 2], "the same"),
    TorchDifference("many zeros", "0" * 30, 4, [], [0], "we convert no more than twenty digits"),
    TorchDifference("many digits", "1" * 5_000, 4, [], RAISES, "int() refuses more than 4300 digits"),
    TorchDifference("64 GPUs", None, 70, list(range(70)), list(range(64)), "unset is range(64) to it"),
    TorchDifference("mig", f"{SLICES[0]}", 4, [], ASKS, "it leaves MIG to the driver"),
]
CAUSES: dict[str, Callable[[str, Process, Any], bool]] = {
    "sign": lambda value, shown, theirs: theirs == RAISES and any(t.rule == "sign" for t in shown.reading.tokens),
    "foreign digit": lambda value, shown, theirs: any(c.isdigit() and not c.isascii() for c in value),
    "repeat behind": lambda value, shown, theirs: theirs == [] and "repeat-behind-stop" in shown.reading.rules,
    "wide blank": lambda value, shown, theirs: any(c.isspace() and c not in " \t\n\v\f\r" for c in value),
    "many zeros": lambda value, shown, theirs: "0" * 20 in value,
    "many digits": lambda value, shown, theirs: theirs == RAISES and len(value) > 4300,
    "mig": lambda value, shown, theirs: theirs == ASKS,
}


def positions(shown: Process) -> list[int]:
    return [device.position for device in shown.devices]


@pytest.mark.torch
@pytest.mark.parametrize("row", TORCH_KNOWN, ids=lambda row: f"{row.cause} {row.value!a:.20}")
def test_a_known_difference_to_torch(by_torch: Reader, row: TorchDifference) -> None:
    machine = equal(row.gpus)
    shown = process(machine, row.value, "PCI_BUS_ID")
    assert positions(shown) == row.ours, row.reason
    assert by_torch(machine, row.value) == row.theirs, row.reason
    assert row.value is None or CAUSES[row.cause](row.value, shown, row.theirs)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("value", "gpus", "expected"),
    [
        # torch's own test cases, on UUIDs of ours
        ("1gpu2,2ampere", 8, [1, 2]),
        ("0, 1, 2, -1, 3", 8, [0, 1, 2]),
        ("0, 1, 2, 1", 8, []),
        ("2, +3, -0, 5", 8, [2, 3, 0, 5]),
        ("one,two,3,4", 8, []),
        ("4,3,two,one", 8, [4, 3]),
        ("1, 5, 0", 2, [1]),
        ("1, 0", 2, [1, 0]),
        ("GPU-7d20b5e9, 2", 8, [2]),
        ("GPU-7d,GPU-c5", 8, [2, 5]),
        ("GPU-zz,GPU-c5", 8, []),
        ("GPU-7d20b5e9,GPU-zz,GPU-c5", 8, [2]),
        ("GPU-7d20b5e9,GPU-a9,GPU-c5", 8, [2]),
        ("GPU-7d20b5e9,GPU-c5,GPU-7d2", 8, []),
        # where nobody knows, we read as torch does
        (" 0", 4, [0]),
        ("0,00", 4, []),
        ("010", 12, [10]),
        ("0x1", 4, [0]),
        ("0,foo,0", 4, [0]),
        (" GPU-7d20b5e9", 8, []),
        ("GPU-7d20b5e9, GPU-c5", 8, [2]),
        ("GPU-7D20B5E9", 8, []),
        ("gpu-7d20b5e9", 8, []),
        ("GPU-", 1, [0]),
        (UUIDS[2][4:], 8, [7]),
        ("", 4, []),
        (None, 4, [0, 1, 2, 3]),
    ],
)
def test_torch_reads_as_we_do(by_torch: Reader, value: str | None, gpus: int, expected: list[int]) -> None:
    machine = equal(gpus)
    assert by_torch(machine, value) == expected
    assert positions(process(machine, value, "PCI_BUS_ID")) == expected


ALPHABETS = (
    "0123456789,,,,",
    "0123,,,+- \t\n",
    "0123456789,,gpuGPU-abcdefx.;_",
    "012,,１２²³٣०Ⅷ½é \u00a0\u2003\x1c\x85\ud800",
)


def texts(seed: int, count: int) -> Iterator[tuple[Topology, str | None]]:
    """Lists for machines without MIG, and texts of characters that matter to a parser."""
    generator = Generator(seed)
    dice = generator.random
    machines = [equal(n) for n in (1, 2, 4, 8, 12, 24)]
    for n in range(count):
        machine = dice.choice(machines)
        if n % 3:
            yield machine, generator.value(machine)
        else:
            yield machine, "".join(dice.choices(dice.choice(ALPHABETS), k=dice.randrange(12)))


@pytest.mark.torch
def test_torch_and_we_agree_but_for_what_is_known(by_torch: Reader) -> None:
    causes: Counter[str] = Counter()
    same = 0
    for machine, value in texts(SEED, TEXTS):
        shown = process(machine, value, "PCI_BUS_ID")
        theirs = by_torch(machine, value)
        if theirs == positions(shown):
            same += 1
            continue
        assert value is not None
        found = [cause for cause, applies in CAUSES.items() if applies(value, shown, theirs)]
        assert found, f"seed {SEED}: {value!a} on {len(machine.gpus)} GPUs: we {positions(shown)}, torch {theirs}"
        causes[found[0]] += 1
    print(same, dict(causes))
    assert same > TEXTS * 0.6
    assert set(causes) >= {"sign", "foreign digit", "repeat behind", "wide blank"}
