"""The parts that serve aggregated APIs, connected with each other."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from vcsync.apiserver.aggregator.availability_controller import AvailabilityController
from vcsync.apiserver.aggregator.client_certificates import ClientCertificates
from vcsync.apiserver.aggregator.discovery_check import check
from vcsync.apiserver.aggregator.endpoints import Endpoints
from vcsync.apiserver.aggregator.forward import Forwarder
from vcsync.apiserver.aggregator.servers import Servers
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.discovery.remote_api_services import RemoteApiServices
from vcsync.apiserver.egress.connections import Connections
from vcsync.apiserver.egress.policy import Policy
from vcsync.apiserver.egress.services import Services
from vcsync.apiserver.storage.interface import Change, Store


class Aggregation:
    """The aggregator of a control plane.

    Args:
        store: The store.
        identity: Knows tenants.
        policy: What the operator allows to be called.
        now: Returns the time in RFC 3339.

    Attributes:
        remote: APIServices of tenants that name a Service.
        forwarder: Forwards requests to them.
    """

    def __init__(self, store: Store, identity: Identity, policy: Policy, now: Callable[[], str]) -> None:
        self._connections = Connections()
        certificates = ClientCertificates(identity.tenants, time.time)
        self._endpoints = Endpoints(policy, Services(store), time.monotonic)
        servers = Servers(self._endpoints, certificates, self._connections)
        self.remote = RemoteApiServices(policy.permits_services)
        self.forwarder = Forwarder(servers)
        self._controller = AvailabilityController(
            store,
            self.remote,
            partial(check, servers),
            identity.front_proxies.ensure,
            identity.tenants.embedded_names,
            now,
        )
        self.remote.on_forget = self._forgotten

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store."""
        self._endpoints.changed(changes)
        self._controller.changed(changes)

    def _forgotten(self, _tenant: str) -> None:
        """Forget and read again what may be outdated, because changes may have been missed."""
        self._endpoints.forget()
        self._controller.resume()

    async def run(self) -> None:
        """Check APIServices until cancelled, and then close all connections."""
        try:
            await self._controller.run()
        finally:
            self.forwarder.close()
            await self._connections.close()
