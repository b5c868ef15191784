"""Capsules: there and back, hostile files, masks that can be joined, and what drifted between two."""

from __future__ import annotations

import copy
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets import texts
from gpumap_widgets.errors import GpumapError, NoDriver, UnreadableTopology
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.sources.capsule import (
    DRIFTS,
    LIMIT,
    Capsule,
    CapsuleProcess,
    Drift,
    drift,
    drift_rows,
    drifting,
    is_capsule,
    masking,
    reading,
    scenario_of,
    take,
    taking,
    value,
)
from gpumap_widgets.texts import sentences
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import MIXED, SLICES, SOAK, UUIDS, equal, split

TAKEN = "2026-03-01T12:00:00+01:00"
FULL = Capsule(
    replace(MIXED, default_order=(1, 0, 2, 3), default_order_measured=True, notes=("a note",)),
    {
        "CUDA_VISIBLE_DEVICES": "GPU-a0e1,1",
        "SLURM_JOB_ID": "77",
        "CUDA_HOME": "/home/alice/cuda",
        "MASTER_ADDR": "box.lan",
    },
    TAKEN,
    "box.lan",
    "alice",
    {"python": "3.12.1", "torch": "2.9.0+cu130", "cuda": "13.0", "driver": "535.104.05"},
    {MIXED.gpus[0].uuid or "": "slot 3, left"},
    (CapsuleProcess(4711, MIXED.gpus[1].uuid, None, 1, 512), CapsuleProcess(1)),
)

# ---- there and back ----

KEPT = {
    "everything": FULL,
    "only a machine": Capsule(MIXED),
    "no machine": Capsule(Topology()),
    "no variable was set": Capsule(MIXED, {}),
    "no process was there": Capsule(MIXED, processes=()),
    "MIG": Capsule(split(), {"CUDA_VISIBLE_DEVICES": SLICES[0]}),
    "unknown everything": Capsule(Topology((Gpu(),), platform="wsl")),
    "a GPU that is lost": Capsule(replace(MIXED, gpus=(Gpu(0, problem="lost: “x”\n"),), simulated=True)),
    "bytes that are no text": Capsule(MIXED, {"CUDA_VISIBLE_DEVICES": "\udcff,0\x00", "CUDA_X": "é中"}, user="李"),
    "forty": Capsule(equal(40)),
}


@pytest.mark.parametrize("name", KEPT)
def test_there_and_back(name: str) -> None:
    capsule = KEPT[name]
    text = capsule.to_json()
    back = Capsule.from_json(text)
    assert back == capsule
    assert hash(back) == hash(capsule)
    assert back.topology.notes == capsule.topology.notes
    assert (back.topology.source, back.topology.simulated) == (capsule.topology.source, capsule.topology.simulated)
    assert text.isascii(), "a file that any shell can write and any editor read"
    assert is_capsule(text)


GOLDEN = """{"gpumap_capsule": 1, "taken": "2026-03-01T12:00:00+01:00", "host": "box", "user": "alice",
 "versions": {"python": "3.11.7", "driver": "575.57.08"}, "env": {"CUDA_VISIBLE_DEVICES": "0"},
 "labels": {"GPU-3f8a1c27-51d0-4b6e-9a02-c7d4e8f10b35": "left"},
 "topology": {"gpus": [{"nvml_index": 0, "name": "NVIDIA A100-SXM4-40GB", "pci_bus_id": "00000000:07:00.0",
   "uuid": "GPU-3f8a1c27-51d0-4b6e-9a02-c7d4e8f10b35", "memory_mib": 40960, "compute_capability": [8, 0],
   "sm_count": 108, "minor_number": 0, "numa_node": 0, "mig_mode": true,
   "mig_instances": [{"uuid": "MIG-6c1f0a52-7e3d-5b84-9c06-a1d2e3f40b57", "profile": "3g.20gb",
     "gpu_instance_id": 9, "compute_instance_id": 0, "memory_mib": 19968, "mig_index": 0}]}],
  "driver_version": "575.57.08", "platform": "linux", "source": "NVML on this machine", "default_order": [0],
  "default_order_measured": true, "notes": ["n"]},
 "processes": [{"pid": 12, "gpu": "GPU-3f8a1c27-51d0-4b6e-9a02-c7d4e8f10b35", "nvml_index": 0, "memory_mib": 3}]}"""
"""A file as version 1 wrote it. Never to be changed: it must stay readable."""


@pytest.mark.parametrize(
    "text",
    [
        GOLDEN,
        "\ufeff" + GOLDEN,
        f"```json\n{GOLDEN}\n```",
        f"$ python -m gpumap_widgets capsule\n{GOLDEN}\n$ ",
        GOLDEN.replace("\n", "\r\n"),
        GOLDEN.replace('"taken"', '"of a later release": {"x": [1.5, null]}, "taken"'),
        json.dumps(json.loads(GOLDEN), sort_keys=True),
    ],
)
def test_version_1_stays_readable(text: str) -> None:
    capsule = Capsule.from_json(text)
    assert is_capsule(text)
    assert capsule.topology.gpus == (
        Gpu(
            0, "NVIDIA A100-SXM4-40GB", UUIDS[0], "07:00.0", 40960, (8, 0), 108, 0, 0, True,
            (MigInstance(SLICES[0], "3g.20gb", 9, 0, 19968, 0),),
        ),
    )  # fmt: skip
    assert (capsule.host, capsule.user, capsule.taken) == ("box", "alice", TAKEN)
    assert capsule.labels == {UUIDS[0]: "left"}
    assert capsule.processes == (CapsuleProcess(12, UUIDS[0], None, 0, 3),)


def test_an_old_version_is_brought_to_the_present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SCHEMA", 3)
    monkeypatch.setattr(value, "SCHEMA", 3)
    steps = {
        1: lambda data: {**data, "hostname": data["host"]},
        2: lambda data: {**data, "host": data["hostname"] + "!"},
    }
    monkeypatch.setattr(reading, "MIGRATIONS", steps)
    assert Capsule.from_json(GOLDEN).host == "box!"
    assert Capsule.from_json(GOLDEN.replace('capsule": 1', 'capsule": 2').replace("host", "hostname")).host == "box!"
    assert '"gpumap_capsule": 3' in FULL.to_json()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("CUDA_VISIBLE_DEVICES", True),
        ("CUDA_DEVICE_ORDER", True),
        ("NVIDIA_VISIBLE_DEVICES", True),
        ("SLURM_JOB_GPUS", True),
        ("LOCAL_RANK", True),
        ("PATH", False),
        ("HOME", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("HF_TOKEN", False),
        ("NVIDIA_API_KEY", False),
        ("NVIDIA_NGC_TOKEN", False),
        ("SLURM_JWT", False),
        ("SLURM_PASSWORD", False),
        ("PMIX_AUTH", False),
        ("cuda_visible_devices", False),
    ],
)
def test_only_what_touches_the_numbering_is_kept_and_no_secret(name: str, kept: bool) -> None:
    assert (Capsule(MIXED, {name: "hush"}).env == {name: "hush"}) is kept
    text = json.dumps({"gpumap_capsule": 1, "topology": {"gpus": []}, "env": {name: "hush"}})
    assert ("hush" in Capsule.from_json(text).to_json()) is kept


def test_a_capsule_is_a_machine_and_a_scenario() -> None:
    assert scenario_of(FULL) == Scenario.from_env(FULL.topology, FULL.env or {})
    assert scenario_of(FULL).visible_devices == "GPU-a0e1,1"
    assert scenario_of(Capsule(MIXED)).visible_devices is None
    assert resolve(scenario_of(Capsule(MIXED, {"CUDA_VISIBLE_DEVICES": ""}))).nvml_indices == ()


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (GOLDEN, True),
        ('{"gpumap_capsule": "odd"}', True),
        ('{"gpumap_capsule"', True),
        ('{"gpumap_scenario": 1}', False),
        ("", False),
        ("GPU 0: Tesla T4 (UUID: GPU-a0e15e00-0000-4000-8000-000000000000)", False),
        ('"gpumap_capsule"', False),
        ("python -m gpumap_widgets capsule", False),
        ("{" * 100, False),
    ],
)
def test_a_capsule_is_told_from_other_text(text: str, is_one: bool) -> None:
    assert is_capsule(text) is is_one


def test_telling_it_is_quick() -> None:
    long = "{" + "x" * LIMIT
    start = time.perf_counter()
    assert not is_capsule(long)
    assert time.perf_counter() - start < 0.1


# ---- hostile and broken files ----


def capsule_json(**changes: Any) -> str:
    return json.dumps({"gpumap_capsule": 1, "topology": {"gpus": [{"name": "Tesla T4"}]}} | changes)


def gpu_json(**fields: Any) -> str:
    return capsule_json(topology={"gpus": [fields]})


class Bad(NamedTuple):
    text: str
    says: str


BAD = {
    "nothing": Bad("", "damaged"),
    "no JSON": Bad("nvidia-smi", "damaged"),
    "cut": Bad(GOLDEN[:300], "damaged"),
    "a list": Bad('[{"gpumap_capsule": 1}, 2]', "damaged|topology is missing"),
    "another object": Bad('{"gpus": []}', "no capsule"),
    "a scenario": Bad(Scenario(MIXED).to_json(), "no capsule"),
    "version as text": Bad(capsule_json(gpumap_capsule="1"), "no capsule"),
    "version as flag": Bad(capsule_json(gpumap_capsule=True), "no capsule"),
    "version 0": Bad(capsule_json(gpumap_capsule=0), "no capsule"),
    "version 1.0": Bad(capsule_json(gpumap_capsule=1.0), "no capsule"),
    "a newer version": Bad(capsule_json(gpumap_capsule=2), "version 2 .* Update gpumap_widgets"),
    "a much newer version": Bad(capsule_json(gpumap_capsule=10**4000), "version 1000+…"),
    "no machine": Bad('{"gpumap_capsule": 1}', "topology is missing"),
    "machine is a list": Bad(capsule_json(topology=[]), "topology is a list, but must be an object"),
    "no GPUs": Bad(capsule_json(topology={}), r"topology\.gpus is null, but must be a list"),
    "GPUs by name": Bad(capsule_json(topology={"gpus": {"0": {}}}), "topology.gpus is an object"),
    "a GPU that is a text": Bad(capsule_json(topology={"gpus": ["T4"]}), r"topology\.gpus\[0\] is the text “T4”"),
    "too many GPUs": Bad(capsule_json(topology={"gpus": [{}] * 1025}), "at most 1024 entries"),
    "NaN": Bad('{"gpumap_capsule": 1, "x": NaN}', "NaN is no number"),
    "Infinity": Bad('{"gpumap_capsule": 1, "x": -Infinity}', "Infinity is no number"),
    "twice": Bad('{"gpumap_capsule": 1, "env": {"A": "1", "A": "2"}}', "“A” stands in it twice"),
    "twice below": Bad('{"gpumap_capsule": 1, "gpumap_capsule": 1}', "“gpumap_capsule” stands in it twice"),
    "deep lists": Bad('{"gpumap_capsule": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "too deeply|damaged"),
    "deep objects": Bad('{"gpumap_capsule":' * 50_000 + "1" + "}" * 50_000, "too deeply|damaged"),
    "a number without end": Bad(gpu_json(memory_mib=1).replace(": 1}", ": " + "9" * 100_000 + "}"), "damaged"),
    "a long number": Bad(gpu_json(memory_mib=10**4000), "is 1000+…, but must be a whole number"),
    "negative memory": Bad(gpu_json(memory_mib=-1), r"gpus\[0\]\.memory_mib is -1, but must be a whole number from 0"),
    "memory as text": Bad(gpu_json(memory_mib="15360"), "memory_mib is the text “15360”"),
    "memory as fraction": Bad(gpu_json(memory_mib=1.5), "memory_mib is 1.5"),
    "memory beyond floats": Bad(gpu_json(memory_mib=1).replace(": 1}", ": 1e999}"), "memory_mib is Infinity"),
    "a number that is a flag": Bad(gpu_json(nvml_index=True), "nvml_index is true"),
    "a flag that is a number": Bad(gpu_json(mig_mode=1), "mig_mode is 1, but must be true or false"),
    "a name that is a list": Bad(gpu_json(name=["T4"]), "name is a list"),
    "a long name": Bad(gpu_json(name="T" * 300), "name is the text “T+…”, but must be a text of at most 256"),
    "a name that moves the cursor": Bad(gpu_json(name=5, **{"\x1b[2J": 1}), "name is 5"),
    "no address": Bad(gpu_json(pci_bus_id="slot 3"), "is not a PCI address"),
    "capability of three": Bad(gpu_json(compute_capability=[8, 9, 0]), "compute_capability is a list"),
    "capability of one": Bad(gpu_json(compute_capability=[8]), "two whole numbers"),
    "capability as text": Bad(gpu_json(compute_capability="89"), "compute_capability is the text"),
    "capability of texts": Bad(gpu_json(compute_capability=["8", "9"]), r"compute_capability\[0\] is the text"),
    "an instance that is none": Bad(gpu_json(mig_instances=[5]), r"mig_instances\[0\] is 5"),
    "an instance without number": Bad(
        gpu_json(mig_instances=[{"gpu_instance_id": "9"}]), "gpu_instance_id is the text"
    ),
    "instances as text": Bad(gpu_json(mig_instances="MIG-"), "mig_instances is the text"),
    "unknown platform": Bad(capsule_json(topology={"gpus": [], "platform": "amiga"}), "platform"),
    "platform as list": Bad(capsule_json(topology={"gpus": [], "platform": ["linux"]}), "platform is a list"),
    "order of others": Bad(capsule_json(topology={"gpus": [{}], "default_order": [1]}), r"default_order\[0\] is 1"),
    "order of fractions": Bad(
        capsule_json(topology={"gpus": [{}], "default_order": [0.0]}), r"default_order\[0\] is 0.0"
    ),
    "order of null": Bad(capsule_json(topology={"gpus": [{}], "default_order": [None]}), r"default_order\[0\] is null"),
    "order twice": Bad(capsule_json(topology={"gpus": [{}, {}], "default_order": [0, 0]}), "distinct positions"),
    "order too long": Bad(capsule_json(topology={"gpus": [{}], "default_order": [0, 0]}), "at most 1 entries"),
    "notes as text": Bad(capsule_json(topology={"gpus": [], "notes": "hello"}), "notes is the text"),
    "notes of numbers": Bad(capsule_json(topology={"gpus": [], "notes": [1]}), r"notes\[0\] is 1"),
    "one UUID twice": Bad(capsule_json(topology={"gpus": [{"uuid": "GPU-1"}, {"uuid": "GPU-1"}]}), "occurs twice"),
    "one number twice": Bad(capsule_json(topology={"gpus": [{"nvml_index": 1}, {"nvml_index": 1}]}), "occurs twice"),
    "variables as list": Bad(capsule_json(env=["CUDA_VISIBLE_DEVICES=0"]), "env is a list"),
    "a variable as number": Bad(capsule_json(env={"CUDA_VISIBLE_DEVICES": 0}), "env.CUDA_VISIBLE_DEVICES is 0"),
    "a variable that is null": Bad(capsule_json(env={"CUDA_VISIBLE_DEVICES": None}), "is null"),
    "many variables": Bad(capsule_json(env={f"CUDA_{i}": "" for i in range(5000)}), "env is an object"),
    "versions as text": Bad(capsule_json(versions="2.9"), "versions is the text"),
    "a version as number": Bad(capsule_json(versions={"torch": 2.9}), "versions.torch is 2.9"),
    "labels of lists": Bad(capsule_json(labels={"GPU-1": []}), "labels.GPU-1 is a list"),
    "host as number": Bad(capsule_json(host=5), "host is 5"),
    "no time": Bad(capsule_json(taken="yesterday"), "taken is the text “yesterday”, but must be an ISO time"),
    "a time without zone": Bad(capsule_json(taken="2026-03-01T12:00:00"), "ISO time with its zone"),
    "processes by name": Bad(capsule_json(processes={}), "processes is an object"),
    "a process without number": Bad(capsule_json(processes=[{"memory_mib": 3}]), r"processes\[0\]\.pid is missing"),
    "a process of text": Bad(capsule_json(processes=[{"pid": 1}, {"pid": "2"}]), r"processes\[1\]\.pid is the text"),
    "too long": Bad(capsule_json(host="x" * LIMIT), "longer than 2 MB"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_that_says_why(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UnreadableTopology, match=BAD[name].says) as caught:
        Capsule.from_json(BAD[name].text)
    assert time.perf_counter() - start < 2
    assert len(str(caught.value)) < 600
    assert caught.value.message.isprintable()


def test_two_megabytes_of_anything_take_no_time() -> None:
    size = LIMIT - 200
    hostile = (
        "{" * size,
        '{"gpumap_capsule": 1, "topology": {"gpus": [' + "{}," * (size // 3) + "{}]}}",
        '{"gpumap_capsule": 1, "env": {"CUDA_VISIBLE_DEVICES": "' + "f" * size + '"}, "topology": {"gpus": []}}',
        '{"gpumap_capsule": 1, "x": [' + "1e9," * (size // 4) + "1]}",
        '{"gpumap_capsule": 1, "x": "' + "\\u0000" * (size // 6) + '"}',
        '{"gpumap_capsule": 1, "x": {' + ",".join(f'"{i}":{i}' for i in range(size // 20)) + "}}",
    )
    for text in hostile:
        start = time.perf_counter()
        with pytest.raises(UnreadableTopology):
            Capsule.from_json(text)
        assert time.perf_counter() - start < 2, text[:80]


# ---- mutations ----

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.0, 1.5, 1e308, "", "x", "GPU-", "\x00", "\udcff", "9" * 400),
    *([], {}, [[]], [None], {"": None}, {"gpus": []}, [1, 2, 3], "00000000:5E:00.0", "MIG-1", UUIDS[0]),
)
SOURCES = [json.loads(text) for text in (GOLDEN, FULL.to_json(), KEPT["MIG"].to_json(), FULL.masked("s").to_json())]


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in plain data, as container and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield value, key
        yield from nodes(child)


def mutated(rng: random.Random) -> str:
    data = copy.deepcopy(rng.choice(SOURCES))
    for _ in range(rng.randint(1, 3)):
        container, key = rng.choice(list(nodes(data)))
        kind = rng.randrange(4)
        if kind == 0 and isinstance(container, dict):
            del container[key]
        elif kind == 1 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif kind == 2 and isinstance(container, dict):
            container[str(rng.choice(ODD))[:40]] = container[key]
        else:
            container[key] = copy.deepcopy(rng.choice(ODD))
    text = json.dumps(data)
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        at = rng.randrange(len(text))
        text = (
            text[:at] + rng.choice(("", "{", "]", '"', ",", "9", "e", "\\", "\x00", "null", text[:50])) + text[at + 1 :]
        )
    return text


def test_mutated_files_are_read_or_refused() -> None:
    rng = random.Random(4)
    read = 0
    for _ in range(100_000 if SOAK else 3000):
        text = mutated(rng)
        is_capsule(text)
        try:
            capsule = Capsule.from_json(text)
        except UnreadableTopology:
            continue
        read += 1
        assert Capsule.from_json(capsule.to_json()) == capsule, text
        masked = capsule.masked("salt")
        assert Capsule.from_json(masked.to_json()) == masked, text
        prediction = resolve(scenario_of(capsule))
        assert str(prediction), text
        for other in (FULL, Capsule.from_json(GOLDEN)):
            if capsule.mask is None:
                assert all(str(row.message) for row in (*drift(capsule, other), *drift(other, capsule))), text
    assert read > 300


# ---- masks ----


def test_names_are_gone_and_the_rest_stays() -> None:
    capsule = replace(
        FULL,
        topology=replace(
            FULL.topology,
            gpus=(replace(MIXED.gpus[0], problem=f"lost on box.lan: {MIXED.gpus[0].uuid}."), *MIXED.gpus[1:]),
            notes=(f"box says alice has {MIXED.gpus[1].uuid} and GPU-b1e18600…; GPU-accelerated",),
        ),
        labels={MIXED.gpus[0].uuid or "": "slot 3 of box.lan"},
    )
    text = capsule.masked().to_json()
    for name in ("box", "alice", *(uuid for gpu in MIXED.gpus for uuid in (gpu.uuid, (gpu.uuid or "")[4:12]) if uuid)):
        assert name not in text, name
    for kept in ("00000000:5E:00.0", "Tesla T4", "535.104.05", "slot 3 of host-", "GPU-accelerated", TAKEN, "4711"):
        assert kept in text, kept
    masked = Capsule.from_json(text)
    assert [gpu.pci_bus_id for gpu in masked.topology.gpus] == [gpu.pci_bus_id for gpu in MIXED.gpus]
    first = masked.topology.gpus[0]
    assert first.uuid is not None
    assert first.problem is not None
    assert first.uuid in first.problem
    assert set(masked.labels) == {first.uuid}
    assert masked.processes is not None
    assert masked.processes[0].gpu == masked.topology.gpus[1].uuid
    assert (
        f"{masked.topology.gpus[1].uuid} and {(masked.topology.gpus[1].uuid or '')[:12]}…" in masked.topology.notes[0]
    )


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("CUDA_VISIBLE_DEVICES", "1,2", "1,2"),
        ("CUDA_VISIBLE_DEVICES", "", ""),
        ("CUDA_VISIBLE_DEVICES", "all", "all"),
        ("CUDA_VISIBLE_DEVICES", "0, 1,-1,x", "0, 1,-1,x"),
        ("CUDA_VISIBLE_DEVICES", "GPU-,12345678", "GPU-,12345678"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "PCI_BUS_ID"),
        ("NVIDIA_VISIBLE_DEVICES", "void", "void"),
        ("SLURM_JOB_GPUS", "0,1", "0,1"),
        ("SLURM_TASKS_PER_NODE", "4(x2)", "4(x2)"),
        ("LOCAL_RANK", "3", "3"),
        ("SLURM_JOB_UID", "1000", None),
        ("SLURM_JOB_USER", "alice", "the user"),
        ("SLURMD_NODENAME", "box.lan", None),
        ("MASTER_ADDR", "box.lan", "the host"),
        ("MASTER_ADDR", "192.168.1.17", None),
        ("MASTER_ADDR", "fe80::1", None),
        ("SLURM_SUBMIT_DIR", "/home/alice", None),
        ("CUDA_VISIBLE_DEVICES", "box.lan:0", "the host:0"),
    ],
)
def test_a_variable_in_a_masked_capsule(name: str, value: str, shown: str | None) -> None:
    masked = replace(FULL, env={name: value}).masked("salt")
    found = (masked.env or {}).get(name)
    if shown is None:
        assert found != value
        assert value not in str(masked.to_json())
    else:
        assert found == shown.replace("the host", masked.host or "").replace("the user", masked.user or "")


def test_masks_can_be_joined_by_the_salt_only() -> None:
    moved = replace(MIXED, gpus=MIXED.gpus[2:], default_order=None)
    one, other, stranger = FULL.masked("a"), Capsule(moved, {}, host="box.lan").masked("a"), FULL.masked("b")
    assert one.topology.gpus[2].uuid == other.topology.gpus[0].uuid
    assert (one.host, one.mask) == (other.host, other.mask)
    assert {gpu.uuid for gpu in one.topology.gpus} & {gpu.uuid for gpu in stranger.topology.gpus} == set()
    assert one.host != stranger.host
    assert FULL.masked() != FULL.masked(), "without a salt nobody can repeat it"
    assert FULL.masked("") != FULL.masked(""), "an empty salt is none"
    assert FULL.masked("a") == FULL.masked("a")
    assert one.masked("b") is one
    assert one.host != one.user
    assert (
        Capsule(MIXED, host="same", user="same").masked("a").host
        != Capsule(MIXED, host="same", user="same").masked("a").user
    )


ENTRIES = [
    *(uuid for uuid in UUIDS[:4]),
    *(uuid[:n] for uuid in (*UUIDS[:6], SLICES[0]) for n in (4, 5, 7, 8, 12, 13, 20)),
    *SLICES,
    *(f"MIG-{UUIDS[0]}/{i}/0" for i in (7, 9)),
    *(
        "GPU-3f8",
        "GPU-ffff",
        "GPU-zz",
        "0",
        "1",
        "7",
        "-1",
        "x",
        "",
        " 1",
        f" {UUIDS[1]}",
        f"{UUIDS[1]}0",
        f"{UUIDS[1]}xyz",
    ),
    UUIDS[2].replace("d", "D").replace("e", "E"),
    UUIDS[2].lower(),
]


@given(st.lists(st.sampled_from(ENTRIES), max_size=4), st.sampled_from(["equal", "split"]), st.text(max_size=8))
def test_a_masked_scenario_is_read_like_the_real_one(entries: list[str], kind: str, salt: str) -> None:
    machine = equal(8) if kind == "equal" else split()
    capsule = Capsule(machine, {"CUDA_VISIBLE_DEVICES": ",".join(entries)})
    real, masked = (resolve(scenario_of(one)).processes[0] for one in (capsule, capsule.masked(salt or "salt")))
    assert [(d.ordinal, d.position, d.certainty) for d in masked.devices] == [
        (d.ordinal, d.position, d.certainty) for d in real.devices
    ]
    assert masked.certainty is real.certainty
    assert [token.rule for token in masked.reading.tokens] == [token.rule for token in real.reading.tokens]


@given(
    st.text("0123456789abcdef", min_size=1, max_size=32),
    st.text("0123456789abcdef", min_size=1, max_size=32),
    st.integers(0, 32),
)
def test_masks_share_as_much_as_the_names_do(one: str, other: str, common: int) -> None:
    a, b = (masking.Mask("salt", None, None).uuid(f"GPU-{text}") for text in (one, one[:common] + other))
    shared = [len(x) for x in (_head(one, one[:common] + other), _head(a.removeprefix("GPU-"), b.removeprefix("GPU-")))]
    assert shared[0] == shared[1]
    assert len(a) == len(one) + 4


def _head(one: str, other: str) -> str:
    n = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:n]


# ---- labels ----


@pytest.mark.parametrize(
    ("key", "position"),
    [
        ("0", 0),
        ("3", 3),
        ("GPU-b1", 1),
        ("b1e18600", 1),
        (" GPU-c2e1af00-0000-4000-8000-000000000002 ", 2),
        ("B1E1", 1),
    ],
)
def test_a_label_belongs_to_a_board(key: str, position: int) -> None:
    labelled = Capsule(MIXED).labelled(key, "slot 3, left")
    assert labelled.labels == {MIXED.gpus[position].uuid: "slot 3, left"}
    assert Capsule.from_json(labelled.to_json()).labels == labelled.labels
    assert len(labelled.labelled(key, "new").labels) == 1


@pytest.mark.parametrize(
    ("machine", "key", "says"),
    [
        (MIXED, "4", "No GPU of this machine is “4”.*nvidia-smi number"),
        (MIXED, "GPU-ff", "No GPU"),
        (MIXED, "", "No GPU"),
        (MIXED, "GPU-", "No GPU"),
        (MIXED, "٣", "No GPU"),
        (equal(8), "GPU-3f8", "More than one GPU"),
        (Topology.of("Tesla T4"), "0", "UUID of “0” is not known"),
    ],
)
def test_a_label_for_nothing(machine: Topology, key: str, says: str) -> None:
    with pytest.raises(GpumapError, match=says):
        Capsule(machine).labelled(key, "x")


# ---- drift ----

T4, BIG, T4B, T4C = MIXED.gpus
WAS = Capsule(MIXED, {"CUDA_VISIBLE_DEVICES": "0"}, TAKEN, "box", "alice", {"torch": "2.9.0", "python": "3.11.7"})


def at(gpu: Gpu, place: Gpu, **more: Any) -> Gpu:
    """A board in another's slot."""
    return replace(gpu, nvml_index=place.nvml_index, pci_bus_id=place.pci_bus_id, **more)


def of(*gpus: Gpu, **more: Any) -> Callable[[Capsule], Capsule]:
    return lambda capsule: replace(capsule, topology=replace(MIXED, gpus=gpus, **more))


def but(**changes: Any) -> Callable[[Capsule], Capsule]:
    return lambda capsule: replace(capsule, **changes)


def sliced(machine: Topology, *instances: MigInstance, mig_mode: bool | None = True) -> Topology:
    return replace(
        machine, gpus=(replace(machine.gpus[0], mig_instances=instances, mig_mode=mig_mode), *machine.gpus[1:])
    )


STRANGER = replace(T4, uuid=UUIDS[0])
ORDERED = replace(MIXED, default_order=(1, 0, 2, 3))


class Row(NamedTuple):
    new: Callable[[Capsule], Capsule]
    codes: tuple[str, ...]
    says: tuple[str, ...] = ()
    """Parts of all its sentences and remedies together."""
    old: Callable[[Capsule], Capsule] = lambda capsule: capsule


DRIFT: Mapping[str, Row] = {
    "nothing": Row(but(), ()),
    "another time and user": Row(but(taken="2026-04-01T12:00:00+02:00", user="bob", labels={"GPU-1": "x"}, processes=()), ()),
    "new": Row(of(*MIXED.gpus, Gpu(4, "A100", UUIDS[0], "E0:00.0")), ("added",), ("The A100 at E0:00.0 (nvidia-smi 4), GPU-3f8a",)),
    "gone": Row(of(T4, BIG, T4B), ("removed",), ("The Tesla T4 at D8:00.0 (nvidia-smi 3), GPU-d3e1", "is gone", "Take “GPU-d3e1")),
    "gone, and the others move up": Row(
        of(replace(BIG, nvml_index=0), replace(T4B, nvml_index=1), replace(T4C, nvml_index=2)),
        ("removed", "index", "index", "index"),
        ("has another number in nvidia-smi: it was 1, it is 0", "CUDA_VISIBLE_DEVICES=GPU-b1e1"),
    ),
    "replaced by an equal one": Row(
        of(STRANGER, BIG, T4B, T4C), ("replaced",), ("GPU-a0e15e00", "was replaced", f"Where {T4.uuid} is named, name {UUIDS[0]}")
    ),
    "replaced by another model": Row(of(replace(STRANGER, name="NVIDIA A10"), BIG, T4B, T4C), ("replaced",), ("the A10 at 5E:00.0",)),
    "replaced, by number": Row(
        of(replace(STRANGER, pci_bus_id=None), BIG, T4B, T4C), ("replaced",), (), of(replace(T4, pci_bus_id=None), BIG, T4B, T4C)
    ),
    "another slot is no replacement": Row(of(replace(STRANGER, pci_bus_id="E0:00.0"), BIG, T4B, T4C), ("removed", "added")),
    "two equal cards change places": Row(
        of(at(T4B, T4), BIG, at(T4, T4B), T4C),
        ("swapped",),
        ("Two Tesla T4 changed places", f"{T4.uuid} was nvidia-smi 0 at 5E:00.0 and is nvidia-smi 2 at AF:00.0", "by name does not notice"),
    ),
    "two equal cards change addresses only": Row(
        of(replace(T4, pci_bus_id=T4B.pci_bus_id), BIG, replace(T4B, pci_bus_id=T4.pci_bus_id), T4C), ("swapped",)
    ),
    "two equal cards change numbers only": Row(
        of(replace(T4B, nvml_index=0), BIG, replace(T4, nvml_index=2), T4C), ("swapped",), ("was nvidia-smi 0 at 5E:00.0 and is nvidia-smi 2 at 5E:00.0",)
    ),
    "two models change places": Row(of(at(BIG, T4), at(T4, BIG), T4B, T4C), ("swapped-models",), ("NVIDIA GeForce RTX 4090",)),
    "two pairs change places": Row(of(at(BIG, T4), at(T4, BIG), at(T4C, T4B), at(T4B, T4C)), ("swapped", "swapped-models")),
    "three change places in a circle": Row(
        of(at(T4B, T4), BIG, at(T4C, T4B), at(T4, T4C)), ("moved",) * 3 + ("index",) * 3, ("is at another PCI address: it was 00000000:5E:00.0",)
    ),
    "swapped, with device files": Row(
        of(at(T4B, T4, minor_number=0), BIG, at(T4, T4B, minor_number=2), T4C),
        ("swapped",),
        old=of(replace(T4, minor_number=0), BIG, replace(T4B, minor_number=2), T4C),
    ),
    "a label is said": Row(of(T4, BIG, T4B), ("removed",), ("“slot 3, left”",), but(labels={T4C.uuid: "slot 3, left"})),
    "a label is said of a swapped one": Row(
        of(at(T4B, T4), BIG, at(T4, T4B), T4C), ("swapped",), (f"{T4.uuid}, “slot 3, left” was",), but(labels={T4.uuid: "slot 3, left"})
    ),
    "another slot": Row(of(replace(T4, pci_bus_id="01:00.0"), BIG, T4B, T4C), ("moved",)),
    "another device file": Row(
        of(replace(T4, minor_number=5), BIG, T4B, T4C), ("minor",), ("/dev/nvidia0, it is /dev/nvidia5",), of(replace(T4, minor_number=0), BIG, T4B, T4C)
    ),
    "what only one knows is no drift": Row(of(*(replace(g, minor_number=i, numa_node=0, mig_mode=False) for i, g in enumerate(MIXED.gpus))), ()),
    "lost": Row(of(Gpu(0, problem="it has fallen off the bus."), BIG, T4B, T4C), ("unusable",), ("The Tesla T4", "any more: it has fallen off the bus.")),
    "back again": Row(but(), ("usable-again",), ("In the old capsule: lost.",), of(replace(T4, problem="lost."), BIG, T4B, T4C)),
    "lost twice": Row(of(replace(T4, problem="gone."), BIG, T4B, T4C), (), (), of(replace(T4, problem="lost."), BIG, T4B, T4C)),
    "driver": Row(of(*MIXED.gpus, driver_version="535.183.01"), ("driver",), ("535.183.01, it was 535.104.05",)),
    "driver of another series": Row(of(*MIXED.gpus, driver_version="575.57.08"), ("driver-series",), ("of another series",)),
    "driver not known": Row(of(*MIXED.gpus, driver_version=None), ()),
    "platform": Row(of(*MIXED.gpus, platform="wsl"), ("platform",), ("wsl, it was linux",)),
    "simulated": Row(of(*MIXED.gpus, simulated=True), ("simulated",), ("says anything about hardware",)),
    "host": Row(but(host="crate"), ("host",), ("called crate, in the old capsule box",)),
    "two machines": Row(but(topology=equal(1), host="crate"), ("other-machine", *("removed",) * 4, "added", "driver-series"), ("probably two machines",)),
    "default order": Row(
        but(topology=replace(MIXED, default_order=(0, 1, 2, 3))),
        ("order",),
        ("it was RTX 4090 at 86:00.0 (nvidia-smi 1); Tesla T4 at 5E:00.0 (nvidia-smi 0)", "; it is Tesla T4 at 5E"),
        but(topology=ORDERED),
    ),
    "default order seen once": Row(but(topology=ORDERED), ()),
    "default order of those in both": Row(
        but(topology=replace(MIXED, gpus=(T4, BIG, T4B), default_order=(1, 0, 2))), ("removed",), (), but(topology=ORDERED)
    ),
    "default order of forty": Row(
        but(topology=replace(equal(40), default_order=tuple(reversed(range(40))))), ("order",), ("and 32 more",), but(topology=replace(equal(40), default_order=tuple(range(40))))
    ),
    "MIG on": Row(but(topology=split()), ("mig",), ("from MIG off to 2g.10gb, 3g.20gb",), but(topology=sliced(split(), mig_mode=False))),
    "MIG empty": Row(but(topology=sliced(split())), ("mig",), ("to MIG on, no instance",), but(topology=split())),
    "MIG cut otherwise": Row(
        but(topology=sliced(split(), *(MigInstance(f"MIG-{i}", "1g.5gb", i, 0) for i in range(7)))), ("mig",), ("to 7 × 1g.5gb",), but(topology=split())
    ),
    "MIG made anew": Row(
        but(topology=sliced(split(), MigInstance("MIG-1", "3g.20gb", 9, 0), MigInstance("MIG-2", "2g.10gb", 7, 0))),
        ("mig-uuids",), ("they were made anew", "nvidia-smi -L"), but(topology=split()),
    ),
    "MIG not shown": Row(but(topology=sliced(split(), mig_mode=None)), (), (), but(topology=split())),
    "MIG UUIDs not shown": Row(
        but(topology=sliced(split(), MigInstance(None, "3g.20gb"), MigInstance(None, "2g.10gb"))), (), (), but(topology=split())
    ),
    "MIG unnamed": Row(but(topology=sliced(split(), MigInstance("MIG-1"))), ("mig",), ("unnamed slice",), but(topology=split())),
    "variable": Row(but(env={"CUDA_VISIBLE_DEVICES": "1,2"}), ("variable",), ("CUDA_VISIBLE_DEVICES is “1,2”, it was “0”",)),
    "variable unset": Row(but(env={}), ("variable",), ("is unset, it was “0”",)),
    "variable emptied": Row(but(env={"CUDA_VISIBLE_DEVICES": ""}), ("variable",), ("is “”",)),
    "variables not known": Row(but(env=None), ()),
    "a sibling": Row(but(env={"CUDA_VISIBLE_DEVICES": "0", "CUDA_CACHE_PATH": "/tmp"}), ("sibling",), ("CUDA_CACHE_PATH is “/tmp”, it was unset",)),
    "another job": Row(but(env={"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "5", "LOCAL_RANK": "1", "MASTER_PORT": "1", "PMI_RANK": "2"}), ()),
    "versions": Row(but(versions={"torch": "2.10.0", "cuda": "13.0", "made up": "1"}), ("version",), ("torch is 2.10.0, it was 2.9.0",)),
    "no UUIDs, by address": Row(of(*(replace(g, uuid=None) for g in MIXED.gpus)), ()),
    "no UUIDs, by address, moved up": Row(of(*(replace(g, uuid=None, nvml_index=i) for i, g in enumerate(MIXED.gpus[1:]))), ("removed", "index", "index", "index")),
    "only names, by number": Row(of(*(Gpu(g.nvml_index, g.name) for g in MIXED.gpus)), ()),
    "names as another tool writes them": Row(of(Gpu(0, "Tesla T4"), Gpu(1, "NVIDIA GeForce ..."), Gpu(2, "T4"), Gpu(3, "Tesla..."))  , ()),
    "another model under the number": Row(of(*(Gpu(i, g.name) for i, g in enumerate((BIG, BIG, T4B, T4C)))), ("replaced",)),
    "nothing to join by": Row(of(Gpu(None, "Tesla T4"), Gpu(None, "RTX 4090")), ("removed", "unclear"), ("2 GPUs of the old capsule and 2 of the new one",), of(T4, BIG, Gpu(9, "A100", UUIDS[0], "01:00.0"))),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIFT)
def test_what_drifted(name: str) -> None:
    row = DRIFT[name]
    found = drift(row.old(WAS), row.new(WAS))
    assert tuple(d.code for d in found) == row.codes
    said = " ".join(f"{d.message} {d.remedy or ''}" for d in found)
    for part in row.says:
        assert part in said
    assert "{" not in said
    assert not re.search(r"\bNone\b(?! of the)", said)


@pytest.mark.parametrize("name", KEPT)
def test_nothing_drifted_from_itself(name: str) -> None:
    assert drift(KEPT[name], KEPT[name]) == ()
    assert drift(KEPT[name], Capsule.from_json(KEPT[name].to_json())) == ()


@pytest.mark.parametrize("name", [name for name in DRIFT if DRIFT[name].codes])
def test_masked_capsules_drift_like_real_ones(name: str) -> None:
    row = DRIFT[name]
    found = drift(row.old(WAS).masked("salt"), row.new(WAS).masked("salt"))
    assert sorted(d.code for d in found) == sorted(row.codes)
    assert not [d for d in found if d.remedy and "GPU-" in d.remedy], "a mask is nothing to type"


def test_the_table_of_drifts_is_whole_and_in_order_of_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {code for row in DRIFT.values() for code in row.codes} == set(DRIFTS)
    severities = list(DRIFTS.values())
    assert severities == sorted(severities, key=("error", "warning", "info").index)
    said: set[str] = set()
    known = sentences("en")

    class Noting(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> str:
            said.add(key)
            return known[key]

    monkeypatch.setattr(texts, "sentences", lambda _: Noting())
    for row in DRIFT.values():
        assert all(
            d.message and d.severity and (d.remedy is None or d.remedy) for d in drift(row.old(WAS), row.new(WAS))
        )
    for refused in ((FULL, FULL.masked("a")), (FULL.masked("a"), FULL.masked("b"))):
        with pytest.raises(GpumapError):
            drift(*refused)
    places = {
        "drift.smi",
        "drift.bus",
        "drift.nowhere",
        "drift.name.python",
        "drift.name.cuda",
    }
    assert {key for key in known if key.startswith("drift.")} - said == places - said
    assert {str(drifting._place(gpu)) for gpu in (Gpu(3), Gpu(None, pci_bus_id="5E:00.0"), Gpu())} == {
        "nvidia-smi 3",
        "5E:00.0",
        "at no known place",
    }


def test_drift_is_the_same_both_ways() -> None:
    """Whatever the rows are, what is there in one direction is there in the other."""
    other_way = {"added": "removed", "removed": "added", "unusable": "usable-again", "usable-again": "unusable"}
    for name, row in DRIFT.items():
        there, back = drift(row.old(WAS), row.new(WAS)), drift(row.new(WAS), row.old(WAS))
        assert sorted(other_way.get(d.code, d.code) for d in there) == sorted(d.code for d in back), name


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (FULL, FULL.masked("a"), "One of the capsules is masked.*--mask --salt"),
        (FULL.masked("a"), FULL, "One of the capsules is masked"),
        (FULL.masked("a"), FULL.masked("b"), "different salts"),
    ],
)
def test_what_cannot_be_joined_is_refused(old: Capsule, new: Capsule, says: str) -> None:
    with pytest.raises(GpumapError, match=says):
        drift(old, new)


def test_rows_for_tables() -> None:
    rows = drift_rows(drift(WAS, DRIFT["two equal cards change places"].new(WAS)))
    assert [list(row) for row in rows] == [["severity", "code", "gpu", "old", "new", "message", "remedy"]]
    assert rows[0]["severity"] == "error"
    assert all(isinstance(cell, str) for row in rows for cell in row.values())
    assert drift_rows([]) == []
    assert drift_rows([Drift("simulated", drift(WAS, DRIFT["simulated"].new(WAS))[0].said)])[0]["remedy"] == ""


def test_drift_of_a_large_machine_takes_no_time() -> None:
    gpus = tuple(Gpu(i, "A100", f"GPU-{i:08x}-0000-4000-8000-000000000000", f"{i:04x}:01:00.0") for i in range(1024))
    turned = tuple(at(gpus[1023 - i], gpus[i]) for i in range(1024))
    strangers = tuple(Gpu(i + 2000, "A100", f"GPU-{i:08x}-1111-4000-8000-000000000000") for i in range(1024))
    start = time.perf_counter()
    assert len(drift(Capsule(Topology(gpus)), Capsule(Topology(turned)))) == 512
    assert len(drift(Capsule(Topology(gpus)), Capsule(Topology(strangers)))) == 2048
    assert time.perf_counter() - start < 5


# ---- taking one ----


def fake_nvml(monkeypatch: pytest.MonkeyPatch, machine: Topology | Exception) -> None:
    from gpumap_widgets.sources import nvml

    def this_machine() -> Topology:
        if isinstance(machine, Exception):
            raise machine
        return machine

    rows = (SimpleNamespace(pid=12, gpu_uuid=BIG.uuid, mig_uuid=None, position=1, memory_mib=100),)
    monkeypatch.setattr(nvml, "this_machine", this_machine)
    monkeypatch.setattr(nvml, "processes", lambda _: SimpleNamespace(processes=rows, notes=("hidden",)), raising=False)


def test_taking_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml(monkeypatch, MIXED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NVIDIA_API_KEY", "hush")
    taken = take()
    assert taken.topology == MIXED
    assert taken.env is not None
    assert taken.env["CUDA_VISIBLE_DEVICES"] == ""
    assert "PATH" not in taken.env
    assert "hush" not in taken.to_json()
    assert taken.processes is None
    assert taken.versions["driver"] == "535.104.05"
    assert taken.versions["python"].startswith("3.")
    assert Capsule.from_json(taken.to_json()) == taken
    with_processes = take(processes=True)
    assert with_processes.processes == (CapsuleProcess(12, BIG.uuid, None, 1, 100),)
    assert with_processes.topology.notes == ("hidden",)


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    fake_nvml(monkeypatch, MIXED)
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert take().user is None


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml(monkeypatch, NoDriver("none here"))
    with pytest.raises(NoDriver, match="none here"):
        take()


@pytest.mark.parametrize(
    ("version_py", "found"),
    [
        ("__version__ = '2.9.0+cu130'\ncuda: Optional[str] = '13.0'\n", {"torch": "2.9.0+cu130", "cuda": "13.0"}),
        ("__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\n", {"torch": "2.9.0+cpu"}),
        ("cuda = '12.8'", {"torch": "2.9.0", "cuda": "12.8"}),
        (None, {"torch": "2.9.0"}),
        ("\udcff", {"torch": "2.9.0"}),
    ],
)
def test_the_versions_of_a_torch(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, version_py: str | None, found: Mapping[str, str]
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch must not be imported')")
    if version_py is not None:
        (tmp_path / "torch" / "version.py").write_bytes(version_py.encode("utf-8", "surrogateescape"))
    (tmp_path / "torch-2.9.0.dist-info").mkdir()
    (tmp_path / "torch-2.9.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert taking.torch_versions() == found
    monkeypatch.setattr("sys.path", [])
    assert taking.torch_versions() == {}
