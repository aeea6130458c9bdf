"""Calls the webhooks of a tenant for its writes: mutating ones one after the other, validating ones concurrently.

Source: apiserver's `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go` and `pkg/admission/reinvocation.go`.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.cooperative import evaluate_in_thread
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.patch import jsonpatch
from vcsync.apimachinery.patch.owners import read_from_client
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.configurations import Configuration, Configurations
from vcsync.apiserver.admission.framework.matching import is_exempt
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.admission.webhooks import annotations
from vcsync.apiserver.admission.webhooks.calls import CallingWebhookFailed, Reach, call, left
from vcsync.apiserver.admission.webhooks.hooks import MUTATING, VALIDATING, Hook, Hooks, hooks_in
from vcsync.apiserver.admission.webhooks.review import JSON_PATCH, Answer
from vcsync.apiserver.admission.webhooks.selection import AuthorizerFor, Request, no_authorizer
from vcsync.apiserver.admission.webhooks.versioned_objects import VersionedObjects
from vcsync.apiserver.request.scope import Admission, Admit, MutationPass
from vcsync.apiserver.storage.interface import Store
from vcsync.process.loop_turns import turn

INVALID_OWNERS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests"
)
FEW_OPERATIONS = 100
"""Operations of a webhook's JSON patch that are applied on the event loop. Each takes some ten microseconds."""
HOOKS_PER_TURN = 25
"""Webhooks that are decoded before the event loop runs other tasks. They take half a millisecond."""
_NONE = Hooks()
_log = structlog.get_logger(__name__)


class Webhooks:
    """Calls the webhooks of all tenants."""

    def __init__(
        self,
        store: Store,
        configurations: Configurations,
        versions: Versions,
        reach: Reach,
        authorizer_for: AuthorizerFor = no_authorizer,
    ) -> None:
        """Create the dispatcher.

        Args:
            store: The store, from which the labels of namespaces are read.
            configurations: Webhook configurations of all tenants.
            versions: Converts objects.
            reach: Sends calls.
            authorizer_for: Returns the authorizer for match conditions.
        """
        self._configurations = configurations
        self._lookup = Lookup(store)
        self._versions = versions
        self._reach = reach
        self._authorizer_for = authorizer_for

    async def _relevant(self, admission: Admission, plural: str) -> tuple[Hook, ...]:
        tenant, resource = admission.scope.tenant, admission.scope.kind.resource
        known = self._configurations.known(tenant) or await self._configurations.load(tenant)
        if plural not in known.objects or is_exempt(resource):
            return ()
        name = f"webhooks/{plural}"
        hooks: Hooks = known.made.get(name) or await known.make_async(name, partial(_read, plural))
        same = self._versions.equivalents(tenant, resource)
        own = (resource.group, resource.plural)
        return hooks.relevant((own, *((each.group, each.plural) for each in same if each.group != own[0])))

    def _request(self, admission: Admission, *, working: bool) -> Request:
        same = self._versions.equivalents(admission.scope.tenant, admission.scope.kind.resource)
        objects = VersionedObjects(admission, self._versions, working=working)
        return Request(admission, same, objects, self._lookup, self._authorizer_for(admission), named=working)

    async def validate(self, admission: Admission) -> None:
        """Call all validating webhooks concurrently. If several refuse the write, the error is that of the first.

        Raises:
            StatusError: A webhook refuses the write, or fails with failure policy Fail.
        """
        hooks = await self._relevant(admission, VALIDATING)
        if not hooks:
            return
        request = self._request(admission, working=True)
        invoked = [(hook, to) for hook in hooks if (to := await request.should_call(hook)) is not None]
        if not invoked:
            return
        left(admission.scope.began)
        for _, resource in invoked:
            await request.objects.json(resource)
        async with asyncio.TaskGroup() as tasks:
            calls = [
                tasks.create_task(self._refusal_of(hook, request, resource)) for hook, resource in invoked
            ]
        refusals = [refusal for each in calls if (refusal := each.result()) is not None]
        if refusals:
            raise refusals[0]

    async def _refusal_of(self, hook: Hook, request: Request, resource: Resource) -> StatusError | None:
        """Call a validating webhook. Return its refusal, or None if it allows the write."""
        try:
            return (await call(self._reach, hook, request, resource, mutating=False)).refusal
        except CallingWebhookFailed as why:
            if hook.ignore:
                annotations.failed_open(request.admission.scope.audit, hook, 0, mutating=False)
                return None
            return errors.internal(str(why))
        except StatusError as refusal:
            return refusal

    async def mutate(self, admission: Admission, known: "Reinvocation") -> None:
        """Call the mutating webhooks, one after the other. A second pass calls only those of `known.wanted`.

        Args:
            admission: The write. Its new object is changed in place.
            known: The state that both passes share.

        Raises:
            StatusError: A webhook refuses the write, or fails with failure policy Fail.
        """
        if admission.mutation.is_reinvocation and known.invoked and known.output != admission.new:
            known.require()
        hooks = await self._relevant(admission, MUTATING)
        if hooks:
            request = self._request(admission, working=False)
            before = _owners(admission.new)
            for hook in hooks:
                resource = await request.should_call(hook)
                if resource is None or (admission.mutation.is_reinvocation and hook.uid not in known.wanted):
                    continue
                await self._call(hook, request, resource, known)
            _keep_owners(admission, before)
        if known.invoked:
            known.output = copied(admission.new)

    async def _call(self, hook: Hook, request: Request, resource: Resource, known: "Reinvocation") -> None:
        admission, changed = request.admission, False
        round_ = int(admission.mutation.is_reinvocation)
        try:
            answer = await call(self._reach, hook, request, resource, mutating=True)
            if answer.refusal is not None:
                raise answer.refusal
            changed = await self._changed(hook, request, resource, answer)
        except CallingWebhookFailed as why:
            if not hook.ignore:
                raise errors.internal(str(why)) from why
            annotations.failed_open(admission.scope.audit, hook, round_, mutating=True)
            left(admission.scope.began)
        finally:
            annotations.mutated(admission.scope.audit, hook, round_, changed=changed)
        if changed:
            known.require()
            admission.mutation.needs_reinvocation = True
        if hook.again:
            known.invoked.add(hook.uid)

    async def _changed(self, hook: Hook, request: Request, resource: Resource, answer: Answer) -> bool:
        if not answer.patch:
            return False
        before = await request.objects.new(resource)
        if before is None:
            raise errors.internal(
                f'admission webhook "{hook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        if answer.patch_type != JSON_PATCH:
            raise CallingWebhookFailed(hook, f'unsupported patch type "{answer.patch_type}"')
        if len(answer.patch) > jsonpatch.MAX_OPERATIONS:
            raise errors.internal(f"a JSON patch has at most {jsonpatch.MAX_OPERATIONS} operations")
        try:
            apply = partial(jsonpatch.apply, before, answer.patch)
            many = len(answer.patch) > FEW_OPERATIONS
            tenant = request.admission.scope.tenant
            patched = await evaluate_in_thread(tenant, apply) if many else apply()
        except jsonpatch.DoesNotApply as why:
            raise errors.internal(str(why)) from None
        changed = await request.objects.change(resource, patched)
        annotations.patched(
            request.admission.scope.audit, hook, int(request.admission.mutation.is_reinvocation), answer.patch
        )
        return changed


@dataclass(slots=True)
class Reinvocation:
    """The state of reinvocation of the webhooks of a write.

    Attributes:
        invoked: Invoked webhooks that must be called again if the object changes after them, by uid.
        wanted: Webhooks that are called again in the second pass, by uid.
        output: The object after the webhooks of the first pass.
    """

    invoked: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    output: Object | None = None

    def require(self) -> None:
        """Record that the object has changed, so that the invoked webhooks are called again."""
        self.wanted |= self.invoked
        self.invoked = set()


def mutation(in_tree: Admit, policies: Admit, webhooks: Webhooks) -> Admit:
    """Return mutating admission: plug-ins, policies and webhooks, which run again if a later one changed the object."""

    async def admit(admission: Admission) -> None:
        known, mutation = Reinvocation(), MutationPass()
        first = _with_pass(admission, mutation)
        await in_tree(first)
        await policies(first)
        await webhooks.mutate(first, known)
        if mutation.needs_reinvocation:
            second = _with_pass(admission, MutationPass(is_reinvocation=True, notes=mutation.notes))
            await in_tree(second)
            await policies(second)
            await webhooks.mutate(second, known)

    return admit


def _with_pass(admission: Admission, mutation: MutationPass) -> Admission:
    return Admission(
        admission.scope,
        admission.operation,
        admission.name,
        admission.new,
        admission.old,
        admission.dry_run,
        admission.options,
        mutation,
    )


async def _read(plural: str, configuration: Configuration) -> Hooks:
    hooks: list[Hook] = []
    try:
        for each in hooks_in([value for _, value in configuration.stored(plural)]):
            hooks.append(each)
            if not len(hooks) % HOOKS_PER_TURN:
                await turn()
    except (KeyError, TypeError, AttributeError, ValueError):
        _log.exception("a webhook configuration cannot be read")
        return _NONE
    return Hooks(tuple(hooks))


def _owners(obj: Object | None) -> Any:
    return ((obj or {}).get("metadata") or {}).get("managedFields")


def _keep_owners(admission: Admission, before: Any) -> None:
    """Restore managedFields if webhooks left invalid ones (`NewManagedFieldsValidatingAdmissionController`)."""
    after = _owners(admission.new)
    if admission.new is None or after == before or not after or read_from_client(after) is not None:
        return
    wrong = any((each or {}).get("operation") not in ("Apply", "Update") for each in after)
    admission.scope.warn(
        [f"{INVALID_OWNERS}: operation must be `Apply` or `Update`" if wrong else INVALID_OWNERS]
    )
    if before is None:
        admission.new["metadata"].pop("managedFields")
    else:
        admission.new["metadata"]["managedFields"] = before
