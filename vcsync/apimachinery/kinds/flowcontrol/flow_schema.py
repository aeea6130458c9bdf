"""The kind FlowSchema: defaults, validation, status, columns and the order of rows. Pure.

Source: Kubernetes' `pkg/apis/flowcontrol/validation`,
`pkg/registry/flowcontrol/flowschema` and `pkg/printers/internalversion`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.flowcontrol.status import validate_status
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    needed,
    number,
    part,
    say,
    text,
)
from vcsync.apimachinery.wire import cells

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


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
    return "" if url == "/" else next((message for broken, message in rules if broken), "")


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
        message = "resource rules that are not cluster scoped must supply at least one namespace"
        yield errors.required(here, message)
    elif "*" in namespaces:
        if len(namespaces) > 1:
            yield errors.wrong(here, namespaces, "if '*' is present, must not specify other namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for index, each in enumerate(namespaces):
            yield from say(f"{here}[{index}]", each, [intro + wrong for wrong in names.dns_label(each)])


def dangling(obj: cells.Object, _: datetime) -> Any:
    """Return whether the priority level of a FlowSchema is missing."""
    return (cells.condition(obj, "Dangling") or {"status": "?"}).get("status", "")


def precedence(obj: cells.Object) -> tuple[int, str]:
    """Return the sort key of FlowSchemas: the order in which they match requests."""
    return cells.look(obj, "spec.matchingPrecedence", 0), cells.look(obj, "metadata.name", "")


KIND = Kind(
    group="flowcontrol.apiserver.k8s.io",
    kind="FlowSchema",
    plural="flowschemas",
    generation=("spec",),
    status=True,
    default=_schema_default,
    validate=lambda found: list(_schema(found)),
    status_validate=validate_status,
    columns={
        "Name": cells.name,
        "PriorityLevel": cells.field("spec.priorityLevelConfiguration.name"),
        "MatchingPrecedence": cells.field("spec.matchingPrecedence", 0),
        "DistinguisherMethod": cells.field("spec.distinguisherMethod.type", cells.NONE),
        "Age": cells.age,
        "MissingPL": dangling,
    },
    row_order=precedence,
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
    repeats_metadata_findings=False,
)
