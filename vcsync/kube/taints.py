"""Taints of nodes, and which Pods bear them. Pure.

Behaviour: Kubernetes' `component-helpers/scheduling/corev1`.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode

NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"


class Taint(Struct, frozen=True):
    """One of a node's taints."""

    key: str = ""
    value: str = ""
    effect: str = ""


CORDONED = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
"""What a node that takes no more Pods counts as having; who tolerates it comes all the same."""


class Toleration(Struct, frozen=True, rename="camel"):
    """One of a Pod's tolerations."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether it bears a taint."""
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
    if b'"taints"' not in node.spec:  # as is usual; thousands of nodes are asked
        return ()
    return tuple(each for each in decode(node.spec, _NodeSpec).taints or () if each.effect in effects)


def of_pod(pod: Envelope) -> tuple[Toleration, ...]:
    """Return what a Pod tolerates."""
    return decode(pod.spec, _PodSpec).tolerations or ()


def borne(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> bool:
    """Whether each of the taints is tolerated."""
    return all(any(each.tolerates(taint) for each in tolerations) for taint in taints)


def patience(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> float | None:
    """Return for how many seconds a Pod bears taints that act on those that run; None: for ever.

    Of the tolerations that are the first to bear a taint each, the shortest counts.
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
