"""The failure machine: when a super cluster is suspect, lost and recovering. Pure.

```text
             sign of failure             out of touch for lost_after,
                                         unless most of the pool vanished at once
  healthy ────────────────────▶ suspect ────────────────────────────────────────▶ lost
   ▲   ▲                         │ │ ▲                                              │
   │   └─── first failure, ──────┘ │ │                                              │
   │        now over      failed   │ │ sign of failure                              │ answers again
   │                      before,  │ │                                              │
   │                      now over ▼ │                                              │
   └───────────────────────────── recovering ◀──────────────────────────────────────┘
            quiet time passed
```

Signs of failure are silence (no heartbeat for `suspect_after`), a heartbeat that says that the API server does not answer,
and a heartbeat that says that no node is ready. The first two put a super cluster out of touch. The third never makes it
lost, since its syncer still reports every Pod as it is.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.snapshot import Health

MOST_PERCENT = 50
"""Share of the pool: if more vanishes at once, no super cluster becomes lost, since the observer may be cut off itself."""
_QUIET_SHARE = 10  # the shortest quiet time is this part of the time until a super cluster is lost
_LONGEST_QUIET = 6  # the longest quiet time, in multiples of the same time
_FORGET_AFTER = 12  # a failure is forgotten after a healthy time of this multiple of the same time


class Patience(Struct, frozen=True):
    """Seconds without heartbeat after which a super cluster is suspect, and after which it is lost."""

    suspect_after: float = 75.0
    lost_after: float = 300.0


PATIENCE = Patience()


class Sighting(Struct, frozen=True):
    """The knowledge of a super cluster at one moment.

    Attributes:
        silent_for: seconds since its last heartbeat; None if there was none.
        unanswered_for: seconds for which its syncer has reported that its API server does not answer; None if it answers.
        unready: whether its syncer reports that no node is ready.
        doubtful: whether these seconds are known from the clock of its syncer alone, which may be wrong, and the observer has
            not waited for a heartbeat for long enough. So it is not lost yet, and has not failed.
    """

    silent_for: float | None
    unanswered_for: float | None = None
    unready: bool = False
    doubtful: bool = False

    def out_of_touch_for(self, patience: Patience) -> float | None:
        """Return for how many seconds nobody has known what happens there; None if somebody knows.

        A report that the API server does not answer counts from its beginning, even if the syncer falls silent later.
        """
        silent = self.silent_for or 0.0
        if self.unanswered_for is not None:
            return max(silent, self.unanswered_for)
        return silent if silent >= patience.suspect_after else None


class Member(Struct, frozen=True):
    """The state of one super cluster of the pool.

    Attributes:
        state: its health.
        since: seconds, by the clock of the caller, at which it entered the state, in this term of a scheduler or an earlier one.
        failures: number of failures that are remembered.
        quiet: seconds without a sign of failure after which it leaves `RECOVERING`.
        held: whether it would be lost if not most of the pool had vanished at the same time.
    """

    state: Health
    since: float
    failures: int = 0
    quiet: float = 0.0
    held: bool = False


def advance(
    members: Mapping[str, Member],
    sightings: Mapping[str, Sighting],
    now: float,
    patience: Patience = PATIENCE,
) -> dict[str, Member]:
    """Return the states of all super clusters at a moment. Those that are not in `sightings` are forgotten.

    The result does not depend on the order of the mappings.

    Args:
        members: the states after the last call.
        sightings: what is known of each super cluster.
        now: the moment, in seconds; not before that of the last call.
        patience: limits of silence.
    """
    crowd = vanished_together(sightings.values(), patience)
    return {
        super_id: _step(members.get(super_id), sighting, now, patience, crowd)
        for super_id, sighting in sightings.items()
    }


def vanished_together(sightings: Iterable[Sighting], patience: Patience = PATIENCE) -> tuple[float, float]:
    """Return the range of times, in seconds before now, in which more vanished than a pool loses by itself.

    Super clusters vanish at once if that happens within `patience.lost_after` of each other. Of a pool of one, the only
    super cluster may vanish. Those that vanished earlier no longer count as the pool.

    Returns:
        The shortest and the longest absence; the range is empty (the first exceeds the second) if nothing is suspicious.
    """
    found = [each for each in sightings if each.silent_for is not None]
    absent = sorted(gone for each in found if (gone := each.out_of_touch_for(patience)) is not None)
    present = len(found) - len(absent)
    shortest, longest = float("inf"), float("-inf")
    for first, start in enumerate(absent):
        together = [gone for gone in absent[first:] if gone - start <= patience.lost_after]
        pool = present + first + len(together)  # also those that vanished after them
        if len(together) > 1 and len(together) * 100 > pool * MOST_PERCENT:
            shortest, longest = min(shortest, start), max(longest, together[-1])
    return shortest, longest


def is_crowded(members: Iterable[Member], out_of_touch: Collection[bool]) -> bool:
    """Return whether so much of the pool is out of touch that nothing may be moved, since the observer may be cut off.

    Args:
        members: the states of all super clusters.
        out_of_touch: of each super cluster that is neither lost nor fenced, whether nobody knows what happens there.
    """
    if any(each.held for each in members):
        return True
    return sum(out_of_touch) * 100 > len(out_of_touch) * MOST_PERCENT


def _step(
    before: Member | None, sighting: Sighting, now: float, patience: Patience, crowd: tuple[float, float]
) -> Member:
    if sighting.silent_for is None:
        return before if before is not None else Member(Health.UNKNOWN, now)
    absent = sighting.out_of_touch_for(patience)
    if before is not None and before.state is Health.UNKNOWN:
        before = None
    lost = before is not None and before.state is Health.LOST
    if absent is not None and absent >= patience.lost_after and not lost:
        failed = _fail(before, now)
        if crowd[0] <= absent <= crowd[1]:
            return replace(failed, held=True)
        if not sighting.doubtful:
            return Member(Health.LOST, now, failed.failures)
    if absent is not None and before is not None and lost:
        return before
    if (
        absent is not None or sighting.unready
    ):  # one that answers again, without a ready node, is not lost any more
        failed = _fail(before, now)
        if sighting.doubtful and before is not None:
            failed = replace(failed, failures=before.failures)
        return replace(failed, held=False)
    return Member(Health.READY, now) if before is None else _calm(before, now, patience)


def _fail(before: Member | None, now: float) -> Member:
    """Return the state after a sign of failure. What was there at first sight is not counted as a failure."""
    if before is None:
        return Member(Health.SUSPECT, now)
    if before.state is Health.SUSPECT:
        return before
    return Member(Health.SUSPECT, now, before.failures + 1)


def _calm(before: Member, now: float, patience: Patience) -> Member:
    """Return the state while there is no sign of failure."""
    if before.state in (Health.SUSPECT, Health.LOST):
        quiet = _quiet(before, patience)
        return Member(Health.RECOVERING if quiet else Health.READY, now, before.failures, quiet)
    if before.state is Health.RECOVERING and now - before.since >= before.quiet:
        return Member(Health.READY, now, before.failures)
    if before.failures and before.state is Health.READY:
        forgotten = now - before.since >= _FORGET_AFTER * patience.lost_after
        return replace(before, failures=0) if forgotten else before
    return before


def _quiet(before: Member, patience: Patience) -> float:
    """Return the quiet time that a super cluster needs: none after a first glitch, then twice as long after each failure."""
    doublings = before.failures - (1 if before.state is Health.LOST else 2)
    if doublings < 0:
        return 0.0
    base = patience.lost_after / _QUIET_SHARE
    return min(base * 2.0 ** min(doublings, 16), longest_quiet(patience))


def longest_quiet(patience: Patience) -> float:
    """Return the longest quiet time in seconds, however often a super cluster has failed."""
    return patience.lost_after * _LONGEST_QUIET
