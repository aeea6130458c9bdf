"""Bodies of requests that the audit log records as they were sent."""

from typing import Any

import pytest

from vcsync.apiserver.audit.request_log import recorded
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.audit_trail import Level, Trail
from vcsync.apiserver.request.request_info import RequestInfo


@pytest.mark.parametrize(
    ("verb", "subresource", "level", "logged"),
    [
        ("patch", "", Level.REQUEST, True),
        ("delete", "", Level.REQUEST, True),
        ("patch", "status", Level.REQUEST, True),
        ("patch", "", Level.METADATA, False),
        ("create", "", Level.REQUEST, False),
        ("patch", "proxy", Level.REQUEST, False),
        ("delete", "proxy", Level.REQUEST, False),
    ],
)
async def test_patches_and_options_are_recorded_but_nothing_for_programs_in_pods(
    verb: str, subresource: str, level: Level, logged: bool
) -> None:
    async def read(*_: Any) -> bytes:
        return b"password"

    trail = Trail()
    trail.level = level
    incoming = Incoming("PATCH", "/", "", {"Content-Type": "text/plain"}, None, read, audit=trail)
    info = RequestInfo(verb, "/", resource="pods", subresource=subresource)
    assert await recorded(incoming, info, read)() == b"password"
    assert (trail.request is not None) == logged
