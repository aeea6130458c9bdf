"""Asks a tenant's webhooks about its writes: those that change objects one after the other, those that judge at once.

Source: apiserver's `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go` and `pkg/admission/reinvocation.go`.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from vcsync.controlplane import errors
from vcsync.controlplane.admission.configurations import Configuration, Configurations
from vcsync.controlplane.admission.matching import is_exempt
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks import annotations
from vcsync.controlplane.admission.webhooks.calls import Failed, Reach, call, left
from vcsync.controlplane.admission.webhooks.hooks import MUTATING, VALIDATING, Hook, Hooks, hooks_in
from vcsync.controlplane.admission.webhooks.review import JSON_PATCH, Answer
from vcsync.controlplane.admission.webhooks.seen import Seen
from vcsync.controlplane.admission.webhooks.selection import AskFor, Request, nobody
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.patch import jsonpatch
from vcsync.controlplane.patch.owners import read_from_client
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.scope import Admission, Admit, Turn
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.store.interface import Store

INVALID_OWNERS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests"
)
AT_ONCE = 25
"""Webhooks that are read before others in the event loop get their turn: half a millisecond."""
_NONE = Hooks()
_log = structlog.get_logger(__name__)


class Webhooks:
    """The webhooks of every tenant."""

    def __init__(
        self,
        store: Store,
        configurations: Configurations,
        versions: Versions,
        reach: Reach,
        ask_for: AskFor = nobody,
    ) -> None:
        """Take what they need.

        Args:
            store: for the labels of namespaces.
            configurations: which there are.
            versions: converts objects.
            reach: calls them.
            ask_for: the authorizer that match conditions see.
        """
        self._configurations = configurations
        self._lookup = Lookup(store)
        self._versions = versions
        self._reach = reach
        self._ask_for = ask_for

    async def _concerned(self, asked: Admission, plural: str) -> tuple[Hook, ...]:
        tenant, resource = asked.scope.tenant, asked.scope.kind.resource
        known = self._configurations.known(tenant) or await self._configurations.load(tenant)
        if plural not in known.objects or is_exempt(resource):
            return ()
        name = f"webhooks/{plural}"
        hooks: Hooks = known.made.get(name) or await known.make_gently(name, partial(_read, plural))
        same = self._versions.equivalents(tenant, resource)
        own = (resource.group, resource.plural)
        return hooks.concerned((own, *((each.group, each.plural) for each in same if each.group != own[0])))

    def _request(self, asked: Admission, *, working: bool) -> Request:
        same = self._versions.equivalents(asked.scope.tenant, asked.scope.kind.resource)
        seen = Seen(asked, self._versions, working=working)
        return Request(asked, same, seen, self._lookup, self._ask_for(asked), named=working)

    async def validate(self, asked: Admission) -> None:
        """Ask all validating webhooks at once; the first refusal, in their order, ends the request.

        Raises:
            StatusError: one refuses, or has failed and must not.
        """
        hooks = await self._concerned(asked, VALIDATING)
        if not hooks:
            return
        request = self._request(asked, working=True)
        invoked = [(each, seen) for each in hooks if (seen := await request.asks(each)) is not None]
        if not invoked:
            return
        left(asked.scope.began)
        for _, seen in invoked:
            await request.seen.json(seen)
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(self._judged(each, request, seen)) for each, seen in invoked]
        refusals = [found for each in asking if (found := each.result()) is not None]
        if refusals:
            raise refusals[0]

    async def _judged(self, hook: Hook, request: Request, resource: Resource) -> StatusError | None:
        """Return why a webhook refuses, None: it does not."""
        try:
            return (await call(self._reach, hook, request, resource, mutating=False)).refusal
        except Failed as why:
            if hook.ignore:
                annotations.failed_open(request.asked.scope.audit, hook, 0, mutating=False)
                return None
            return errors.internal(str(why))
        except StatusError as refusal:
            return refusal

    async def mutate(self, asked: Admission, known: "Invoked") -> None:
        """Ask the mutating webhooks, one after the other; in the second turn those that want to see changes.

        Raises:
            StatusError: one refuses, or has failed and must not.
        """
        if asked.turn.again and known.invoked and known.output != asked.new:
            known.require()
        hooks = await self._concerned(asked, MUTATING)
        if hooks:
            request = self._request(asked, working=False)
            before = _owners(asked.new)
            for hook in hooks:
                resource = await request.asks(hook)
                if resource is None or (asked.turn.again and hook.uid not in known.wanted):
                    continue
                await self._ask(hook, request, resource, known)
            _keep_owners(asked, before)
        if known.invoked:
            known.output = copied(asked.new)

    async def _ask(self, hook: Hook, request: Request, resource: Resource, known: "Invoked") -> None:
        asked, turn, changed = request.asked, int(request.asked.turn.again), False
        try:
            answer = await call(self._reach, hook, request, resource, mutating=True)
            if answer.refusal is not None:
                raise answer.refusal
            changed = await self._changed(hook, request, resource, answer)
        except Failed as why:
            if not hook.ignore:
                raise errors.internal(str(why)) from why
            annotations.failed_open(asked.scope.audit, hook, turn, mutating=True)
            left(asked.scope.began)
        finally:
            annotations.mutated(asked.scope.audit, hook, turn, changed=changed)
        if changed:
            known.require()
            asked.turn.wanted = True
        if hook.again:
            known.invoked.add(hook.uid)

    async def _changed(self, hook: Hook, request: Request, resource: Resource, answer: Answer) -> bool:
        if not answer.patch:
            return False
        before = await request.seen.new(resource)
        if before is None:
            raise errors.internal(
                f'admission webhook "{hook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        if answer.patch_type != JSON_PATCH:
            raise Failed(hook, f'unsupported patch type "{answer.patch_type}"')
        if len(answer.patch) > jsonpatch.MAX_OPERATIONS:
            raise errors.internal(f"a JSON patch has at most {jsonpatch.MAX_OPERATIONS} operations")
        try:
            patched = jsonpatch.apply(before, answer.patch)
        except jsonpatch.DoesNotApply as why:
            raise errors.internal(str(why)) from None
        changed = await request.seen.change(resource, patched)
        annotations.patched(request.asked.scope.audit, hook, int(request.asked.turn.again), answer.patch)
        return changed


@dataclass(slots=True)
class Invoked:
    """Which webhooks of a write were asked already, and which of them shall see it again."""

    invoked: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    output: Object | None = None

    def require(self) -> None:
        """Let all that were asked, and want to, see the object again."""
        self.wanted |= self.invoked
        self.invoked = set()


def mutation(in_tree: Admit, policies: Admit, webhooks: Webhooks) -> Admit:
    """Return what changes objects: plug-ins, policies, webhooks; once more when one that came late changed something."""

    async def admit(asked: Admission) -> None:
        known, turn = Invoked(), Turn()
        first = _turned(asked, turn)
        await in_tree(first)
        await policies(first)
        await webhooks.mutate(first, known)
        if turn.wanted:
            second = _turned(asked, Turn(again=True, kept=turn.kept))
            await in_tree(second)
            await policies(second)
            await webhooks.mutate(second, known)

    return admit


def _turned(asked: Admission, turn: Turn) -> Admission:
    return Admission(
        asked.scope, asked.operation, asked.name, asked.new, asked.old, asked.dry_run, asked.options, turn
    )


async def _read(plural: str, found: Configuration) -> Hooks:
    hooks: list[Hook] = []
    try:
        for each in hooks_in([value for _, value in found.stored(plural)]):
            hooks.append(each)
            if not len(hooks) % AT_ONCE:
                await turn()
    except (KeyError, TypeError, AttributeError, ValueError):
        _log.exception("a webhook configuration cannot be read")
        return _NONE
    return Hooks(tuple(hooks))


def _owners(obj: Object | None) -> Any:
    return ((obj or {}).get("metadata") or {}).get("managedFields")


def _keep_owners(asked: Admission, before: Any) -> None:
    """Put managedFields back if webhooks left nonsense there (`NewManagedFieldsValidatingAdmissionController`)."""
    after = _owners(asked.new)
    if asked.new is None or after == before or not after or read_from_client(after) is not None:
        return
    wrong = any((each or {}).get("operation") not in ("Apply", "Update") for each in after)
    asked.scope.warn(
        [f"{INVALID_OWNERS}: operation must be `Apply` or `Update`" if wrong else INVALID_OWNERS]
    )
    if before is None:
        asked.new["metadata"].pop("managedFields")
    else:
        asked.new["metadata"]["managedFields"] = before
