"""The policies of a tenant with their bindings, and the requests that they match.

Behaviour: `plugin/policy/generic` and `plugin/policy/matching` of apiserver's `pkg/admission`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.selectors.label_selectors import LabelSelector
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.configurations import Configuration
from vcsync.apiserver.admission.framework.matching import Place, Rule, labels_match, rule_of, selector_of
from vcsync.apiserver.admission.framework.request import place_of, with_resource
from vcsync.apiserver.request.scope import Admission


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule for named objects. Empty `names`: all objects."""

    rule: Rule
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Constraints:
    """`matchConstraints` of a policy, or `matchResources` of a binding."""

    namespaces: LabelSelector
    objects: LabelSelector
    rules: tuple[NamedRule, ...]
    excluded: tuple[NamedRule, ...]
    equivalent: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding of a policy."""

    name: str
    spec: Object
    constraints: Constraints


@dataclass(frozen=True, slots=True)
class Hook:
    """A policy with bindings.

    Attributes:
        key: Changes whenever the policy changes.
        owner: Tenant that shares the compiled expressions. Empty: the tenant of the request.
    """

    name: str
    key: tuple[str, int]
    spec: Object
    constraints: Constraints
    bindings: tuple[Binding, ...]
    owner: str = ""

    @property
    def fails(self) -> bool:
        """Whether an evaluation error refuses the request."""
        return self.spec.get("failurePolicy") != "Ignore"


def constraints_of(found: Object | None) -> Constraints:
    """Parse `matchConstraints` or `matchResources`."""
    found = found or {}
    return Constraints(
        selector_of(found.get("namespaceSelector")),
        selector_of(found.get("objectSelector")),
        _rules(found.get("resourceRules")),
        _rules(found.get("excludeResourceRules")),
        found.get("matchPolicy") == "Equivalent",
    )


def _rules(found: Sequence[Object] | None) -> tuple[NamedRule, ...]:
    return tuple(NamedRule(rule_of(each), frozenset(each.get("resourceNames") or ())) for each in found or ())


def hooks(configuration: Configuration, policies: str) -> tuple[Hook, ...]:
    """Return all policies of one kind that have bindings, sorted by name.

    Args:
        configuration: Configuration of the tenant.
        policies: Plural of the policies.
    """
    found: dict[str, list[Binding]] = {}
    for _, each in configuration.of(policies.replace("policies", "policybindings")):
        spec = each.get("spec") or {}
        binding = Binding(each["metadata"]["name"], spec, constraints_of(spec.get("matchResources")))
        found.setdefault(spec.get("policyName") or "", []).append(binding)
    return tuple(
        Hook(
            name,
            (f"{policies}/{each['metadata'].get('uid')}", revision),
            each.get("spec") or {},
            constraints_of((each.get("spec") or {}).get("matchConstraints")),
            tuple(found[name]),
        )
        for revision, each in configuration.of(policies)
        if (name := each["metadata"]["name"]) in found
    )


class ObjectReader(Protocol):
    """Reads objects of a tenant."""

    async def get(self, tenant: str, group: str, plural: str, name: str) -> Object | None:
        """Return a cluster-scoped object, or None if it does not exist."""


class EquivalentResources(Protocol):
    """Knows the resources that serve the same objects."""

    def equivalents(self, tenant: str, resource: Resource) -> Sequence[Resource]:
        """Return the resources that serve the same objects as this one, including itself."""


@dataclass(slots=True)
class Target:
    """A write with which constraints are matched.

    Attributes:
        admission: The write.
        name: Name of the object. Empty: it has none yet.
        new: The new object in the version of the request. None: it is deleted.
        old: The current object. None: it is created.
        reader: Reads the Namespace of the object.
        resources: Finds equivalent resources.
        place: The resource, operation and namespace that rules match.
    """

    admission: Admission
    name: str
    new: Object | None
    old: Object | None
    reader: ObjectReader
    resources: EquivalentResources
    place: Place = field(init=False)
    _namespace: Object | None = None

    def __post_init__(self) -> None:
        """Compute the place of the write."""
        self.place = place_of(self.admission)

    @property
    def resource(self) -> Resource:
        """The resource of the request."""
        return self.admission.scope.kind.resource

    async def namespace(self) -> Object | None:
        """Return the Namespace of the object, or None for cluster-scoped objects."""
        if self._namespace is None and self.place.namespace and not self.place.is_namespace:
            self._namespace = await self._find_namespace()
        return self._namespace

    async def namespace_labels(self) -> Mapping[str, str] | None:
        """Return the labels for namespace selectors, or None if they do not apply."""
        if self.place.plural == "namespaces" and not self.place.subresource and self.new is not None:
            found = self.new
        elif not self.place.namespace:
            return None
        else:
            found = await self._find_namespace() or {}
        labels: Mapping[str, str] = (found.get("metadata") or {}).get("labels") or {}
        return labels

    def equivalents(self) -> Sequence[Resource]:
        """Return the resources that serve the same objects as that of the request, including itself."""
        return self.resources.equivalents(self.admission.scope.tenant, self.resource)

    async def _find_namespace(self) -> Object | None:
        return await self.reader.get(self.admission.scope.tenant, "", "namespaces", self.place.namespace)


async def matched(constraints: Constraints, target: Target) -> Resource | None:
    """Return the resource as which constraints match a request, or None if they do not match."""
    excluded = _resource_of(constraints.excluded, constraints, target)
    if excluded is not None:
        return None
    found = _resource_of(constraints.rules, constraints, target) if constraints.rules else target.resource
    if found is None or not labels_match(constraints.objects, target.new, target.old):
        return None
    if constraints.namespaces.requirements:
        labels = await target.namespace_labels()
        if labels is not None and not constraints.namespaces.matches(labels):
            return None
    return found


def _resource_of(rules: Sequence[NamedRule], constraints: Constraints, target: Target) -> Resource | None:
    """Return the resource as which any of the rules matches a request, or None."""
    rules = [each for each in rules if not each.names or target.name in each.names]
    if not rules:
        return None
    if any(each.rule.matches(target.place) for each in rules):
        return target.resource
    if not constraints.equivalent:
        return None
    others = [(each, with_resource(target.place, each)) for each in target.equivalents()]
    return next(
        (other for each in rules for other, place in others if each.rule.matches(place)),
        None,
    )
