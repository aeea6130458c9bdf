"""The committer: carries out what controllers decided, and tells the mirrors at once what came of it."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from vcsync.controllers.mirror import Key, Mirror
from vcsync.controllers.plan import Absent, Action, Create, Delete, Emit, Failure, Outcome, Patch, Post
from vcsync.controllers.reporting import Reporter
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Status
from vcsync.kube.resources import Resource

FIRST_AT_ONCE = 1
MOST_AT_ONCE = 32
"""Actions of a step run side by side: one first, then twice as many each time; a quota that is full is met once."""


class Committer:
    """Writes to all tenants."""

    def __init__(self, server: Client, mirrors: Mapping[Resource, Mirror], reporter: Reporter) -> None:
        """Take the client of the control plane, the mirrors to tell, and who reports Events."""
        self._server = server
        self._mirrors = mirrors
        self._reporter = reporter

    async def steps(self, component: str, tenant: str, steps: Sequence[Sequence[Action]]) -> Outcome:
        """Carry out steps one after another, until something fails."""
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
        """Report an Event; returns at once."""
        self._reporter.emit(
            tenant, component, event.about, event.type, event.reason, event.message, now=time.time()
        )

    async def _do(self, component: str, tenant: str, client: Client, action: Action) -> KubeError | None:
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
        return None

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
        """Ask for an object that should not be there.

        Raises:
            Conflict: it is; the mirror knows it now.
            KubeError: it cannot be told.
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
    """Create an object; one of that name and owner that stands already is it, from a try whose answer was lost.

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
