"""Cluster IPs of the copies of a tenant's Services: the tenant's own, where the super cluster has them for it. Pure.

Each API server allocates cluster IPs of its own. If a super cluster has a range of addresses that belongs to one tenant, the
copies there have the same addresses as the tenant's Services. Then the tenant's name server, which tells the tenant's addresses,
is right for Pods of every super cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from vcsync.objects.address_ranges import AddressRange, address_range, address_ranges, covers, has_address
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import is_public
from vcsync.syncer.kinds.plan import TenantContext

DEFAULT_SERVICE_CIDR: Final = "kubernetes"
"""Name of the ServiceCIDR with the ranges of the API server's own flag."""


class _Cidrs(Struct, gc=False):
    cidrs: tuple[str, ...] = ()


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(Struct, gc=False):
    conditions: tuple[_Condition, ...] = ()


def range_here(cidr: str, service_cidrs: Iterable[Envelope]) -> str:
    """Return those of a tenant's ranges of which a super cluster gives cluster IPs to those who ask for them; "" for none.

    Args:
        cidr: the ranges, one or one of each family with a comma between; "" for none.
        service_cidrs: ServiceCIDRs of the super cluster. Those that are published and ready count.
    """
    wanted = address_ranges(cidr)
    if not wanted:
        return ""
    published = [
        (service_cidr.name, found)
        for service_cidr in service_cidrs
        if is_public(service_cidr) and service_cidr.spec and _is_ready(service_cidr)
        for text in decode(service_cidr.spec, _Cidrs).cidrs
        if (found := address_range(text)) is not None
    ]
    return ",".join(str(each) for each in wanted if any(_gives(*outer, each) for outer in published))


def _gives(service_cidr: str, outer: AddressRange, wanted: AddressRange) -> bool:
    """Return whether a ServiceCIDR gives a tenant its range.

    The lower addresses of the API server's own range are for Services whose address somebody has chosen (KEP-3070), such as
    the super cluster's own name server. A tenant that had them could take such an address while its Service is being replaced.
    """
    if not covers(outer, wanted):
        return False
    reserved = min(max(16, outer.num_addresses // 16), 256) if service_cidr == DEFAULT_SERVICE_CIDR else 0
    return int(wanted.network_address) >= int(outer.network_address) + reserved


def _is_ready(service_cidr: Envelope) -> bool:
    """Return whether the API server allocates from a range (KEP-1880)."""
    if not service_cidr.status:
        return False
    conditions = decode(service_cidr.status, _Status).conditions
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def kept(spec: Mapping[str, Any], context: TenantContext) -> list[str]:
    """Return the cluster IPs of a tenant's Service that its copy has as well; none if the super cluster allocates them.

    The tenant writes them, and gets no address outside its own ranges. Of a dual-stack Service, the super cluster allocates the
    address of a family in which the tenant has no range there, if it has that family at all.
    """
    within = address_ranges(context.cluster_ips)
    if not within or spec.get("type") == "ExternalName":
        return []
    addresses: list[str] = spec.get("clusterIPs") or []
    return [each for each in addresses if any(has_address(one, each) for one in within)]


def differ(wanted: Sequence[str], actual: Mapping[str, Any]) -> bool:
    """Return whether a copy lacks addresses that it must have. It may have one of a further family, of the super cluster's."""
    addresses: Sequence[str] = actual.get("clusterIPs") or ()
    return not set(_normal(wanted)) <= set(_normal(addresses))


def _normal(addresses: Iterable[str]) -> Iterable[str]:
    """Return addresses in one form. API servers keep that of an IPv6 address as it was written."""
    return (str(ipaddress.ip_address(each)) for each in addresses if each != "None")
