"""Whether a tenant's credentials still lead to its own control plane."""

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES

IDENTITY_NAMESPACE = "kube-system"
"""Its UID stands for the cluster: made with it, and never anew."""


class WrongControlPlane(Exception):
    """A tenant's credentials lead to another control plane than the one that was registered, or to an emptied one."""


async def prove(client: Client, virtual_cluster: VirtualCluster) -> None:
    """Make sure that a control plane is the tenant's: that of the UID which was recorded when the tenant was added.

    Args:
        client: of the control plane.
        virtual_cluster: the tenant's record; one without a UID proves nothing and is believed.

    Raises:
        WrongControlPlane: it is another one.
        KubeError: it cannot be asked.
    """
    recorded = virtual_cluster.annotations.get(names.CONTROL_PLANE_UID, "")
    if not recorded:
        return
    try:
        found = (await client.get(NAMESPACES, IDENTITY_NAMESPACE)).uid
    except NotFound:
        found = "none: it has no such namespace"
    if found != recorded:
        name = virtual_cluster.spec.tenant or virtual_cluster.name
        raise WrongControlPlane(
            f"the control plane is not the one that was registered (UID of its namespace {IDENTITY_NAMESPACE}: "
            f"{recorded}; now {found}); nothing is done for the tenant until it is back, or until "
            f"'vcsync tenant accept {name}' says that it was replaced on purpose"
        )
