"""The DeepSpeed launcher: every worker of a node gets the same list of GPUs, and takes the one of its local rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..certainty import Certainty
from ..frozen import FrozenDict
from ..mapping import Step
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Layer, is_relevant
from ..topology import Topology
from .base import LayerRow, Outcome, Recognised, View
from .cuda import device_count
from .deepspeed_slots import Refusal, Slots, active, read_hostfile, version_of
from .expanding import expanding
from .options import Option, Options
from .shapes import SWITCH, TABLE, TEXT, TEXT_OR_NUMBER, facts, number_of, shaped, texts_of
from .telling import Teller, crowd
from .words import Word, started

SOURCE = "deepspeed 0.19.8 launcher/runner.py and launch.py, run; 0.12.6 to 0.19.7 read"
_tell = Teller("launcher", SOURCE)
DEFAULT_HOSTFILE = "/job/hostfile"
_ENV_FILES = (".deepspeed_env", "./.deepspeed_env", "~/.deepspeed_env")
_MOST_SLOTS = 100_000
"""In a hostfile, before filters."""
_MPI = ("openmpi", "mpich", "impi", "mvapich")

_OPTIONS = Options(
    [
        Option("-H --hostfile", key="hostfile"),
        Option("-i --include", key="include"),
        Option("-e --exclude", key="exclude"),
        Option("--num_nodes", key="num_nodes"),
        Option("--num_gpus --num_accelerators", key="num_gpus"),
        Option("--node_rank", key="node_rank"),
        Option("--launcher", key="launcher"),
        Option("--master_addr", key="master_addr"),
        Option("--master_port", key="master_port"),
        Option("--no_ssh", 0, key="no_ssh"),
        Option("--force_multi", 0, key="force_multi"),
        Option("--module", 0, key="module"),
        Option("--no_python", 0, key="no_python"),
        Option(
            "--no_local_rank --no_ssh_check --save_pid --bind_cores_to_rank --elastic_training -q --quiet -h --help", 0
        ),
        Option("--launcher_args --enable_each_rank_log --autotuning --bind_core_list --ssh_port --venv_script"),
        Option("--log_level --min_elastic_nodes --max_elastic_nodes"),
    ],
    abbreviate=True,
)
_NUMBERS = ("num_nodes", "num_gpus", "node_rank")
_TEXTS = ("include", "exclude", "hostfile", "launcher", "master_addr", "master_port")
_SWITCHES = ("no_ssh", "force_multi")
_HARMLESS = ("master_addr", "master_port")


def deepspeed(
    *,
    num_gpus: int | None = None,
    num_nodes: int | None = None,
    include: str = "",
    exclude: str = "",
    hosts: Mapping[str, int] | None = None,
    set_device: bool = True,
    version: str | None = None,
    **options: Any,
) -> Layer:
    """The ``deepspeed`` launcher.

    ``num_gpus``, ``num_nodes``, ``include``, ``exclude``: its flags. ``hosts``: host → slots, as a hostfile says;
    None without one. ``set_device``: False when the script never selects a device. ``version``: of DeepSpeed, which
    sorts slots since 0.15.2. Others: ``launcher`` (``pdsh``, ``openmpi``, ``slurm``, …), ``no_ssh``, ``node_rank``,
    ``force_multi``, ``master_addr``, ``master_port``, ``exports`` (what a .deepspeed_env file sets on every node).
    """
    text = None if hosts is None else "\n".join(f"{host} slots={slots}" for host, slots in hosts.items())
    given = {"num_gpus": num_gpus, "num_nodes": num_nodes, "include": include, "exclude": exclude, "hosts": text}
    given |= {"set_device": set_device, "deepspeed": version, **options}
    return Layer("deepspeed", {key: value for key, value in given.items() if value not in (None, "")})


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    found = _OPTIONS.parse(words[1:])
    options = found.options((*_TEXTS, *_NUMBERS), _SWITCHES) | facts(assume, set_device=SWITCH, deepspeed=TEXT)
    files = texts_of(assume, "files")
    path = options.get("hostfile", DEFAULT_HOSTFILE)
    if path in files:
        options["hosts"] = files[path]
    lines = [line.partition("=") for name in _ENV_FILES for line in files.get(name, "").splitlines() if "=" in line]
    exports = {name.strip(): value.strip() for name, _, value in lines if is_relevant(name.strip())}
    if exports:
        options["exports"] = exports
    rest = started(found.rest, python=not found.has("no_python"), module=found.has("module"))
    return Recognised((Layer("deepspeed", options),), rest)


class _Plan(NamedTuple):
    """What the launcher decided before it starts anything."""

    slots: Slots
    remote: bool
    """Workers are started on every host, through another program."""
    hosted: bool
    """A hostfile said which hosts there are."""


def _apply(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    said: list[Step] = []
    try:
        plan = _plan(view, options, topology, said)
    except Refusal as refused:
        return _tell.refused(refused.key, tuple(said), **refused.fields)
    crowded = crowd(sum(map(len, plan.slots.values())))
    if crowded is not None:
        return crowded
    launcher = str(options.get("launcher", "pdsh")).lower()
    if plan.remote and launcher != "pdsh":
        return _by_mpi(view, plan, launcher, options, said)
    return _started(view, plan, options, said)


def _plan(view: View, options: Mapping[str, Any], topology: Topology, said: list[Step]) -> _Plan:
    """``main`` of runner.py up to the start. Raises Refusal where it raises."""
    odd = [key for key in _NUMBERS if key in options and number_of(options[key]) is None]
    if odd:
        raise Refusal("error.deepspeed.number", option=odd[0], asked=str(options[odd[0]]))
    include, exclude = str(options.get("include", "")), str(options.get("exclude", ""))
    num_nodes, num_gpus = (_given(options, key, -1) for key in ("num_nodes", "num_gpus"))
    pool = read_hostfile(options["hosts"]) if "hosts" in options else None
    if pool is None and "hostfile" in options:
        said.append(_tell.step("step.deepspeed.no-hostfile", Certainty.UNKNOWN, path=options["hostfile"]))
    counted = view
    if pool is None and view.env.get(CUDA_VISIBLE_DEVICES):
        include = _from_environment(
            view, include, limited=bool(include or exclude or num_nodes > 1 or num_gpus > 0), said=said
        )
        counted = view.with_env({CUDA_VISIBLE_DEVICES: None})
    if (num_nodes >= 0 or num_gpus >= 0) and (include or exclude):
        raise Refusal("error.deepspeed.num-and-filter")
    if sum(pool.values() if pool else ()) > _MOST_SLOTS:
        raise Refusal("error.too-many-processes", most=_MOST_SLOTS)
    local = pool is None
    if pool is None:
        pool = {"localhost": device_count(topology, counted)}
        if not pool["localhost"]:
            raise Refusal("error.deepspeed.no-gpu")
        if num_nodes > 1:
            raise Refusal("error.deepspeed.num-nodes")
    slots = dict(active(pool, include, exclude, version_of(options.get("deepspeed"))))
    if num_nodes > 0:
        slots = dict(list(slots.items())[:num_nodes])
    if num_gpus > 0:
        slots = dict.fromkeys(slots, tuple(range(min(num_gpus, 10_000))))
    _check_launcher(slots, options)
    remote = (bool(options.get("force_multi")) or len(slots) > 1) and not options.get("no_ssh")
    if not slots:
        raise Refusal("error.deepspeed.nothing")
    return _Plan(slots, remote, not local)


def _from_environment(view: View, include: str, *, limited: bool, said: list[Step]) -> str:
    """The list becomes the filter, unless a flag limits the GPUs."""
    visible = view.env[CUDA_VISIBLE_DEVICES]
    if limited:
        said.append(_tell.step("step.deepspeed.ignored", value=visible))
        return include
    said.append(_tell.step("step.deepspeed.include", value=visible))
    return f"localhost:{visible}"


def _given(options: Mapping[str, Any], key: str, default: int) -> int:
    value = number_of(options.get(key))
    return default if value is None else value


def _check_launcher(slots: Slots, options: Mapping[str, Any]) -> None:
    """What launchers other than pdsh refuse, and ``--no_ssh`` without its rank."""
    if options.get("no_ssh") and not 0 <= _given(options, "node_rank", -1) < len(slots):
        raise Refusal("error.deepspeed.node-rank")
    launcher = str(options.get("launcher", "pdsh")).lower()
    if launcher == "slurm" and any(list(held) != list(range(len(held))) for held in slots.values()):
        raise Refusal("error.deepspeed.slurm-slots")
    if launcher == "slurm" and len({len(held) for held in slots.values()}) > 1:
        raise Refusal("error.deepspeed.slurm-counts")


def _started(view: View, plan: _Plan, options: Mapping[str, Any], said: list[Step]) -> Outcome:
    """``launch.py`` on this machine, or by ssh on every host."""
    nodes = range(len(plan.slots)) if plan.remote else [_given(options, "node_rank", 0) if options.get("no_ssh") else 0]
    base = view
    if plan.remote:
        base = replace(view, env=FrozenDict(dict(options.get("exports", {})))).doubted(Certainty.LIKELY)
        key = "step.deepspeed.order-lost" if CUDA_DEVICE_ORDER in view.env else "step.deepspeed.ssh"
        said.append(_tell.step(key, Certainty.LIKELY, value=view.env.get(CUDA_DEVICE_ORDER, "")))
    hosts, world = list(plan.slots.items()), sum(map(len, plan.slots.values()))
    starts = [sum(len(held) for _, held in hosts[:node]) for node in range(len(hosts))]
    master = str(options.get("master_addr") or "") or None if plan.hosted else "127.0.0.1"
    port = str(options.get("master_port") or 29500)
    views = []
    for node in nodes:
        host, held = hosts[node]
        listed = ",".join(map(str, held))
        said.append(_tell.step("step.deepspeed", count=len(held), host=host, value=listed))
        for k in range(len(held)):
            rank = starts[node] + k
            local = rank % len(held)  # as launch.py has it: unequal hosts shift the local ranks
            changes = {"RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(world)}
            changes |= {CUDA_VISIBLE_DEVICES: listed, "MASTER_PORT": port}
            worker = base.with_env({**changes, "MASTER_ADDR": master})
            chosen = (0,) if options.get("set_device") is False else (local,)
            name = f"{host}, rank {rank}" if len(hosts) > 1 else ""
            several = node if len(hosts) > 1 else view.node_rank
            views.append(replace(worker, rank=rank, local_rank=local, node_rank=several, chosen=chosen, worker=name))
    return Outcome(tuple(views), tuple(said))


def _by_mpi(view: View, plan: _Plan, launcher: str, options: Mapping[str, Any], said: list[Step]) -> Outcome:
    """Launchers that start the script themselves: DeepSpeed sets no list then."""
    if launcher not in (*_MPI, "slurm"):
        return _tell.refused("error.deepspeed.launcher", tuple(said), asked=launcher)
    limited = any(key in options for key in ("include", "exclude", "num_nodes", "num_gpus"))
    if launcher in _MPI and limited:
        return _tell.refused("error.deepspeed.mpi-filter", tuple(said), launcher=launcher)
    sure = Certainty.UNKNOWN if launcher == "slurm" else Certainty.LIKELY
    said.append(_tell.step("step.deepspeed.other-launcher", sure, launcher=launcher))
    views, rank = [], 0
    for node, (host, held) in enumerate(plan.slots.items()):
        for k in range(len(held)):
            ranks = {"RANK": str(rank), "LOCAL_RANK": str(k), "WORLD_SIZE": str(sum(map(len, plan.slots.values())))}
            chosen = (0,) if options.get("set_device") is False else (k,)
            worker = replace(view.with_env(ranks), rank=rank, local_rank=k, node_rank=node, chosen=chosen)
            views.append(replace(worker, worker=f"{host}, rank {rank}").doubted(sure))
            rank += 1
    return Outcome(tuple(views), tuple(said))


def _believed(view: View, options: Mapping[str, Any], topology: Topology) -> Outcome:
    """The popular belief: worker k is given GPU k alone, as its cuda:0."""
    outcome = _apply(view, options, topology)
    views = tuple(replace(one.with_env({CUDA_VISIBLE_DEVICES: _entry(one)}), chosen=(0,)) for one in outcome.views)
    return outcome._replace(views=views)


def _entry(view: View) -> str:
    entries = view.env.get(CUDA_VISIBLE_DEVICES, "").split(",")
    at = view.local_rank or 0
    return entries[at] if at < len(entries) else str(at)


ROWS: Mapping[str, LayerRow] = {
    "deepspeed": LayerRow(
        expanding(_apply, _HARMLESS),
        SOURCE,
        shaped(
            **dict.fromkeys(_TEXTS, TEXT),
            **dict.fromkeys(_SWITCHES, SWITCH),
            **dict.fromkeys(_NUMBERS, TEXT_OR_NUMBER),
            hosts=TEXT,
            exports=TABLE,
            deepspeed=TEXT,
            set_device=SWITCH,
        ),
        programs=("deepspeed", "deepspeed.pt", "ds", "-m deepspeed.launcher.runner"),
        recognise=_recognise,
        believed=expanding(_believed, _HARMLESS),
    ),
}
