"""Messages between a control plane and its offload process: configuration, jobs and results."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.admission.framework.settings import Settings
from vcsync.apiserver.admission.pod_security.plugin import DEFAULT
from vcsync.apiserver.handlers.request import Headers, Request
from vcsync.apiserver.registry.storage_limit import MAX_BYTES, MAX_OBJECTS
from vcsync.apiserver.request.audit_trail import Begun, Body, Level, Trail
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Scope


@dataclass(frozen=True, slots=True)
class Setup:
    """Configuration of the offload process; see `assembly.server.control_plane` and `serving.limits.Limits`."""

    plugins: Settings = field(default_factory=lambda: DEFAULT)
    storage_bytes: int = MAX_BYTES
    storage_objects: int = MAX_OBJECTS
    tenant_grants: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """An authorized write; see `handlers.request.Request` and `request.scope.Scope`.

    Attributes:
        how: Representation of the response.
        now: Time of the request, in RFC 3339.
        forwards: See `strategy.Context`.
        began: Monotonic time at which the request began, in seconds.
        level: What the audit log records of the request.
        bare: See `audit_trail.Begun`.
    """

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
    forwards: bool
    began: float
    level: Level
    bare: bool

    @classmethod
    def of(cls, request: Request, body: bytes) -> "Job":
        """Return the job for a request whose body has been read."""
        scope = request.scope
        return cls(
            info=request.info,
            query=request.query,
            headers=Headers(request.headers.content_type, request.headers.accept, scope.agent),
            how=request.representation,
            body=body,
            tenant=scope.tenant,
            namespace=scope.namespace,
            name=scope.name,
            caller=scope.caller,
            now=scope.context.now,
            forwards=scope.context.forwards,
            began=scope.began,
            level=scope.audit.level,
            bare=scope.audit.begun.bare,
        )

    def request(self, kind: Kind) -> Request:
        """Return the request that the job was made from, for the handlers of this process."""

        async def body() -> bytes:
            return self.body

        scope = Scope(
            tenant=self.tenant,
            kind=kind,
            context=Context(self.tenant, self.caller.user, self.now, self.forwards),
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
class JobResult:
    """The result of a job.

    Attributes:
        reply: The response, or None if the write was refused.
        error: Fields of the StatusError with which the write was refused.
        warnings: Texts of Warning headers.
        annotations: Annotations of the audit event.
        found: Metadata of the object for the audit event.
        sent: Request body as the audit log records it.
    """

    reply: Reply | None
    error: Mapping[str, object] | None
    warnings: list[str]
    annotations: Mapping[str, str]
    found: Mapping[str, str]
    sent: Body | None

    @classmethod
    def of(cls, scope: Scope, reply: Reply | None, error: Mapping[str, object] | None) -> "JobResult":
        """Return the result of a request that ended with a reply or an error."""
        trail = scope.audit
        whole = None if reply is None else replace(reply, body=[b"".join(reply.body)])
        return cls(whole, error, scope.warnings, trail.annotations, trail.found, trail.request)

    def apply_to(self, scope: Scope) -> None:
        """Add the warnings and audit annotations to the scope of the original request."""
        scope.warn(self.warnings)
        if scope.audit.level:
            for key, value in self.annotations.items():
                scope.audit.annotations.setdefault(key, value)
            scope.audit.found.update(self.found)
            scope.audit.request = scope.audit.request or self.sent
