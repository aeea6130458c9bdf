"""Which Pods make room for one of higher priority that fits nowhere. Pure.

As kube-scheduler's default preemption, but that it does not look at budgets: those with the lowest priorities go, as few
as will do, and none where the node would not have the Pod anyway.
"""

from collections.abc import Iterable
from copy import copy

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode
from vcsync.simulate.fitting import Node, Refuses, Wish, charge, refusal, wish


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    priority: int = 0
    preemption_policy: str = ""


class Victims(Struct, frozen=True):
    """Who has to go from a node. None: there is room as soon as those have gone that go already."""

    node: str
    pods: tuple[Envelope, ...]


def priority(pod: Envelope) -> int:
    """Return the priority with which a Pod may make others go; 0: it does not."""
    spec = decode(pod.spec, _Spec)
    return 0 if spec.preemption_policy == "Never" else max(spec.priority, 0)


def victims(
    pod: Envelope, needs: Wish, nodes: Iterable[Node], standing: Iterable[Envelope], refuses: Refuses | None
) -> Victims | None:
    """Return the node that a Pod gets at the least price; None: there is none, whoever goes.

    Args:
        pod: it fits nowhere now.
        needs: of it.
        nodes: all there are.
        standing: all Pods that count on nodes.
        refuses: what else a node may be refused for; others' going does not change that.
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
    """Return what orders nodes: where nobody has to go comes first, then by the highest priority, then by how many."""
    return bool(chosen), max((each for each, _ in chosen), default=0), len(chosen)


def _cheapest(
    node: Node, needs: Wish, lower: list[tuple[int, Envelope]]
) -> list[tuple[int, Envelope]] | None:
    """Return whom a node can spare least hardly so that the Pod fits; None: it does not fit even without all of them."""
    left = copy(node)
    for _, each in lower:
        charge(left, wish(each), -1)
    if refusal(left, needs):
        return None
    chosen = []
    staying = [each for each in lower if not each[1].deleting]
    for rank, each in sorted(staying, key=lambda each: (-each[0], each[1].creation_timestamp, each[1].uid)):
        charge(left, wish(each), 1)
        if refusal(left, needs):
            charge(left, wish(each), -1)
            chosen.append((rank, each))
    return chosen
