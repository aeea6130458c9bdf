"""Matches requests with the rules and label selectors of webhooks and policies. Pure.

Source: apiserver's `pkg/admission/plugin/webhook/predicates`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.selectors.label_selectors import LabelSelector, Requirement

Object = dict[str, Any]

EXEMPT = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
"""Resources that are exempt from webhooks and policies, so that a broken one can be repaired."""
GROUP = "admissionregistration.k8s.io"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


@dataclass(frozen=True, slots=True)
class Place:
    """The resource, operation and namespace of a request. The namespace of a Namespace is its own name."""

    group: str
    version: str
    plural: str
    subresource: str
    operation: str
    namespace: str

    @property
    def is_namespace(self) -> bool:
        """Whether the request is for Namespaces, which are cluster-scoped."""
        return self.plural == "namespaces" and not self.group and self.version == "v1"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule (`RuleWithOperations`)."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    def matches(self, place: Place) -> bool:
        """Return whether the rule matches a request."""
        return (
            _among(self.operations, place.operation)
            and _among(self.groups, place.group)
            and _among(self.versions, place.version)
            and self._resource(place)
            and self._scope(place)
        )

    def may_match(self, group: str, plural: str) -> bool:
        """Return whether the rule can match a request for a resource."""
        return _among(self.groups, group) and any(name in ("*", plural) for name, _ in self.resources)

    def _resource(self, place: Place) -> bool:
        return any(
            name in ("*", place.plural) and sub in ("*", place.subresource) for name, sub in self.resources
        )

    def _scope(self, place: Place) -> bool:
        if self.scope not in ("Namespaced", "Cluster"):
            return True
        inside = bool(place.namespace) and not place.is_namespace
        return inside == (self.scope == "Namespaced")


def rule_of(found: Mapping[str, Any]) -> Rule:
    """Parse a rule."""
    resources = [each.partition("/") for each in found.get("resources") or ()]
    return Rule(
        frozenset(found.get("operations") or ()),
        frozenset(found.get("apiGroups") or ()),
        frozenset(found.get("apiVersions") or ()),
        tuple((name, sub) for name, _, sub in resources),
        found.get("scope") or "*",
    )


def _among(items: frozenset[str], asked: str) -> bool:
    return asked in items or "*" in items


def selector_of(found: Mapping[str, Any] | None) -> LabelSelector:
    """Parse a label selector. A missing selector matches everything."""
    found = found or {}
    equal = (found.get("matchLabels") or {}).items()
    requirements = [Requirement(key, "in", frozenset({value})) for key, value in equal]
    for each in found.get("matchExpressions") or ():
        operator = _OPERATORS[each["operator"]]
        requirements.append(Requirement(each["key"], operator, frozenset(each.get("values") or ())))
    return LabelSelector(tuple(requirements))


def is_exempt(resource: Resource) -> bool:
    """Return whether a resource is exempt from webhooks and policies."""
    return resource.group == GROUP and resource.plural in EXEMPT


def labels_match(selector: LabelSelector, *objects: Object | None) -> bool:
    """Return whether a selector matches any of the objects: the new and the old one of a write."""
    if not selector.requirements:
        return True
    return any(each is not None and selector.matches(labels_of(each)) for each in objects)


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return an object's labels."""
    found: Mapping[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return found


def first_match(rules: Sequence[Rule], place: Place, equivalents: Sequence[Place]) -> Place | None:
    """Return the place as which a request matches: its own, otherwise the first equivalent that a rule matches."""
    if any(each.matches(place) for each in rules):
        return place
    return next((other for each in rules for other in equivalents if each.matches(other)), None)
