"""Probes of the driver's grammar on real hardware, and the same program on the simulated driver.

Each probe separates two readings that no document settles. On a machine with an NVIDIA GPU (``pytest -m gpu``) the
answers are written to ``artifacts/gpu-probes.json``: they are what overrules the documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import gpumap_widgets as gm
from gpumap_widgets.identity import bare_uuid
from tests import simdriver
from tests.lab import ARTEFACTS, ROOT

PROBE = ROOT / "tests" / "driver_probe.py"

PROBES = (
    # value with U for the UUID of the first GPU and P for its first eight digits; the question
    ("08", "number base: 0 or 8 reads 0, base 10 reads 8"),
    ("0x1", "number base: 10 reads 0, 0 or 16 reads 1"),
    ("4294967296", "cut to 32 bits, or range-checked"),
    ("18446744073709551616", "wraps, or saturates"),
    (" 0", "blank in front"),
    ("0 ", "blank behind"),
    ("\t0", "tab in front"),
    ("0\n", "newline behind"),
    ("0,0", "repeat"),
    ("0,00", "repeat in another spelling"),
    ("0,+0", "repeat with a sign"),
    ("0,9,0", "repeat behind the end of the list"),
    ("0,foo,0", "repeat behind a word"),
    ("U,U", "repeated UUID"),
    ("U,GPU-P", "one GPU in two spellings"),
    ("0,U", "UUID behind a number"),
    ("U,0", "number behind a UUID"),
    ("GPU-", "prefix without digits"),
    ("UPPER", "UUID in upper case"),
    ("lower", "gpu- in lower case"),
    ("BARE", "UUID without GPU-"),
    (" U", "blank before a UUID"),
    ("Ux", "a character behind a UUID"),
    ("NoDevFiles", "a word of Slurm"),
    ("all", "a word of the container runtime"),
    ("１", "a digit of another script"),
    ("+", "a sign alone"),
    ("0;1", "a semicolon behind a number"),
    ("", "set to nothing"),
)
ORDERS = ("garbage", "pci_bus_id", "", "PCI_BUS_ID ")


def fill(value: str, uuid: str) -> str:
    """A probe's value for a GPU."""
    special = {"UPPER": "GPU-" + uuid.upper(), "lower": "gpu-" + uuid, "BARE": uuid}
    return special.get(value) or ",".join(
        {"U": f"GPU-{uuid}", " U": f" GPU-{uuid}", "Ux": f"GPU-{uuid}x", "GPU-P": f"GPU-{uuid[:8]}"}.get(t, t)
        for t in value.split(",")
    )


def ask(env: Mapping[str, str], **variables: str) -> dict[str, object]:
    base = {k: v for k, v in env.items() if k not in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
    run = subprocess.run(
        [sys.executable, str(PROBE)], env=base | variables, capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(run.stdout)


def report(env: Mapping[str, str]) -> dict[str, object]:
    """Ask every probe, and what the default order is."""
    plain = ask(env)
    uuid = plain["devices"][0][0]
    values = {
        value: ask(env, CUDA_VISIBLE_DEVICES=fill(value, uuid), CUDA_DEVICE_ORDER="PCI_BUS_ID") for value, _ in PROBES
    }
    orders = {order: ask(env, CUDA_DEVICE_ORDER=order) for order in ORDERS}
    return {"unset": plain, "pci": ask(env, CUDA_DEVICE_ORDER="PCI_BUS_ID"), "values": values, "orders": orders}


def differences(machine: gm.Topology, told: Mapping[str, object]) -> list[str]:
    """Where the driver contradicts what the model claims to know; what it calls unknown cannot be contradicted."""
    uuid = told["unset"]["devices"][0][0]
    wrong = []
    cases = [
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": fill(v, uuid)}, told["values"][v])
        for v, _ in PROBES
    ]
    cases += [({}, told["unset"]), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, told["pci"])]
    for env, answer in cases:
        prediction = gm.resolve(gm.Scenario.from_env(machine, env))
        if prediction.certainty in ("certain", "likely"):
            got = [bare_uuid(d.gpu.uuid or "") for d in prediction.processes[0].devices]
            seen = [device[0] for device in answer["devices"]]
            if got != seen:
                wrong.append(f"{env}: {prediction.certainty} of {got}, the driver says {seen}")
    return wrong


def test_the_program_on_the_simulated_driver(tmp_path: Path) -> None:
    try:
        built = simdriver.build()
    except simdriver.SimdriverUnavailable as exc:
        pytest.skip(str(exc))
    env = simdriver.environment(simdriver.MIXED, tmp_path, built)
    told = report(env)
    assert told["unset"]["simulated"]
    assert len(told["unset"]["devices"]) == 4
    assert told["values"][""]["cuinit"] == 100
    assert differences(gm.preset("mixed"), told) == []


@pytest.mark.gpu
def test_the_driver_of_this_machine() -> None:
    try:
        machine = gm.this_machine()
    except gm.GpumapError as exc:
        pytest.skip(f"no NVIDIA GPU here: {exc.message}")
    if machine.simulated or not machine.gpus or machine.gpus[0].nvml_index is None:
        pytest.skip("no NVIDIA GPU here")
    told = report(os.environ)
    ARTEFACTS.mkdir(exist_ok=True)
    record = {"machine": gm.Scenario(machine).to_json(), "probes": dict(PROBES), "answers": told}
    (ARTEFACTS / "gpu-probes.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    assert differences(machine, told) == []
