"""Events of the super cluster, told again in the tenant: taken at the cache's door, never cached, created or counted up."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import EVENTS
from vcsync.syncer.kinds.event import TenantEvent, event_time

BACKLOG = 2_000
"""Events that may wait; beyond it the oldest is dropped and counted: Events are best effort in Kubernetes too."""
MAX_AGE = timedelta(minutes=2)
"""Older ones are not told again: a restart would otherwise repeat an hour of Events."""
WRITERS = 8
NOT_YET_SECONDS = 0.5
"""Pause while the tenant an Event belongs to is still being synced."""

log = structlog.get_logger(__name__)


class NotYet(Exception):
    """The tenant that an Event may belong to is still being synced."""


class Destination(Struct, frozen=True):
    """Where an Event of the super cluster belongs, and what to write there."""

    tenant: str
    client: Client
    event: TenantEvent


class _Inbox:
    """Events that wait to be written, each in its newest state, the first to come first."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[tuple[str, str], Envelope] = OrderedDict()
        self.arrived = asyncio.Event()

    def put(self, event: Envelope) -> bool:
        """Take an Event in; whether another one had to go for it."""
        self.waiting[event.key] = event
        self.waiting.move_to_end(event.key)
        self.arrived.set()
        if len(self.waiting) <= BACKLOG:
            return False
        self.waiting.popitem(last=False)
        return True

    async def get(self) -> Envelope:
        """The next Event, as soon as there is one."""
        while not self.waiting:
            self.arrived.clear()
            await self.arrived.wait()
        return self.waiting.popitem(last=False)[1]


class TenantEvents:
    """Carries Events of a super cluster's tenant objects up.

    What stood before the watch began is told one by one: after a restart most of it has been told already, and there is
    more urgent work.

    Args:
        client: client of the super cluster.
        concerns: whether an Event may be about a tenant's object.
        translate: finds the tenant's object an Event speaks of; None when it is nobody's, NotYet when it cannot say yet.
    """

    def __init__(
        self,
        client: Client,
        *,
        concerns: Callable[[Envelope], bool],
        translate: Callable[[Envelope], Destination | None],
    ) -> None:
        self._concerns = concerns
        self._translate = translate
        self._news = _Inbox()
        self._stood = _Inbox()
        self.dropped = 0
        self.written = 0
        self.reflector = Reflector(client, EVENTS, accept=self._take)

    async def run(self) -> None:
        """Watch and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run())
            for _ in range(WRITERS):
                tasks.create_task(self._write_all(self._news))
            tasks.create_task(self._write_all(self._stood))

    def _take(self, event: Envelope) -> bool:
        """The door: remember the newest state of an Event that concerns a tenant; cache nothing."""
        if self._concerns(event) and not self._old(event):
            self._stood.waiting.pop(event.key, None)
            inbox = self._news if self.reflector.synced else self._stood
            self.dropped += inbox.put(event)
        return False

    @staticmethod
    def _old(event: Envelope) -> bool:
        seen = event_time(event)
        return seen is not None and datetime.now(UTC) - seen > MAX_AGE

    async def _write_all(self, inbox: _Inbox) -> None:
        while True:
            event = await inbox.get()
            try:
                destination = self._translate(event)
            except NotYet:
                inbox.waiting.setdefault(event.key, event)
                await asyncio.sleep(NOT_YET_SECONDS)
                continue
            except Exception:
                # One Event that we cannot make sense of must not end all that others are told.
                log.exception("event not understood", event="/".join(event.key))
                self.dropped += 1
                continue
            if destination is not None:
                await self._write(destination)

    async def _write(self, destination: Destination) -> None:
        try:
            await _tell(destination.client, destination.event)
            self.written += 1
        except (Forbidden, NotFound):
            # The namespace is going away; nobody is left to read it.
            self.dropped += 1
        except ApiError as error:
            self.dropped += 1
            log.warning(
                "event not written", tenant=destination.tenant, event=destination.event.name, error=str(error)
            )
        except KubeError:
            self.dropped += 1


async def _tell(client: Client, event: TenantEvent) -> None:
    """Create the Event, or bring the one that stands up to date."""
    if event.repeated:
        try:
            await client.patch(EVENTS, event.name, event.update, event.namespace)
        except NotFound:
            await client.create(EVENTS, event.body, event.namespace)
        return
    # What has happened once and stands has been told, by the syncer that was here before us.
    with suppress(AlreadyExists):
        await client.create(EVENTS, event.body, event.namespace)
