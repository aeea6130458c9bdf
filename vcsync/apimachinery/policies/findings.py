"""Validates the expressions of policies: each must compile.

Follows `validateValidatingAdmissionPolicy` and `validateMutatingAdmissionPolicy` of Kubernetes'
`pkg/apis/admissionregistration/validation`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.declared import RESERVED
from vcsync.apimachinery.cel.programs import Program
from vcsync.apimachinery.cel.request import plain_environment
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.policies.compiled import APPLY, JSON_PATCH, PATCHES, Compiler
from vcsync.apimachinery.strategy import Behaviour, Object
from vcsync.apimachinery.validation import names
from vcsync.patterns.linear import linear

_LINE_BREAK = linear(r"[\n\r]")
_IDENTIFIER = linear(r"[_a-zA-Z][_a-zA-Z0-9]*")
_LONGEST_ANNOTATION, _MOST_ANNOTATIONS = 5 * 1024, 20
Findings = Iterator[FieldError]


def _fault(path: str, shown: str, program: Program) -> Findings:
    if program.error:
        yield errors.wrong(path, shown, program.error)


def _conditions(spec: Object, *, params: bool) -> Findings:
    for index, each in enumerate(spec.get("matchConditions") or ()):
        source = (each.get("expression") or "").strip()
        if source:
            found = plain_environment(params=params).compile(source, ("bool",))
            yield from _fault(f"spec.matchConditions[{index}].expression", source, found)


def _variables(spec: Object, compiler: Compiler) -> Findings:
    for index, each in enumerate(spec.get("variables") or ()):
        path = f"spec.variables[{index}]"
        name, source = each.get("name") or "", each.get("expression") or ""
        if not name.strip():
            yield errors.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
            yield errors.wrong(f"{path}.name", name, "must be a valid CEL identifier")
        if not source.strip():
            yield errors.required(f"{path}.expression", "expression is not specified")
        else:
            yield from _fault(f"{path}.expression", source, compiler.variable(name, source))


def _validations(spec: Object, compiler: Compiler) -> Findings:
    for index, each in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{index}]"
        source, message_source = each.get("expression") or "", each.get("messageExpression") or ""
        message = each.get("message") or ""
        if source.strip():
            yield from _fault(f"{path}.expression", source, compiler.expression(source, ("bool",)))
        if message_source.strip():
            program = compiler.expression(message_source, ("string",), authorizer=False)
            yield from _fault(f"{path}.messageExpression", message_source, program)
        elif message_source:
            yield errors.wrong(f"{path}.messageExpression", message_source, "must be non-empty if specified")
        if message and not message.strip():
            yield errors.wrong(f"{path}.message", message, "must be non-empty if specified")
        elif _LINE_BREAK.search(message.strip()):
            yield errors.wrong(f"{path}.message", message, "must not contain line breaks")


def _annotations(policy: Object, spec: Object, compiler: Compiler) -> Findings:
    annotations = spec.get("auditAnnotations") or ()
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield errors.wrong("spec.auditAnnotations", annotations, detail)
    name = policy["metadata"].get("name") or ""
    for index, each in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", each.get("key") or ""
        if not name:
            yield errors.wrong(f"{path}.key", key, "requires metadata.name be non-empty")
        for why in names.qualified_name(f"{name}/{key}") if name else ():
            yield errors.wrong(f"{path}.key", f"{name}/{key}", why)
        source = each.get("valueExpression") or ""
        if not source.strip():
            yield errors.required(f"{path}.valueExpression", "valueExpression is not specified")
        elif len(source.strip()) > _LONGEST_ANNOTATION:
            detail = f"must not exceed {_LONGEST_ANNOTATION} bytes in length"
            yield errors.required(f"{path}.valueExpression", detail)
        else:
            program = compiler.expression(source.strip(), ("string", "null_type"))
            yield from _fault(f"{path}.valueExpression", source, program)


def _mutations(spec: Object, compiler: Compiler) -> Findings:
    for index, each in enumerate(spec.get("mutations") or ()):
        path, form = f"spec.mutations[{index}]", each.get("patchType") or ""
        if not form:
            yield errors.required(f"{path}.patchType")
            continue
        if form not in PATCHES:
            yield errors.not_supported(f"{path}.patchType", form, (APPLY, JSON_PATCH))
            continue
        part, outputs = PATCHES[form]
        [other] = [name for name, _ in PATCHES.values() if name != part]
        if each.get(part) is None:
            yield errors.required(f"{path}.{part}", f"must be specified when patchType is {form}")
        else:
            source = (each[part].get("expression") or "").strip()
            if not source:
                yield errors.required(f"{path}.{part}.expression")
            else:
                program = compiler.making(source, outputs)
                yield from _fault(f"{path}.{part}.expression", source, program)
        if each.get(other) is not None:
            detail = f"must not be specified when patchType is {form}"
            yield errors.wrong(f"{path}.{other}", f"{{{other}}}", detail)


def validating(policy: Object) -> list[FieldError]:
    """Return the findings on the expressions of a ValidatingAdmissionPolicy."""
    spec = policy.get("spec") or {}
    params = spec.get("paramKind") is not None
    compiler = Compiler(params=params, composed=bool(spec.get("variables")))
    return [
        *_conditions(spec, params=params),
        *_variables(spec, compiler),
        *_validations(spec, compiler),
        *_annotations(policy, spec, compiler),
    ]


def mutating(policy: Object) -> list[FieldError]:
    """Return the findings on the expressions of a MutatingAdmissionPolicy."""
    spec = policy.get("spec") or {}
    params = spec.get("paramKind") is not None
    compiler = Compiler(params=params)
    return [
        *_conditions(spec, params=params),
        *_variables(spec, compiler),
        *_mutations(spec, compiler),
    ]


def _with(behaviour: Behaviour, found: Callable[[Object], list[FieldError]]) -> Behaviour:
    def validate(new: Object) -> list[FieldError]:
        return [*behaviour.validate(new), *found(new)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        known = behaviour.validate_update(new, old)
        # A stored spec was valid when it was written. Newer rules must not block other changes of the object.
        return known if new.get("spec") == old.get("spec") else [*known, *found(new)]

    return replace(behaviour, validate=validate, validate_update=validate_update)


_GROUP = "admissionregistration.k8s.io"
_FINDINGS: Mapping[tuple[str, str], Callable[[Object], list[FieldError]]] = {
    (_GROUP, "ValidatingAdmissionPolicy"): validating,
    (_GROUP, "MutatingAdmissionPolicy"): mutating,
}


def compiled(behaviours: Mapping[tuple[str, str], Behaviour]) -> dict[tuple[str, str], Behaviour]:
    """Return the rules of policies with the rules on their expressions added."""
    return {key: _with(behaviours[key], found) for key, found in _FINDINGS.items()}
