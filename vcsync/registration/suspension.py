"""Progress of a tenant's suspension."""

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.client import Client
from vcsync.tenancy.suspension import is_suspended


async def suspension_waits_for(meta_cluster: Client, root: str) -> str:
    """Describe in one line which Pods of a suspended tenant may still run; empty if none may.

    Args:
        meta_cluster: client of the meta cluster.
        root: the tenant's root namespace.

    Raises:
        KubeError: the placements cannot be read.
    """
    placements = [
        NamespacePlacement.from_envelope(each) for each in await meta_cluster.list(NAMESPACE_PLACEMENTS, root)
    ]
    if any(not is_suspended(each) and not each.deleting for each in placements):
        return "waiting for nsscheduler to take its slices away"
    left = {
        placement.name: supers
        for placement in placements
        if (supers := set(filter(None, map(names.super_id_of_finalizer, placement.finalizers))))
    }
    if not left:
        return ""
    where = ", ".join(sorted(set().union(*left.values())))
    return f"namespaces still to drain from super clusters {where}: {len(left)}"
