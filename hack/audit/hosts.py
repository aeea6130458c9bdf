"""The rule that a host of Ingresses has one owner in each super cluster."""

from collections.abc import Iterator
from itertools import combinations

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.world import Json, World, annotations, place, uid


def hosts(world: World) -> Iterator[Finding]:
    """No host of a tenant's Ingress in a super cluster overlaps with one of another tenant or the operator."""
    for super_id, cluster in world.supers.items():
        for one, other in combinations(cluster.all("ingresses"), 2):
            owner, rival = (annotations(each).get(keys.CLUSTER, "") for each in (one, other))
            if owner == rival:
                continue
            for ours in sorted(_hosts(one)):
                for theirs in sorted(_hosts(other)):
                    if _covers(ours, theirs) or _covers(theirs, ours):
                        namespace, name = place(one)
                        yield Finding(
                            "host", owner, super_id, "ingresses", namespace, name, ours, uid(one), uid(other)
                        )


def _hosts(ingress: Json) -> set[str]:
    spec = ingress.get("spec") or {}
    found = {rule.get("host") or "" for rule in spec.get("rules") or ()}
    for tls in spec.get("tls") or ():
        found.update(tls.get("hosts") or ("",))
    return found | ({""} if spec.get("defaultBackend") else set())


def _covers(host: str, other: str) -> bool:
    """Return whether a host is another one, or a wildcard for it."""
    return host == other or (host.startswith("*.") and other.endswith(host[1:]))
