"""Computes how much of the pool's capacity is distributed as slices, for roles and commands. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.resources import Resources, from_quantities, to_quantities
from vcsync.scheduling.slices import OBJECTS
from vcsync.scheduling.snapshot import InvalidHeadroom, distributable


def entry_of(placement: NamespacePlacement) -> Entry:
    """Return the amounts of a NamespacePlacement as an entry of the sums."""
    size = from_quantities(
        {name: text for name, text in placement.placed_slice_size.items() if name not in OBJECTS}
    )
    placements = {super_id: slices for super_id, slices in placement.status.placements.items() if slices}
    clearing = {
        super_id: from_quantities({name: str(text) for name, text in amounts.items()})
        for super_id, amounts in placement.status.clearing.items()
        if is_clearing(placement, super_id)
    }
    away = {super_id: slices for super_id, slices in placement.status.away.items() if slices}
    return Entry(size, placements, clearing, away)


def is_clearing(placement: NamespacePlacement, super_id: str) -> bool:
    """Return whether a super cluster still has to free slices. Its syncer removes the finalizer when it has."""
    stays = placement.status.placements.get(super_id)
    finalizer = names.clear_finalizer(super_id) if stays else names.drain_finalizer(super_id)
    return finalizer in placement.finalizers


def ledger_of(placements: Iterable[NamespacePlacement]) -> Ledger:
    """Return the sums over all placements."""
    ledger = Ledger()
    for placement in placements:
        ledger.put((placement.namespace, placement.name), entry_of(placement))
    return ledger


def capacity_of(super_cluster: SuperCluster) -> Resources:
    """Return the capacity that is distributed as slices: the allocatable amounts, with headroom and overcommit.

    Raises:
        InvalidHeadroom: its headroom is invalid, so that nothing is distributed.
    """
    spec = super_cluster.spec
    return distributable(from_quantities(super_cluster.status.allocatable), spec.headroom, spec.overcommit)


def undistributed(capacity: Mapping[str, int], dealt: Mapping[str, int]) -> Resources:
    """Return the amounts that can still be distributed: zero if the capacity has shrunk below the distributed amount."""
    return {name: max(0, amount - dealt.get(name, 0)) for name, amount in capacity.items()}


class SliceAmounts(Struct, frozen=True):
    """The capacity of one super cluster for slices, as quantities.

    Attributes:
        capacity: all amounts.
        dealt: the distributed amounts.
        free: the amounts that can still be distributed.
        problem: why the capacity is unknown; empty if it is known.
    """

    capacity: dict[str, str]
    dealt: dict[str, str]
    free: dict[str, str]
    problem: str = ""


def slice_amounts(super_cluster: SuperCluster, ledger: Ledger) -> SliceAmounts:
    """Return the distributed and the free amounts of a super cluster, for people."""
    dealt = ledger.allocated(super_cluster.name)
    try:
        capacity = capacity_of(super_cluster)
    except InvalidHeadroom as error:
        return SliceAmounts({}, to_quantities(dealt), {}, str(error))
    return SliceAmounts(
        to_quantities(capacity), to_quantities(dealt), to_quantities(undistributed(capacity, dealt))
    )
