"""The kind MutatingAdmissionPolicyBinding: defaults, validation and columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/mutatingadmissionpolicybinding` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.admission_policies import (
    POLICY_BINDING_COLUMNS,
    default_binding,
    validate_binding,
    validate_mutable_operations,
)
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation.fields import Findings, Object, part


def _binding(found: Object) -> Findings:
    yield from validate_binding(found)
    yield from validate_mutable_operations(part(found, "spec"), "matchResources")


KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="MutatingAdmissionPolicyBinding",
    plural="mutatingadmissionpolicybindings",
    generation=("spec",),
    unconditional_update=False,
    default=default_binding,
    validate=lambda found: list(_binding(found)),
    warnings=static_names.warnings,
    columns=POLICY_BINDING_COLUMNS,
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
