"""CUDA's part: order the accessible GPUs, read the list, number what is left. The innermost of all layers."""

from __future__ import annotations

from collections.abc import Mapping

from ..certainty import Basis, Certainty, least
from ..device_order import DeviceOrder, device_order
from ..identity import PrefixIndex
from ..mapping import Device, Process
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..topology import Topology
from ..visible_devices import Candidates, Kind, MigPlace, Reading, read
from .base import View


def process_of(topology: Topology, view: View) -> Process:
    """The CUDA devices of one process. Layers ask it too, where a tool counts devices before it starts workers."""
    gpus = topology.gpus
    order = device_order(topology, view.env.get(CUDA_DEVICE_ORDER), view.accessible)
    reading = read(view.env.get(CUDA_VISIBLE_DEVICES), candidates(topology, order))
    places, sure = order.places, order.certainties
    basis = reading.basis
    plain = basis is Basis.DOCUMENTED  # then every pick is, and nobody need look at each
    layers = view.certainty
    devices = tuple(
        Device(
            ordinal,
            gpus[places[pick.place]],
            None if pick.mig is None else gpus[places[pick.place]].mig_instances[pick.mig],
            _weaker(
                layers,
                _certainty(
                    Basis.DOCUMENTED if plain else reading.basis_of(pick),
                    sure[pick.place] if pick.by_number else Certainty.CERTAIN,
                ),
            ),
            places[pick.place],
            pick.place,
            pick.token,
        )
        for ordinal, pick in enumerate(reading.picks)
    )
    accessible = topology.usable if view.accessible is None else view.accessible
    own = _certainty(basis, least({device.certainty for device in devices} | _order_doubt(order, reading, topology)))
    return Process(
        devices,
        view.env,
        accessible,
        order,
        reading,
        _weaker(layers, own),
        tuple(gpus[i].nvml_index for i in accessible),
        view.rank,
        view.local_rank,
        view.chosen,
        view.node_rank,
        view.worker,
    )


def device_count(topology: Topology, view: View) -> int:
    """``torch.cuda.device_count()`` of a process that has this view."""
    return len(process_of(topology, view).devices)


def _order_doubt(order: DeviceOrder, reading: Reading, topology: Topology) -> set[Certainty]:
    """What the order adds where no edge is left to carry it: with MIG it matters which GPU a number names."""
    stop = reading.stop
    numbered = stop is not None and stop.empties and reading.tokens[0].kind is Kind.INTEGER
    mig = numbered and any(gpu.mig_mode for gpu in topology.gpus)
    return {order.certainty} if mig else set()


def _weaker(one: Certainty, other: Certainty) -> Certainty:
    return other if one is Certainty.CERTAIN or one.rank <= other.rank else one


def _certainty(basis: Basis, other: Certainty) -> Certainty:
    """The weaker of what a basis allows and another claim."""
    return other if basis is Basis.DOCUMENTED else _weaker(basis.certainty, other)


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
