"""The command line: ``gpumap`` and ``python -m gpumap_widgets``.

Text for people, ``--json`` for programs. The exit status is 0 when all went well, 1 when `drift`, `inspect` or
`evidence` found something, 2 when there is no answer; why is then a sentence on standard error. Each command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import GpumapError, UnreadableTopology
from .texts import safe_text, say

if TYPE_CHECKING:
    from .cli_records import Told
    from .mapping import Device, Prediction
    from .sources.capsule import Capsule
    from .topology import Gpu

OK, DRIFTED, FAILED = 0, 1, 2
"""Exit statuses, as of diff."""
_INTERRUPTED, _BROKEN_PIPE = 130, 141
_LIMIT = 4 * 1024 * 1024
"""Most bytes read of a file: what is longer is refused by whoever reads the text, as UTF-16 too."""
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` is without the program's name. Returns the exit status, raises SystemExit for usage."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without “ must not end the program
    try:
        try:
            arguments = _parser().parse_args(argv)
            status: int = arguments.run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read us has enough; the interpreter must not try to flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except GpumapError as exc:
        return _failed(str(exc))
    except OSError as exc:
        return _failed(exc.strerror or str(exc))
    except Exception as exc:  # noqa: BLE001 - a person at a prompt gets a sentence, whatever it is
        return _failed(say("cli.failed", error=f"{type(exc).__name__}: {exc}"))
    return status


def _failed(error: str) -> int:
    sys.stderr.write(safe_text(say("cli.error", error=error)) + "\n")
    return FAILED


def _print(text: str) -> None:
    sys.stdout.write(safe_text(text) + "\n")


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    from . import __version__
    from .sources.presets import PRESETS

    parser = argparse.ArgumentParser("gpumap", description=say("cli.about"), allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"gpumap {__version__}", help=say("cli.version"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Any], int]) -> argparse.ArgumentParser:
        told = {"help": say(f"cli.{name}"), "description": say(f"cli.{name}"), "allow_abbrev": False}
        made = commands.add_parser(name, **told)  # type: ignore[arg-type]
        made.set_defaults(run=run)
        return made

    capsule = command("capsule", _capsule)
    capsule.add_argument("--mask", action="store_true", help=say("cli.mask"))
    capsule.add_argument("--salt", metavar="TEXT", help=say("cli.salt"))
    capsule.add_argument("--processes", action="store_true", help=say("cli.processes"))
    capsule.add_argument("--label", metavar="GPU=TEXT", action="append", default=[], help=say("cli.label"))
    for name, run in (("map", _map), ("explain", _explain)):
        made = command(name, run)
        presets = ", ".join(PRESETS)
        made.add_argument("--machine", metavar="FILE|PRESET", help=say("cli.machine", presets=presets))
        made.add_argument("--visible", metavar="LIST", help=say("cli.visible"))
        made.add_argument("--order", metavar="ORDER", help=say("cli.order"))
        made.add_argument("--no-env", action="store_true", help=say("cli.no-env"))
        made.add_argument("--json", action="store_true", help=say("cli.json"))
    drift = command("drift", _drift)
    drift.add_argument("old", metavar="OLD", help=say("cli.old"))
    drift.add_argument("new", metavar="NEW", help=say("cli.new"))
    drift.add_argument("--json", action="store_true", help=say("cli.json"))
    inspect = command("inspect", _inspect)
    inspect.add_argument("pid", metavar="PID", type=int, nargs="?", help=say("cli.pid"))
    inspect.add_argument("--json", action="store_true", help=say("cli.json"))
    evidence = command("evidence", _evidence)
    evidence.add_argument("files", metavar="FILE", nargs="+", help=say("cli.files"))
    evidence.add_argument("--rank", metavar="N", type=int, help=say("cli.rank"))
    evidence.add_argument("--job", metavar="JOB", help=say("cli.job"))
    evidence.add_argument("--json", action="store_true", help=say("cli.json"))
    return parser


# --- commands --------------------------------------------------------------------------------------------------------


def _capsule(arguments: argparse.Namespace) -> int:
    from .sources.capsule import take

    capsule = take(processes=arguments.processes)
    for text in arguments.label:
        gpu, equals, label = text.partition("=")
        if not (gpu and equals and label):
            raise GpumapError(say("cli.bad-label", text=text))
        capsule = capsule.labelled(gpu, label)
    if arguments.mask or arguments.salt:
        capsule = capsule.masked(arguments.salt)
    sys.stdout.write(capsule.to_json() + "\n")
    return OK


def _map(arguments: argparse.Namespace) -> int:
    prediction = _predicted(arguments)
    if not arguments.json:
        _print(str(prediction))
        return OK
    from .views.rows import sentence

    process = prediction.processes[0] if prediction.processes else None
    gpus = prediction.scenario.topology.gpus
    _print_json(
        {
            "sentence": sentence(prediction),
            "certainty": prediction.certainty,
            "error": prediction.error,
            "devices": [_device(device) for device in process.devices] if process else [],
            "hidden": [_gpu(gpus[position]) for position in process.hidden] if process else [],
            "unusable": [{**_gpu(gpu), "problem": gpu.problem} for gpu in gpus if gpu.problem],
            **_settings(prediction),
        }
    )
    return OK


def _explain(arguments: argparse.Namespace) -> int:
    from .views.rows import certainty_text, sentence

    prediction = _predicted(arguments)
    if arguments.json:
        steps = [
            {"stage": step.stage, "message": str(step), "certainty": step.certainty, "source": step.source}
            for step in prediction.steps
        ]
        told = {"sentence": sentence(prediction), "certainty": prediction.certainty, "error": prediction.error}
        _print_json({**told, "steps": steps, **_settings(prediction)})
        return OK
    _print(sentence(prediction))
    if prediction.error is None:
        _print(certainty_text(prediction))
    for n, step in enumerate(prediction.steps, 1):
        _print(say("cli.step", n=n, message=step))
        _print(say("cli.step-source", certainty=step.certainty, source=step.source))
    return OK


def _drift(arguments: argparse.Namespace) -> int:
    from .sources.capsule import drift, drift_rows

    found = drift(_read(arguments.old), _read(arguments.new))
    if arguments.json:
        _print_json({"drifted": bool(found), "drifts": drift_rows(found)})
    for row in [] if arguments.json else found:
        _print(say("cli.drift-line", severity=say(f"severity.{row.severity}"), message=row.message))
        if row.remedy:
            _print(say("cli.drift-remedy", remedy=row.remedy))
    if not found and not arguments.json:
        _print(say("cli.drift-none"))
    return DRIFTED if found else OK


def _inspect(arguments: argparse.Namespace) -> int:
    from .cli_records import inspect_command

    return _tell(inspect_command(arguments.pid), arguments)


def _evidence(arguments: argparse.Namespace) -> int:
    from .cli_records import evidence_command

    return _tell(evidence_command(arguments.files, arguments.rank, arguments.job), arguments)


# --- what they share -------------------------------------------------------------------------------------------------


def _tell(told: Told, arguments: argparse.Namespace) -> int:
    if arguments.json:
        _print_json(told.data)
    else:
        _print(told.text)
    return told.status


def _predicted(arguments: argparse.Namespace) -> Prediction:
    """What the driver makes of the settings: those of the machine's source, with what the options change."""
    from .resolver import resolve
    from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
    from .sources.presets import PRESETS, preset

    name = arguments.machine
    if name is None:
        from .sources.nvml import this_machine

        scenario = Scenario.from_env(this_machine(), dict(os.environ))
    elif name in PRESETS:
        scenario = Scenario.from_env(preset(name), {})
    else:
        from .sources.capsule import scenario_of

        scenario = scenario_of(_read(name, ", ".join(PRESETS)))
    options = {CUDA_VISIBLE_DEVICES: arguments.visible, CUDA_DEVICE_ORDER: arguments.order}
    changes: Mapping[str, str | None] = {k: v for k, v in options.items() if v is not None or arguments.no_env}
    return resolve(scenario.with_env(**changes) if changes else scenario)


def _read(name: str, presets: str | None = None) -> Capsule:
    """The capsule in a file; pasted text of any tool makes one that knows the machine alone.

    ``presets`` are those that could have been meant, for the error.
    """
    from .sources.capsule import Capsule, is_capsule
    from .topology import Topology

    text = _text_of(name, presets)
    try:
        return Capsule.from_json(text) if is_capsule(text) else Capsule(Topology.from_text(text))
    except UnreadableTopology as exc:
        raise UnreadableTopology(say("cli.in-file", file=name, error=exc.message), remedy=exc.remedy) from exc


def _text_of(name: str, presets: str | None) -> str:
    """A file as text; - is standard input. A shell may have written it in UTF-16."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_LIMIT + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_LIMIT + 1)
    except FileNotFoundError as exc:
        if presets and not any(sign in name for sign in "./\\"):
            remedy = say("cli.no-machine-remedy", presets=presets)
            raise GpumapError(say("cli.no-machine", file=name), remedy=remedy) from exc
        raise GpumapError(say("cli.no-file", file=name, error=exc.strerror)) from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        raise GpumapError(say("cli.no-file", file=name, error=getattr(exc, "strerror", None) or exc)) from exc
    encoding = next((e for mark, e in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors="replace")


def _settings(prediction: Prediction) -> dict[str, str | None]:
    scenario = prediction.scenario
    return {"cuda_visible_devices": scenario.visible_devices, "cuda_device_order": scenario.device_order}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    names = ("nvml_index", "name", "uuid", "pci_bus_id", "memory_mib")
    return {name: getattr(gpu, name) for name in names}


def _device(device: Device) -> dict[str, Any]:
    mig = device.mig
    instance = {"uuid": mig.uuid, "profile": mig.profile, "memory_mib": mig.memory_mib} if mig else None
    return {"ordinal": device.ordinal, **_gpu(device.gpu), "mig": instance, "certainty": device.certainty}
