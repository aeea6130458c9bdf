"""Compiles TenantPolicies into the structures that admission enforces. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.api.policy_specs import (
    ForbiddenResource,
    PolicyServices,
    PolicyValidation,
    RequiredLabels,
    SelectedTenants,
    TenantPolicySpec,
)
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.policies import findings
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.selectors.label_selectors import LabelSelector
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.matching import selector_of
from vcsync.apiserver.admission.pod_standards.standards import Standard, minor_of
from vcsync.apiserver.admission.policies.hooks import Binding, Constraints, Hook, constraints_of
from vcsync.apiserver.admission.tenant_policies.placed import RBAC, Placed, problems_of, read_placed
from vcsync.apiserver.request.caller import SYSTEM

NEEDED = frozenset(
    {
        ("", "configmaps"), ("", "endpoints"), ("", "events"), ("", "namespaces"), ("", "nodes"), ("", "pods"),
        ("", "serviceaccounts"), ("apps", "controllerrevisions"), ("coordination.k8s.io", "leases"),
        ("discovery.k8s.io", "endpointslices"), ("events.k8s.io", "events"),
    }
)  # fmt: skip
"""Resources that control planes, controllers and syncers must be able to write in every tenant."""
NEEDED_GROUPS = frozenset({RBAC, "authentication.k8s.io", "authorization.k8s.io"})
UNLABELLED = NEEDED - {("", "configmaps"), ("", "namespaces"), ("", "pods")}
"""Resources of which vcsync's programs write objects that cannot have the tenant's labels."""
PRIVILEGED = Standard()
_ANY = LabelSelector(())
_EVERYTHING = Constraints(_ANY, _ANY, (), (), False)


@dataclass(frozen=True, slots=True)
class Names:
    """A set of resources by group and name. A name can have a subresource: `pods/exec`."""

    groups: frozenset[str]
    names: frozenset[str]

    def holds(self, resource: Resource, subresource: str) -> bool:
        """Return whether a resource, or its subresource, is in the set, under any of its groups."""
        if "*" not in self.groups and not {resource.group, resource.storage_group} & self.groups:
            return False
        plural = resource.plural
        if "*" in self.names or plural in self.names:
            return True
        return bool(subresource) and not self.names.isdisjoint(
            {f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}", "*/*"}
        )


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels that the objects of some resources must have: key and allowed values, which are any if there are none."""

    resources: Names
    labels: tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tenants that a policy selects. Without names and selector: all of them."""

    names: frozenset[str] | None = None
    selector: LabelSelector | None = None

    def selects(self, tenant: str, labels: Mapping[str, str], *, own_nodes: bool) -> bool:
        """Return whether a tenant is selected.

        Args:
            tenant: Name of the tenant.
            labels: Labels of its Tenant object.
            own_nodes: Whether it is a cluster with nodes of its own. Only a name selects those.
        """
        if self.names is not None:
            return tenant in self.names
        if own_nodes:
            return False
        return self.selector is None or self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """A compiled policy.

    Attributes:
        broken: Why the policy cannot be enforced. All writes of the selected tenants are refused then.
        registries: Allowed registries of images. Empty: all.
        standard: Pod Security Standard of all Pods.
        hooks: CEL validations.
        runtime_class: RuntimeClass of Pods that name none.
        services: What is allowed of Services. None: everything.
        placed: Objects that the operator places.
    """

    name: str
    selection: Selection = Selection()
    broken: str = ""
    forbidden: tuple[Names, ...] = ()
    labels: tuple[Labels, ...] = ()
    registries: tuple[str, ...] = ()
    standard: Standard = PRIVILEGED
    hooks: tuple[Hook, ...] = ()
    runtime_class: str = ""
    services: PolicyServices | None = None
    placed: tuple[Placed, ...] = ()

    @property
    def judges_pods(self) -> bool:
        """Whether the policy has rules about the contents of Pods."""
        return bool(self.registries) or self.standard.binds


class _Selecting(msgspec.Struct):
    tenants: SelectedTenants | None = None


def read_policy(name: str, key: tuple[str, int], spec: Any) -> TenantPolicy:
    """Compile a stored policy. One of another form is broken, for the tenants that it selects as far as that can be read."""
    try:
        return compile_policy(name, key, msgspec.convert(spec, TenantPolicySpec))
    except ValueError as error:  # msgspec's errors are ValueErrors too
        why = str(error)
    try:
        selection = selection_of(msgspec.convert(spec, _Selecting).tenants)
    except msgspec.ValidationError:
        selection = Selection()
    return TenantPolicy(name, selection, broken=why)


def compile_policy(name: str, key: tuple[str, int], spec: TenantPolicySpec) -> TenantPolicy:
    """Compile a policy whose expressions are valid.

    Args:
        name: Name of the policy.
        key: Changes whenever the policy changes.
        spec: Spec of the policy.
    """
    security = spec.pod_security
    standard = PRIVILEGED if security is None else Standard(security.level, minor_of(security.version) or 0)
    return TenantPolicy(
        name,
        selection_of(spec.tenants),
        forbidden=tuple(_names(each) for each in spec.forbidden_resources),
        labels=tuple(
            Labels(_names(each), tuple((label.key, frozenset(label.values)) for label in each.labels))
            for each in spec.required_labels
        ),
        registries=spec.image_registries,
        standard=standard,
        hooks=tuple(
            _hook(name, (f"{key[0]}/{index}", key[1]), each) for index, each in enumerate(spec.validations)
        ),
        runtime_class=spec.default_runtime_class_name or "",
        services=spec.service_policy,
        placed=tuple(read_placed(name, each) for each in spec.placed_objects),
    )


def selection_of(tenants: SelectedTenants | None) -> Selection:
    """Return which tenants a policy selects."""
    if tenants is None:
        return Selection()
    if tenants.selector is not None:
        return Selection(selector=selector_of(msgspec.to_builtins(tenants.selector)))
    return Selection(names=frozenset(tenants.names))


def _names(found: ForbiddenResource | RequiredLabels) -> Names:
    return Names(frozenset(found.api_groups), frozenset(found.resources))


def _hook(name: str, key: tuple[str, int], validation: PolicyValidation) -> Hook:
    rules = {
        "resourceRules": msgspec.to_builtins(validation.resource_rules),
        "matchPolicy": "Equivalent",
    }
    return Hook(
        name,
        key,
        {"validations": [_expressions(validation)]},
        constraints_of(rules),
        (Binding(name, {}, _EVERYTHING),),
        owner=SYSTEM,
    )


def _expressions(validation: PolicyValidation) -> Object:
    found: Object = msgspec.to_builtins(validation)
    return {key: value for key, value in found.items() if key != "resourceRules" and value}


def problems(spec: TenantPolicySpec) -> list[FieldError]:
    """Return what is wrong with a policy. It compiles its expressions; see `evaluate_cooperatively`."""
    expressions: Object = {
        "metadata": {},
        "spec": {"validations": [_expressions(each) for each in spec.validations]},
    }
    return [
        *findings.validating(expressions),
        *_needed(spec.forbidden_resources),
        *_unlabelled(spec.required_labels),
        *problems_of(spec.placed_objects),
    ]


def _needed(forbidden: Sequence[ForbiddenResource]) -> list[FieldError]:
    why = "every control plane needs it: forbid other resources, or use spec.validations for some of its objects"
    return [
        errors.wrong(f"spec.forbiddenResources[{index}].resources", plural, why)
        for index, each in enumerate(forbidden)
        for plural in each.resources
        if "/" not in plural and _touches(each.api_groups, plural, NEEDED, NEEDED_GROUPS)
    ]


def _unlabelled(required: Sequence[RequiredLabels]) -> list[FieldError]:
    why = "vcsync's own programs write such objects without the label: require it of other resources"
    return [
        errors.wrong(f"spec.requiredLabels[{index}].resources", plural, why)
        for index, each in enumerate(required)
        for plural in each.resources
        if _touches(each.api_groups, plural, UNLABELLED, NEEDED_GROUPS)
    ]


def _touches(
    groups: Sequence[str], plural: str, needed: frozenset[tuple[str, str]], needed_groups: frozenset[str]
) -> bool:
    if "*" in groups:
        return plural == "*" or any(plural == name for _, name in needed)
    if needed_groups & set(groups):
        return True
    return any(group in groups and plural in ("*", name) for group, name in needed)
