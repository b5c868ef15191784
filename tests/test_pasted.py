"""Reading pasted text: every shape, every kind of damage, what is refused and why, and that nothing else is raised."""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]

import pytest

from gpumap_widgets.errors import UnreadableTopology
from gpumap_widgets.sources import pasted
from gpumap_widgets.sources.pasted import Reading, merge, read, read_topology
from gpumap_widgets.topology import Topology

from .conftest import SOAK
from .data.pasted.damage import DAMAGES
from .data.pasted.shapes import (
    EIGHT,
    MIXED,
    SHAPES,
    collect_env,
    csv_with_header,
    device_query,
    gpustat,
    listing,
    llama_log,
    long_report,
    lspci,
    narrow_table,
    tensorflow_log,
    topo,
    torch_loop,
    wide_table,
    xml_report,
)
from .data.pasted.texts import CASES, CUDA_CASES, ERR_ROW, MIG_TABLE, Case, U

CUDA_SHAPES = (device_query, tensorflow_log, llama_log, torch_loop)
by_name = {"ids": lambda item: getattr(item, "__name__", getattr(item, "remark", str(item)))}


def migs(gpu):
    return [
        (m.uuid, m.profile, m.gpu_instance_id, m.compute_instance_id, m.memory_mib, m.mig_index)
        for m in gpu.mig_instances
    ]


def refusal(text: str) -> str:
    with pytest.raises(UnreadableTopology) as caught:
        read(text)
    assert caught.value.remedy, "a refusal says what to paste instead"
    return str(caught.value)


# --- what is read -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*CASES, *CUDA_CASES], **by_name)
def test_literal_texts(case: Case):
    topology = read(case.text).topology
    assert len(topology.gpus) == len(case.gpus)
    for gpu, expected in zip(topology.gpus, case.gpus, strict=True):
        for field, value in expected.items():
            got = migs(gpu) if field == "migs" else getattr(gpu, field)
            assert (got is not None) if value is ... else (got == value), (field, got)
    for attribute, value in case.more.items():
        assert getattr(topology, attribute) == value


@pytest.mark.parametrize("case", CUDA_CASES, **by_name)
def test_ordinals_are_never_nvidia_smis_numbers(case: Case):
    topology = read(case.text).topology
    assert all(gpu.nvml_index is None for gpu in topology.gpus)
    assert topology.default_order is not None
    assert not topology.default_order_measured, "a log does not show its environment"


@pytest.mark.parametrize("cards", [MIXED, EIGHT], ids=["mixed", "eight"])
@pytest.mark.parametrize("shape", SHAPES, **by_name)
def test_shapes(shape, cards):
    """Whatever a text says of a card must be right; what it does not say stays unknown."""
    topology = read(shape(cards)).topology
    assert len(topology.gpus) == len(cards)
    if shape in CUDA_SHAPES:
        assert topology.default_order is not None
        cards_by_ordinal = sorted(cards, key=lambda card: (-card.sms, card.index))
        pairs = [
            (topology.gpus[position], card)
            for position, card in zip(topology.default_order, cards_by_ordinal, strict=True)
        ]
    else:
        assert [gpu.nvml_index for gpu in topology.gpus] == [card.index for card in cards]
        pairs = list(zip(topology.gpus, cards, strict=True))
    for gpu, card in pairs:
        assert gpu.name is None or plain(gpu.name) == plain(card.name)[: len(plain(gpu.name))] or shape is lspci
        assert gpu.uuid in (None, card.uuid)
        assert gpu.pci_bus_id in (None, card.bus)
        assert gpu.memory_mib in (None, card.memory) or shape is device_query
        assert gpu.mig_mode is None
        assert gpu.problem is None
    assert topology.driver_version in (None, "550.90.07", "384.111")


def plain(name: str) -> str:
    return name.removesuffix("...").removeprefix("NVIDIA ").strip()


def test_what_each_shape_tells():
    full = {"name", "uuid", "pci_bus_id", "memory_mib"}
    told = {
        wide_table: full - {"uuid"},
        listing: {"name", "uuid"},
        csv_with_header: full,
        long_report: full,
        xml_report: full,
        gpustat: {"name", "memory_mib"},
        topo: set(),
        collect_env: {"name"},
        lspci: {"name", "pci_bus_id"},
        torch_loop: {"name", "uuid"},
    }
    for shape, fields in told.items():
        for gpu in read(shape()).topology.gpus:
            assert {field for field in full if getattr(gpu, field) is not None} == fields, shape.__name__


def test_capability_and_sm_count_are_those_of_the_model_and_memory_is_never_filled_in():
    gpu = read_topology(listing()).gpus[1]
    assert (gpu.compute_capability, gpu.sm_count, gpu.memory_mib) == ((8, 9), 128, None)


def test_cuda_devices_with_addresses_stand_in_pci_order():
    topology = read(device_query()).topology
    assert [gpu.pci_bus_id for gpu in topology.gpus] == [card.bus for card in MIXED]
    assert topology.default_order == (1, 0, 2)


# --- damage -------------------------------------------------------------------------------------


def essence(topology: Topology):
    return topology.gpus, topology.default_order, topology.driver_version, topology.platform


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("shape", SHAPES, **by_name)
def test_damage_changes_nothing(shape, damage):
    text = shape()
    assert essence(read(DAMAGES[damage](text)).topology) == essence(read(text).topology)


ODD_DAMAGES = ("mail quote", "time and level", "compose", "docker JSON", "HTML br", "spaces collapsed", "wrapped at 72")
ODD = [
    (case, damage)
    for case in CASES
    for damage in ODD_DAMAGES
    if "\t" not in case.text or damage != "wrapped at 72"  # Python's textwrap makes blanks of the tabs between cells
]


@pytest.mark.parametrize(("case", "damage"), ODD, ids=[f"{case.remark}-{damage}" for case, damage in ODD])
def test_damage_changes_nothing_of_odd_texts_either(case: Case, damage):
    assert read(DAMAGES[damage](case.text)).topology.gpus == read(case.text).topology.gpus


def test_a_row_of_many_columns_wraps_over_many_lines():
    """Also: a cell [N/A] at the beginning of a line is no label of a pod."""
    odd = [f"ecc.errors.made_up.{i}" for i in range(90)]
    header = ", ".join(["timestamp", "driver_version", *odd, "memory.total [MiB]", "name", *odd, "index", "uuid"])
    rows = [
        ", ".join(
            [
                "2025/03/04 10:11:12.123",
                "550.90.07",
                *["[N/A]"] * 90,
                f"{c.memory} MiB",
                c.name,
                *["0 us"] * 90,
                str(c.index),
                c.uuid,
            ]
        )
        for c in MIXED
    ]
    text = "\n".join([header, *rows])
    for damage in ("mail quote", "wrapped at 60", "wrapped at 72", "one line"):
        topology = read(DAMAGES[damage](text)).topology
        assert [(g.nvml_index, g.name, g.uuid, g.memory_mib) for g in topology.gpus] == [
            (c.index, c.name, c.uuid, c.memory) for c in MIXED
        ]


def test_a_repeated_list_keeps_its_mig_devices_where_they_are():
    text = CASES[7].text + "GPU 2: Tesla T4 (UUID: " + U[4] + ")\n"
    assert read(text + text).topology == read(text).topology


@pytest.mark.parametrize("shape", SHAPES, **by_name)
def test_a_cut_text_is_read_as_far_as_it_goes_and_nothing_is_invented(shape):
    text = shape()
    cards = {card.index: card for card in MIXED}
    most = 0
    for end in range(0, len(text), 3):
        try:
            topology = read(text[:end]).topology
        except UnreadableTopology:
            assert most == 0, "a longer text is not refused where a shorter one was read"
            continue
        most = max(most, len(topology.gpus))
        for gpu in topology.gpus:
            fits = [cards[gpu.nvml_index]] if gpu.nvml_index is not None else list(MIXED)
            memories = {c.memory for c in fits} | {c.memory - 250 for c in fits if shape is device_query}
            assert gpu.uuid is None or gpu.uuid in {c.uuid for c in fits}
            assert gpu.pci_bus_id is None or gpu.pci_bus_id in {c.bus for c in fits}
            assert gpu.memory_mib is None or gpu.memory_mib in memories
            shown = (gpu.name or "").removesuffix("...").strip()
            assert any(c.name.startswith(shown) or c.name.removeprefix("NVIDIA ").startswith(shown) for c in fits)
    assert most == len(MIXED)


@pytest.mark.parametrize("damage", ["mail quote", "Windows line ends", "blank lines between", "compose", "colours"])
@pytest.mark.parametrize("shape", [wide_table, listing, csv_with_header, long_report, xml_report, gpustat], **by_name)
def test_origins_are_lines_of_the_users_text(shape, damage):
    text = DAMAGES[damage](shape())
    lines = re.split(r"\r\n|\r|\n", text)
    reading = read(text)
    assert len(reading.origins) == len(reading.topology.gpus)
    for gpu, origin in zip(reading.topology.gpus, reading.origins, strict=True):
        assert {"nvml_index", "name"} <= set(origin)
        for field, shown in (
            ("name", gpu.name),
            ("uuid", gpu.uuid),
            ("pci_bus_id", gpu.pci_bus_id),
            ("memory_mib", gpu.memory_mib),
        ):
            assert (field in origin) == (shown is not None)
            if shown is not None:
                assert str(shown) in lines[origin[field] - 1]


# --- several outputs in one paste ---------------------------------------------------------------


def test_outputs_of_one_machine_complete_each_other():
    topology = read(
        "$ nvidia-smi\n" + narrow_table() + "\n$ nvidia-smi -L\n" + listing() + "\n$ ./deviceQuery\n" + device_query()
    ).topology
    assert [gpu.name for gpu in topology.gpus] == [card.name for card in MIXED], "the full name replaces the cut one"
    assert [gpu.uuid for gpu in topology.gpus] == [card.uuid for card in MIXED]
    assert [gpu.memory_mib for gpu in topology.gpus] == [card.memory for card in MIXED], (
        "nvidia-smi's memory is believed first"
    )
    assert topology.default_order == (1, 0, 2)
    assert topology.source == "nvidia-smi table + nvidia-smi -L + deviceQuery"


@pytest.mark.parametrize("first", SHAPES, **by_name)
@pytest.mark.parametrize("second", SHAPES, **by_name)
def test_any_two_shapes_of_one_machine_are_one_machine(first, second):
    topology = read(first() + "\n" + second()).topology
    assert len(topology.gpus) == len(MIXED)
    for gpu, card in zip(sorted(topology.gpus, key=lambda gpu: gpu.nvml_index or 0), MIXED, strict=True):
        if gpu.nvml_index is not None:
            assert gpu.nvml_index == card.index
            assert gpu.uuid in (None, card.uuid)
            assert gpu.pci_bus_id in (None, card.bus)


def test_a_log_of_distinct_models_tells_the_order_without_addresses():
    two = MIXED[:2]
    topology = read(csv_with_header(two) + llama_log(two)).topology
    assert topology.default_order == (1, 0)


def test_a_log_that_cannot_be_told_apart_gives_no_order():
    topology = read(listing() + llama_log()).topology
    assert topology.default_order is None
    assert any("does not tell which GPU is which" in note for note in topology.notes)


def test_settings_behind_a_log_do_not_matter_to_it():
    text = (
        "env=map[CUDA_VISIBLE_DEVICES: ROCR_VISIBLE_DEVICES:]\n"
        + device_query()
        + "Now try: export CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
    )
    assert read(text).topology.default_order == (1, 0, 2)


def test_a_log_under_settings_gives_no_order():
    for setting in (
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=1,0,2",
        'os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"',
    ):
        topology = read(f"$ {setting} ./deviceQuery\n" + device_query()).topology
        assert topology.default_order is None
        assert any(setting.split("=")[0].split('"')[-1].strip(']" ') in note for note in topology.notes)


def test_lspci_names_boards_that_nvidia_smi_does_not_list():
    topology = read(wide_table(MIXED[:2]) + lspci()).topology
    assert len(topology.gpus) == 2
    assert any("lspci shows 1 more" in note for note in topology.notes)


# --- several machines ---------------------------------------------------------------------------


OTHER = tuple(card._replace(uuid=card.uuid[:-4] + "ffff", bus=card.bus.replace("0000:", "0000:", 1)) for card in MIXED)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (listing() + listing(OTHER), 2),
        (listing() + "\n\n" + csv_with_header(OTHER), 2),
        ("".join(f"GPU 0: Tesla T4 (UUID: {uuid})\n" for uuid in U[:5]), 5),
        (wide_table() + wide_table(EIGHT), 2),
        (
            "node01: "
            + listing().replace("\n", "\nnode01: ")
            + "\nnode02: "
            + listing(OTHER).replace("\n", "\nnode02: "),
            2,
        ),
        ("a@node1:~$ nvidia-smi\n" + wide_table() + "a@node2:~$ nvidia-smi\n" + wide_table(), 2),
        ("node1 | CHANGED | rc=0 >>\n" + wide_table() + "node2 | CHANGED | rc=0 >>\n" + wide_table(), 2),
        ("==> node1 <==\n" + narrow_table() + "==> node2 <==\n" + narrow_table(), 2),
        (gpustat() + gpustat().replace("box17", "box18"), 2),
        (listing() + llama_log(EIGHT), 2),
        (listing(MIXED) + f"$ docker exec c1 nvidia-smi -L\nGPU 0: {MIXED[2].name} (UUID: {MIXED[2].uuid})\n", 2),
    ],
    ids=[
        "lists",
        "list and CSV",
        "tasks",
        "tables",
        "pdsh",
        "prompts",
        "ansible",
        "tail",
        "gpustat",
        "log",
        "container",
    ],
)
def test_several_machines_are_counted_and_refused(text, count):
    message = refusal(text)
    assert f"{count} machines" in message
    assert "one of them at a time" in message


def test_one_machine_under_two_labels_is_one():
    text = (
        "trainer_1  | "
        + listing().replace("\n", "\ntrainer_1  | ")
        + "\nserver_1  | "
        + listing().replace("\n", "\nserver_1  | ")
    )
    assert len(read(text).topology.gpus) == 3


def test_container_prompt_is_no_other_machine():
    text = "alice@box17:~$ nvidia-smi\n" + wide_table() + "root@3f2a9c01bd44:/workspace# nvidia-smi -L\n" + listing()
    assert [gpu.uuid for gpu in read(text).topology.gpus] == [card.uuid for card in MIXED]


# --- refusals -----------------------------------------------------------------------------------


PROCESSES = """\
+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     20411      C   /opt/conda/bin/python                       1201MiB |
|    3     20412      C   /opt/conda/bin/python                        911MiB |
+-----------------------------------------------------------------------------+
"""
PMON = """\
# gpu         pid   type     sm    mem    enc    dec    command
# Idx           #    C/G      %      %      %      %    name
    1       5512     C     99     10      -      -    python
"""
DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0     43     48      -      1      0      0      0    405    300
"""
REFUSED = [
    ("", "empty"),
    ("  \n\t\n", "empty"),
    ("\x1b[0m\ufeff", "empty"),
    ("hello, my GPU is slow", "no list of GPUs"),
    ("I have 2x RTX 3090, 24 GB each, and Ubuntu 22.04", "no list of GPUs"),
    ("$ nvidia-smi", "not what it printed"),
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ...",
        "did not reach the driver",
    ),
    ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183", "different versions"),
    ("Failed to initialize NVML: Unknown Error", "NVML did not start"),
    ("Failed to initialize NVML: Insufficient Permissions", "may not open"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "library that nvidia-smi needs"),
    ("No devices were found", "found no GPU"),
    ("bash: nvidia-smi: command not found", "not installed"),
    (
        "'nvidia-smi' is not recognized as an internal or external command,\noperable program or batch file.",
        "not installed",
    ),
    (
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "not started with GPUs",
    ),
    ("RuntimeError: No CUDA GPUs are available", "error message"),
    ("GPU models and configuration: Could not collect\nNvidia driver version: Could not collect", "could not ask"),
    (PROCESSES, "list of processes"),
    (
        PMON,
        "It names GPU 1.",
    ),
    (f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{U[0]}, 4711, python, 812 MiB\n", "list of processes"),
    (f"{U[0]}, 4711, /usr/bin/python3, 812 MiB\n{U[1]}, 4712, /usr/bin/python3, 812 MiB\n", "no list of GPUs"),
    (
        DMON,
        "dmon",
    ),
    (
        "NVIDIA-SMI version  : 550.90.07\nNVML version        : 550.90\nDRIVER version      : 550.90.07\nCUDA Version        : 12.4\n",
        "versions only",
    ),
    ("nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131", "compiler"),
    (wide_table()[:520], "no row of a GPU"),
    (long_report()[:200], "cut before its first GPU"),
    (xml_report()[:150], "cut before its first GPU"),
    ("======= ROCm System Management Interface =======\nGPU[0] : Card series: AMD Instinct MI210", "AMD"),
    (
        "[ 4211.0] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "00000000:41:00.0",
    ),
    (
        "[  9.1] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x26:0x65:1474)",
        "00000000:0A:00.0 (RmInitAdapter failed)",
    ),
    ("Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error", "00000000:5E:00.0 (Unknown Error)"),
    ('{"some": "json"}', "JSON"),
    (
        '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]><nvidia_smi_log><gpu id="00000000:01:00.0"><uuid>&a;</uuid></gpu></nvidia_smi_log>',
        "entities",
    ),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refusals_have_a_reason(text, reason):
    assert reason in refusal(text)


def test_the_usual_document_type_is_accepted():
    assert len(read(xml_report()).topology.gpus) == 3


def test_what_is_too_long_is_refused():
    assert "2 MB" in refusal("x" * (2 * 1024 * 1024 + 1))
    assert "2 MB" in refusal("é" * (1024 * 1024 + 1)), "bytes count, not characters"
    assert "lines" in refusal("x\n" * 500_000)
    assert read(listing() + "x" * (2 * 1024 * 1024 - 1000)).topology.gpus


def test_what_is_no_text_is_refused():
    for value in (None, b"GPU 0: Tesla T4", 17, ["GPU 0"]):
        with pytest.raises(UnreadableTopology):
            read(value)


def test_contradictions_of_one_text_are_refused():
    twice = "index, name, pci.bus_id\n0, Tesla T4, 00000000:3B:00.0\n1, Tesla T4, 00000000:3B:00.0\n"
    refusal(twice.replace("index, name", "index, name"))


# --- notes and problems -------------------------------------------------------------------------


def test_what_is_missing_is_named_with_the_command_that_shows_it():
    notes = read(wide_table()).notes
    assert "No UUIDs: run `nvidia-smi -L` and paste that too." in notes
    assert read(listing()).notes[0].startswith("No PCI addresses: run `nvidia-smi --query-gpu=")
    assert not read(csv_with_header()).notes
    assert any("CUDA ordinals" in note for note in read(device_query()).notes)
    assert any("`nvidia-smi -L` prints it in full" in note for note in read(narrow_table()).notes)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("GPU 2: Tesla T4 (UUID: " + U[0] + ")", "GPU 0 and 1 is missing"),
        (long_report().replace(": 3\n", ": 4\n", 1), "there are 4 GPUs and describes 3"),
        (wide_table()[: wide_table().index("GeForce") + 9], "ends inside the row"),
        (csv_with_header()[:-45], "is cut"),
        (wide_table(MIXED[:2]).replace("|    1   N/A  N/A", "|    5   N/A  N/A"), "The processes name GPU 5"),
        ("NVRM: Xid (PCI:0000:99:00): 79, x\n" + wide_table(), "is in no list"),
        (lspci(), "order of the PCI addresses"),
        (wide_table(MIXED[:1]).replace("15360", " 2048"), "a limit is set"),
        (wide_table(MIXED[:1]).replace("Tesla T4   ", "GRID T4-4Q "), "is a vGPU"),
        (listing() + f"\nCUDA_VISIBLE_DEVICES={U[7]}\n", U[7]),
    ],
    ids=["numbers", "announced", "row", "CSV", "processes", "failure", "lspci", "limit", "vGPU", "UUID"],
)
def test_notes(text, note):
    assert any(note in said for said in read(text).notes), read(text).notes


def test_a_gpu_without_a_handle_is_the_gap_in_the_table():
    """nvidia-smi prints the message first and leaves the GPU out; newer ones print its number too."""
    cards = (MIXED[0], MIXED[2])
    for message in ("GPU1: 0000:5E:00.0: Unknown Error", "GPU0000:5E:00.0: Unknown Error", "GPU 1: Unknown Error"):
        text = f"Unable to determine the device handle for {message}\n" + wide_table(cards, process=False)
        gpus = read(text).topology.gpus
        assert [gpu.nvml_index for gpu in gpus] == [0, 1, 2]
        assert gpus[1].pci_bus_id == ("00000000:5E:00.0" if "5E" in message else None)
        assert [gpu.problem is None for gpu in gpus] == [True, False, True]


def test_a_gpu_that_failed_after_the_list_has_a_problem():
    line = "NVRM: Xid (PCI:0000:5E:00): 79, pid=1, GPU has fallen off the bus.\n"
    gpus = read(wide_table() + line).topology.gpus
    assert [gpu.problem is not None for gpu in gpus] == [False, True, False]
    assert all(gpu.problem is None for gpu in read(line + wide_table()).topology.gpus), (
        "the machine was restarted since"
    )
    assert read(ERR_ROW).topology.usable == (0,)


# --- completing a machine from a second paste ----------------------------------------------------


def test_merge_fills_what_was_unknown():
    merged = merge(read_topology(narrow_table()), read_topology(listing()))
    assert [(g.name, g.uuid, g.pci_bus_id) for g in merged.gpus] == [(c.name, c.uuid, c.bus) for c in MIXED]
    assert not any(note.startswith("No UUID") for note in merged.notes)
    assert merged.driver_version == "384.111"


def test_merge_keeps_the_order_that_was_seen():
    for first, second in ((wide_table, device_query), (device_query, wide_table)):
        merged = merge(read_topology(first()), read_topology(second()))
        assert [gpu.nvml_index for gpu in merged.gpus] == [0, 1, 2]
        assert merged.default_order == (1, 0, 2)
        assert not merged.default_order_measured


def test_merge_with_mig_devices():
    merged = merge(read_topology(MIG_TABLE), read_topology(CASES[7].text))
    assert migs(merged.gpus[0]) == migs(read_topology(MIG_TABLE + CASES[7].text).gpus[0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (listing(), listing(OTHER)),
        (wide_table(), wide_table(EIGHT)),
        (listing(MIXED[:1]), listing(MIXED[1:])),
        (torch_loop(), listing(OTHER)),
    ],
)
def test_merge_refuses_another_machine(first, second):
    with pytest.raises(UnreadableTopology, match="another machine"):
        merge(read_topology(first), read_topology(second))


@pytest.mark.parametrize("shape", SHAPES, **by_name)
def test_merge_with_itself_changes_nothing(shape):
    topology = read_topology(shape())
    merged = merge(topology, topology)
    assert merged == topology


# --- nothing but UnreadableTopology, in linear time ----------------------------------------------


TOKENS = (
    "|", "+--", "GPU 0:", "\n", " ", "MIG", "GPU-", "0", "00000000:01:00.0", "[", "]", "<gpu>", "&#0;", "&#x110000;", "\x00", "\ud800",
    "9" * 30, "²", "٣", "İ", "MiB", "/", ":", "nvidia", "Device 0: ", "index, name", "--query-gpu=", "\\n", "{", '"', "On", "cuda:0 ",
    "UUID: ", "(", "\u2028", "=3D", "1e400", "99999999999999999999 MiB", 'Device 0: "Tesla T4"', "MIG 1g.5gb Device 0: ", "\x1b[",
    "CUDA_VISIBLE_DEVICES=", "NVRM: Xid (PCI:0000:3B:00): 79", "GPU 999:", "</gpu>", 'msg="inference compute"', "Processes:",
)  # fmt: skip


def mutants(count: int) -> Iterator[str]:
    rng = random.Random(20250304)
    seeds = (
        [shape() for shape in SHAPES] + [case.text for case in (*CASES, *CUDA_CASES)] + [text for text, _ in REFUSED]
    )
    damages = list(DAMAGES.values())
    for _ in range(count):
        text = rng.choice(seeds)
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(text) + 1)
            end = min(len(text), at + rng.randint(1, rng.choice([3, 30, 300])))
            kind = rng.randrange(8)
            if kind == 0:
                text = text[:at] + text[end:]
            elif kind == 1:
                text = text[:at] + rng.choice(TOKENS) + text[at:]
            elif kind == 2:
                text = text[:at] + text[at:end] * rng.randint(2, 4) + text[end:]
            elif kind == 3:
                text = text[:at] if rng.random() < 0.5 else text[at:]
            elif kind == 4:
                text = text[:at] + "".join(rng.sample(text[at:end], end - at)) + text[end:]
            elif kind == 5:
                text = rng.choice(damages)(text)
            elif kind == 6:
                text += rng.choice(seeds)
            else:
                other = rng.choice(seeds)
                begin = rng.randrange(len(other) + 1)
                text = text[:at] + other[begin : begin + 300] + text[at:]
            text = text[:200_000]
        yield text


def reason_or_reading(text: str) -> str | Reading:
    try:
        return read(text)
    except UnreadableTopology as error:
        return error.message


def test_mutants_raise_nothing_else():
    read_well = 0
    for text in mutants(100_000 if SOAK else 2_500):
        told = reason_or_reading(text)
        assert told
        if isinstance(told, Reading):
            read_well += 1
            assert told.topology.gpus
            assert len(told.origins) == len(told.topology.gpus)
    assert read_well > 300, "most mutants should still be readable, or they test nothing"


def steps(text: str) -> int:
    """Calls that reading a text takes, of Python functions and of those in C."""
    count = 0

    def hook(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hook)
    try:
        read(text)
    except UnreadableTopology:
        pass
    finally:
        sys.setprofile(None)
    return count


def looped(block: str):
    return lambda size: (block * (size // len(block) + 1))[:size]


PATHOLOGICAL = {
    "bars": looped("|"),
    "letters": looped("a"),
    "commas": looped("0,"),
    "tags": looped("<gpu>"),
    "table, looped": looped(wide_table(EIGHT)),
    "table on one line": looped(wide_table(EIGHT).replace("\n", " ")),
    "list, looped": looped(listing(EIGHT)),
    "as many machines": lambda size: "".join(
        f"GPU 0: Tesla T4 (UUID: GPU-{i:08x}{U[0][12:]})\n" for i in range(size // 64)
    ),
    "as many GPUs": lambda size: "".join(
        f"GPU {i}: Tesla T4 (UUID: GPU-{i:08x}{U[0][12:]})\n" for i in range(size // 64)
    ),
    "CSV": lambda size: "index, name\n" + looped("0, Tesla T4\n1, Tesla T4\n")(size),
    "CSV on one line": lambda size: "index, name, uuid " + looped(f"0, Tesla T4, {U[0]} ")(size),
    "headers": looped("index, name, pci.bus_id\n"),
    "open rows": lambda size: "index, name, uuid\n" + looped("0, Tesla T4,\n")(size),
    "report": looped(long_report(EIGHT)),
    "XML": looped(xml_report(EIGHT)),
    "MIG": lambda size: (
        listing(EIGHT) + looped("  MIG 1g.5gb      Device  0: (UUID: " + U[0].replace("GPU", "MIG") + ")\n")(size)
    ),
    "hosts": lambda size: "".join(f"node{i}: GPU 0: Tesla T4\n" for i in range(size // 24)),
    "devices": looped("Device 0: Tesla T4, "),
    "backslashes": looped(" \\\n"),
    "unfinished UUIDs": looped("GPU-a\n"),
    "escapes": looped("\\n "),
    "br": looped("<br>"),
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_work_grows_with_the_length_only(name):
    make = PATHOLOGICAL[name]
    small, large = steps(make(20_000)), steps(make(80_000))
    assert large < 6 * small + 2000, "four times the text takes about four times the steps"


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for module in [m for name, m in sys.modules.items() if name.startswith(pasted.__name__ + ".")]:
        for name, value in vars(module).items():
            found = (
                value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
            )
            for item in found:
                for part in item if isinstance(item, tuple) else [item]:
                    for pattern in part if isinstance(part, tuple) else [part]:
                        if isinstance(pattern, re.Pattern):
                            yield f"{module.__name__}.{name}", pattern


def test_no_pattern_can_explode():
    """No repetition without a bound holds another repetition, so no text makes a match take more than linear time."""

    def repeats(tree, inside: bool) -> Iterator[bool]:
        for operation, argument in tree:
            if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
                _, most, body = argument
                endless = most == _constants.MAXREPEAT
                yield inside and most > 1
                yield from repeats(body, inside or endless)
            elif operation is _constants.BRANCH:
                for branch in argument[1]:
                    yield from repeats(branch, inside)
            elif operation is _constants.SUBPATTERN:
                yield from repeats(argument[3], inside)
            elif operation in (_constants.ASSERT, _constants.ASSERT_NOT):
                yield from repeats(argument[1], inside)

    found = dict(patterns())
    assert len(found) > 60
    for name, pattern in patterns():
        assert not any(repeats(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE), False)), name


def test_the_readers_import_little():
    allowed = {"errors", "identity", "topology", "catalog"}
    for path in Path(pasted.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 3:
                assert node.module in allowed, path.name
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module.split(".")[0] in sys.stdlib_module_names
            elif isinstance(node, ast.Import):
                assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
