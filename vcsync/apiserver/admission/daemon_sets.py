"""Refuses DaemonSets of tenants whose nodes are all virtual, because their Pods would never run.

vcsync's own plug-in. It does not apply to tenants that run their own controllers. Authorization refuses users of the tenant
before, by `tenants.builtin_resources`; this is for system callers.
"""

from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.scope import Admission
from vcsync.apiserver.tenants.builtin_resources import DAEMONS
from vcsync.apiserver.tenants.external_controllers import NAMESPACE, published_name


async def only_virtual_nodes(tenant: str, lookup: Lookup) -> bool:
    """Return whether all nodes of a tenant are virtual and its controllers are vcsync's."""
    if tenant == SYSTEM:
        return False
    found = await lookup.get(SYSTEM, "", "configmaps", published_name(tenant), NAMESPACE)
    data = (found or {}).get("data") or {}
    return data.get("controllers") != "external" and data.get("nodes") != "own"


async def daemons_have_nodes(admission: Admission, lookup: Lookup) -> None:
    """Refuse DaemonSets if all nodes are virtual.

    Raises:
        StatusError: 403.
    """
    tenant = admission.scope.tenant
    if creates(admission, "daemonsets", "apps") and await only_virtual_nodes(tenant, lookup):
        raise refusal(admission, DAEMONS.format(tenant=tenant))
