"""Hands an authorized request for a resource to the handler of its verb or subresource."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.wire import negotiation
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.apiextensions.catalogue import Served
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.discovery.served import Spaces, served_version
from vcsync.apiserver.flow.dispatcher import SeatDispatcher
from vcsync.apiserver.flow.write_limiter import limited_write
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.non_resource import unknown_path
from vcsync.apiserver.handlers.request import Headers, ReadBody, Request
from vcsync.apiserver.handlers.routes import UNTRANSFORMED, VIRTUAL, check_route, is_wrong_scope
from vcsync.apiserver.handlers.subresources import Subresources
from vcsync.apiserver.handlers.verbs import Verbs
from vcsync.apiserver.handlers.write_limit import is_limited
from vcsync.apiserver.registry.history_limit import History
from vcsync.apiserver.request.audit_trail import Trail
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.core_tenants import WITH_BODY, own_body
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Scope

GROWING_WRITES = frozenset({"create", "update", "patch"})
"""Verbs that make the history grow, either now or when what they write is deleted."""


class Dispatcher:
    """Hands requests for resources to their handlers.

    Args:
        spaces: Finds the kind that a request names.
        verbs: Handles requests for objects.
        subresources: Handles requests for subresources and for resources that are not stored.
        now: Returns the time in RFC 3339 form.
        gate: Holds the limit of concurrent writes in a namespace. None: no limit.
        history: Limits the history that tenants may write. None: no limit.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        spaces: Spaces,
        verbs: Verbs,
        subresources: Subresources,
        now: Callable[[], str],
        gate: SeatDispatcher | None = None,
        history: History | None = None,
    ) -> None:
        self._spaces = spaces
        self._verbs = verbs
        self._subresources = subresources
        self._now = now
        self._gate = gate
        self._history = history

    async def dispatch(  # noqa: PLR0917 - what the filters have found out
        self,
        incoming: Incoming,
        info: RequestInfo,
        query: Query,
        tenant: str,
        caller: Caller,
        warnings: list[str],
    ) -> Reply | Stream:
        """Answer a request for a resource that has been authorized.

        Raises:
            StatusError: The request is refused.
        """
        headers = incoming.headers
        kind = self._spaces.kind(tenant, info.group, info.version, info.resource)
        proxied = info.subresource == "proxy"
        if incoming.method == "HEAD" and not proxied:
            raise errors.method_not_allowed()
        prefix = "apis" if info.group else "api"
        if kind is None or info.prefix != prefix or is_wrong_scope(kind.resource, info):
            if served_version(info.group) or info.prefix == "api":
                raise errors.page_not_found()
            return unknown_path()
        resource = kind.resource
        if isinstance(kind, Served):
            await kind.compiled()
        _check(kind, info, tenant, caller, incoming.audit, warnings)
        scope = Scope(
            tenant=tenant,
            kind=kind,
            context=Context(tenant, caller.user, self._now(), self._spaces.remote.forwards(tenant)),
            namespace=info.namespace if resource.namespaced else "",
            name=info.name,
            subresource=info.subresource,
            caller=caller,
            agent=headers.get("User-Agent", ""),
            warnings=warnings,
            audit=incoming.audit,
            weigh=incoming.weigh,
        )
        representation = Representation("json") if proxied else _negotiate(incoming, info, query, scope)
        received = Headers(headers.get("Content-Type", ""), headers.get("Accept", ""), scope.agent, headers)
        if self._history is not None and info.verb in GROWING_WRITES and not caller.system:
            self._history.require(tenant)
        body = request_log.recorded(incoming, info, incoming.read)
        if info.core_tenants and info.verb in WITH_BODY:
            body = _in_own_group(body, received.content_type)
        request = Request(info, query, received, body, scope, representation)
        if proxied:
            return await self._subresources.proxied(incoming, request)
        if self._gate is None or not is_limited(info):
            return await self._handler(request)(request)
        with limited_write(self._gate.write_limiter, (tenant, info.namespace)) as write:

            async def read() -> bytes:
                # The slot is taken once the body is here, so that a slow sender does not hold one.
                data = await body()
                await write.acquire()
                return data

            return await self._handler(request)(replace(request, body=read))

    def _handler(self, request: Request) -> Callable[[Request], Awaitable[Reply | Stream]]:
        if request.info.subresource:
            return self._subresources.answer
        resource = request.scope.kind.resource
        if (resource.group, resource.plural) in VIRTUAL:
            return self._subresources.virtual
        return self._verbs.handle


def _in_own_group(read: ReadBody, content_type: str) -> ReadBody:
    async def read_tenant() -> bytes:
        return own_body(await read(), content_type)

    return read_tenant


def _negotiate(incoming: Incoming, info: RequestInfo, query: Query, scope: Scope) -> Representation:
    """Return the representation of the response that the client accepts.

    Raises:
        StatusError: 406.
    """
    resource, watch = scope.kind.resource, info.verb == "watch"
    found = negotiation.accepted(
        incoming.headers.get("Accept", ""),
        custom=resource.custom,
        watch=watch,
        transforms=(resource.group, resource.plural) not in UNTRANSFORMED,
        lists=watch or info.verb == "list",
    )
    if negotiation.wants_pretty(query.get("pretty", (None,))[0], scope.agent) and not watch:
        return Representation(found.format, found.target, found.version, pretty=True)
    return found


def _check(  # noqa: PLR0917 - what the filters have found out
    kind: Kind, info: RequestInfo, tenant: str, caller: Caller, audit: Trail, warnings: list[str]
) -> None:
    """Return if the resource serves the request, and warn if it is deprecated.

    Raises:
        StatusError: 400, 404 or 405.
    """
    # Upstream warns about a custom resource even if it refuses the request.
    if kind.resource.custom:
        warnings += kind.warnings
    check_route(kind, info, tenant, caller)
    if not kind.resource.custom:
        warnings += kind.warnings
    if kind.warnings:
        audit.annotate("k8s.io/deprecated", "true")
