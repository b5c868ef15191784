"""CUDA's part: order the accessible GPUs, read the list, number what is left. The innermost of all layers."""

from __future__ import annotations

from collections.abc import Mapping

from ..certainty import Basis, Certainty, least
from ..device_order import DeviceOrder, device_order, served_order
from ..frozen import FrozenDict
from ..identity import PrefixIndex
from ..mapping import Device, Process
from ..picks import Pick
from ..scenario import CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES
from ..topology import Topology
from ..visible_devices import Candidates, Kind, MigPlace, Reading, read
from .base import View


def process_of(topology: Topology, view: View) -> Process:
    """The CUDA devices of one process. Layers ask it too, where a tool counts devices before it starts workers."""
    gpus = topology.gpus
    left, usable = view.left(topology), usable_of(topology, view)
    order = _order(topology, view)
    reading = read(view.env.get(CUDA_VISIBLE_DEVICES), candidates(topology, order, len(left) - len(usable), view.mig))
    if view.mig:
        reading = reading._replace(picks=tuple(in_full(pick, order, view.mig) for pick in reading.picks))
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
    own = _certainty(basis, least({device.certainty for device in devices} | _order_doubt(order, reading, topology)))
    return Process(
        devices,
        view.env,
        usable,
        order,
        reading,
        _weaker(layers, own),
        tuple(gpus[i].nvml_index for i in usable),
        view.rank,
        view.local_rank,
        view.chosen,
        view.node_rank,
        view.worker,
        left,
        view.mig,
    )


def usable_of(topology: Topology, view: View) -> tuple[int, ...]:
    """Positions of the GPUs that are left and that the driver can open."""
    if view.accessible is None:
        return topology.usable
    return tuple(i for i in view.accessible if topology.gpus[i].problem is None)


def _order(topology: Topology, view: View) -> DeviceOrder:
    """CUDA's order of what is left: by CUDA_DEVICE_ORDER, or as an MPS server serves it."""
    value, usable = view.env.get(CUDA_DEVICE_ORDER), usable_of(topology, view)
    if view.served is None:
        return device_order(topology, value, None if view.accessible is None else usable)
    places = tuple(i for i in view.served if i in usable)
    return served_order(topology, value, places)


def in_full(pick: Pick, order: DeviceOrder, mig: Mapping[int, tuple[int, ...]]) -> Pick:
    """A pick whose MIG instance counts within what is left, counted within all that the GPU has."""
    kept = mig.get(order.places[pick.place])
    return pick if pick.mig is None or kept is None else pick._replace(mig=kept[pick.mig])


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


def candidates(
    topology: Topology, order: DeviceOrder, unusable: int, mig: Mapping[int, tuple[int, ...]] = FrozenDict()
) -> Candidates:
    """The devices that the list can pick from, in CUDA's order. Made once a machine and what is left of it.

    ``unusable``: how many GPUs are there that the driver cannot open. ``mig``: as in `View`.
    """

    def make() -> Candidates:
        gpus = [topology.gpus[i] for i in order.places]
        uuids = [gpu.uuid for gpu in gpus]
        left = [
            [gpu.mig_instances[n] for n in mig[i]] if i in mig else gpu.mig_instances
            for i, gpu in zip(order.places, gpus, strict=True)
        ]
        places: Mapping[int, tuple[MigPlace, ...]] = {
            place: tuple(MigPlace(m.uuid, m.gpu_instance_id, m.compute_instance_id) for m in left[place])
            for place, gpu in enumerate(gpus)
            if gpu.mig_mode
        }
        return Candidates(uuids, PrefixIndex(uuids), places, topology.driver_major, unusable)

    return topology.memo(("candidates", order.places, unusable, FrozenDict(mig)), make)
