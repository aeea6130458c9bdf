"""Match conditions of webhooks and policies: validation when they are written, evaluation on requests.

Source: `validateMatchConditionsExpression` of Kubernetes' `pkg/apis/admissionregistration/validation` and
`pkg/admission/plugin/webhook/matchconditions` of apiserver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively
from vcsync.apimachinery.cel.programs import CONDITIONS_BUDGET, Evaluation, OutOfBudget, Program
from vcsync.apimachinery.cel.request import Attributes, plain_environment
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.strategy import Behaviour, Object
from vcsync.objects.kept import Kept

_GROUP = "admissionregistration.k8s.io"
KINDS = ((_GROUP, "MutatingWebhookConfiguration"), (_GROUP, "ValidatingWebhookConfiguration"))
_KEPT = 500_000
"""Total source, in characters, of the conditions that stay compiled. A character takes about 100 bytes."""
_programs: Kept[str, Program] = Kept(_KEPT)


@dataclass(frozen=True, slots=True)
class Match:
    """The result of match conditions on a request.

    Attributes:
        matches: whether all conditions are true.
        failed: the name of the condition that is false.
        error: why a condition could not be evaluated, if none is false. The request is refused with this text if the
            failure policy is Fail, and does not match if it is Ignore.
    """

    matches: bool
    failed: str = ""
    error: str = ""


def condition(expression: str) -> Program:
    """Return a webhook's condition, compiled on the first call."""
    known = _programs.get(expression)
    if known is None:
        known = plain_environment(params=False).compile(expression, ("bool",))
        _programs.put(expression, known, len(expression))
    return known


async def evaluate_conditions(conditions: Sequence[Object], attributes: Attributes) -> Match:
    """Evaluate the match conditions of one webhook on a request.

    Args:
        conditions: `matchConditions`, each with a name and an expression.
        attributes: the request. Webhooks' conditions do not see its `namespace`, as upstream.
    """
    if not conditions:
        return Match(True)
    values = replace(attributes, namespace=None).variables()

    def evaluate() -> Match:
        programs = [condition(each.get("expression") or "") for each in conditions]
        return matched([each.get("name") or "" for each in conditions], programs, values)

    return await evaluate_cooperatively(attributes.tenant, evaluate)


def matched(
    names: Sequence[str],
    programs: Sequence[Program],
    values: dict[str, object],
    variables: Mapping[str, Program] | None = None,
) -> Match:
    """Evaluate compiled conditions, in a function for `cooperative.evaluate_cooperatively`."""
    try:
        results = Evaluation.begin(CONDITIONS_BUDGET).all(programs, values, variables)
    except OutOfBudget as why:
        return Match(False, error=str(why))
    for name, result in zip(names, results, strict=True):
        if not result.error and result.value is False:
            return Match(False, failed=name)
    found = [each.error for each in results if each.error]
    return Match(not found, error=_aggregate(found))


def _aggregate(found: Sequence[str]) -> str:
    """Format several errors as Go's `utilerrors.Aggregate` does."""
    told = list(dict.fromkeys(found))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def fault(expression: str) -> str:
    """Return the error of a match condition, or an empty string."""
    return condition(expression).error


def findings(configuration: Object) -> list[FieldError]:
    """Return the findings on the match conditions of a webhook configuration."""
    found = []
    for position, hook in enumerate(configuration.get("webhooks") or ()):
        for index, each in enumerate(hook.get("matchConditions") or ()):
            expression = (each.get("expression") or "").strip()
            if expression and (told := fault(expression)):
                path = f"webhooks[{position}].matchConditions[{index}].expression"
                found.append(errors.wrong(path, expression, told))
    return found


def _stored(configuration: Object) -> set[str]:
    hooks = configuration.get("webhooks") or ()
    return {each.get("expression") for hook in hooks for each in hook.get("matchConditions") or ()}


def compiled(behaviour: Behaviour) -> Behaviour:
    """Return a webhook configuration's behaviour, with findings on its match conditions added."""

    def validate(new: Object) -> list[FieldError]:
        return [*behaviour.validate(new), *findings(new)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        known = behaviour.validate_update(new, old)
        # Stored conditions were valid once. A stricter later rule must not prevent other changes.
        return known if _stored(new) <= _stored(old) else [*known, *findings(new)]

    return replace(behaviour, validate=validate, validate_update=validate_update)
