"""Starts and ends the kubelet APIs of a syncer's tenants, with their sessions."""

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.syncer.kubelet_api.access import Access, NoClientCA, client_ca
from vcsync.syncer.kubelet_api.certificates import self_signed, server_context
from vcsync.syncer.kubelet_api.connections import ConnectionBudget, connection_limit
from vcsync.syncer.kubelet_api.server import FindPod, KubeletServer
from vcsync.syncer.kubelet_api.settings import Endpoint, KubeletSettings, candidates

READ_SECONDS = 60.0
"""Seconds between two reads of a tenant's client CA."""
RETRY_SECONDS = 10.0
"""The same while the API is not served."""
_log = structlog.get_logger(__name__)


class NoFreePort(Exception):
    """Every port of the kubelet API is in use."""


class KubeletApi:
    """The kubelet APIs of all tenants of one syncer.

    Args:
        settings: The operator's settings.
        super_id: Id of the super cluster.
        connection: Address and credentials of the super cluster.
    """

    def __init__(self, settings: KubeletSettings, super_id: str, connection: Connection) -> None:
        self._settings = settings
        self._super_id = super_id
        self._connection = connection
        self._ports: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._servers: dict[str, KubeletServer] = {}
        self._budget = ConnectionBudget(connection_limit())
        self._identity = settings.identity or self_signed(settings.address, datetime.now(UTC))

    def state(self, tenant: str) -> str:
        """Return in words where the API of a tenant is served, or why it is not."""
        if problem := self._problems.get(tenant):
            return problem
        port = self._ports.get(tenant)
        return f"served at {self._settings.address}, port {port}" if port else "not served yet"

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

    async def serve(
        self, tenant: str, client: Client, find: FindPod, opened: Callable[[Endpoint | None], None]
    ) -> None:
        """Serve the kubelet API of one tenant until cancelled.

        Args:
            tenant: Cluster key.
            client: Client of its control plane.
            find: Finds its Pods.
            opened: Called with the address whenever it has changed; None: the API is not served.
        """
        access = Access(client, time.monotonic)
        server = self._servers[tenant] = KubeletServer(
            tenant,
            self._super_id,
            self._connection,
            find,
            access=access,
            budget=self._budget,
            limits=self._settings.limits,
        )
        served = ""
        try:
            while True:
                try:
                    authority = await client_ca(client)
                    if authority != served:
                        served = ""
                        await self._restart(server, tenant, authority, opened)
                        served = authority
                    self._problems.pop(tenant, None)
                except (KubeError, NoClientCA, NoFreePort, ValueError) as error:
                    self._problems[tenant] = str(error)
                    _log.warning(
                        "the kubelet API is not served as it should be",
                        tenant=tenant,
                        super_cluster=self._super_id,
                        error=str(error),
                    )
                await asyncio.sleep(READ_SECONDS if served else RETRY_SECONDS)
        finally:
            self._problems.pop(tenant, None)
            await server.stop()
            self._ports.pop(tenant, None)
            if self._servers.get(tenant) is server:
                del self._servers[tenant]

    async def _restart(
        self, server: KubeletServer, tenant: str, authority: str, opened: Callable[[Endpoint | None], None]
    ) -> None:
        """Serve with another client CA. Streams that are open end.

        Raises:
            NoFreePort: There is no port.
            ValueError: A certificate is not usable.
        """
        context = server_context(self._identity, authority)
        await server.stop()
        before = self._ports.pop(tenant, 0)
        taken = set(self._ports.values())
        host = self._settings.listen or self._settings.address
        for port in candidates(tenant, self._settings.ports, taken):
            self._ports[tenant] = port
            try:
                await server.start(host, port, context)
            except OSError as error:
                _log.info("a port of the kubelet API is in use", port=port, error=str(error))
                continue
            if port != before:
                opened(Endpoint(self._settings.address, port))
            return
        self._ports.pop(tenant, None)
        opened(None)
        raise NoFreePort("every port is in use; widen --kubelet-ports")
