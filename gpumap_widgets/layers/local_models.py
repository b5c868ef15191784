"""llama.cpp and Ollama: devices by CUDA ordinal, and which of them a model is put on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Device
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .cuda import process_of
from .expanding import expanding
from .llama_options import OPTIONS
from .shapes import NUMBER, SWITCH, TEXT_OR_NUMBER, facts, shaped, whole
from .telling import Teller
from .words import Word

# --- llama.cpp --------------------------------------------------------------------------------------------------------

_LLAMA = "llama.cpp src/llama.cpp llama_prepare_model_devices (01649e6), ggml-cuda.cu (0010882), common/arg.cpp; read"
_llama = Teller("framework", _LLAMA)
_VARIABLES = {
    "split_mode": "LLAMA_ARG_SPLIT_MODE",
    "main_gpu": "LLAMA_ARG_MAIN_GPU",
    "tensor_split": "LLAMA_ARG_TENSOR_SPLIT",
    "device": "LLAMA_ARG_DEVICE",
}
_DEVICE = re.compile(r"CUDA(\d{1,6})", re.ASCII | re.IGNORECASE)
_SHARE = re.compile(r"\d{1,9}(?:\.\d{0,9})?", re.ASCII)


def llamacpp(
    *,
    split_mode: str | None = None,
    main_gpu: int | None = None,
    tensor_split: str | None = None,
    device: str | None = None,
) -> Layer:
    """``llama-server`` and the other programs of llama.cpp.

    ``split_mode``: ``layer`` (default), ``row`` or ``none``. ``main_gpu``: a place in the list of devices.
    ``tensor_split``: proportions as text, ``"3,1"``. ``device``: names as text, ``"CUDA1,CUDA0"``.
    """
    given = {"split_mode": split_mode, "main_gpu": main_gpu, "tensor_split": tensor_split, "device": device}
    return Layer("llamacpp", {key: value for key, value in given.items() if value is not None})


def _recognise_llama(words: tuple[Word, ...], _: Mapping[str, Any]) -> Recognised:
    found = OPTIONS.parse(words[1:], mixed=True)
    return Recognised((Layer("llamacpp", found.options(_VARIABLES)),))


def _apply_llama(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    given = {key: str(options.get(key, view.env.get(name, ""))) for key, name in _VARIABLES.items()}
    count = len(process_of(topology, view).devices)
    virtual = whole(view.env.get("GGML_CUDA_DEVICES", ""))
    wanted = virtual if virtual is not None and virtual > 0 else count
    ordinals = [k % count for k in range(min(wanted, _MOST))] if count else []
    said = [_llama.step("step.llama.virtual", count=wanted, real=count)] if count and wanted != count else []
    listed = _listed(given["device"], ordinals)
    if isinstance(listed, Outcome):
        return listed
    mode = given["split_mode"] or "layer"
    if mode not in ("none", "layer", "row", "tensor"):
        return _llama.refused("error.llama.split-mode", asked=mode)
    main = whole(given["main_gpu"] or "0")
    if main is None:
        return _llama.refused("error.llama.main-number", asked=given["main_gpu"])
    if mode == "none":
        if main >= len(listed) and main >= 0:
            return _llama.refused("error.llama.main-gpu", tuple(said), asked=main, count=len(listed))
        kept = listed[main : main + 1] if main >= 0 else []
        said.append(_llama.step("step.llama.none", ordinals=_shown(kept)))
        return Outcome((replace(view, chosen=tuple(kept)),), tuple(said))
    shares = _shares(given["tensor_split"], len(listed))
    if shares is None:
        return _llama.refused("error.llama.tensor-split", asked=given["tensor_split"])
    used = [ordinal for ordinal, share in zip(listed, shares, strict=True) if share]
    fields = {"ordinals": _shown(used), "shares": _percent(shares)}
    said.append(_llama.step("step.llama.split" if any(given["tensor_split"]) else "step.llama.all", **fields))
    return Outcome((replace(view, chosen=tuple(dict.fromkeys(used))),), tuple(said))


_MOST = 1024


def _listed(names: str, ordinals: list[int]) -> list[int] | Outcome:
    """``--device``: names in the order that is used from then on."""
    if not names:
        return ordinals
    if names.strip().lower() == "none":
        return []
    found = []
    for name in names.split(","):
        matched = _DEVICE.fullmatch(name.strip())
        if matched is None or int(matched[1]) >= len(ordinals):
            return _llama.refused("error.llama.device", asked=name)
        found.append(ordinals[int(matched[1])])
    return found


def _shares(text: str, count: int) -> list[float] | None:
    """``-ts``: a proportion a device, those without one get nothing; all equal where it is not given."""
    if not text:
        return [1.0] * count
    parts = re.split(r"[,/]+", text)
    if not all(_SHARE.fullmatch(part.strip()) for part in parts):
        return None
    shares = [float(part) for part in parts][:count]
    shares += [0.0] * (count - len(shares))
    return shares if any(shares) else [1.0] * count


def _percent(shares: list[float]) -> str:
    total = sum(shares) or 1.0
    return ", ".join(f"{100 * share / total:.0f} %" for share in shares if share)


def _shown(ordinals: list[int]) -> str:
    return ", ".join(f"cuda:{i}" for i in ordinals) or "–"


def _believed_main(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: ``-mg k`` alone puts the model on that GPU."""
    mode = "none" if "main_gpu" in options else options.get("split_mode", "layer")
    return _apply_llama(view, {**options, "split_mode": mode}, topology)


# --- Ollama -----------------------------------------------------------------------------------------------------------

_OLLAMA = "ollama v0.33.0-rc2 server/sched.go bestSingleGPUFit, ml/device.go, llm/llama_server.go; read"
_ollama = Teller("framework", _OLLAMA)


def ollama(*, fits: bool | None = None, main_gpu: int | None = None) -> Layer:
    """``ollama serve``: the runner that it starts for one model.

    ``fits``: whether the model fits one GPU; None where it is not known. ``main_gpu``: the option of a model.
    """
    given = {"fits": fits, "main_gpu": main_gpu}
    return Layer("ollama", {key: value for key, value in given.items() if value is not None})


def _recognise_ollama(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    if len(words) < 2 or words[1].text not in ("serve", "start", "run"):
        return Recognised(())
    return Recognised((Layer("ollama", facts(assume, fits=SWITCH, main_gpu=NUMBER)),))


def _apply_ollama(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    devices = process_of(topology, view).devices
    if not devices:
        return Outcome((replace(view, chosen=()),), (_ollama.step("step.ollama.cpu"),))
    main, fits = options.get("main_gpu"), options.get("fits")
    spread = view.env.get("OLLAMA_SCHED_SPREAD", "").lower() in ("1", "true", "t")
    if len(devices) > 1 and main is None and (spread or fits is False):
        said = _ollama.step("step.ollama.all", count=len(devices))
        return Outcome((_runner(view, [device.ordinal for device in devices]),), (said,))
    if main is not None and 0 <= main < len(devices):
        return Outcome((_runner(view, [main]),), (_ollama.step("step.ollama.main", ordinal=main),))
    best = max(devices, key=_memory)
    fields: dict[str, Any] = {"ordinal": best.ordinal, "name": best.gpu.short_name}
    if len(devices) == 1:
        return Outcome((_runner(view, [0]),), (_ollama.step("step.ollama.one", **fields),))
    said = _ollama.step("step.ollama.free", Certainty.UNKNOWN, **fields)
    return Outcome((_runner(view, [best.ordinal]).doubted(Certainty.UNKNOWN),), (said,))


def _memory(device: Device) -> int:
    """What stands for the free memory, which no text tells: all that the GPU has."""
    return device.gpu.memory_mib or 0


def _runner(view: View, ordinals: list[int]) -> View:
    """The process that holds the model: its list has the chosen entries of the user's, or the ordinals."""
    listed = view.env.get(CUDA_VISIBLE_DEVICES, "")
    entries = listed.split(",") if listed else []
    given = [entries[i] if i < len(entries) else str(i) for i in ordinals]
    return replace(view.with_env({CUDA_VISIBLE_DEVICES: ",".join(given)}), chosen=tuple(range(len(ordinals))))


_PROGRAMS = (
    "llama-server llama-cli llama-run llama-bench llama-perplexity llama-embedding llama-mtmd-cli llama-completion"
)
ROWS: Mapping[str, LayerRow] = {
    "llamacpp": LayerRow(
        expanding(_apply_llama),
        _LLAMA,
        shaped(**dict.fromkeys(_VARIABLES, TEXT_OR_NUMBER)),
        "framework",
        programs=tuple(_PROGRAMS.split()),
        recognise=_recognise_llama,
        believed=expanding(_believed_main),
    ),
    "ollama": LayerRow(
        _apply_ollama,
        _OLLAMA,
        shaped(fits=SWITCH, main_gpu=NUMBER),
        "framework",
        programs=("ollama",),
        recognise=_recognise_ollama,
    ),
}
