"""Which requests a webhook or policy is about: rules, and selectors of labels. Pure.

Source: apiserver's `pkg/admission/plugin/webhook/predicates`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.labelselectors import LabelSelector, Requirement

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
"""What is never put before webhooks and policies: it could not be mended any more."""
GROUP = "admissionregistration.k8s.io"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes. `namespace` is that of the request, of Namespaces their own name."""

    group: str
    version: str
    plural: str
    subresource: str
    operation: str
    namespace: str

    @property
    def is_namespace(self) -> bool:
        """Whether it is about Namespaces themselves, which are in none."""
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
        """Whether a request is meant."""
        return (
            _among(self.operations, place.operation)
            and _among(self.groups, place.group)
            and _among(self.versions, place.version)
            and self._resource(place)
            and self._scope(place)
        )

    def may_match(self, group: str, plural: str) -> bool:
        """Whether any request for a resource may be meant."""
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
    """Read a rule."""
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
    """Read an object's label selector; what is not there selects everything."""
    found = found or {}
    equal = (found.get("matchLabels") or {}).items()
    requirements = [Requirement(key, "in", frozenset({value})) for key, value in equal]
    for each in found.get("matchExpressions") or ():
        operator = _OPERATORS[each["operator"]]
        requirements.append(Requirement(each["key"], operator, frozenset(each.get("values") or ())))
    return LabelSelector(tuple(requirements))


def is_exempt(resource: Resource) -> bool:
    """Whether webhooks and policies are never asked about it."""
    return resource.group == GROUP and resource.plural in EXEMPT


def labels_match(selector: LabelSelector, *objects: Object | None) -> bool:
    """Whether any of the objects is selected (the new and the old one of a write)."""
    if not selector.requirements:
        return True
    return any(each is not None and selector.matches(labels_of(each)) for each in objects)


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return an object's labels."""
    found: Mapping[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return found


def first_match(rules: Sequence[Rule], place: Place, equivalents: Sequence[Place]) -> Place | None:
    """Return as what a request is meant: as it was sent, else as the first equivalent that a rule names."""
    if any(each.matches(place) for each in rules):
        return place
    return next((seen for each in rules for seen in equivalents if each.matches(seen)), None)
