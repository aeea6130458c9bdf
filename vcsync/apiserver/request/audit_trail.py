"""The audit trail of a request: what the audit log records of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from vcsync.apimachinery.strategy import User

MAX_ANNOTATIONS = 128
MAX_KEY = 1024
MAX_VALUE = 10 * 1024
"""Characters of an annotation. Longer ones are truncated, because policies and webhooks of tenants write them."""
CUT = "...TRUNCATED"
"""End of a truncated text, as in kube-apiserver's user agents."""


class Level(IntEnum):
    """Detail in which a request is recorded."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


RECEIVED, STARTED, COMPLETE, PANIC = "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)


@dataclass(slots=True)
class Begun:
    """The part of a trail that is known when the request begins. It is not changed; it is not frozen for speed.

    Attributes:
        log: Tenant whose log records the request.
        received: Time at which the request arrived, in nanoseconds since 1970.
        omitted: Stages that are not recorded.
        bare: Whether managed fields are left out of bodies.
        reference: The object that the URL names, or None for requests for paths.
    """

    log: str = ""
    audit_id: str = ""
    uri: str = ""
    verb: str = ""
    user: User | None = None
    addresses: tuple[str, ...] = ()
    agent: str = ""
    received: int = 0
    omitted: frozenset[str] = frozenset()
    bare: bool = False
    reference: Mapping[str, str] | None = None


@dataclass(slots=True)
class Body:
    """A body of a request or response. `form` is its content type."""

    data: bytes
    form: str


@dataclass(slots=True, eq=False)
class Trail:
    """Collects what the audit log records of one request. `SILENT` records nothing.

    Attributes:
        level: How much is recorded.
        begun: What is known from the beginning.
        annotations: Annotations of the event.
        found: Metadata of the object in the body: namespace, name, uid, resourceVersion.
        impersonated: Impersonated user.
        constraint: Verb of constrained impersonation, if that allowed the impersonation.
        request: Body of the request.
        response: Body of the response.
        status: Status of the response; at least its code.
        ended: Whether the last event has been recorded.
    """

    level: Level = Level.NONE
    begun: Begun = field(default_factory=Begun)
    annotations: dict[str, str] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)
    impersonated: User | None = None
    constraint: str = ""
    request: Body | None = None
    response: Body | None = None
    status: Mapping[str, Any] | None = None
    ended: bool = False

    def annotate(self, key: str, value: str, level: Level = Level.METADATA) -> None:
        """Add an annotation to the audit event, unless it has one with this key. Costs nothing if nothing is recorded.

        Args:
            key: Qualified name, such as `policy.example.com/reason`.
            value: A short text.
            level: Level from which on the annotation is recorded.

        Source: apiserver's `audit.AddAuditAnnotation`.
        """
        if not self.level or level > self.level or key in self.annotations:
            return
        if len(self.annotations) < MAX_ANNOTATIONS:
            self.annotations[cut(key, MAX_KEY)] = cut(value, MAX_VALUE)

    def sent(self, metadata: Mapping[str, Any], whole: bytes | None) -> None:
        """Record the body of the request: the metadata of an object and, from level Request on, its JSON."""
        for key in ("namespace", "name", "uid", "resourceVersion"):
            if metadata.get(key):
                self.found[key] = cut(str(metadata[key]), MAX_KEY)
        if whole is not None:
            self.request = Body(whole, "application/json")

    def answered(self, code: int, pieces: Sequence[bytes], form: str) -> None:
        """Record a response. The Status of a refused request has been recorded before."""
        if self.status is None:
            self.status = {"metadata": {}, "code": code}
        if self.level >= Level.REQUEST_RESPONSE:
            self.response = Body(b"".join(pieces), form)


SILENT = Trail()
"""The trail of requests that are not recorded."""


def cut(text: str, limit: int) -> str:
    """Return a text truncated to `limit` characters, with a mark if it was longer."""
    return text if len(text) <= limit else text[:limit] + CUT
