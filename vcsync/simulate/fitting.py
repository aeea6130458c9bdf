"""The pretend node scheduler: which node a Pod goes to, and why to none. Pure.

Of kube-scheduler it has what decides whether a Pod runs: requests, node selectors and required node affinity, taints,
cordons, host ports. Among the first few nodes that fit it takes the emptiest.
"""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.node_selectors import Affinity, Term, selects
from vcsync.kube.quantity import milli
from vcsync.kube.taints import CORDONED, Taint, Toleration, borne
from vcsync.scheduling.pods import pod_requests

KINDS = 4096
"""Different needs of Pods that are remembered."""
ENOUGH = 8
"""Nodes that fit are looked for until there are so many: with thousands, the emptiest of all is not worth the search."""


class _Port(Struct, rename="camel"):
    host_port: int = 0
    protocol: str = "TCP"


class _Container(Struct):
    ports: tuple[_Port, ...] | None = None


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    containers: tuple[_Container, ...] | None = None


class _NodeSpec(Struct, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class _NodeCondition(Struct):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, rename="camel"):
    allocatable: dict[str, str] | None = None
    conditions: tuple[_NodeCondition, ...] | None = None


_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Wish(Struct, frozen=True):
    """What a Pod needs of its node; amounts in thousandths."""

    requests: dict[str, int]
    selector: dict[str, str]
    terms: tuple[Term, ...] | None
    tolerations: tuple[Toleration, ...]
    ports: frozenset[tuple[str, int]]


class Node(Struct):
    """A node and what stands on it; amounts in thousandths."""

    name: str
    labels: dict[str, str]
    allocatable: dict[str, int]
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    used: dict[str, int] = {}
    ports: Counter[tuple[str, int]] = Counter()


def wish(pod: Envelope) -> Wish:
    """Read what a Pod needs."""
    spec = decode(pod.spec, _PodSpec)
    ports = {
        (port.protocol, port.host_port)
        for container in spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    }
    return Wish(
        {**pod_requests(pod.spec), "pods": 1000},
        spec.node_selector or {},
        spec.affinity.terms if spec.affinity else None,
        spec.tolerations or (),
        frozenset(ports),
    )


Refuses = Callable[[Node], str]
"""Tells why a Pod cannot go to a node; empty: it can."""


class Nodes:
    """All nodes of a cluster, and the Pods on them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._order: list[str] = []
        self._next = 0
        self._placed: dict[str, tuple[str, Wish]] = {}  # Pod's uid -> its node, what it uses there
        self._wishes: dict[bytes, Wish] = {}
        self._changed = 0
        self._refused: dict[
            bytes, tuple[int, dict[str, int]]
        ] = {}  # by wish: when so much had changed, and why

    def __len__(self) -> int:
        return len(self._nodes)

    def see_node(self, node: Envelope) -> bool:
        """Take in a node's present state; True: other Pods may fit on it now."""
        spec, status = decode(node.spec, _NodeSpec), decode(node.status, _NodeStatus)
        before = self._nodes.get(node.name)
        ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or ())
        allocatable = {name: milli(text) for name, text in (status.allocatable or {}).items()}
        now = self._nodes[node.name] = Node(
            node.name,
            node.labels,
            allocatable,
            spec.taints or (),
            spec.unschedulable,
            ready,
            before.used if before else {},
            before.ports if before else Counter(),
        )
        if before is None:
            self._order.append(node.name)
            for name, each in self._placed.values():
                if name == node.name:
                    charge(self._nodes[name], each, 1)
            self._changed += 1
            return True
        if now == before:
            return False
        self._changed += 1
        return True

    def lose_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self._order.remove(name)
            self._changed += 1

    def has(self, uid: str) -> bool:
        """Whether a Pod is counted on a node."""
        return uid in self._placed

    def place(self, uid: str, node: str, needs: Wish) -> None:
        """Count a Pod on a node: bound to it, or just decided to be."""
        if uid in self._placed:
            return
        self._placed[uid] = (node, self._shared(needs))
        if node in self._nodes:
            charge(self._nodes[node], needs, 1)

    def lift(self, uid: str) -> bool:
        """Count a Pod no more: it has ended or is gone; True if that freed something."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return False
        node, needs = placed
        self._changed += 1
        if node in self._nodes:
            charge(self._nodes[node], needs, -1)
        return True

    @property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes."""
        return self._nodes

    def choose(self, needs: Wish, refuses: Refuses | None = None) -> str | dict[str, int]:
        """Return the node for a Pod, or how many nodes refuse it for each reason.

        Args:
            needs: of the Pod.
            refuses: what else a node may be refused for.
        """
        kind = _encode(needs) if refuses is None else b""
        known = self._refused.get(kind)
        if known is not None and known[0] == self._changed:
            return known[1]
        found: list[Node] = []
        reasons: Counter[str] = Counter()
        count = len(self._order)
        for step in range(count):
            node = self._nodes[self._order[(self._next + step) % count]]
            reason = refusal(node, needs) or (refuses(node) if refuses else "")
            if reason:
                reasons[reason] += 1
                continue
            found.append(node)
            if len(found) >= ENOUGH:
                break
        if not found:
            if kind:
                self._remember(kind, dict(reasons))
            return dict(reasons)
        self._next = (self._next + 1) % count
        return max(found, key=lambda node: (_room(node), node.name)).name

    def _remember(self, kind: bytes, reasons: dict[str, int]) -> None:
        """Take note why no node takes a Pod: another of its kind need not ask again before something is freed."""
        if len(self._refused) >= KINDS:
            self._refused.clear()
        self._refused[kind] = self._changed, reasons

    def _shared(self, needs: Wish) -> Wish:
        """Return the wish that is kept for all Pods that need the same."""
        if len(self._wishes) >= KINDS:
            self._wishes.clear()
        return self._wishes.setdefault(_encode(needs), needs)


def charge(node: Node, needs: Wish, sign: int) -> None:
    """Count a Pod on a node (1), or no more (-1)."""
    node.used = {
        **node.used,
        **{name: node.used.get(name, 0) + sign * amount for name, amount in needs.requests.items()},
    }
    if needs.ports:
        node.ports = node.ports.copy()
        for port in needs.ports:
            node.ports[port] += sign


def refusal(node: Node, needs: Wish) -> str:
    """Return why a Pod cannot go to a node, in kube-scheduler's words; empty: it can."""
    taint = untolerated(node.taints, needs.tolerations)
    checks = (
        (
            node.cordoned and not borne([CORDONED], needs.tolerations),
            "node(s) were unschedulable",
        ),
        (not node.ready, "node(s) were not ready"),
        (taint, f"node(s) had untolerated taint(s) {{{taint}}}"),
        (
            not selects(needs.selector, needs.terms, node.name, node.labels),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            any(node.ports[port] > 0 for port in needs.ports),
            "node(s) didn't have free ports for the requested pod ports",
        ),
    )
    refused = next((reason for refuses, reason in checks if refuses), "")
    return refused or _lack(node, needs)


def _lack(node: Node, needs: Wish) -> str:
    for name, amount in needs.requests.items():
        if amount and node.used.get(name, 0) + amount > node.allocatable.get(name, 0):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> str:
    """Return a taint that keeps a Pod away, as kube-scheduler names it; empty: none."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(each.tolerates(taint) for each in tolerations):
            return f"{taint.key}: {taint.value}" if taint.value else taint.key
    return ""


def _room(node: Node) -> float:
    """Return how empty a node is, 0 to 1, by the scarcest of what is asked for."""
    shares = [
        1 - node.used.get(name, 0) / node.allocatable[name]
        for name in ("cpu", "memory", "pods")
        if node.allocatable.get(name)
    ]
    return min(shares, default=0.0)
