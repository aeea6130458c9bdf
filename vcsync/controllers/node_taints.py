"""Taints that tell how a node is, and in which zones how many nodes may be given up. Pure.

Behaviour: Kubernetes' `pkg/controller/nodelifecycle`. Taints of any other key or effect are left as they are.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.kube.envelope import Envelope, untyped
from vcsync.kube.taints import CORDONED, NO_EXECUTE, NO_SCHEDULE, of_node

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
"""Share of a zone's nodes that have failed from which on something else is thought to be wrong; and more than two."""
LARGE = 50
"""A zone of more nodes is emptied slowly then, a smaller one not at all."""
_ZONES = (
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
)


def wanted(
    node: Envelope, statuses: Mapping[str, str], *, evicting: bool, now: str
) -> list[dict[str, Any]] | None:
    """Return the taints that a node should have; None: it has them.

    Args:
        node: the node.
        statuses: of its conditions.
        evicting: whether its Pods are to be driven off, if it is not ready.
        now: the time, as objects tell it.
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
    """Whether the Pods of a node that is not ready are being driven off."""
    return any(each.key in (NOT_READY, UNREACHABLE) for each in of_node(node, NO_EXECUTE))


def zone(node: Envelope) -> str:
    """Return where a node is, as far as its labels tell."""
    return "\0".join(node.labels.get(old) or node.labels.get(new, "") for old, new in _ZONES)


def pause(ready: int, failed: int, usual: float, few: float) -> float | None:
    """Return how many seconds there shall be between two nodes of a zone that are given up; None: none is.

    Args:
        ready: nodes of the zone that are ready.
        failed: those that are not.
        usual: seconds.
        few: seconds, in a large zone most of which has failed.
    """
    if ready and failed > 2 and failed / (ready + failed) >= MOSTLY:
        return few if ready + failed > LARGE else None
    return usual
