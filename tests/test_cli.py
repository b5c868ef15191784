"""The command line: what it prints, what it answers to programs, how it fails. Real processes where the process matters."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from gpumap_widgets import __version__, cli
from gpumap_widgets.scenario import is_relevant
from gpumap_widgets.sources.capsule import Capsule
from gpumap_widgets.topology import Topology
from tests import simdriver
from tests.conftest import MIXED, equal
from tests.simdriver import MIG_A100, SimMachine, SimProcess
from tests.test_imports import HEAVY

ROOT = Path(__file__).parents[1]
LISTED = "GPU 0: Tesla T4 (UUID: GPU-a0e15e00-0000-4000-8000-000000000000)\n"
BOX = Capsule(MIXED, {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
SWAPPED = replace(
    BOX,
    topology=replace(
        MIXED,
        gpus=(
            replace(MIXED.gpus[2], nvml_index=0, pci_bus_id=MIXED.gpus[0].pci_bus_id),
            MIXED.gpus[1],
            replace(MIXED.gpus[0], nvml_index=2, pci_bus_id=MIXED.gpus[2].pci_bus_id),
            MIXED.gpus[3],
        ),
    ),
)


class Said(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a few machines; no GPU variables around."""
    for name in [name for name in os.environ if is_relevant(name)]:
        monkeypatch.delenv(name)
    texts = {
        "box.json": BOX.to_json(),
        "swapped.json": SWAPPED.to_json(),
        "masked.json": BOX.masked("salt").to_json(),
        "list.txt": LISTED,
        "broken.json": BOX.to_json()[:200],
        "newer.json": BOX.to_json().replace("1", "2", 1),
        "hello.txt": "hello",
        "mixed": LISTED,  # a preset has this name too
        "cursor.txt": LISTED.replace("Tesla", "Tes\x07la"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "utf16.json").write_text(BOX.to_json(), encoding="utf-16")
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf" + LISTED.encode())
    (tmp_path / "bytes.bin").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "long.json").write_text('{"gpumap_capsule": 1, "host": "' + "x" * 5_000_000 + '"}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process."""

    def call(*arguments: str, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        try:
            status = cli.main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        return Said(status, *capsys.readouterr())

    return call


# ---- map ----


@pytest.mark.parametrize(
    ("arguments", "indices"),
    [
        (["--machine", "mixed"], [1, 0, 2, 3]),
        (["--machine", "mixed", "--visible", "1,2"], [0, 2]),
        (["--machine", "mixed", "--visible", "1,2", "--order", "PCI_BUS_ID"], [1, 2]),
        (["--machine", "mixed", "--visible", ""], []),
        (["--machine", "mixed", "--visible=-1,0"], []),
        (["--machine", "mixed", "--visible", "-1"], []),
        (["--machine", "mixed", "--visible", "odd \x00"], []),
        (["--machine", "box.json"], [1, 2]),
        (["--machine", "./mixed"], [0]),
        (["--machine", "utf16.json"], [1, 2]),
        (["--machine", "bom.txt"], [0]),
        (["--machine", "box.json", "--visible", "0"], [0]),
        (["--machine", "box.json", "--order", "FASTEST_FIRST"], [0, 2]),
        (["--machine", "box.json", "--no-env"], [1, 0, 2, 3]),
        (["--machine", "box.json", "--no-env", "--visible", "0"], [1]),
        (["--machine", "masked.json"], [1, 2]),
        (["--machine", "list.txt", "--visible", "0"], [0]),
    ],
)
def test_map_for_programs(run: Run, arguments: list[str], indices: list[int]) -> None:
    said = run("map", "--json", *arguments)
    assert (said.status, said.err) == (0, "")
    told = json.loads(said.out)
    assert [device["nvml_index"] for device in told["devices"]] == indices
    assert [device["ordinal"] for device in told["devices"]] == list(range(len(indices)))
    assert set(told) == {
        *(
            "sentence",
            "certainty",
            "error",
            "devices",
            "hidden",
            "unusable",
            "cuda_visible_devices",
            "cuda_device_order",
        )
    }
    total = len(told["devices"]) + len(told["hidden"])
    assert total == (1 if arguments[1] in ("./mixed", "bom.txt", "list.txt") else 4)


def test_map_for_people(run: Run) -> None:
    said = run("map", "--machine", "mixed", "--visible", "1,2")
    assert said.out.startswith("cuda:0 is the Tesla T4 (nvidia-smi 0, bus 5E)")
    assert "Hidden: RTX 4090 (nvidia-smi 1)" in said.out
    assert "GPU-b1e18600" in said.out
    assert (said.status, said.err) == (0, "")


def test_a_machine_from_standard_input(run: Run) -> None:
    for data in (LISTED.encode(), BOX.to_json().encode(), BOX.to_json().encode("utf-16")):
        said = run("map", "--json", "--machine", "-", stdin=data)
        assert json.loads(said.out)["devices"][0]["ordinal"] == 0


def test_text_of_a_file_does_not_move_the_cursor(run: Run) -> None:
    for command in ("map", "explain"):
        said = run(command, "--machine", "cursor.txt", "--visible", "0,\x1b[2J")
        assert said.status == 0
        assert not {"\x1b", "\x07"} & set(said.out + said.err)


def test_slices_are_told(run: Run, files: Path) -> None:
    from tests.conftest import SLICES, split

    (files / "split.json").write_text(Capsule(split(), {"CUDA_VISIBLE_DEVICES": SLICES[1]}).to_json())
    told = json.loads(run("map", "--json", "--machine", "split.json").out)
    assert told["devices"][0]["mig"] == {"uuid": SLICES[1], "profile": "2g.10gb", "memory_mib": None}


# ---- explain ----


def test_explain(run: Run) -> None:
    said = run("explain", "--machine", "mixed", "--visible", "1,9")
    assert said.status == 0
    lines = said.out.splitlines()
    assert [line.split(".")[0] for line in lines if not line.startswith(" ")][2:] == [
        str(i + 1) for i in range((len(lines) - 2) // 2)
    ]
    assert "“9” ends the list" in said.out
    assert "source: CUDA Programming Guide" in said.out


def test_explain_for_programs(run: Run) -> None:
    told = json.loads(run("explain", "--json", "--machine", "mixed", "--visible", "1,9").out)
    assert told["cuda_visible_devices"] == "1,9"
    assert {frozenset(step) for step in told["steps"]} == {frozenset({"stage", "message", "certainty", "source"})}
    assert all(step["source"] and step["message"] for step in told["steps"])
    assert {step["stage"] for step in told["steps"]} == {"machine", "environment", "order", "list", "numbering"}


# ---- drift ----


def test_drift(run: Run) -> None:
    assert run("drift", "box.json", "box.json") == Said(0, "Nothing drifted.\n", "")
    said = run("drift", "box.json", "swapped.json")
    assert (said.status, said.err) == (1, "")
    assert said.out.startswith("Wrong: Two Tesla T4 changed places")
    assert "\n    Pin by UUID" in said.out


def test_drift_for_programs(run: Run) -> None:
    assert json.loads(run("drift", "--json", "box.json", "utf16.json").out) == {"drifted": False, "drifts": []}
    said = run("drift", "--json", "box.json", "swapped.json")
    told = json.loads(said.out)
    assert (said.status, told["drifted"]) == (1, True)
    assert [row["code"] for row in told["drifts"]] == ["swapped"]


def test_drift_against_pasted_text(run: Run) -> None:
    said = run("drift", "box.json", "-", stdin=LISTED.encode())
    assert said.status == 1
    assert said.out.count("is gone") == 3


# ---- failures ----


class Failure(NamedTuple):
    arguments: tuple[str, ...]
    says: str


FAILURES = (
    Failure(("map", "--machine", "nosuch"), "neither a file nor a preset “nosuch”. Presets: mixed,"),
    Failure(("map", "--machine", "no/such.json"), "no/such.json cannot be read: No such file"),
    Failure(("map", "--machine", "such.json"), "such.json cannot be read: No such file"),
    Failure(("map", "--machine", "."), ". cannot be read: Is a directory"),
    Failure(("map", "--machine", "a\x00b"), "cannot be read: embedded null"),
    Failure(("map", "--machine", "x" * 5000), "cannot be read: File name too long"),
    Failure(("map", "--machine", ""), "cannot be read"),
    Failure(("map", "--machine", "hello.txt"), "hello.txt: The text has no list of GPUs that is known here. Run"),
    Failure(("map", "--machine", "bytes.bin"), "bytes.bin: "),
    Failure(("map", "--machine", "broken.json"), "broken.json: This looks like a capsule, but is damaged: "),
    Failure(("map", "--machine", "newer.json"), "reads up to version 1. Update gpumap_widgets here."),
    Failure(("map", "--machine", "long.json"), "long.json: The file is longer than 2 MB"),
    Failure(("map", "--machine", "-"), "-: The text is empty."),
    Failure(("drift", "box.json", "nosuch"), "nosuch cannot be read: No such file"),
    Failure(("drift", "mixed", "nosuch"), "nosuch cannot be read"),
    Failure(("drift", "box.json", "masked.json"), "One of the capsules is masked"),
    Failure((), "required: COMMAND"),
    Failure(("teleport",), "invalid choice"),
    Failure(("map", "--visible"), "expected one argument"),
    Failure(("map", "--vis", "0"), "unrecognized arguments"),
    Failure(("drift", "box.json"), "required: NEW"),
)


@pytest.mark.parametrize("row", FAILURES, ids=lambda row: " ".join(row.arguments)[:40] or "nothing")
def test_a_failure_is_a_sentence_on_standard_error(run: Run, row: Failure) -> None:
    said = run(*row.arguments)
    assert said.status == 2
    assert said.out == ""
    assert row.says in said.err
    assert "Traceback" not in said.err
    assert said.err.splitlines()[-1].startswith("gpumap: ") or said.err.startswith("usage: ")


def test_a_file_without_permission(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    said = run("drift", "box.json", "box.json")
    assert said == Said(2, "", "gpumap: box.json cannot be read: Permission denied.\n")


def test_our_own_errors_are_a_sentence_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("gpumap_widgets.resolver.resolve", fail)
    said = run("map", "--machine", "mixed")
    assert said == Said(
        2, "", "gpumap: an error in gpumap itself: ZeroDivisionError: of all things. Please report it.\n"
    )


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpumap_widgets.resolver.resolve", interrupt)
    assert run("map", "--machine", "mixed") == Said(130, "", "")


def test_help_and_version(run: Run) -> None:
    assert run("--version").out == f"gpumap {__version__}\n"
    for command in ([], ["capsule"], ["map"], ["explain"], ["drift"]):
        said = run(*command, "--help")
        assert said.status == 0
        assert "cli." not in said.out
        assert "{" not in said.out


# ---- this machine ----


@pytest.fixture
def this(monkeypatch: pytest.MonkeyPatch) -> Callable[[Topology], None]:
    def set_machine(machine: Topology) -> None:
        monkeypatch.setattr("gpumap_widgets.sources.nvml.this_machine", lambda: machine)

    return set_machine


def test_map_of_this_process(run: Run, this: Callable[[Topology], None], monkeypatch: pytest.MonkeyPatch) -> None:
    this(MIXED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    told = json.loads(run("map", "--json").out)
    assert [device["nvml_index"] for device in told["devices"]] == [3]
    assert [device["nvml_index"] for device in json.loads(run("map", "--json", "--no-env").out)["devices"]] == [
        1,
        0,
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--label", "0=slot 3, left"], 0, '"slot 3, left"'),
        (["--label", "0=a=b", "--label", "GPU-3f8b=c"], 0, '"a=b"'),
        (["--label", "0"], 2, "“0” is no label"),
        (["--label", "=x"], 2, "is no label"),
        (["--label", "9=x"], 2, "No GPU of this machine is “9”"),
        (["--mask"], 0, '"mask"'),
        (["--salt", "s"], 0, '"mask"'),
    ],
)
def test_capsule(run: Run, this: Callable[[Topology], None], arguments: list[str], status: int, says: str) -> None:
    this(equal(4))
    said = run("capsule", *arguments)
    assert said.status == status
    assert says in (said.err if status else said.out)
    if not status:
        capsule = Capsule.from_json(said.out)
        assert (capsule.mask is not None) is (arguments[0] in ("--mask", "--salt"))
        assert (capsule.topology == equal(4)) is (capsule.mask is None)


# ---- real processes ----


def process(*arguments: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    base = {k: v for k, v in os.environ.items() if not is_relevant(k)}
    paths = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::EncodingWarning"}
    return subprocess.run(
        [sys.executable, "-m", "gpumap_widgets", *arguments],
        env=(env if env is not None else base) | paths,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
        **more,
    )


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Callable[[SimMachine], dict[str, str]]:
    """The environment of a process on a simulated machine."""
    try:
        build = simdriver.build()
    except simdriver.SimdriverUnavailable as reason:
        pytest.skip(str(reason))
    base = {k: v for k, v in os.environ.items() if not is_relevant(k)}
    return lambda machine: simdriver.environment(machine, tmp_path_factory.mktemp("sim"), build, base)


def test_a_capsule_from_the_box_to_another_and_back(sim: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    """The whole way, with NVML: taken, mapped elsewhere, and compared after a reboot that swapped two cards."""
    busy = replace(simdriver.MIXED, processes=(SimProcess(1, os.getpid(), 512),))
    env = sim(busy) | {"CUDA_VISIBLE_DEVICES": "GPU-c2e1", "HF_TOKEN": "hush", "SLURM_JWT": "hush"}
    with (tmp_path / "box.json").open("w") as file:
        command = [sys.executable, "-m", "gpumap_widgets", "capsule", "--processes"]
        subprocess.run(command, env=env | {"PYTHONPATH": str(ROOT)}, stdout=file, check=True, timeout=60)
    text = (tmp_path / "box.json").read_text()
    capsule = Capsule.from_json(text)
    assert "hush" not in text
    assert capsule.topology.simulated
    assert [gpu.uuid for gpu in capsule.topology.gpus] == [gpu.uuid for gpu in simdriver.MIXED.gpus]
    assert capsule.env == {"CUDA_VISIBLE_DEVICES": "GPU-c2e1"}
    assert capsule.processes is not None
    assert [(p.pid, p.gpu, p.memory_mib) for p in capsule.processes] == [
        (os.getpid(), simdriver.MIXED.gpus[1].uuid, 512)
    ]
    told = json.loads(process("map", "--machine", str(tmp_path / "box.json"), "--json").stdout)
    assert [(d["nvml_index"], d["certainty"]) for d in told["devices"]] == [(2, "certain")]

    t4, big, t4b, t4c = simdriver.MIXED.gpus
    rebooted = replace(
        busy,
        gpus=(replace(t4b, pci_bus_id=t4.pci_bus_id), big, replace(t4, pci_bus_id=t4b.pci_bus_id), t4c),
        processes=(),
    )
    later = process("capsule", env=sim(rebooted) | {"CUDA_VISIBLE_DEVICES": "GPU-c2e1"})
    assert later.returncode == 0, later.stderr
    found = process("drift", str(tmp_path / "box.json"), "-", "--json", input=later.stdout)
    assert (found.returncode, found.stderr) == (1, "")
    assert [row["code"] for row in json.loads(found.stdout)["drifts"]] == ["swapped"]

    masked = [process("capsule", "--salt", "our team", env=sim(machine)) for machine in (busy, rebooted)]
    for name, done in zip(("one.json", "two.json"), masked, strict=True):
        (tmp_path / name).write_text(done.stdout)
    found = process("drift", str(tmp_path / "one.json"), str(tmp_path / "two.json"))
    assert found.returncode == 1
    assert "Two Tesla T4 changed places" in found.stdout
    assert "a0e15e00" not in found.stdout


def test_slices_survive_the_way(sim: Callable[..., dict[str, str]]) -> None:
    done = process("capsule", env=sim(MIG_A100))
    instances = Capsule.from_json(done.stdout).topology.gpus[0].mig_instances
    assert [mig.profile for mig in instances] == ["3g.20gb", "2g.10gb"]


def test_this_process_on_a_simulated_machine(sim: Callable[..., dict[str, str]]) -> None:
    done = process(
        "map", "--json", env=sim(simdriver.MIXED) | {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    )
    assert [device["nvml_index"] for device in json.loads(done.stdout)["devices"]] == [1, 2]


def test_a_driver_that_does_not_start_is_a_sentence(sim: Callable[..., dict[str, str]]) -> None:
    for command in ("capsule", "map", "explain"):
        done = process(command, env=sim(replace(simdriver.MIXED, nvml_code=18)))  # the versions do not match
        if not done.returncode:  # on a machine with NVIDIA's GPUs Linux lists them without NVML
            assert done.stdout
            continue
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("gpumap: ")
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize(
    "arguments", [["map", "--machine", "eight", "--json"], ["--help"], ["explain", "--machine", "eight"]]
)
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_reader_that_goes_away(arguments: list[str], unbuffered: bool) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "gpumap_widgets", *arguments]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if unbuffered:
        env["PYTHONUNBUFFERED"] = "1"
    with os.fdopen(write, "w") as out:
        done = subprocess.run(
            command, env=env, stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False, timeout=60
        )
    quiet = unbuffered and arguments == ["--help"]  # argparse itself drops what it cannot write
    assert (done.returncode, done.stderr) == (0 if quiet else 141, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_any_terminal_will_do(encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT)}
    for arguments, status in (
        (["explain", "--machine", "mixed", "--visible", "李,\udcff"], 0),
        (["map", "--machine", "“"], 2),
    ):
        command = [sys.executable, "-m", "gpumap_widgets", *arguments]
        done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
        assert done.returncode == status, done.stderr
        assert b"Traceback" not in done.stderr


FRESH = "import sys; from gpumap_widgets.cli import main; status = main(sys.argv[2:]); print(set(eval(sys.argv[1])) & set(sys.modules), file=sys.stderr)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["map", "--machine", "mixed"],
        ["explain", "--machine", "mixed", "--json"],
        ["drift", "-", "-"],
        ["map", "--machine", "-"],
    ],
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    command = [sys.executable, "-c", FRESH, repr(HEAVY), *arguments]
    done = subprocess.run(command, input=LISTED, capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "set()"


def test_a_capsule_of_this_machine_loads_nvml_only(sim: Callable[..., dict[str, str]]) -> None:
    command = [sys.executable, "-c", FRESH, repr(HEAVY), "capsule"]
    done = subprocess.run(
        command, env=sim(simdriver.MIXED), capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )
    assert done.stderr.splitlines()[-1] == "{'pynvml'}"


def test_it_starts_fast() -> None:
    """Beyond a bare interpreter, best of some; 150 ms on a quiet machine, with room for a busy one."""

    def best(*command: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, cwd=ROOT, check=True, timeout=60)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best("-m", "gpumap_widgets", "map", "--machine", "mixed") - best("-c", "pass") < 0.6


# ---- inspect and evidence ----


def _line(**more: Any) -> str:
    head = {"gpumap_evidence": 1, "time": "2026-03-01T12:00:00+01:00", "host": "box", "told_by": "driver"}
    device = {"ordinal": 0, "uuid": "GPU-1", "nvml_index": 3, "name": "Tesla T4"}
    uses = {"ordinals": [0], "by": "only device"}
    return json.dumps(head | {"job": "slurm 77", "devices": [device], "uses": uses} | more) + "\n"


def test_evidence_for_people_and_programs(run: Run, files: Path) -> None:
    (files / "a.jsonl").write_text(_line(rank=2) + _line(rank=0, devices=[{"ordinal": 0, "uuid": "GPU-2"}]))
    said = run("evidence", "a.jsonl", "--rank", "2")
    assert (said.status, said.err) == (0, "")
    assert "GPU-1" in said.out
    assert "GPU-2" not in said.out
    assert "yes: only device" in said.out
    told = json.loads(run("evidence", "a.jsonl", "--rank", "2", "--job", "77", "--json").out)
    assert [(line["rank"], line["devices"][0]["nvml_index"]) for line in told["lines"]] == [(2, 3)]
    assert (told["broken"], told["findings"]) == ([], [])


@pytest.mark.parametrize(
    ("text", "arguments", "status", "said"),
    [
        (_line(rank=2), ["--rank", "5"], 1, "No line there is of that rank"),
        (_line(rank=2), ["--job", "78"], 1, "No line there is of that rank"),
        ("", [], 1, "No line of evidence"),
        ("hello\n", [], 1, "No line of evidence"),
        (_line(rank=2) + '{"gpumap_evidence": 1', [], 1, "a.jsonl, line 2: it is damaged"),
        (_line(rank=0) + _line(rank=1), [], 1, "Ranks 0, 1 of slurm 77 on box used one GPU"),
        (_line(host="\x1b[2J"), [], 0, "Tesla T4"),
        (_line(told_by="prediction", certainty="guess", simulated=True), [], 0, "predicted, guess, simulated"),
    ],
)
def test_evidence_that_stands_out(
    run: Run, files: Path, text: str, arguments: list[str], status: int, said: str
) -> None:
    (files / "a.jsonl").write_text(text)
    told = run("evidence", "a.jsonl", *arguments)
    assert told.status == status
    assert said in told.out
    assert "\x1b" not in told.out
    json.loads(run("evidence", "a.jsonl", *arguments, "--json").out)


def test_no_such_evidence(run: Run, files: Path) -> None:
    told = run("evidence", "missing.jsonl")
    assert (told.status, told.out) == (2, "")
    assert "missing.jsonl cannot be read" in told.err
    assert run("evidence").status == 2
    assert run("inspect", "x").status == 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_inspect_in_a_real_process(tmp_path: Path) -> None:
    try:
        built = simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    me = os.getpid()

    def call(machine: SimMachine, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = simdriver.environment(machine, tmp_path, built) | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "gpumap_widgets", "inspect", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    one = replace(simdriver.MIXED, processes=(SimProcess(1, me, 512),))
    done = call(one)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(me) in done.stdout
    told = json.loads(call(one, str(me), "--json").stdout)
    assert (told["pid"], told["held"][0]["nvml_index"]) == (me, 1)
    strangers = replace(simdriver.MIXED, processes=(SimProcess(1, me, 512), SimProcess(1, 4194999, 5)))
    done = call(strangers)
    assert done.returncode == 1
    assert "2 jobs are on one GPU" in done.stdout
    done = call(simdriver.MIXED, "4194999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no process 4194999" in done.stderr
    done = call(replace(simdriver.MIXED, nvml_code=9))
    assert done.returncode == 2
