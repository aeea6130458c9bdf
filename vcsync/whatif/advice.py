"""Computes the least headroom with which the pool survives the loss of any one super cluster. Pure."""

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.filters import FREE, refusals
from vcsync.scheduling.resources import Resources, from_quantities, pieces, to_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.scheduling.snapshot import distributable
from vcsync.whatif.edits import Edits, edited
from vcsync.whatif.settle import settle
from vcsync.whatif.snapshot import Amounts, Snapshot, SuperState, views_of

_ALL = 100  # percent


class Loss(Struct, frozen=True, kw_only=True, rename="camel"):
    """The loss of one super cluster.

    Attributes:
        super_cluster: its id.
        slices: number of slices that it has if it is full up to the advised headroom; without advice, up to none.
        room: number of slices that the headroom of the others then has room for; without advice, that they have at all.
        waiting: number of present slices that would wait although the others keep no headroom any more.
    """

    super_cluster: str
    slices: int
    room: int
    waiting: int


class Advice(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer.

    Attributes:
        percent: the headroom of all super clusters for cpu, memory and pods; None if none survives.
        reason: why none survives; empty if one does.
        slice_size: the largest amounts of any slice: the room is counted in such slices.
        losses: the loss of each super cluster, by id.
    """

    percent: int | None
    reason: str
    slice_size: Amounts
    losses: tuple[Loss, ...]


class _Member(Struct, frozen=True):
    """Room of a super cluster: in slices, by percent of headroom; and whether it takes slices of others."""

    room: tuple[int, ...]
    takes: bool


def headroom_advice(snapshot: Snapshot, without: Collection[str] = ()) -> Advice:
    """Return the least headroom, in whole percent and the same on all super clusters.

    It survives if a pool that is full up to the headroom can place the slices of any one super cluster in the headroom of the
    others, once that is no longer kept: the namespace scheduler never uses headroom, so an operator has to set it to 0 then.
    The present slices have to survive, too, as decided by the core.

    Args:
        snapshot: the state of the pool.
        without: ids of super clusters that are left out.
    """
    left = tuple(each for each in snapshot.super_clusters if each.id not in without)
    snapshot = replace(snapshot, super_clusters=left)
    unit = _largest(snapshot)
    views = views_of(snapshot)
    members = {
        each.id: _Member(
            tuple(pieces(_capacity(each, percent), unit) for percent in range(_ALL)),
            not refusals(FREE, views[each.id], unit),
        )
        for each in snapshot.super_clusters
    }
    waiting = _waiting(snapshot)
    percent, reason = _least(members, waiting)
    losses = tuple(
        Loss(
            super_cluster=super_id,
            slices=members[super_id].room[percent or 0],
            room=_taken(members, super_id, percent),
            waiting=waiting[super_id],
        )
        for super_id in sorted(members)
    )
    return Advice(percent=percent, reason=reason, slice_size=to_quantities(unit), losses=losses)


def _largest(snapshot: Snapshot) -> Resources:
    """Return the largest amounts of the slices; the default slice if there are none."""
    sizes = [each.slice_size for each in snapshot.namespaces if each.slices and not each.leaving]
    unit: Resources = {}
    for size in sizes or [snapshot.default_slice]:
        for name, amount in from_quantities(size).items():
            if name in {*DIMENSIONS, PODS}:
                unit[name] = max(amount, unit.get(name, 0))
    return unit


def _capacity(state: SuperState, percent: int) -> Resources:
    headroom = dict.fromkeys((*DIMENSIONS, PODS), f"{percent}%")
    return distributable(from_quantities(state.allocatable), headroom, state.overcommit)


def _waiting(snapshot: Snapshot) -> dict[str, int]:
    """Return how many more present slices wait after the loss of each super cluster, without any headroom."""
    released = dict.fromkeys((*DIMENSIONS, PODS), "0")

    def waiting(*lost: str) -> int:
        return settle(edited(snapshot, Edits(remove=lost, headroom=released))).waiting

    whole = waiting()
    return {each.id: max(0, waiting(each.id) - whole) for each in snapshot.super_clusters}


def _least(members: Mapping[str, _Member], waiting: Mapping[str, int]) -> tuple[int | None, str]:
    """Return the least percentage that survives every loss, or why there is none."""
    if len(members) < 2:
        return None, f"the pool has {len(members)} super clusters, and the loss of one needs another"
    short = [f"{number} after the loss of {lost}" for lost, number in sorted(waiting.items()) if number]
    if short:
        return None, f"present slices would wait even if no headroom were kept: {', '.join(short)}"
    for percent in range(_ALL):
        if not any(each.room[percent] for each in members.values()):
            break
        if all(_taken(members, lost, percent) >= members[lost].room[percent] for lost in members):
            return percent, ""
    return (
        None,
        "with every headroom that leaves room for slices, the others cannot take those of some super cluster",
    )


def _taken(members: Mapping[str, _Member], lost: str, percent: int | None) -> int:
    """Return how many slices fit into the headroom of the others; without a percentage, into all that they have."""
    return sum(
        each.room[0] - (0 if percent is None else each.room[percent])
        for super_id, each in members.items()
        if super_id != lost and each.takes
    )
