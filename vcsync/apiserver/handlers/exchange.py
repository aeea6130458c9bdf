"""One HTTP request and its answer, as filters and handlers pass them on."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from vcsync.apiserver.flow.dispatcher import Seat
from vcsync.apiserver.metering.counters import UNMETERED, Counters
from vcsync.apiserver.registry.long_running import LongRunningRequest
from vcsync.apiserver.request.audit_trail import SILENT, Trail
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.request.scope import no_memory_limit
from vcsync.apiserver.requestlimits.limiter import Passage

Embedded = Callable[[RequestInfo, Query, str], Awaitable[Reply | Stream]]
"""Answers a list or watch over all embedded control planes, with a query and the value of an Accept header."""


@dataclass(slots=True)
class Incoming:
    """One HTTP request. The server fills in the first fields; filters add the others as they learn them.

    Attributes:
        path: Path as the client sent it, percent-encoded.
        certificate: Client certificate in DER form, or None if the client presented none.
        body: Reads the body, after waiting for memory through the function it is given. It must not reference this
            object: that would create a reference cycle per request.
        pieces: Yields the body while it arrives, for handlers that do not need it as a whole. None: only `body` reads it.
        tenant: Tenant whose objects the request is about. Set once the request is authorized.
        blamed: Tenant to blame if the request stalls the server. Empty: none.
        audit_id: Identifier that the audit log and the response carry.
        remote: Address of the peer.
        audit: Collects what the audit log records of the request.
        seat: Permission to run. Whoever created this object must end it.
        flow_headers: Response headers that name the flow schema and priority level. Only authenticated users get them.
        abort: Aborts the connection, or None if the request has none.
        long_running: Registration of a long-running request. Whoever created this object must end it.
        usage: Counters of the tenant for which the request counts, or `UNMETERED`.
        local: Whether the client is in this process: then it is one of vcsync's roles.
        server_name: Host name that the client asked for in its TLS handshake. None: it is not known; see `request.host_names`.
        passage: What the request counts as against limits, or None if there are none. Whoever created this object must end it.
        retry_after: Seconds after which a request that the limits refuse may be repeated. 0: they do not refuse it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    certificate: bytes | None
    body: Callable[[Callable[[int], Awaitable[None]]], Awaitable[bytes]]
    pieces: Callable[[], AsyncIterator[bytes]] | None = None
    tenant: str = ""
    blamed: str = ""
    audit_id: str = ""
    remote: str = ""
    audit: Trail = SILENT
    seat: Seat | None = None
    flow_headers: Mapping[str, str] = field(default_factory=dict)
    abort: Callable[[], None] | None = None
    long_running: LongRunningRequest | None = None
    usage: Counters = UNMETERED
    local: bool = False
    passage: Passage | None = None
    retry_after: int = 0
    server_name: str | None = None

    @property
    def weigh(self) -> Callable[[int], Awaitable[None]]:
        """Function that waits for memory; see `flow.dispatcher.Seat.weigh`."""
        return self.seat.weigh if self.seat is not None else no_memory_limit

    async def read(self) -> bytes:
        """Read the body.

        Raises:
            StatusError: Whatever `body` raises.
        """
        return await self.body(self.weigh)


@dataclass(slots=True)
class Outgoing:
    """The answer to a request.

    Attributes:
        warnings: Texts of Warning headers.
        info: What the request was about, or None if its URL could not be read.
        headers: Headers in addition to those of `answer`.
        last: Whether the connection closes after this answer.
        usage: Counters of the tenant for which the answer counts.
        passage: What the request counts as against limits.
        retry_after: As in `Incoming`.
    """

    answer: Reply | Stream
    warnings: list[str]
    info: RequestInfo | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last: bool = False
    audit_id: str = ""
    usage: Counters = UNMETERED
    passage: Passage | None = None
    retry_after: int = 0

    @property
    def metrics_verb(self) -> str:
        """Verb under which metrics count the request; `path` if it is not about a resource."""
        return self.info.verb if self.info and self.info.resource_request else "path"
