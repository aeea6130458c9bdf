"""Match conditions of webhooks and policies: found fault with when they are written, evaluated on requests.

As `validateMatchConditionsExpression` of Kubernetes' `pkg/apis/admissionregistration/validation` and
`pkg/admission/plugin/webhook/matchconditions` of apiserver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.cel.patience import patiently
from vcsync.controlplane.cel.programs import CONDITIONS_BUDGET, Evaluation, Kept, OutOfBudget, Program
from vcsync.controlplane.cel.request import Attributes, plain_environment
from vcsync.controlplane.errors import FieldError

_GROUP = "admissionregistration.k8s.io"
KINDS = ((_GROUP, "MutatingWebhookConfiguration"), (_GROUP, "ValidatingWebhookConfiguration"))
_KEPT = 500_000
"""Characters of source of the conditions that stay compiled; each takes about 100 bytes."""
_programs: Kept[str, Program] = Kept(_KEPT)


@dataclass(frozen=True, slots=True)
class Match:
    """What conditions say of a request.

    Attributes:
        matches: all are true.
        failed: name of the condition that is false.
        error: why it is not known, where none is false: with failure policy Fail the request is refused with this
            text, with Ignore it does not match.
    """

    matches: bool
    failed: str = ""
    error: str = ""


def condition(expression: str) -> Program:
    """Compile a webhook's condition, or return it as it was compiled before."""
    known = _programs.get(expression)
    if known is None:
        known = plain_environment(params=False).compile(expression, ("bool",))
        _programs.put(expression, known, len(expression))
    return known


async def evaluate_conditions(conditions: Sequence[Object], attributes: Attributes) -> Match:
    """Evaluate the match conditions of one webhook on a request.

    Args:
        conditions: `matchConditions`; each has a name and an expression.
        attributes: of the request; `namespace` is left out, as the real server does for webhooks.
    """
    if not conditions:
        return Match(True)
    values = replace(attributes, namespace=None).variables()

    def evaluate() -> Match:
        programs = [condition(each.get("expression") or "") for each in conditions]
        return matched([each.get("name") or "" for each in conditions], programs, values)

    return await patiently(attributes.tenant, evaluate)


def matched(
    names: Sequence[str],
    programs: Sequence[Program],
    values: dict[str, object],
    variables: Mapping[str, Program] | None = None,
) -> Match:
    """Evaluate compiled conditions; for `patience.patiently`."""
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
    """Write several errors as Go's `utilerrors.Aggregate` does."""
    told = list(dict.fromkeys(found))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def fault(expression: str) -> str:
    """Return what is wrong with a match condition, empty: nothing."""
    return condition(expression).error


def findings(configuration: Object) -> list[FieldError]:
    """Findings on the match conditions of a webhook configuration."""
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
    """Return a webhook configuration's rules with those on what its conditions say."""

    def validate(new: Object) -> list[FieldError]:
        return [*behaviour.validate(new), *findings(new)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        known = behaviour.validate_update(new, old)
        # What is stored was valid once; a rule that came later must not keep other changes out.
        return known if _stored(new) <= _stored(old) else [*known, *findings(new)]

    return replace(behaviour, validate=validate, validate_update=validate_update)
