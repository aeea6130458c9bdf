"""Applies the failure machine to the super clusters of a snapshot: which are lost, and whether anything may move. Pure."""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import PATIENCE, Member, Patience, Sighting, advance, is_crowded
from vcsync.tenancy.health import HELD, lasting
from vcsync.whatif.snapshot import HEALTH, SuperState

_LOST = "Lost"


def lose(
    supers: Iterable[SuperState],
    gone: Collection[str],
    fenced: Collection[str],
    patience: Patience = PATIENCE,
) -> tuple[SuperState, ...]:
    """Return the pool after some super clusters have vanished together, for as long as it takes to be lost.

    They are lost unless they are most of the pool. The state of the others does not change, but that those that were lost before
    have been lost for longer. So these do not count as vanished together with them.

    Args:
        supers: the pool.
        gone: ids of those that vanish.
        fenced: ids of those that vanish and that an operator fences.
        patience: the schedulers' limits of silence.
    """
    long_enough = int(patience.lost_after)
    later_by = long_enough + 1  # more than the time within which super clusters vanish together
    away = {*gone, *fenced}
    changed = []
    for each in supers:
        if each.health == _LOST:
            absent = each.out_of_touch_seconds
            later = replace(each, out_of_touch_seconds=None if absent is None else absent + later_by)
        else:
            later = replace(each, out_of_touch_seconds=long_enough) if each.id in away else each
        changed.append(replace(later, fenced=later.fenced or later.id in fenced))
    members = _members(changed, patience)
    return tuple(
        _judged(each, members[each.id], patience) if each.id in away and each.health != _LOST else each
        for each in changed
    )


def nothing_moves(supers: Iterable[SuperState], patience: Patience = PATIENCE) -> bool:
    """Return whether so much of the pool is out of touch that nothing may leave lost super clusters.

    Args:
        supers: the pool.
        patience: the schedulers' limits of silence.
    """
    pool = list(supers)
    silent = [
        each.out_of_touch_seconds is not None for each in pool if not (each.fenced or each.health == _LOST)
    ]
    return is_crowded(_members(pool, patience).values(), silent)


def lost_for(state: SuperState, patience: Patience = PATIENCE) -> float:
    """Return for how many seconds a super cluster that is lost has been lost; for a fenced one this has no end.

    Args:
        state: the super cluster.
        patience: the schedulers' limits of silence.
    """
    if state.fenced or state.out_of_touch_seconds is None:
        return float("inf")
    return max(0.0, state.out_of_touch_seconds - patience.lost_after)


def _judged(state: SuperState, member: Member, patience: Patience) -> SuperState:
    reason = f"no heartbeat for {lasting(patience.lost_after)}"
    return replace(
        state,
        health=member.state.name.capitalize(),
        reason=f"{reason}; {HELD}" if member.held else reason,
    )


def _members(supers: Iterable[SuperState], patience: Patience) -> dict[str, Member]:
    """Return what the failure machine says about the super clusters of a snapshot."""
    pool = list(supers)
    before = {each.id: Member(HEALTH[each.health], 0.0) for each in pool}
    return advance(before, {each.id: _sighting(each) for each in pool}, 0.0, patience)


def _sighting(state: SuperState) -> Sighting:
    absent: float | None = state.out_of_touch_seconds
    if absent is None and state.health == _LOST:
        absent = float("inf")
    if absent is None and HEALTH[state.health] is Health.UNKNOWN:
        return Sighting(None)
    return Sighting(0.0, unanswered_for=absent, unready=absent is None and state.health == "Suspect")
