"""Rules about cluster IPs that copies of Services keep: those of a range that a tenant has for itself (docs/dns.md)."""

import ipaddress
from collections.abc import Iterator

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.objects import service_goes
from hack.audit.world import (
    Cluster,
    Json,
    Tenant,
    World,
    annotations,
    deleting,
    labels,
    place,
    super_namespace,
    uid,
)

Range = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SERVICE_CIDRS = "servicecidrs"
OWN_RANGE = "kubernetes"
"""Name of the ServiceCIDR with the ranges of the API server's own flag."""
NAME_SERVER = ("kube-system", "kube-dns")
"""The Service whose copy keeps the address that running Pods have."""


def kept_addresses(world: World) -> Iterator[Finding]:
    """A copy has the tenant's own cluster IPs, as far as they are of its range and the super cluster publishes that."""
    for tenant, super_id, service, copy in _copies(world):
        wanted = _kept(tenant, world, world.supers[super_id], service)
        missing = [each for each in wanted if each not in _addresses(copy)]
        if missing and place(service) != NAME_SERVER and not deleting(copy):
            namespace, name = place(copy)
            yield Finding(
                "stale",
                tenant.key,
                super_id,
                "services",
                namespace,
                name,
                "spec.clusterIPs",
                [str(each) for each in wanted],
                (copy.get("spec") or {}).get("clusterIPs"),
            )


def shared_addresses(world: World) -> Iterator[Finding]:
    """No address of a tenant's range is that of another tenant's Service, in any super cluster.

    An address that a super cluster has chosen for a Service may be of somebody's range by chance, so only addresses count that
    a copy has because its tenant asks for them: those that the tenant's own Service has.
    """
    holders: dict[Address, tuple[str, str | None]] = {}
    for tenant, super_id, service, copy in _copies(world):
        for address in _addresses(copy):
            if address not in _addresses(service) or not _is_of_a_range(world, address):
                continue
            owner, first = holders.setdefault(address, (tenant.key, uid(copy)))
            if owner != tenant.key:
                namespace, name = place(copy)
                yield Finding(
                    "shared",
                    tenant.key,
                    super_id,
                    "services",
                    namespace,
                    name,
                    f"spec.clusterIPs {address}",
                    f"only {owner} {first}",
                    uid(copy),
                )


def _copies(world: World) -> Iterator[tuple[Tenant, str, Json, Json]]:
    """Yield (tenant, id of a super cluster, Service, its copy there). The rule `contents` reports copies that are missing."""
    for tenant, _, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        for service in tenant.cluster.within("services", line.namespace):
            copy = world.supers[super_id].get("services", there, place(service)[1])
            if copy is None or annotations(copy).get(keys.UID) != uid(service):
                continue
            if not deleting(service) and service_goes(service, tenant):
                yield tenant, super_id, service, copy


def _kept(tenant: Tenant, world: World, cluster: Cluster, service: Json) -> list[Address]:
    """Return the addresses of a tenant's Service that its copy in a super cluster must have."""
    if (service.get("spec") or {}).get("type") == "ExternalName":
        return []
    ranges = [each for each in _granted(world).get(tenant.key, ()) if _is_published(each, cluster)]
    return [each for each in _addresses(service) if any(each in one for one in ranges)]


def _granted(world: World) -> dict[str, tuple[Range, ...]]:
    """Return cluster key -> ranges that the tenant has for itself. Of ranges that overlap, those of the older tenant count."""
    found: dict[str, tuple[Range, ...]] = {}
    for tenant in sorted(world.tenants.values(), key=_age):
        ranges = _ranges(tenant)
        taken = [each for others in found.values() for each in others]
        if ranges and not any(_overlap(each, other) for each in ranges for other in taken):
            found[tenant.key] = ranges
    return found


def _age(tenant: Tenant) -> tuple[str, tuple[str, str]]:
    created: str = tenant.record["metadata"].get("creationTimestamp") or ""
    return created, place(tenant.record)


def _ranges(tenant: Tenant) -> tuple[Range, ...]:
    text: str = tenant.spec.get("serviceCidr") or ""
    try:
        return tuple(ipaddress.ip_network(each) for each in text.split(",")) if text else ()
    except ValueError:
        return ()


def _is_of_a_range(world: World, address: Address) -> bool:
    return any(address in one for tenant in world.tenants.values() for one in _ranges(tenant))


def _is_published(wanted: Range, cluster: Cluster) -> bool:
    """Return whether an operator has a super cluster give addresses of a range to tenants."""
    for found in cluster.all(SERVICE_CIDRS):
        ready = any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in (found.get("status") or {}).get("conditions") or ()
        )
        if not ready or labels(found).get(keys.SUPER_PUBLIC) != "true":
            continue
        for text in (found.get("spec") or {}).get("cidrs") or ():
            outer = ipaddress.ip_network(text)
            # An API server keeps the lower addresses of its own range for those that somebody chooses (KEP-3070).
            lower = min(max(16, outer.num_addresses // 16), 256) if place(found)[1] == OWN_RANGE else 0
            if _covers(outer, wanted) and wanted[0] >= outer[0] + lower:  # type: ignore[operator]  # of one family
                return True
    return False


def _covers(outer: Range, inner: Range) -> bool:
    return outer.version == inner.version and inner[0] in outer and inner[-1] in outer


def _overlap(one: Range, other: Range) -> bool:
    return one.version == other.version and (one[0] in other or other[0] in one)


def _addresses(service: Json) -> list[Address]:
    found: list[str] = (service.get("spec") or {}).get("clusterIPs") or []
    return [ipaddress.ip_address(each) for each in found if each != "None"]
