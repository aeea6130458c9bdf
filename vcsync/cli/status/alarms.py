"""The recent warnings of the roles: their Events about tenants in the meta cluster."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.command.output import age
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden
from vcsync.kube.resources import EVENTS
from vcsync.objects.envelope import Envelope, decode

LATELY = timedelta(minutes=10)
"""Roles repeat a warning every five minutes while its cause lasts."""
HEADER = ("SEEN", "TENANT", "REASON", "WARNING")
_SELECTED = f"type=Warning,involvedObject.kind={VIRTUAL_CLUSTERS.kind}"


class Alarm(Struct, frozen=True):
    """One warning about one tenant."""

    tenant: str
    reason: str
    message: str
    last: str
    """Time of the last repetition, RFC 3339."""
    count: int


class _Regarding(Struct, gc=False):
    name: str = ""


class _Event(Struct, gc=False, rename="camel"):
    involved_object: _Regarding = field(default_factory=_Regarding)
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    count: int | None = None


async def alarms(meta: Client, now: datetime | None = None) -> list[Alarm]:
    """Read recent warnings, newest first; an empty list if the user may not read Events."""
    try:
        events = await meta.list(EVENTS, field_selector=_SELECTED)
    except Forbidden:
        return []
    return alarms_of(events, now or datetime.now(UTC))


def alarms_of(events: Iterable[Envelope], now: datetime) -> list[Alarm]:
    """Return the recent warnings, newest first; warnings of the same time are sorted by tenant, reason and message."""
    found = []
    for envelope in events:
        event = decode(envelope.rest, _Event)
        if event.last_timestamp and now - datetime.fromisoformat(event.last_timestamp) <= LATELY:
            found.append(
                Alarm(
                    event.involved_object.name,
                    event.reason,
                    event.message,
                    event.last_timestamp,
                    event.count or 1,
                )
            )
    found.sort(key=lambda alarm: (alarm.tenant, alarm.reason, alarm.message))
    return sorted(found, key=lambda alarm: alarm.last, reverse=True)


def row(alarm: Alarm) -> tuple[str, ...]:
    """Format a warning as a row of the table."""
    return f"{age(alarm.last)} ago", alarm.tenant, alarm.reason, alarm.message
