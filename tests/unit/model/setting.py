"""What all processes of the model share: servers, the network, time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterSpec, VirtualClusterStatus

from .api_server import ApiServer
from .wire import AT_ONCE, Client, ModelLoop, Wire

KEY = "root-1a2b3c-acme"
NS = "shop"
SUPERS = ("r1", "r2", "r3")


class Setting:
    """The surroundings of all processes.

    Attributes:
        tenant: the tenant's API server.
        meta: that of the meta cluster.
        now: seconds; the processes' clocks differ from it.
        spec: fields of the tenant's VirtualCluster.
        hards: `spec.hard` of the tenant's ResourceQuotas.
        crashes: errors that no role expects.
    """

    def __init__(self, *, bound_status: bool, skews: Mapping[str, float]) -> None:
        self.tenant = ApiServer("tenant")
        self.meta = ApiServer("meta")
        self.now = 1000.0
        self.spec: dict[str, Any] = {}
        self.hards: list[dict[str, str]] = []
        self.crashes: list[Exception] = []
        self.loop = ModelLoop(lambda: self.now)
        self.wire = Wire(lambda: self.now)
        self._skews = skews
        self._bound_status = bound_status

    def client(self, server: ApiServer, who: str) -> Any:
        return Client(self.wire, server, who, bound_status=self._bound_status)

    def skew(self, name: str) -> float:
        return self._skews.get(name, 0.0)

    def virtual_cluster(self) -> VirtualCluster:
        return VirtualCluster(
            name="main",
            namespace="vcsync",
            uid="vc-uid",
            spec=VirtualClusterSpec(**self.spec),
            status=VirtualClusterStatus(cluster_namespace=KEY),
        )

    def settle(self, passes: int) -> None:
        """Run all tasks until they wait. The first requests do not."""
        self.wire.passes = passes
        self.loop.settle()
        self.wire.passes = AT_ONCE

    def close(self) -> None:
        self.loop.close()
