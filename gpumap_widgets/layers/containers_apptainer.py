"""Apptainer and Singularity: containers that keep the host's devices and, unless told otherwise, its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Step, message
from ..scenario import Layer
from ..topology import Topology
from . import variables
from .base import LayerRow, Outcome, Recognised, View
from .containers import left_over
from .containers_commands import listed, problem, switched_on
from .containers_flag import Refused, read_fields
from .containers_images import NVIDIA_VISIBLE_DEVICES, given, image_env
from .containers_requests import Asked, select, step
from .options import Option, Options
from .words import Word, fill

APPTAINER = "apptainer/apptainer v1.5.3, read; apptainer-userdocs gpu.rst and environment_and_metadata.rst"
PREFIXES = ("SINGULARITYENV_", "APPTAINERENV_")
"""Variables of the host that become variables of the container, without the prefix; the last one wins."""


def apply_apptainer(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """A container of Apptainer: all device nodes with ``--nv``, the host's environment unless it is cleaned."""
    if isinstance(options.get("refused"), str):
        return Outcome((), error=message("error.apptainer.env", text=variables.clip(options["refused"])))
    steps: list[Step] = []
    inner = view
    if options.get("nvccli"):
        chosen = _nvccli(view, options, topology)
        if isinstance(chosen, Outcome):
            return chosen
        inner, said = chosen
        steps += said
    elif options.get("nv"):
        steps.append(step("step.apptainer.nv", APPTAINER))
    else:
        steps.append(step("step.apptainer.no-nv", APPTAINER, Certainty.LIKELY))
        inner = view.narrowed(()).doubted(Certainty.LIKELY)
    steps.append(left_over(inner, topology))
    env = _environment(options, view.env)
    changes = {"clear": True, "set": FrozenDict(env), "unknown": options.get("unknown", ())}
    outcome = variables.apply(inner, changes, topology)
    inner = outcome.views[0]
    steps.append(step("step.apptainer.clean" if options.get("clean") else "step.apptainer.inherits", APPTAINER))
    for path in options.get("missing", ()):
        steps.append(step("step.container.file", APPTAINER, Certainty.UNKNOWN, path=variables.clip(path)))
        inner = inner.doubted(Certainty.UNKNOWN)
    return Outcome((inner,), (*steps, *outcome.steps[1:]))


def _nvccli(view: View, options: Mapping[str, Any], topology: Topology) -> tuple[View, list[Step]] | Outcome:
    """nvidia-container-cli puts in what NVIDIA_VISIBLE_DEVICES of the host names; it hides the rest with --contain."""
    value = view.env.get(NVIDIA_VISIBLE_DEVICES)
    if value is None and options.get("contain"):
        return view.narrowed(()), [step("step.apptainer.contain-unset", APPTAINER)]
    names = tuple(name.strip() for name in (value if value is not None else "all").split(",") if name.strip())
    none = not names or "none" in names or "void" in names
    chosen = select(view, Asked(() if none else names, "legacy"), topology)
    if isinstance(chosen, Outcome):
        return chosen
    if not options.get("contain"):
        return view.doubted(Certainty.LIKELY), [step("step.apptainer.nvccli-open", APPTAINER, Certainty.LIKELY)]
    return chosen[0], [step("step.apptainer.nvccli", APPTAINER, value=variables.clip(value or "all")), *chosen[1]]


def _environment(options: Mapping[str, Any], host: Mapping[str, str]) -> dict[str, str]:
    """The host's variables, the image's over them, then those that are set for the container."""
    env = {} if options.get("clean") else {n: v for n, v in host.items() if not n.startswith(PREFIXES)}
    if options.get("nvccli"):
        env.pop(NVIDIA_VISIBLE_DEVICES, None)  # it controls the setup and is not passed on
    env |= options.get("image_env", {})
    for prefix in PREFIXES:
        env |= {name.removeprefix(prefix): value for name, value in host.items() if name.startswith(prefix)}
    env |= options.get("set", {})
    return env | {name: fill(text, host) for name, text in options.get("expand", {}).items()}


def apptainer(
    *,
    nv: bool = True,
    nvccli: bool = False,
    cleanenv: bool = False,
    contain: bool = False,
    env: Mapping[str, str] = FrozenDict(),
    image_env: Mapping[str, str] = FrozenDict(),
) -> Layer:
    """``apptainer exec`` and ``run``, ``singularity`` too.

    ``nv``, ``nvccli``: the two ways to GPUs. ``cleanenv``: nothing of the host's environment. ``contain``: a minimal
    /dev. ``env``: of ``--env``. ``image_env``: what the image sets, which wins over the host.
    """
    given_options = {
        "nv": nv,
        "nvccli": nvccli,
        "clean": cleanenv,
        "contain": contain,
        "set": env,
        "image_env": image_env,
    }
    return Layer("apptainer", {key: value for key, value in given_options.items() if value})


_GLOBAL = Options([Option("--config -c"), Option("--debug -d --nocolor --quiet -q --silent -s --verbose -v", 0)])
_RUN = Options(
    [
        Option("--nv", 0, key="nv"),
        Option("--nvccli", 0, key="nvccli"),
        Option("--cleanenv -e", 0, key="clean"),
        Option("--contain -c", 0, key="contain"),
        Option("--containall -C --compat", 0, key="containall"),
        Option("--env", key="env"),
        Option("--env-file", key="env_file"),
        Option("--rocm --fakeroot -f --ipc -i --pid -p --userns -u --uts --net -n --no-home --no-init --no-umask", 0),
        Option("--no-privs --keep-privs --allow-setuid --disable-cache --docker-login --no-https --nohttps --oom", 0),
        Option(
            "--writable -w --writable-tmpfs --no-eval --no-compat --no-pid --unsquash --underlay --sparse --boot", 0
        ),
        Option("--add-caps --app --apply-cgroups --bind -B --blkio-weight --blkio-weight-device --cpu-shares --cpus"),
        Option(
            "--cpuset-cpus --cpuset-mems --cwd --pwd -W --workdir --dns --docker-host --drop-caps --fusemount --home"
        ),
        Option("-H --hostname --memory --memory-reservation --memory-swap --mount --network --network-args --no-mount"),
        Option("--overlay -o --pem-path --pids-limit --scratch -S --security --shell -s --authfile --tmp-sandbox"),
        Option("--netns-path --runscript-timeout --device"),
    ]
)


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    """``apptainer exec|run|shell IMAGE command``; other commands start nothing."""
    rest = _GLOBAL.parse(words[1:]).rest
    command = rest[0].text if rest else ""
    if command == "instance" and len(rest) > 1 and rest[1].text in ("start", "run"):
        command, rest = "instance", rest[1:]
    if command not in ("exec", "run", "shell", "instance", "test"):
        return Recognised((), idle=True)
    found = _RUN.parse(rest[1:])
    read = [_pairs(word) for word in found.values.get("env", ())]
    pairs = [pair for some, _ in read for pair in some]
    options: dict[str, Any] = {
        "nv": switched_on(found, "nv"),
        "nvccli": switched_on(found, "nvccli"),
        "clean": switched_on(found, "clean") or switched_on(found, "containall"),
        "refused": next((bad for _, bad in read if bad is not None), None),
        "contain": switched_on(found, "contain") or switched_on(found, "containall"),
        **given(pairs, found.values.get("env_file", ()), assume).options(),
    }
    options.pop("inherit", None)
    kept = {key: value for key, value in options.items() if value}
    known = image_env(assume)
    if known:
        kept["image_env"] = known
    if found.unrecognised:
        kept["unrecognised"] = found.unrecognised
    inner = found.rest[1:]
    if command in ("run", "instance") and not inner:
        inner = listed(assume.get("image_cmd"))
    return Recognised((Layer("apptainer", kept),), () if command == "shell" else inner)


def _pairs(word: Word) -> tuple[list[Word], str | None]:
    """``--env A=1,B=2`` as pairs, and the piece that is none: with one ``=`` all behind it is the value, with more the
    text is a line of CSV (spf13/pflag, stringToString).
    """
    pieces = [word.text.strip('"')] if word.text.count("=") == 1 else read_fields(word.text)
    if isinstance(pieces, Refused):
        return [], word.text
    bad = next((piece for piece in pieces if "=" not in piece), None)
    return [word._replace(text=piece) for piece in pieces if "=" in piece], bad


ROWS: Mapping[str, LayerRow] = {
    "apptainer": LayerRow(
        apply_apptainer,
        APPTAINER,
        problem,
        "container",
        programs=("apptainer", "singularity"),
        recognise=_recognise,
    ),
}
