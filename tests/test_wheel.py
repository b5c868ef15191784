"""The built wheel works outside the checkout, in an empty environment, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.lab import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(600)]

PROGRAM = """
import gpumap_widgets as gm
assert "site-packages" in gm.__file__, gm.__file__
machine = gm.preset("mixed")
prediction = gm.resolve(gm.Scenario.from_env(machine, {"CUDA_VISIBLE_DEVICES": "1,2"}))
assert prediction.nvml_indices == (0, 2)
assert list(prediction.to_frame()["ordinal"].dropna()) == [0, 1]
assert gm.Topology.from_text("GPU 0: Tesla T4 (UUID: GPU-a0e15e00-0000-4000-8000-000000000000)").gpus[0].name == "Tesla T4"
explorer = gm.Explorer(machine)
explorer.scenario = explorer.scenario.with_env(CUDA_DEVICE_ORDER="PCI_BUS_ID")
assert explorer.prediction.nvml_indices == (0, 1, 2, 3)
explorer.close()
seen = gm.observe(prediction, timeout=60)
assert seen.problem is not None, seen
print(seen.problem)
"""


def test_the_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"gpumap_widgets/catalog.csv", "gpumap_widgets/py.typed", "gpumap_widgets/live/probe.py"} <= set(names)
    assert not [n for n in names if n.startswith(("tests/", "notebooks/", "benchmarks/"))]
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel), "ipykernel"], check=True, capture_output=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    run = subprocess.run(
        [python, "-W", "ignore", "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "torch" in run.stdout
