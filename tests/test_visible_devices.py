"""The grammar of CUDA_VISIBLE_DEVICES: what the driver makes of a value, how sure that is, and where a list ends.

A row gives the value, the machine, the devices by ordinal, the certainty of the reading (the order is PCI_BUS_ID, so
that nothing else is in doubt), the entry that ended the list, and where the answer can be read.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from gpumap_widgets.certainty import Basis
from gpumap_widgets.grammar import RULES, Kind, tokenise, weakest
from gpumap_widgets.identity import PrefixIndex
from gpumap_widgets.mapping import Process
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from gpumap_widgets.visible_devices import Candidates, Reading, read
from tests.conftest import SLICES, UUIDS, equal, listed, pairs, predict, process, split

# Where an answer comes from, and with that how much may be claimed.
GUIDE = "CUDA Programming Guide 5.2.1.1"  # certain
STAFF = "pytorch PR 92315: NVIDIA staff, runs of the CUDA runtime on eight GPUs"  # likely
TORCH = "pytorch test_cuda_nvml_based_avail.py, said to match driver 525.60.13"  # likely
NVITOP = "nvitop, docstring in api/device.py: run on a driver"  # likely
RANGES = "pytorch PR 84879: ranges are not supported, driver 510"  # likely
STOP = "follows from the guide: an invalid entry ends the list"  # likely at most
C_DIGITS = "follows from strtoul: digits are ASCII"  # likely at most
MIG = "NVIDIA MIG User Guide, CUDA device enumeration"  # certain
NOBODY = "no source for the driver; the most plausible reading is shown"  # unknown

CERTAIN, LIKELY, UNKNOWN = "certain", "likely", "unknown"


class Row(NamedTuple):
    """One value on one machine."""

    value: str | None
    machine: str
    devices: list[Any]
    """Positions by ordinal; (position, instance) for a MIG device."""
    certainty: str
    stop: int | None
    """The entry that ended or emptied the list."""
    source: str
    empties: bool = False


def _cut(*instances: MigInstance, driver: str | None = "575.57.08", neighbour: bool = True) -> Topology:
    gpus = [Gpu(0, "NVIDIA H100 80GB HBM3", UUIDS[0], "07:00.0", mig_mode=True, mig_instances=instances)]
    gpus += [Gpu(1, "NVIDIA H100 80GB HBM3", UUIDS[2], "0F:00.0")] if neighbour else []
    return Topology(tuple(gpus), driver_version=driver)


def without(topology: Topology, lost: int) -> Topology:
    """The same machine with one GPU lost."""
    gpus = (replace(gpu, problem="lost.") if i == lost else gpu for i, gpu in enumerate(topology.gpus))
    return replace(topology, gpus=tuple(gpus))


@cache
def machine(name: str) -> Topology:
    """The machines of the tables by name: a number of equal GPUs, or one with MIG."""
    if name.isdigit():
        return equal(int(name))
    if name.startswith("lost "):  # "lost 1 of 4"
        number, count = name.removeprefix("lost ").split(" of ")
        return without(equal(int(count)), int(number))
    if name == "no uuids":
        return replace(equal(4), gpus=tuple(replace(gpu, uuid=None) for gpu in equal(4).gpus))
    if name == "one without uuid":
        return replace(equal(3), gpus=(*equal(3).gpus[:2], replace(equal(3).gpus[2], uuid=None)))
    kind, _, driver = name.partition(" @")
    version = {"old": "565.77", "new": "570.00", "?": None}[driver]
    shared = (MigInstance("MIG-a", "1c.3g.40gb", 2, 0), MigInstance("MIG-b", "1c.3g.40gb", 2, 1))
    return {
        "split": lambda: split(version),
        "slice": lambda: _cut(MigInstance(SLICES[0], "7g.80gb", 0, 0), driver=version, neighbour=False),
        "shared": lambda: _cut(*(replace(m, uuid=u) for m, u in zip(shared, SLICES, strict=True)), driver=version),
        "unnumbered": lambda: _cut(*(MigInstance(u, "3g.40gb") for u in SLICES), driver=version),
        "uncut": lambda: _cut(driver=version),
        "split, the other lost": lambda: without(split(version), 1),
        "unnamed slices": lambda: _cut(MigInstance(None, "3g.40gb", 1, 0), driver=version),
        "uncut last": lambda: replace(
            _cut(driver=version),
            gpus=(
                replace(_cut().gpus[1], nvml_index=0, pci_bus_id="01:00.0"),
                replace(_cut().gpus[0], nvml_index=1),
            ),
        ),
        "uncut twin": lambda: replace(
            machine("uncut first @" + driver),
            gpus=(
                _cut().gpus[0],
                replace(machine("uncut first @" + driver).gpus[1], uuid=UUIDS[1]),
            ),
        ),
        "uncut first": lambda: replace(
            _cut(driver=version),
            gpus=(
                _cut().gpus[0],
                replace(_cut().gpus[1], mig_mode=True, mig_instances=(MigInstance(SLICES[0], "7g.80gb", 0, 0),)),
            ),
        ),
    }[kind]()


ROWS = [
    # unset and set to nothing are two things
    Row(None, "4", [0, 1, 2, 3], CERTAIN, None, GUIDE),
    Row(None, "1", [0], CERTAIN, None, GUIDE),
    Row(None, "0", [], CERTAIN, None, GUIDE),
    Row("", "4", [], CERTAIN, None, f"{GUIDE}; cuInit 100 seen in nvitop PR 26"),
    Row("", "0", [], CERTAIN, None, GUIDE),
    # numbers: the order of the list is the order of the ordinals
    Row("0", "1", [0], CERTAIN, None, GUIDE),
    Row("3", "4", [3], CERTAIN, None, GUIDE),
    Row("3,1", "4", [3, 1], CERTAIN, None, GUIDE),
    Row("2,0,1", "8", [2, 0, 1], CERTAIN, None, GUIDE),
    Row("4,5,6,7", "8", [4, 5, 6, 7], CERTAIN, None, GUIDE),
    Row("3,2,1,0", "4", [3, 2, 1, 0], CERTAIN, None, GUIDE),
    Row("11,10", "12", [11, 10], CERTAIN, None, GUIDE),
    # an invalid entry ends the list, what stands before it stays
    Row("0,2,-1,1", "4", [0, 2], CERTAIN, 2, GUIDE),
    Row("-1", "4", [], CERTAIN, 0, f"{GUIDE}; chainer PR 2245"),
    Row("-1,0", "4", [], CERTAIN, 0, GUIDE),
    Row("-2", "4", [], CERTAIN, 0, GUIDE),
    Row("4", "4", [], CERTAIN, 0, GUIDE),
    Row("0,4,1", "4", [0], CERTAIN, 1, GUIDE),
    Row("5,6,7,8", "8", [5, 6, 7], CERTAIN, 3, GUIDE),
    Row("1,0,2", "2", [1, 0], CERTAIN, 2, GUIDE),
    Row("0", "0", [], CERTAIN, 0, GUIDE),
    Row("4294967295", "4", [], CERTAIN, 0, GUIDE),
    Row("1, 5, 0", "2", [1], LIKELY, 1, TORCH),
    Row("0, 1, 2, -1, 3", "4", [0, 1, 2], LIKELY, 3, TORCH),
    Row("0,1,2,3,-1,5,6,7", "8", [0, 1, 2, 3], CERTAIN, 4, f"{GUIDE}; {STAFF}"),
    Row("one,two,3,4", "8", [], LIKELY, 0, TORCH),
    Row("4,3,two,one", "8", [4, 3], LIKELY, 2, TORCH),
    Row("x", "4", [], LIKELY, 0, TORCH),
    Row("cuda:1", "4", [], LIKELY, 0, TORCH),
    Row("0,cuda:1", "4", [0], LIKELY, 1, TORCH),
    # one device twice before any stop: nothing is left
    Row("0,0", "4", [], LIKELY, 1, NVITOP, True),
    Row("1,1,3", "8", [], LIKELY, 1, TORCH, True),
    Row("0,1,0", "4", [], LIKELY, 2, TORCH, True),
    Row("0, 1, 2, 1", "4", [], LIKELY, 3, TORCH, True),
    Row("2,2,-1", "4", [], LIKELY, 1, TORCH, True),
    Row("1gpu,1gpu", "4", [], LIKELY, 1, TORCH, True),
    Row("0,00", "4", [], UNKNOWN, 1, NOBODY, True),
    Row("0,+0", "4", [], UNKNOWN, 1, NOBODY, True),
    Row("1,1gpu", "4", [], UNKNOWN, 1, NOBODY, True),
    # a repeat behind the stop
    Row("0,1,2,3,-1,0,6,7", "8", [0, 1, 2, 3], LIKELY, 4, STAFF),
    Row("0,9,0", "4", [0], UNKNOWN, 1, NOBODY),
    Row("0,foo,0", "4", [0], UNKNOWN, 1, NOBODY),
    Row("0,9,9", "4", [0], UNKNOWN, 1, NOBODY),
    Row("9,9", "4", [], CERTAIN, 0, f"{GUIDE}: whichever rule is looked at first, nothing is left"),
    # blanks
    Row("2, 1", "4", [2, 1], LIKELY, None, TORCH),
    Row("2,  1", "4", [2, 1], LIKELY, None, TORCH),
    Row(" 0", "4", [0], UNKNOWN, None, NOBODY),
    Row("0 ", "4", [0], UNKNOWN, None, NOBODY),
    Row("\t1", "4", [1], UNKNOWN, None, NOBODY),
    Row("0,\t1", "4", [0, 1], UNKNOWN, None, NOBODY),
    Row("0\n", "4", [0], UNKNOWN, None, NOBODY),
    Row("0\r", "4", [0], UNKNOWN, None, NOBODY),
    Row(" 1 , 0 ", "4", [1, 0], UNKNOWN, None, NOBODY),
    Row(" ", "4", [], UNKNOWN, 0, NOBODY),
    Row("0, ,1", "4", [0], UNKNOWN, 1, NOBODY),
    Row("0 1", "4", [0], UNKNOWN, None, NOBODY),
    # punctuation
    Row("0,1,", "4", [0, 1], LIKELY, 2, STOP),
    Row(",0", "4", [], LIKELY, 0, STOP),
    Row("0,,1", "4", [0], LIKELY, 1, STOP),
    Row(",", "4", [], LIKELY, 0, STOP),
    Row("0;1", "4", [0], UNKNOWN, None, NOBODY),
    Row("0.5", "4", [0], UNKNOWN, None, NOBODY),
    Row("0:1", "4", [0], UNKNOWN, None, NOBODY),
    Row('"0,1"', "4", [], LIKELY, 0, STOP),
    Row("'1'", "4", [], LIKELY, 0, STOP),
    Row("[0,1]", "4", [], LIKELY, 0, STOP),
    Row("(0)", "4", [], LIKELY, 0, STOP),
    Row("{0}", "4", [], LIKELY, 0, STOP),
    # how a number may be written
    Row("1gpu2,2ampere", "4", [1, 2], LIKELY, None, f"{TORCH}; PR 84879"),
    Row("2, +3, -0, 5", "8", [2, 3, 0, 5], LIKELY, None, TORCH),
    Row("+1", "4", [1], LIKELY, None, TORCH),
    Row("-0", "4", [0], LIKELY, None, TORCH),
    Row("0-2", "4", [0], LIKELY, None, RANGES),
    Row("1e1", "12", [1], LIKELY, None, TORCH),
    Row("00", "4", [0], UNKNOWN, None, NOBODY),
    Row("010", "12", [10], UNKNOWN, None, NOBODY),
    Row("08", "12", [8], UNKNOWN, None, NOBODY),
    Row("0x1", "4", [0], UNKNOWN, None, NOBODY),
    Row("0X1", "4", [0], UNKNOWN, None, NOBODY),
    Row("0,09", "4", [0], UNKNOWN, 1, NOBODY),
    Row("4294967296", "4", [], UNKNOWN, 0, NOBODY),
    Row("18446744073709551615", "4", [], UNKNOWN, 0, NOBODY),
    Row("18446744073709551616", "4", [], UNKNOWN, 0, NOBODY),
    Row("99999999999999999999999", "4", [], UNKNOWN, 0, NOBODY),
    Row("-18446744073709551615", "4", [], UNKNOWN, 0, NOBODY),
    Row("0,4294967297", "4", [0], UNKNOWN, 1, NOBODY),
    Row("+", "4", [], LIKELY, 0, STOP),
    Row("-", "4", [], LIKELY, 0, STOP),
    Row("0,-", "4", [0], LIKELY, 1, STOP),
    Row("--1", "4", [], LIKELY, 0, STOP),
    Row("+-0", "4", [], LIKELY, 0, STOP),
    Row("- 0", "4", [], LIKELY, 0, STOP),
    # digits of other scripts
    Row("１", "4", [], LIKELY, 0, C_DIGITS),
    Row("²", "4", [], LIKELY, 0, C_DIGITS),
    Row("٢", "4", [], LIKELY, 0, C_DIGITS),
    Row("1,２", "4", [1], LIKELY, 1, C_DIGITS),
    # words of other tools
    Row("all", "4", [], LIKELY, 0, STOP),
    Row("none", "4", [], LIKELY, 0, STOP),
    Row("None", "4", [], LIKELY, 0, STOP),
    Row("void", "4", [], LIKELY, 0, STOP),
    Row("NoDevFiles", "4", [], LIKELY, 0, f"{STOP}; Slurm writes it for jobs without a GPU"),
    Row("0,all", "4", [0], LIKELY, 1, STOP),
    # UUIDs, complete and abbreviated
    Row(UUIDS[1], "4", [1], CERTAIN, None, GUIDE),
    Row(f"{UUIDS[2]},{UUIDS[0]}", "4", [2, 0], CERTAIN, None, GUIDE),
    Row("GPU-7d20b5e9", "8", [2], CERTAIN, None, f"{GUIDE}; {STAFF}"),
    Row("GPU-7d20b5e9-", "8", [2], CERTAIN, None, f"{GUIDE}; {STAFF}"),
    Row("GPU-7d20,GPU-c51e2a90-f6b4-4d08", "8", [2, 5], CERTAIN, None, f"{GUIDE}; {STAFF}"),
    Row("GPU-7", "8", [2], LIKELY, None, TORCH),
    Row("GPU-c5,GPU-7d20b5e9", "8", [5, 2], LIKELY, None, TORCH),
    Row("GPU-7d20b5e9,GPU-e,GPU-c5", "8", [2, 6, 5], LIKELY, None, TORCH),
    Row("GPU-0123", "8", [], LIKELY, 0, TORCH),
    Row("GPU-zz", "8", [], LIKELY, 0, TORCH),
    Row("GPU-7d20b5e9,GPU-0123,GPU-c5", "8", [2], LIKELY, 1, TORCH),
    Row("GPU-3f8", "8", [], LIKELY, 0, TORCH),
    Row("GPU-7d20b5e9,GPU-a9,GPU-c5", "8", [2], LIKELY, 1, TORCH),
    Row("GPU-3f8a,GPU-a94", "8", [0, 3], LIKELY, None, TORCH),
    Row(UUIDS[5], "4", [], LIKELY, 0, f"{TORCH}: a UUID of a GPU that is not there"),
    Row("GPU-7d20b5e9,GPU-7d20b5e9", "8", [], LIKELY, 1, TORCH, True),
    Row("GPU-7d20b5e9,GPU-c5,GPU-7d2", "8", [], LIKELY, 2, TORCH, True),
    Row(f"{UUIDS[2]},GPU-7", "8", [], LIKELY, 1, TORCH, True),
    Row("GPU-7d20,GPU-0123,GPU-7d20", "8", [2], UNKNOWN, 1, NOBODY),
    # numbers and UUIDs in one list
    Row("GPU-7d20b5e9, 2", "8", [2], LIKELY, 1, TORCH),
    Row("GPU-7d20b5e9,2", "8", [2], LIKELY, 1, TORCH),
    Row("GPU-7d20b5e9,foo", "8", [2], LIKELY, 1, TORCH),
    Row("GPU-7d20b5e9,", "8", [2], LIKELY, 1, STOP),
    Row("2,GPU-7d20b5e9", "8", [2], UNKNOWN, 1, NOBODY),
    Row("0,GPU-c5", "8", [0], UNKNOWN, 1, NOBODY),
    Row("foo,GPU-c5", "8", [], LIKELY, 0, TORCH),
    # UUIDs that are not written as they are printed
    Row("GPU-", "1", [0], UNKNOWN, None, NOBODY),
    Row("GPU-", "0", [], UNKNOWN, 0, NOBODY),
    Row("GPU-7D20B5E9", "8", [], UNKNOWN, 0, NOBODY),
    Row("gpu-7d20b5e9", "8", [], UNKNOWN, 0, NOBODY),
    Row("Gpu-7d20b5e9", "8", [], UNKNOWN, 0, NOBODY),
    Row(" GPU-7d20b5e9", "8", [], UNKNOWN, 0, NOBODY),
    Row("GPU-7d20b5e9 ", "8", [], UNKNOWN, 0, NOBODY),
    Row("GPU-7d20b5e9, GPU-c5", "8", [2], UNKNOWN, 1, NOBODY),
    Row(f"{UUIDS[2]}x", "8", [], UNKNOWN, 0, NOBODY),
    Row(UUIDS[2].removeprefix("GPU-"), "8", [7], UNKNOWN, None, f"{NOBODY}: read as 7"),
    Row(UUIDS[2].removeprefix("GPU-"), "4", [], UNKNOWN, 0, f"{NOBODY}: read as 7, which is not there"),
    Row("7d20b5e9", "8", [7], UNKNOWN, None, NOBODY),
    Row(UUIDS[3].removeprefix("GPU-"), "8", [], LIKELY, 0, f"{STOP}: begins with a letter, so it is no number"),
    Row(SLICES[0], "8", [], LIKELY, 0, f"{STOP}: no such MIG device"),
    Row("MIG-", "8", [], UNKNOWN, 0, NOBODY),
]

FIRST, SECOND, WHOLE = (0, 0), (0, 1), 1
MIG_ROWS = [
    # by UUID: any number of GPU instances from 570 on, one MIG device before
    Row(SLICES[0], "split @new", [FIRST], CERTAIN, None, MIG),
    Row(SLICES[0], "split @old", [FIRST], CERTAIN, None, MIG),
    Row(SLICES[0], "split @?", [FIRST], CERTAIN, None, f"{MIG}: the same in both"),
    Row(f"{SLICES[1]},{SLICES[0]}", "split @new", [SECOND, FIRST], CERTAIN, None, MIG),
    Row(f"{SLICES[1]},{SLICES[0]}", "split @old", [SECOND], CERTAIN, None, MIG),
    Row(f"{SLICES[1]},{SLICES[0]}", "split @?", [SECOND, FIRST], UNKNOWN, None, f"{MIG}: changed with 570"),
    Row(f"{SLICES[0]},{SLICES[0]}", "split @new", [], UNKNOWN, 1, NOBODY, True),
    Row(f"{SLICES[0]},{SLICES[1]}", "shared @new", [FIRST, SECOND], UNKNOWN, None, f"{MIG}: one of them is picked"),
    Row("MIG-6c1f0a52", "split @new", [FIRST], UNKNOWN, None, NOBODY),
    Row("MIG-6c1f0a52", "split @old", [FIRST], UNKNOWN, None, NOBODY),
    Row("mig-6c1f0a52", "split @new", [], UNKNOWN, 0, NOBODY),
    Row(f"{SLICES[0]} ", "split @new", [], UNKNOWN, 0, NOBODY),
    Row(f"{SLICES[0]}x", "split @new", [], UNKNOWN, 0, NOBODY),
    Row("MIG-00000000-0000-4000-8000-000000000000", "split @new", [], LIKELY, 0, STOP),
    # by GPU, GPU instance and compute instance, as before R470; a later driver still took it
    Row(f"MIG-{UUIDS[0]}/9/0", "split @new", [FIRST], CERTAIN, None, MIG),
    Row(f"MIG-{UUIDS[0]}/7/0", "split @old", [SECOND], CERTAIN, None, MIG),
    Row("MIG-GPU-3f8a1c27/7/0", "split @new", [SECOND], LIKELY, None, NVITOP),
    Row("MIG-GPU-3f8a1c27/7/0", "split @old", [SECOND], LIKELY, None, NVITOP),
    Row(f"MIG-{UUIDS[0]}/7/1", "split @new", [], LIKELY, 0, STOP),
    Row(f"MIG-{UUIDS[2]}/9/0", "split @new", [], LIKELY, 0, f"{STOP}: that GPU has no instances"),
    Row("MIG-GPU-0123/9/0", "split @new", [], LIKELY, 0, STOP),
    Row(f"MIG-{UUIDS[0]}/7", "split @new", [], UNKNOWN, 0, NOBODY),
    Row(f"MIG-{UUIDS[0]}/9/0", "unnumbered @new", [], UNKNOWN, 0, "the description shows no instance numbers"),
    # by number
    Row("0", "split @old", [FIRST], CERTAIN, None, f"{MIG}: before 570 its first MIG device"),
    Row("0", "split @new", [FIRST], UNKNOWN, None, NOBODY),
    Row("0", "split @?", [FIRST], UNKNOWN, None, NOBODY),
    Row("1", "split @old", [WHOLE], LIKELY, None, f"follows from {MIG}"),
    Row("1", "split @new", [WHOLE], LIKELY, None, f"follows from {MIG}"),
    Row("1,0", "split @new", [WHOLE, FIRST], UNKNOWN, None, NOBODY),
    Row("0,0", "split @old", [], LIKELY, 1, TORCH, True),
    Row("1,-1", "split @new", [WHOLE], LIKELY, 1, GUIDE),
    # whole GPUs beside them
    Row(UUIDS[2], "split @new", [WHOLE], CERTAIN, None, GUIDE),
    Row(f"{SLICES[0]},{UUIDS[2]}", "split @new", [FIRST], UNKNOWN, 1, NOBODY),
    Row(f"{UUIDS[2]},{SLICES[0]}", "split @new", [WHOLE], UNKNOWN, 1, NOBODY),
    Row(f"{SLICES[0]},1", "split @new", [FIRST], LIKELY, 1, f"{TORCH}: a number behind a UUID"),
    # unset, and set to nothing
    Row(None, "split @old", [FIRST], CERTAIN, None, MIG),
    Row(None, "split @new", [FIRST, SECOND, WHOLE], UNKNOWN, None, f"{MIG}: all of them, in an order nobody tells"),
    Row(None, "split @?", [FIRST, SECOND, WHOLE], UNKNOWN, None, f"{MIG}: changed with 570"),
    Row(None, "slice @new", [FIRST], CERTAIN, None, MIG),
    Row(None, "slice @old", [FIRST], CERTAIN, None, MIG),
    Row(None, "shared @new", [FIRST, WHOLE], UNKNOWN, None, f"{MIG}: one compute instance of each GPU instance"),
    Row("", "split @new", [], CERTAIN, None, GUIDE),
    Row("", "split @old", [], CERTAIN, None, GUIDE),
    # a GPU in MIG mode without an instance: CUDA cannot use it; nobody knows whether its number stays
    Row(None, "uncut @new", [WHOLE], UNKNOWN, None, NOBODY),
    Row("0", "uncut @new", [], UNKNOWN, None, NOBODY),
    Row("1", "uncut @new", [WHOLE], UNKNOWN, None, NOBODY),
    Row(UUIDS[2], "uncut @new", [WHOLE], CERTAIN, None, GUIDE),
]


LAME_ROWS = [
    # a repeat is no surer than the spelling of the entry that repeats
    Row("0,0 ", "4", [], UNKNOWN, 1, "whether a blank behind a number is accepted: nobody knows", True),
    Row(f"{UUIDS[0]},GPU-", "1", [], UNKNOWN, 1, "whether a bare GPU- matches: nobody knows", True),
    # a GPU in MIG mode by its own name: cuda-core raises for it
    Row(UUIDS[0], "split @new", [FIRST], UNKNOWN, None, NOBODY),
    Row(UUIDS[0], "split @old", [FIRST], UNKNOWN, None, NOBODY),
    Row(UUIDS[0], "uncut @new", [], UNKNOWN, None, NOBODY),
    Row(f"{UUIDS[2]},{UUIDS[0]}", "split @new", [WHOLE, FIRST], UNKNOWN, None, NOBODY),
    # whether case counts in MIG names
    Row(SLICES[0].replace("c1f0a", "C1F0A"), "split @new", [], UNKNOWN, 0, NOBODY),
    Row(f"MIG-{UUIDS[0].replace('3f8a', '3F8A')}/9/0", "split @new", [], UNKNOWN, 0, NOBODY),
    Row("MIG-GPU-/0/0", "slice @new", [FIRST], UNKNOWN, None, NOBODY),
    # a GPU in MIG mode without instances: neither its number nor its name is known to count
    Row("0,1,1", "uncut last @new", [], UNKNOWN, 2, NOBODY, True),
    Row("1", "uncut first @old", [(1, 0)], UNKNOWN, None, NOBODY),
    Row("GPU-3f8", "uncut twin @new", [], UNKNOWN, 0, NOBODY),
    Row("MIG-GPU-3f8/0/0", "uncut twin @old", [], UNKNOWN, 0, NOBODY),
    # before 570 a MIG device stands alone
    Row("0,1", "split @old", [FIRST], LIKELY, None, f"follows from {MIG}"),
    Row("1,0", "split @old", [FIRST], LIKELY, None, f"follows from {MIG}"),
    # a description that leaves something out cannot tell that nothing has a name
    Row(UUIDS[1], "no uuids", [], UNKNOWN, 0, "the description shows no UUIDs"),
    Row("GPU-3f8b", "no uuids", [], UNKNOWN, 0, "the description shows no UUIDs"),
    Row("GPU-", "no uuids", [], UNKNOWN, 0, "the description shows no UUIDs"),
    Row("2,1", "no uuids", [2, 1], CERTAIN, None, GUIDE),
    Row("GPU-3f8a", "one without uuid", [0], UNKNOWN, None, "the third may begin so, too"),
    Row(UUIDS[0], "one without uuid", [0], CERTAIN, None, GUIDE),
    Row(f"{UUIDS[0]},{UUIDS[2]}", "one without uuid", [0], UNKNOWN, 1, "it may be that of the third"),
    Row(f"{UUIDS[0]},{UUIDS[0]}", "one without uuid", [], LIKELY, 1, TORCH, True),
    Row(SLICES[0], "unnamed slices @new", [], UNKNOWN, 0, "the description shows no MIG UUIDs"),
    Row(listed(SLICES), "unnumbered @new", [FIRST, SECOND], UNKNOWN, None, "they may lie in one GPU instance"),
    Row(listed(SLICES), "unnumbered @old", [FIRST], CERTAIN, None, MIG),
    # a lost GPU: whether it keeps its number is not known; in reports the others went on working
    Row("0", "lost 0 of 3", [1], UNKNOWN, None, NOBODY),
    Row("1,0", "lost 0 of 3", [2, 1], UNKNOWN, None, NOBODY),
    Row("2", "lost 0 of 3", [], UNKNOWN, 0, NOBODY),
    Row(UUIDS[1], "lost 0 of 3", [1], LIKELY, None, "meta-llama/llama-models issue 200"),
    Row(UUIDS[0], "lost 0 of 3", [], LIKELY, 0, f"{TORCH}: CUDA does not have it"),
    Row("-1", "lost 0 of 3", [], CERTAIN, 0, GUIDE),
    Row("", "lost 0 of 3", [], CERTAIN, None, GUIDE),
    Row(SLICES[0], "split, the other lost @new", [FIRST], LIKELY, None, "meta-llama/llama-models issue 200"),
    Row("0", "split, the other lost @old", [FIRST], UNKNOWN, None, NOBODY),
]
"""Machines that lack something, or are not told in full."""


OPEN_ROWS = [
    pytest.param(
        Row("0,1,0", "uncut last @new", [], UNKNOWN, 2, "if 1 is no device it ends the list before the repeat", True),
        id="a repeat behind the number of a MIG-mode GPU without instances",
    ),
    pytest.param(
        Row(
            f"{UUIDS[2]},{UUIDS[0]},{UUIDS[2]}",
            "uncut @new",
            [],
            UNKNOWN,
            2,
            "if it is no device it ends the list",
            True,
        ),
        id="a repeat behind the UUID of a MIG-mode GPU without instances",
    ),
    pytest.param(
        Row(
            "0,1,1", "lost 1 of 4", [], UNKNOWN, 2, "if the lost GPU keeps its number, 1 is invalid and [0] stays", True
        ),
        id="a repeat beside a lost GPU",
    ),
    pytest.param(
        Row("9", "lost 0 of 3", [], CERTAIN, 0, f"{GUIDE}: out of range whether or not the lost GPU keeps its number"),
        id="a number out of any range beside a lost GPU",
    ),
    pytest.param(
        Row(None, "split, the other lost @old", [FIRST], LIKELY, None, "beside a lost GPU nothing is certain"),
        id="unset with a MIG device beside a lost GPU",
    ),
]


def check(row: Row) -> None:
    """Compare all that a row says."""
    shown = process(machine(row.machine), row.value, "PCI_BUS_ID")
    expected = [device if isinstance(device, tuple) else (device, None) for device in row.devices]
    assert pairs(shown) == expected, row.source
    stop = shown.reading.stop
    assert (stop.token if stop else None) == row.stop, row.source
    assert bool(stop and stop.empties) is row.empties, row.source
    assert shown.certainty == row.certainty, (row.source, shown.reading.rules)


def _title(row: Row) -> str:
    return f"{row.value!r} on {row.machine}"


@pytest.mark.parametrize("row", ROWS, ids=_title)
def test_a_value(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", MIG_ROWS, ids=_title)
def test_a_value_on_a_mig_machine(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", LAME_ROWS, ids=_title)
def test_a_value_on_a_machine_that_lacks_something(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", OPEN_ROWS)
def test_an_open_row(row: Row) -> None:
    check(row)


def test_no_row_stands_twice() -> None:
    keys = [(row.value, row.machine) for row in all_rows()]
    assert len(set(keys)) == len(keys)


# ---- the rules ----


def rules_of(shown: Process) -> set[str]:
    """Every rule that a reading names."""
    reading = shown.reading
    stop = reading.stop
    named = {token.rule for token in reading.tokens} | {pick.rule for pick in reading.picks}
    named |= {reading.whole, *reading.rules, *reading.shared}
    return (named | {rule for rule in (stop and stop.rule, stop and stop.spelling) if rule}) - {"list"}


def test_every_rule_has_a_row_and_every_row_a_rule() -> None:
    named = {
        row: rules_of(process(machine(row.machine), row.value, "PCI_BUS_ID")) for row in map(_hashable, all_rows())
    }
    used = set().union(*named.values())
    assert used - set(RULES) == set(), "a rule that the table does not have"
    assert set(RULES) - used == set(), "a rule without a row in this file"
    assert all(named.values())


def all_rows() -> list[Row]:
    return [*ROWS, *MIG_ROWS, *LAME_ROWS]


def _hashable(row: Row) -> Row:
    return row._replace(devices=tuple(row.devices))  # type: ignore[arg-type]


def test_every_rule_says_where_it_can_be_read() -> None:
    for key, rule in RULES.items():
        assert rule.source, key
        assert rule.basis is Basis.UNKNOWN or not rule.source.startswith("no source"), key
    assert {rule.basis for rule in RULES.values()} == set(Basis)


def test_the_weakest_rule_counts() -> None:
    assert weakest(()) is Basis.DOCUMENTED
    assert weakest(("integer", "word", "integer-huge")) is Basis.UNKNOWN
    assert weakest(("integer", "integer-blank")) is Basis.SOURCE
    assert [basis.certainty for basis in sorted(Basis)] == [CERTAIN, LIKELY, LIKELY, LIKELY, UNKNOWN]


def test_a_pick_is_no_surer_than_its_spelling_and_no_less_sure_than_it_must_be() -> None:
    shown = process(equal(12), "3, 1,0 ,-1", "PCI_BUS_ID")
    assert [str(device.certainty) for device in shown.devices] == [CERTAIN, LIKELY, UNKNOWN]
    shown = process(equal(8), "2,1,9", "PCI_BUS_ID")
    assert [str(device.certainty) for device in shown.devices] == [CERTAIN, CERTAIN]
    mixed = process(equal(8), f"2,1,{UUIDS[5]}", "PCI_BUS_ID")
    assert {str(device.certainty) for device in mixed.devices} == {UNKNOWN}  # all of it may be read in another way


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(f"{UUIDS[2]}, {UUIDS[2]}", id="a blank before the same UUID"),
        pytest.param(f"{UUIDS[2]},GPU-{UUIDS[2][4:].upper()}", id="the same UUID in upper case"),
        pytest.param("8,010", id="ten, or eight again"),
        pytest.param("1,0x1", id="zero, or one again"),
    ],
)
def test_an_edge_before_an_entry_that_may_be_its_repeat_is_not_certain(value: str) -> None:
    shown = process(equal(12), value, "PCI_BUS_ID")
    assert shown.devices, "most plausible: it is no repeat"
    assert shown.certainty == UNKNOWN
    assert all(device.certainty == UNKNOWN for device in shown.devices)


# ---- tokens ----

ODD_VALUES = ["0,1", " 0 ,, 1gpu\t,GPU-7d , MIG-x,", ",,,", "é,１,\U0001f600,\ud800,\x00", "0" * 500, "a\nb,c\r\nd"]


@pytest.mark.parametrize("value", [row.value for row in all_rows() if row.value] + ODD_VALUES, ids=ascii)
def test_spans_cover_the_value(value: str) -> None:
    tokens = tokenise(value)
    assert listed(token.text for token in tokens) == value
    assert [value[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    assert tokens[0].start == 0
    assert tokens[-1].end == len(value)
    assert all(after.start == before.end + 1 for before, after in itertools.pairwise(tokens))


def test_spans_by_hand() -> None:
    tokens = tokenise("3, 1gpu,,GPU-ab,x")
    assert [(t.text, t.start, t.end) for t in tokens] == [
        ("3", 0, 1), (" 1gpu", 2, 7), ("", 8, 8), ("GPU-ab", 9, 15), ("x", 16, 17),
    ]  # fmt: skip
    assert [t.kind for t in tokens] == [Kind.INTEGER, Kind.INTEGER, Kind.INVALID, Kind.GPU_UUID, Kind.INVALID]
    assert [t.value for t in tokens] == [3, 1, -1, -1, -1]
    assert [t.rule for t in tokens] == ["integer", "integer-word-tail", "empty", "uuid-short-prefix", "word"]
    assert tokenise("") == ()


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", Kind.INTEGER, 7),
        ("+7", Kind.INTEGER, 7),
        ("-7", Kind.INTEGER, -7),
        ("-0", Kind.INTEGER, 0),
        ("0017", Kind.INTEGER, 17),
        ("12monkeys", Kind.INTEGER, 12),
        ("0x10", Kind.INTEGER, 0),
        ("-", Kind.INVALID, -1),
        ("GPU-", Kind.GPU_UUID, -1),
        ("MIG-GPU-12/1/0", Kind.MIG_UUID, -1),
        ("gpu-12", Kind.INVALID, -1),
        ("GPU:0", Kind.INVALID, -1),
        ("\u00a01", Kind.INVALID, -1),
    ],
)
def test_kind_and_number_of_a_token(text: str, kind: Kind, value: int) -> None:
    (token,) = tokenise(text)
    assert (token.kind, token.value) == (kind, value)


# ---- the reading as a value ----


def reading(value: str | None, count: int = 4) -> Reading:
    return process(equal(count), value, "PCI_BUS_ID").reading


def test_the_whole_list_has_a_word_of_its_own() -> None:
    assert (reading(None).whole, reading("").whole, reading("0").whole) == ("unset", "empty-value", "list")
    assert reading(None).tokens == reading("").tokens == ()
    assert (reading(None).value, reading("").value) == (None, "")


def test_a_repeat_names_what_it_repeats() -> None:
    stop = reading("0,2,2").stop
    assert stop is not None
    assert (stop.token, stop.other, stop.rule, stop.empties) == (2, 1, "repeat", True)


def test_every_pick_knows_its_entry_and_whether_the_order_matters() -> None:
    by_number, by_uuid, unset = reading("2,0"), reading(f"{UUIDS[1]},GPU-7d20"), reading(None)
    assert [(p.place, p.token, p.by_number) for p in by_number.picks] == [(2, 0, True), (0, 1, True)]
    assert [(p.place, p.token, p.by_number) for p in by_uuid.picks] == [(1, 0, False), (2, 1, False)]
    assert [(p.place, p.token, p.by_number) for p in unset.picks] == [(i, None, True) for i in range(4)]


def test_a_reading_is_a_value() -> None:
    assert reading("0,1") == reading("0,1")
    assert hash(reading("0,1")) == hash(reading("0,1"))
    assert reading("0,1") != reading("0, 1")


def test_devices_without_uuids_are_found_by_number_only() -> None:
    nothing = Candidates([None, None], PrefixIndex([None, None]), {}, 575)
    assert [pick.place for pick in read("1,0", nothing).picks] == [1, 0]
    assert read("GPU-3f8a", nothing).picks == ()


def test_what_is_left_beside_a_lost_gpu_is_not_certain() -> None:
    """Some users saw the others go on working, some saw nothing work at all."""
    assert predict(without(equal(3), 0), None, "PCI_BUS_ID").certainty != CERTAIN
    assert predict(without(equal(3), 0), None).certainty != CERTAIN
