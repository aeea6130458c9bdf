"""DaemonSets, refused to tenants whose nodes are not theirs: nothing would ever run of them.

A plug-in of our own. A tenant that brings its own controllers knows what it does.
"""

from vcsync.controlplane.admission.plugin import Lookup, creates, refusal
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.rest.scope import Admission
from vcsync.controlplane.tenants.controllers import NAMESPACE, published_name


async def only_virtual_nodes(tenant: str, lookup: Lookup) -> bool:
    """Tell whether all nodes of a tenant are shown to it by syncers, and its controllers are ours."""
    if tenant == SYSTEM:
        return False
    found = await lookup.get(SYSTEM, "", "configmaps", published_name(tenant), NAMESPACE)
    data = (found or {}).get("data") or {}
    return data.get("controllers") != "external" and data.get("nodes") != "own"


async def daemons_have_nodes(admission: Admission, lookup: Lookup) -> None:
    """Refuse DaemonSets where there are only nodes that syncers show.

    Raises:
        StatusError: 403.
    """
    tenant = admission.scope.tenant
    if creates(admission, "daemonsets", "apps") and await only_virtual_nodes(tenant, lookup):
        why = (
            "a DaemonSet runs on every node, and the nodes here belong to the operator's clusters: use a Deployment; or "
            "have the operator let this tenant bring its own controllers, by "
            f"'vcsync tenant set {tenant} --controllers external'"
        )
        raise refusal(admission, why)
