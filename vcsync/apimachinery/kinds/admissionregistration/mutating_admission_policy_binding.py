"""The kind MutatingAdmissionPolicyBinding: defaults, validation and columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/mutatingadmissionpolicybinding` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.admission_policies import (
    POLICY_BINDING_COLUMNS,
    default_binding,
    validate_binding,
)
from vcsync.apimachinery.kinds.common.kind import Kind

KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="MutatingAdmissionPolicyBinding",
    plural="mutatingadmissionpolicybindings",
    generation=("spec",),
    unconditional_update=False,
    default=default_binding,
    validate=lambda found: list(validate_binding(found)),
    warnings=static_names.warnings,
    columns=POLICY_BINDING_COLUMNS,
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
