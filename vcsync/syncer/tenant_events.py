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

BACKLOG = 1_000
"""Events of one tenant that may wait; beyond it its oldest is dropped and counted: Events are best effort in Kubernetes too."""
MAX_AGE = timedelta(minutes=2)
"""Older ones are not told again: a restart would otherwise repeat an hour of Events."""
WRITERS = 4
"""Events of one tenant that are written at once. None are shared: a control plane that hangs keeps nobody else's waiting."""
NOT_YET_SECONDS = 0.5
"""Pause of a writer whose tenant is still being synced."""

log = structlog.get_logger(__name__)


class NotYet(Exception):
    """The tenant that an Event may belong to is still being synced."""


class Destination(Struct, frozen=True):
    """Where an Event of the super cluster belongs, and what to write there."""

    tenant: str
    client: Client
    event: TenantEvent


class _Lane:
    """One tenant's Events that wait to be written, each in its newest state, the first to come first.

    Args:
        most: how many of them are written at once.
    """

    def __init__(self, most: int) -> None:
        self.waiting: OrderedDict[tuple[str, str], Envelope] = OrderedDict()
        self.most = most
        self.writers = 0

    def put(self, event: Envelope) -> bool:
        """Take an Event in; whether another one had to go for it."""
        self.waiting[event.key] = event
        self.waiting.move_to_end(event.key)
        if len(self.waiting) <= BACKLOG:
            return False
        self.waiting.popitem(last=False)
        return True


_Lanes = dict[str, _Lane]
"""By tenant; only of those of whom anything waits or is being written."""


class TenantEvents:
    """Carries Events of a super cluster's tenant objects up.

    What stood before the watch began is told one by one: after a restart most of it has been told already, and there is
    more urgent work.

    Args:
        client: client of the super cluster.
        owner: cluster key of the tenant whose object an Event may be about, "" when it is nobody's.
        translate: finds the tenant's object an Event speaks of; None when it is nobody's, NotYet when it cannot say yet.
    """

    def __init__(
        self,
        client: Client,
        *,
        owner: Callable[[Envelope], str],
        translate: Callable[[Envelope], Destination | None],
    ) -> None:
        self._owner = owner
        self._translate = translate
        self._news: _Lanes = {}
        self._stood: _Lanes = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.dropped = 0
        self.written = 0
        self.reflector = Reflector(client, EVENTS, accept=self._take)

    async def run(self) -> None:
        """Watch and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self.begin(tasks)
            await self.reflector.run()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Write what has come and what comes, in tasks of this group."""
        self._tasks = tasks
        for lanes in (self._news, self._stood):
            for tenant in lanes:
                self._start(lanes, tenant)

    def _take(self, event: Envelope) -> bool:
        """The door: remember the newest state of an Event that concerns a tenant; cache nothing."""
        tenant = self._owner(event)
        if tenant and not self._old(event):
            if (stood := self._stood.get(tenant)) is not None:
                stood.waiting.pop(event.key, None)
            lanes, most = (self._news, WRITERS) if self.reflector.synced else (self._stood, 1)
            self.dropped += lanes.setdefault(tenant, _Lane(most)).put(event)
            self._start(lanes, tenant)
        return False

    def _start(self, lanes: _Lanes, tenant: str) -> None:
        """Have one more writer at a tenant's Events, if it may have more."""
        lane = lanes[tenant]
        if self._tasks is not None and lane.writers < lane.most:
            lane.writers += 1
            self._tasks.create_task(self._write_all(lanes, tenant))

    @staticmethod
    def _old(event: Envelope) -> bool:
        seen = event_time(event)
        return seen is not None and datetime.now(UTC) - seen > MAX_AGE

    async def _write_all(self, lanes: _Lanes, tenant: str) -> None:
        lane = lanes[tenant]
        try:
            while lane.waiting:
                await self._write_first(lane)
        finally:
            lane.writers -= 1
            if not lane.writers and not lane.waiting:
                del lanes[tenant]

    async def _write_first(self, lane: _Lane) -> None:
        key, event = lane.waiting.popitem(last=False)
        try:
            destination = self._translate(event)
        except NotYet:
            if self._old(event):
                self.dropped += 1
            else:
                lane.waiting.setdefault(key, event)
                await asyncio.sleep(NOT_YET_SECONDS)
            return
        except Exception:
            # One Event that we cannot make sense of must not end all that others are told.
            log.exception("event not understood", about="/".join(key))
            self.dropped += 1
            return
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
                "event not written", tenant=destination.tenant, about=destination.event.name, error=str(error)
            )
        except KubeError:
            self.dropped += 1
        except Exception:
            # Its tenant's session may have ended meanwhile, and its client with it; that is no affair of others.
            self.dropped += 1
            log.exception("event not written", tenant=destination.tenant, about=destination.event.name)


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
