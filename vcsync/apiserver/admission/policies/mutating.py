"""Evaluates the mutations of MutatingAdmissionPolicies.

Behaviour: `plugin/policy/mutating` of apiserver's `pkg/admission`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from vcsync.apimachinery.cel.conditions import Match, matched
from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively
from vcsync.apimachinery.cel.programs import BUDGET, Evaluation, OutOfBudget
from vcsync.apimachinery.cel.request import Attributes
from vcsync.apimachinery.policies.compiled import APPLY, Compiled, Mutation, compiled
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.policies.hooks import Hook
from vcsync.apiserver.admission.policies.patches import NotApplied, applied, patched

Key = tuple[str, str, str, str]
"""Names of policy and binding, namespace and name of the parameter."""
Finish = Callable[[Object], Awaitable[Object]]
"""Normalizes a mutated object, with defaults."""


@dataclass(slots=True)
class Reinvocation:
    """The state of reinvocation of policies.

    Attributes:
        again: Whether this is the second pass.
        invoked: Invoked policies that must run again if the object changes after them.
        wanted: Policies that run again in the second pass.
        output: The object after the policies of the first pass.
    """

    again: bool = False
    invoked: set[Key] = field(default_factory=set)
    wanted: set[Key] = field(default_factory=set)
    output: Object | None = None

    def changed(self) -> None:
        """Record that the object has changed, so that the invoked policies run again."""
        self.wanted |= self.invoked
        self.invoked.clear()


async def matches(hook: Hook, attributes: Attributes) -> Match:
    """Evaluate the match conditions of a policy on a request."""
    values = {**attributes.variables(), "namespaceObject": None}

    def evaluate() -> Match:
        policy = compiled(attributes.tenant, hook.key, hook.spec)
        return matched(policy.names, policy.conditions, values, policy.variables)

    return await evaluate_cooperatively(attributes.tenant, evaluate)


async def mutated(hook: Hook, index: int, attributes: Attributes, schema: Schema | None) -> Object:
    """Return `attributes.object` after one mutation of a policy.

    Raises:
        NotApplied: The mutation cannot be evaluated or applied. The failure policy decides.
        StatusError: The request is refused regardless of the failure policy.
    """
    live, values = attributes.object or {}, attributes.variables()

    def evaluate() -> Object:
        policy = compiled(attributes.tenant, hook.key, hook.spec)
        return _made(policy, policy.mutations[index], values, live, schema)

    return await evaluate_cooperatively(attributes.tenant, evaluate)


def _made(
    policy: Compiled, mutation: Mutation, values: dict[str, object], live: Object, schema: Schema | None
) -> Object:
    if mutation.program.error:
        raise NotApplied(mutation.program.error)
    try:
        [result] = Evaluation.begin(BUDGET).all([mutation.program], values, policy.variables)
    except OutOfBudget as why:
        raise NotApplied(str(why)) from None
    if result.error:
        raise NotApplied(result.error)
    if mutation.form != APPLY:
        return patched(live, result.value)
    return applied(schema or Schema("object", preserve_unknown=True), live, result.value)
