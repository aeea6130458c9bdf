"""The warnings that `vcsync status` shows."""

import json
from datetime import UTC, datetime

from vcsync.cli.status.alarms import Alarm, alarms_of
from vcsync.objects.envelope import Envelope, parse

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def event(name: str, last: str | None, **fields: object) -> Envelope:
    body = {
        "metadata": {"name": name, "namespace": "vcsync"},
        "involvedObject": {"kind": "VirtualCluster", "name": "acme"},
        "reason": "CredentialsRefused",
        "message": "put others there",
        "type": "Warning",
        "lastTimestamp": last,
        **fields,
    }
    return parse(json.dumps(body).encode())


def test_recent_warnings_are_listed_newest_first() -> None:
    events = [
        event("a", "2026-05-01T11:51:00Z", count=3),
        event("b", "2026-05-01T11:59:00Z"),
        event("old", "2026-05-01T11:49:00Z"),
        event("endless", None),
    ]
    warning = ("acme", "CredentialsRefused", "put others there")
    assert alarms_of(events, NOW) == [
        Alarm(*warning, "2026-05-01T11:59:00Z", 1),
        Alarm(*warning, "2026-05-01T11:51:00Z", 3),
    ]
