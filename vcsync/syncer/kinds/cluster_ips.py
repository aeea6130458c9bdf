"""Cluster IPs of the copies of a tenant's Services: the tenant's own, where the super cluster has them for it. Pure.

Each API server allocates cluster IPs of its own. If a super cluster has a range of addresses that belongs to one tenant, the
copies there have the same addresses as the tenant's Services. Then the tenant's name server, which tells the tenant's addresses,
is right for Pods of every super cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from vcsync.objects.address_ranges import address_range, covers, has_address
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import is_public
from vcsync.syncer.kinds.plan import TenantContext


class _Cidrs(Struct, gc=False):
    cidrs: tuple[str, ...] = ()


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(Struct, gc=False):
    conditions: tuple[_Condition, ...] = ()


def range_here(cidr: str, service_cidrs: Iterable[Envelope]) -> str:
    """Return a tenant's range if a super cluster gives cluster IPs of it to those who ask for them; "" if it does not.

    Args:
        cidr: the range, in CIDR notation; "" for none.
        service_cidrs: ServiceCIDRs of the super cluster. Those that are published and ready count.
    """
    wanted = address_range(cidr)
    if wanted is None:
        return ""
    published = (
        address_range(each)
        for service_cidr in service_cidrs
        if is_public(service_cidr) and service_cidr.spec and _is_ready(service_cidr)
        for each in decode(service_cidr.spec, _Cidrs).cidrs
    )
    return cidr if any(each is not None and covers(each, wanted) for each in published) else ""


def _is_ready(service_cidr: Envelope) -> bool:
    """Return whether the API server allocates from a range (KEP-1880)."""
    if not service_cidr.status:
        return False
    conditions = decode(service_cidr.status, _Status).conditions
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def kept(spec: Mapping[str, Any], context: TenantContext) -> list[str]:
    """Return the cluster IPs of a tenant's Service that its copy has as well; none if the super cluster allocates them.

    The tenant writes them, and gets no address outside its own range.
    """
    within = address_range(context.cluster_ips)
    addresses: list[str] = spec.get("clusterIPs") or []
    if within is None or not addresses or spec.get("type") == "ExternalName":
        return []
    return list(addresses) if all(has_address(within, each) for each in addresses) else []
