"""The explorer without a browser: binding, one render an edit, close leaves nothing, threads, messages."""

from __future__ import annotations

import html as html_module
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

import gpumap_widgets as gm
from gpumap_widgets.live.run import Run
from gpumap_widgets.sources import nvml
from gpumap_widgets.sources.presets import PRESETS
from gpumap_widgets.widgets import explorer as explorer_module
from gpumap_widgets.widgets import live as live_panel
from gpumap_widgets.widgets import machine as machine_picker

SMI_LIST = """GPU 0: NVIDIA GeForce RTX 3060 (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-66666666-7777-8888-9999-aaaaaaaaaaaa)
"""


@pytest.fixture
def explorer() -> Iterator[Any]:
    e = gm.Explorer(gm.preset("mixed"))
    yield e
    e.close()


def widget(explorer: Any, name: str) -> Any:
    return explorer._controls[name].widget


def open_tab(explorer: Any, name: str) -> None:
    explorer._tabs.selected_index = explorer_module._TABS.index(name)


def view(explorer: Any, name: str) -> str:
    return str(explorer._html[name].value)


def test_starts_with_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> gm.Topology:
        raise gm.NoDriver("none here")

    monkeypatch.setattr(nvml, "this_machine", no_driver)
    for given, names in ((None, PRESETS["mixed"].names), (gm.preset("three"), PRESETS["three"].names)):
        e = gm.Explorer(given)
        assert tuple(g.name for g in e.scenario.topology.gpus) == names
        e.close()
    scenario = gm.Scenario.from_env(gm.preset("three"), {"CUDA_VISIBLE_DEVICES": "2"})
    e = gm.Explorer(scenario)
    assert e.scenario == scenario
    assert e.prediction.nvml_indices == (1,)
    e.close()
    with pytest.raises(TypeError, match="not str"):
        gm.Explorer("mixed")


def test_this_machine_when_it_has_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "this_machine", lambda: gm.preset("three"))
    e = gm.Explorer()
    assert widget(e, "machine").value == "this"
    assert len(e.scenario.topology.gpus) == 3
    e.close()


@pytest.mark.parametrize(
    ("name", "value", "order", "visible", "indices"),
    [
        ("raw", "1,2", None, "1,2", (0, 2)),
        ("raw", "1,1,3", None, "1,1,3", ()),
        ("tags", ["2", "0"], None, "2,0", (2, 1)),
        ("order", "PCI_BUS_ID", "PCI_BUS_ID", None, (0, 1, 2, 3)),
        ("order", "FASTEST_FIRST", "FASTEST_FIRST", None, (1, 0, 2, 3)),
        ("state", "empty", None, "", ()),
        ("state", "list", None, "0,1,2,3", (1, 0, 2, 3)),
    ],
)
def test_one_edit_one_render(explorer: Any, name: str, value: Any, order: Any, visible: Any, indices: Any) -> None:
    before = explorer._store.renders
    widget(explorer, name).value = value
    assert explorer._store.renders == before + 1
    assert (explorer.scenario.device_order, explorer.scenario.visible_devices) == (order, visible)
    assert explorer.prediction.nvml_indices == indices
    assert widget(explorer, "raw").value == (visible or "")
    assert list(widget(explorer, "tags").value) == (visible.split(",") if visible else [])
    assert widget(explorer, "order").value == order
    assert widget(explorer, "state").value == ("unset" if visible is None else "list" if visible else "empty")


def test_the_raw_text_is_kept_to_the_letter(explorer: Any) -> None:
    for text in (" 0, 1", "0,,1", "1gpu2", "GPU-b1e1", "é,0", "'0,1'", ","):
        widget(explorer, "raw").value = text
        assert explorer.scenario.visible_devices == text
        assert widget(explorer, "raw").value == text
        assert ",".join(tag.replace("∅", "") for tag in widget(explorer, "tags").value) == text


def test_an_empty_entry_shows_as_a_tag_and_stays_empty(explorer: Any) -> None:
    widget(explorer, "raw").value = "0,,1"
    assert list(widget(explorer, "tags").value) == ["0", "∅", "1"]
    widget(explorer, "tags").value = ["1", "∅", "0"]
    assert explorer.scenario.visible_devices == "1,,0"
    widget(explorer, "raw").value = "∅,,1"  # a value that holds the sign itself is not misread
    assert list(widget(explorer, "tags").value) == ["∅", "∅∅", "1"]
    widget(explorer, "tags").value = ["1", "∅", "∅∅"]
    assert explorer.scenario.visible_devices == "1,∅,"


def test_a_list_too_long_for_tags_is_kept_as_text(explorer: Any) -> None:
    text = ",".join(map(str, range(5000)))
    widget(explorer, "raw").value = text
    assert list(widget(explorer, "tags").value) == []
    widget(explorer, "tags").value = ["1"]
    assert explorer.scenario.visible_devices == text
    assert len(view(explorer, "tokens")) < 20_000


def test_unset_is_not_empty(explorer: Any) -> None:
    widget(explorer, "raw").value = "3"
    widget(explorer, "raw").value = ""  # the list was deleted: the variable is now set to nothing
    assert explorer.scenario.visible_devices == ""
    assert widget(explorer, "state").value == "empty"
    widget(explorer, "state").value = "unset"
    assert explorer.scenario.visible_devices is None
    assert explorer.prediction.nvml_indices == (1, 0, 2, 3)
    widget(explorer, "state").value = "list"  # the list that was put away comes back
    assert explorer.scenario.visible_devices == "3"


def test_an_undocumented_order_has_a_button_of_its_own(explorer: Any) -> None:
    explorer.scenario = explorer.scenario.with_env(CUDA_DEVICE_ORDER="pci_bus_id")
    assert widget(explorer, "order").value == "pci_bus_id"
    assert explorer.prediction.certainty == "unknown"
    widget(explorer, "order").value = None
    assert [label for label, _ in widget(explorer, "order").options] == ["unset", "FASTEST_FIRST", "PCI_BUS_ID"]


def test_traits_can_be_set_and_observed(explorer: Any) -> None:
    seen = []
    explorer.observe(lambda change: seen.append(change.new.nvml_indices), "prediction")
    explorer.scenario = gm.Scenario.from_env(gm.preset("three"), {"CUDA_VISIBLE_DEVICES": "0"})
    assert seen == [(2,)]
    assert widget(explorer, "raw").value == "0"
    assert "RTX 4090" in view(explorer, "sentence")


def test_machines(explorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    picker = explorer._machine
    widget(explorer, "raw").value = "0"
    widget(explorer, "machine").value = "eight"
    assert len(explorer.scenario.topology.gpus) == 8
    assert explorer.scenario.visible_devices == "0"  # the settings stay when the machine changes

    def no_driver() -> gm.Topology:
        raise gm.NoDriver("No driver here.", remedy="Paste instead.")

    monkeypatch.setattr(machine_picker, "this_machine", no_driver)
    widget(explorer, "machine").value = "this"
    assert "No driver here." in view(explorer, "notice")
    assert widget(explorer, "machine").value == "eight"  # nothing is lost
    assert len(explorer.scenario.topology.gpus) == 8

    picker.text.value = "hello"
    picker.read.click()
    assert "gpumap-note" in view(explorer, "notice")
    assert len(explorer.scenario.topology.gpus) == 8
    assert picker.text.value == "hello"
    picker.text.value = SMI_LIST
    picker.read.click()
    assert widget(explorer, "machine").value == "pasted"
    assert explorer.prediction.nvml_indices == (1,)
    widget(explorer, "machine").value = "mixed"
    widget(explorer, "machine").value = "pasted"  # and back to the pasted one
    assert len(explorer.scenario.topology.gpus) == 2


def test_pasting_previews_and_a_second_paste_fills(explorer: Any) -> None:
    picker = explorer._machine
    picker.text.value = "0, NVIDIA GeForce RTX 3060, 00000000:01:00.0, 12288 MiB\n1, NVIDIA GeForce RTX 4090, 00000000:02:00.0, 24564 MiB"
    picker.read.click()
    assert "line 1" in picker.preview.value
    assert "not in the text" in picker.preview.value  # no UUIDs
    assert [g.uuid for g in explorer.scenario.topology.gpus] == [None, None]
    picker.text.value = SMI_LIST
    picker.add.click()
    assert [g.uuid[:8] for g in explorer.scenario.topology.gpus] == ["GPU-1111", "GPU-6666"]
    assert explorer.scenario.topology.gpus[1].pci_bus_id == "00000000:02:00.0"
    picker.text.value = SMI_LIST.replace("RTX 3060", "RTX 2080").replace("GPU-1", "GPU-2")
    picker.add.click()  # another machine: refused, nothing lost
    assert explorer.scenario.topology.gpus[0].name == "NVIDIA GeForce RTX 3060"
    assert "gpumap-note" in view(explorer, "notice")


def test_a_lazy_tab_is_written_when_it_opens(explorer: Any) -> None:
    assert view(explorer, "tools") == ""
    open_tab(explorer, "tools")
    assert "torch.cuda.utilization" in view(explorer, "tools")
    assert "by compute capability" in view(explorer, "tools")
    widget(explorer, "raw").value = "1,2"
    assert "torch.cuda.utilization(0) reads nvidia-smi 1 (RTX 4090), cuda:0 is nvidia-smi 0 (Tesla T4)" in view(
        explorer, "tools"
    )
    explorer._tabs.selected_index = 1
    assert view(explorer, "tools") == ""
    assert "ends the list" not in view(explorer, "steps")
    widget(explorer, "raw").value = "1,9"
    assert "ends the list" in view(explorer, "steps")


def test_a_press_that_overtakes_its_text(explorer: Any) -> None:
    picker = explorer._machine
    picker.text.value = "not a listing"
    picker.read.click()
    picker.read.click()  # the text of this press is still under way
    picker.text.value = SMI_LIST
    assert len(explorer.scenario.topology.gpus) == 2
    picker._press = (float("-inf"), False)
    picker.text.value = SMI_LIST + "GPU 2: NVIDIA T4 (UUID: GPU-66666666-7777-8888-9999-aaaaaaaaaaab)"
    assert len(explorer.scenario.topology.gpus) == 2  # nobody asked for this one


def test_a_capsule_is_saved_and_loaded(explorer: Any) -> None:
    picker = explorer._machine
    widget(explorer, "raw").value = "1,2"
    assert picker.save.value == ""
    picker.toggle.value = True
    link = re.search(r'href="data:application/json,([^"]*)"', picker.save.value)
    text = unquote(html_module.unescape(link.group(1)))
    capsule = gm.Capsule.from_json(text)
    assert capsule.topology == explorer.scenario.topology
    assert capsule.env == {"CUDA_VISIBLE_DEVICES": "1,2"}
    widget(explorer, "machine").value = "eight"
    picker.load.value = [
        {
            "name": "capsule.json",
            "type": "application/json",
            "size": len(text),
            "content": text.encode(),
            "last_modified": datetime.now(UTC),
        }
    ]
    assert explorer.scenario.topology == capsule.topology
    assert widget(explorer, "machine").value == "pasted"
    picker.load.value = [
        {"name": "x", "type": "", "size": 4, "content": b"\xff\x00{]", "last_modified": datetime.now(UTC)}
    ]
    assert explorer.scenario.topology == capsule.topology  # unreadable: said, and nothing lost
    assert "gpumap-note" in view(explorer, "notice")


def test_refresh_asks_this_machine_again(explorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = iter([gm.preset("three"), gm.preset("laptop")])
    monkeypatch.setattr(machine_picker, "this_machine", lambda: next(machines))
    explorer._machine.refresh.click()
    assert (widget(explorer, "machine").value, len(explorer.scenario.topology.gpus)) == ("this", 3)
    explorer._machine.refresh.click()
    assert len(explorer.scenario.topology.gpus) == 1


def test_a_click_hides_and_shows(explorer: Any) -> None:
    explorer._clicked(1)
    assert explorer.scenario.visible_devices == "1,2,3"
    explorer._clicked(1)
    assert explorer.scenario.visible_devices == "1,2,3,0"
    widget(explorer, "raw").value = "1,1"
    explorer._clicked(0)
    assert explorer.scenario.visible_devices == "1,1"
    assert "correct the entry" in view(explorer, "notice")


def test_hostile_text_is_escaped_everywhere() -> None:
    evil = "<img src=x onerror=alert(1)>&\"'"
    e = gm.Explorer(
        gm.Scenario.from_env(
            gm.Topology.of(evil, evil), {"CUDA_VISIBLE_DEVICES": f"0,{evil}", "CUDA_DEVICE_ORDER": evil}
        )
    )
    for name in ("table", "steps", "findings", "tools"):
        open_tab(e, name)
        for shown in (name, "tokens", "sentence"):
            assert view(e, shown)
            assert "<img" not in view(e, shown)
    texts = [t for trace in e._figure.data for t in (*(trace.text or ()), *(trace.hovertext or ()))]
    assert not [t for t in texts if "<img" in t]
    e.close()


@pytest.mark.parametrize("gpus", [0, 1, 4, 16, 64])
def test_any_number_of_gpus(gpus: int) -> None:
    e = gm.Explorer(gm.Topology.of(*["RTX 4090"] * gpus))
    widget(e, "raw").value = ",".join(map(str, range(gpus + 3)))
    assert len(e.prediction.nvml_indices) == gpus
    e.close()


def test_close_leaves_no_widget_and_no_thread() -> None:
    widgets, threads = set(_instances), threading.active_count()
    for _ in range(3):
        e = gm.Explorer(gm.preset("eight"))
        widget(e, "raw").value = "3,1"
        widget(e, "machine").value = "three"
        e.close()
    assert set(_instances) == widgets
    assert threading.active_count() == threads


def test_two_explorers_do_not_touch_each_other() -> None:
    a, b = gm.Explorer(gm.preset("mixed")), gm.Explorer(gm.preset("mixed"))
    widget(a, "raw").value = "1"
    assert b.scenario.visible_devices is None
    a.close()
    widget(b, "raw").value = "2"
    assert b.prediction.nvml_indices == (2,)
    b.close()


def test_edits_from_many_threads_end_in_one_consistent_state(explorer: Any) -> None:
    def work(start: int) -> None:
        for i in range(10):
            explorer.scenario = explorer.scenario.with_env(CUDA_VISIBLE_DEVICES=str((start + i) % 4))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert explorer.prediction.scenario == explorer.scenario
    assert widget(explorer, "raw").value == explorer.scenario.visible_devices


def test_messages_of_an_edit(explorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    original = ipywidgets.Widget._send

    def record(self: Any, msg: Any, buffers: Any = None) -> None:
        sent.append(type(self).__name__)
        original(self, msg, buffers)

    monkeypatch.setattr(ipywidgets.Widget, "_send", record)
    widget(explorer, "raw").value = "1,2"
    assert sent.count("FigureWidget") <= 4
    assert len(sent) <= 24, sent


class FakeRun(Run):
    """Stands in for a run, so that the panel's own logic can be tested without a process."""

    def __init__(self, prediction: Any, on_done: Any) -> None:
        self.prediction, self.on_done = prediction, on_done
        self.cancelled, self.observation, self.driver, self.for_so_long = False, None, None, 1.0
        self.over = threading.Event()

    @property
    def elapsed(self) -> float:
        return self.for_so_long

    def start(self) -> FakeRun:
        return self

    def cancel(self) -> None:
        self.cancelled = True
        self.finish(gm.Observation(problem=gm.Message("live.cancelled", {"seconds": 1})))

    def wait(self, timeout: float | None = None) -> bool:
        return self.over.wait(timeout)

    def finish(self, observation: Any) -> None:
        if not self.over.is_set():
            self.observation = observation
            self.over.set()
            self.on_done(self)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    made: list[FakeRun] = []

    def run_for(
        prediction: Any, _kernel: Any, _timeout: float, *, on_done: Any, on_driver: Any, spares: Any, worker: int
    ) -> FakeRun:
        made.append(FakeRun(prediction, on_done))
        made[-1].on_driver = on_driver
        return made[-1]

    monkeypatch.setattr(live_panel, "run_for", run_for)
    monkeypatch.setattr(live_panel.SPARES, "renew", lambda: None)
    return made


def seen_on_mixed(prediction: Any) -> gm.Observation:
    devices = tuple(
        gm.ObservedDevice(
            d.ordinal, d.gpu.uuid[4:], d.gpu.name, d.gpu.pci_bus_id, d.gpu.memory_mib, d.gpu.compute_capability
        )
        for d in prediction.processes[0].devices
    )
    return gm.Observation(devices, env=prediction.processes[0].env, wanted_env=prediction.processes[0].env)


def test_live_shows_the_verdict_and_an_edit_drops_it(explorer: Any, runs: list[FakeRun]) -> None:
    panel = explorer._live
    panel.start.click()
    assert not panel.cancel.disabled
    assert "Running" in panel.progress.value
    runs[0].finish(seen_on_mixed(explorer.prediction))
    assert explorer.comparison.verdict == "confirmed"
    assert "Confirmed" in panel.view.value
    assert "agrees" in view(explorer, "table")
    assert panel.cancel.disabled
    widget(explorer, "raw").value = "1"
    assert explorer.comparison is None
    assert "agrees" not in view(explorer, "table")
    assert "Confirmed" not in panel.view.value


def test_an_edit_takes_a_run_back(explorer: Any, runs: list[FakeRun]) -> None:
    explorer._live.start.click()
    widget(explorer, "raw").value = "1"
    assert runs[0].cancelled
    assert explorer.comparison is None
    assert "settings changed" in explorer._live.view.value


def test_a_press_that_overtakes_its_edit_runs_the_edit(explorer: Any, runs: list[FakeRun]) -> None:
    explorer._live.start.click()
    runs[0].for_so_long = 0.1
    widget(explorer, "raw").value = "1"
    assert [run.cancelled for run in runs] == [True, False]
    assert runs[1].prediction == explorer.prediction
    runs[1].finish(seen_on_mixed(explorer.prediction))
    assert explorer.comparison.verdict == "confirmed"


def test_the_last_press_wins(explorer: Any, runs: list[FakeRun]) -> None:
    for _ in range(5):
        explorer._live.start.click()
    assert [run.cancelled for run in runs] == [True, True, True, True, False]
    runs[-1].finish(seen_on_mixed(explorer.prediction))
    assert explorer.comparison.verdict == "confirmed"


def test_the_driver_is_shown_before_torch(explorer: Any, runs: list[FakeRun]) -> None:
    panel = explorer._live
    panel.start.click()
    both = seen_on_mixed(explorer.prediction)
    runs[0].driver = replace(both, witness="driver")
    runs[0].on_driver(runs[0])
    assert explorer.comparison.verdict == "confirmed"
    assert [part.observation.witness for part in explorer.comparison.each] == ["driver"]
    panel._say_running(runs[0])
    assert "The driver has answered" in panel.progress.value
    runs[0].finish(replace(both, others=(runs[0].driver,)))
    assert [part.observation.witness for part in explorer.comparison.each] == ["driver", "torch"]
    assert panel.progress.value == ""


def test_a_footprint_joins_what_was_heard(explorer: Any, runs: list[FakeRun], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_on_mixed(explorer.prediction)
    explorer._live.start.click()
    runs[0].finish(seen)
    marks: list[FakeRun] = []
    made = lambda env, limit, on_done: marks.append(FakeRun(None, on_done)) or marks[-1]  # noqa: E731
    monkeypatch.setattr(live_panel, "Mark", made)
    explorer._live.footprint.click()
    assert explorer.comparison is not None, "what was heard stays while it runs"
    marks[0].finish(replace(seen, witness="footprint"))
    assert [part.observation.witness for part in explorer.comparison.each] == ["footprint", "torch"]
    assert explorer.comparison.verdict == "confirmed"


def test_a_launcher_is_offered_where_there_is_one(explorer: Any) -> None:
    panel = explorer._live
    assert panel.launch.layout.display == "none"
    machine = explorer.scenario.topology
    explorer.scenario = gm.Scenario.from_command(machine, "CUDA_VISIBLE_DEVICES=1 torchrun --nproc-per-node=2 t.py")
    assert (panel.launch.layout.display, panel.launch.description) == (None, "Start torchrun")
    explorer.scenario = gm.Scenario.from_command(machine, "docker run --gpus all image torchrun t.py")
    assert panel.launch.layout.display == "none"


def test_cancel_and_close(explorer: Any, runs: list[FakeRun]) -> None:
    explorer._live.start.click()
    explorer._live.cancel.click()
    assert runs[0].cancelled
    assert explorer.comparison.verdict == "not checked"
    explorer._live.start.click()
    explorer.close()
    assert runs[1].cancelled
