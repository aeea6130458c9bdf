"""Looking up tenants that are registered in the pool."""

from vcsync.api.objects import VirtualCluster
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.errors import FailedError
from vcsync.kube.client import Client


async def virtual_clusters(client: Client) -> list[VirtualCluster]:
    """Return all VirtualClusters, of all namespaces."""
    return [VirtualCluster.from_envelope(envelope) for envelope in await client.list(VIRTUAL_CLUSTERS)]


async def find(client: Client, tenant: str) -> VirtualCluster | None:
    """Return a tenant's VirtualCluster; None: it is not registered."""
    for vc in await virtual_clusters(client):
        if (vc.spec.tenant or vc.name) == tenant:
            return vc
    return None


async def require_tenant(client: Client, tenant: str) -> VirtualCluster:
    """Return a tenant's VirtualCluster.

    Raises:
        FailedError: There is no such tenant.
    """
    found = await find(client, tenant)
    if found is None:
        raise FailedError(f"there is no tenant {tenant}; 'vcsync tenant list' shows those there are")
    return found
