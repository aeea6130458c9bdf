"""What a MutatingAdmissionPolicy makes of an object.

As `plugin/policy/mutating` of apiserver's `pkg/admission`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from vcsync.controlplane.admission.policies.compiled import APPLY, Compiled, Mutation, compiled
from vcsync.controlplane.admission.policies.hooks import Hook
from vcsync.controlplane.admission.policies.patches import NotApplied, applied, patched
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.cel.conditions import Match, matched
from vcsync.controlplane.cel.patience import patiently
from vcsync.controlplane.cel.programs import BUDGET, Evaluation, OutOfBudget
from vcsync.controlplane.cel.request import Attributes
from vcsync.controlplane.schema.node import Schema

Key = tuple[str, str, str, str]
"""Names of policy and binding, namespace and name of the parameter."""
Finish = Callable[[Object], Awaitable[Object]]
"""Brings what a mutation left into the form that objects have, with defaults."""


@dataclass(slots=True)
class Reinvocation:
    """What is to be asked again, once something later has changed the object.

    Attributes:
        again: whether this is the second time.
        invoked: policies that want to be asked again if the object changes after them.
        wanted: those that are to be asked again.
        output: what the policies left the first time.
    """

    again: bool = False
    invoked: set[Key] = field(default_factory=set)
    wanted: set[Key] = field(default_factory=set)
    output: Object | None = None

    def changed(self) -> None:
        """The object has changed: whoever was asked before is to be asked again."""
        self.wanted |= self.invoked
        self.invoked.clear()


async def matches(hook: Hook, attributes: Attributes) -> Match:
    """Hold a request against the match conditions of a policy."""
    values = {**attributes.variables(), "namespaceObject": None}

    def evaluate() -> Match:
        policy = compiled(attributes.tenant, hook.key, hook.spec)
        return matched(policy.names, policy.conditions, values, policy.variables)

    return await patiently(attributes.tenant, evaluate)


async def mutated(hook: Hook, index: int, attributes: Attributes, schema: Schema | None) -> Object:
    """Return what one mutation of a policy makes of `attributes.object`.

    Raises:
        NotApplied: it cannot be evaluated or done; the failure policy says what then.
        StatusError: the request is refused in any case.
    """
    live, values = attributes.object or {}, attributes.variables()

    def evaluate() -> Object:
        policy = compiled(attributes.tenant, hook.key, hook.spec)
        return _made(policy, policy.mutations[index], values, live, schema)

    return await patiently(attributes.tenant, evaluate)


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
