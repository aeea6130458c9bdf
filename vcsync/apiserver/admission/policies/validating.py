"""Evaluates ValidatingAdmissionPolicies: decisions and audit annotations.

Behaviour: `plugin/policy/validating` of apiserver's `pkg/admission`.
"""

from dataclasses import dataclass, replace
from typing import Any

from vcsync.apimachinery.cel.conditions import matched
from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively
from vcsync.apimachinery.cel.programs import BUDGET, Evaluation, OutOfBudget, Result
from vcsync.apimachinery.cel.request import Attributes
from vcsync.apimachinery.cel.values import type_name
from vcsync.apimachinery.policies.compiled import Annotation, Compiled, Validation, compiled
from vcsync.apiserver.admission.policies.hooks import Hook

LONGEST_MESSAGE = 5 * 1024
"""Most bytes of the result of a messageExpression."""
CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class Denial:
    """A validation that failed or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Annotated:
    """An audit annotation. `error` says why there is none."""

    key: str
    value: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a policy with one parameter."""

    denials: tuple[Denial, ...] = ()
    annotations: tuple[Annotated, ...] = ()


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables of a policy's expressions, with and without the authorizer."""

    with_authorizer: dict[str, Any]
    plain: dict[str, Any]


async def validate(hook: Hook, attributes: Attributes) -> Verdict:
    """Evaluate a policy with one parameter (`attributes.params`) on a request."""
    variables = _Variables(attributes.variables(), replace(attributes, ask=None).variables())

    def evaluate() -> Verdict:
        return _verdict(hook, compiled(hook.owner or attributes.tenant, hook.key, hook.spec), variables)

    return await evaluate_cooperatively(attributes.tenant, evaluate)


def _failed(hook: Hook, error: str, index: int = 0) -> tuple[Denial, ...]:
    return (Denial(index, error),) if hook.fails else ()


def _verdict(hook: Hook, policy: Compiled, variables: _Variables) -> Verdict:
    if policy.conditions:
        # Validations can use the Namespace; match conditions cannot.
        values = {**variables.with_authorizer, "namespaceObject": None}
        match = matched(policy.names, policy.conditions, values, policy.variables)
        if match.error:
            return Verdict(_failed(hook, match.error))
        if not match.matches:
            return Verdict()
    evaluation = Evaluation.begin(BUDGET)
    try:
        programs = [each.program for each in policy.validations]
        results = evaluation.all(programs, variables.with_authorizer, policy.variables)
    except OutOfBudget as why:
        return Verdict(_failed(hook, str(why)))
    messages, over = _messages(policy, evaluation, results, variables)
    denials: list[Denial] = []
    for index, (validation, result) in enumerate(zip(policy.validations, results, strict=True)):
        if result.error:
            denials += _failed(hook, result.error, index)
        elif over:
            denials += _failed(hook, f"failed messageExpression: {over}", index)
        elif result.value is not True:
            message = _message(validation, messages[index])
            denials.append(Denial(index, message, validation.reason or "Invalid"))
    try:
        evaluation = Evaluation(BUDGET, evaluation.work)
        programs = [each.program for each in policy.annotations]
        results = evaluation.all(programs, variables.plain, policy.variables)
    except OutOfBudget as why:
        return Verdict(_failed(hook, str(why)))
    annotations = (_annotated(hook, *pair) for pair in zip(policy.annotations, results, strict=True))
    return Verdict(tuple(denials), tuple(each for each in annotations if each is not None))


def _messages(
    policy: Compiled, evaluation: Evaluation, results: list[Result], variables: _Variables
) -> tuple[list[Result], str]:
    """Evaluate the message expressions, even if their results are not used: upstream counts their cost too.

    Returns:
        The results, and why no more expressions were evaluated.
    """
    if all(each.message_program is None for each in policy.validations):
        return [Result()] * len(results), ""
    try:
        programs = [each.message_program for each in policy.validations]
        return evaluation.all(programs, variables.plain, policy.variables), ""
    except OutOfBudget as why:
        return [], str(why)


def _message(validation: Validation, result: Result) -> str:
    computed = result.value.strip() if isinstance(result.value, str) and not result.error else ""
    if len(computed.encode("utf-8", "replace")) > LONGEST_MESSAGE or "\n" in computed:
        computed = ""
    return computed or validation.message.strip() or f"failed expression: {validation.text.strip()}"


def _annotated(hook: Hook, annotation: Annotation, result: Result) -> Annotated | None:
    if result.error:
        return Annotated(annotation.key, error=result.error) if hook.fails else None
    if result.value is None:
        return None
    if isinstance(result.value, str):
        value = result.value.strip()
        return Annotated(annotation.key, value) if value else None
    problem = f"valueExpression '{annotation.program.source}' resulted in unsupported return type"
    kind = type_name(result.value)
    return Annotated(annotation.key, error=f"{problem}: {kind}. Return type must be either string or null.")
