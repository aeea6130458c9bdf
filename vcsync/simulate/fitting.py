"""The pretend node scheduler: which node a Pod goes to, and why to none. Pure.

Of kube-scheduler it has what decides whether a Pod runs: requests, node selectors and required node affinity, taints,
cordons, host ports. Among the first few nodes that fit it takes the emptiest.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.quantity import milli
from vcsync.scheduling.pods import pod_requests

ENOUGH = 8
"""Nodes that fit are looked for until there are so many: with thousands, the emptiest of all is not worth the search."""
_NODE_NAME_FIELD = "metadata.name"


class Toleration(Struct, rename="camel"):
    """One of a Pod's tolerations."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(Struct, rename="camel"):
    """One of a node's taints."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Requirement(Struct):
    """One requirement on a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Term(Struct, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class _NodeSelector(Struct, rename="camel"):
    node_selector_terms: tuple[Term, ...] | None = None


class _NodeAffinity(Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Port(Struct, rename="camel"):
    host_port: int = 0
    protocol: str = "TCP"


class _Container(Struct):
    ports: tuple[_Port, ...] | None = None


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
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
    required = (
        spec.affinity
        and spec.affinity.node_affinity
        and spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    )
    ports = {
        (port.protocol, port.host_port)
        for container in spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    }
    return Wish(
        {**pod_requests(pod.spec), "pods": 1000},
        spec.node_selector or {},
        required.node_selector_terms if required else None,
        spec.tolerations or (),
        frozenset(ports),
    )


class Nodes:
    """All nodes of a cluster, and the Pods on them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._order: list[str] = []
        self._next = 0
        self._placed: dict[str, tuple[str, Wish]] = {}  # Pod's uid -> its node, what it uses there

    def __len__(self) -> int:
        return len(self._nodes)

    def see_node(self, node: Envelope) -> None:
        """Take in a node's present state."""
        spec, status = decode(node.spec, _NodeSpec), decode(node.status, _NodeStatus)
        before = self._nodes.get(node.name)
        ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or ())
        allocatable = {name: milli(text) for name, text in (status.allocatable or {}).items()}
        self._nodes[node.name] = Node(
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
                    _charge(self._nodes[name], each, 1)

    def lose_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self._order.remove(name)

    def place(self, uid: str, node: str, needs: Wish) -> None:
        """Count a Pod on a node: bound to it, or just decided to be."""
        if uid in self._placed:
            return
        self._placed[uid] = (node, needs)
        if node in self._nodes:
            _charge(self._nodes[node], needs, 1)

    def lift(self, uid: str) -> bool:
        """Count a Pod no more: it has ended or is gone; True if that freed something."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return False
        node, needs = placed
        if node in self._nodes:
            _charge(self._nodes[node], needs, -1)
        return True

    def choose(self, needs: Wish) -> str | dict[str, int]:
        """Return the node for a Pod, or how many nodes refuse it for each reason."""
        found: list[Node] = []
        reasons: Counter[str] = Counter()
        count = len(self._order)
        for step in range(count):
            node = self._nodes[self._order[(self._next + step) % count]]
            reason = _refusal(node, needs)
            if reason:
                reasons[reason] += 1
                continue
            found.append(node)
            if len(found) >= ENOUGH:
                break
        if not found:
            return dict(reasons)
        self._next = (self._next + 1) % count
        return max(found, key=lambda node: (_room(node), node.name)).name


def _charge(node: Node, needs: Wish, sign: int) -> None:
    node.used = {
        **node.used,
        **{name: node.used.get(name, 0) + sign * amount for name, amount in needs.requests.items()},
    }
    if needs.ports:
        node.ports = node.ports.copy()
        for port in needs.ports:
            node.ports[port] += sign


def _refusal(node: Node, needs: Wish) -> str:
    """Return why a Pod cannot go to a node, in kube-scheduler's words; empty: it can."""
    untolerated = _untolerated(node.taints, needs.tolerations)
    checks = (
        (node.cordoned, "node(s) were unschedulable"),
        (not node.ready, "node(s) were not ready"),
        (untolerated, f"node(s) had untolerated taint(s) {{{untolerated}}}"),
        (not _selected(node, needs), "node(s) didn't match Pod's node affinity/selector"),
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


def _untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> str:
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(each, taint) for each in tolerations):
            return f"{taint.key}: {taint.value}" if taint.value else taint.key
    return ""


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _selected(node: Node, needs: Wish) -> bool:
    if not needs.selector.items() <= node.labels.items():
        return False
    return needs.terms is None or any(_holds(term, node) for term in needs.terms)


def _holds(term: Term, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields: Mapping[str, str] = {_NODE_NAME_FIELD: node.name}
    return all(_meets(each, node.labels) for each in term.match_expressions or ()) and all(
        _meets(each, fields) for each in term.match_fields or ()
    )


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or ()
    return _OPERATORS.get(requirement.operator, _never)(value, values)


def _never(_value: str | None, _values: tuple[str, ...]) -> bool:
    return False


def _more(value: str | None, values: tuple[str, ...]) -> bool:
    numbers = _numbers(value, values)
    return numbers is not None and numbers[0] > numbers[1]


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    numbers = _numbers(value, values)
    return numbers is not None and numbers[0] < numbers[1]


def _numbers(value: str | None, values: tuple[str, ...]) -> tuple[int, int] | None:
    try:
        return int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return None


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _more,
    "Lt": _less,
}


def _room(node: Node) -> float:
    """Return how empty a node is, 0 to 1, by the scarcest of what is asked for."""
    shares = [
        1 - node.used.get(name, 0) / node.allocatable[name]
        for name in ("cpu", "memory", "pods")
        if node.allocatable.get(name)
    ]
    return min(shares, default=0.0)
