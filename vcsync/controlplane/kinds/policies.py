"""Admission policies and their bindings. Pure.

Whether expressions compile is for the engine to say that evaluates them.

Source: Kubernetes' `pkg/apis/admissionregistration`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    conditions,
    indexed,
    items,
    needed,
    one_of,
    part,
    say,
    selector,
    text,
)
from vcsync.controlplane.kinds.webhooks import GROUP, default_match, default_rules, match_conditions, rule

_MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")


def _default_resources(found: Object | None) -> None:
    if isinstance(found, dict):
        default_match(found)
        for key in ("resourceRules", "excludeResourceRules"):
            default_rules(found, key)


def _policy_default(found: Object) -> None:
    spec = found.get("spec")
    if isinstance(spec, dict):
        fill(spec, {"failurePolicy": "Fail"})
        _default_resources(spec.get("matchConstraints"))


def _binding_default(found: Object) -> None:
    spec = part(found, "spec")
    _default_resources(spec.get("matchResources"))


def _resources(path: str, found: Object, operations: tuple[str, ...]) -> Findings:
    if found.get("matchPolicy") is not None:
        yield from one_of(f"{path}.matchPolicy", found["matchPolicy"], ("Equivalent", "Exact"))
    yield from selector(f"{path}.namespaceSelector", found.get("namespaceSelector"))
    yield from selector(f"{path}.objectSelector", found.get("objectSelector"))
    for key in ("resourceRules", "excludeResourceRules"):
        for each, here in indexed(found, key, f"{path}.{key}"):
            yield from rule(here, each, operations=operations)
            yield from _resource_names(f"{here}.resourceNames", items(each, "resourceNames"))


def _resource_names(path: str, found: list[str]) -> Findings:
    seen: set[str] = set()
    for index, name in enumerate(found):
        yield from say(f"{path}[{index}]", name, names.path_segment(name))
        if name in seen:
            yield errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _param_kind(path: str, found: Object | None) -> Findings:
    if found is None:
        return
    version, kind = text(found, "apiVersion"), text(found, "kind")
    if not version:
        yield errors.required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield errors.wrong(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, name = version.rpartition("/")
        if group:
            yield from say(f"{path}.apiVersion", group, names.dns_subdomain(group))
        yield from say(f"{path}.apiVersion", name, names.dns_label_1035(name))
    if not kind:
        yield errors.required(f"{path}.kind")
    else:
        wrong = names.dns_label_1035(kind.lower())
        told = "may have mixed case, but should otherwise match: "
        yield from say(f"{path}.kind", kind, [told + each for each in wrong])


def _constraints(spec: Object, operations: tuple[str, ...]) -> Findings:
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield errors.required("spec.matchConstraints")
        return
    yield from _resources("spec.matchConstraints", constraints, operations)
    if not items(constraints, "resourceRules"):
        yield errors.required("spec.matchConstraints.resourceRules")


def _validating(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of("spec.failurePolicy", text(spec, "failurePolicy"), ("Fail", "Ignore"))
    yield from _param_kind("spec.paramKind", spec.get("paramKind"))
    yield from _constraints(spec, _OPERATIONS)
    yield from match_conditions("spec.matchConditions", items(spec, "matchConditions"))
    validations, annotations = items(spec, "validations"), items(spec, "auditAnnotations")
    if not validations and not annotations:
        told = "validations or auditAnnotations must contain at least one item"
        yield errors.required("spec.validations", told)
        yield errors.required("spec.auditAnnotations", told)
    for each, here in indexed(spec, "validations", "spec.validations"):
        if not text(each, "expression").strip():
            yield errors.required(f"{here}.expression", "expression is not specified")
        if each.get("reason"):
            yield from one_of(f"{here}.reason", each["reason"], _REASONS)
    yield from _annotations(annotations)


def _annotations(found: list[Object]) -> Findings:
    seen: set[str] = set()
    for index, each in enumerate(found):
        here, key = f"spec.auditAnnotations[{index}]", text(each, "key")
        yield from needed(each, "key", here)
        if key in seen:
            yield errors.duplicate(f"{here}.key", key)
        seen.add(key)
        if not text(each, "valueExpression").strip():
            yield errors.required(f"{here}.valueExpression", "valueExpression is not specified")


def _mutating(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of("spec.failurePolicy", text(spec, "failurePolicy"), ("Fail", "Ignore"))
    yield from _param_kind("spec.paramKind", spec.get("paramKind"))
    yield from _constraints(spec, _MUTABLE)
    yield from match_conditions("spec.matchConditions", items(spec, "matchConditions"))
    if not items(spec, "mutations"):
        yield errors.required("spec.mutations", "mutations must contain at least one item")
    policy = text(spec, "reinvocationPolicy")
    if not policy:
        yield errors.required("spec.reinvocationPolicy")
    else:
        yield from one_of("spec.reinvocationPolicy", policy, ("IfNeeded", "Never"))


def _parameters(path: str, found: Object | None) -> Findings:
    if found is None:
        return
    name, chosen = text(found, "name"), found.get("selector")
    if name and chosen is not None:
        yield errors.not_allowed(f"{path}.name", "name and selector are mutually exclusive")
    if name:
        yield from say(f"{path}.name", name, names.path_segment(name))
    if not name and chosen is None:
        yield errors.required(path, "one of name or selector must be specified")
    yield from selector(f"{path}.selector", chosen)
    action = found.get("parameterNotFoundAction")
    if not action:
        yield errors.required(f"{path}.parameterNotFoundAction")
    else:
        yield from one_of(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _binding(found: Object, operations: tuple[str, ...]) -> Findings:
    spec = part(found, "spec")
    name = text(spec, "policyName")
    if not name:
        yield errors.required("spec.policyName")
    else:
        yield from say("spec.policyName", name, names.dns_subdomain(name))
    yield from _parameters("spec.paramRef", spec.get("paramRef"))
    yield from _resources("spec.matchResources", part(spec, "matchResources"), operations)


def _validating_binding(found: Object) -> Findings:
    yield from _binding(found, _OPERATIONS)
    path, actions = "spec.validationActions", items(part(found, "spec"), "validationActions")
    if not actions:
        yield errors.required(path, "at least one validation action is required")
    seen: set[str] = set()
    for index, each in enumerate(actions):
        if each not in _ACTIONS:
            yield errors.not_supported(f"{path}[{index}]", each, _ACTIONS)
        if each in seen:
            yield errors.duplicate(f"{path}[{index}]", each)
        seen.add(each)
    if {"Deny", "Warn"} <= set(actions):
        why = "repeating the same validation failure information in the API response and headers serves no purpose"
        told = f"must not contain both Deny and Warn ({why})"
        yield errors.wrong(path, actions, told)


def _status(new: Object, _: Object) -> list[FieldError]:
    return list(conditions("status.conditions", items(part(new, "status"), "conditions")))


POLICIES = {
    (GROUP, "ValidatingAdmissionPolicy"): Part(
        default=_policy_default, validate=lambda found: list(_validating(found)), status_validate=_status
    ),
    (GROUP, "ValidatingAdmissionPolicyBinding"): Part(
        default=_binding_default, validate=lambda found: list(_validating_binding(found))
    ),
    (GROUP, "MutatingAdmissionPolicy"): Part(
        default=_policy_default, validate=lambda found: list(_mutating(found))
    ),
    (GROUP, "MutatingAdmissionPolicyBinding"): Part(
        default=_binding_default, validate=lambda found: list(_binding(found, _MUTABLE))
    ),
}
