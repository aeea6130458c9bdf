"""The rules that validating and mutating admission policies and their bindings share. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.admissionregistration.webhooks import default_match, default_rules, rule
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    one_of,
    part,
    say,
    selector,
    text,
)
from vcsync.apimachinery.wire import cells

MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")


def _default_resources(found: Object | None) -> None:
    if isinstance(found, dict):
        default_match(found)
        for key in ("resourceRules", "excludeResourceRules"):
            default_rules(found, key)


def default_policy(found: Object) -> None:
    """Set the defaults of a policy."""
    spec = found.get("spec")
    if isinstance(spec, dict):
        fill(spec, {"failurePolicy": "Fail"})
        _default_resources(spec.get("matchConstraints"))


def default_binding(found: Object) -> None:
    """Set the defaults of a binding."""
    spec = part(found, "spec")
    _default_resources(spec.get("matchResources"))


def _resources(path: str, found: Object) -> Findings:
    if found.get("matchPolicy") is not None:
        yield from one_of(f"{path}.matchPolicy", found["matchPolicy"], ("Equivalent", "Exact"))
    yield from selector(f"{path}.namespaceSelector", found.get("namespaceSelector"))
    yield from selector(f"{path}.objectSelector", found.get("objectSelector"))
    for key in ("resourceRules", "excludeResourceRules"):
        for each, here in indexed(found, key, f"{path}.{key}"):
            yield from rule(here, each)
            yield from _resource_names(f"{here}.resourceNames", items(each, "resourceNames"))


def _resource_names(path: str, found: list[str]) -> Findings:
    seen: set[str] = set()
    for index, name in enumerate(found):
        yield from say(f"{path}[{index}]", name, names.path_segment(name))
        if name in seen:
            yield errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def validate_param_kind(path: str, found: Object | None) -> Findings:
    """Yield the findings on the kind of a policy's parameters."""
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
        message = "may have mixed case, but should otherwise match: "
        yield from say(f"{path}.kind", kind, [message + each for each in wrong])


def validate_constraints(spec: Object) -> Findings:
    """Yield the findings on the objects and operations that a policy matches."""
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield errors.required("spec.matchConstraints")
        return
    yield from _resources("spec.matchConstraints", constraints)
    if not items(constraints, "resourceRules"):
        yield errors.required("spec.matchConstraints.resourceRules")


def _parameters(path: str, found: Object | None) -> Findings:
    if found is None:
        return
    name, chosen = text(found, "name"), found.get("selector")
    both = bool(name) and chosen is not None
    if name:
        yield from say(f"{path}.name", name, names.path_segment(name))
    if both:
        yield errors.not_allowed(f"{path}.name", "name and selector are mutually exclusive")
    yield from selector(f"{path}.selector", chosen)
    if both:
        yield errors.not_allowed(f"{path}.selector", "name and selector are mutually exclusive")
    if not name and chosen is None:
        yield errors.required(path, "one of name or selector must be specified")
    action = found.get("parameterNotFoundAction")
    if not action:
        yield errors.required(f"{path}.parameterNotFoundAction")
    else:
        yield from one_of(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def validate_mutable_operations(spec: Object, key: str) -> Findings:
    """Yield the findings on operations in whose requests a policy can change nothing.

    Args:
        spec: of a policy or a binding.
        key: the field with the rules.
    """
    for each in items(part(spec, key), "resourceRules"):
        for operation in items(each, "operations"):
            yield from one_of(f"spec.{key}.resourceRules.operations", operation, MUTABLE)


def validate_binding(found: Object) -> Findings:
    """Yield the findings on a binding."""
    spec = part(found, "spec")
    name = text(spec, "policyName")
    if not name:
        yield errors.required("spec.policyName")
    else:
        yield from say("spec.policyName", name, names.dns_subdomain(name))
    yield from _parameters("spec.paramRef", spec.get("paramRef"))
    yield from _resources("spec.matchResources", part(spec, "matchResources"))


def parameter_kind(obj: cells.Object, _: datetime) -> str:
    """Name the kind of an admission policy's parameters."""
    found = cells.look(obj, "spec.paramKind")
    return cells.UNSET if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"


def parameter(obj: cells.Object, _: datetime) -> str:
    """Name the parameters that a binding gives an admission policy."""
    found = cells.look(obj, "spec.paramRef", {})
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return _go_selector(found["selector"]) if found.get("selector") is not None else cells.UNSET


def _go_selector(selector: cells.Object) -> str:
    """Format a label selector as Go prints the struct, which is what kube-apiserver shows in the column."""
    labels = "".join(
        f"{key}: {value}," for key, value in sorted(cells.look(selector, "matchLabels", {}).items())
    )
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in cells.look(selector, "matchExpressions", ())
    )
    message = (
        f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},"
    )
    return f"&LabelSelector{{{message}}}"


POLICY_BINDING_COLUMNS = cells.aged(PolicyName=cells.field("spec.policyName"), ParamRef=parameter)
