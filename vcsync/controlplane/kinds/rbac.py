"""Roles and their bindings. Pure.

Source: Kubernetes' `pkg/apis/rbac`.
"""

from collections.abc import Callable

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    indexed,
    items,
    needed,
    part,
    say,
    selector,
    text,
)

_GROUP = "rbac.authorization.k8s.io"


def _rules(found: Object, *, namespaced: bool) -> Findings:
    for rule, here in indexed(found, "rules", "rules"):
        if not items(rule, "verbs"):
            yield errors.required(f"{here}.verbs", "verbs must contain at least one value")
        urls = items(rule, "nonResourceURLs")
        if urls:
            path = f"{here}.nonResourceURLs"
            if namespaced:
                yield errors.wrong(path, urls, "namespaced rules cannot apply to non-resource URLs")
            if any(items(rule, key) for key in ("apiGroups", "resources", "resourceNames")):
                told = "rules cannot apply to both regular resources and non-resource URLs"
                yield errors.wrong(path, urls, told)
            continue
        if not items(rule, "apiGroups"):
            yield errors.required(f"{here}.apiGroups", "resource rules must supply at least one api group")
        if not items(rule, "resources"):
            yield errors.required(f"{here}.resources", "resource rules must supply at least one resource")


def _cluster_role(found: Object) -> Findings:
    yield from _rules(found, namespaced=False)
    aggregation = found.get("aggregationRule")
    if aggregation is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not items(aggregation, "clusterRoleSelectors"):
        told = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield errors.required(path, told)
    for each, here in indexed(aggregation, "clusterRoleSelectors", path):
        wrong = list(selector(here, each))
        yield from wrong
        if wrong:
            yield errors.wrong(here, None, "invalid label selector.")


def _binding_default(found: Object) -> None:
    reference = found.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in items(found, "subjects"):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def _binding(found: Object, *, namespaced: bool) -> Findings:
    reference = part(found, "roleRef")
    if text(reference, "apiGroup") != _GROUP:
        yield errors.not_supported("roleRef.apiGroup", text(reference, "apiGroup"), (_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if text(reference, "kind") not in kinds:
        yield errors.not_supported("roleRef.kind", text(reference, "kind"), kinds)
    name = text(reference, "name")
    if not name:
        yield errors.required("roleRef.name")
    else:
        yield from say("roleRef.name", name, names.path_segment(name))
    for subject, here in indexed(found, "subjects", "subjects"):
        yield from _subject(here, subject, namespaced=namespaced)


def _subject(path: str, found: Object, *, namespaced: bool) -> Findings:
    yield from needed(found, "name", path)
    kind, group, name = text(found, "kind"), text(found, "apiGroup"), text(found, "name")
    if kind == "ServiceAccount":
        if name:
            yield from say(f"{path}.name", name, names.dns_subdomain(name))
        if group:
            yield errors.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not text(found, "namespace"):
            yield errors.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != _GROUP:
            yield errors.not_supported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        yield errors.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def _binding_update(namespaced: bool) -> Callable[[Object, Object], list[FieldError]]:
    def validate(new: Object, old: Object) -> list[FieldError]:
        found = list(_binding(new, namespaced=namespaced))
        reference = part(new, "roleRef")
        if reference != part(old, "roleRef"):
            shown = {key: text(reference, field) for key, field in _REFERENCE}
            found.append(errors.wrong("roleRef", shown, "cannot change roleRef"))
        return found

    return validate


_REFERENCE = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))

RBAC = {
    (_GROUP, "ClusterRole"): Part(validate=lambda found: list(_cluster_role(found)), name=names.segment_name),
    (_GROUP, "Role"): Part(
        validate=lambda found: list(_rules(found, namespaced=True)), name=names.segment_name
    ),
    (_GROUP, "ClusterRoleBinding"): Part(
        default=_binding_default,
        validate=lambda found: list(_binding(found, namespaced=False)),
        validate_update=_binding_update(False),
        name=names.segment_name,
    ),
    (_GROUP, "RoleBinding"): Part(
        default=_binding_default,
        validate=lambda found: list(_binding(found, namespaced=True)),
        validate_update=_binding_update(True),
        name=names.segment_name,
    ),
}
