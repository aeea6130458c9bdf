"""Validation of the policy rules of Roles and ClusterRoles. Pure.

Source: Kubernetes' `pkg/apis/rbac/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items


def validate_rules(found: Object, *, namespaced: bool) -> Findings:
    """Yield the findings on the rules of a role; `namespaced` says whether it is a Role."""
    for rule, here in indexed(found, "rules", "rules"):
        if not items(rule, "verbs"):
            yield errors.required(f"{here}.verbs", "verbs must contain at least one value")
        urls = items(rule, "nonResourceURLs")
        if urls:
            path = f"{here}.nonResourceURLs"
            if namespaced:
                yield errors.wrong(path, urls, "namespaced rules cannot apply to non-resource URLs")
            if any(items(rule, key) for key in ("apiGroups", "resources", "resourceNames")):
                message = "rules cannot apply to both regular resources and non-resource URLs"
                yield errors.wrong(path, urls, message)
            continue
        if not items(rule, "apiGroups"):
            yield errors.required(f"{here}.apiGroups", "resource rules must supply at least one api group")
        if not items(rule, "resources"):
            yield errors.required(f"{here}.resources", "resource rules must supply at least one resource")
