"""Validation of a Pod's scheduling constraints: affinity, tolerations, topology spread. Pure.

Source: `validateAffinity`, `ValidateTolerations`, `validateTopologySpreadConstraints` and around in Kubernetes'
`pkg/apis/core/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    label_key,
    needed,
    number,
    one_of,
    part,
    positive,
    say,
    selector,
    text,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHT = "must be in the range 1-100"
_BAD_OPERATOR = "not a valid selector operator"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _requirement(path: str, found: Object, *, values_checked: bool) -> Findings:
    operator, values = text(found, "operator"), items(found, "values")
    if operator in ("In", "NotIn"):
        if not values:
            yield errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield errors.not_allowed(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield errors.required(
                f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        yield errors.wrong(f"{path}.operator", operator, _BAD_OPERATOR)
    yield from label_key(f"{path}.key", text(found, "key"))
    if values_checked:
        for index, value in enumerate(values):
            yield from say(f"{path}.values[{index}]", value, names.label_value(value))


def _field_requirement(path: str, found: Object) -> Findings:
    operator, values, key = text(found, "operator"), items(found, "values"), text(found, "key")
    if operator not in ("In", "NotIn"):
        yield errors.wrong(f"{path}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        yield errors.required(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if key != "metadata.name":
        yield errors.wrong(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from say(f"{path}.values[{index}]", value, names.dns_subdomain(value))


def node_term(path: str, found: Object, *, values_checked: bool) -> Findings:
    """Check one term of a node selector."""
    for each, here in indexed(found, "matchExpressions", f"{path}.matchExpressions"):
        yield from _requirement(here, each, values_checked=values_checked)
    for each, here in indexed(found, "matchFields", f"{path}.matchFields"):
        yield from _field_requirement(here, each)


def node_selector(path: str, found: Object) -> Findings:
    """Check a node selector."""
    if not items(found, "nodeSelectorTerms"):
        yield errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for each, here in indexed(found, "nodeSelectorTerms", f"{path}.nodeSelectorTerms"):
        yield from node_term(here, each, values_checked=True)


def affinity(path: str, found: Object | None) -> Findings:
    """Check a Pod's affinity."""
    if found is None:
        return
    nodes = part(found, "nodeAffinity")
    if isinstance(nodes.get(_REQUIRED), dict):
        yield from node_selector(f"{path}.nodeAffinity.{_REQUIRED}", nodes[_REQUIRED])
    for each, here in indexed(nodes, _PREFERRED, f"{path}.nodeAffinity.{_PREFERRED}"):
        yield from _weight(here, each)
        yield from node_term(f"{here}.preference", part(each, "preference"), values_checked=False)
    for key in ("podAffinity", "podAntiAffinity"):
        pods = part(found, key)
        for each, here in indexed(pods, _REQUIRED, f"{path}.{key}.{_REQUIRED}"):
            yield from _pod_term(here, each)
        for each, here in indexed(pods, _PREFERRED, f"{path}.{key}.{_PREFERRED}"):
            yield from _weight(here, each)
            yield from _pod_term(f"{here}.podAffinityTerm", part(each, "podAffinityTerm"))


def _weight(path: str, found: Object) -> Findings:
    if not 1 <= number(found, "weight") <= 100:
        yield errors.wrong(f"{path}.weight", number(found, "weight"), _WEIGHT)


def _pod_term(path: str, found: Object) -> Findings:
    yield from selector(f"{path}.labelSelector", found.get("labelSelector"))
    yield from selector(f"{path}.namespaceSelector", found.get("namespaceSelector"))
    for name in items(found, "namespaces"):
        yield from say(f"{path}.namespace", name, names.dns_label(name))
    yield from _label_keys(path, found)
    yield from needed(found, "topologyKey", path, "can not be empty")
    yield from label_key(f"{path}.topologyKey", text(found, "topologyKey"))


def _label_keys(path: str, found: Object) -> Findings:
    own = found.get("labelSelector")
    match, mismatch = items(found, "matchLabelKeys"), items(found, "mismatchLabelKeys")
    for key, listed in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if listed and own is None:
            yield errors.not_allowed(f"{path}.{key}", "must not be specified when labelSelector is not set")
        elif listed:
            for index, each in enumerate(listed):
                yield from label_key(f"{path}.{key}[{index}]", each)
    last = {each: index for index, each in enumerate(match)}
    unwanted = set(mismatch)
    seen = set(part(own, "matchLabels"))
    for each in items(own, "matchExpressions"):
        key = text(each, "key")
        if key in last and key in seen:
            yield errors.wrong(f"{path}[{last[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for index, each in enumerate(match):
        if each in unwanted:
            yield errors.wrong(
                f"{path}.matchLabelKeys[{index}]", each, "exists in both matchLabelKeys and mismatchLabelKeys"
            )


def tolerations(path: str, found: list[Object]) -> Findings:
    """Check a Pod's tolerations."""
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        key, operator, value = text(each, "key"), text(each, "operator"), text(each, "value")
        if key:
            yield from label_key(f"{here}.key", key)
        elif operator != "Exists":
            yield errors.wrong(
                f"{here}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if "tolerationSeconds" in each and text(each, "effect") != "NoExecute":
            yield errors.wrong(
                f"{here}.effect",
                text(each, "effect"),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        yield from _toleration_value(f"{here}.operator", operator, value)
        if text(each, "effect"):
            yield from one_of(f"{here}.effect", text(each, "effect"), EFFECTS)


def _toleration_value(path: str, operator: str, value: str) -> Findings:
    if operator in ("", "Equal"):
        wrong = names.label_value(value)
        if wrong:
            yield errors.wrong(path, value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield errors.wrong(path, value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield errors.not_supported(path, operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield errors.not_supported(path, operator, ("Equal", "Exists"))


def spread(path: str, found: list[Object]) -> Findings:
    """Check topology spread constraints."""
    last = {
        (text(each, "topologyKey"), text(each, "whenUnsatisfiable")): index
        for index, each in enumerate(found)
    }
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        key, action = text(each, "topologyKey"), text(each, "whenUnsatisfiable")
        yield from positive(f"{here}.maxSkew", number(each, "maxSkew"))
        yield from needed(each, "topologyKey", here, "can not be empty")
        yield from one_of(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        if last[key, action] > index:
            yield errors.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        domains = each.get("minDomains")
        if isinstance(domains, int):
            yield from positive(f"{here}.minDomains", domains)
            if action != "DoNotSchedule":
                yield errors.wrong(
                    f"{here}.minDomains",
                    domains,
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
                )
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in each:
                yield from one_of(f"{here}.{policy}", each[policy], ("Honor", "Ignore"))
        yield from _label_keys(here, each)
        yield from selector(f"{here}.labelSelector", each.get("labelSelector"))
