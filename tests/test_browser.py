"""The explorer in JupyterLab, in a real browser, as a person uses it; Live on the simulated driver."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import simdriver
from tests.lab import FLAGS, ROOT, Page, chromium, lab_server, notebook
from tests.live_tools import children, eventually, gone

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

T4_5E, RTX, T4_AF, T4_D8 = (gpu.uuid for gpu in simdriver.MIXED.gpus)


def sim_environment(folder: Path, machine: simdriver.SimMachine) -> dict[str, str]:
    """The environment of a process that sees a simulated machine; skips with the reason where it cannot be had."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.version.cuda is None:
        pytest.skip("torch is a CPU build")
    try:
        built = simdriver.build(simdriver.find_cuda_include(sys.executable))
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(f"no simulated driver: {exc}")
    base = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
    return simdriver.environment(machine, folder, built, base)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    if path is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=FLAGS)
        yield b
        b.close()


@pytest.fixture(scope="module")
def mixed_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab on the simulated mixed machine."""
    folder = tmp_path_factory.mktemp("lab")
    machine = tmp_path_factory.mktemp("machine")
    with lab_server(folder, sim_environment(machine, simdriver.MIXED)) as address:
        yield address, folder


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 1500})
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


def live(page: Page, seconds: int = 90) -> str:
    """Press Live, wait for the verdict of all witnesses, return what the panel says."""
    page.page.locator(".gpumap-live").first.click()
    open_tab(page, "Live")
    page.page.wait_for_function(
        "() => document.querySelector('.gpumap-view-live .gpumap-verdict strong')"
        " && !document.querySelector('.gpumap-view-live .gpumap-running')"
        " && document.querySelector('.gpumap-cancel').disabled",
        timeout=seconds * 1000,
    )
    return page.text(".gpumap-view-live")


def open_tab(page: Page, name: str) -> None:
    page.page.locator(".gpumap .lm-TabBar-tabLabel", has_text=re.compile(f"^{name}( \\(\\d+\\))?$")).first.click()


def wait_sentence(page: Page, start: str) -> None:
    page.page.wait_for_function(
        "t => document.querySelector('.gpumap-view-sentence').innerText.startsWith(t)", arg=start, timeout=60_000
    )
    page.settle(150)


def wait_uuids(page: Page, *uuids: str | None) -> None:
    """Wait until the table shows just these GPUs by ordinal; the front end draws one part after the other."""
    page.page.wait_for_function(
        "wanted => JSON.stringify([...document.querySelectorAll("
        "\".gpumap-view-table tbody tr:not(.gpumap-faded) td[title^='GPU-']\")].map(c => c.title)) === wanted",
        arg=json.dumps(uuids, separators=(",", ":")),
        timeout=60_000,
    )
    page.settle(400)


def wait_labels(page: Page, text: str, count: int = 1) -> None:
    """Wait until so many labels of the graph's own data hold a text: the graph is drawn last."""
    page.page.wait_for_function(
        "([text, count]) => document.querySelector('.gpumap-graph .js-plotly-plot').data[2].text"
        ".filter(t => t.includes(text)).length === count",
        arg=[text, count],
        timeout=60_000,
    )


def test_the_notebook_from_top_to_verdict(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    shutil.copy(ROOT / "notebooks" / "explorer.ipynb", folder / "explorer.ipynb")
    page = Page(tab, address, "explorer.ipynb")
    page.run_all()

    # this machine's own GPUs, nothing set
    assert page.sentence.startswith("cuda:0 is the RTX 4090 (nvidia-smi 1, bus 86), cuda:1 the Tesla T4 (nvidia-smi 0")
    assert [row[0] for row in page.table()] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    wait_uuids(page, RTX, T4_5E, T4_AF, T4_D8)
    assert any("128 SM × 2 = 256" in label for label in page.graph_labels())
    assert tab.locator(".jp-OutputArea", has_text="nvml_index").count() > 0  # to_frame() in the last cell
    page.shot("lab-unset", full=True)

    # the classic list, typed
    page.raw().fill("1,2")
    wait_sentence(page, "cuda:0 is the Tesla T4 (nvidia-smi 0")
    wait_uuids(page, T4_5E, T4_AF)
    assert page.tags()[:2] == ["1", "2"]
    wait_labels(page, "Tesla T4 · nvidia-smi 2")
    assert [x for x in page.graph_labels() if x.startswith("cuda:")] == [
        "cuda:0|Tesla T4 · nvidia-smi 0",
        "cuda:1|Tesla T4 · nvidia-smi 2",
    ]
    assert live(page).startswith("✓ Confirmed")
    assert "simulated" in page.text(".gpumap-view-live")
    open_tab(page, "Table")
    assert [row[-1] for row in page.table()][:2] == ["✓ agrees", "✓ agrees"]
    wait_labels(page, "as foretold", 2)
    page.shot("lab-confirmed")

    # the order toggled: another map, the old verdict gone
    page.choose(".gpumap-order", "PCI_BUS_ID")
    wait_sentence(page, "cuda:0 is the RTX 4090 (nvidia-smi 1")
    assert "Certain." in page.sentence
    wait_uuids(page, RTX, T4_AF)
    assert not any("agrees" in cell for row in page.table() for cell in row)
    assert live(page).startswith("✓ Confirmed")
    open_tab(page, "Table")

    # a tag dragged by its left edge: list order is the numbering
    tags = tab.locator(".gpumap-tags .jupyter-widget-tag")
    tags.nth(1).drag_to(tags.nth(0), source_position={"x": 3, "y": 8}, target_position={"x": 2, "y": 8})
    wait_sentence(page, "cuda:0 is the Tesla T4 (nvidia-smi 2")
    assert page.raw().input_value() == "2,1"
    wait_uuids(page, T4_AF, RTX)

    # a broken list is shown as it is
    page.raw().fill("2,1,9,0")
    wait_sentence(page, "cuda:0 is the Tesla T4 (nvidia-smi 2")
    tab.wait_for_selector(".gpumap-tokens .gpumap-stop")
    assert page.text(".gpumap-tokens .gpumap-stop") == "9"
    assert "there are only 4 GPUs" in page.text(".gpumap-tokens")
    assert page.raw().input_value() == "2,1,9,0"
    page.shot("lab-cut")
    page.raw().fill("1,1,3")
    wait_sentence(page, "No CUDA device is visible.")
    assert page.raw().input_value() == "1,1,3"
    assert live(page).startswith("✓ Confirmed")
    page.shot("lab-emptied")

    # a click on a GPU hides it
    page.choose(".gpumap-state", "unset")
    wait_sentence(page, "cuda:0 is the Tesla T4 (nvidia-smi 0")
    tab.locator(".gpumap-graph .js-plotly-plot .nsewdrag").click(position={"x": 90, "y": 88 + 54})
    wait_sentence(page, "cuda:0 is the Tesla T4 (nvidia-smi 0, bus 5E), cuda:1 the Tesla T4 (nvidia-smi 2")
    assert page.raw().input_value() == "0,2,3"

    # unset is not empty
    page.choose(".gpumap-state", "empty")
    wait_sentence(page, "No CUDA device is visible.")
    page.choose(".gpumap-state", "list")
    wait_sentence(page, "cuda:0 is the Tesla T4")
    assert page.raw().input_value() == "0,2,3"
    page.choose(".gpumap-order", "unset")
    page.raw().fill("1,2")
    wait_sentence(page, "cuda:0 is the Tesla T4")
    for name, said in (
        ("Steps", "Place 0"),
        ("Findings", "If you meant"),
        ("Other tools", "torch.cuda.utilization(0)"),
    ):
        open_tab(page, name)
        tab.wait_for_function("t => document.querySelector('.gpumap').innerText.includes(t)", arg=said)
        page.shot(f"lab-{name.lower().replace(' ', '-')}")
    assert page.errors == []


def test_typing_fast_loses_nothing(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    page = Page(
        tab,
        address,
        notebook(
            folder, "fast.ipynb", "import gpumap_widgets as gm\nexplorer = gm.Explorer(gm.preset('eight'))\nexplorer"
        ),
    )
    page.run_all()
    text = "7,6,5,4,3,2,1,0"
    page.raw().click()
    page.raw().press_sequentially(text, delay=15)
    wait_sentence(page, "cuda:0 is the A100-SXM4-80GB (nvidia-smi 7")
    tab.wait_for_function(
        "() => document.querySelectorAll('.gpumap-view-table tbody tr:not(.gpumap-faded)').length === 8"
    )
    assert page.raw().input_value() == text
    assert page.tags()[:8] == text.split(",")
    assert [row[1] for row in page.table()] == text.split(",")
    assert page.errors == []


def test_two_explorers_do_not_touch_each_other(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    name = notebook(
        folder,
        "two.ipynb",
        "import gpumap_widgets as gm\na = gm.Explorer(gm.preset('three'))\na",
        "b = gm.Explorer(gm.preset('mixed'))\nb",
    )
    tab.set_viewport_size({"width": 1400, "height": 2600})
    page = Page(tab, address, name)
    page.run_all()
    tab.wait_for_function("() => document.querySelectorAll('.gpumap-view-sentence .gpumap-sentence').length === 2")
    second = tab.locator(".gpumap-view-sentence").nth(1).inner_text()
    page.raw().first.fill("2")
    wait_sentence(page, "cuda:0 is the RTX 3090 (nvidia-smi 1")
    assert tab.locator(".gpumap-view-sentence").nth(1).inner_text() == second
    assert tab.locator(".gpumap-raw input").nth(1).input_value() == ""
    assert page.errors == []


def test_pasted_machine_and_other_presets(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    page = Page(
        tab, address, notebook(folder, "paste.ipynb", "import gpumap_widgets as gm\nexplorer = gm.Explorer()\nexplorer")
    )
    page.run_all()
    tab.locator(".gpumap-machine select").select_option(label="RTX 3090, RTX 3090, RTX 4090")
    wait_sentence(page, "cuda:0 is the RTX 4090 (nvidia-smi 2")
    assert "Not checked" in live(page)  # the machine that is here is another one
    tab.locator(".gpumap-paste-toggle").click()
    box = tab.locator(".gpumap-paste textarea")
    box.fill("not a listing")
    tab.locator(".gpumap-read").click()
    tab.wait_for_selector(".gpumap-view-notice .gpumap-note")
    assert "nvidia-smi" in page.text(".gpumap-view-notice")
    assert box.input_value() == "not a listing"  # nothing of the user's is lost
    box.fill(
        "GPU 0: NVIDIA GeForce RTX 3060 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
        "GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-66666666-7777-8888-9999-aaaaaaaaaaaa)\n"
    )
    tab.locator(".gpumap-read").click()
    wait_sentence(page, "cuda:0 is the RTX 4090 (nvidia-smi 1)")
    page.shot("lab-pasted")
    assert page.errors == []


def sim_cell(folder: Path, machine: simdriver.SimMachine) -> str:
    """A first cell that puts this kernel, and what it starts, on another simulated machine."""
    path = folder / f"machine-{abs(hash(machine))}.txt"
    path.write_text(machine.text(), encoding="utf-8")
    return f"import os\nos.environ['GPUMAP_SIM_MACHINE'] = {str(path)!r}\n"


def test_cancel_and_edit_stop_a_run(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    cell = sim_cell(folder, replace(simdriver.MIXED, cuinit_hang=True))
    page = Page(
        tab,
        address,
        notebook(folder, "hang.ipynb", f"{cell}import gpumap_widgets as gm\nexplorer = gm.Explorer()\nexplorer"),
    )
    page.run_all()
    tab.locator(".gpumap-live").first.click()
    open_tab(page, "Live")
    tab.wait_for_function("() => /Running: [2-9]/.test(document.querySelector('.gpumap-view-live').innerText)")
    page.raw().fill("1")  # the notebook stays usable, and the edit takes the run back
    tab.wait_for_function("() => /settings changed/.test(document.querySelector('.gpumap-view-live').innerText)")
    tab.locator(".gpumap-live").first.click()
    tab.wait_for_function("() => /Running/.test(document.querySelector('.gpumap-view-live').innerText)")
    page.settle(1500)
    tab.locator(".gpumap-cancel").first.click()
    tab.wait_for_selector(".gpumap-view-live .gpumap-verdict strong")
    assert "Not checked" in page.text(".gpumap-view-live")
    page.shot("lab-cancelled")
    assert page.errors == []


def test_refuted_by_a_driver_that_orders_otherwise(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    cell = sim_cell(folder, replace(simdriver.MIXED, default_order=(0, 1, 2, 3)))
    page = Page(
        tab,
        address,
        notebook(folder, "r.ipynb", f"{cell}import gpumap_widgets as gm\nexplorer = gm.Explorer()\nexplorer"),
    )
    page.run_all()
    assert live(page).startswith("✗ Refuted")
    page.shot("lab-refuted")
    open_tab(page, "Table")
    verdicts = [row[-1] for row in page.table()]
    assert verdicts == ["✗ differs", "✗ differs", "✓ agrees", "✓ agrees"]
    wait_labels(page, "seen: ", 2)
    assert page.errors == []


def _runs_of(page: Page) -> set[int]:
    """Processes that the notebook's kernel has started."""
    output = page.page.locator(".jp-OutputArea", has_text=re.compile(r"kernel \d+")).first.inner_text()
    found = re.search(r"kernel (\d+)", output)
    assert found is not None
    return children(int(found[1]))


def test_a_reload_and_a_restart_in_the_middle_of_a_run(mixed_lab: tuple[str, Path], tab: Any) -> None:
    address, folder = mixed_lab
    cell = sim_cell(folder, replace(simdriver.MIXED, cuinit_delay_ms=4000))
    code = f"{cell}print('kernel', os.getpid())\nimport gpumap_widgets as gm\nexplorer = gm.Explorer()\nexplorer"
    page = Page(tab, address, notebook(folder, "restart.ipynb", code))
    page.run_all()
    tab.keyboard.press("Control+s")
    page.settle(1000)
    tab.locator(".gpumap-live").first.click()
    assert eventually(lambda: len(_runs_of(page)) >= 2)  # the driver's child and torch's kernel
    tab.reload()
    tab.wait_for_selector(".gpumap-view-sentence .gpumap-sentence", timeout=90_000, state="attached")
    open_tab(page, "Live")
    tab.wait_for_selector(".gpumap-view-live .gpumap-verdict strong", timeout=60_000)
    tab.wait_for_function(
        "() => document.querySelectorAll('.gpumap-view-live td.gpumap-agrees').length === 8", timeout=60_000
    )
    assert page.text(".gpumap-view-live").startswith("✓ Confirmed")
    page.shot("lab-live-reloaded")
    tab.locator(".gpumap-live").first.click()
    assert eventually(lambda: len(_runs_of(page)) >= 2)
    theirs = _runs_of(page)
    tab.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Kernel$")).click()
    tab.locator(".lm-Menu-itemLabel", has_text=re.compile("^Restart Kernel…$")).click()
    tab.locator(".jp-Dialog button", has_text="Restart").click()
    assert eventually(lambda: all(gone(pid) for pid in theirs), 15.0)


@pytest.mark.parametrize(("theme", "width"), [("JupyterLab Dark", 1400), ("JupyterLab Light", 760)])
def test_dark_and_narrow(mixed_lab: tuple[str, Path], browser: Any, theme: str, width: int) -> None:
    address, folder = mixed_lab
    settings = folder / ".home" / "settings" / "@jupyterlab" / "apputils-extension"
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    context = browser.new_context(viewport={"width": width, "height": 1500})
    try:
        cell = "import gpumap_widgets as gm\ngm.Explorer(gm.Scenario.from_env(gm.preset('mixed'), {'CUDA_VISIBLE_DEVICES': '1,2,x,0'}))"
        page = Page(context.new_page(), address, notebook(folder, "look.ipynb", cell))
        page.run_all()
        page.settle(500)
        page.shot(f"lab-{'dark' if 'Dark' in theme else 'narrow'}")
        colours = page.page.evaluate(
            "() => ['.gpumap-view-sentence strong', '.gpumap-graph text'].map(css => {"
            " const e = document.querySelector(css), s = getComputedStyle(e);"
            " return css.endsWith('text') ? s.fill : s.color; })"
        )
        assert colours[0] == colours[1]  # the drawing follows the theme
        inside = page.page.evaluate(
            "() => { const box = document.querySelector('.gpumap'); return box.scrollWidth <= box.clientWidth + 1; }"
        )
        assert inside  # what is too wide scrolls inside its own box
        assert page.errors == []
    finally:
        (settings / "themes.jupyterlab-settings").unlink()
        context.close()
