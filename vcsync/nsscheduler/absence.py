"""Permits removals because of objects that are missing in the meta cluster.

A removal is permitted if the deletion of the missing object was observed, or if few removals are wanted. A meta cluster
that was emptied, restored from an older backup or exchanged lacks VirtualClusters and SuperClusters, too.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from datetime import datetime

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.kube.cache import Cache, Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.kube.resources import NAMESPACES
from vcsync.scheduling.ledger import Entry
from vcsync.tenancy.brake import Count, DeletionLimiter, released_at

TENANTS = "tenants whose VirtualClusters are gone from the meta cluster"
SLICED = "namespaces with slices on super clusters that are gone from the meta cluster"
VIRTUAL_NODES = "virtual nodes of super clusters that are gone from the meta cluster"
"""The objects in the limiter's messages: those of `TENANTS`, `SLICED` and this constant."""

SMALL = 0
"""Number of removals that are permitted regardless of their share: none, since each may remove all that a tenant has."""
REMEMBERED = 10_000
"""Deleted VirtualClusters that are remembered. The oldest is forgotten first."""


class Absence:
    """Remembers the VirtualClusters and SuperClusters whose deletion was observed. The limiter decides on all others.

    Attributes:
        released: when an operator last released removals that belong to no tenant.

    Args:
        meta: client of the meta cluster.
        limiter: the limiter of all tenants.
        taken_out: returns whether the removal of a super cluster from the pool was observed.
    """

    def __init__(self, meta: Client, limiter: DeletionLimiter, taken_out: Callable[[str], bool]) -> None:
        self._meta = meta
        self._limiter = limiter
        self._taken_out = taken_out
        self._deleted: OrderedDict[str, None] = OrderedDict()  # UIDs of VirtualClusters
        self.released: datetime | None = None

    def virtual_cluster_changed(self, change: Change) -> None:
        """Remember a VirtualCluster that an operator deleted."""
        if change.new is not None or change.old is None:
            return
        if change.reported or change.old.deleting:
            self.remember_deleted(change.old.uid)

    def remember_deleted(self, uid: str) -> None:
        """Remember a VirtualCluster that is being deleted or was deleted."""
        self._deleted[uid] = None
        if len(self._deleted) > REMEMBERED:
            self._deleted.popitem(last=False)

    async def require_tenant(self, tenant: str, uid: str, count: Count) -> None:
        """Permit the removal of all objects in the meta cluster of a tenant without VirtualCluster.

        Args:
            tenant: cluster key.
            uid: UID of the former VirtualCluster.
            count: counts the tenants that have lost their VirtualCluster, and all tenants including those.

        Raises:
            Braked: an operator has to release it.
            KubeError: the meta cluster cannot be asked.
        """
        if uid in self._deleted:
            return
        await self._read_release()
        await self._limiter.require("", TENANTS, tenant, count, small=SMALL)

    def tenant_exists(self, tenant: str) -> None:
        """Record that a tenant has its VirtualCluster."""
        if self._limiter.braked:
            self._limiter.unwanted("", TENANTS, tenant)

    async def require_slices(self, tenant: str, namespace: str, super_id: str, count: Count) -> None:
        """Permit the removal of a namespace's slices on a super cluster that is missing in the meta cluster.

        Args:
            tenant: cluster key.
            namespace: the tenant's namespace.
            super_id: id of the super cluster.
            count: counts the tenant's namespaces with slices on such super clusters, and all with slices.

        Raises:
            Braked: an operator has to release it.
        """
        if not self._taken_out(super_id):
            await self._limiter.require(tenant, SLICED, namespace, count, small=SMALL)

    def supers_exist(self, tenant: str, namespace: str) -> None:
        """Record that all super clusters on which a namespace has slices are in the pool."""
        if self._limiter.braked:
            self._limiter.unwanted(tenant, SLICED, namespace)

    async def require_node(self, tenant: str, super_id: str, node: str, count: Count) -> None:
        """Permit the removal of a virtual node of a super cluster that is missing in the meta cluster.

        Args:
            tenant: cluster key.
            super_id: id of the super cluster.
            node: the virtual node's name.
            count: counts the tenant's virtual nodes to remove, and all.

        Raises:
            Braked: an operator has to release it.
        """
        if not self._taken_out(super_id):
            await self._limiter.require(tenant, VIRTUAL_NODES, node, count, small=SMALL)

    def nodes_settled(self, tenant: str) -> None:
        """Record that no virtual node of the tenant is to be removed."""
        self._limiter.settled(tenant, VIRTUAL_NODES)

    async def _read_release(self) -> None:
        """Read the release of removals that belong to no tenant from the namespace `vcsync-system`, which always exists."""
        try:
            found = await self._meta.get(NAMESPACES, names.SYSTEM_NAMESPACE)
        except (NotFound, Forbidden):  # the permissions may be of an earlier version
            return
        self.released = released_at(found.annotations.get(names.BRAKE_RELEASED))


def owner_exists(placement: NamespacePlacement, virtual_clusters: Cache) -> bool:
    """Return whether the VirtualCluster of a ledger entry is cached and is not being deleted."""
    owner = placement.spec.virtual_cluster
    found = virtual_clusters.get(owner.namespace, owner.name)
    return found is not None and found.uid == owner.uid and not found.deleting


def count_tenants(tenant: str, placements: Cache, virtual_clusters: Cache) -> tuple[int, int]:
    """Count the tenants without VirtualCluster, including `tenant`, and all tenants including those.

    A VirtualCluster of the same name with another UID does not count: in a restored meta cluster all UIDs differ.
    """
    lost = {tenant}
    for root in placements.namespaces():
        entry = next(placements.items(root))
        if not owner_exists(NamespacePlacement.from_envelope(entry), virtual_clusters):
            lost.add(root)
    return len(lost), max(len({*lost, *placements.namespaces()}), len(virtual_clusters))


def count_sliced(
    entries: Iterable[Entry], pool: Container[str], taken_out: Container[str]
) -> tuple[int, int]:
    """Count a tenant's ledger entries with slices on super clusters that are missing, and all with slices.

    Args:
        entries: the tenant's entries.
        pool: ids of the super clusters in the pool.
        taken_out: ids of super clusters whose removal from the pool was observed.
    """
    by_entry = [[super_id for super_id, slices in entry.placements.items() if slices] for entry in entries]
    lost = sum(
        any(super_id not in pool and super_id not in taken_out for super_id in supers) for supers in by_entry
    )
    return lost, sum(map(bool, by_entry))
