"""Evidence: lines from real processes, written by many at once and onto full disks, read back from damaged files."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpumap_widgets as gm
from gpumap_widgets.comparison import compare
from gpumap_widgets.errors import GpumapError
from gpumap_widgets.evidence import log
from gpumap_widgets.evidence.log import EVIDENCE, append_evidence, log_evidence, log_run
from gpumap_widgets.evidence.reading import evidence_in
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.identity import bare_uuid
from gpumap_widgets.mapping import Message, Observation, ObservedDevice
from tests import simdriver
from tests.conftest import MIXED as DESCRIBED
from tests.conftest import predict
from tests.simdriver import MIG_A100, MIXED, SimMachine

ROOT = Path(__file__).parents[1]
linux = pytest.mark.skipif(sys.platform != "linux", reason="locks and limits as on Linux")

WRITE = """
import json, sys
import gpumap_widgets as gm
line = gm.log_evidence(sys.argv[1] if sys.argv[1:] else None, **json.loads(sys.argv[2] if sys.argv[2:] else "{}"))
maps = open("/proc/self/maps").read()
print(json.dumps({"line": line, "cuda_mapped": "libcuda" in maps, "torch": "torch" in sys.modules}))
"""


@pytest.fixture(scope="module")
def build_dir() -> Path:
    try:
        return simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))


Ask = Callable[..., Any]


def run(env: Mapping[str, str], script: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *args], env={**env, "PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip


@pytest.fixture
def written(build_dir: Path, tmp_path: Path) -> Ask:
    """A process on an invented machine that logs; what it wrote and what it returned are the same."""

    def call(machine: SimMachine, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        file = tmp_path / "evidence.jsonl"
        base = simdriver.environment(machine, tmp_path, build_dir)
        told = json.loads(run({**base, **(env or {})}, WRITE, str(file), json.dumps(options)).stdout)
        assert json.loads(file.read_text().splitlines()[-1]) == told["line"]
        return told

    return call


def test_without_cuda_it_is_a_prediction(written: Ask) -> None:
    """Neither torch nor the driver is loaded."""
    told = written(MIXED, {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "SLURM_JWT": "hush"})
    line = told["line"]
    assert (told["cuda_mapped"], told["torch"]) == (False, False)
    assert next(iter(line)) == "gpumap_evidence"
    assert (line["told_by"], line["certainty"], line["verdict"]) == ("prediction", "certain", None)
    assert [(d["ordinal"], d["nvml_index"], d["uuid"]) for d in line["devices"]] == [
        (0, 3, MIXED.gpus[3].uuid),
        (1, 1, MIXED.gpus[1].uuid),
    ]
    assert (line["cuda_visible_devices"], line["cuda_device_order"]) == ("3,1", "PCI_BUS_ID")
    assert (line["device_count"], line["simulated"], line["uses"], line["problems"]) == (2, True, None, [])
    assert [gpu["uuid"] for gpu in line["machine"]] == [gpu.uuid for gpu in MIXED.gpus]
    assert line["versions"]["driver"] == MIXED.driver_version
    assert "hush" not in json.dumps(line)
    assert line["time"][-6] in "+-"
    assert {"host", "pid", "user", "env"} <= set(line)


def test_with_cuda_the_driver_tells(written: Ask) -> None:
    told = written(MIXED, {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, start_cuda=True)
    line = told["line"]
    assert (told["cuda_mapped"], told["torch"]) == (True, False)
    assert (line["told_by"], line["certainty"], line["verdict"]) == ("driver", None, "confirmed")
    assert [(d["nvml_index"], d["uuid"], d["name"], d["memory_mib"]) for d in line["devices"]] == [
        (3, MIXED.gpus[3].uuid, "Tesla T4", 15360)
    ]
    assert line["uses"] == {"ordinals": [0], "by": "only device"}
    assert line["versions"]["driver_cuda"] == "12.2"
    assert "simulated driver" in line["reason"]


def test_a_driver_that_contradicts(written: Ask) -> None:
    line = written(replace(MIXED, default_order=(2, 0, 1, 3)), start_cuda=True)["line"]
    assert (line["verdict"], line["devices"][0]["nvml_index"]) == ("refuted", 2)
    assert line["foretold"][0] == MIXED.gpus[1].uuid


def test_mig(written: Ask) -> None:
    small = MIG_A100.gpus[0].mig[1].uuid
    for start_cuda in (False, True):
        line = written(MIG_A100, {"CUDA_VISIBLE_DEVICES": small}, start_cuda=start_cuda)["line"]
        assert [(d["uuid"], d["nvml_index"], d["memory_mib"]) for d in line["devices"]] == [(small, 0, 9856)]


@pytest.mark.parametrize(
    ("env", "job", "rank", "uses"),
    [
        ({}, None, None, None),
        ({"LOCAL_RANK": "2", "RANK": "10"}, None, 10, [2]),
        ({"LOCAL_RANK": "9", "RANK": "9"}, None, 9, None),
        ({"LOCAL_RANK": "x", "RANK": "-1"}, None, None, None),
        ({"SLURM_JOB_ID": "77", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, "slurm 77", 1, [1]),
        ({"CUDA_VISIBLE_DEVICES": "2", "LOCAL_RANK": "1", "RANK": "1"}, None, 1, [0]),
    ],
)
def test_ranks_and_what_they_use(
    written: Ask, env: dict[str, str], job: str | None, rank: int | None, uses: list[int] | None
) -> None:
    line = written(MIXED, env)["line"]
    assert (line["job"], line["rank"]) == (job, rank)
    assert (line["uses"] or {}).get("ordinals") == uses


def test_a_machine_without_a_driver(written: Ask) -> None:
    line = written(replace(MIXED, nvml_code=9))["line"]
    assert (line["told_by"], line["devices"], line["device_count"], line["machine"]) == ("nobody", [], None, None)
    assert "not loaded" in line["problems"][0]


def test_cuda_does_not_start(written: Ask) -> None:
    line = written(replace(MIXED, cuinit_code=999), start_cuda=True)["line"]
    assert line["told_by"] == "prediction"
    assert "cuInit 999" in line["problems"][0]


TORCH = """
import json, os, sys
import torch
import gpumap_widgets as gm
before = gm.log_evidence(sys.argv[1])
untouched = torch.cuda.is_initialized()
os.environ["CUDA_VISIBLE_DEVICES"] = "1,3"  # still counts
torch.cuda.set_device(1)
after = gm.log_evidence(sys.argv[1], job="mine", rank=2)
print(json.dumps([before, untouched, after]))
"""


@pytest.mark.torch
def test_real_torch(tmp_path: Path) -> None:
    """Logging starts no CUDA; once torch has, the line is what the driver shows, with the device that torch chose."""
    include = simdriver.find_cuda_include()
    if include is None:
        pytest.skip(f"no CUDA build of torch, with its headers, in {sys.executable}")
    try:
        built = simdriver.build(include)
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    file = tmp_path / "e.jsonl"
    env = simdriver.environment(MIXED, tmp_path, built) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    before, untouched, after = json.loads(run(env, TORCH, str(file)).stdout)
    assert (before["told_by"], untouched) == ("prediction", False)
    assert (after["told_by"], after["verdict"]) == ("driver", "confirmed")
    assert after["uses"] == {"ordinals": [1], "by": "torch.cuda.current_device"}
    assert after["versions"]["torch"]
    frame = gm.read_evidence(file, rank=2, job="mine")
    (used,) = frame[frame["used"]].to_dict("records")
    assert (used["ordinal"], used["nvml_index"], used["uuid"]) == (1, 3, MIXED.gpus[3].uuid)


# ---- where it is written ----


def test_without_a_file_it_stands_in_the_log(build_dir: Path, tmp_path: Path) -> None:
    env = simdriver.environment(MIXED, tmp_path, build_dir)
    done = run(env, WRITE)
    (text,) = done.stderr.splitlines()
    assert json.loads(text) == json.loads(done.stdout)["line"]
    log_file = tmp_path / "job.log"
    log_file.write_text(f"Epoch 1\n[default0]:{text}\n[rank3]: {text}\nno {{ json }}\n")
    found = evidence_in(log_file)
    assert (len(found.lines), found.broken, found.foreign) == (2, (), 2)
    named = tmp_path / "named.jsonl"
    done = run(env | {EVIDENCE: str(named)}, WRITE)
    assert (done.stderr, len(named.read_text().splitlines())) == ("", 1)


def line(**more: Any) -> dict[str, Any]:
    base = {"gpumap_evidence": 1, "time": "2026-03-01T12:00:00.000+01:00", "host": "box", "pid": 7}
    return base | {"devices": [], "problems": []} | more


def test_appending_makes_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    append_evidence(file, line(user="李\n\x00\udcff"))
    append_evidence(str(file), line(pid=8))
    texts = file.read_text(encoding="ascii").splitlines()
    assert [json.loads(text)["pid"] for text in texts] == [7, 8]
    assert json.loads(texts[0])["user"] == "李\n\x00\udcff"


def test_a_half_line_of_somebody_else_stays_alone(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text('{"gpumap_evidence": 1, "time": "2026')
    append_evidence(file, line())
    found = evidence_in(file)
    assert [one.number for one in found.broken] == [1]
    assert [one.number for one in found.lines] == [2]


WRITER = """
import sys
from gpumap_widgets.evidence.log import append_evidence
sys.stdin.readline()
for i in range(int(sys.argv[3])):
    append_evidence(sys.argv[1], {"gpumap_evidence": 1, "time": "2026-03-01T12:00:00+01:00", "pid": int(sys.argv[2]), "rank": i, "reason": "x" * 3000})
"""


@linux
def test_writers_at_once(tmp_path: Path) -> None:
    """Six processes and two threads, lines of 3 kB: each is there, whole, and in the order of its writer."""
    file, each = tmp_path / "e.jsonl", 60
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(i), str(each)], stdin=subprocess.PIPE, cwd=ROOT)
        for i in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()

    def write(number: int) -> None:
        for i in range(each):
            append_evidence(file, line(pid=number, rank=i, reason="y" * 3000))

    threads = [threading.Thread(target=write, args=(number,)) for number in (6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(60) for process in processes] == [0] * 6
    written_by: dict[int, list[int]] = {}
    for text in file.read_text().splitlines():
        one = json.loads(text)
        written_by.setdefault(one["pid"], []).append(one["rank"])
    assert written_by == {i: list(range(each)) for i in range(8)}


@linux
def test_a_full_disk() -> None:
    with pytest.raises(GpumapError, match=r"/dev/full: No space left on device\. Nothing of this line"):
        append_evidence("/dev/full", line())


LIMITED = """
import resource, sys
from gpumap_widgets.errors import GpumapError
from gpumap_widgets.evidence.log import append_evidence
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    append_evidence(sys.argv[1], {"gpumap_evidence": 1, "reason": "x" * 500})
except GpumapError as exc:
    print(exc)
"""


@linux
@pytest.mark.parametrize("room", [0, 1, 100, 500])
def test_no_half_line_is_left(tmp_path: Path, room: int) -> None:
    """A limit on the size of files cuts the write in its middle."""
    file = tmp_path / "e.jsonl"
    append_evidence(file, line())
    before = file.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(file), str(len(before) + room)], cwd=ROOT, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert "File too large" in done.stdout
    assert file.read_bytes() == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@linux
def test_a_writer_that_keeps_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(log, "_PATIENCE", 0.05)
    file = tmp_path / "e.jsonl"
    with file.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(GpumapError, match="locked"):
            append_evidence(file, line())
    append_evidence(file, line())
    assert len(file.read_text().splitlines()) == 1


@linux
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    append_evidence(tmp_path / "e.jsonl", line())
    assert len((tmp_path / "e.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("target", ["missing/e.jsonl", ".", "nul\0"])
def test_no_such_place(tmp_path: Path, target: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/{target}"
    with pytest.raises(GpumapError, match="was not written"):
        append_evidence(path, line())
    told = log_evidence(path)  # a training script goes on
    assert any("was not written" in why for why in told["problems"])
    assert "no evidence was logged" in capfd.readouterr().err
    with pytest.raises(GpumapError):
        log_evidence(path, strict=True)


def test_nothing_raises_into_a_training_script(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(log, "process_line", broken)
    assert log_evidence()["problems"] == ["RuntimeError: a bug"]
    monkeypatch.setattr(sys, "stderr", None)
    assert log_evidence()["problems"]
    with pytest.raises(RuntimeError):
        log_evidence(strict=True)


# ---- a live run ----


def seen(order: tuple[int, ...], **more: Any) -> Observation:
    devices = tuple(
        ObservedDevice(i, bare_uuid(DESCRIBED.gpus[p].uuid or ""), DESCRIBED.gpus[p].name, DESCRIBED.gpus[p].pci_bus_id, 15360, None)
        for i, p in enumerate(order)
    )  # fmt: skip
    env = FrozenDict({"CUDA_VISIBLE_DEVICES": "1,2"})
    return Observation(devices, env=env, wanted_env=env, started="2026-03-01T12:00:00+01:00", **more)


def test_a_live_run_is_logged_with_its_verdict(tmp_path: Path) -> None:
    file, prediction = tmp_path / "e.jsonl", predict(DESCRIBED, "1,2")
    log_run(file, compare(prediction, seen((0, 2))))
    log_run(file, compare(prediction, seen((0, 1), simulated=True)))
    log_run(file, compare(prediction, seen((), problem=Message("live.no-driver"))))
    good, bad, mute = (one.data for one in evidence_in(file).lines)
    assert (good["verdict"], good["told_by"], good["simulated"]) == ("confirmed", "torch", False)
    assert [d["nvml_index"] for d in good["devices"]] == [0, 2]
    assert good["devices"][0]["uuid"] == DESCRIBED.gpus[0].uuid
    assert (bad["verdict"], bad["simulated"]) == ("refuted", True)
    assert (mute["verdict"], mute["told_by"], mute["device_count"]) == ("not checked", "nobody", None)
    assert [finding.code for finding in evidence_in(file).findings] == ["refuted"]


# ---- reading ----


def ranked(rank: int, uuid: str, job: str = "slurm 77", host: str = "a", **more: Any) -> dict[str, Any]:
    devices = [{"ordinal": 0, "uuid": uuid, "nvml_index": rank, "name": "Tesla T4", "memory_mib": 15360}]
    return line(
        rank=rank, job=job, host=host, devices=devices, uses={"ordinals": [0], "by": "only device"},
        told_by="driver", simulated=False, versions={"driver": "575"},
    ) | more  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A job of four ranks on two hosts, each with its file; another job; some damage."""
    for rank in range(4):
        host = "ab"[rank // 2]
        append_evidence(tmp_path / f"rank{rank}.jsonl", ranked(rank, f"GPU-{rank}", host=host))
    append_evidence(tmp_path / "rank2.jsonl", ranked(2, "GPU-old", "slurm 76", time="2026-02-01T00:00:00Z"))
    with (tmp_path / "rank3.jsonl").open("a") as file:
        file.write('{"gpumap_evidence": 1, "ti\n\nnoise\n' + json.dumps(line(rank="x")) + "\n")
    return tmp_path


def test_which_gpu_did_rank_2_use(files: Path) -> None:
    for paths in (files, str(files), f"{files}/*.jsonl", [files / f"rank{i}.jsonl" for i in range(4)]):
        with pytest.warns(UserWarning, match="2 lines of evidence cannot be read; the first is line 2 of"):
            frame = gm.read_evidence(paths, rank=2, job="77")
        assert frame[["host", "nvml_index", "uuid"]].to_numpy().tolist() == [["b", 2, "GPU-2"]]
        assert [Path(one["file"]).name for one in frame.attrs["broken"]] == ["rank3.jsonl"] * 2
    with pytest.warns(UserWarning, match="cannot be read"):
        assert list(gm.read_evidence(files, rank=2)["uuid"]) == ["GPU-old", "GPU-2"], "by time"


def test_a_frame_has_its_columns_even_when_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    frame = gm.read_evidence(tmp_path / "none.jsonl")
    assert len(frame) == 0
    assert str(frame["rank"].dtype) == "Int64"
    assert {"time", "used", "uuid", "told_by", "simulated", "file", "line"} <= set(frame.columns)


def test_a_line_without_a_device_is_a_row(tmp_path: Path) -> None:
    append_evidence(tmp_path / "e.jsonl", line(rank=1))
    (row,) = gm.read_evidence(tmp_path / "e.jsonl").to_dict("records")
    assert row["rank"] == 1
    assert row["uuid"] is None


def test_ranks_that_used_one_gpu(tmp_path: Path) -> None:
    for rank, uuid in enumerate(["GPU-1", "GPU-1", "GPU-2"]):
        append_evidence(tmp_path / "e.jsonl", ranked(rank, uuid))
    append_evidence(tmp_path / "e.jsonl", ranked(0, "GPU-2", host="other"))
    append_evidence(tmp_path / "e.jsonl", ranked(5, "GPU-1", job="slurm 78"))
    (finding,) = evidence_in(tmp_path / "e.jsonl").findings
    assert (finding.code, finding.severity) == ("ranks-share-gpu", "error")
    assert "Ranks 0, 1 of slurm 77 on a used one GPU, the Tesla T4, GPU-1." in finding.message
    append_evidence(tmp_path / "e.jsonl", ranked(1, "GPU-3", time="2026-03-02T00:00:00Z"))
    assert evidence_in(tmp_path / "e.jsonl").findings == (), "the job was started again, and well"


HOSTILE = [
    '{"gpumap_evidence": 1', '{"gpumap_evidence": 0}', '{"gpumap_evidence": "1"}', '{"gpumap_evidence": 99, "time": "x"}',
    '{"gpumap_evidence": 1}', '{"gpumap_evidence": 1, "time": "yesterday"}', '{"gpumap_evidence": true}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00"}', '"gpumap_evidence"', "gpumap_evidence",
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "devices": {}}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "devices": [1]}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "devices": [{"ordinal": -1}]}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "uses": 5}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "rank": 1e9}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "rank": NaN}',
    '{"gpumap_evidence": 1, "gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z"}',
    '{"gpumap_evidence": ' + "[" * 100_000,
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "host": "' + "x" * 300 + '"}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "reason": "' + "x" * 2_000_000 + '"}',
    '{"gpumap_evidence": 1, "time": "2026-03-01T12:00:00Z", "pid": ' + "9" * 5000 + "}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_damaged_line_is_reported_and_the_next_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text(text + "\n" + json.dumps(line()) + "\n")
    found = evidence_in(file)
    assert [(one.number, bool(one.reason)) for one in found.broken] == [(1, True)]
    assert [one.number for one in found.lines] == [2]
    assert all(len(one.reason) < 1000 for one in found.broken)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(bytes(range(256)) * 50 + b"\n" + json.dumps(line()).encode() + b"\r\n")
    assert len(evidence_in(file).lines) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GpumapError, match="cannot be read"):
        gm.read_evidence(tmp_path / "missing.jsonl")
    assert len(gm.read_evidence(f"{tmp_path}/missing*.jsonl")) == 0


def test_unknown_fields_of_a_later_release_do_no_harm(tmp_path: Path) -> None:
    append_evidence(tmp_path / "e.jsonl", line(colour="red", devices=[{"ordinal": 0, "colour": 5}]))
    assert len(evidence_in(tmp_path / "e.jsonl").lines) == 1


def test_no_heavy_package_for_reading_or_writing(build_dir: Path, tmp_path: Path) -> None:
    script = """
import sys
import gpumap_widgets as gm
from gpumap_widgets.evidence.reading import evidence_in
assert "pynvml" not in sys.modules
gm.log_evidence(sys.argv[1])
evidence_in(sys.argv[1]).findings
print(sorted({"torch", "pandas", "numpy", "plotly", "ipywidgets", "jupyter_client"} & set(sys.modules)))
"""
    env = simdriver.environment(MIXED, tmp_path, build_dir)
    assert run(env, script, str(tmp_path / "e.jsonl")).stdout == "[]\n"
    assert (tmp_path / "e.jsonl").stat().st_size < 8192
