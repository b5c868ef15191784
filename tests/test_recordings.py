"""Recordings: a run there and back, masked so that it compares as before, and hostile files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpumap_widgets as gm
from gpumap_widgets.errors import GpumapError, UnreadableRecording
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.identity import bare_uuid
from gpumap_widgets.mapping import Message, Observation, ObservedDevice, Prediction
from gpumap_widgets.recordings.saving import LIMIT, load_recording, save_recording
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED, SLICES, SOAK, predict, split


def seen(prediction: Prediction, order: tuple[int, ...] | None = None, **more: Any) -> Observation:
    """What a driver that agrees would show; ``order`` are positions where it does not."""
    process = prediction.processes[0]
    gpus = prediction.scenario.topology.gpus
    shown = [(d.gpu, d.mig) for d in process.devices] if order is None else [(gpus[i], None) for i in order]
    devices = tuple(
        ObservedDevice(i, bare_uuid((m or g).uuid or ""), g.name, g.pci_bus_id, g.memory_mib, g.compute_capability)
        for i, (g, m) in enumerate(shown)
    )
    given: dict[str, Any] = {
        "env": process.env,
        "wanted_env": process.env,
        "versions": FrozenDict({"torch": "2.14.1+cu130", "driver": "575.57.08"}),
        "seconds": FrozenDict({"kernel": 0.41, "total": 1.5}),
        "started": "2026-03-01T12:00:00+01:00",
        "kernel_name": "",
        "present": tuple((bare_uuid(g.uuid), g.pci_bus_id) if g.uuid else (None, None) for g in gpus),
    }
    return Observation(devices, **{**given, **more})


AGREED = predict(MIXED, "1,2")
LAUNCHED = resolve(Scenario.from_command(MIXED, "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc-per-node=2 t.py"))
SLICE = predict(split(), SLICES[1])
RUNS: dict[str, tuple[Prediction, Observation]] = {
    "confirmed": (AGREED, seen(AGREED)),
    "refuted": (AGREED, seen(AGREED, (1, 2))),
    "simulated": (AGREED, seen(AGREED, simulated=True)),
    "a launcher": (LAUNCHED, seen(LAUNCHED)),
    "a slice": (SLICE, seen(SLICE)),
    "nothing visible": (predict(MIXED, ""), seen(predict(MIXED, ""))),
    "no answer": (
        AGREED,
        seen(AGREED, (), problem=Message("live.cuinit", FrozenDict({"code": 999, "name": "CUDA_ERROR_UNKNOWN"}))),
    ),
    "overridden": (AGREED, seen(AGREED, env=FrozenDict({"CUDA_VISIBLE_DEVICES": "0"}))),
    "NVML was mute": (AGREED, seen(AGREED, present=None)),
    "odd text": (predict(MIXED, "\udcff<b>,é"), seen(predict(MIXED, "\udcff<b>,é"))),
    "a machine by names": (predict(Topology.of("Tesla T4", "4090"), "0"), seen(predict(Topology.of("4090"), "0"))),
}


@pytest.mark.parametrize("name", RUNS)
def test_there_and_back(tmp_path: Path, name: str) -> None:
    prediction, observation = RUNS[name]
    saved = save_recording(tmp_path / "run.json", prediction, observation)
    text = (tmp_path / "run.json").read_text(encoding="ascii")
    assert json.loads(text)["gpumap_recording"] == 1
    loaded = load_recording(tmp_path / "run.json")
    assert loaded == saved
    assert (loaded.prediction, loaded.observation) == (prediction, observation)
    then, now = gm.compare(prediction, observation), loaded.comparison
    assert (now.verdict, now.reason.text(), now.edges) == (then.verdict, then.reason.text(), then.edges)
    assert (loaded.verdict, loaded.reason, loaded.rules_changed) == (then.verdict, then.reason.text(), False)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "overridden"])
def test_masked_it_compares_as_before(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "secrethost")
    prediction, observation = RUNS[name]
    save_recording(tmp_path / "run.json", prediction, observation, salt="pepper")
    text = (tmp_path / "run.json").read_text()
    loaded = load_recording(tmp_path / "run.json")
    for gpu in prediction.scenario.topology.gpus:
        for uuid in filter(None, (gpu.uuid, *(mig.uuid for mig in gpu.mig_instances))):
            assert bare_uuid(uuid) not in text
    assert "secrethost" not in text
    assert loaded.mask is not None
    then, now = gm.compare(prediction, observation), loaded.comparison
    assert (now.verdict, [edge.verdict for edge in now.edges]) == (then.verdict, [edge.verdict for edge in then.edges])
    again = save_recording(tmp_path / "again.json", prediction, observation, salt="pepper")
    assert again.prediction == loaded.prediction
    other = save_recording(tmp_path / "other.json", prediction, observation, mask=True)
    assert other.mask != loaded.mask


def test_what_overrode_the_variables_stays_seen_when_masked(tmp_path: Path) -> None:
    save_recording(tmp_path / "run.json", *RUNS["overridden"], mask=True)
    assert load_recording(tmp_path / "run.json").comparison.reason.key == "compare.overridden"


def test_uuids_in_the_list_and_in_options_are_masked(tmp_path: Path) -> None:
    uuid = MIXED.gpus[1].uuid or ""
    command = f"CUDA_VISIBLE_DEVICES={uuid} torchrun --nproc-per-node=1 t.py"
    prediction = resolve(Scenario.from_command(MIXED, command))
    save_recording(tmp_path / "run.json", prediction, seen(prediction), mask=True)
    assert bare_uuid(uuid) not in (tmp_path / "run.json").read_text()
    assert load_recording(tmp_path / "run.json").comparison.verdict == "confirmed"


def test_secrets_are_never_in_it(tmp_path: Path) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "1,2", "SLURM_JWT": "hush", "NVIDIA_API_KEY": "hush"}
    prediction = resolve(Scenario.from_env(MIXED, env))
    save_recording(tmp_path / "run.json", prediction, seen(prediction))
    assert "hush" not in (tmp_path / "run.json").read_text()
    assert load_recording(tmp_path / "run.json").comparison.verdict == "confirmed"


def test_its_label_says_what_it_is(tmp_path: Path) -> None:
    for name, word in (("confirmed", "not a run of now"), ("simulated", "never of hardware")):
        recording = save_recording(tmp_path / "run.json", *RUNS[name])
        assert "2026-03-01 12:00" in str(recording.label)
        assert word in str(recording.label)
        assert str(recording).startswith(str(recording.label))


def test_a_change_of_the_rules_shows(tmp_path: Path) -> None:
    save_recording(tmp_path / "run.json", *RUNS["confirmed"])
    data = json.loads((tmp_path / "run.json").read_text())
    data["foretold"].reverse()
    (tmp_path / "run.json").write_text(json.dumps({**data, "release": "0.0.9"}))
    recording = load_recording(tmp_path / "run.json")
    assert recording.rules_changed
    assert "Release 0.0.9, which made it, foretold other devices" in str(recording)


def test_a_sentence_that_this_release_does_not_have(tmp_path: Path) -> None:
    save_recording(tmp_path / "run.json", *RUNS["no answer"])
    data = json.loads((tmp_path / "run.json").read_text())
    for key, fields in (("live.of-yesterday", {}), ("live.cuinit", {}), ("live.cuinit", {"code": {"text": "x"}})):
        data["observation"]["problem"] |= {"key": key, "fields": fields}
        (tmp_path / "run.json").write_text(json.dumps(data))
        problem = load_recording(tmp_path / "run.json").observation.problem
        assert problem is not None
        assert "cuInit 999" in problem.text()


# ---- files ----


def test_the_old_file_stays_where_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.json"
    file.write_text("precious")

    def full(self: Path, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(GpumapError, match="No space left"):
            save_recording(file, *RUNS["confirmed"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert file.read_text() == "precious"
    for path in (tmp_path / "missing" / "run.json", tmp_path, "nul\0"):
        with pytest.raises(GpumapError, match="cannot be written"):
            save_recording(path, *RUNS["confirmed"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
def test_a_full_device() -> None:
    with pytest.raises(GpumapError, match="No space left"):
        save_recording("/dev/full", *RUNS["confirmed"])


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    save_recording(tmp_path / "link.json", *RUNS["confirmed"])
    assert (tmp_path / "link.json").is_symlink()
    assert load_recording(tmp_path / "real.json").verdict == "confirmed"


# ---- hostile files ----


@pytest.fixture
def sound(tmp_path: Path) -> dict[str, Any]:
    save_recording(tmp_path / "run.json", *RUNS["a launcher"])
    return json.loads((tmp_path / "run.json").read_text())  # type: ignore[no-any-return]


def deep(key: str, levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"text": "x"}
    for _ in range(levels):
        found = {"key": key, "fields": {"first": found, "second": "x"}, "text": "x"}
    return found


Change = Callable[[dict[str, Any]], object]
HOSTILE: dict[str, Change] = {
    "no version": lambda d: d.pop("gpumap_recording"),
    "another version": lambda d: d.update(gpumap_recording=2),
    "a version that is none": lambda d: d.update(gpumap_recording=True),
    "no time": lambda d: d.pop("recorded"),
    "a time that is none": lambda d: d.update(recorded="yesterday"),
    "a time without a zone": lambda d: d.update(recorded="2026-03-01T12:00:00"),
    "no machine": lambda d: d.pop("topology"),
    "a machine that is none": lambda d: d.update(topology=[]),
    "one UUID twice": lambda d: d["topology"]["gpus"].__setitem__(1, d["topology"]["gpus"][0]),
    "a number where a text is": lambda d: d["topology"]["gpus"][0].update(name=5),
    "no layers": lambda d: d.pop("layers"),
    "layers that are none": lambda d: d.update(layers=[5]),
    "a layer without options": lambda d: d.update(layers=[{"kind": "environment"}]),
    "variables that are none": lambda d: d.update(layers=[{"kind": "environment", "options": {"set": {"A": 5}}}]),
    "too many layers": lambda d: d.update(layers=[{"kind": "environment", "options": {}}] * 65),
    "no observation": lambda d: d.pop("observation"),
    "devices that are none": lambda d: d["observation"].update(devices={"a": 1}),
    "a device without a number": lambda d: d["observation"].update(devices=[{}]),
    "a device with a wild number": lambda d: d["observation"].update(devices=[{"ordinal": 10**9}]),
    "a capability of three": lambda d: d["observation"]["devices"][0].update(compute_capability=[1, 2, 3]),
    "a capability of one": lambda d: d["observation"]["devices"][0].update(compute_capability=[1]),
    "variables with numbers": lambda d: d["observation"].update(env={"A": 5}),
    "a present GPU of one part": lambda d: d["observation"].update(present=[["x"]]),
    "a problem that is none": lambda d: d["observation"].update(problem="no"),
    "problems without an end": lambda d: d["observation"].update(problem=deep("compare.two", 60)),
    "foretold numbers": lambda d: d.update(foretold=[5]),
    "a long host": lambda d: d.update(host="x" * 256),
    "simulated by a number": lambda d: d["observation"].update(simulated=1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_recording_says_what_is_wrong(tmp_path: Path, sound: dict[str, Any], name: str) -> None:
    HOSTILE[name](sound)
    (tmp_path / "run.json").write_text(json.dumps(sound))
    with pytest.raises(UnreadableRecording) as caught:
        load_recording(tmp_path / "run.json")
    assert str(caught.value).startswith("The recording is damaged: ")
    assert len(str(caught.value)) < 1000
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no recording"),
        (b"hello", "no recording"),
        (b"\xff\xfe\x00", "no recording"),
        (b'{"gpumap_recording": 1', "no recording"),
        (b'{"gpumap_recording": 1, "gpumap_recording": 1}', "twice"),
        (b'{"a": ' + b"[" * 500_000, ""),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, ""),
        (b'{"gpumap_recording": NaN}', "no number"),
        (b"{" + b" " * (LIMIT + 1) + b"}", "longer than 4 MB"),
        (b'{"gpumap_capsule": 1, "topology": {}}', "no version"),
    ],
)
def test_files_that_are_none(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(UnreadableRecording) as caught:
        load_recording(tmp_path / "run.json")
    assert said in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path, "nul\0"):
        with pytest.raises(UnreadableRecording, match="cannot be read"):
            load_recording(path)


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every place in nested data."""
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [(data, key) for key, _ in items] + [place for _, value in items for place in _places(value)]


@pytest.mark.parametrize("seed", range(2000 if SOAK else 150))
def test_changed_anywhere_it_loads_or_says_why(tmp_path: Path, sound: dict[str, Any], seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(dice.randint(1, 3)):
        holder, key = dice.choice(_places(sound))
        if dice.random() < 0.2:
            del holder[key]
        else:
            odd = [
                None,
                True,
                -1,
                10**30,
                1.5,
                "",
                "x" * 300,
                "\udcff\x00",
                [],
                {},
                [[]],
                {"set": 5},
                {"kind": "torchrun"},
            ]
            holder[key] = dice.choice(odd)
        if not sound:
            break
    (tmp_path / "run.json").write_text(json.dumps(sound))
    try:
        recording = load_recording(tmp_path / "run.json")
    except UnreadableRecording:
        return
    str(recording)
    recording.comparison._repr_html_()


def test_a_layer_that_is_passed_over_stays_so(tmp_path: Path) -> None:
    scenario = Scenario(MIXED, (Layer("environment", {"set": {"CUDA_VISIBLE_DEVICES": "0"}}, enabled=False),))
    prediction = resolve(scenario)
    save_recording(tmp_path / "run.json", prediction, seen(prediction), mask=True)
    assert not load_recording(tmp_path / "run.json").prediction.scenario.layers[0].enabled
    save_recording(tmp_path / "run.json", prediction, replace(seen(prediction), kernel_name="mine"))
    assert load_recording(tmp_path / "run.json").observation.kernel_name == "mine"
