"""Rules of the endpoints that super clusters share: every remote address is that of a Pod of the same namespace."""

from collections.abc import Iterator

from hack.audit import convert, keys
from hack.audit.findings import Finding
from hack.audit.world import Cluster, World, annotations, labels, place


def remote_endpoints(world: World) -> Iterator[Finding]:
    """An endpoint of another super cluster is a Pod in the same super namespace there, and its Service exists here."""
    for super_id, cluster in world.supers.items():
        for found in cluster.all("endpointslices"):
            if labels(found).get(convert.MANAGED_BY) != keys.REMOTE_ENDPOINTS:
                continue
            namespace, name = place(found)
            owner = annotations(found).get(keys.CLUSTER, "")
            about = (owner, super_id, "endpointslices", namespace, name)
            service = labels(found).get(convert.SERVICE_NAME, "")
            if cluster.get("services", namespace, service) is None:
                yield Finding("foreign", *about, "", None, service)
            source = world.supers.get(labels(found).get(keys.SUPER_CLUSTER_ID, ""))
            known = _addresses(source, namespace) if source is not None else set()
            for endpoint in found.get("endpoints") or ():
                if strange := sorted(set(endpoint["addresses"]) - known):
                    yield Finding("stale", *about, "endpoints", sorted(known), strange)


def _addresses(cluster: Cluster, namespace: str) -> set[str]:
    """Return the addresses of the Pods in a namespace."""
    statuses = [found.get("status") or {} for found in cluster.within("pods", namespace)]
    return {each["ip"] for status in statuses for each in status.get("podIPs") or ()}
