"""From a scenario to a prediction: fold the layers, CUDA last. The only place that knows the order.

accessible GPUs → CUDA_DEVICE_ORDER → CUDA_VISIBLE_DEVICES → ordinals
"""

from __future__ import annotations

from collections.abc import Mapping

from .certainty import Basis, Certainty, least
from .device_order import DeviceOrder, device_order
from .identity import PrefixIndex
from .layers import LAYERS, View
from .mapping import Device, Finding, Prediction, Process, Step
from .scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, Scenario
from .texts import say
from .topology import Topology
from .visible_devices import Candidates, Kind, MigPlace, Reading, read


def resolve(scenario: Scenario) -> Prediction:
    """What the NVIDIA driver will make of a scenario. Never raises on odd values: an odd value is a result with a
    reason. What a launcher or a runtime would refuse stands in ``.error``.
    """
    views: tuple[View, ...] = (View(),)
    for layer in scenario.layers:
        row = LAYERS.get(layer.kind)
        if row is None:
            error = say("error.unknown-layer", kind=layer.kind)
            return Prediction(scenario, (), Certainty.UNKNOWN, error)
        odd = row.problem(layer.options)
        if odd is not None:
            return Prediction(scenario, (), Certainty.UNKNOWN, say("error.odd-options", kind=layer.kind, why=odd))
        views = tuple(new for view in views for new in row.apply(view, layer.options, scenario.topology)[0])
    processes = tuple(_process(scenario.topology, view) for view in views)
    certainty = least(p.certainty for p in processes)
    return Prediction(scenario, processes, certainty, None, _explain, _diagnose)


def _explain(prediction: Prediction) -> tuple[Step, ...]:
    from .explanation import explain  # loaded when somebody asks

    return explain(prediction)


def _diagnose(prediction: Prediction) -> tuple[Finding, ...]:
    from .diagnosis import diagnose

    return diagnose(prediction)


def _process(topology: Topology, view: View) -> Process:
    """CUDA's part: order the accessible GPUs, read the list, number what is left."""
    gpus = topology.gpus
    order = device_order(topology, view.env.get(CUDA_DEVICE_ORDER), view.accessible)
    reading = read(view.env.get(CUDA_VISIBLE_DEVICES), candidates(topology, order))
    places, sure = order.places, order.certainties
    basis = reading.basis
    plain = basis is Basis.DOCUMENTED  # then every pick is, and nobody need look at each
    devices = tuple(
        Device(
            ordinal,
            gpus[places[pick.place]],
            None if pick.mig is None else gpus[places[pick.place]].mig_instances[pick.mig],
            _certainty(
                Basis.DOCUMENTED if plain else reading.basis_of(pick),
                sure[pick.place] if pick.by_number else Certainty.CERTAIN,
            ),
            places[pick.place],
            pick.place,
            pick.token,
        )
        for ordinal, pick in enumerate(reading.picks)
    )
    accessible = topology.usable if view.accessible is None else view.accessible
    return Process(
        devices,
        view.env,
        accessible,
        order,
        reading,
        _certainty(basis, least({device.certainty for device in devices} | _order_doubt(order, reading, topology))),
        tuple(gpus[i].nvml_index for i in accessible),
        view.rank,
        view.local_rank,
        view.chosen,
    )


def _order_doubt(order: DeviceOrder, reading: Reading, topology: Topology) -> set[Certainty]:
    """What the order adds where no edge is left to carry it: with MIG it matters which GPU a number names."""
    stop = reading.stop
    numbered = stop is not None and stop.empties and reading.tokens[0].kind is Kind.INTEGER
    mig = numbered and any(gpu.mig_mode for gpu in topology.gpus)
    return {order.certainty} if mig else set()


def _certainty(basis: Basis, other: Certainty) -> Certainty:
    """The weaker of what a basis allows and another claim."""
    if basis is Basis.DOCUMENTED:
        return other
    claim = basis.certainty
    return claim if claim.rank >= other.rank else other


def candidates(topology: Topology, order: DeviceOrder) -> Candidates:
    """The devices that the list can pick from, in CUDA's order. Made once a machine and order."""

    def make() -> Candidates:
        gpus = [topology.gpus[i] for i in order.places]
        uuids = [gpu.uuid for gpu in gpus]
        mig: Mapping[int, tuple[MigPlace, ...]] = {
            place: tuple(MigPlace(m.uuid, m.gpu_instance_id, m.compute_instance_id) for m in gpu.mig_instances)
            for place, gpu in enumerate(gpus)
            if gpu.mig_mode
        }
        unusable = len(topology.gpus) - len(topology.usable)
        return Candidates(uuids, PrefixIndex(uuids), mig, topology.driver_major, unusable)

    return topology.memo(("candidates", order.places), make)
