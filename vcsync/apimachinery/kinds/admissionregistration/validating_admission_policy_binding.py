"""The kind ValidatingAdmissionPolicyBinding: defaults, validation of its actions, columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/validatingadmissionpolicybinding` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.admission_policies import (
    POLICY_BINDING_COLUMNS,
    default_binding,
    validate_binding,
)
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation.fields import Findings, Object, items, part

_ACTIONS = ("Audit", "Deny", "Warn")


def _validating_binding(found: Object) -> Findings:
    yield from validate_binding(found)
    path, actions = "spec.validationActions", items(part(found, "spec"), "validationActions")
    if not actions:
        yield errors.required(path, "at least one validation action is required")
    seen: set[str] = set()
    for index, each in enumerate(actions):
        if each not in _ACTIONS:
            yield errors.not_supported(f"{path}[{index}]", each, _ACTIONS)
        if each in seen:
            yield errors.duplicate(f"{path}[{index}]", each)
        seen.add(each)
    if {"Deny", "Warn"} <= set(actions):
        why = "repeating the same validation failure information in the API response and headers serves no purpose"
        message = f"must not contain both Deny and Warn ({why})"
        yield errors.wrong(path, actions, message)


KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="ValidatingAdmissionPolicyBinding",
    plural="validatingadmissionpolicybindings",
    generation=("spec",),
    unconditional_update=False,
    default=default_binding,
    validate=lambda found: list(_validating_binding(found)),
    warnings=static_names.warnings,
    columns=POLICY_BINDING_COLUMNS,
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
