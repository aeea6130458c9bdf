"""Judges the health of a super cluster, for schedulers, commands and pages. Pure."""

from datetime import UTC, datetime

from msgspec import Struct

from vcsync.api.conditions import condition_of
from vcsync.api.objects import SuperCluster
from vcsync.scheduling.snapshot import Health


class Patience(Struct, frozen=True):
    """Seconds without heartbeat after which a super cluster is suspect, and after which it is lost."""

    suspect_after: float = 75.0
    lost_after: float = 300.0


PATIENCE = Patience()


class Judgement(Struct, frozen=True):
    """The health of a super cluster. `reason` says in one sentence why it is not ready; it is empty if it is ready."""

    health: Health
    reason: str = ""

    @property
    def word(self) -> str:
        """The health for people: `Ready`, `Suspect`, `Lost` or `Unknown`."""
        return self.health.name.capitalize()


def judge(found: SuperCluster, silent_for: float | None, patience: Patience = PATIENCE) -> Judgement:
    """Judge by the seconds since the last heartbeat (None if there was none) and by the syncer's conditions."""
    if silent_for is None:
        return Judgement(Health.UNKNOWN, "its syncer has not reported yet")
    silence = f"no heartbeat for {lasting(silent_for)}"
    if silent_for >= patience.lost_after:
        return Judgement(Health.LOST, silence)
    if silent_for >= patience.suspect_after:
        return Judgement(Health.SUSPECT, silence)
    for kind in ("Reachable", "Ready"):
        condition = condition_of(found.status.conditions, kind)
        if condition is not None and condition.status != "True":
            return Judgement(Health.SUSPECT, condition.message or condition.reason)
    return Judgement(Health.READY)


def judge_stored(found: SuperCluster, now: datetime, patience: Patience = PATIENCE) -> Judgement:
    """Judge by the stored object alone, for callers that have not followed the super cluster."""
    return judge(found, silence_of(found.status.heartbeat_time, now), patience)


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
