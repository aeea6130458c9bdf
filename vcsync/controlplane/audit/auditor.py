"""Follows requests through their stages and puts their events on the way to the log."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from vcsync.controlplane.audit import policy as policies
from vcsync.controlplane.audit.events import MOMENT_COST, Moment
from vcsync.controlplane.audit.policy import Policy
from vcsync.controlplane.audit.trail import (
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
from vcsync.controlplane.behaviour import User

MAX_URI = 8192
MAX_AGENT = 1024
MAX_ADDRESSES = 32
"""Of proxies that a request says it passed."""
OTHERS = "_others"
"""The log of what is of no tenant: callers nobody knows, tenants that do not exist. No tenant has that name."""
_CLOSED = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}


class Asked(policies.Asked, Protocol):
    """What a request is about; a RequestInfo will do."""

    @property
    def version(self) -> str: ...  # noqa: D102 - see RequestInfo


class Put(Protocol):
    """Takes events; see `writer.Writer`."""

    def put(self, moment: Moment) -> None:
        """Take one; never blocks."""
        ...


@dataclass(slots=True)
class Came:
    """How a request came: what its connection and headers say."""

    audit_id: str
    uri: str
    agent: str = ""
    forwarded: str = ""
    real: str = ""
    remote: str = ""


class Auditor:
    """Makes audit events."""

    def __init__(self, policy: Policy, writer: Put, clock: Callable[[], int]) -> None:
        """Take what is told, who writes it, and what gives nanoseconds since 1970."""
        self._policy = policy
        self._writer = writer
        self._clock = clock
        self.counts: dict[Level, int] = dict.fromkeys(Level, 0)

    def begin(self, log: str, user: User | None, asked: Asked, came: Callable[[], Came]) -> Trail:
        """Begin the trail of a request; with `user` None its credentials were refused, and only that is told.

        Args:
            log: into which the events go.
            user: who asks.
            asked: what for.
            came: tells how it came, if anything is told of it.
        """
        told = self._policy.of(user, asked)
        self.counts[told.level] += 1
        if not told.level:
            return SILENT
        how, now = came(), self._clock()
        begun = Begun(
            log,
            how.audit_id,
            cut(how.uri, MAX_URI),
            asked.verb,
            user,
            addresses(how),
            cut(how.agent, MAX_AGENT),
            now,
            told.omitted,
            told.bare,
            _reference(asked),
        )
        trail = Trail(told.level, begun)
        if user is not None and RECEIVED not in told.omitted:
            self._writer.put(Moment(trail, RECEIVED, now))
        return trail

    def started(self, trail: Trail) -> None:
        """Tell that an answer that lasts has begun."""
        if trail.begun.user is not None:
            self._stage(trail, STARTED)

    def complete(self, trail: Trail) -> None:
        """Tell that the answer is out, or that the client did not wait for it; of refused credentials, once."""
        if not trail.level or trail.ended:
            return
        trail.ended = True
        if trail.status is None:
            trail.status = _CLOSED
        self._stage(trail, STARTED if trail.begun.user is None else COMPLETE)

    def panicked(self, trail: Trail, why: str) -> None:
        """Tell that a defect ended the request."""
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


def addresses(came: Came) -> tuple[str, ...]:
    """Return where a request came from: what proxies say first, the connection last (apimachinery's `net.SourceIPs`)."""
    said = [_address(each) for each in came.forwarded.split(",")[:MAX_ADDRESSES]] if came.forwarded else []
    found = [each for each in said if each]
    real = _address(came.real) if came.real else ""
    if real and real not in found:
        found.append(real)
    remote = _address(came.remote)
    if remote and (not found or found[-1] != remote):
        found.append(remote)
    return tuple(found)


@lru_cache(4096)
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
