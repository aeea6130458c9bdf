"""Creates the audit events of requests as they pass through their stages, and queues them for the log."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.audit import policy as policies
from vcsync.apiserver.audit.events import MOMENT_COST, Moment
from vcsync.apiserver.audit.policy import Policy
from vcsync.apiserver.request.audit_trail import (
    COMPLETE,
    PANIC,
    RECEIVED,
    SILENT,
    STARTED,
    Begun,
    Level,
    Trail,
    cut,
)
from vcsync.objects.text_cache import cache_short_texts

MAX_URI = 8192
"""Characters of a request's URI that are recorded."""
MAX_AGENT = 1024
"""Characters of a User-Agent header that are recorded."""
MAX_ADDRESSES = 32
"""Addresses of proxies that are recorded."""
OTHERS = "_others"
"""Log of requests without a tenant: of unknown callers, or for tenants that do not exist. No tenant can have this name."""
_CLOSED = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}


class Asked(policies.Asked, Protocol):
    """The attributes of a request; RequestInfo implements it."""

    @property
    def version(self) -> str: ...  # noqa: D102 - see RequestInfo


class Put(Protocol):
    """A queue of events; see `writer.Writer`."""

    def put(self, moment: Moment) -> None:
        """Add an event. Never blocks."""
        ...


@dataclass(slots=True)
class Origin:
    """The origin of a request, from its connection and headers.

    Attributes:
        audit_id: Audit id of the request.
        uri: Path and query.
        agent: User-Agent header.
        forwarded: X-Forwarded-For header.
        real: X-Real-Ip header.
        remote: Address of the connection.
    """

    audit_id: str
    uri: str
    agent: str = ""
    forwarded: str = ""
    real: str = ""
    remote: str = ""


class Auditor:
    """Creates audit events.

    Args:
        policy: The audit policy.
        writer: Writes the events.
        clock: Returns nanoseconds since 1970.

    Attributes:
        counts: Number of requests by level.
    """

    def __init__(self, policy: Policy, writer: Put, clock: Callable[[], int]) -> None:
        self._policy = policy
        self._writer = writer
        self._clock = clock
        self.counts: dict[Level, int] = dict.fromkeys(Level, 0)

    def begin(self, log: str, user: User | None, asked: Asked, origin_of: Callable[[], Origin]) -> Trail:
        """Begin the trail of a request.

        Args:
            log: Log of the events.
            user: The user. None: the credentials were refused, and only that is recorded.
            asked: Attributes of the request.
            origin_of: Returns the origin of the request; called only if the request is recorded.
        """
        decision = self._policy.decide(user, asked)
        self.counts[decision.level] += 1
        if not decision.level:
            return SILENT
        origin, now = origin_of(), self._clock()
        begun = Begun(
            log,
            origin.audit_id,
            cut(origin.uri, MAX_URI),
            asked.verb,
            user,
            addresses(origin),
            cut(origin.agent, MAX_AGENT),
            now,
            decision.omitted,
            decision.bare,
            _reference(asked),
        )
        trail = Trail(decision.level, begun)
        if user is not None and RECEIVED not in decision.omitted:
            self._writer.put(Moment(trail, RECEIVED, now))
        return trail

    def started(self, trail: Trail) -> None:
        """Record that the response of a long-running request has started."""
        if trail.begun.user is not None:
            self._stage(trail, STARTED)

    def complete(self, trail: Trail) -> None:
        """Record that the response is complete or that the client has gone. Refused credentials are recorded once."""
        if not trail.level or trail.ended:
            return
        trail.ended = True
        if trail.status is None:
            trail.status = _CLOSED
        self._stage(trail, STARTED if trail.begun.user is None else COMPLETE)

    def panicked(self, trail: Trail, why: str) -> None:
        """Record that a defect ended the request."""
        if not trail.level or trail.ended:
            return
        trail.ended = True
        trail.status = {
            "metadata": {},
            "status": "Failure",
            "message": f"APIServer panic'd: {why}",
            "reason": "InternalError",
            "code": 500,
        }
        trail.response = None
        self._stage(trail, PANIC)

    def _stage(self, trail: Trail, stage: str) -> None:
        if stage in trail.begun.omitted:
            return
        bodies = sum(len(each.data) for each in (trail.request, trail.response) if each is not None)
        cost = MOMENT_COST + len(trail.begun.uri) + bodies + sum(map(len, trail.annotations.values()))
        self._writer.put(Moment(trail, stage, self._clock(), dict(trail.annotations), cost))


def addresses(origin: Origin) -> tuple[str, ...]:
    """Return the source addresses of a request: those of proxy headers first, that of the connection last.

    Behaviour: apimachinery's `net.SourceIPs`.
    """
    proxies = origin.forwarded.split(",")[:MAX_ADDRESSES] if origin.forwarded else []
    found = [address for each in proxies if (address := _address(each))]
    real = _address(origin.real) if origin.real else ""
    if real and real not in found:
        found.append(real)
    remote = _address(origin.remote)
    if remote and (not found or found[-1] != remote):
        found.append(remote)
    return tuple(found)


@cache_short_texts(4096, 64)
def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return ""


def _reference(asked: Asked) -> Mapping[str, str] | None:
    if not asked.resource_request:
        return None
    return {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "apiVersion": asked.version,
        "subresource": asked.subresource,
    }
