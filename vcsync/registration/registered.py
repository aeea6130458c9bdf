"""Lookup of tenants in the pool, and checks whether a cluster already has a part in it."""

from vcsync.api import names
from vcsync.api.objects import SuperCluster, VirtualCluster
from vcsync.api.resources import SUPER_CLUSTERS, TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.registration.cluster_identity import check_super_cluster, cluster_uid
from vcsync.registration.errors import RegistrationError
from vcsync.tenancy.proof import recorded_uid


async def virtual_clusters(client: Client) -> list[VirtualCluster]:
    """Return all VirtualClusters, of all namespaces."""
    return [VirtualCluster.from_envelope(envelope) for envelope in await client.list(VIRTUAL_CLUSTERS)]


async def find_super_cluster(client: Client, super_id: str) -> SuperCluster | None:
    """Return a super cluster of the pool; None: there is none with this id."""
    try:
        return SuperCluster.from_envelope(await client.get(SUPER_CLUSTERS, super_id))
    except NotFound as error:
        if error.status.details is None or not error.status.details.name:
            raise  # The resource type is unknown: vcsync is not installed.
        return None


async def require_super_cluster(client: Client, super_id: str) -> SuperCluster:
    """Return a super cluster of the pool.

    Raises:
        RegistrationError: There is none with this id.
    """
    found = await find_super_cluster(client, names.require_super_id(super_id))
    if found is None:
        raise RegistrationError(
            f"super cluster {super_id} does not exist; 'vcsync super list' shows all super clusters"
        )
    return found


async def check_leads_there(
    there: Client, super_cluster: SuperCluster, meta_uid: str, unchanged: str
) -> None:
    """Refuse a kubeconfig that leads elsewhere than to the super cluster. Writes nothing.

    Args:
        there: client of the kubeconfig's cluster.
        super_cluster: the registered super cluster.
        meta_uid: UID of `kube-system` in the meta cluster.
        unchanged: the step that was not taken, for the message.

    Raises:
        RegistrationError: It leads elsewhere.
    """
    uid = await cluster_uid(there)
    if uid == meta_uid:
        raise RegistrationError(f"the kubeconfig leads to the meta cluster; {unchanged}")
    await check_super_cluster(there, super_cluster.name, meta_uid, unchanged)
    if super_cluster.annotations.get(names.CLUSTER_UID, uid) != uid:
        raise RegistrationError(
            f"the kubeconfig leads to another cluster than super cluster {super_cluster.name!r}; {unchanged}"
        )


async def super_cluster_of(client: Client, uid: str) -> str | None:
    """Return the id of the super cluster whose `kube-system` has the UID; None: no registered one has."""
    for envelope in await client.list(SUPER_CLUSTERS):
        super_cluster = SuperCluster.from_envelope(envelope)
        if super_cluster.annotations.get(names.CLUSTER_UID) == uid:
            return super_cluster.name
    return None


async def check_new_super_cluster(meta_cluster: Client, uid: str) -> None:
    """Refuse a cluster that has another part in the pool. Writes nothing.

    Args:
        meta_cluster: client of the pool's meta cluster.
        uid: UID of `kube-system` in the cluster to add.

    Raises:
        RegistrationError: it is the meta cluster, a super cluster under another id, or a tenant's control plane.
    """
    if uid == await cluster_uid(meta_cluster):
        raise RegistrationError(
            "the kubeconfig leads to the meta cluster, which holds the ledger and every credential: "
            "give a cluster of its own"
        )
    other = await super_cluster_of(meta_cluster, uid)
    if other is not None:
        raise RegistrationError(
            f"the kubeconfig leads to super cluster {other!r}; a cluster can be in a pool once only: "
            f"take it out with 'vcsync super remove {other}' first"
        )
    for vc in await virtual_clusters(meta_cluster):
        if recorded_uid(vc) == uid:
            raise RegistrationError(
                f"the kubeconfig leads to the control plane of tenant {vc.spec.tenant or vc.name}, who is its "
                "administrator: give a cluster that no tenant rules over"
            )


async def find(client: Client, tenant: str) -> VirtualCluster | None:
    """Return a tenant's VirtualCluster; None: it is not registered."""
    for vc in await virtual_clusters(client):
        if (vc.spec.tenant or vc.name) == tenant:
            return vc
    return None


async def is_managed(client: Client, tenant: str) -> bool:
    """Return whether the tenant controller manages a Tenant: its control plane, registration and removal."""
    try:
        return names.TENANT_FINALIZER in (await client.get(TENANTS, tenant)).finalizers
    except NotFound:
        return False


async def require_tenant(client: Client, tenant: str) -> VirtualCluster:
    """Return a tenant's VirtualCluster.

    Raises:
        RegistrationError: There is no such tenant.
    """
    found = await find(client, tenant)
    if found is None:
        raise RegistrationError(
            f"tenant {tenant} is not in the pool; 'vcsync tenant list' shows all tenants, "
            f"'vcsync tenant add' puts one in"
        )
    return found
