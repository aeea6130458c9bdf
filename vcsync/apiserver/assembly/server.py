"""Builds the embedded control plane from its parts."""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache, partial
from typing import Any

import structlog

from vcsync.api import served
from vcsync.apimachinery.kinds.core.service_claims import Network
from vcsync.apiserver.admission.assemble import admission
from vcsync.apiserver.admission.framework.settings import Settings
from vcsync.apiserver.admission.pod_placement import Placer
from vcsync.apiserver.admission.pod_security.plugin import DEFAULT
from vcsync.apiserver.admission.quotas import QuotaClaims
from vcsync.apiserver.admission.tenant_policies.status import TenantPolicyStatuses
from vcsync.apiserver.aggregator.forward import Forwarder
from vcsync.apiserver.apiextensions.api_services import ApiServices
from vcsync.apiserver.apiextensions.catalogue import Catalogue, redefined
from vcsync.apiserver.apiextensions.conversion import Reach, refuse
from vcsync.apiserver.apiextensions.definition_controller import DefinitionController
from vcsync.apiserver.assembly.aggregation import Aggregation
from vcsync.apiserver.assembly.caches import ServerCaches
from vcsync.apiserver.assembly.gateway import Gateway
from vcsync.apiserver.assembly.grant_offers import GrantOffers
from vcsync.apiserver.assembly.identity import Identity as IdentityService
from vcsync.apiserver.assembly.identity_filters import IdentityFilters
from vcsync.apiserver.assembly.kubernetes_service import KubernetesService
from vcsync.apiserver.assembly.placed_objects import PlacedObjects
from vcsync.apiserver.assembly.server_identity import ServerIdentity
from vcsync.apiserver.discovery.remote_api_services import RemoteApiServices
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.egress.networks import Networks
from vcsync.apiserver.egress.policy import NOTHING, Policy
from vcsync.apiserver.filters.chain import FilterChain
from vcsync.apiserver.filters.external import ExternalControlPlanes
from vcsync.apiserver.filters.guests import Guests
from vcsync.apiserver.filters.refusals import Refusals
from vcsync.apiserver.filters.store_health import StoreHealth
from vcsync.apiserver.flow.service import Fairness
from vcsync.apiserver.grants.index import GrantIndex
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.connect import Streaming
from vcsync.apiserver.handlers.dispatch import Dispatcher
from vcsync.apiserver.handlers.non_resource import Paths
from vcsync.apiserver.handlers.proxy import PodProxy
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.handlers.subresources import Subresources
from vcsync.apiserver.handlers.verbs import Verbs
from vcsync.apiserver.kubelets.client import Kubelets
from vcsync.apiserver.kubelets.super_clusters import SuperClusters
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.metering.metrics import TenantUsage
from vcsync.apiserver.offload.jobs import Setup
from vcsync.apiserver.offload.parent import OffloadProcess
from vcsync.apiserver.operator.defaults import SERVICE_CIDR
from vcsync.apiserver.operator.stall_records import record_stalls
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.eviction import Evictor
from vcsync.apiserver.registry.history_limit import History
from vcsync.apiserver.registry.long_running import LongRunningRequests
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.service_allocation import ServiceClaims
from vcsync.apiserver.registry.storage_limit import StorageLimit
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request.claims import Claims
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.request.request_info import ALL
from vcsync.apiserver.request.scope import Admit
from vcsync.apiserver.requestlimits.limiter import Limiter
from vcsync.apiserver.requestlimits.processes import Processes
from vcsync.apiserver.resourcemetrics.handler import ResourceMetrics, Simulated
from vcsync.apiserver.resourcemetrics.pod_usage import PodUsage
from vcsync.apiserver.serving.limits import Limits
from vcsync.apiserver.serving.request_counts import RequestMetrics
from vcsync.apiserver.serving.server import Server
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.storage.listeners import Listener
from vcsync.apiserver.watch.cacher import Cacher, OnMissed, OnTenantFailed
from vcsync.apiserver.watch.watcher import Watches
from vcsync.objects.times import unix_time_text
from vcsync.streams.limits import StreamLimits

RETRY_SECONDS = 1.0
"""Time until the controller of CustomResourceDefinitions is restarted after a defect."""
NO_NETWORKS = Networks()
_log = structlog.get_logger()


class ControlPlane:
    """A running API server; `assemble` and `control_plane` create it.

    Args:
        cacher: Reads the changes of the store.
        server: Serves HTTP.
        resume: Resumes the work on CustomResourceDefinitions that an earlier process began.
        run: Runs the controller of CustomResourceDefinitions.
        others: Run until `stop`.
        offload: The offload process, or None if there is none.
        join: Called before the server listens.
        aggregator: Forwards requests to aggregated API servers, or None.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        cacher: Cacher,
        server: Server,
        resume: Callable[[], Coroutine[Any, Any, None]],
        run: Callable[[], Coroutine[Any, Any, None]],
        others: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        offload: OffloadProcess | None = None,
        join: Callable[[], Coroutine[Any, Any, None]] | None = None,
        aggregator: Forwarder | None = None,
    ) -> None:
        self._aggregator = aggregator
        self._others = others
        self._join = join
        self._offload = offload
        self._cacher = cacher
        self._resume = resume
        self._run = run
        self._tasks: list[asyncio.Task[None]] = []
        self.server = server

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Start serving. `self.server.port` is the port."""
        await self._cacher.start()
        self._tasks.append(asyncio.create_task(self._cacher.run(), name="cacher"))
        self._tasks.append(asyncio.create_task(self._definitions(), name="definitions"))
        if self._join is not None:
            await self._join()
        self._tasks.extend(asyncio.create_task(each()) for each in self._others)
        await self.server.start(host, port, tls)

    async def sound(self) -> None:
        """Wait until a background task of the control plane ends.

        Raises:
            Exception: The error that ended the task; RuntimeError if it returned.
        """
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
            raise RuntimeError(f"a part of the control plane ended by itself: {task.get_name()}")

    async def _definitions(self) -> None:
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._run())
                    tasks.create_task(self._resume())
            except Exception:  # noqa: BLE001 - a defect over one definition must not end the work on all
                _log.exception("definitions failed")
            await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """End all watches, finish the requests in flight, and stop."""
        self._cacher.close()
        if self._aggregator is not None:
            self._aggregator.close()
        await self.server.stop()
        if self._offload is not None:
            await self._offload.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def control_plane(
    store: Store,
    identity: IdentityService,
    *,
    reach: Reach = refuse,
    limits: Limits | None = None,
    plugins: Settings = DEFAULT,
    kubelets: Networks = NO_NETWORKS,
    pool: SuperClusters | None = None,
    simulated: Simulated = lambda _: None,
    streams: StreamLimits = StreamLimits(),  # noqa: B008 - immutable
    offload: bool = False,
    meter: Meter | None = None,
    grants: GrantIndex | None = None,
    services: Policy = NOTHING,
    placer: Placer | None = None,
) -> ControlPlane:
    """Return the control plane with its usual admission plug-ins and controllers.

    Args:
        store: The store.
        identity: Knows callers and tenants.
        reach: Calls admission and conversion webhooks.
        limits: Limits of the server. None: the defaults.
        plugins: Configuration of the admission plug-ins.
        kubelets: Networks in which kubelets may be called.
        pool: Connects to super clusters, for logs, streams and usage of Pods. None: they are not reached.
        simulated: Returns the usage of Pods of hollow nodes.
        streams: When exec, attach and port-forward end.
        offload: Whether expensive writes run in a process of their own.
        meter: Counts what tenants use. None: it is not counted.
        grants: The grants between tenants. None: tenants cannot grant permissions to others.
        services: What the operator allows of tenants' Services to which requests for aggregated APIs are forwarded.
        placer: The Pod scheduler, if it runs in the same process.
    """
    filters, limits = IdentityFilters(identity), limits or Limits()
    catalogue = Catalogue(
        reach=reach,
        shared=served.established(() if grants is None else served.GRANTS),
        of_pool=served.established(served.NETWORKS),
        in_pool=identity.tenants.has_only_virtual_nodes,
    )
    admitted = admission(store, filters, catalogue, reach, plugins, placer=placer)
    configurations, tenant_policies = admitted.configurations, admitted.tenant_policies
    statuses, placed = (
        TenantPolicyStatuses(store, tenant_policies, now),
        PlacedObjects(store, tenant_policies, now),
    )
    tenant_quotas = admitted.tenant_quotas
    own = (identity.endpoint.address, identity.endpoint.port)
    service = KubernetesService(store, own, identity.tenants.embedded_names, now)
    aggregation = Aggregation(store, identity, services, now)
    gateway = Gateway(identity.tenants, identity.authenticator, time.time, time.monotonic)
    limiter = Limiter(identity.tenants.limits, identity.default_limits, time.monotonic)
    processes = Processes(store, limiter.set_share, limiter.refused_recently, identity.reports)
    listeners: list[Listener] = [
        identity.changed,
        configurations.changed,
        tenant_policies.changed,
        statuses.changed,
        placed.changed,
        tenant_quotas.changed,
        service.changed,
        aggregation.changed,
        gateway.upstreams.changed,
        limiter.changed,
        processes.changed,
    ]
    process = None
    if offload:
        setup = Setup(plugins, limits.storage_bytes, limits.storage_objects, tenant_grants=grants is not None)
        process = OffloadProcess(
            store,
            reach,
            setup,
            partial(record_stalls, tenants=identity.tenants, lifecycle=identity.lifecycle),
        )
        listeners.append(process.changed)
    offers = None if grants is None else GrantOffers(store, grants, catalogue)
    if offers is not None:
        listeners.append(offers.changed)

    async def join() -> None:
        await processes.join()
        await tenant_policies.load()

    async def on_missed() -> None:
        configurations.forget()
        tenant_policies.forget()
        placed.reset()
        tenant_quotas.missed()
        if process is not None:
            process.forget()
        await identity.reload()
        await processes.read()
        limiter.keep(identity.tenants.names())
        if offers is not None:
            await offers.reload()
        gateway.upstreams.forget_all()
        service.enqueue(identity.tenants.embedded_names())

    async def on_tenant_failed(tenant: str) -> None:
        configurations.forget(tenant)
        tenant_policies.forget()
        tenant_quotas.missed()
        if process is not None:
            process.forget()
        identity.forget(tenant)
        if offers is not None:
            await offers.reload(tenant)
        gateway.upstreams.forget(tenant)
        service.enqueue((tenant,))

    return assemble(
        store,
        filters,
        admit=admitted.admit,
        validate=admitted.validate,
        charges=admitted.charges,
        listeners=listeners,
        on_missed=on_missed,
        on_tenant_failed=on_tenant_failed,
        catalogue=catalogue,
        fairness=Fairness(store, now, limits.flow, identity.tenants.weight),
        limits=limits,
        kubelets=Kubelets(identity.tenants, kubelets),
        pool=pool,
        simulated=simulated,
        streams=streams,
        offload=process,
        others=[
            service.run,
            gateway.run,
            aggregation.run,
            processes.run,
            statuses.run,
            placed.run,
            tenant_quotas.run,
            *([] if meter is None else [meter.run]),
            *([] if offers is None else [offers.run]),
            *([] if pool is None else [pool.run]),
        ],
        external=gateway.forwarder,
        remote=aggregation.remote,
        aggregator=aggregation.forwarder,
        meter=meter,
        limiter=limiter,
        join=join,
        guests=None if grants is None else grants.guest,
        host_names=identity.endpoint.host_names,
        only_virtual_nodes=identity.tenants.has_only_virtual_nodes,
    )


def assemble(
    store: Store,
    identity: ServerIdentity,
    *,
    admit: Sequence[Admit] = (),
    validate: Sequence[Admit] = (),
    charges: Claims | None = None,
    listeners: Sequence[Listener] = (),
    on_missed: OnMissed | None = None,
    on_tenant_failed: OnTenantFailed | None = None,
    catalogue: Catalogue | None = None,
    fairness: Fairness | None = None,
    limits: Limits | None = None,
    kubelets: Kubelets | None = None,
    pool: SuperClusters | None = None,
    simulated: Simulated = lambda _: None,
    streams: StreamLimits = StreamLimits(),  # noqa: B008 - immutable
    offload: OffloadProcess | None = None,
    others: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    external: ExternalControlPlanes | None = None,
    meter: Meter | None = None,
    limiter: Limiter | None = None,
    join: Callable[[], Coroutine[Any, Any, None]] | None = None,
    guests: Guests | None = None,
    host_names: HostNames | None = None,
    only_virtual_nodes: Callable[[str], bool] = lambda _: False,
    remote: RemoteApiServices | None = None,
    aggregator: Forwarder | None = None,
) -> ControlPlane:
    """Return a control plane made of the given parts.

    Args:
        store: The store.
        identity: Knows callers and tenants.
        admit: Mutating admission plug-ins, in order.
        validate: Validating admission plug-ins, in order. They run after the rules of the kind.
        charges: What writes count against. None: the quotas of their namespaces.
        listeners: Receive all changes of the store before watches do.
        on_missed: Called when changes may have been missed, before later changes are published.
        on_tenant_failed: Called after a listener failed on a change of a tenant, before later changes are published.
        catalogue: Custom kinds. None: a catalogue that calls no conversion webhooks.
        fairness: Priority and fairness. None: every request runs at once.
        limits: Limits of the server.
        kubelets: Calls kubelets. None: they are not called, and neither are super clusters.
        pool: Connects to super clusters. None: they are not reached.
        simulated: Returns the usage of Pods of hollow nodes.
        streams: When exec, attach and port-forward end.
        offload: Runs expensive writes. None: they run in this process.
        others: Run until the control plane stops.
        external: Forwards the requests of external tenants. None: there are no such tenants.
        meter: Counts what tenants use. None: it is not counted.
        limiter: Limits the requests of tenants. None: they are not limited.
        join: Called before the server listens.
        guests: Admits callers of other tenants. None: there are no grants.
        host_names: Host names of tenants. None: only paths and credentials name tenants.
        only_virtual_nodes: Returns whether users of a tenant can only read Nodes.
        remote: APIServices that name a Service. None: an index of them by which nothing is forwarded.
        aggregator: Forwards requests to aggregated API servers. None: nothing is forwarded.
    """
    catalogue, remote = catalogue or Catalogue(), remote or RemoteApiServices()
    controller = DefinitionController(store, ApiServices(store, catalogue, now), now)

    metrics = RequestMetrics()
    metrics.aside.set_function(identity.aside)
    if meter is not None:
        metrics.registry.register(TenantUsage(meter.totals))
    if limiter is not None:
        metrics.registry.register(limiter.counts)
    long_running = LongRunningRequests(
        identity.authenticate,
        identity.exists,
        guests,
        suspended=identity.is_suspended,
        aside=identity.why_aside,
    )
    limits = limits or Limits()
    storage_limit = StorageLimit(store, limits.storage_bytes, limits.storage_objects)
    caches = ServerCaches(
        catalogue,
        controller,
        long_running,
        storage_limit,
        fairness,
        remote=remote,
        tenants=identity.tenants,
        on_missed=on_missed,
        on_tenant_failed=on_tenant_failed,
    )
    history = History(time.monotonic, limits.history_bytes)
    cacher = Cacher(
        store,
        (*listeners, caches.changed, history.changed),
        caches.forget_all,
        on_tenant_failed=caches.forget,
        on_defect=metrics.defects.inc,
        redefined=redefined,
    )
    spaces = Spaces(catalogue, store, only_virtual_nodes, remote, metrics=pool is not None)
    estimator = fairness.gate.work_estimator if fairness is not None else None
    reader = Reader(store, identity.tenants, estimator, lambda: cacher.position)
    claims = ServiceClaims(store, Network(SERVICE_CIDR))
    registry = Registry(
        store,
        admit,
        claims,
        validate=validate,
        charges=charges or QuotaClaims(store),
        storage_limit=storage_limit,
    )
    encoder = ResponseEncoder() if offload is None else ResponseEncoder(transcode=offload.encode)
    deleter = Deleter(registry)
    watches = Watches(cacher, reader, time.monotonic, spaces.is_current)
    verbs = Verbs(Backend(registry, reader, watches, deleter, encoder), offload)
    evictor = Evictor(registry, deleter)
    streaming = Streaming(kubelets, reader, spaces, pool, streams) if kubelets is not None else None
    proxy = PodProxy(reader, spaces, pool, streams)
    subresources = Subresources(verbs, registry, reader, encoder, evictor, spaces, identity, streaming, proxy)

    async def resume() -> None:
        await controller.resume(identity.tenants())

    async def tenant_metrics(tenant: str) -> bytes:
        text = metrics.text(tenant)
        if fairness is not None:
            text += fairness.text(tenant)
        if tenant != ALL:
            text += history.text(tenant) + await storage_limit.text(tenant)
        return text

    store_health = StoreHealth(store, time.monotonic)
    paths = Paths(spaces, identity, store_health.ready, tenant_metrics)
    gate, configuring = (
        (fairness.gate, [fairness.config_controller.run]) if fairness is not None else (None, [])
    )
    dispatcher = Dispatcher(spaces, verbs, subresources, now, gate, history)
    refusals = Refusals(encoder.encode_status, store_health)
    chain = FilterChain(
        identity,
        spaces,
        dispatcher,
        paths,
        refusals,
        gate,
        long_running,
        external,
        meter,
        limiter,
        guests,
        host_names,
        aggregator,
        None if pool is None else ResourceMetrics(reader, spaces, PodUsage(pool), now, simulated),
    )
    server = Server(chain, metrics, limits)
    return ControlPlane(
        cacher,
        server,
        resume,
        controller.run,
        [long_running.run, *configuring, *others],
        offload,
        join,
        aggregator,
    )


def now() -> str:
    """Return the current time in RFC 3339, with seconds."""
    return _format(int(time.time()))


@lru_cache(1)
def _format(second: int) -> str:
    return unix_time_text(second)
