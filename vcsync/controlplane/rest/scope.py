"""What one request is about, once its tenant, kind and caller are known."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vcsync.controlplane.audit.trail import SILENT, Trail
from vcsync.controlplane.behaviour import Context, Object
from vcsync.controlplane.resources import collection_key, object_key
from vcsync.controlplane.rest.kind import Kind

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


async def weightless(_: int) -> None:
    """Wait for nothing."""


@dataclass(slots=True)
class Scope:
    """One request for one kind.

    Attributes:
        tenant: whose objects; `all` on reads of system callers.
        caller: who asks, for authorization.
        warnings: texts that go out as Warning headers.
        agent: the User-Agent header.
        weigh: waits until memory for so many bytes of JSON can be had; see `flow.gate.Seat.weigh`.
        audit: takes annotations of the request's audit event: `scope.audit.annotate(key, value)`.
        began: by the clock that is never set, in seconds.
        size: bytes of the body, once it is here.
        there: bytes of what stands, once it was read to be changed.
        standing: whether an object that stands is written, or a new one.
    """

    tenant: str
    kind: Kind
    context: Context
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    caller: Any = None
    agent: str = ""
    warnings: list[str] = field(default_factory=list)
    audit: Trail = SILENT
    weigh: Callable[[int], Awaitable[None]] = weightless
    began: float = field(default_factory=time.monotonic)
    size: int = 0
    there: int = 0
    standing: bool = False

    @property
    def collection(self) -> str:
        """Prefix of the keys of what is listed."""
        resource = self.kind.resource
        return collection_key(self.tenant, resource.key_group, resource.plural, self.namespace)

    def key(self, name: str = "") -> str:
        """Key of the object, or of another one of the same collection."""
        resource = self.kind.resource
        return object_key(self.tenant, resource.key_group, resource.plural, self.namespace, name or self.name)

    def warn(self, texts: Sequence[str]) -> None:
        """Add warnings."""
        self.warnings.extend(texts)


@dataclass(slots=True)
class Turn:
    """Which turn of changing an object this is; there are at most two.

    Attributes:
        again: it is the second one: something that came late had changed the object.
        wanted: a policy or webhook has changed it: those that came before shall see it again.
        kept: what policies and webhooks note of the first turn for the second, each under its own name.
    """

    again: bool = False
    wanted: bool = False
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """One write, as an admission function sees it. Objects are served ones; None: there is none.

    Attributes:
        options: CreateOptions, UpdateOptions or DeleteOptions as the API writes them, without kind and apiVersion.
        turn: of changing the object.
    """

    scope: Scope
    operation: Operation
    name: str
    new: Object | None
    old: Object | None
    dry_run: bool
    options: Object = field(default_factory=dict)
    turn: Turn = field(default_factory=Turn)


Admit = Callable[[Admission], Awaitable[None]]
"""Changes `new` in place, adds warnings to the scope, or raises StatusError."""
