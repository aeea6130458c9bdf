"""Looking up tenants that are registered in the pool, and which cluster is already something in it."""

from vcsync.api import names
from vcsync.api.objects import SuperCluster, VirtualCluster
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.cli.errors import FailedError
from vcsync.cli.identity import cluster_uid
from vcsync.kube.client import Client


async def virtual_clusters(client: Client) -> list[VirtualCluster]:
    """Return all VirtualClusters, of all namespaces."""
    return [VirtualCluster.from_envelope(envelope) for envelope in await client.list(VIRTUAL_CLUSTERS)]


async def super_cluster_of(client: Client, uid: str) -> str | None:
    """Return the id of the super cluster whose `kube-system` has the UID; None: no registered one has."""
    for envelope in await client.list(SUPER_CLUSTERS):
        super_cluster = SuperCluster.from_envelope(envelope)
        if super_cluster.annotations.get(names.CLUSTER_UID) == uid:
            return super_cluster.name
    return None


async def check_new_super_cluster(meta_cluster: Client, uid: str) -> None:
    """Refuse a cluster that has another part in the pool. Nothing has been written when this raises.

    Args:
        meta_cluster: where the pool is.
        uid: of `kube-system` in the cluster that is to be added.

    Raises:
        FailedError: it is the meta cluster, a super cluster under another id, or a tenant's control plane.
    """
    if uid == await cluster_uid(meta_cluster):
        raise FailedError(
            "the kubeconfig leads to the meta cluster, which holds the ledger and every credential: "
            "give a cluster of its own"
        )
    other = await super_cluster_of(meta_cluster, uid)
    if other is not None:
        raise FailedError(
            f"the kubeconfig leads to super cluster {other!r}; a cluster can be in a pool once only: "
            f"take it out with 'vcsync super remove {other}' first"
        )
    for vc in await virtual_clusters(meta_cluster):
        if vc.annotations.get(names.CONTROL_PLANE_UID) == uid:
            raise FailedError(
                f"the kubeconfig leads to the control plane of tenant {vc.spec.tenant or vc.name}, who is its "
                "administrator: give a cluster that no tenant rules over"
            )


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
