"""The DNS domain of a name server that a tenant has already when it is registered."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope
from vcsync.registration import name_server

MOST: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"^ *kubernetes ({_LABEL}(\.{_LABEL})*) ", re.ASCII | re.MULTILINE)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


async def with_domain(control_plane: Client, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a new VirtualCluster with the domain of the name server that vcsync has made for the tenant.

    `vcsync tenant create --dns` makes it before there is a VirtualCluster, and `vcsync tenant remove` leaves it.

    Args:
        control_plane: client of the tenant's control plane, as its administrator.
        spec: spec of the VirtualCluster; a domain in it stays.

    Raises:
        KubeError: the control plane cannot be asked.
    """
    if spec.get("clusterDomain"):
        return dict(spec)
    try:
        found = await control_plane.get(CONFIG_MAPS, name_server.NAME, names.TENANT_DNS_NAMESPACE)
    except NotFound:
        return dict(spec)
    domain = domain_of(found)
    return {**spec, "clusterDomain": domain} if domain else dict(spec)


def domain_of(config: Envelope) -> str:
    """Return the domain in the configuration of a name server of ours; "" if it is another's, or has no valid one. Pure.

    The tenant may have written it. The domain has effect in its own Pods only.
    """
    if config.labels.get(PART_OF) != PROJECT:
        return ""
    try:
        data = msgspec.json.decode(config.rest or b"{}", type=_ConfigMap).data or {}
    except msgspec.MsgspecError:
        return ""
    found = _DOMAIN.search(data.get("Corefile", ""))
    return found[1] if found is not None and len(found[1]) <= MOST else ""
