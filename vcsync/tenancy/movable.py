"""The slices of a namespace that may be moved, as its ledger entry says, and requests to move slices. Pure."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from vcsync.api.moves import MOST_MOVES, MoveRequest, Wanted, request_of
from vcsync.api.objects import NamespacePlacement
from vcsync.objects.times import time_text
from vcsync.scheduling.ledger import Entry, Key
from vcsync.scheduling.rebalance import Move
from vcsync.scheduling.resources import from_quantities
from vcsync.tenancy.distribution import entry_of


def movable(placement: NamespacePlacement, homes: Collection[str] = ()) -> Mapping[str, int] | None:
    """Return the super clusters where slices of a namespace must stay, with their number; None if nothing may move.

    A namespace moves only while it rests: all its slices are placed in their size, and nothing of it is being cleared or moved.
    Pinned slices stay, and those that Pods with claims need as far as a refused request says so.

    Args:
        placement: the ledger entry.
        homes: super clusters to which slices may return. They may still have to be cleared: a namespace that has volumes there
            is not, until it has slices there again.
    """
    request = request_of(placement.annotations)
    status, spec = placement.status, placement.spec
    if placement.deleting or (request is not None and not request.refused):
        return None
    if status.waiting or not status.placements or sum(status.placements.values()) != spec.slices:
        return None
    if from_quantities(placement.placed_slice_size) != from_quantities(spec.slice_size):
        return None
    if entry_of(placement).clearing.keys() - set(homes):
        return None
    claims = {} if request is None else request.stay
    return {
        super_id: slices
        for super_id in sorted({*spec.pins, *claims})
        if (slices := max(spec.pins.get(super_id, 0), claims.get(super_id, 0)))
    }


def requests_of(moves: Iterable[Move], entries: Mapping[Key, Entry], now: datetime) -> dict[Key, MoveRequest]:
    """Return the requests for moves, by namespace, in the order of the moves.

    Args:
        moves: the moves.
        entries: the slices that they are about.
        now: the current time.
    """
    by_key: dict[Key, list[Move]] = {}
    for move in moves:
        by_key.setdefault(move.key, []).append(move)
    return {
        key: MoveRequest(
            at=time_text(now),
            order=order,
            moves=tuple(Wanted(each.source, each.target, each.slices) for each in own[:MOST_MOVES]),
            left=_left(own[:MOST_MOVES], entries[key].placements),
        )
        for order, (key, own) in enumerate(by_key.items())
    }


def _left(moves: Iterable[Move], placements: Mapping[str, int]) -> dict[str, int]:
    left: dict[str, int] = {}
    for move in moves:
        left[move.source] = left.get(move.source, placements.get(move.source, 0)) - move.slices
    return left
