"""What one request tells the audit log on its way. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from vcsync.controlplane.behaviour import User

MAX_ANNOTATIONS = 128
MAX_KEY = 1024
MAX_VALUE = 10 * 1024
"""Of annotations; longer ones are cut: a tenant's policies and webhooks write them."""
CUT = "...TRUNCATED"
"""What ends a text that was cut, as in kube-apiserver's user agents."""


class Level(IntEnum):
    """How much of a request is told."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


RECEIVED, STARTED, COMPLETE, PANIC = "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)


@dataclass(slots=True)
class Begun:
    """What is known of a request when it begins; nothing changes it, though nothing forbids that: it is made often.

    Attributes:
        log: the tenant into whose log it goes.
        received: when, in nanoseconds since 1970.
        omitted: stages of which nothing is told.
        bare: managed fields are left out of bodies.
        reference: of the object, as the URL names it; None: it is about a path.
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
    """What was sent or answered; `form` is its content type."""

    data: bytes
    form: str


@dataclass(slots=True, eq=False)
class Trail:
    """What is gathered of one request; of `SILENT` nothing is.

    Attributes:
        level: how much is told.
        annotations: of the event, by key.
        found: what the body adds to the reference: name, uid, resourceVersion.
        impersonated: whom the caller acts as.
        constraint: the verb of constrained impersonation, if that allowed it.
        request: what was sent.
        response: what was answered.
        status: the Status that was answered, or what little is known of one.
        ended: whether its last event is told.
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
        """Add an annotation to the request's audit event, unless it has one of that key; free of charge if nothing is told.

        Args:
            key: names who tells, like `policy.example.com/reason`.
            value: a short text.
            level: from which level on it is told.

        Source: apiserver's `audit.AddAuditAnnotation`.
        """
        if not self.level or level > self.level or key in self.annotations:
            return
        if len(self.annotations) < MAX_ANNOTATIONS:
            self.annotations[cut(key, MAX_KEY)] = cut(value, MAX_VALUE)

    def sent(self, metadata: Mapping[str, Any], whole: bytes | None) -> None:
        """Take what was sent: an object's metadata, and the object as JSON from level Request on."""
        for key in ("namespace", "name", "uid", "resourceVersion"):
            if metadata.get(key):
                self.found[key] = cut(str(metadata[key]), MAX_KEY)
        if whole is not None:
            self.request = Body(whole, "application/json")

    def answered(self, code: int, pieces: Sequence[bytes], form: str) -> None:
        """Take a whole answer; what failed has told its Status before."""
        if self.status is None:
            self.status = {"metadata": {}, "code": code}
        if self.level >= Level.REQUEST_RESPONSE:
            self.response = Body(b"".join(pieces), form)


SILENT = Trail()
"""Of requests of which nothing is told."""


def cut(text: str, limit: int) -> str:
    """Return a text of so many characters at most, and a mark if more was there."""
    return text if len(text) <= limit else text[:limit] + CUT
