"""The committer: executes the actions of controllers and puts the results into the mirrors immediately."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from vcsync.controllers.framework.mirror import Key, Mirror
from vcsync.controllers.framework.plan import (
    Absent,
    Action,
    Create,
    Delete,
    Emit,
    Failure,
    Outcome,
    Patch,
    Post,
)
from vcsync.controllers.framework.reporting import Reporter
from vcsync.fairqueue import ObjectName, Timeline
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Status
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.process.loop_turns import turn

FIRST_AT_ONCE = 1
MOST_AT_ONCE = 32
"""Actions of a step run in batches of 1, 2, 4, ..., so that an exhausted quota refuses only one request."""


class Committer:
    """Writes to all tenants."""

    def __init__(
        self,
        server: Client,
        mirrors: Mapping[Resource, Mirror],
        reporter: Reporter,
        timeline: Timeline,
    ) -> None:
        """Initialize with the control plane's client, the mirrors to update, the Events' recorder, and a log."""
        self._server = server
        self._mirrors = mirrors
        self._reporter = reporter
        self._timeline = timeline

    async def steps(self, component: str, tenant: str, steps: Sequence[Sequence[Action]]) -> Outcome:
        """Execute steps one after another, until an action fails."""
        client = self._server.below(f"/tenants/{tenant}")
        done: list[Action] = []
        for step in steps:
            for batch in _batches(step):
                results = await asyncio.gather(
                    *(self._do(component, tenant, client, action) for action in batch)
                )
                failures = [
                    Failure(action, error)
                    for action, error in zip(batch, results, strict=True)
                    if error is not None
                ]
                done += [action for action, error in zip(batch, results, strict=True) if error is None]
                if failures:
                    return Outcome(done, failures)
        return Outcome(done)

    def emit(self, component: str, tenant: str, event: Emit) -> None:
        """Report an Event without waiting for its write."""
        self._reporter.emit(
            tenant, component, event.about, event.type, event.reason, event.message, now=time.time()
        )

    async def _do(self, component: str, tenant: str, client: Client, action: Action) -> KubeError | None:
        await turn()  # In the API server's process, a batch of requests would hold up all others.
        try:
            match action:
                case Emit():
                    self.emit(component, tenant, action)
                case Create():
                    self._observe(tenant, action.resource, await _create(client, action))
                case Patch():
                    await self._patch(tenant, client, action)
                case Delete():
                    await self._delete(tenant, client, action)
                case Absent():
                    await self._absent(tenant, client, action)
                case Post():
                    await client.create_raw(
                        action.resource,
                        action.body,
                        action.namespace,
                        name=action.name,
                        subresource=action.subresource,
                    )
        except KubeError as error:
            return error
        self._note(tenant, action)
        return None

    def _note(self, tenant: str, action: Action) -> None:
        """Record a successful write as a transition of its object."""
        match action:
            case Create():
                name, what, version = action.body["metadata"]["name"], "created", ""
            case Patch():
                what = f"patched {action.subresource}" if action.subresource else "patched"
                name, version = action.name, _version(action)
            case Delete():
                name, what, version = action.name, "deleted", ""
            case Post():
                name, what, version = action.name, f"posted {action.subresource}", ""
            case _:
                return
        about = ObjectName(action.resource.plural, action.namespace, name)
        self._timeline.add(tenant, about, what, now=time.time(), version=version)

    async def _patch(self, tenant: str, client: Client, action: Patch) -> None:
        answer = await client.patch(
            action.resource,
            action.name,
            action.patch,
            action.namespace,
            kind=action.kind,
            subresource=action.subresource,
        )
        if action.subresource in ("", "status"):
            self._observe(tenant, action.resource, answer)

    async def _delete(self, tenant: str, client: Client, action: Delete) -> None:
        left: Envelope | None = None
        with suppress(NotFound):
            left = await client.delete(
                action.resource,
                action.name,
                action.namespace,
                uid=action.uid or None,
                grace_seconds=action.grace_seconds,
                propagation=action.propagation,
            )
        if left is not None:
            self._observe(tenant, action.resource, left)
        elif mirror := self._mirrors.get(action.resource):
            mirror.observe_gone(Key(tenant, action.namespace, action.name), action.uid)

    async def _absent(self, tenant: str, client: Client, action: Absent) -> None:
        """Verify that an object does not exist.

        Raises:
            Conflict: it exists; the mirror is updated.
            KubeError: the check failed.
        """
        with suppress(NotFound):
            found = await client.get(action.resource, action.name, action.namespace)
            self._observe(tenant, action.resource, found)
            if found.uid == action.uid:
                text = f"{action.resource.plural} {action.name} is there"
                raise Conflict(Status(409, "Conflict", text))

    def _observe(self, tenant: str, resource: Resource, envelope: Envelope) -> None:
        if mirror := self._mirrors.get(resource):
            mirror.observe(tenant, envelope)


async def _create(client: Client, action: Create) -> Envelope:
    """Create an object; an existing one of that name and owner is accepted, as an answer may have been lost.

    Raises:
        KubeError: it could not be created; AlreadyExists: another object has the name.
    """
    try:
        return await client.create(action.resource, action.body, action.namespace)
    except AlreadyExists:
        metadata = action.body["metadata"]
        there = await client.get(action.resource, metadata["name"], action.namespace)
        owners = {each["uid"] for each in metadata.get("ownerReferences", ())}
        if not owners or not owners <= {each.uid for each in there.owners}:
            raise
        return there


def _version(action: Patch) -> str:
    """Return the resourceVersion that is a patch's precondition; empty: none."""
    if not isinstance(action.patch, Mapping):
        return ""
    return str(action.patch.get("metadata", {}).get("resourceVersion", ""))


def _batches(step: Sequence[Action]) -> list[Sequence[Action]]:
    if len(step) <= 1:
        return [step]
    batches, begin = [], 0
    for power in itertools.count():
        end = begin + min(FIRST_AT_ONCE << power, MOST_AT_ONCE)
        batches.append(step[begin:end])
        if end >= len(step):
            break
        begin = end
    return batches
