"""``accelerate launch``: a list of GPUs for all workers, then torch's elastic launcher, or one plain process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..certainty import Certainty
from ..mapping import Step
from ..scenario import CUDA_VISIBLE_DEVICES, Layer
from ..topology import Topology
from .accelerate_options import OPTIONS
from .base import LayerRow, Outcome, Recognised, View
from .cuda import device_count
from .deepspeed_runner import ROWS as DEEPSPEED
from .elastic import group_of, workers_of
from .expanding import expanding
from .settings import read_settings
from .shapes import NUMBER, SWITCH, TEXT, TEXT_OR_NUMBER, facts, number_of, shaped, texts_of, whole
from .telling import Teller
from .words import Word, started

SOURCE = "accelerate 1.15.0 commands/launch.py, utils/launch.py and state.py, run"
_tell = Teller("launcher", SOURCE)
DEFAULT_FILE = "~/.cache/huggingface/accelerate/default_config.yaml"
_NUMBERS = ("num_processes", "num_machines", "machine_rank", "main_process_port")
_TEXTS = (
    "gpu_ids",
    "config_file",
    "main_process_ip",
    "rdzv_backend",
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
)
_FILTERS = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
_SWITCHES = ("multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu")
_HARMLESS = ("machine_rank", "main_process_ip", "main_process_port", "rdzv_backend")
_FACTS = {"set_device": SWITCH, "torch": TEXT, "cpus": NUMBER, "deepspeed": TEXT}
_TYPES = {"DEEPSPEED": "use_deepspeed", "MULTI_GPU": "multi_gpu", "FSDP": "use_fsdp", "MEGATRON_LM": "use_megatron_lm"}


def accelerate(
    num_processes: int | None = None,
    *,
    gpu_ids: str | None = None,
    multi_gpu: bool = False,
    num_machines: int | None = None,
    machine_rank: int | None = None,
    config: Mapping[str, Any] | None = None,
    set_device: bool = True,
    **options: Any,
) -> Layer:
    """``accelerate launch``.

    ``num_processes``: of all machines together; None counts the GPUs. ``gpu_ids``: a list as text, or ``"all"``.
    ``config``: the settings of a config file; None without one. ``set_device``: False when the script uses no
    Accelerator. Others by their names: ``cpu``, ``use_deepspeed``, ``use_fsdp``, ``main_process_ip``, ``torch``.
    """
    given = {"num_processes": num_processes, "gpu_ids": gpu_ids, "multi_gpu": multi_gpu, "num_machines": num_machines}
    given |= {"machine_rank": machine_rank, "set_device": set_device, **options}
    given["config"] = None if config is None else json.dumps(dict(config))
    return Layer("accelerate", {key: value for key, value in given.items() if value is not None})


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    rest = words[1:]
    if words and words[0].text.rpartition("/")[2] in ("accelerate", "accelerate.commands.accelerate_cli"):
        if not rest or rest[0].text != "launch":
            return Recognised(())
        rest = rest[1:]
    found = OPTIONS.parse(rest)
    options = found.options((*_NUMBERS, *_TEXTS, *_FILTERS), _SWITCHES) | facts(assume, **_FACTS)
    files = texts_of(assume, "files")
    named = {"config": options.get("config_file", DEFAULT_FILE), "hosts": options.get("deepspeed_hostfile", "")}
    options |= {key: files[path] for key, path in named.items() if path in files}
    command = started(found.rest, python=not found.has("no_python"), module=found.has("module"))
    return Recognised((Layer("accelerate", options),), command)


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    said: list[Step] = []
    args = _arguments(view, options, topology, said)
    if isinstance(args, Outcome):
        return args
    ids = args.get("gpu_ids")
    if ids not in (None, "all"):
        key = "step.accelerate.ids-over" if CUDA_VISIBLE_DEVICES in view.env else "step.accelerate.ids"
        said.append(_tell.step(key, value=str(ids), before=view.env.get(CUDA_VISIBLE_DEVICES, "")))
        view = view.with_env({CUDA_VISIBLE_DEVICES: str(ids)})
    parallel = any(args.get(key) for key in ("use_deepspeed", "use_fsdp", "use_megatron_lm", "multi_gpu"))
    if args.get("tpu") and not args.get("cpu") and not parallel:
        return _tell.refused("error.accelerate.tpu", tuple(said), Certainty.UNKNOWN)
    if not parallel or args.get("cpu"):
        return _simple(view, args, options, topology, said)
    machines = int(args["num_machines"])
    if args.get("use_deepspeed") and machines > 1 and args.get("deepspeed_multinode_launcher") != "standard":
        return _through_deepspeed(view, args, options, topology, said)
    return _elastic(view, args, options, topology, said)


def _arguments(
    view: View, options: Mapping[str, Any], topology: Topology, said: list[Step]
) -> dict[str, Any] | Outcome:
    """``_validate_launch_command``: the flags, filled up from a config file or from what is counted."""
    args: dict[str, Any] = {key: options.get(key) for key in (*_TEXTS, *_FILTERS, *_SWITCHES)}
    args |= {key: number_of(options.get(key)) for key in _NUMBERS}
    odd = [key for key in _NUMBERS if key in options and args[key] is None]
    if odd:
        return _tell.refused("error.accelerate.number", option=odd[0], asked=str(options[odd[0]]))
    asked = [key for key in ("multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp") if args[key]]
    if len(asked) > 1:
        return _tell.refused("error.accelerate.exclusive")
    processes = args["num_processes"]
    if args["multi_gpu"] and processes is not None and processes < 2:
        return _tell.refused("error.accelerate.two")
    if "config" in options and not ("config_file" not in options and args["cpu"]):
        return _from_config(args, str(options["config"]))
    if "config_file" in options:
        said.append(_tell.step("step.accelerate.no-config", Certainty.UNKNOWN, path=options["config_file"]))
    count = device_count(topology, view)
    if args["num_processes"] is None:
        args["num_processes"] = count
        said.append(_tell.step("step.accelerate.count", count=count))
    if not args["multi_gpu"] and args["num_processes"] > 1 and count > 1:
        args["multi_gpu"] = True
    args["num_machines"] = 1 if args["num_machines"] is None else args["num_machines"]
    return args


def _from_config(args: dict[str, Any], text: str) -> dict[str, Any] | Outcome:
    config = read_settings(text)
    if config is None:
        return _tell.refused("error.accelerate.config", (), Certainty.UNKNOWN)
    if "distributed_type" not in config:
        return _tell.refused("error.accelerate.config-type")
    kind = str(config["distributed_type"])
    if not any(args[key] for key in ("multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm")):
        args |= {switch: kind == name for name, switch in _TYPES.items()} | {"tpu": kind in ("XLA", "TPU")}
    defaults = {"num_processes": 1 if kind == "NO" else -1, "machine_rank": 0, "num_machines": 1} | config
    ids = defaults.get("gpu_ids")
    args["gpu_ids"] = args["gpu_ids"] or ("all" if ids is None else ids)
    args["use_cpu"] = bool(defaults.get("use_cpu"))
    machines = args["num_machines"] if args["num_machines"] is not None else defaults["num_machines"]
    if not isinstance(args["gpu_ids"], str):
        return _tell.refused("error.accelerate.ids-number", asked=str(args["gpu_ids"]))
    few = len(args["gpu_ids"].split(",")) < 2 and args["gpu_ids"] != "all"
    if few and args["multi_gpu"] and _int(machines) <= 1:
        return _tell.refused("error.accelerate.one-id")
    for key in (*_NUMBERS, "main_process_ip"):
        args[key] = defaults.get(key) if args[key] is None else args[key]
    odd = [key for key in ("num_processes", "num_machines", "machine_rank") if type(args[key]) is not int]
    if odd:
        return _tell.refused("error.accelerate.number", option=odd[0], asked=str(args[odd[0]]))
    return _tell.refused("error.accelerate.minus-one") if args["num_processes"] == -1 else args


def _int(value: object) -> int:
    return value if isinstance(value, int) else 1


def _device(view: View, options: Mapping[str, Any], topology: Topology) -> tuple[int, ...]:
    """``PartialState``: cuda:(local rank % device count); the CPU where there is no GPU."""
    count = device_count(topology, view)
    if not count:
        return ()
    local = whole(view.env.get("LOCAL_RANK", "-1"))
    alone = local is None or local == -1 or options.get("set_device") is False
    return (0,) if alone or local is None else (local % count,)


def _simple(
    view: View, args: Mapping[str, Any], options: Mapping[str, Any], topology: Topology, said: list[Step]
) -> Outcome:
    """One process, whatever the number asked for."""
    cpu = bool(args.get("cpu") or args.get("use_cpu"))
    key = "step.accelerate.cpu" if cpu else "step.accelerate.simple"
    said.append(_tell.step(key, asked=args.get("num_processes")))
    chosen = () if cpu else _device(view, options, topology)
    return Outcome((replace(view, chosen=chosen),), tuple(said))


def _elastic(
    view: View, args: Mapping[str, Any], options: Mapping[str, Any], topology: Topology, said: list[Step]
) -> Outcome:
    """``torch.distributed.run`` with what accelerate makes of its flags."""
    machines = int(args["num_machines"])
    if machines > 1 and args["machine_rank"] is None:
        return _tell.refused("error.accelerate.machine-rank", tuple(said))
    flags = {
        "nproc": str(args["num_processes"] // max(machines, 1)),
        "master_port": str(args.get("main_process_port") or 29500),
        "nnodes": str(machines) if machines > 1 else None,
        "node_rank": str(args["machine_rank"]) if machines > 1 else None,
        "master_addr": args.get("main_process_ip") if machines > 1 else None,
        "rdzv_backend": args.get("rdzv_backend") or "static",
        **{key: options[key] for key in ("torch", "cpus") if key in options},
    }
    group = group_of(view, flags, topology, said)
    if isinstance(group, Outcome):
        return group
    said.append(_tell.step("step.accelerate", count=group.size))
    workers = workers_of(view, group, tuple(said))
    if isinstance(workers, Outcome):
        return workers
    views = tuple(replace(one, chosen=_device(one, options, topology)) for one in workers)
    seen = device_count(topology, view)
    if 0 < seen < group.size and not group.virtual:
        said.append(_tell.step("step.accelerate.wraps", count=group.size, seen=seen))
    return Outcome(views, tuple(said))


def _through_deepspeed(
    view: View, args: Mapping[str, Any], options: Mapping[str, Any], topology: Topology, said: list[Step]
) -> Outcome:
    """Several machines with DeepSpeed: accelerate starts the ``deepspeed`` launcher."""
    launcher = args.get("deepspeed_multinode_launcher") or "pdsh"
    flags: dict[str, Any] = {"hostfile": str(args.get("deepspeed_hostfile")), "launcher": launcher}
    if launcher == "nossh":
        flags = {**flags, "launcher": "pdsh", "no_ssh": True, "node_rank": args["machine_rank"] or 0}
    exclude, include = args.get("deepspeed_exclusion_filter"), args.get("deepspeed_inclusion_filter")
    if exclude:
        flags["exclude"] = exclude
    elif include:
        flags["include"] = include
    else:
        flags["num_gpus"] = args["num_processes"] // int(args["num_machines"])
    flags |= {key: options[key] for key in ("hosts", "set_device", "deepspeed") if key in options}
    said.append(_tell.step("step.accelerate.deepspeed"))
    outcome = DEEPSPEED["deepspeed"].apply(view, flags, topology)
    return outcome._replace(steps=(*said, *outcome.steps))


ROWS: Mapping[str, LayerRow] = {
    "accelerate": LayerRow(
        expanding(_apply, _HARMLESS),
        SOURCE,
        shaped(
            **dict.fromkeys((*_TEXTS, *_FILTERS, "config", "hosts", "torch", "deepspeed"), TEXT),
            **dict.fromkeys((*_NUMBERS, "cpus"), TEXT_OR_NUMBER),
            **dict.fromkeys((*_SWITCHES, "set_device"), SWITCH),
        ),
        programs=(
            "accelerate",
            "accelerate-launch",
            "-m accelerate.commands.launch",
            "-m accelerate.commands.accelerate_cli",
        ),
        recognise=_recognise,
    ),
}
