"""Checks that a tenant's credentials still lead to its own control plane."""

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES

IDENTITY_NAMESPACE = "kube-system"
"""The namespace whose UID identifies a cluster: it is created with the cluster and never deleted."""


class WrongControlPlane(Exception):
    """A tenant's credentials lead to a control plane that was not registered, or that was emptied."""


def recorded_uid(virtual_cluster: VirtualCluster) -> str:
    """Return the recorded UID of the tenant's control plane: from an operator's command, else from its first answer.

    It is "" while none is recorded.
    """
    return (
        virtual_cluster.annotations.get(names.CONTROL_PLANE_UID, "")
        or virtual_cluster.status.control_plane_uid
    )


async def prove(client: Client, virtual_cluster: VirtualCluster) -> str:
    """Check that a control plane has the recorded UID.

    Args:
        client: client of the control plane.
        virtual_cluster: the tenant's record. While it has no UID, any control plane is accepted, and the first is recorded.

    Returns:
        The control plane's UID; "" if it has no such namespace, which is accepted only while nothing is recorded.

    Raises:
        WrongControlPlane: it has another UID.
        KubeError: it cannot be asked.
    """
    recorded = recorded_uid(virtual_cluster)
    try:
        found = (await client.get(NAMESPACES, IDENTITY_NAMESPACE)).uid
    except NotFound:
        found = ""
    if recorded and found != recorded:
        name = virtual_cluster.spec.tenant or virtual_cluster.name
        raise WrongControlPlane(
            f"the control plane is not the one that was registered (UID of its namespace {IDENTITY_NAMESPACE}: "
            f"{recorded}; now {found or 'none: it has no such namespace'}); nothing is done for the tenant until it is "
            f"back, or until 'vcsync tenant accept {name}' says that it was replaced on purpose"
        )
    return found
