"""A scenario: a machine and the layers between it and CUDA. Plain frozen data with a JSON round trip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .errors import GpumapError, UnreadableScenario
from .frozen import FrozenDict
from .topology import Gpu, MigInstance, Topology

ENVIRONMENT = "environment"
CUDA_DEVICE_ORDER = "CUDA_DEVICE_ORDER"
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
SCHEMA = 1
_NO_ENV: Mapping[str, Any] = FrozenDict()

_RELEVANT_PREFIXES = (
    *("CUDA_", "NVIDIA_", "SLURM_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_", "MPI_LOCALRANKID", "MV2_COMM_WORLD_"),
    *("PET_", "RAY_", "FLUX_", "PBS_", "LSB_", "JSM_NAMESPACE_", "HOROVOD_", "SGLANG_", "OLLAMA_", "GGML_CUDA_"),
    *("LLAMA_ARG_", "VLLM_", "ACCELERATE_", "TF_MIN_GPU_", "APPTAINERENV_", "SINGULARITYENV_"),
)
_RELEVANT_NAMES = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}
    | {"GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK"}
    | {"NV_GPU"}
)


def is_relevant(name: str) -> bool:
    """Whether an environment variable can touch the numbering of GPUs; only those are kept in a scenario."""
    return name in _RELEVANT_NAMES or name.startswith(_RELEVANT_PREFIXES)


@dataclass(frozen=True)
class Layer:
    """One thing between the machine and CUDA: its kind (a row in the table of layers) and its options."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=FrozenDict)
    enabled: bool = True
    """False for a layer that is kept but passed over."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _freeze(self.options))

    def to_dict(self) -> dict[str, Any]:
        """The layer as plain data for JSON."""
        out = {"kind": self.kind, "options": _thaw(self.options)}
        return out if self.enabled else {**out, "enabled": False}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Layer:
        """The inverse of `to_dict`. Raises TypeError or KeyError for other data."""
        kind, options, enabled = row["kind"], row["options"], row.get("enabled", True)
        if not isinstance(kind, str) or not isinstance(options, Mapping) or not isinstance(enabled, bool):
            raise TypeError(f"{row!r} is no layer")
        given = options.get("set", {})
        if kind == ENVIRONMENT and (
            not isinstance(given, Mapping) or any(not isinstance(value, str) for value in given.values())
        ):
            raise TypeError(f"set is {given!r}, no object of texts")
        return cls(kind, options, enabled)

    @property
    def label(self) -> str:
        """The layer in one line, as a person would write it."""
        return f"{self.kind}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenDict({str(k): _freeze(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_freeze(v) for v in value)
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _thaw(v) for k, v in value.items()}
    return [_thaw(v) for v in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Scenario:
    """A machine and the layers between it and CUDA, outermost first."""

    topology: Topology
    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))

    @classmethod
    def from_env(cls, topology: Topology, env: Mapping[str, str | None]) -> Scenario:
        """A process started on the machine with these environment variables.

        A variable that is absent or None is unset; "" is set to nothing, which CUDA reads differently. Variables that
        cannot touch the numbering are left out, so that a whole ``os.environ`` may be given. Raises TypeError for a
        value that is not text: an environment has no other.
        """
        values = {}
        for name, value in env.items():
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"{name} is {value!r}; the value of an environment variable is text, e.g. {str(value)!r}."
                )
            if value is not None and is_relevant(name):
                values[name] = value
        return cls(topology, (Layer(ENVIRONMENT, {"set": values}),))

    @classmethod
    def from_command(
        cls,
        topology: Topology,
        command: str,
        env: Mapping[str, str | None] = _NO_ENV,
        assume: Mapping[str, Any] = _NO_ENV,
    ) -> Scenario:
        """What a command that a user types makes of a machine; see `gpumap_widgets.commands`.

        ``env``: the environment that it is typed in. ``assume``: facts that no command line tells, such as
        ``allocated`` (NVML indices that a scheduler or device plugin gave), ``constrain_devices`` (device cgroup),
        ``set_device`` (False when the script never selects a device), or the version of a tool: ``{"torch": "2.9.1"}``.
        Of containers: ``files`` (path → text of env files, Compose files, manifests), ``image_env``, ``image_entrypoint``,
        ``image_cmd``, ``container`` (the command that started the one that is joined), ``runtime`` (the daemon's default),
        ``toolkit`` (``legacy``, ``cdi`` or a version), ``docker_daemon`` (``host``); of Kubernetes ``device_plugin``,
        ``device_list_strategy``, ``device_id_strategy``, ``mig_strategy``, ``sharing``, ``accept_envvar``.
        The command is only read: never run, never expanded by a shell. Text that cannot be read is a scenario whose
        prediction has the reason in ``.error``.
        """
        from .commands import read_command

        shell = cls.from_env(topology, env).layers
        return cls(topology, (*shell, *read_command(command, env, assume)))

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the innermost environment layer sets, of those that reach CUDA in time."""
        place = self.innermost()
        return FrozenDict() if place is None else self.layers[place].options.get("set", FrozenDict())

    @property
    def device_order(self) -> str | None:
        """CUDA_DEVICE_ORDER as this scenario sets it; None when unset."""
        return self.environment.get(CUDA_DEVICE_ORDER)

    @property
    def visible_devices(self) -> str | None:
        """CUDA_VISIBLE_DEVICES as this scenario sets it; None when unset, "" when set to nothing."""
        return self.environment.get(CUDA_VISIBLE_DEVICES)

    def with_env(self, **changes: str | None) -> Scenario:
        """The same scenario with variables of the innermost environment layer set, or unset where None."""
        values = {k: v for k, v in {**self.environment, **changes}.items() if v is not None}
        layers = list(self.layers)
        place = self.innermost()
        if place is None:
            return Scenario(self.topology, (*layers, Layer(ENVIRONMENT, {"set": values})))
        options = {**layers[place].options, "set": values}
        outer = {name for layer in layers[:place] if layer.kind == ENVIRONMENT for name in layer.options.get("set", ())}
        unset = {name for name in options.get("unset", ()) if name not in values}
        unset |= {name for name, value in changes.items() if value is None and name in outer}
        options.pop("unset", None)
        layers[place] = Layer(ENVIRONMENT, {**options, **({"unset": sorted(unset)} if unset else {})})
        return Scenario(self.topology, tuple(layers))

    def innermost(self, start: int = 0) -> int | None:
        """Place of the innermost environment layer, from ``start`` on, that is on and in time for CUDA; None for none."""
        for i in reversed(range(start, len(self.layers))):
            layer = self.layers[i]
            if layer.kind == ENVIRONMENT and layer.enabled and not layer.options.get("late"):
                return i
        return None

    def with_topology(self, topology: Topology) -> Scenario:
        """The same layers on another machine."""
        return Scenario(topology, self.layers)

    def to_json(self) -> str:
        """The scenario as JSON text; `from_json` gives an equal scenario back."""
        import json

        machine = asdict_topology(self.topology)
        layers = [layer.to_dict() for layer in self.layers]
        return json.dumps({"gpumap_scenario": SCHEMA, "topology": machine, "layers": layers}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """Read what `to_json` wrote. Raises UnreadableScenario for anything else."""
        import json

        try:
            data = json.loads(text)
            if not isinstance(data, dict) or data.get("gpumap_scenario") != SCHEMA:
                raise UnreadableScenario(
                    "This is no scenario of a version that this release reads.",
                    remedy=f"It must be a JSON object with gpumap_scenario: {SCHEMA}.",
                )
            layers = tuple(Layer.from_dict(row) for row in data["layers"])
            return cls(topology_from_dict(data["topology"]), layers)
        except UnreadableScenario:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, GpumapError) as exc:
            raise UnreadableScenario(f"Not a scenario: {type(exc).__name__}: {exc}") from exc


def asdict_topology(topology: Topology) -> dict[str, Any]:
    """A machine as plain data for JSON: only what is known."""
    out: dict[str, Any] = {"gpus": [_known(asdict(gpu)) for gpu in topology.gpus]}
    for name in (
        "driver_version",
        "platform",
        "default_order",
        "default_order_measured",
        "default_order_date",
        "source",
        "simulated",
        "notes",
    ):
        value = getattr(topology, name)
        if value not in (None, False, ()) or (name == "default_order" and value == ()):
            out[name] = list(value) if isinstance(value, tuple) else value
    return out


def _known(values: dict[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in values.items() if v is not None and v != ()}
    if "mig_instances" in out:
        out["mig_instances"] = [{k: v for k, v in m.items() if v is not None} for m in out["mig_instances"]]
    return out


_TYPES: Mapping[str, type] = {
    **dict.fromkeys(
        [
            "name",
            "uuid",
            "pci_bus_id",
            "problem",
            "profile",
            "driver_version",
            "platform",
            "source",
            "default_order_date",
        ],
        str,
    ),
    **dict.fromkeys(["mig_mode", "default_order_measured", "simulated"], bool),
}
"""Type of a field in JSON; whatever is not named here is a whole number."""
_ABSURD = 2**53
_PARTS = frozenset({"gpus", "mig_instances", "compute_capability", "default_order", "notes", "_memo"})
"""Fields that are made of others."""


def _values(row: Any, kind: type) -> dict[str, Any]:
    """The plain fields of a frozen type from a JSON object. Raises TypeError where one has another type."""
    if not isinstance(row, Mapping):
        raise TypeError(f"an object expected, not {row!r}")
    out = {f.name: row[f.name] for f in fields(kind) if f.name in row and f.name not in _PARTS}
    for name, value in out.items():
        if type(value) is not _TYPES.get(name, int):
            raise TypeError(f"{name} is {value!r}, not {_TYPES.get(name, int).__name__}")
        if type(value) is int and abs(value) >= _ABSURD:
            raise ValueError(f"{name} is {value}, more than any machine has")
    return out


def _items(row: Mapping[str, Any], name: str, kind: type) -> tuple[Any, ...]:
    """A list in a JSON object, all of one type; () where it is not there."""
    items = row.get(name, [])
    if not isinstance(items, list) or any(type(item) is not kind for item in items):
        raise TypeError(f"{name} is {items!r}, no list of {kind.__name__}")
    return tuple(items)


def topology_from_dict(data: Mapping[str, Any]) -> Topology:
    """The inverse of `asdict_topology`. Raises TypeError, ValueError or KeyError for other data."""
    values = _values(data, Topology)
    order = _items(data, "default_order", int) if data.get("default_order") is not None else None
    gpus = tuple(_gpu(row) for row in data["gpus"])
    return Topology(gpus, default_order=order, notes=_items(data, "notes", str), **values)


def _gpu(row: Mapping[str, Any]) -> Gpu:
    values = _values(row, Gpu)
    if row.get("compute_capability") is not None:
        major, minor = _items(row, "compute_capability", int)
        values["compute_capability"] = (major, minor)
    instances = (MigInstance(**_values(m, MigInstance)) for m in _items(row, "mig_instances", dict))
    return Gpu(mig_instances=tuple(instances), **values)
