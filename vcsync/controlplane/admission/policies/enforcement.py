"""Policies of a tenant held against each of its writes: MutatingAdmissionPolicy and ValidatingAdmissionPolicy.

As the dispatchers of apiserver's `plugin/policy`. A tenant without policies costs a look into a dict.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from vcsync.controlplane import errors
from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.matching import is_exempt
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.admission.policies import mutating, validating
from vcsync.controlplane.admission.policies.conforming import check, schema_of
from vcsync.controlplane.admission.policies.hooks import Binding, Hook, Target, hooks, matched
from vcsync.controlplane.admission.policies.mutating import Reinvocation
from vcsync.controlplane.admission.policies.params import Misconfigured, collect, shown_kind
from vcsync.controlplane.admission.policies.patches import NotApplied
from vcsync.controlplane.admission.policies.validating import CODES, Denial
from vcsync.controlplane.admission.request import admission_request
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks.seen import Seen
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.cel.authorizing import Ask
from vcsync.controlplane.cel.request import Attributes
from vcsync.controlplane.errors import Cause, StatusError
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.scope import Admission

VALIDATING, MUTATING = "validatingadmissionpolicies", "mutatingadmissionpolicies"
LONGEST_ANNOTATION = 10 * 1024
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_KEPT = "MutatingAdmissionPolicy"
_VIRTUAL = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups of reviews: no policy is asked about them, so that none can lock everybody out."""

AskOf = Callable[[Admission], Ask]
"""Returns who answers the authorizer's questions about one write."""
ParamKind = Callable[[str, Object], Kind | None]
"""(tenant, paramKind) -> what serves it."""
FindParams = Callable[[str, Kind, str, str], Awaitable[list[Object]]]
"""(tenant, kind, namespace, name) -> served objects."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One reason why a request is refused; no binding: the policy itself is at fault."""

    hook: Hook
    binding: Binding | None
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A policy, a binding and a parameter that are about a request."""

    hook: Hook
    binding: Binding
    seen: Resource
    params: Object | None

    @property
    def key(self) -> mutating.Key:
        """What tells it from others."""
        metadata = (self.params or {}).get("metadata") or {}
        return (
            self.hook.name, self.binding.name, metadata.get("namespace") or "", metadata.get("name") or "",
        )  # fmt: skip


@dataclass(slots=True)
class Write:
    """One write while policies are held against it.

    Attributes:
        seen: the objects in the versions that policies ask for.
        ask: answers what the authorizer is asked.
    """

    target: Target
    seen: Seen
    ask: Ask


class Policies:
    """All tenants' policies."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        configurations: Configurations,
        lookup: Lookup,
        versions: Versions,
        ask: AskOf,
        param_kind: ParamKind,
        find_params: FindParams,
    ) -> None:
        """Take who knows policies, reads objects, converts them, answers for the authorizer, and finds parameters."""
        self._configurations = configurations
        self._lookup = lookup
        self._versions = versions
        self._ask = ask
        self._param_kind = param_kind
        self._find_params = find_params

    async def _hooks(self, asked: Admission, policies: str) -> Sequence[Hook]:
        """Return the policies that may be about a write."""
        tenant, resource = asked.scope.tenant, asked.scope.kind.resource
        known = self._configurations.known(tenant)
        if known is None:
            known = await self._configurations.load(tenant)
        if not known.objects or is_exempt(resource) or resource.group in _VIRTUAL:
            return ()
        found: Sequence[Hook] = known.make(policies, partial(hooks, policies=policies))
        return found

    async def _write(self, asked: Admission, *, working: bool) -> Write:
        scope = asked.scope
        seen = Seen(asked, self._versions, working=working)

        async def namespace(name: str) -> Object | None:
            return await self._lookup.get(scope.tenant, "", "namespaces", name)

        def equivalents() -> Sequence[Resource]:
            return self._versions.equivalents(scope.tenant, scope.kind.resource)

        new, old = asked.new, asked.old
        if scope.subresource == "scale":
            new, old = await seen.new(scope.kind.resource), await seen.old(scope.kind.resource)
        target = Target(asked, scope.name, new, old, namespace, equivalents)
        return Write(target, seen, self._ask(asked))

    async def _invocations(
        self, found: Sequence[Hook], write: Write, refused: list[Refused]
    ) -> AsyncIterator[Invocation]:
        """Yield what is about a write; misconfigured policies are added to `refused`."""
        for hook in found:
            seen = await matched(hook.constraints, write.target)
            if seen is None:
                continue
            wanted = hook.spec.get("paramKind")
            kind = self._param_kind(write.target.asked.scope.tenant, wanted) if wanted else None
            if wanted and kind is None:
                why = f"failed to find resource referenced by paramKind: '{shown_kind(wanted)}'"
                _misconfigured(refused, hook, None, why)
                continue
            for binding in hook.bindings:
                if await matched(binding.constraints, write.target) is None:
                    continue
                try:
                    params = await self._params(hook, binding, kind, write)
                except Misconfigured as why:
                    _misconfigured(refused, hook, binding, str(why))
                    continue
                for each in params:
                    yield Invocation(hook, binding, seen, each)

    async def _params(
        self, hook: Hook, binding: Binding, kind: Kind | None, write: Write
    ) -> Sequence[Object | None]:
        find = partial(self._find_params, write.target.asked.scope.tenant)
        reference, namespace = binding.spec.get("paramRef"), write.target.place.namespace
        return await collect(hook.spec.get("paramKind"), kind, reference, namespace, find)

    async def _attributes(self, invocation: Invocation, write: Write) -> Attributes:
        asked = write.target.asked
        return Attributes(
            asked.scope.tenant,
            admission_request(asked, invocation.seen, name=write.target.name),
            await write.seen.new(invocation.seen),
            await write.seen.old(invocation.seen),
            await write.target.namespace(),
            invocation.params,
            write.ask,
        )

    async def validate(self, asked: Admission) -> None:
        """Hold a write against the validating policies.

        Raises:
            StatusError: one refuses.
        """
        found = await self._hooks(asked, VALIDATING)
        if not found:
            return
        write, refused = await self._write(asked, working=True), list[Refused]()
        told: dict[tuple[str, str], list[str]] = {}
        async for each in self._invocations(found, write, refused):
            verdict = await validating.validate(each.hook, await self._attributes(each, write))
            for denial in verdict.denials:
                refused += _acted(asked, each, denial)
            for annotation in verdict.annotations:
                if annotation.error:
                    refused.append(Refused(each.hook, each.binding, annotation.error))
                    continue
                values = told.setdefault((each.hook.name, annotation.key), [])
                if annotation.value[:LONGEST_ANNOTATION] not in values:
                    values.append(annotation.value[:LONGEST_ANNOTATION])
            await asyncio.sleep(0)  # others' requests come between
        for (policy, key), values in told.items():
            asked.scope.audit.annotate(f"{policy}/{key}", ", ".join(values))
        if refused:
            raise _denied(asked, refused[0])

    async def mutate(self, asked: Admission) -> None:
        """Let the mutating policies change an object.

        Raises:
            StatusError: one refuses.
        """
        found = await self._hooks(asked, MUTATING)
        if not found:
            return
        state = asked.turn.kept.setdefault(_KEPT, Reinvocation())
        state.again = asked.turn.again
        if state.again and state.output != asked.new:
            state.changed()
        write, refused = await self._write(asked, working=False), list[Refused]()
        invocations = [each async for each in self._invocations(found, write, refused)]
        for each in invocations:
            await self._mutate(each, write, state, refused)
            await asyncio.sleep(0)
        state.output = _copied(asked.new)
        if refused:
            raise _mutation_refused(asked, refused)

    async def _mutate(
        self, invocation: Invocation, write: Write, state: Reinvocation, refused: list[Refused]
    ) -> None:
        hook, asked = invocation.hook, write.target.asked
        attributes = await self._attributes(invocation, write)
        match = await mutating.matches(hook, attributes)
        if match.error:
            if hook.fails:
                refused.append(Refused(hook, invocation.binding, match.error, "Invalid"))
            return
        if not match.matches or (state.again and invocation.key not in state.wanted):
            return
        for index in range(len(hook.spec.get("mutations") or ())):
            if asked.new is None:
                break
            attributes = await self._attributes(invocation, write)
            try:
                await self._apply(invocation, index, attributes, write, state)
            except NotApplied as why:
                if hook.fails:
                    refused.append(Refused(hook, invocation.binding, str(why), "Invalid"))
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            state.invoked.add(invocation.key)

    async def _apply(
        self, invocation: Invocation, index: int, attributes: Attributes, write: Write, state: Reinvocation
    ) -> None:
        """Put what one mutation makes of the object in its place."""
        asked, seen = write.target.asked, invocation.seen
        kind = self._versions.kind(asked.scope.tenant, seen)
        subresource = asked.scope.subresource
        schema = schema_of(kind, subresource)
        made = await mutating.mutated(invocation.hook, index, attributes, schema)
        check(kind, subresource, made)
        if await write.seen.change(seen, made):
            state.changed()
            asked.turn.wanted = True


def _copied(value: Object | None) -> Object | None:
    return None if value is None else json.loads(json.dumps(value))


def _misconfigured(refused: list[Refused], hook: Hook, binding: Binding | None, why: str) -> None:
    if hook.fails:
        part = "policy" if binding is None else "binding"
        refused.append(Refused(hook, binding, f"failed to configure {part}: {why}"))


def _acted(asked: Admission, each: Invocation, denial: Denial) -> Iterator[Refused]:
    """Do what a binding wants done about a validation that is not met; yield what refuses the request."""
    wanted = each.binding.spec.get("validationActions") or ()
    about = f"ValidatingAdmissionPolicy '{each.hook.name}' with binding '{each.binding.name}'"
    for action in wanted:
        if action == "Deny":
            yield Refused(each.hook, each.binding, denial.message, denial.reason)
        elif action == "Warn":
            asked.scope.warn([f"Validation failed for {about}: {denial.message}"])
        elif action == "Audit":
            told = {
                "message": denial.message,
                "policy": each.hook.name,
                "binding": each.binding.name,
                "expressionIndex": denial.index,
                "validationActions": list(wanted),
            }
            asked.scope.audit.annotate(FAILURE, json.dumps([told], separators=(",", ":"), ensure_ascii=False))


def name_of(asked: Admission) -> str:
    """Return how a refusal names the object (`extractResourceName`)."""
    if asked.scope.name:
        return asked.scope.name
    metadata = (asked.new or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def _forbidden(asked: Admission, why: str) -> StatusError:
    resource = asked.scope.kind.resource
    return errors.forbidden(resource.plural, resource.group, name_of(asked), why)


def _denied(asked: Admission, refused: Refused) -> StatusError:
    """Return the refusal of validating policies: the first one's."""
    bound = f" with binding '{refused.binding.name}'" if refused.binding is not None else ""
    told = f"ValidatingAdmissionPolicy '{refused.hook.name}'{bound} denied request: {refused.message}"
    found = _forbidden(asked, told)
    found.reason = refused.reason or "Invalid"
    found.code = CODES.get(found.reason, 422)
    found.causes = (Cause("", told),)
    return found


def _mutation_refused(asked: Admission, refused: Sequence[Refused]) -> StatusError:
    """Return the refusal of mutating policies: the first one's, with all as causes."""
    told = [
        f"policy '{each.hook.name}' with binding '{each.binding.name}' denied request: {each.message}"
        if each.binding is not None
        else f'policy "{each.hook.name}" denied request: {each.message}'
        for each in refused
    ]
    found = _forbidden(asked, "")
    found.message = told[0]
    found.reason = refused[0].reason or found.reason
    found.causes = tuple(Cause("", each) for each in told)
    return found
