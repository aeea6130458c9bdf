"""The way of every request: parse, authenticate, tenant, impersonate, authorize, then its verb or path."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from vcsync.controlplane import errors
from vcsync.controlplane.audit.auditor import Auditor
from vcsync.controlplane.audit.trail import SILENT, Trail
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.crd.catalogue import Served
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.gate import Gate, Seat
from vcsync.controlplane.flow.hands import gripping
from vcsync.controlplane.identity.caller import SYSTEM, UNAUTHENTICATED, Caller, settle_tenant
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.history import History
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.lasting import Lasting, Open
from vcsync.controlplane.rest.paths import Paths, nowhere
from vcsync.controlplane.rest.refusals import refusal
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.requestinfo import (
    ALL,
    Query,
    RequestInfo,
    check_timeout,
    parse_path,
    parse_query,
    read_selectors,
    request_info,
)
from vcsync.controlplane.rest.scope import Scope, weightless
from vcsync.controlplane.rest.soundness import Soundness
from vcsync.controlplane.rest.space import Spaces, served_version
from vcsync.controlplane.rest.subresources import Subresources
from vcsync.controlplane.rest.verbs import Headers, Request, Verbs
from vcsync.controlplane.store.interface import StoreFull, StoreUnavailable
from vcsync.controlplane.wire import negotiation
from vcsync.controlplane.wire.negotiation import Representation

OPERATOR = "/vcsync/v1/"
NOBODY = ""
"""The tenant of those who ask for one that there is not."""
VIRTUAL = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Resources of which nothing is kept."""
MAX_DIGITS = 19
"""Of a list's limit."""
UPGRADED = frozenset({"exec", "attach", "portforward"})
"""What is asked for by GET, as WebSockets must be, needs the right to create as well."""
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
HASTY = frozenset({"leases", "events"})
"""Of what is written in namespaces: who renews a Lease must not be late, and Events keep nobody."""


class Identity(Protocol):
    """Who may do what; see `guard.Guard`."""

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant: str | None
    ) -> Caller:
        """Find out who asks; raises StatusError 401."""
        ...

    def exists(self, tenant: str) -> bool:
        """Whether there is such a tenant."""
        ...

    async def impersonate(
        self, caller: Caller, headers: Mapping[str, str], tenant: str, info: RequestInfo
    ) -> Caller:
        """Return whom the caller acts as; raises StatusError 403."""
        ...

    async def authorize(self, caller: Caller, info: RequestInfo, audit: Trail) -> None:
        """Return, or raise StatusError 403; tell the audit log which."""
        ...


@dataclass(slots=True)
class Incoming:
    """One HTTP request, before anything is known of it.

    Attributes:
        path: as it was sent, percent-encoded.
        certificate: of the client, DER; None: it showed none.
        body: reads it, given what waits for memory; it does not hold this, or each request would leave a cycle.
        tenant: whose it is, once the caller is known and let in.
        audit_id: goes into the audit log and back to the client.
        remote: the address of the other end.
        audit: what the audit log is told of it.
        seat: its right to be served, once the caller is known; to be ended by whoever made this.
        classified: headers that tell by what it was let in; only a tenant's own users may know.
        cut: ends it from outside; None: nothing does.
        open: what is known of it as one that lasts; to be ended by whoever made this.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    certificate: bytes | None
    body: Callable[[Callable[[int], Awaitable[None]]], Awaitable[bytes]]
    tenant: str = ""
    audit_id: str = ""
    remote: str = ""
    audit: Trail = SILENT
    seat: Seat | None = None
    classified: Mapping[str, str] = field(default_factory=dict)
    cut: Callable[[], None] | None = None
    open: Open | None = None

    @property
    def weigh(self) -> Callable[[int], Awaitable[None]]:
        """What waits for memory; see `flow.gate.Seat.weigh`."""
        return self.seat.weigh if self.seat is not None else weightless

    async def read(self) -> bytes:
        """Read the body; raises what `body` raises."""
        return await self.body(self.weigh)


@dataclass(slots=True)
class Outgoing:
    """The answer, and what goes with it. `last`: no other request is taken on the connection."""

    answer: Reply | Stream
    warnings: list[str]
    info: RequestInfo | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last: bool = False
    audit_id: str = ""


_GROWING = frozenset({"create", "update", "patch"})
"""Verbs by which history grows, now or when what they write goes again."""


class Way:
    """Takes every request its way."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        identity: Identity,
        spaces: Spaces,
        verbs: Verbs,
        subresources: Subresources,
        paths: Paths,
        now: Callable[[], str],
        refuse: Callable[[StatusError, Representation], bytes],
        gate: Gate | None = None,
        lasting: Lasting | None = None,
        history: History | None = None,
        soundness: Soundness | None = None,
    ) -> None:
        """Take the parts; `now` gives RFC 3339, `refuse` encodes errors; no gate: everything is served at once."""
        self._history = history
        self._soundness = soundness
        self._lasting = lasting
        self._gate = gate
        self._identity = identity
        self._spaces = spaces
        self._verbs = verbs
        self._subresources = subresources
        self._paths = paths
        self._now = now
        self._refuse = refuse
        self.auditor: Auditor | None = None

    async def go(self, incoming: Incoming) -> Outgoing:
        """Answer a request; what is refused is answered with its Status."""
        warnings: list[str] = []
        info: RequestInfo | None = None
        try:
            query = parse_query(incoming.query)
            info = request_info(incoming.method, parse_path(incoming.path), query)
            check_timeout(info, query)
            answer = await self._go(incoming, info, query, warnings)
        except StatusError as error:
            auditing.failed(incoming.audit, error)
            answer = self.refused(error, incoming.headers.get("Accept", ""))
        except (StoreFull, StoreUnavailable) as error:
            if self._soundness is None:
                raise
            told = self._soundness.refusal(error)
            auditing.failed(incoming.audit, told)
            answer = self.refused(told, incoming.headers.get("Accept", ""))
        except asyncio.CancelledError:
            if self.auditor is not None:
                self.auditor.complete(incoming.audit)
            raise
        if info is not None:
            auditing.answered(incoming.audit, info, answer)
        return Outgoing(answer, warnings, info, incoming.classified)

    def refused(self, error: StatusError, accept: str) -> Reply:
        """Answer with an error's Status."""
        return refusal(error, accept, self._refuse)

    async def _go(
        self, incoming: Incoming, info: RequestInfo, query: Query, warnings: list[str]
    ) -> Reply | Stream:
        identity, headers = self._identity, incoming.headers
        caller = await self._authenticate(incoming, info)
        if info.selectors is None:
            info = await read_selectors(info, query)
        if info.path.startswith(OPERATOR):
            if caller.system:
                caller = await identity.impersonate(caller, headers, SYSTEM, info)
                await self._seat(incoming, SYSTEM, caller, info, query)
            return await self._paths.operate(incoming, info, query, caller)
        tenant = settle_tenant(caller, info.tenant)
        if caller.system and tenant != ALL and not identity.exists(tenant):
            raise errors.not_found("tenants", "", tenant)
        caller = await identity.impersonate(caller, headers, tenant, info)
        auditing.impersonated(incoming, caller)
        await self._seat(incoming, tenant, caller, info, query)
        await self._authorize(incoming, caller, info)
        await self._enter(incoming, tenant)
        if not info.resource_request:
            return await self._paths.answer(incoming, info, query, tenant)
        return await self._answer(incoming, info, query, tenant, caller, warnings)

    async def _answer(  # noqa: PLR0917 - what is known of the request by now
        self,
        incoming: Incoming,
        info: RequestInfo,
        query: Query,
        tenant: str,
        caller: Caller,
        warnings: list[str],
    ) -> Reply | Stream:
        """Answer a request about resources that has been authorized."""
        headers = incoming.headers
        kind = self._spaces.kind(tenant, info.group, info.version, info.resource)
        if incoming.method == "HEAD":
            raise errors.method_not_allowed()
        if kind is None or info.prefix != ("apis" if info.group else "api") or elsewhere(kind.resource, info):
            if served_version(info.group) or info.prefix == "api":
                raise errors.page_not_found()
            return nowhere()
        resource = kind.resource
        if isinstance(kind, Served):
            await kind.compiled()
        self._admit(kind, info, tenant, incoming.audit, warnings)
        scope = Scope(
            tenant=tenant,
            kind=kind,
            context=Context(tenant=tenant, user=caller.user, now=self._now()),
            namespace=info.namespace if resource.namespaced else "",
            name=info.name,
            subresource=info.subresource,
            caller=caller,
            agent=headers.get("User-Agent", ""),
            warnings=warnings,
            audit=incoming.audit,
            weigh=incoming.weigh,
        )
        streamed = info.verb == "watch"
        how = negotiation.accepted(
            headers.get("Accept", ""),
            custom=resource.custom,
            watch=streamed,
            transforms=(resource.group, resource.plural) not in VIRTUAL,
            lists=streamed or info.verb == "list",
        )
        if negotiation.wants_pretty(query.get("pretty", (None,))[0], scope.agent) and not streamed:
            how = Representation(how.format, how.target, how.version, pretty=True)
        told = Headers(headers.get("Content-Type", ""), headers.get("Accept", ""), scope.agent, headers)
        if self._history is not None and info.verb in _GROWING and not caller.system:
            self._history.require(tenant)
        body = auditing.recorded(incoming, info, incoming.read)
        request = Request(info, query, told, body, scope, how)
        if self._gate is None or not waits_its_turn(info):
            return await self._do(request)
        with gripping(self._gate.hands, (tenant, info.namespace)) as grip:

            async def read() -> bytes:  # who sends slowly keeps nobody
                data = await body()
                await grip.take()
                return data

            return await self._do(replace(request, body=read))

    async def _do(self, request: Request) -> Reply | Stream:
        if request.info.subresource:
            return await self._subresources.answer(request)
        resource = request.scope.kind.resource
        if (resource.group, resource.plural) in VIRTUAL:
            return await self._subresources.virtual(request)
        return await self._verb(request)

    async def _seat(
        self, incoming: Incoming, tenant: str, caller: Caller, info: RequestInfo, query: Query
    ) -> None:
        """Wait until the request may be served; system callers have seats of their own, wherever they look.

        Raises:
            StatusError: 429.
        """
        gate = self._gate
        if gate is None:
            return
        home = SYSTEM if caller.system else tenant if self._identity.exists(tenant) else NOBODY
        if not gate.known(home):
            await gate.prepare(home)
        width = 1
        if info.verb == "list" and not info.name:
            limit = (query.get("limit") or ("",))[0]
            key = (tenant, info.group, info.resource, info.namespace)
            width = gate.widths.of(key, int(limit) if limit.isdecimal() and len(limit) < MAX_DIGITS else 0)
        incoming.seat = seat = gate.enter(home, caller, info, width)
        if UNAUTHENTICATED not in caller.user.groups:
            incoming.classified = seat.flow.headers
        if seat.ready is not None:
            await seat.wait()
        if info.verb == "watch":
            seat.watch(caller)

    async def _authorize(self, incoming: Incoming, caller: Caller, info: RequestInfo) -> None:
        """Return if it may.

        Raises:
            StatusError: 403.
        """
        await self._identity.authorize(caller, info, incoming.audit)
        if (
            info.subresource in UPGRADED and info.verb == "get"
        ):  # AuthorizePodWebsocketUpgradeCreatePermission
            await self._identity.authorize(caller, replace(info, verb="create"), incoming.audit)

    async def _enter(self, incoming: Incoming, tenant: str) -> None:
        """Make a tenant's kinds known. Of names that there are not, which anybody may make up, nothing is kept."""
        if tenant == ALL:
            incoming.tenant = tenant
        elif self._identity.exists(tenant):
            incoming.tenant = tenant
            await self._spaces.prepare(tenant)

    async def _authenticate(self, incoming: Incoming, info: RequestInfo) -> Caller:
        """Find out who asks, and begin the request's audit trail.

        Raises:
            StatusError: 401.
        """
        identity, authorization = self._identity, incoming.headers.get("Authorization")
        try:
            caller = await identity.authenticate(incoming.certificate, authorization, info.tenant)
        except StatusError:
            if self.auditor is not None:
                auditing.begin(self.auditor, incoming, info, None, identity.exists)
            raise
        if incoming.cut is not None and self._lasting is not None and auditing.lasting(info):
            incoming.open = self._lasting.begin(
                caller, info.tenant, incoming.certificate, authorization, incoming.cut
            )
        if self.auditor is not None:
            auditing.begin(self.auditor, incoming, info, caller, identity.exists)
        return caller

    async def _verb(self, request: Request) -> Reply | Stream:
        verbs, verb = self._verbs, request.info.verb
        if verb in ("list", "watch"):
            # A name here comes from the field selector, unless it stands in the path.
            if len(request.info.parts) < 2:
                request.scope.name = ""
            return await verbs.collection(request)
        return await {
            "get": verbs.get,
            "create": verbs.create,
            "update": verbs.update,
            "patch": verbs.patch,
            "delete": verbs.delete,
            "deletecollection": verbs.deletecollection,
        }[verb](request)

    def _admit(self, kind: Kind, info: RequestInfo, tenant: str, audit: Trail, warnings: list[str]) -> None:
        """Let in what the resource has; tell that it is deprecated.

        Raises:
            StatusError: 404, 405.
        """
        # Of custom resources this is told even where what is asked is refused.
        if kind.resource.custom:
            warnings += kind.warnings
        self._check(kind, info, tenant)
        if not kind.resource.custom:
            warnings += kind.warnings
        if kind.warnings:
            audit.annotate("k8s.io/deprecated", "true")

    def _check(self, kind: Kind, info: RequestInfo, tenant: str) -> None:
        """Refuse what the resource does not have.

        Raises:
            StatusError: 404, 405.
        """
        resource = kind.resource
        if not resource.namespaced and info.namespace and resource.plural != "namespaces":
            raise errors.page_not_found()
        if info.subresource:
            subresource = resource.subresources.get(info.subresource)
            if subresource is None and resource.custom:
                raise errors.not_found(resource.plural, resource.group, info.name)
            longer = len(info.parts) > 3 and info.subresource != "proxy" and not resource.custom
            if subresource is None or longer:
                raise errors.page_not_found()
            if not info.name:
                raise errors.bad_request("name must be provided")
            if info.verb not in subresource.verbs:
                raise errors.method_not_allowed()
            return
        if len(info.parts) > 2 and not info.parts[2]:
            raise errors.page_not_found()
        if tenant == ALL and info.verb not in ("list", "watch"):
            raise errors.method_not_allowed()
        named = len(info.parts) > 1
        if info.verb not in resource.verbs or (info.verb == "create" and named):
            raise errors.method_not_allowed()
        if info.verb in ("update", "patch") and not named:
            raise errors.method_not_allowed()
        if (
            resource.namespaced
            and not info.namespace
            and info.verb not in ("list", "watch", "deletecollection")
        ):
            raise errors.page_not_found() if named else errors.method_not_allowed()


def waits_its_turn(info: RequestInfo) -> bool:
    """Tell whether a request is a write in a namespace, of which few are in hand at once; see `flow.hands`."""
    lasts = info.subresource in UPGRADED or info.subresource == "proxy"
    return info.verb in WRITES and bool(info.namespace) and info.resource not in HASTY and not lasts


def elsewhere(resource: Resource, info: RequestInfo) -> bool:
    """Tell whether a request looks for custom resources where none of their scope are."""
    if not resource.custom:
        return False
    if resource.namespaced:
        return not info.namespace and info.verb not in ("list", "watch")
    return bool(info.namespace)
