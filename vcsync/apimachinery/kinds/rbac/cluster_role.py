"""The kind ClusterRole: validation of rules and aggregation. Pure.

Source: Kubernetes' `pkg/apis/rbac/validation`, `pkg/registry/rbac/clusterrole` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.rbac.policy_rules import validate_rules
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, selector


def _cluster_role(found: Object) -> Findings:
    yield from validate_rules(found, namespaced=False)
    aggregation = found.get("aggregationRule")
    if aggregation is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not items(aggregation, "clusterRoleSelectors"):
        message = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield errors.required(path, message)
    for each, here in indexed(aggregation, "clusterRoleSelectors", path):
        wrong = list(selector(here, each))
        yield from wrong
        if wrong:
            yield errors.wrong(here, None, "invalid label selector.")


KIND = Kind(
    group="rbac.authorization.k8s.io",
    kind="ClusterRole",
    plural="clusterroles",
    create_on_update=True,
    validate=lambda found: list(_cluster_role(found)),
    validate_name=names.segment_name,
    repeats_finalizer_findings=True,
)
