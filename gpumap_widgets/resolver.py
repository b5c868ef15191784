"""From a scenario to a prediction: fold the layers, CUDA last. The only place that knows the order.

accessible GPUs → CUDA_DEVICE_ORDER → CUDA_VISIBLE_DEVICES → ordinals
"""

from __future__ import annotations

from .certainty import Certainty, least
from .layers import Folded, client_refused, fold, process_of
from .mapping import Finding, Prediction, Step
from .scenario import Scenario


def resolve(scenario: Scenario) -> Prediction:
    """What the NVIDIA driver will make of a scenario. Never raises on odd values: an odd value is a result with a
    reason. What a launcher or a runtime would refuse stands in ``.error``.
    """
    folded = fold(scenario.topology, scenario.layers)
    refused = next((why for view in folded.views if (why := client_refused(scenario.topology, view)) is not None), None)
    if refused is not None:
        return Prediction(scenario, (), Certainty.CERTAIN, refused.text(), _explain, _diagnose)
    return _resolved(scenario, folded)


def resolve_believed(scenario: Scenario) -> Prediction:
    """The same with every layer doing what people take it to do, where a popular belief is known to be wrong."""
    return _resolved(scenario, fold(scenario.topology, scenario.layers, believed=True))


def _resolved(scenario: Scenario, folded: Folded) -> Prediction:
    if folded.error is not None:
        return Prediction(scenario, (), folded.certainty, folded.error, _explain, _diagnose)
    processes = tuple(process_of(scenario.topology, view) for view in folded.views)
    certainty = least(p.certainty for p in processes)
    return Prediction(scenario, processes, certainty, None, _explain, _diagnose)


def _explain(prediction: Prediction, worker: int = 0) -> tuple[Step, ...]:
    from .explanation import explain  # loaded when somebody asks

    return explain(prediction, worker)


def _diagnose(prediction: Prediction) -> tuple[Finding, ...]:
    from .diagnosis import diagnose

    return diagnose(prediction)
