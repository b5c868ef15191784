"""JupyterLab in a real browser, for the tests: a server on loopback, chromium, and what a person would do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = ROOT / "artifacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium() -> str | None:
    """The system's chromium; a browser of its own is never downloaded."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def lab_server(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """A JupyterLab on loopback with its own settings folder; yields its address."""
    port = free_port()
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    overrides = home / "settings" / "@jupyterlab" / "apputils-extension"
    overrides.mkdir(parents=True, exist_ok=True)
    (overrides / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    settings = {
        **(env or os.environ),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "GPUMAP_CACHE_DIR": "",  # no order that another test saw
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url=None"]
    log = (folder / "lab.log").open("w")
    process = subprocess.Popen(command, env=settings, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api/status", timeout=2).close()
                break
            if process.poll() is not None:
                raise RuntimeError((folder / "lab.log").read_text())
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def notebook(folder: Path, name: str, *cells: str) -> str:
    """Write a notebook with kernelspec metadata (without it a dialog opens); returns its name."""
    data = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "cells": [
            {
                "id": f"c{i}",
                "cell_type": "code",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": source,
            }
            for i, source in enumerate(cells)
        ],
    }
    (folder / name).write_text(json.dumps(data), encoding="utf-8")
    return name


class Page:
    """A notebook in the browser, with the explorer in it."""

    def __init__(self, page: Any, address: str, name: str) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on(
            "console",
            lambda m: (
                self.errors.append(m.text + " " + str([a.evaluate("e => e && e.stack || String(e)") for a in m.args]))
                if m.type == "error"
                else None
            ),
        )
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.get_by_text(re.compile(r"\| Idle$")).first.wait_for(timeout=60_000)  # the status bar: a kernel is there

    def run_all(self) -> None:
        """Run every cell and wait until the explorer stands."""
        self.page.locator(".jp-Notebook .jp-Cell").first.click()
        self.page.keyboard.press("Escape")
        self.page.locator("text=Run").first.click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(r"^Run All Cells$")).click()
        for css in (".gpumap-view-sentence .gpumap-sentence", ".gpumap-graph .js-plotly-plot .textpoint"):
            self.page.wait_for_selector(css, timeout=90_000, state="attached")  # it may be out of sight
        self.settle()

    def settle(self, ms: int = 250) -> None:
        """Wait until nothing has been drawn for a moment."""
        self.page.wait_for_timeout(ms)

    def text(self, css: str) -> str:
        return str(self.page.locator(css).first.inner_text())

    @property
    def sentence(self) -> str:
        return self.text(".gpumap-view-sentence")

    def table(self) -> list[list[str]]:
        return self.page.eval_on_selector_all(
            ".gpumap-view-table tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText.trim()))"
        )

    def graph_labels(self) -> list[str]:
        """The labels of the figure's own data, without markup."""
        raw = self.page.evaluate("document.querySelector('.gpumap-graph .js-plotly-plot').data[2].text")
        return [re.sub(r"<[^>]*>", "", text.replace("<br>", "|")) for text in raw]

    def choose(self, css: str, label: str) -> None:
        self.page.locator(f"{css} label", has_text=re.compile(f"^{re.escape(label)}$")).locator("input").click()

    def raw(self) -> Any:
        return self.page.locator(".gpumap-raw input")

    def tags(self) -> list[str]:
        return [t.strip() for t in self.page.locator(".gpumap-tags .jupyter-widget-tag").all_inner_texts()]

    def shot(self, name: str, full: bool = False) -> Path:
        ARTEFACTS.mkdir(exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        target = self.page if full else self.page.locator(".gpumap").first
        target.screenshot(path=str(path))
        return path
