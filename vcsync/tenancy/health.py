"""Judges the health of a super cluster, for schedulers, commands and pages. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api.conditions import condition_of
from vcsync.api.objects import SuperCluster
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import PATIENCE, Member, Patience, Sighting, advance
from vcsync.tenancy.failure_record import Moment, patience_of, restore

HELD = "most of the pool vanished at the same time, so it does not count as lost"
"""Says why a super cluster that has been out of touch for long is not lost."""


class Judgement(Struct, frozen=True):
    """The health of a super cluster.

    Attributes:
        health: its health.
        reason: why it is not ready, in one sentence; empty if it is ready.
        lasts: seconds for which it has not been ready in this way, as far as that is known; None otherwise.
        out_of_touch: whether nobody knows what happens there, as far as stored objects say.
    """

    health: Health
    reason: str = ""
    lasts: float | None = None
    out_of_touch: bool = False

    @property
    def word(self) -> str:
        """The health for people: `Ready`, `Suspect`, `Lost`, `Recovering` or `Unknown`."""
        return self.health.name.capitalize()


def sight(
    found: SuperCluster,
    silent_for: float | None,
    unanswered_for: float | None = None,
    *,
    doubtful: bool = False,
) -> Sighting:
    """Return what is known of a super cluster.

    Args:
        found: the object, with the syncer's conditions.
        silent_for: seconds since the last heartbeat; None if there was none.
        unanswered_for: seconds since the syncer began to report that the API server does not answer. It is ignored while
            the syncer does not report that.
        doubtful: whether only the syncer's clock says so; see `Sighting`.
    """
    return Sighting(
        silent_for,
        (unanswered_for or 0.0) if is_false(found, "Reachable") else None,
        unready=is_false(found, "Ready"),
        doubtful=doubtful,
    )


def is_false(found: SuperCluster, kind: str) -> bool:
    """Return whether the syncer reports a condition that is not true."""
    condition = condition_of(found.status.conditions, kind)
    return condition is not None and condition.status != "True"


def judge(
    found: SuperCluster, member: Member, sighting: Sighting, patience: Patience = PATIENCE
) -> Judgement:
    """Return the health of a super cluster with its reason.

    Args:
        found: the object, with the syncer's conditions.
        member: its state.
        sighting: what is known of it.
        patience: limits of silence.
    """
    return Judgement(member.state, _reason(found, member, sighting, patience))


def judge_stored(found: SuperCluster, now: datetime, patience: Patience = PATIENCE) -> Judgement:
    """Judge by the stored object alone, for callers that do not know the rest of the pool; see `judge_all_stored`."""
    return judge_all_stored([found], now, patience)[found.name]


def judge_all_stored(
    found: Iterable[SuperCluster], now: datetime, patience: Patience = PATIENCE
) -> dict[str, Judgement]:
    """Judge all super clusters of the pool by the stored objects alone, by name.

    The judgement is that of a scheduler whose term begins now: it takes up what the namespace scheduler has recorded, with the
    limits of silence that are set there. Without a scheduler it does not become outdated.

    Args:
        found: the super clusters.
        now: the present.
        patience: limits of silence if no scheduler has recorded its own.
    """
    pool = {each.name: each for each in found}
    sightings = {name: _sight_stored(each, now) for name, each in pool.items()}
    wall = now.timestamp()
    limits = recorded_patience(pool.values()) or patience
    known = {
        name: member
        for name, each in pool.items()
        if (member := _recorded(each, sightings[name], wall, limits)) is not None
    }
    members = advance(known, sightings, wall, limits)
    judged = {}
    for name, member in members.items():
        sighting = sightings[name]
        judged[name] = replace(
            judge(pool[name], member, sighting, limits),
            lasts=_lasts(member, sighting, limits, wall),
            out_of_touch=member.state is not Health.UNKNOWN and sighting.out_of_touch_for(limits) is not None,
        )
    return judged


def absences_stored(
    found: Iterable[SuperCluster], now: datetime, patience: Patience = PATIENCE
) -> dict[str, float | None]:
    """Return for how many seconds nobody has known what happens in each super cluster, by name; None if somebody knows."""
    pool = list(found)
    limits = recorded_patience(pool) or patience
    return {each.name: _sight_stored(each, now).out_of_touch_for(limits) for each in pool}


def recorded_patience(pool: Iterable[SuperCluster]) -> Patience | None:
    """Return the limits of silence of the schedulers; None if they have recorded none."""
    records = (each.status.failure for each in pool)
    return next((patience_of(record) for record in records if record is not None), None)


def _recorded(found: SuperCluster, sighting: Sighting, wall: float, patience: Patience) -> Member | None:
    """Return the recorded state of a super cluster; None if there is none that can be read."""
    if found.status.failure is None:
        return None
    try:
        return restore(found.status.failure, sighting, Moment(wall, wall), patience).member
    except ValueError:
        return None


def _lasts(member: Member, sighting: Sighting, patience: Patience, now: float) -> float | None:
    if member.state in (Health.READY, Health.UNKNOWN):
        return None
    if member.since < now:  # it is recorded
        return now - member.since
    absent = sighting.out_of_touch_for(patience)
    if absent is None:
        return None
    if member.state is Health.LOST:
        return absent - patience.lost_after
    silence = (sighting.silent_for or 0.0) - patience.suspect_after
    return max(silence, sighting.unanswered_for or 0.0)


def _sight_stored(found: SuperCluster, now: datetime) -> Sighting:
    condition = condition_of(found.status.conditions, "Reachable")
    since = condition.last_transition_time if condition is not None else None
    return sight(found, silence_of(found.status.heartbeat_time, now), silence_of(since, now))


def _reason(found: SuperCluster, member: Member, sighting: Sighting, patience: Patience) -> str:
    if sighting.silent_for is None:
        return "its syncer has not reported yet" if member.state is Health.UNKNOWN else ""
    if sighting.silent_for >= patience.suspect_after:
        text = f"no heartbeat for {lasting(sighting.silent_for)}"
    elif sighting.unanswered_for is not None:
        text = f"its API server has not answered for {lasting(sighting.unanswered_for)}{_told(found, 'Reachable')}"
    elif sighting.unready:
        text = _told(found, "Ready").removeprefix(": ")
    elif member.state is Health.RECOVERING:
        return (
            f"it works again, and counts as ready after {lasting(member.quiet)} without failure "
            f"(failures so far: {member.failures})"
        )
    else:
        return ""
    return f"{text}; {HELD}" if member.held else text


def _told(found: SuperCluster, kind: str) -> str:
    condition = condition_of(found.status.conditions, kind)
    return "" if condition is None else f": {condition.message or condition.reason}"


def silence_of(heartbeat: str | None, now: datetime) -> float | None:
    """Return the seconds since a heartbeat, by its syncer's clock; None if there was none, 0 if it is in the future.

    Text that is no valid time counts as in the future, since there was a heartbeat.
    """
    if not heartbeat:
        return None
    try:
        then = datetime.fromisoformat(heartbeat)
    except ValueError:
        return 0.0
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return max(0.0, (now - then).total_seconds())


def lasting(seconds: float) -> str:
    """Return a duration as kubectl shows ages: `12s`, `5m`, `3h`, `9d`.

    Args:
        seconds: not below zero.
    """
    whole = int(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= 2 * length or (unit != "m" and whole >= length):
            return f"{whole // length}{unit}"
    return f"{whole}s"
