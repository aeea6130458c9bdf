"""Preemption: chooses the Pods to evict for a Pod of higher priority that fits on no node. Pure.

It works like kube-scheduler's default preemption, but ignores PodDisruptionBudgets: it evicts as few Pods as necessary, of the
lowest priorities, and only from a node that would not refuse the Pod for other reasons.
"""

from collections.abc import Iterable
from copy import copy

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode
from vcsync.simulate.fitting import Node, PodNeeds, Refuses, charge, needs_of, refusal


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    priority: int = 0
    preemption_policy: str = ""


class Victims(Struct, frozen=True):
    """The Pods to evict from a node. If it is empty, the Pod fits as soon as terminating Pods are gone."""

    node: str
    pods: tuple[Envelope, ...]


def priority(pod: Envelope) -> int:
    """Return the priority by which a Pod may preempt others; 0: it does not preempt."""
    spec = decode(pod.spec, _Spec)
    return 0 if spec.preemption_policy == "Never" else max(spec.priority, 0)


def victims(
    pod: Envelope,
    needs: PodNeeds,
    nodes: Iterable[Node],
    standing: Iterable[Envelope],
    refuses: Refuses | None,
) -> Victims | None:
    """Return the cheapest preemption for a Pod and its node; None: no preemption makes it fit.

    Args:
        pod: the Pod that does not fit on any node.
        needs: needs of the Pod.
        nodes: all nodes.
        standing: all Pods counted on nodes.
        refuses: further filter of nodes, which evictions do not change.
    """
    own = priority(pod)
    if not own:
        return None
    there: dict[str, list[tuple[int, Envelope]]] = {}
    for each in standing:
        spec = decode(each.spec, _Spec)
        if spec.priority < own:
            there.setdefault(spec.node_name, []).append((spec.priority, each))
    found = [
        (_price(chosen), Victims(node.name, tuple(each for _, each in chosen)))
        for node in nodes
        if not (refuses and refuses(node))
        and (chosen := _cheapest(node, needs, there.get(node.name, []))) is not None
    ]
    return min(found, key=lambda each: (each[0], each[1].node))[1] if found else None


def _price(chosen: list[tuple[int, Envelope]]) -> tuple[bool, int, int]:
    """Return the sort key of nodes: nodes without evictions first, then by the highest priority, then by number."""
    return bool(chosen), max((each for each, _ in chosen), default=0), len(chosen)


def _cheapest(
    node: Node, needs: PodNeeds, lower: list[tuple[int, Envelope]]
) -> list[tuple[int, Envelope]] | None:
    """Return the cheapest evictions on a node that let the Pod fit; None: it would not fit even without all of them."""
    left = copy(node)
    for _, each in lower:
        charge(left, needs_of(each), -1)
    if refusal(left, needs):
        return None
    chosen = []
    staying = [each for each in lower if not each[1].deleting]
    for rank, each in sorted(staying, key=lambda each: (-each[0], each[1].creation_timestamp, each[1].uid)):
        charge(left, needs_of(each), 1)
        if refusal(left, needs):
            charge(left, needs_of(each), -1)
            chosen.append((rank, each))
    return chosen
