"""The rules that RoleBindings and ClusterRoleBindings share. Pure.

Source: Kubernetes' `pkg/apis/rbac/v1/defaults.go`, `pkg/apis/rbac/validation` and `pkg/printers/internalversion`.
"""

from collections.abc import Callable
from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, needed, part, say, text
from vcsync.apimachinery.wire import cells

_GROUP = "rbac.authorization.k8s.io"


def default_binding(found: Object) -> None:
    """Set the API groups that a binding omits."""
    reference = found.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in items(found, "subjects"):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def validate_binding(found: Object, *, namespaced: bool) -> Findings:
    """Yield the findings on a binding; `namespaced` says whether it is a RoleBinding."""
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


def validate_binding_update(namespaced: bool) -> Callable[[Object, Object], list[FieldError]]:
    """Return the validation of updates of RoleBindings or ClusterRoleBindings."""

    def validate(new: Object, old: Object) -> list[FieldError]:
        found = list(validate_binding(new, namespaced=namespaced))
        reference = part(new, "roleRef")
        if reference != part(old, "roleRef"):
            shown = {key: text(reference, field) for key, field in _REFERENCE}
            found.append(errors.wrong("roleRef", shown, "cannot change roleRef"))
        return found

    return validate


_REFERENCE = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def role(obj: cells.Object, _: datetime) -> str:
    """Return the kind and name of the role that a binding grants."""
    return f"{cells.look(obj, 'roleRef.kind', '')}/{cells.look(obj, 'roleRef.name', '')}"


def subjects(kind: str) -> cells.Cell:
    """Return the cell of a binding's subjects of one kind."""

    def cell(obj: cells.Object, _: datetime) -> str:
        found = [each for each in cells.look(obj, "subjects", ()) if each.get("kind") == kind]
        return ", ".join(_subject_cell(each) for each in found)

    return cell


def _subject_cell(subject: cells.Object) -> str:
    if subject.get("kind") == "ServiceAccount":
        return f"{subject.get('namespace', '')}/{subject.get('name', '')}"
    return str(subject.get("name", ""))


BINDING_COLUMNS: cells.Printer = {
    "Name": cells.name,
    "Role": role,
    "Age": cells.age,
    "Users": subjects("User"),
    "Groups": subjects("Group"),
    "ServiceAccounts": subjects("ServiceAccount"),
}
