"""The kind RoleBinding: the shared rules of `bindings`, namespaced. Pure.

Source: Kubernetes' `pkg/apis/rbac/validation`, `pkg/registry/rbac/rolebinding` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.rbac.bindings import (
    BINDING_COLUMNS,
    default_binding,
    validate_binding,
    validate_binding_update,
)
from vcsync.apimachinery.validation import names

KIND = Kind(
    group="rbac.authorization.k8s.io",
    kind="RoleBinding",
    plural="rolebindings",
    create_on_update=True,
    default=default_binding,
    validate=lambda found: list(validate_binding(found, namespaced=True)),
    validate_update=validate_binding_update(True),
    validate_name=names.segment_name,
    columns=BINDING_COLUMNS,
    repeats_finalizer_findings=True,
)
