"""The kind ValidatingAdmissionPolicy: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/validatingadmissionpolicy` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.admission_policies import (
    default_policy,
    parameter_kind,
    validate_constraints,
    validate_param_kind,
)
from vcsync.apimachinery.kinds.admissionregistration.webhooks import match_conditions
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    conditions,
    indexed,
    items,
    needed,
    one_of,
    part,
    text,
)
from vcsync.apimachinery.wire import cells

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")


def _validating(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of("spec.failurePolicy", text(spec, "failurePolicy"), ("Fail", "Ignore"))
    yield from validate_param_kind("spec.paramKind", spec.get("paramKind"))
    yield from validate_constraints(spec)
    yield from match_conditions("spec.matchConditions", items(spec, "matchConditions"))
    validations, annotations = items(spec, "validations"), items(spec, "auditAnnotations")
    if not validations and not annotations:
        message = "validations or auditAnnotations must contain at least one item"
        yield errors.required("spec.validations", message)
        yield errors.required("spec.auditAnnotations", message)
    for each, here in indexed(spec, "validations", "spec.validations"):
        if not text(each, "expression").strip():
            yield errors.required(f"{here}.expression", "expression is not specified")
        if each.get("reason") is not None:
            yield from one_of(f"{here}.reason", each["reason"], _REASONS)
    yield from _annotations(annotations)


def _annotations(found: list[Object]) -> Findings:
    seen: set[str] = set()
    for index, each in enumerate(found):
        here, key = f"spec.auditAnnotations[{index}]", text(each, "key")
        if key in seen:
            yield errors.duplicate(f"{here}.key", key)
        seen.add(key)


def _status(new: Object, _: Object) -> list[FieldError]:
    checked = part(new, "status", "typeChecking")
    return [*_expression_warnings(checked), *_conditions(new)]


def _expression_warnings(checked: Object) -> Findings:
    for each, here in indexed(checked, "expressionWarnings", "status.typeChecking.expressionWarnings"):
        yield from needed(each, "warning", here)
        if not text(each, "fieldRef").strip():
            yield errors.required(f"{here}.fieldRef")


def _conditions(new: Object) -> list[FieldError]:
    return list(conditions("status.conditions", items(part(new, "status"), "conditions")))


KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    generation=("spec",),
    status=True,
    unconditional_update=False,
    default=default_policy,
    validate=lambda found: list(_validating(found)),
    warnings=static_names.warnings,
    status_validate=_status,
    columns=cells.aged(Validations=cells.count("spec.validations"), ParamKind=parameter_kind),
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
