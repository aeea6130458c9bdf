"""The simulated node scheduler: the node for a Pod, or the reasons why none fits. Pure.

It implements the filters of kube-scheduler that decide whether a Pod can run on a node: requests, node selectors and
required node affinity, taints, cordons, host ports. It chooses the emptiest of the first few nodes that fit.
"""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from vcsync.objects.conditions import Condition, is_true
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.node_selectors import Affinity, Term, selects
from vcsync.objects.quantity import milli
from vcsync.objects.taints import CORDONED, Taint, Toleration, all_tolerated
from vcsync.scheduling.pods import pod_requests

KINDS = 4096
"""Number of remembered distinct needs of Pods."""
ENOUGH = 8
"""Number of fitting nodes among which the emptiest is chosen: a search of thousands of nodes is not worthwhile."""


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


class _NodeStatus(Struct, rename="camel"):
    allocatable: dict[str, str] | None = None
    conditions: tuple[Condition, ...] | None = None


_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class PodNeeds(Struct, frozen=True):
    """A Pod's requirements for its node; amounts in thousandths."""

    requests: dict[str, int]
    selector: dict[str, str]
    terms: tuple[Term, ...] | None
    tolerations: tuple[Toleration, ...]
    ports: frozenset[tuple[str, int]]


class Node(Struct):
    """A node and its Pods; amounts in thousandths."""

    name: str
    labels: dict[str, str]
    allocatable: dict[str, int]
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    used: dict[str, int] = {}
    ports: Counter[tuple[str, int]] = Counter()


def needs_of(pod: Envelope) -> PodNeeds:
    """Read the needs of a Pod."""
    spec = decode(pod.spec, _PodSpec)
    ports = {
        (port.protocol, port.host_port)
        for container in spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    }
    return PodNeeds(
        {**pod_requests(pod.spec), "pods": 1000},
        spec.node_selector or {},
        spec.affinity.terms if spec.affinity else None,
        spec.tolerations or (),
        frozenset(ports),
    )


Refuses = Callable[[Node], str]
"""Returns the reason why a Pod cannot run on a node; empty: it can."""


class Nodes:
    """All nodes of a cluster with their Pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._order: list[str] = []
        self._next = 0
        # UID of a Pod: its node, and its usage there.
        self._placed: dict[str, tuple[str, PodNeeds]] = {}
        self._shared_needs: dict[bytes, PodNeeds] = {}
        self._changed = 0
        # Needs that no node fits: the number of changes at that time, and the reasons.
        self._refused: dict[bytes, tuple[int, dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def update_node(self, node: Envelope) -> bool:
        """Update a node's state; True: further Pods may fit on it now."""
        spec, status = decode(node.spec, _NodeSpec), decode(node.status, _NodeStatus)
        before = self._nodes.get(node.name)
        ready = is_true(status.conditions, "Ready")
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

    def remove_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self._order.remove(name)
            self._changed += 1

    def has(self, uid: str) -> bool:
        """Return whether a Pod is counted on a node."""
        return uid in self._placed

    def add(self, uid: str, node: str, needs: PodNeeds) -> None:
        """Count a Pod on a node to which it is bound, or is about to be."""
        if uid in self._placed:
            return
        self._placed[uid] = (node, self._shared(needs))
        if node in self._nodes:
            charge(self._nodes[node], needs, 1)

    def remove(self, uid: str) -> bool:
        """Stop counting a Pod that has ended or is gone; True if that freed resources."""
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

    def choose(self, needs: PodNeeds, refuses: Refuses | None = None) -> str | dict[str, int]:
        """Return the node for a Pod, or the number of nodes per reason for refusal.

        Args:
            needs: needs of the Pod.
            refuses: further filter of nodes.
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
        """Remember the reasons why no node fits, so that equal Pods are not tried before resources become free."""
        if len(self._refused) >= KINDS:
            self._refused.clear()
        self._refused[kind] = self._changed, reasons

    def _shared(self, needs: PodNeeds) -> PodNeeds:
        """Return the shared instance of equal needs."""
        if len(self._shared_needs) >= KINDS:
            self._shared_needs.clear()
        return self._shared_needs.setdefault(_encode(needs), needs)


def charge(node: Node, needs: PodNeeds, sign: int) -> None:
    """Start (1) or stop (-1) counting a Pod on a node."""
    node.used = {
        **node.used,
        **{name: node.used.get(name, 0) + sign * amount for name, amount in needs.requests.items()},
    }
    if needs.ports:
        node.ports = node.ports.copy()
        for port in needs.ports:
            node.ports[port] += sign


def refusal(node: Node, needs: PodNeeds) -> str:
    """Return the reason why a Pod cannot run on a node, as kube-scheduler words it; empty: it can."""
    taint = untolerated(node.taints, needs.tolerations)
    checks = (
        (
            node.cordoned and not all_tolerated([CORDONED], needs.tolerations),
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


def _lack(node: Node, needs: PodNeeds) -> str:
    for name, amount in needs.requests.items():
        if amount and node.used.get(name, 0) + amount > node.allocatable.get(name, 0):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> str:
    """Return a taint that the Pod does not tolerate, in kube-scheduler's notation; empty: none."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(each.tolerates(taint) for each in tolerations):
            return f"{taint.key}: {taint.value}" if taint.value else taint.key
    return ""


def _room(node: Node) -> float:
    """Return the free share of a node, 0 to 1, of its scarcest resource."""
    shares = [
        1 - node.used.get(name, 0) / node.allocatable[name]
        for name in ("cpu", "memory", "pods")
        if node.allocatable.get(name)
    ]
    return min(shares, default=0.0)
