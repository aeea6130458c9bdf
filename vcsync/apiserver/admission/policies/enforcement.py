"""Enforces the MutatingAdmissionPolicies and ValidatingAdmissionPolicies of a tenant on each of its writes.

A tenant without policies costs one look-up in a dict.

Behaviour: the dispatchers of apiserver's `plugin/policy`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.authorizing import Ask
from vcsync.apimachinery.cel.request import Attributes
from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.configurations import Configurations
from vcsync.apiserver.admission.framework.matching import is_exempt
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.framework.request import admission_request
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.admission.policies import mutating, validating
from vcsync.apiserver.admission.policies.conforming import check, schema_of
from vcsync.apiserver.admission.policies.hooks import Binding, Hook, Target, hooks, matched
from vcsync.apiserver.admission.policies.mutating import Reinvocation
from vcsync.apiserver.admission.policies.params import Misconfigured, ParamSource, collect, shown_kind
from vcsync.apiserver.admission.policies.patches import NotApplied
from vcsync.apiserver.admission.policies.validating import CODES, Denial
from vcsync.apiserver.admission.webhooks.versioned_objects import VersionedObjects
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Admission

VALIDATING, MUTATING = "validatingadmissionpolicies", "mutatingadmissionpolicies"
LONGEST_ANNOTATION = 10 * 1024
"""Characters of an audit annotation after which it is truncated."""
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
"""Key of the audit annotation for failed validations."""
_NOTES = "MutatingAdmissionPolicy"
"""Key of the `Reinvocation` in the notes that both passes of mutation share."""
_VIRTUAL = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups of reviews, which are exempt from policies, so that a policy cannot lock all users out."""

AskOf = Callable[[Admission], Ask]
"""Returns the authorizer for the expressions of one write."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A reason why a request is refused. Without a binding, the policy itself is invalid."""

    hook: Hook
    binding: Binding | None
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A policy, a binding and a parameter that apply to a request.

    Attributes:
        resource: The resource as which the policy matched the request.
        params: The parameter. None: the policy has none.
    """

    hook: Hook
    binding: Binding
    resource: Resource
    params: Object | None

    @property
    def key(self) -> mutating.Key:
        """Identifies the invocation among those of a request."""
        metadata = (self.params or {}).get("metadata") or {}
        return (
            self.hook.name, self.binding.name, metadata.get("namespace") or "", metadata.get("name") or "",
        )  # fmt: skip


@dataclass(slots=True)
class Write:
    """A write while policies are evaluated on it.

    Attributes:
        target: The write as constraints match it.
        objects: Its objects in the versions that policies match.
        ask: Authorizer for expressions.
    """

    target: Target
    objects: VersionedObjects
    ask: Ask


class Policies:
    """Enforces the policies of all tenants."""

    def __init__(
        self,
        configurations: Configurations,
        lookup: Lookup,
        versions: Versions,
        ask: AskOf,
        params: ParamSource,
    ) -> None:
        """Create the enforcement.

        Args:
            configurations: Policies of all tenants.
            lookup: Reads Namespaces.
            versions: Converts objects.
            ask: Returns the authorizer for the expressions of a write.
            params: Finds parameters.
        """
        self._configurations = configurations
        self._lookup = lookup
        self._versions = versions
        self._ask = ask
        self._params = params

    async def _hooks(self, admission: Admission, policies: str) -> Sequence[Hook]:
        """Return the policies that may apply to a write."""
        tenant, resource = admission.scope.tenant, admission.scope.kind.resource
        known = self._configurations.known(tenant)
        if known is None:
            known = await self._configurations.load(tenant)
        if not known.objects or is_exempt(resource) or resource.group in _VIRTUAL:
            return ()
        found: Sequence[Hook] = known.make(policies, partial(hooks, policies=policies))
        return found

    async def _write(self, admission: Admission, *, working: bool) -> Write:
        scope = admission.scope
        objects = VersionedObjects(admission, self._versions, working=working)
        new, old = admission.new, admission.old
        if scope.subresource == "scale":
            new, old = await objects.new(scope.kind.resource), await objects.old(scope.kind.resource)
        target = Target(admission, scope.name, new, old, self._lookup, self._versions)
        return Write(target, objects, self._ask(admission))

    async def _invocations(
        self, found: Sequence[Hook], write: Write, refused: list[Refused]
    ) -> AsyncIterator[Invocation]:
        """Yield the invocations for a write. Misconfigured policies are added to `refused`."""
        for hook in found:
            resource = await matched(hook.constraints, write.target)
            if resource is None:
                continue
            wanted = hook.spec.get("paramKind")
            kind = self._params.kind(write.target.admission.scope.tenant, wanted) if wanted else None
            if wanted and kind is None:
                why = f"failed to find resource referenced by paramKind: '{shown_kind(wanted)}'"
                _misconfigured(refused, hook, None, why)
                continue
            for binding in hook.bindings:
                if await matched(binding.constraints, write.target) is None:
                    continue
                try:
                    params = await self._collect(binding, kind, write)
                except Misconfigured as why:
                    _misconfigured(refused, hook, binding, str(why))
                    continue
                for each in params:
                    yield Invocation(hook, binding, resource, each)

    async def _collect(self, binding: Binding, kind: Kind | None, write: Write) -> Sequence[Object | None]:
        tenant, namespace = write.target.admission.scope.tenant, write.target.place.namespace
        return await collect(self._params, tenant, kind, binding.spec.get("paramRef"), namespace)

    async def _attributes(self, invocation: Invocation, write: Write) -> Attributes:
        admission = write.target.admission
        return Attributes(
            admission.scope.tenant,
            admission_request(admission, invocation.resource, name=write.target.name),
            await write.objects.new(invocation.resource),
            await write.objects.old(invocation.resource),
            await write.target.namespace(),
            invocation.params,
            write.ask,
        )

    async def validate(self, admission: Admission) -> None:
        """Evaluate the validating policies on a write.

        Raises:
            StatusError: A policy refuses the write.
        """
        found = await self._hooks(admission, VALIDATING)
        if not found:
            return
        write, refused = await self._write(admission, working=True), list[Refused]()
        annotations: dict[tuple[str, str], list[str]] = {}
        async for each in self._invocations(found, write, refused):
            verdict = await validating.validate(each.hook, await self._attributes(each, write))
            for denial in verdict.denials:
                refused += _acted(admission, each, denial)
            for annotation in verdict.annotations:
                if annotation.error:
                    refused.append(Refused(each.hook, each.binding, annotation.error))
                    continue
                values = annotations.setdefault((each.hook.name, annotation.key), [])
                if annotation.value[:LONGEST_ANNOTATION] not in values:
                    values.append(annotation.value[:LONGEST_ANNOTATION])
            await asyncio.sleep(0)  # let other requests run
        for (policy, key), values in annotations.items():
            admission.scope.audit.annotate(f"{policy}/{key}", ", ".join(values))
        if refused:
            raise _denied(admission, refused[0])

    async def denials(self, admission: Admission, found: Sequence[Hook]) -> list[tuple[Hook, Denial]]:
        """Evaluate given policies, which need no parameters, on a write. Bindings take no actions.

        Args:
            admission: The write.
            found: The policies. One that cannot be evaluated denies the write.
        """
        denied: list[tuple[Hook, Denial]] = []
        if admission.scope.kind.resource.group in _VIRTUAL:
            return denied
        write = await self._write(admission, working=True)
        async for each in self._invocations(found, write, []):
            verdict = await validating.validate(each.hook, await self._attributes(each, write))
            denied += [(each.hook, denial) for denial in verdict.denials]
            await asyncio.sleep(0)  # let other requests run
        return denied

    async def mutate(self, admission: Admission) -> None:
        """Apply the mutating policies to an object.

        Raises:
            StatusError: A policy refuses the write.
        """
        found = await self._hooks(admission, MUTATING)
        if not found:
            return
        state = admission.mutation.notes.setdefault(_NOTES, Reinvocation())
        state.again = admission.mutation.is_reinvocation
        if state.again and state.output != admission.new:
            state.changed()
        write, refused = await self._write(admission, working=False), list[Refused]()
        invocations = [each async for each in self._invocations(found, write, refused)]
        for each in invocations:
            await self._mutate(each, write, state, refused)
            await asyncio.sleep(0)
        state.output = _copied(admission.new)
        if refused:
            raise _mutation_refused(admission, refused)

    async def _mutate(
        self, invocation: Invocation, write: Write, state: Reinvocation, refused: list[Refused]
    ) -> None:
        hook, admission = invocation.hook, write.target.admission
        attributes = await self._attributes(invocation, write)
        match = await mutating.matches(hook, attributes)
        if match.error:
            if hook.fails:
                refused.append(Refused(hook, invocation.binding, match.error, "Invalid"))
            return
        if not match.matches or (state.again and invocation.key not in state.wanted):
            return
        for index in range(len(hook.spec.get("mutations") or ())):
            if admission.new is None:
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
        """Apply one mutation to the object."""
        admission, resource = write.target.admission, invocation.resource
        kind = self._versions.kind(admission.scope.tenant, resource)
        subresource = admission.scope.subresource
        schema = schema_of(kind, subresource)
        made = await mutating.mutated(invocation.hook, index, attributes, schema)
        check(kind, subresource, made)
        if await write.objects.change(resource, made):
            state.changed()
            admission.mutation.needs_reinvocation = True


def _copied(value: Object | None) -> Object | None:
    return None if value is None else json.loads(json.dumps(value))


def _misconfigured(refused: list[Refused], hook: Hook, binding: Binding | None, why: str) -> None:
    if hook.fails:
        part = "policy" if binding is None else "binding"
        refused.append(Refused(hook, binding, f"failed to configure {part}: {why}"))


def _acted(admission: Admission, each: Invocation, denial: Denial) -> Iterator[Refused]:
    """Take the actions of a binding for a failed validation. Yields the reasons to refuse the request."""
    wanted = each.binding.spec.get("validationActions") or ()
    about = f"ValidatingAdmissionPolicy '{each.hook.name}' with binding '{each.binding.name}'"
    for action in wanted:
        if action == "Deny":
            yield Refused(each.hook, each.binding, denial.message, denial.reason)
        elif action == "Warn":
            admission.scope.warn([f"Validation failed for {about}: {denial.message}"])
        elif action == "Audit":
            value = {
                "message": denial.message,
                "policy": each.hook.name,
                "binding": each.binding.name,
                "expressionIndex": denial.index,
                "validationActions": list(wanted),
            }
            text = json.dumps([value], separators=(",", ":"), ensure_ascii=False)
            admission.scope.audit.annotate(FAILURE, text)


def name_of(admission: Admission) -> str:
    """Return the name of the object in refusals (upstream's `extractResourceName`)."""
    if admission.scope.name:
        return admission.scope.name
    metadata = (admission.new or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def _forbidden(admission: Admission, why: str) -> StatusError:
    resource = admission.scope.kind.resource
    return errors.forbidden(resource.plural, resource.group, name_of(admission), why)


def _denied(admission: Admission, refused: Refused) -> StatusError:
    """Return the refusal of the first validating policy."""
    bound = f" with binding '{refused.binding.name}'" if refused.binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{refused.hook.name}'{bound} denied request: {refused.message}"
    error = _forbidden(admission, message)
    error.reason = refused.reason or "Invalid"
    error.code = CODES.get(error.reason, 422)
    error.causes = (Cause("", message),)
    return error


def _mutation_refused(admission: Admission, refused: Sequence[Refused]) -> StatusError:
    """Return the refusal of the first mutating policy, with those of all policies as causes."""
    messages = [
        f"policy '{each.hook.name}' with binding '{each.binding.name}' denied request: {each.message}"
        if each.binding is not None
        else f'policy "{each.hook.name}" denied request: {each.message}'
        for each in refused
    ]
    error = _forbidden(admission, "")
    error.message = messages[0]
    error.reason = refused[0].reason or error.reason
    error.causes = tuple(Cause("", each) for each in messages)
    return error
