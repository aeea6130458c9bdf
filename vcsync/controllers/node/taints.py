"""Taints by the conditions of nodes, and limits on the eviction of nodes in a zone. Pure.

Behaviour: Kubernetes' `pkg/controller/nodelifecycle`. Taints of any other key or effect do not change.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.taints import CORDONED, NO_EXECUTE, NO_SCHEDULE, of_node

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
BY_CONDITION: Mapping[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
OURS = frozenset(
    {(key, NO_SCHEDULE) for key in (*BY_CONDITION.values(), CORDONED.key)}
    | {(NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)}
)
MOSTLY = 0.55
"""Share of failed nodes at which a zone with more than two failed nodes counts as disrupted."""
LARGE = 50
"""In a disrupted zone of more nodes, evictions are slow; in a smaller one, no node is evicted."""
_ZONES = (
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
)


def wanted(
    node: Envelope, statuses: Mapping[str, str], *, evicting: bool, now: str
) -> list[dict[str, Any]] | None:
    """Return the desired taints of a node; None: it already has them.

    Args:
        node: the node.
        statuses: statuses of its conditions.
        evicting: whether its Pods should be evicted if it is not ready.
        now: the current time, RFC 3339 text.
    """
    spec = untyped(node.spec) if node.spec else {}
    taints: list[dict[str, Any]] = spec.get("taints") or []
    keys = [key for (type_, status), key in BY_CONDITION.items() if statuses.get(type_) == status]
    due = [(key, NO_SCHEDULE) for key in keys]
    if spec.get("unschedulable"):
        due.append((CORDONED.key, NO_SCHEDULE))
    if evicting:
        due += [(key, NO_EXECUTE) for key in keys if key in (NOT_READY, UNREACHABLE)]
    there = {(each.get("key"), each.get("effect")) for each in taints}
    if there & OURS == set(due):
        return None
    kept = [
        each
        for each in taints
        if (place := (each.get("key"), each.get("effect"))) not in OURS or place in due
    ]
    added = [
        {"key": key, "effect": effect, "timeAdded": now} for key, effect in due if (key, effect) not in there
    ]
    return [*kept, *added]


def evicting(node: Envelope) -> bool:
    """Return whether the Pods of a node that is not ready are being evicted."""
    return any(each.key in (NOT_READY, UNREACHABLE) for each in of_node(node, NO_EXECUTE))


def zone(node: Envelope) -> str:
    """Return the zone of a node, from its labels."""
    return "\0".join(node.labels.get(old) or node.labels.get(new, "") for old, new in _ZONES)


def pause(ready: int, failed: int, usual: float, few: float) -> float | None:
    """Return the seconds between the evictions of two nodes of a zone; None: no eviction.

    Args:
        ready: number of ready nodes in the zone.
        failed: number of other nodes.
        usual: seconds in a zone that is not disrupted.
        few: seconds in a large disrupted zone.
    """
    if ready and failed > 2 and failed / (ready + failed) >= MOSTLY:
        return few if ready + failed > LARGE else None
    return usual
