"""Starts and ends the kubelet APIs of a syncer's tenants, with their sessions."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.objects.times import time_text
from vcsync.process.open_files import share_of_files
from vcsync.streams.budget import ConnectionBudget
from vcsync.syncer.kubelet_api.access import CLIENT_CA, Access, NoClientCA, authentication
from vcsync.syncer.kubelet_api.certificates import certificate_of, self_signed, server_context
from vcsync.syncer.kubelet_api.server import FindPod, KubeletServer
from vcsync.syncer.kubelet_api.settings import Endpoint, KubeletSettings, candidates
from vcsync.syncer.metrics_api.front_proxy import front_proxy_of
from vcsync.syncer.metrics_api.registration import SERVER_NAME, Place, register, unregister
from vcsync.syncer.metrics_api.server import MetricsServer
from vcsync.syncer.metrics_api.super_usage import SuperUsage
from vcsync.syncer.metrics_api.tenant_usage import RunningPod, TenantUsage

MAX_CONNECTIONS = 10_000
"""Connections of all tenants of a syncer."""
FILES_EACH = 2
"""A stream has a connection to the super cluster as well."""
READ_SECONDS = 60.0
"""Seconds between two reads of a tenant's client CA."""
RETRY_SECONDS = 10.0
"""The same while the API is not served."""
LEAVE_SECONDS = 3.0
"""Time in which a registration is removed when the session of a tenant ends."""
_log = structlog.get_logger(__name__)


class NoFreePort(Exception):
    """Every port of the kubelet API is in use."""


@dataclass(frozen=True, slots=True)
class ServedTenant:
    """A tenant whose kubelet API is served.

    Attributes:
        key: Cluster key.
        client: Client of its control plane.
        find: Finds its Pods.
        pods: Returns all of its Pods on the super cluster.
        opened: Called with the address whenever it has changed; None: the API is not served.
        leaving: Tells whether the tenant is being removed from the pool.
    """

    key: str
    client: Client
    find: FindPod
    pods: Callable[[], Iterable[RunningPod]]
    opened: Callable[[Endpoint | None], None]
    leaving: Callable[[], Awaitable[bool]]


class KubeletApi:
    """The kubelet APIs of all tenants of one syncer.

    Args:
        settings: The operator's settings.
        super_id: Id of the super cluster.
        super_client: Client of the super cluster.
    """

    def __init__(self, settings: KubeletSettings, super_id: str, super_client: Client) -> None:
        self._settings = settings
        self._super_id = super_id
        self._super_client = super_client
        self._usage = SuperUsage(super_client, super_id)
        self._ports: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._usage_servers: dict[str, str] = {}
        self._servers: dict[str, KubeletServer] = {}
        self._budget = ConnectionBudget(share_of_files(1, MAX_CONNECTIONS, FILES_EACH))
        self._identity = settings.identity or self_signed(settings.address, datetime.now(UTC), [SERVER_NAME])

    def state(self, tenant: str) -> str:
        """Return in words where the API of a tenant is served, or why it is not."""
        if problem := self._problems.get(tenant):
            return problem
        port = self._ports.get(tenant)
        return f"served at {self._settings.address}, port {port}" if port else "not served yet"

    def metrics_api_state(self, tenant: str) -> str:
        """Return in words who serves the resource metrics API of a tenant, or why nobody does."""
        return self._usage_servers.get(tenant, "not registered yet")

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric families of logs and streams."""
        labels = ["super_cluster", "tenant"]
        streams = GaugeMetricFamily(
            "vcsync_syncer_streams",
            "Open logs and streams by the kubelet API of virtual nodes",
            labels=labels,
        )
        traffic = CounterMetricFamily(
            "vcsync_syncer_stream_bytes",
            "Bytes of logs and streams since the tenant's session began; in: from clients",
            labels=[*labels, "direction"],
        )
        for tenant, server in self._servers.items():
            streams.add_metric([self._super_id, tenant], server.open)
            traffic.add_metric([self._super_id, tenant, "in"], server.traffic.bytes_in)
            traffic.add_metric([self._super_id, tenant, "out"], server.traffic.bytes_out)
        yield from (streams, traffic)

    async def serve(self, tenant: ServedTenant) -> None:
        """Serve the kubelet API of one tenant until cancelled."""
        client, key = tenant.client, tenant.key
        metrics = self._metrics_server(tenant)
        server = self._servers[key] = KubeletServer(
            key,
            self._super_id,
            self._super_client.connection,
            tenant.find,
            access=Access(client, time.monotonic),
            budget=self._budget,
            limits=self._settings.limits,
            metrics=metrics,
        )
        served = ""
        try:
            while True:
                try:
                    data = await authentication(client)
                    metrics.front_proxy = front_proxy_of(data)
                    # One is that of users and of kube-apiserver as a client of kubelets.
                    authority = f"{data[CLIENT_CA]}\n{metrics.front_proxy.pem}"
                    if authority != served:
                        served = ""
                        await self._restart(server, tenant, authority)
                        served = authority
                    await self._register(tenant)
                    self._problems.pop(key, None)
                except (KubeError, NoClientCA, NoFreePort, ValueError) as error:
                    self._problems[key] = str(error)
                    _log.warning(
                        "the kubelet API is not served as it should be",
                        tenant=key,
                        super_cluster=self._super_id,
                        error=str(error),
                    )
                await asyncio.sleep(READ_SECONDS if served else RETRY_SECONDS)
        finally:
            self._problems.pop(key, None)
            self._usage_servers.pop(key, None)
            await server.stop()
            self._ports.pop(key, None)
            if self._servers.get(key) is server:
                del self._servers[key]
            await self._unregister(tenant)

    def _metrics_server(self, tenant: ServedTenant) -> MetricsServer:
        usage = TenantUsage(tenant.client, self._super_id, tenant.pods, self._usage)
        return MetricsServer(usage, lambda: time_text(datetime.now(UTC)))

    async def _register(self, tenant: ServedTenant) -> None:
        own = None if self._settings.identity else certificate_of(self._identity)
        place = Place(self._super_id, self._settings.address, self._ports[tenant.key], own)
        self._usage_servers[tenant.key] = await register(tenant.client, place, datetime.now(UTC))

    async def _unregister(self, tenant: ServedTenant) -> None:
        """Remove the registration in a tenant that leaves the pool."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                if await tenant.leaving():
                    await unregister(tenant.client, self._super_id)
        except (KubeError, TimeoutError) as error:
            _log.warning(
                "APIService v1beta1.metrics.k8s.io may be left in a tenant that has left",
                tenant=tenant.key,
                super_cluster=self._super_id,
                error=str(error),
            )

    async def _restart(self, server: KubeletServer, tenant: ServedTenant, authority: str) -> None:
        """Serve with another client CA. Streams that are open end.

        Raises:
            NoFreePort: There is no port.
            ValueError: A certificate is not usable.
        """
        context = server_context(self._identity, authority)
        await server.stop()
        before = self._ports.pop(tenant.key, 0)
        taken = set(self._ports.values())
        host = self._settings.listen or self._settings.address
        for port in candidates(tenant.key, self._settings.ports, taken):
            self._ports[tenant.key] = port
            try:
                await server.start(host, port, context)
            except OSError as error:
                _log.info("a port of the kubelet API is in use", port=port, error=str(error))
                continue
            if port != before:
                tenant.opened(Endpoint(self._settings.address, port))
            return
        self._ports.pop(tenant.key, None)
        tenant.opened(None)
        raise NoFreePort("every port is in use; widen --kubelet-ports")
