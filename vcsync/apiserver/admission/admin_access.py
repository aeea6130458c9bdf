"""Admin access to devices: resource claims may request it only in namespaces that an administrator has labelled.

Source: `AuthorizedForAdmin` and `AuthorizedForAdminStatus` in Kubernetes' `pkg/registry/resource`.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.request.scope import Admission

GROUP, LABEL = "resource.k8s.io", "resource.kubernetes.io/admin-access"
_SPECS: Mapping[str, tuple[str, ...]] = {
    "resourceclaims": ("spec",),
    "resourceclaimtemplates": ("spec", "spec"),
}
"""Paths of the device requests by resource. Specs are immutable, so only creations are checked."""


async def admin_access(admission: Admission, lookup: Lookup) -> None:
    """Refuse requested or granted admin access in a namespace without the label.

    Raises:
        StatusError: 422.
    """
    path = _wanted(admission)
    if not path:
        return
    scope = admission.scope
    namespace = await lookup.get(scope.tenant, "", "namespaces", scope.namespace) or {}
    labels = namespace.get("metadata", {}).get("labels") or {}
    if labels.get(LABEL) == "true":
        return
    why = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    kind = scope.kind.resource.kind
    raise errors.invalid(kind, GROUP, admission.name, [errors.not_allowed(path, why)])


def _wanted(admission: Admission) -> str:
    """Return the path of the first request for admin access, or an empty text."""
    resource, new = admission.scope.kind.resource, admission.new
    if resource.group != GROUP or resource.plural not in _SPECS or new is None:
        return ""
    if admission.scope.subresource == "status":
        return "" if _granted(admission.old or {}) else _granted(new)
    if admission.operation != "CREATE":
        return ""
    spec = _below(new, *_SPECS[resource.plural])
    for index, each in enumerate(_below(spec, "devices").get("requests") or ()):
        if (each.get("exactly") or {}).get("adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def _granted(claim: Object) -> str:
    """Return the path of the first allocated device with admin access, or an empty text."""
    results = _below(claim, "status", "allocation", "devices").get("results") or ()
    for index, each in enumerate(results):
        if each.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""


def _below(found: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        found = found.get(key) or {}
    return found
