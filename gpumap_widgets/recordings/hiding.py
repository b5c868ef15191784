"""What a recording does not tell: secrets never, names not where a mask is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..comparison import compare
from ..frozen import FrozenDict
from ..mapping import Observation, Prediction, message
from ..resolver import resolve
from ..scenario import CUDA_VISIBLE_DEVICES, ENVIRONMENT, Layer, Scenario
from ..sources.capsule import Capsule
from ..sources.capsule.masking import Mask, masked_capsule
from ..sources.capsule.value import SECRET
from .value import Recording, foretold_by


def without_secrets(prediction: Prediction, seen: Observation) -> tuple[Prediction, Observation]:
    """The run without the variables whose names speak of secrets."""

    def kept(env: Mapping[str, Any]) -> FrozenDict[str, Any]:
        return FrozenDict({name: value for name, value in env.items() if not SECRET.search(name)})

    layers = tuple(
        replace(layer, options={**layer.options, "set": kept(layer.options["set"])}) if _sets(layer) else layer
        for layer in prediction.scenario.layers
    )
    scenario = replace(prediction.scenario, layers=layers)
    hidden = [replace(one, env=kept(one.env), wanted_env=kept(one.wanted_env)) for one in (seen, *seen.others)]
    return resolve(scenario), replace(hidden[0], others=tuple(hidden[1:]))


def _sets(layer: Layer) -> bool:
    return layer.kind == ENVIRONMENT and isinstance(layer.options.get("set"), Mapping)


def masked_recording(one: Recording, salt: str | None) -> Recording:
    """The run with masked names; what was equal stays equal, so that it compares as before."""
    import secrets

    salt = salt or secrets.token_hex(16)
    scenario, seen = one.prediction.scenario, one.observation
    mask = Mask(salt, one.host, one.user)
    capsule = masked_capsule(Capsule(scenario.topology, host=one.host, user=one.user), salt)
    layers = tuple(Layer(layer.kind, _masked_options(layer, mask), layer.enabled) for layer in scenario.layers)
    prediction = resolve(Scenario(capsule.topology, layers))
    before, after = (dict(p.processes[0].env) if p.processes else {} for p in (one.prediction, prediction))

    def variables(env: Mapping[str, str]) -> FrozenDict[str, str]:
        """As the masked prediction has them, where they were as the prediction had them."""
        return FrozenDict(
            {k: after[k] if before.get(k) == v and k in after else mask.variable(k, v) for k, v in env.items()}
        )

    def uuid(value: str | None) -> str | None:
        return None if value is None else mask.uuid(value)

    def masked(seen: Observation) -> Observation:
        return replace(
            seen,
            devices=tuple(replace(device, uuid=uuid(device.uuid)) for device in seen.devices),
            present=None if seen.present is None else tuple((uuid(known), at) for known, at in seen.present),
            env=variables(seen.env),
            wanted_env=variables(seen.wanted_env),
            kernel_name=mask.prose(seen.kernel_name),
            problem=message("recording.said", text=mask.prose(seen.problem.text())) if seen.problem else None,
            notes=tuple(message("recording.said", text=mask.prose(note.text())) for note in seen.notes),
            others=tuple(masked(other) for other in seen.others),
        )

    observation = masked(seen)
    result = compare(prediction, observation)
    told = (result.verdict, result.reason.text(), foretold_by(prediction))
    return Recording(
        prediction, observation, one.recorded, capsule.host, capsule.user, one.release, *told, capsule.mask
    )


def _masked_options(layer: Layer, mask: Mask) -> Any:
    if _sets(layer):
        return {**layer.options, "set": {k: mask.variable(k, v) for k, v in layer.options["set"].items()}}
    return _masked_leaves(layer.options, mask)


def _masked_leaves(value: Any, mask: Mask) -> Any:
    """Every text in the options of a layer, with the UUIDs, host and user in it masked."""
    if isinstance(value, Mapping):
        return {name: _masked_leaves(inner, mask) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_masked_leaves(inner, mask) for inner in value]
    return mask.variable(CUDA_VISIBLE_DEVICES, value) if isinstance(value, str) else value
