"""Texts that are no shell command: Python, notebook cells, systemd units; slips in names; what comes too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests.conftest import MIXED

ALL = (1, 0, 2, 3)


def found(text: str, **env: str) -> list[tuple[int | None, ...]]:
    return [process.nvml_indices for process in resolve(Scenario.from_command(MIXED, text, env)).processes]


def codes(text: str, **env: str) -> list[str]:
    return [finding.code for finding in resolve(Scenario.from_command(MIXED, text, env)).findings]


@pytest.mark.parametrize(
    ("text", "map_"),
    [
        ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport torch", (0,)),
        ("import os, torch\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\ntorch.zeros(1).cuda()", (0,)),
        ("import os, torch\ntorch.cuda.is_available()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'", (3,)),
        ("import os, torch\ntorch.cuda.device_count()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'", (0,)),
        ("import os\nos.environ.setdefault('CUDA_VISIBLE_DEVICES', '1')", (3,)),
        ("import os\nos.environ.update(CUDA_VISIBLE_DEVICES='1,2')", (0, 2)),
        ("import os\nos.environ.update({'CUDA_VISIBLE_DEVICES': '2'})", (2,)),
        ("import os\ndel os.environ['CUDA_VISIBLE_DEVICES']", ALL),
        ("import os\nos.environ.pop('CUDA_VISIBLE_DEVICES', None)", ALL),
        ("import os\nos.putenv('CUDA_VISIBLE_DEVICES', '2')", (2,)),
        ("%env CUDA_VISIBLE_DEVICES=1\nimport torch", (0,)),
        ("%set_env CUDA_VISIBLE_DEVICES 2\nimport torch\n!nvidia-smi", (2,)),
        (">>> import os\n>>> os.environ['CUDA_VISIBLE_DEVICES'] = '2'", (2,)),
        ("import os\nif True:\n    os.environ['CUDA_VISIBLE_DEVICES'] = '0'", (1,)),
        ("[Service]\nExecStart=/usr/bin/python3 t.py", ALL),
        ('[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=1 "A=b c"\nExecStart=-/usr/bin/python3 t.py', (0,)),
        (
            "[Unit]\nDescription=x\n[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=1\nUnsetEnvironment=CUDA_VISIBLE_DEVICES",
            ALL,
        ),
    ],
)
def test_what_is_set_in_time(text: str, map_: tuple[int, ...]) -> None:
    assert found(text, CUDA_VISIBLE_DEVICES="3") == [map_]


def test_a_value_that_only_the_run_knows() -> None:
    prediction = resolve(Scenario.from_command(MIXED, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = str(rank)"))
    assert prediction.certainty == "unknown"
    unit = "[Service]\nEnvironmentFile=/etc/gpu.env\nExecStart=python3 t.py"
    assert resolve(Scenario.from_command(MIXED, unit)).certainty == "unknown"
    told = {"files": {"/etc/gpu.env": "# which\nCUDA_VISIBLE_DEVICES=2\n"}}
    assert resolve(Scenario.from_command(MIXED, unit, assume=told)).nvml_indices == (2,)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("Trainer(devices=[2,0], strategy='ddp')", [2, 1]),
        ("trainer = L.Trainer(accelerator='gpu', devices=2)\ntrainer.fit(m)", [1, 0]),
        ("torch.multiprocessing.spawn(f, nprocs=2)", [1, 0]),
        ("import torch.multiprocessing as mp\nmp.spawn(f, (), 2)", [1, 0]),
        ("LocalCUDACluster()", list(ALL)),
        ("LocalCUDACluster(CUDA_VISIBLE_DEVICES=[2, 3])", [2, 3]),
        ("jax.distributed.initialize(local_device_ids=[1])", [0]),
        ("m = A.from_pretrained('x', device_map='cuda:1')\nm.eval()", [0]),
    ],
)
def test_calls_of_frameworks(text: str, uses: list[int]) -> None:
    prediction = resolve(Scenario.from_command(MIXED, text))
    assert [process.nvml_indices[i] for process in prediction.processes for i in process.uses[:1]] == uses


@pytest.mark.parametrize("text", ["train.py", "python t.py", "A=1", "ls", "torchrun --nproc-per-node=2 t.py", "x = 1"])
def test_what_is_no_python(text: str) -> None:
    assert not any(layer.options.get("via") == "os.environ" for layer in Scenario.from_command(MIXED, text).layers)


def test_findings_both_ways() -> None:
    late = "import os, torch\ntorch.cuda.init()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'"
    assert "set-too-late" in codes(late)
    assert "set-too-late" not in codes("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'")
    assert "near-miss-name" in codes("CUDA_VISABLE_DEVICES=0 python t.py")
    assert "near-miss-name" in codes("cuda_visible_devices=0 python t.py")
    assert "near-miss-name" not in codes("NVIDIA_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=0 python t.py")
    assert "unrecognised-option" in codes("torchrun --no-such-thing --nproc-per-node=2 t.py")
    assert "unrecognised-option" not in codes("torchrun --nproc-per-node=2 t.py --lr 1")


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    for start in ("import os\n", "[Service]\n", ""):
        prediction = resolve(Scenario.from_command(MIXED, start + text))
        assert prediction.error or prediction.processes


@pytest.mark.parametrize(
    "text", ["f(" * 5000, "import os\n" + "(" * 90_000, "x = " + "-" * 90_000 + "1", "a.b" * 30_000 + "()"]
)
def test_hostile_python_is_read_or_refused(text: str) -> None:
    prediction = resolve(Scenario.from_command(MIXED, text))
    assert prediction.error or prediction.processes
