"""A tenant's policies with their bindings, and which requests they are about.

As `plugin/policy/generic` and `plugin/policy/matching` of apiserver's `pkg/admission`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vcsync.controlplane.admission.configurations import Configuration
from vcsync.controlplane.admission.matching import Place, Rule, labels_match, rule_of, selector_of
from vcsync.controlplane.admission.request import place_of, seen_at
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.labelselectors import LabelSelector
from vcsync.controlplane.rest.scope import Admission


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule for some objects. `names`: theirs, empty: all."""

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
    """One policy that is bound.

    Attributes:
        key: changes whenever the policy does.
    """

    name: str
    key: tuple[str, int]
    spec: Object
    constraints: Constraints
    bindings: tuple[Binding, ...]

    @property
    def fails(self) -> bool:
        """Whether what cannot be evaluated refuses the request."""
        return self.spec.get("failurePolicy") != "Ignore"


def _constraints(found: Object | None) -> Constraints:
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
    """Return all policies of one sort that have bindings, by name.

    Args:
        configuration: the tenant's.
        policies: plural of the policies.
    """
    found: dict[str, list[Binding]] = {}
    for _, each in configuration.of(policies.replace("policies", "policybindings")):
        spec = each.get("spec") or {}
        binding = Binding(each["metadata"]["name"], spec, _constraints(spec.get("matchResources")))
        found.setdefault(spec.get("policyName") or "", []).append(binding)
    return tuple(
        Hook(
            name,
            (f"{policies}/{each['metadata'].get('uid')}", revision),
            each.get("spec") or {},
            _constraints((each.get("spec") or {}).get("matchConstraints")),
            tuple(found[name]),
        )
        for revision, each in configuration.of(policies)
        if (name := each["metadata"]["name"]) in found
    )


@dataclass(slots=True)
class Target:
    """What policies are held against.

    Attributes:
        asked: the write.
        name: of the object in the request; empty: it has none yet.
        new: the object, in the version of the request; None: it is deleted.
        old: as it stands; None: it is created.
        find_namespace: reads a Namespace.
        equivalents: other resources under which the same objects are served.
    """

    asked: Admission
    name: str
    new: Object | None
    old: Object | None
    find_namespace: Callable[[str], Awaitable[Object | None]]
    equivalents: Callable[[], Sequence[Resource]]
    place: Place = field(init=False)
    _namespace: Object | None = None

    def __post_init__(self) -> None:
        """Find out where the write goes."""
        self.place = place_of(self.asked)

    @property
    def resource(self) -> Resource:
        """The resource of the request."""
        return self.asked.scope.kind.resource

    async def namespace(self) -> Object | None:
        """Return the Namespace in which the object is; None: in none."""
        if self._namespace is None and self.place.namespace and not self.place.is_namespace:
            self._namespace = await self.find_namespace(self.place.namespace)
        return self._namespace

    async def namespace_labels(self) -> Mapping[str, str] | None:
        """Return the labels that namespace selectors look at; None: they let it through."""
        if self.place.plural == "namespaces" and not self.place.subresource and self.new is not None:
            found = self.new
        elif not self.place.namespace:
            return None
        else:
            found = await self.find_namespace(self.place.namespace) or {}
        labels: Mapping[str, str] = (found.get("metadata") or {}).get("labels") or {}
        return labels


async def matched(constraints: Constraints, target: Target) -> Resource | None:
    """Return as which resource constraints mean a request; None: they don't."""
    excluded = _seen(constraints.excluded, constraints, target)
    if excluded is not None:
        return None
    found = _seen(constraints.rules, constraints, target) if constraints.rules else target.resource
    if found is None or not labels_match(constraints.objects, target.new, target.old):
        return None
    if constraints.namespaces.requirements:
        labels = await target.namespace_labels()
        if labels is not None and not constraints.namespaces.matches(labels):
            return None
    return found


def _seen(rules: Sequence[NamedRule], constraints: Constraints, target: Target) -> Resource | None:
    rules = [each for each in rules if not each.names or target.name in each.names]
    if not rules:
        return None
    if any(each.rule.matches(target.place) for each in rules):
        return target.resource
    if not constraints.equivalent:
        return None
    others = [(each, seen_at(target.place, each)) for each in target.equivalents()]
    return next(
        (other for each in rules for other, place in others if each.rule.matches(place)),
        None,
    )
