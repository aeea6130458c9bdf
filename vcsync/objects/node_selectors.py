"""Matches nodes with the node selector and the required node affinity of a Pod. Pure.

The behaviour is that of Kubernetes' `component-helpers/scheduling/corev1/nodeaffinity`.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

NODE_NAME_FIELD = "metadata.name"


class Requirement(Struct):
    """One requirement on the labels or fields of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Term(Struct, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Struct, rename="camel"):
    """Terms, at least one of which must hold."""

    node_selector_terms: tuple[Term, ...] | None = None


class NodeAffinity(Struct, rename="camel"):
    """The required part of the node affinity of a Pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Struct, rename="camel"):
    """The part of the affinity of a Pod that concerns nodes."""

    node_affinity: NodeAffinity | None = None

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """The terms of the required node affinity; None: every node matches."""
        if self.node_affinity is None:
            return None
        required = self.node_affinity.required_during_scheduling_ignored_during_execution
        return None if required is None else required.node_selector_terms or ()


def selects(
    selector: Mapping[str, str], terms: tuple[Term, ...] | None, name: str, labels: Mapping[str, str]
) -> bool:
    """Return whether a node matches the node selector and the required node affinity of a Pod.

    Args:
        selector: Node selector of the Pod.
        terms: Terms of its required node affinity; None: it has none.
        name: Name of the node.
        labels: Labels of the node.
    """
    if not selector.items() <= labels.items():
        return False
    return terms is None or any(_holds(term, name, labels) for term in terms)


def _holds(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields: Mapping[str, str] = {NODE_NAME_FIELD: name}
    return all(_meets(each, labels) for each in term.match_expressions or ()) and all(
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
