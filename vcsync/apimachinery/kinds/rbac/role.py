"""The kind Role: validation of its rules. Pure.

Source: Kubernetes' `pkg/apis/rbac/validation`, `pkg/registry/rbac/role` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.rbac.policy_rules import validate_rules
from vcsync.apimachinery.validation import names

KIND = Kind(
    group="rbac.authorization.k8s.io",
    kind="Role",
    plural="roles",
    create_on_update=True,
    validate=lambda found: list(validate_rules(found, namespaced=True)),
    validate_name=names.segment_name,
    repeats_finalizer_findings=True,
)
