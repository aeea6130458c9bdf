"""FlowSchemas and PriorityLevelConfigurations. Pure.

Source: Kubernetes' `pkg/apis/flowcontrol`.
"""

import math

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    choice,
    indexed,
    items,
    needed,
    number,
    part,
    say,
    text,
)

_GROUP = "flowcontrol.apiserver.k8s.io"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_HASH_BITS = 60


def _schema_default(found: Object) -> None:
    spec = part(found, "spec")
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _schema(found: Object) -> Findings:
    spec, name = part(found, "spec"), text(part(found, "metadata"), "name")
    order = number(spec, "matchingPrecedence")
    here = "spec.matchingPrecedence"
    if order <= 0:
        yield errors.wrong(here, order, "must be a positive value")
    if order > 10000:
        yield errors.wrong(here, order, "must not be greater than 10000")
    if order == 1 and name != "exempt":
        yield errors.wrong(here, order, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and text(method, "type") not in ("ByNamespace", "ByUser"):
        shown = {"Type": text(method, "type")}
        yield errors.not_supported("spec.distinguisherMethod.type", shown, ("ByNamespace", "ByUser"))
    level = text(part(spec, "priorityLevelConfiguration"), "name")
    if not level:
        yield errors.required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    else:
        yield from say("spec.priorityLevelConfiguration.name", level, names.dns_subdomain(level))
    for rule, place in indexed(spec, "rules", "spec.rules"):
        yield from _rule(place, rule)


def _rule(path: str, rule: Object) -> Findings:
    if not items(rule, "subjects"):
        yield errors.required(f"{path}.subjects", "subjects must contain at least one value")
    for each, here in indexed(rule, "subjects", f"{path}.subjects"):
        yield from _subject(here, each)
    if not items(rule, "resourceRules") and not items(rule, "nonResourceRules"):
        yield errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for each, here in indexed(rule, "resourceRules", f"{path}.resourceRules"):
        yield from _resource_rule(here, each)
    for each, here in indexed(rule, "nonResourceRules", f"{path}.nonResourceRules"):
        yield from _verbs(f"{here}.verbs", items(each, "verbs"))
        yield from _urls(f"{here}.nonResourceURLs", items(each, "nonResourceURLs"))


def _subject(path: str, found: Object) -> Findings:
    kind = text(found, "kind")
    own = _SUBJECTS.get(kind)
    if own is None:
        yield errors.not_supported(f"{path}.kind", kind, ("Group", "ServiceAccount", "User"))
        return
    subject, here = found.get(own), f"{path}.{own}"
    if subject is None:
        yield errors.required(here, f"{own} is required when subject kind is '{kind}'")
    else:
        yield from needed(subject, "name", here)
        if kind == "ServiceAccount":
            yield from _account(here, subject)
    order = ("user", "group") if kind == "ServiceAccount" else ("serviceAccount", "user", "group")
    for key in order:
        if key != own and key in found:
            other = next(name for name, field in _SUBJECTS.items() if field == key)
            yield errors.not_allowed(
                f"{path}.{key}", f"{key} is forbidden when subject kind is not '{other}'"
            )


def _account(path: str, subject: Object) -> Findings:
    name, namespace = text(subject, "name"), text(subject, "namespace")
    if name and name != "*":
        yield from say(f"{path}.name", name, names.dns_subdomain(name))
    if namespace:
        yield from say(f"{path}.namespace", namespace, names.dns_label(namespace))
    else:
        yield errors.required(f"{path}.namespace", "must specify namespace for service account")


def _verbs(path: str, verbs: list[str]) -> Findings:
    if not verbs:
        yield errors.required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        if len(verbs) > 1:
            yield errors.wrong(path, verbs, "if '*' is present, must not specify other verbs")
    elif not set(verbs) <= set(_VERBS):
        yield errors.not_supported(path, verbs, _VERBS)


def _urls(path: str, urls: list[str]) -> Findings:
    if not urls:
        yield errors.required(path, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        if len(urls) > 1:
            yield errors.wrong(path, urls, "if '*' is present, must not specify other non-resource URLs")
    else:
        for index, each in enumerate(urls):
            wrong = _url(each)
            if wrong:
                yield errors.wrong(f"{path}[{index}]", each, wrong)


def _url(url: str) -> str:
    rules = (
        (not url, "must not be empty"),
        (not url.startswith("/"), "must start with slash"),
        (" " in url, "must not contain white-space"),
        ("//" in url, "must not contain double slash"),
        ("*" in url.removesuffix("/*"), "wildcard can only do suffix matching"),
    )
    return "" if url == "/" else next((told for broken, told in rules if broken), "")


def _resource_rule(path: str, rule: Object) -> Findings:
    yield from _verbs(f"{path}.verbs", items(rule, "verbs"))
    for key, what in (("apiGroups", "api group"), ("resources", "resource")):
        values = items(rule, key)
        if not values:
            yield errors.required(f"{path}.{key}", f"resource rules must supply at least one {what}")
        elif len(values) > 1 and "*" in values:
            yield errors.wrong(f"{path}.{key}", values, f"if '*' is present, must not specify other {what}s")
    namespaces, here = items(rule, "namespaces"), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        told = "resource rules that are not cluster scoped must supply at least one namespace"
        yield errors.required(here, told)
    elif "*" in namespaces:
        if len(namespaces) > 1:
            yield errors.wrong(here, namespaces, "if '*' is present, must not specify other namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for index, each in enumerate(namespaces):
            yield from say(f"{here}[{index}]", each, [intro + wrong for wrong in names.dns_label(each)])


def _level_default(found: Object) -> None:
    spec = part(found, "spec")
    for key, shares in (("exempt", 0), ("limited", 30)):
        if isinstance(spec.get(key), dict):
            fill(spec[key], {"nominalConcurrencyShares": shares, "lendablePercent": 0})
    queuing = part(spec, "limited", "limitResponse", "queuing")
    for key, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
        if "queuing" in part(spec, "limited", "limitResponse") and not queuing.get(key):
            queuing[key] = value


def _level(found: Object) -> Findings:
    spec, name = part(found, "spec"), text(part(found, "metadata"), "name")
    kind = text(spec, "type")
    if (name == "exempt") != (kind == "Exempt"):
        yield errors.wrong("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if "limited" in spec:
            yield errors.not_allowed("spec.limited", "must be nil if the type is not Limited")
        if "exempt" in spec:
            yield from _shares("spec.exempt", spec["exempt"])
    elif kind == "Limited":
        if "exempt" in spec:
            yield errors.not_allowed("spec.exempt", "must be nil if the type is Limited")
        if "limited" not in spec:
            yield errors.required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited("spec.limited", spec["limited"])
    else:
        yield from choice("spec.type", kind, ("Exempt", "Limited"))


def _shares(path: str, found: Object) -> Findings:
    if number(found, "nominalConcurrencyShares") < 0:
        value = number(found, "nominalConcurrencyShares")
        yield errors.wrong(f"{path}.nominalConcurrencyShares", value, "must be a non-negative integer")
    yield from _lendable(path, found)


def _lendable(path: str, found: Object) -> Findings:
    share = number(found, "lendablePercent")
    if not 0 <= share <= 100:
        yield errors.wrong(f"{path}.lendablePercent", share, "must be between 0 and 100, inclusive")


def _limited(path: str, found: Object) -> Findings:
    if number(found, "nominalConcurrencyShares") < 0:
        value = number(found, "nominalConcurrencyShares")
        yield errors.wrong(f"{path}.nominalConcurrencyShares", value, "must be a non-negative integer")
    yield from _response(f"{path}.limitResponse", part(found, "limitResponse"))
    yield from _lendable(path, found)
    limit = found.get("borrowingLimitPercent")
    if limit is not None and limit < 0:
        yield errors.wrong(
            f"{path}.borrowingLimitPercent", limit, "if specified, must be a non-negative integer"
        )


def _response(path: str, found: Object) -> Findings:
    kind, queuing = text(found, "type"), found.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            yield errors.not_allowed(
                f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited"
            )
    elif kind == "Queue":
        if queuing is None:
            told = "must not be empty if limited.limitResponse.type is Limited"
            yield errors.required(f"{path}.queuing", told)
        else:
            yield from _queuing(f"{path}.queuing", queuing)
    else:
        yield from choice(f"{path}.type", kind, ("Queue", "Reject"))


def _queuing(path: str, found: Object) -> Findings:
    length, queues, hand = (number(found, key) for key in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield errors.wrong(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield errors.wrong(f"{path}.queues", queues, "must be positive")
    elif queues > 10_000_000:
        yield errors.wrong(f"{path}.queues", queues, "must not be greater than 10000000")
    if hand <= 0:
        yield errors.wrong(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield errors.wrong(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        told = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        yield errors.wrong(f"{path}.handSize", hand, told)


def _status(new: Object, _: Object) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for each, here in indexed(part(new, "status"), "conditions", "status.conditions"):
        kind = text(each, "type")
        if kind in seen:
            found.append(errors.duplicate(f"{here}.type", kind))
        seen.add(kind)
        found.extend(needed(each, "type", here))
    return found


FLOW = {
    (_GROUP, "FlowSchema"): Part(
        default=_schema_default, validate=lambda found: list(_schema(found)), status_validate=_status
    ),
    (_GROUP, "PriorityLevelConfiguration"): Part(
        default=_level_default, validate=lambda found: list(_level(found)), status_validate=_status
    ),
}
