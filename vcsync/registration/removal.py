"""Progress of a tenant's removal from the pool."""

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.client import Client


async def removal_waits_for(meta_cluster: Client, root: str) -> str:
    """Describe in one line what the removal of a VirtualCluster waits for.

    Args:
        meta_cluster: client of the meta cluster.
        root: the tenant's root namespace.

    Raises:
        KubeError: the placements cannot be read.
    """
    placements = [
        NamespacePlacement.from_envelope(each) for each in await meta_cluster.list(NAMESPACE_PLACEMENTS, root)
    ]
    if not placements:
        return "waiting for nsscheduler to release the tenant"
    supers = {
        super_id
        for placement in placements
        for super_id in map(names.super_id_of_finalizer, placement.finalizers)
        if super_id
    }
    where = f" from super clusters {', '.join(sorted(supers))}" if supers else ""
    return f"namespaces still to drain{where}: {len(placements)}"
