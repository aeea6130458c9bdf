"""Taints of nodes and tolerations of Pods. Pure.

The behaviour is that of Kubernetes' `component-helpers/scheduling/corev1`.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode

NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"


class Taint(Struct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


CORDONED = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
"""The taint that a cordoned node counts as having. Pods that tolerate it can still be scheduled there."""


class Toleration(Struct, frozen=True, rename="camel"):
    """A toleration of a Pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


class _NodeSpec(Struct):
    taints: tuple[Taint, ...] | None = None


class _PodSpec(Struct):
    tolerations: tuple[Toleration, ...] | None = None


def of_node(node: Envelope, *effects: str) -> tuple[Taint, ...]:
    """Return the taints of a node that have one of these effects."""
    if b'"taints"' not in node.spec:  # the usual case; callers check thousands of nodes
        return ()
    return tuple(each for each in decode(node.spec, _NodeSpec).taints or () if each.effect in effects)


def of_pod(pod: Envelope) -> tuple[Toleration, ...]:
    """Return the tolerations of a Pod."""
    return decode(pod.spec, _PodSpec).tolerations or ()


def all_tolerated(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> bool:
    """Return whether each of the taints is tolerated."""
    return all(any(each.tolerates(taint) for each in tolerations) for taint in taints)


def tolerated_seconds(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> float | None:
    """Return for how many seconds a running Pod tolerates `NoExecute` taints; None: forever.

    For each taint the first matching toleration counts. The result is the shortest of their times.
    """
    shortest: float | None = None
    for taint in taints:
        first = next((each for each in tolerations if each.tolerates(taint)), None)
        if first is None:
            return 0.0
        if first.toleration_seconds is not None:
            seconds = float(max(first.toleration_seconds, 0))
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest
