"""The filter chain every request passes through.

The order is that of apiserver's `DefaultBuildHandlerChain` in `server/config.go`; the filters for tenants are our own.
"""

import asyncio
from dataclasses import replace

from multidict import CIMultiDict

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.aggregator.forward import Forwarder
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.audit.auditor import Auditor
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.filters.aggregation import aggregate
from vcsync.apiserver.filters.audit import begin_audit
from vcsync.apiserver.filters.authentication import authenticate
from vcsync.apiserver.filters.authorization import authorize
from vcsync.apiserver.filters.external import ExternalControlPlanes, goes_beyond, is_forwarded
from vcsync.apiserver.filters.guests import Guests, admit_guest
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.filters.impersonation import impersonate
from vcsync.apiserver.filters.long_running import track_long_running
from vcsync.apiserver.filters.priority_and_fairness import wait_for_seat
from vcsync.apiserver.filters.refusals import Refusals
from vcsync.apiserver.filters.request_limits import limit, limit_anonymous
from vcsync.apiserver.filters.set_aside import blamed_tenant, refuse_set_aside
from vcsync.apiserver.filters.suspension import refuse_suspended
from vcsync.apiserver.filters.tenant import OPERATOR, load_tenant, resolve_tenant
from vcsync.apiserver.filters.websocket_watch import asked_for_messages, sent_in_messages
from vcsync.apiserver.flow.dispatcher import SeatDispatcher
from vcsync.apiserver.handlers.dispatch import Dispatcher
from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.handlers.non_resource import Paths
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.registry.long_running import LongRunningRequests
from vcsync.apiserver.request.caller import SYSTEM, Caller
from vcsync.apiserver.request.core_tenants import in_own_group
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import (
    ALL,
    Query,
    RequestInfo,
    beyond_embedded,
    check_timeout,
    parse_path,
    parse_query,
    read_selectors,
    request_info,
)
from vcsync.apiserver.requestlimits.limiter import Limiter
from vcsync.apiserver.resourcemetrics.handler import ResourceMetrics
from vcsync.apiserver.storage.interface import StoreFull, StoreUnavailable
from vcsync.process.marks import marked


class FilterChain:
    """Passes requests through the filters, and on to their handlers.

    Args:
        identity: Authenticates and authorizes callers.
        spaces: Loads the custom kinds of tenants.
        dispatcher: Handles requests for resources.
        paths: Handles requests for other paths.
        refusals: Answers refused requests.
        gate: Gives seats. None: every request runs at once.
        long_running: Registers long-running requests. None: they are not tracked.
        external: Forwards requests of external tenants. None: there are no such tenants.
        meter: Counts what tenants use. None: it is not counted.
        limiter: Limits the requests of tenants. None: they are not limited.
        guests: Admits callers of other tenants. None: there are no grants.
        host_names: Host names of tenants. None: only paths and credentials name tenants.
        aggregator: Forwards requests to aggregated API servers. None: nothing is forwarded to them.
        metrics: Serves the resource metrics API. None: only servers of tenants do.

    Attributes:
        auditor: Begins audit trails, or None if there is no audit log.
        refusals: Answers refused requests.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        identity: Identity,
        spaces: Spaces,
        dispatcher: Dispatcher,
        paths: Paths,
        refusals: Refusals,
        gate: SeatDispatcher | None = None,
        long_running: LongRunningRequests | None = None,
        external: ExternalControlPlanes | None = None,
        meter: Meter | None = None,
        limiter: Limiter | None = None,
        guests: Guests | None = None,
        host_names: HostNames | None = None,
        aggregator: Forwarder | None = None,
        metrics: ResourceMetrics | None = None,
    ) -> None:
        self._aggregator = aggregator
        self._metrics = metrics
        self._identity = identity
        self._spaces = spaces
        self._dispatcher = dispatcher
        self._paths = paths
        self._gate = gate
        self._long_running = long_running
        self._external = external
        self._meter = meter
        self._limiter = limiter
        self._guests = guests
        self._host_names = host_names
        self.refusals = refusals
        self.auditor: Auditor | None = None

    async def handle(self, incoming: Incoming) -> Outgoing:
        """Answer a request. A refused request is answered with its Status."""
        warnings: list[str] = []
        info: RequestInfo | None = None
        try:
            query = parse_query(incoming.query, incoming.path)
            info = request_info(incoming.method, parse_path(incoming.path), query)
            if self._host_names is not None:
                hosts = [value for name, value in incoming.headers.items() if name.lower() == "host"]
                info = self._host_names.resolve(info, hosts, incoming.server_name)
            answer = await self._filter(incoming, info, query, warnings)
        except (StatusError, StoreFull, StoreUnavailable) as error:
            answer = self.refusals.answer(incoming, error)
        except asyncio.CancelledError:
            if self.auditor is not None:
                self.auditor.complete(incoming.audit)
            raise
        if info is not None:
            request_log.answered(incoming.audit, info, answer)
        return Outgoing(answer, warnings, info, incoming.flow_headers)

    async def _filter(
        self, incoming: Incoming, info: RequestInfo, query: Query, warnings: list[str]
    ) -> Reply | Stream:
        """Apply the filters in order, those that know the tenant below its mark.

        Raises:
            StatusError: A filter or the handler refuses the request.
        """
        identity = self._identity
        own = await authenticate(identity, self.auditor, incoming, info)
        if own.system:
            info = beyond_embedded(in_own_group(info))
        caller = await admit_guest(self._guests, own, info)
        track_long_running(self._long_running, incoming, info, own, caller)
        begin_audit(self.auditor, identity, incoming, info, caller)
        check_timeout(info, query)
        if info.selectors is None:
            info = await read_selectors(info, query)
        if info.path.startswith(OPERATOR):
            return await self._operate(incoming, info, query, caller)
        tenant = resolve_tenant(identity, caller, info)
        served = self._serve(incoming, info, query, tenant, caller, warnings)
        incoming.blamed = blamed_tenant(identity, caller, tenant)
        return await marked("request", incoming.blamed, served, incoming.method, incoming.path)

    async def _serve(  # noqa: PLR0917 - what the filters have found out
        self,
        incoming: Incoming,
        info: RequestInfo,
        query: Query,
        tenant: str,
        caller: Caller,
        warnings: list[str],
    ) -> Reply | Stream:
        """Apply the other filters in order, to a request whose tenant is known.

        Raises:
            StatusError: A filter or the handler refuses the request.
        """
        identity = self._identity
        refuse_set_aside(identity, caller, info, tenant)
        if self._meter is not None:
            incoming.usage = self._meter.counters(tenant, caller)
        limit(self._limiter, incoming, info, tenant, caller)
        if self._external is not None and is_forwarded(self._external, tenant, caller):
            return await self._forward(self._external, incoming, info, query, tenant, caller)
        caller = await impersonate(identity, incoming, info, caller, tenant)
        await wait_for_seat(self._gate, identity, incoming, tenant, caller, info, query)
        await authorize(identity, incoming, info, caller)
        limit_anonymous(self._limiter, identity, incoming, info, tenant, caller)
        refuse_suspended(identity, incoming, info, caller, tenant)
        await load_tenant(identity, self._spaces, incoming, tenant)
        messages = asked_for_messages(incoming, info)
        aggregated = await aggregate(
            self._aggregator, self._metrics, self._spaces, incoming, info, query, tenant, caller
        )
        if aggregated is not None:
            return sent_in_messages(messages, aggregated)
        if not info.resource_request:
            return await self._paths.answer(incoming, info, query, tenant, caller)
        if self._external is not None and goes_beyond(info):
            everyone = await self._all_tenants(self._external, incoming, info, query, caller, warnings)
            return sent_in_messages(messages, everyone)
        return await self._dispatcher.dispatch(incoming, info, query, tenant, caller, warnings)

    async def _forward(  # noqa: PLR0917 - what the filters have found out
        self,
        external: ExternalControlPlanes,
        incoming: Incoming,
        info: RequestInfo,
        query: Query,
        tenant: str,
        caller: Caller,
    ) -> Reply | Stream:
        """Answer a request of an external tenant.

        The seat comes before impersonation here, because that already sends requests to the external API server.
        """
        await wait_for_seat(self._gate, self._identity, incoming, tenant, caller, info, query)
        refuse_suspended(self._identity, incoming, info, caller, tenant)
        if caller.system:
            caller = await self._identity.impersonate(caller, incoming.headers, tenant, info)
        else:
            caller = await external.impersonate(caller, incoming.headers, tenant)
        request_log.impersonated(incoming, caller)
        incoming.tenant = tenant
        return await external.forward(incoming, info, query, tenant, caller)

    async def _all_tenants(  # noqa: PLR0917 - what the filters have found out
        self,
        external: ExternalControlPlanes,
        incoming: Incoming,
        info: RequestInfo,
        query: Query,
        caller: Caller,
        warnings: list[str],
    ) -> Reply | Stream:
        """Answer a list or watch over embedded and external control planes."""
        unwarned = [warnings]

        async def embedded(part: RequestInfo, asked: Query, accept: str) -> Reply | Stream:
            headers = CIMultiDict(incoming.headers)
            headers["Accept"] = accept
            headers.popall("Upgrade", None)  # its lines are put together with those of others
            own = replace(incoming, headers=headers)
            told = unwarned.pop() if unwarned else []  # The texts of all parts are the same.
            return await self._dispatcher.dispatch(own, part, asked, ALL, caller, told)

        return await external.all_tenants(incoming, info, query, warnings, embedded)

    async def _operate(
        self, incoming: Incoming, info: RequestInfo, query: Query, caller: Caller
    ) -> Reply | Stream:
        """Answer a request for the operator's own paths, whose handler authorizes it."""
        if caller.system:
            caller = await self._identity.impersonate(caller, incoming.headers, SYSTEM, info)
            await wait_for_seat(self._gate, self._identity, incoming, SYSTEM, caller, info, query)
        return await self._paths.operate(incoming, info, query, caller)
