"""Converts what a scheduler knows of failures into what is stored for its next term, and back. Pure.

Stored times are wall clock, in whole seconds. They are rounded up, and one that is in the future counts as now: a clock that
jumps back makes decisions late, never early.
"""

import math
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from vcsync.api.specs import FailureRecord
from vcsync.objects.times import unix_time_text
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import Member, Patience, Sighting, longest_quiet

SAME_SECONDS: Final = 5.0
"""Times that differ by no more are the same, so that the drift of clocks causes no writes."""
_ROUNDING: Final = 0.001  # seconds; what floating-point numbers lose does not add a second with each term
_Word = Literal["Ready", "Recovering", "Suspect", "Lost"]
_WORDS: Final[dict[Health, _Word]] = {
    Health.READY: "Ready",
    Health.RECOVERING: "Recovering",
    Health.SUSPECT: "Suspect",
    Health.LOST: "Lost",
}
_STATES: Final = {word: state for state, word in _WORDS.items()}


class Moment(Struct, frozen=True):
    """One moment by two clocks.

    Attributes:
        now: seconds by the clock of the caller.
        wall: seconds since 1970.
    """

    now: float
    wall: float

    def text(self, at: float) -> str:
        """Return a time of the caller's clock in RFC 3339."""
        return unix_time_text(math.ceil(self.wall - (self.now - at) - _ROUNDING))

    def read(self, text: str) -> float:
        """Return a stored time by the caller's clock, no later than now.

        Raises:
            ValueError: it is not a time in RFC 3339.
        """
        return self.now - max(0.0, self.wall - _seconds(text))


class Crowd(Struct, frozen=True):
    """Times at which most of the pool is out of touch.

    Attributes:
        present: whether it is so now.
        last: when it was last so, by the caller's clock; None if that has no effect any more.
    """

    present: bool = False
    last: float | None = None


class Restored(Struct, frozen=True):
    """The knowledge of an earlier term about a super cluster.

    Attributes:
        member: its state.
        crowded_at: when most of the pool was last out of touch, by the caller's clock; -inf if that was not stored.
    """

    member: Member
    crowded_at: float


def stored(
    member: Member, sighting: Sighting, moment: Moment, patience: Patience, crowd: Crowd
) -> FailureRecord | None:
    """Return what is to be stored of a super cluster; None while nothing is known of it.

    Args:
        member: its state.
        sighting: what is known of it at present.
        moment: the present.
        patience: limits of silence.
        crowd: whether most of the pool was out of touch.
    """
    if member.state not in _WORDS:
        return None
    away = member.state in (Health.SUSPECT, Health.LOST) and not sighting.doubtful
    absent = sighting.out_of_touch_for(patience) if away else None
    last = None if crowd.present else crowd.last
    return FailureRecord(
        state=_WORDS[member.state],
        since=moment.text(member.since),
        failures=member.failures,
        quiet_seconds=math.ceil(member.quiet),
        out_of_touch_time=None if absent is None else moment.text(moment.now - absent),
        suspect_after_seconds=math.ceil(patience.suspect_after),
        lost_after_seconds=math.ceil(patience.lost_after),
        pool_vanished=crowd.present,
        pool_vanished_time=None if last is None else moment.text(last),
    )


def restore(record: FailureRecord, sighting: Sighting, moment: Moment, patience: Patience) -> Restored:
    """Return what an earlier term knew of a super cluster, in the light of what is known at the beginning of a term.

    A record of a loss is outdated if the super cluster has been in touch since. A failure that nobody saw for long because
    nobody led is not counted against a super cluster that never failed, so that a restart of everything does not wait.

    Args:
        record: the stored record.
        sighting: what is known of the super cluster at present.
        moment: the present.
        patience: limits of silence.

    Raises:
        ValueError: a time of the record is not in RFC 3339.
    """
    state = _STATES[record.state]
    quiet = min(float(record.quiet_seconds), longest_quiet(patience))
    member = Member(state, moment.read(record.since), record.failures, quiet)
    if state is Health.LOST and _was_back(record, sighting, moment, patience):
        member = Member(Health.SUSPECT, moment.now, record.failures + 1)
    if (
        state is Health.READY
        and not record.failures
        and _unseen_for(sighting, patience) > patience.suspect_after
    ):
        member = Member(Health.SUSPECT, moment.now)
    return Restored(member, _crowded_at(record, moment))


def recorded_absence(record: FailureRecord, absent: float, moment: Moment) -> float | None:
    """Return for how many seconds a super cluster has been out of touch as far as schedulers saw it.

    None if they recorded nothing, or if it was in touch after that: by the clock of its syncer, it fell silent later.

    Args:
        record: the stored record.
        absent: seconds for which it has been out of touch by the clock of its syncer.
        moment: the present.

    Raises:
        ValueError: a time of the record is not in RFC 3339.
    """
    if record.out_of_touch_time is None:
        return None
    began = moment.read(record.out_of_touch_time)
    return moment.now - began if moment.now - absent <= began + SAME_SECONDS else None


def is_outdated(old: FailureRecord | None, new: FailureRecord) -> bool:
    """Return whether a stored record has to be replaced. While nothing happens, it does not have to be."""
    if old is None or _lasting(old) != _lasting(new):
        return True
    rests = new.state == "Ready" and not new.failures  # nothing depends on the time
    return (
        (not rests and _apart(old.since, new.since))
        or _apart(old.out_of_touch_time, new.out_of_touch_time)
        or (new.pool_vanished_time is not None and _apart(old.pool_vanished_time, new.pool_vanished_time))
    )


def patience_of(record: FailureRecord) -> Patience:
    """Return the limits of silence of the scheduler that wrote a record."""
    return Patience(float(record.suspect_after_seconds), float(record.lost_after_seconds))


def _lasting(record: FailureRecord) -> tuple[object, ...]:
    """Return the parts that are not times."""
    return (
        record.state,
        record.failures,
        record.quiet_seconds,
        record.suspect_after_seconds,
        record.lost_after_seconds,
        record.pool_vanished,
    )


def _apart(old: str | None, new: str | None) -> bool:
    if old is None or new is None:
        return old is not new
    try:
        return abs(_seconds(old) - _seconds(new)) > SAME_SECONDS
    except ValueError:
        return True


def _was_back(record: FailureRecord, sighting: Sighting, moment: Moment, patience: Patience) -> bool:
    """Return whether a super cluster was in touch after it was recorded as lost, and is out of touch again.

    A super cluster had been out of touch for long before it was lost. So the clock of its syncer, by which it is out of touch
    since later than that, may be wrong by as much. One whose syncer has come back without the API server is out of touch since
    then; that time is recorded.
    """
    absent = sighting.out_of_touch_for(patience)
    if absent is None:
        return False
    known = [moment.read(record.since)]
    if record.out_of_touch_time is not None:
        known.append(moment.read(record.out_of_touch_time) + SAME_SECONDS)
    return moment.now - absent > max(known)


def _unseen_for(sighting: Sighting, patience: Patience) -> float:
    """Return the seconds for which a scheduler would have seen a sign of failure; 0 if there is none, or nodes are not ready."""
    return max((sighting.silent_for or 0.0) - patience.suspect_after, sighting.unanswered_for or 0.0)


def _crowded_at(record: FailureRecord, moment: Moment) -> float:
    if record.pool_vanished:
        return moment.now
    return float("-inf") if record.pool_vanished_time is None else moment.read(record.pool_vanished_time)


def _seconds(text: str) -> float:
    """Return a time in RFC 3339 as seconds since 1970."""
    then = datetime.fromisoformat(text)
    return (then if then.tzinfo is not None else then.replace(tzinfo=UTC)).timestamp()
