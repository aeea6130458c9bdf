"""What is to be done in the other process, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vcsync.controlplane.admission.pod_security import DEFAULT
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.audit.trail import Begun, Body, Level, Trail
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.reply import Reply
from vcsync.controlplane.rest.requestinfo import Query, RequestInfo
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.storage_limit import MAX_BYTES, MAX_OBJECTS
from vcsync.controlplane.rest.verbs import Headers, Request
from vcsync.controlplane.wire.negotiation import Representation


@dataclass(frozen=True, slots=True)
class Setup:
    """What the other process is told when it begins; see `assemble.control_plane` and `limits.Limits`."""

    plugins: Settings = field(default_factory=lambda: DEFAULT)
    storage_bytes: int = MAX_BYTES
    storage_objects: int = MAX_OBJECTS


@dataclass(frozen=True, slots=True)
class Job:
    """A write that may proceed; see `verbs.Request` and `scope.Scope`."""

    info: RequestInfo
    query: Query
    headers: Headers
    how: Representation
    body: bytes
    tenant: str
    namespace: str
    name: str
    caller: Caller
    now: str
    began: float
    level: Level
    bare: bool

    @classmethod
    def of(cls, request: Request, body: bytes) -> "Job":
        """Take what there is to know of a request whose body is here."""
        scope = request.scope
        return cls(
            info=request.info,
            query=request.query,
            headers=Headers(request.headers.content_type, request.headers.accept, scope.agent),
            how=request.how,
            body=body,
            tenant=scope.tenant,
            namespace=scope.namespace,
            name=scope.name,
            caller=scope.caller,
            now=scope.context.now,
            began=scope.began,
            level=scope.audit.level,
            bare=scope.audit.begun.bare,
        )

    def request(self, kind: Kind) -> Request:
        """Make the request anew."""

        async def body() -> bytes:
            return self.body

        scope = Scope(
            tenant=self.tenant,
            kind=kind,
            context=Context(tenant=self.tenant, user=self.caller.user, now=self.now),
            namespace=self.namespace,
            name=self.name,
            subresource=self.info.subresource,
            caller=self.caller,
            agent=self.headers.agent,
            audit=Trail(self.level, Begun(bare=self.bare)),
            began=self.began,
        )
        return Request(self.info, self.query, self.headers, body, scope, self.how)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job: a whole answer or an error, what clients are warned of, and what the audit log is told."""

    reply: Reply | None
    error: Mapping[str, object] | None
    warnings: list[str]
    annotations: Mapping[str, str]
    found: Mapping[str, str]
    sent: Body | None

    @classmethod
    def of(cls, scope: Scope, reply: Reply | None, error: Mapping[str, object] | None) -> "Done":
        """Take what came of a request."""
        trail = scope.audit
        whole = None if reply is None else replace(reply, body=[b"".join(reply.body)])
        return cls(whole, error, scope.warnings, trail.annotations, trail.found, trail.request)

    def told(self, scope: Scope) -> None:
        """Tell the first request's scope."""
        scope.warn(self.warnings)
        if scope.audit.level:
            for key, value in self.annotations.items():
                scope.audit.annotations.setdefault(key, value)
            scope.audit.found.update(self.found)
            scope.audit.request = scope.audit.request or self.sent
