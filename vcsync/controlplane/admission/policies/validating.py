"""What a ValidatingAdmissionPolicy says of a request: decisions and audit annotations.

As `plugin/policy/validating` of apiserver's `pkg/admission`.
"""

from dataclasses import dataclass, replace
from typing import Any

from vcsync.controlplane.admission.policies.compiled import Annotation, Compiled, Validation, compiled
from vcsync.controlplane.admission.policies.hooks import Hook
from vcsync.controlplane.cel.conditions import matched
from vcsync.controlplane.cel.patience import patiently
from vcsync.controlplane.cel.programs import BUDGET, Evaluation, OutOfBudget, Result
from vcsync.controlplane.cel.request import Attributes
from vcsync.controlplane.cel.values import type_name

LONGEST_MESSAGE = 5 * 1024
"""Bytes of what a messageExpression may say."""
CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class Denial:
    """A validation that is not met, or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Annotated:
    """What goes into the audit event; `error`: why nothing does."""

    key: str
    value: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that a policy says with one parameter."""

    denials: tuple[Denial, ...] = ()
    annotations: tuple[Annotated, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The values that a policy's expressions see: with the authorizer, and without."""

    with_authorizer: dict[str, Any]
    plain: dict[str, Any]


async def validate(hook: Hook, attributes: Attributes) -> Verdict:
    """Hold a request against a policy with one parameter (`attributes.params`)."""
    seen = _Seen(attributes.variables(), replace(attributes, ask=None).variables())

    def evaluate() -> Verdict:
        return _verdict(hook, compiled(attributes.tenant, hook.key, hook.spec), seen)

    return await patiently(attributes.tenant, evaluate)


def _failed(hook: Hook, told: str, index: int = 0) -> tuple[Denial, ...]:
    return (Denial(index, told),) if hook.fails else ()


def _verdict(hook: Hook, policy: Compiled, seen: _Seen) -> Verdict:
    if policy.conditions:
        # Namespaces are shown to validations, not to conditions.
        values = {**seen.with_authorizer, "namespaceObject": None}
        match = matched(policy.names, policy.conditions, values, policy.variables)
        if match.error:
            return Verdict(_failed(hook, match.error))
        if not match.matches:
            return Verdict()
    evaluation = Evaluation.begin(BUDGET)
    try:
        programs = [each.program for each in policy.validations]
        results = evaluation.all(programs, seen.with_authorizer, policy.variables)
    except OutOfBudget as why:
        return Verdict(_failed(hook, str(why)))
    messages, over = _messages(policy, evaluation, results, seen)
    denials: list[Denial] = []
    for index, (validation, result) in enumerate(zip(policy.validations, results, strict=True)):
        if result.error:
            denials += _failed(hook, result.error, index)
        elif over:
            denials += _failed(hook, f"failed messageExpression: {over}", index)
        elif result.value is not True:
            told = _message(validation, messages[index])
            denials.append(Denial(index, told, validation.reason or "Invalid"))
    try:
        evaluation = Evaluation(BUDGET, evaluation.work)
        programs = [each.program for each in policy.annotations]
        results = evaluation.all(programs, seen.plain, policy.variables)
    except OutOfBudget as why:
        return Verdict(_failed(hook, str(why)))
    annotations = (_annotated(hook, *pair) for pair in zip(policy.annotations, results, strict=True))
    return Verdict(tuple(denials), tuple(each for each in annotations if each is not None))


def _messages(
    policy: Compiled, evaluation: Evaluation, results: list[Result], seen: _Seen
) -> tuple[list[Result], str]:
    """Evaluate the message expressions; where all is well nobody reads them, but they cost the same.

    Returns:
        what they say, and why no more were evaluated.
    """
    if all(each.message_program is None for each in policy.validations):
        return [Result()] * len(results), ""
    try:
        programs = [each.message_program for each in policy.validations]
        return evaluation.all(programs, seen.plain, policy.variables), ""
    except OutOfBudget as why:
        return [], str(why)


def _message(validation: Validation, result: Result) -> str:
    told = result.value.strip() if isinstance(result.value, str) and not result.error else ""
    if len(told.encode("utf-8", "replace")) > LONGEST_MESSAGE or "\n" in told:
        told = ""
    return told or validation.message.strip() or f"failed expression: {validation.text.strip()}"


def _annotated(hook: Hook, annotation: Annotation, result: Result) -> Annotated | None:
    if result.error:
        return Annotated(annotation.key, error=result.error) if hook.fails else None
    if result.value is None:
        return None
    if isinstance(result.value, str):
        value = result.value.strip()
        return Annotated(annotation.key, value) if value else None
    told = f"valueExpression '{annotation.program.source}' resulted in unsupported return type: "
    kind = type_name(result.value)
    return Annotated(annotation.key, error=f"{told}{kind}. Return type must be either string or null.")
