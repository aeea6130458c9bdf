"""The kind MutatingAdmissionPolicy: defaults, validation of mutations and variables, columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/mutatingadmissionpolicy` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.admission_policies import (
    default_policy,
    parameter_kind,
    validate_constraints,
    validate_mutable_operations,
    validate_param_kind,
)
from vcsync.apimachinery.kinds.admissionregistration.webhooks import match_conditions
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation.fields import Findings, Object, items, one_of, part, text
from vcsync.apimachinery.wire import cells


def _mutating(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of("spec.failurePolicy", text(spec, "failurePolicy"), ("Fail", "Ignore"))
    yield from validate_param_kind("spec.paramKind", spec.get("paramKind"))
    yield from validate_constraints(spec)
    yield from validate_mutable_operations(spec, "matchConstraints")
    yield from match_conditions("spec.matchConditions", items(spec, "matchConditions"))
    if not items(spec, "mutations"):
        yield errors.required("spec.mutations", "mutations must contain at least one item")
    policy = text(spec, "reinvocationPolicy")
    if not policy:
        yield errors.required("spec.reinvocationPolicy")
    else:
        yield from one_of("spec.reinvocationPolicy", policy, ("IfNeeded", "Never"))


KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="MutatingAdmissionPolicy",
    plural="mutatingadmissionpolicies",
    generation=("spec",),
    unconditional_update=False,
    default=default_policy,
    validate=lambda found: list(_mutating(found)),
    warnings=static_names.warnings,
    columns=cells.aged(Mutations=cells.count("spec.mutations"), ParamKind=parameter_kind),
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
