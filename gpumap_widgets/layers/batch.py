"""OpenPBS, Flux and LSF: what their jobs find in the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .allocation import allocation, numbers_of, uuids_of
from .base import LayerRow, Outcome, Recognised, View
from .options import Option, Options
from .shapes import NUMBER, NUMBERS, SWITCH, TEXT, facts, shaped
from .telling import Teller, crowd
from .words import Word

_PBS = "OpenPBS cd7ab5e, pbs_cgroups.PY"
_FLUX = "Flux v0.88.0-59, shell/gpubind.c"
_LSF = "IBM Spectrum LSF documentation, LSB_RESOURCE_ENFORCE, GPU enforcement"
_PBS_TELL, _FLUX_TELL, _LSF_TELL = (Teller("scheduler", source) for source in (_PBS, _FLUX, _LSF))
_PCI = {CUDA_DEVICE_ORDER: "PCI_BUS_ID"}


def _count(text: str | None, pattern: str = r"(\d{1,4})\Z") -> int:
    found = re.search(pattern, text or "", re.ASCII)
    return int(found[1]) if found else 0


def _assumed(assume: Mapping[str, Any]) -> dict[str, Any]:
    return facts(assume, allocated=NUMBERS, constrain_devices=SWITCH)


# --- OpenPBS ----------------------------------------------------------------------------------------------------------

_QSUB = Options(
    [
        Option("-l", key="resources"),
        Option("-A -a -c -C -e -j -J -k -m -M -N -o -p -P -q -r -S -u -W -v -w"),
        Option("-I -V -X -z -h -f", 0),
    ]
)


def openpbs(gpus: int = 0, *, allocated: tuple[int, ...] | None = None, constrain_devices: bool = True) -> Layer:
    """A job of OpenPBS with its cgroup hook: UUIDs in the list, and PCI_BUS_ID."""
    given = {"gpus": gpus, "allocated": allocated, "constrain_devices": constrain_devices}
    return Layer("openpbs", {k: v for k, v in given.items() if v is not None})


def _recognise_qsub(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _QSUB.parse(words[1:])
    texts = [word.text for word in found.values.get("resources", ())]
    options: dict[str, Any] = {"gpus": max((_count(text, r"ngpus=(\d{1,4})") for text in texts), default=0)}
    options |= _assumed(assume) | ({"unrecognised": found.unrecognised} if found.unrecognised else {})
    return Recognised((Layer("openpbs", options),))


def _apply_openpbs(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    count = options.get("gpus") or 0
    if not count:
        return Outcome((view.with_env({CUDA_VISIBLE_DEVICES: ""}),), (_PBS_TELL.step("step.pbs.none"),))
    given = allocation(view, options, topology, count, _PBS_TELL)
    uuids = uuids_of(topology, given.positions)
    value = numbers_of(topology, given.positions) if uuids is None else uuids
    one = view.with_env({CUDA_VISIBLE_DEVICES: value, **_PCI}).doubted(given.certainty)
    if options.get("constrain_devices", True):
        one = one.narrowed(given.positions)
    return Outcome((one,), (*given.steps, _PBS_TELL.step("step.pbs.given", given.certainty, value=value)))


# --- Flux -------------------------------------------------------------------------------------------------------------

_FLUX_RUN = Options(
    [
        Option("-n --ntasks", key="tasks"),
        Option("-g --gpus-per-task", key="gpus_per_task"),
        Option("--gpus-per-node", key="gpus"),
        Option("-o --setopt", key="setopt"),
        Option("-N --nodes -c --cores-per-task -q --queue -t --time-limit --env --env-remove --env-file --setattr"),
        Option("--output --error --input --label-io --cwd --job-name --urgency --dependency --requires -B --bank"),
        Option("-x --exclusive -v --verbose --wait -u --unbuffered", 0),
    ]
)


def flux(
    gpus_per_task: int = 1, *, tasks: int = 1, affinity: str = "", allocated: tuple[int, ...] | None = None
) -> Layer:
    """A job of Flux. ``affinity``: ``per-task`` or "" (every task gets all of the job's GPUs)."""
    given = {"gpus_per_task": gpus_per_task, "tasks": tasks, "affinity": affinity, "allocated": allocated}
    return Layer("flux", {k: v for k, v in given.items() if v is not None})


def _recognise_flux(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    if len(words) < 2 or words[1].text not in ("run", "submit", "alloc", "batch"):
        return Recognised(())
    found = _FLUX_RUN.parse(words[2:])
    set_to = [
        word.text.partition("gpu-affinity=")[2]
        for word in found.values.get("setopt", ())
        if "gpu-affinity=" in word.text
    ]
    options: dict[str, Any] = {
        "tasks": _count(found.text("tasks")) or 1,
        "gpus_per_task": _count(found.text("gpus_per_task")),
        "affinity": set_to[-1] if set_to else "",
        **_assumed(assume),
    }
    if found.unrecognised:
        options["unrecognised"] = found.unrecognised
    return Recognised((Layer("flux", options),), found.rest)


def _apply_flux(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    tasks, each = max(1, options.get("tasks") or 1), options.get("gpus_per_task") or 0
    if (refused := crowd(tasks)) is not None:
        return refused
    if each * tasks > len(view.left(topology)):
        return _FLUX_TELL.refused("error.flux.too-many", count=each * tasks)
    given = allocation(view, options, topology, each * tasks, _FLUX_TELL)
    order = {} if CUDA_DEVICE_ORDER in view.env else _PCI
    split = options.get("affinity") == "per-task"
    views = []
    for k in range(tasks):
        share = given.positions[k * each : (k + 1) * each] if split else given.positions
        value = numbers_of(topology, share) if share else "-1"
        one = view.with_env({CUDA_VISIBLE_DEVICES: value, "FLUX_TASK_LOCAL_ID": str(k), **order})
        views.append(replace(one.doubted(given.certainty), worker=f"task {k}" if tasks > 1 else view.worker))
    odd = str(options.get("affinity") or "").startswith("map:")
    if odd:
        views = [one.doubted(Certainty.UNKNOWN) for one in views]
    said = [*given.steps, _FLUX_TELL.step("step.flux", given.certainty, tasks=tasks)]
    said += [_FLUX_TELL.step("step.flux.map", Certainty.UNKNOWN)] if odd else []
    return Outcome(tuple(views), tuple(said))


# --- LSF --------------------------------------------------------------------------------------------------------------

_BSUB = Options(
    [
        Option("-gpu", key="gpu"),
        Option("-n -q -J -W -o -e -M -R -P -G -m -app -cwd -i -L -oo -eo -w -sp -u"),
        Option("-I -Is -Ip -K -B -N -x -H -r", 0),
    ],
    cluster=False,
)


def lsf(gpus: int = 1, *, allocated: tuple[int, ...] | None = None, constrain_devices: bool | None = None) -> Layer:
    """A job of LSF. ``constrain_devices``: LSB_RESOURCE_ENFORCE holds gpu."""
    given = {"gpus": gpus, "allocated": allocated, "constrain_devices": constrain_devices}
    return Layer("lsf", {k: v for k, v in given.items() if v is not None})


def _recognise_bsub(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _BSUB.parse(words[1:])
    text = found.text("gpu") or ""
    options: dict[str, Any] = {"gpus": _count(text, r"num=(\d{1,4})") or (1 if found.has("gpu") else 0)}
    options |= _assumed(assume) | ({"unrecognised": found.unrecognised} if found.unrecognised else {})
    return Recognised((Layer("lsf", options),), found.rest)


def _apply_lsf(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    count, enforced = options.get("gpus") or 0, options.get("constrain_devices")
    if not count:
        return Outcome((view,))
    given = allocation(view, options, topology, count, _LSF_TELL)
    said = list(given.steps)
    if enforced is None:
        view = view.doubted(Certainty.UNKNOWN)
        said.append(_LSF_TELL.step("step.lsf.enforced-unknown", Certainty.UNKNOWN))
    value = ",".join(map(str, range(len(given.positions)))) if enforced else numbers_of(topology, given.positions)
    one = view.with_env({CUDA_VISIBLE_DEVICES: value}).doubted(given.certainty)
    one = one.narrowed(given.positions) if enforced else one
    return Outcome((one,), (*said, _LSF_TELL.step("step.lsf.given", given.certainty, value=value)))


_SHAPE = shaped(
    gpus=NUMBER, tasks=NUMBER, gpus_per_task=NUMBER, allocated=NUMBERS, constrain_devices=SWITCH, affinity=TEXT
)
ROWS: Mapping[str, LayerRow] = {
    "openpbs": LayerRow(_apply_openpbs, _PBS, _SHAPE, "scheduler", ("qsub",), _recognise_qsub),
    "flux": LayerRow(_apply_flux, _FLUX, _SHAPE, "scheduler", ("flux",), _recognise_flux),
    "lsf": LayerRow(_apply_lsf, _LSF, _SHAPE, "scheduler", ("bsub",), _recognise_bsub),
}
