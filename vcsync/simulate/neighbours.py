"""Affinity between Pods, and topology spread. Pure.

Behaviour: kube-scheduler's plugins InterPodAffinity and PodTopologySpread. Required terms apply; preferences are ignored.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.node_selectors import selects
from vcsync.objects.selectors import LabelSelector, compile_selector
from vcsync.simulate.fitting import Node, PodNeeds, Refuses, untolerated

LONELY = "node(s) didn't match pod affinity rules"
CROWDED = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{UNEVEN} (missing required label)"

Domain = tuple[str, str]
"""A topology key with a value: nodes that have it form one domain."""


class Term(Struct, rename="camel"):
    """A required term of affinity or anti-affinity."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class _Terms(Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: tuple[Term, ...] | None = None


class _Affinity(Struct, rename="camel"):
    pod_affinity: _Terms | None = None
    pod_anti_affinity: _Terms | None = None


class Constraint(Struct, rename="camel"):
    """A topology spread constraint."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class _Spec(Struct, rename="camel"):
    affinity: _Affinity | None = None
    topology_spread_constraints: tuple[Constraint, ...] | None = None


class PlacedPods:
    """All Pods on nodes.

    Args:
        labels_of: returns a namespace's labels.
    """

    def __init__(self, labels_of: Callable[[str], Mapping[str, str]]) -> None:
        self._labels_of = labels_of
        # Pod with its node, by namespace and UID.
        self._standing: dict[str, dict[str, tuple[Envelope, str]]] = {}
        self._repelling: dict[str, tuple[Envelope, str]] = {}

    def add(self, pod: Envelope, node: str) -> None:
        """Add a Pod to a node, or update it."""
        self._standing.setdefault(pod.namespace, {})[pod.uid] = (pod, node)
        if b'"podAntiAffinity"' in pod.spec:
            self._repelling[pod.uid] = (pod, node)

    def remove(self, pod: Envelope) -> None:
        """Remove a Pod that has ended or is gone."""
        self._repelling.pop(pod.uid, None)
        mine = self._standing.get(pod.namespace, {})
        mine.pop(pod.uid, None)
        if not mine:
            self._standing.pop(pod.namespace, None)

    def refusal(self, pod: Envelope, needs: PodNeeds, nodes: Mapping[str, Node]) -> Refuses | None:
        """Return the filter of nodes that follows from other Pods; None: other Pods do not restrict the nodes."""
        checks = [
            check
            for check in (
                self._spread(pod, needs, nodes),
                self._attracted(pod, nodes),
                self._crowded(pod, nodes),
                self._repelled(pod, nodes),
            )
            if check is not None
        ]
        if not checks:
            return None
        return lambda node: next((reason for check in checks if (reason := check(node))), "")

    # ---- Affinity ------------------------------------------------------------------------

    def _attracted(self, pod: Envelope, nodes: Mapping[str, Node]) -> Refuses | None:
        terms = _affinity(pod)
        if not terms:
            return None
        there = {
            domain
            for other, node in self._of(pod, terms)
            if all(self._concerns(term, pod, other) for term in terms)
            for domain in _domains(terms, nodes.get(node))
        }
        first = not there and all(self._concerns(term, pod, pod) for term in terms)

        def refuses(node: Node) -> str:
            mine = _domains(terms, node)
            near = len(mine) == len(terms) and (first or all(each in there for each in mine))
            return "" if near else LONELY

        return refuses

    def _crowded(self, pod: Envelope, nodes: Mapping[str, Node]) -> Refuses | None:
        terms = _anti_affinity(pod)
        if not terms:
            return None
        taken = {
            domain
            for other, node in self._of(pod, terms)
            for domain in _domains(
                [term for term in terms if self._concerns(term, pod, other)], nodes.get(node)
            )
        }
        return lambda node: CROWDED if not taken.isdisjoint(_domains(terms, node)) else ""

    def _repelled(self, pod: Envelope, nodes: Mapping[str, Node]) -> Refuses | None:
        taken = {
            domain
            for other, node in self._repelling.values()
            for domain in _domains(
                [term for term in _anti_affinity(other) if self._concerns(term, other, pod)], nodes.get(node)
            )
        }
        if not taken:
            return None
        return lambda node: REPELLED if any(node.labels.get(key) == value for key, value in taken) else ""

    def _concerns(self, term: Term, whose: Envelope, other: Envelope) -> bool:
        """Return whether a term of one Pod selects another."""
        return self._reaches(term, whose, other.namespace) and _matches(term.label_selector, other.labels)

    def _reaches(self, term: Term, whose: Envelope, namespace: str) -> bool:
        if term.namespace_selector is None and not term.namespaces:
            return namespace == whose.namespace
        if namespace in (term.namespaces or ()):
            return True
        return term.namespace_selector is not None and _matches(
            term.namespace_selector, self._labels_of(namespace)
        )

    def _of(self, pod: Envelope, terms: Collection[Term]) -> Iterator[tuple[Envelope, str]]:
        """Iterate over the Pods of all namespaces that a term covers."""
        for namespace, standing in self._standing.items():
            if any(self._reaches(term, pod, namespace) for term in terms):
                yield from standing.values()

    # ---- Spread --------------------------------------------------------------------------

    def _spread(self, pod: Envelope, needs: PodNeeds, nodes: Mapping[str, Node]) -> Refuses | None:
        constraints = _constraints(pod)
        if not constraints:
            return None
        keys = [each.topology_key for each in constraints]
        labelled = [node for node in nodes.values() if all(key in node.labels for key in keys)]
        full = {
            (each.topology_key, value)
            for each in constraints
            for value in self._full(each, pod, needs, labelled)
        }

        def refuses(node: Node) -> str:
            if any(key not in node.labels for key in keys):
                return UNLABELLED
            return UNEVEN if any((key, node.labels[key]) in full for key in keys) else ""

        return refuses

    def _full(
        self, constraint: Constraint, pod: Envelope, needs: PodNeeds, labelled: Iterable[Node]
    ) -> list[str]:
        """Return the domains in which one more Pod like this one would violate the constraint."""
        key, counted = constraint.topology_key, Counter[str]()
        domains = {node.name: node.labels[key] for node in labelled if _is_eligible(constraint, node, needs)}
        for other, node in self._standing.get(pod.namespace, {}).values():
            if node in domains and not other.deleting and _matches(constraint.label_selector, other.labels):
                counted[domains[node]] += 1
        values = set(domains.values())
        least = min((counted[value] for value in values), default=0)
        if len(values) < (constraint.min_domains or 0):
            least = 0
        own = int(_matches(constraint.label_selector, pod.labels))
        return [value for value in values if counted[value] + own - least > constraint.max_skew]


def _is_eligible(constraint: Constraint, node: Node, needs: PodNeeds) -> bool:
    """Return whether a node counts for a constraint."""
    if constraint.node_affinity_policy == "Honor" and not selects(
        needs.selector, needs.terms, node.name, node.labels
    ):
        return False
    return constraint.node_taints_policy != "Honor" or not untolerated(node.taints, needs.tolerations)


def _domains(terms: Iterable[Term], node: Node | None) -> list[Domain]:
    """Return the domains of a node for the terms' topology keys."""
    if node is None:
        return []
    return [
        (term.topology_key, node.labels[term.topology_key])
        for term in terms
        if term.topology_key in node.labels
    ]


def _affinity(pod: Envelope) -> tuple[Term, ...]:
    if b'"podAffinity"' not in pod.spec:
        return ()
    affinity = decode(pod.spec, _Spec).affinity
    terms = affinity and affinity.pod_affinity
    return (terms and terms.required_during_scheduling_ignored_during_execution) or ()


def _anti_affinity(pod: Envelope) -> tuple[Term, ...]:
    if b'"podAntiAffinity"' not in pod.spec:
        return ()
    affinity = decode(pod.spec, _Spec).affinity
    terms = affinity and affinity.pod_anti_affinity
    return (terms and terms.required_during_scheduling_ignored_during_execution) or ()


def _constraints(pod: Envelope) -> list[Constraint]:
    if b'"topologySpreadConstraints"' not in pod.spec:
        return []
    found = decode(pod.spec, _Spec).topology_spread_constraints or ()
    return [each for each in found if each.when_unsatisfiable == "DoNotSchedule"]


def depends_on_other_pods(pod: Envelope) -> bool:
    """Return whether new Pods may make a node suitable for a waiting Pod."""
    return b'"podAffinity"' in pod.spec or b'"topologySpreadConstraints"' in pod.spec


def _matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector selects labels. A missing selector selects no labels, an empty one selects all."""
    return selector is not None and compile_selector(selector).matches(labels)
