"""Copies Events about tenants' objects from the super cluster to the tenants. Events are not cached."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import Struct

from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import EVENTS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.event import TenantEvent, event_time

BACKLOG = 1_000
"""Largest number of one tenant's Events that wait to be written. The oldest is dropped, since Events are best effort."""
MAX_AGE = timedelta(minutes=2)
"""Age up to which Events from a list are copied. Without it a restart would repeat an hour of Events.

Events from a watch are recent, regardless of the clocks of the super cluster and of this machine.
"""
WRITERS = 4
"""Number of concurrent writes of Events for each tenant. A control plane that hangs does not delay other tenants."""
NOT_YET_SECONDS = 0.5
"""Seconds that a writer pauses while its tenant is still being synced."""
PATIENCE_SECONDS = 120.0
"""Seconds after which an Event that waits for its tenant to be synced is dropped."""

log = structlog.get_logger(__name__)


class NotYet(Exception):
    """The tenant that an Event may belong to is still being synced."""


class Destination(Struct, frozen=True):
    """The tenant that an Event belongs to, and the Event to write there."""

    tenant: str
    client: Client
    event: TenantEvent


class _Waiting(Struct, frozen=True):
    """An Event that waits to be written, since `since` (monotonic seconds)."""

    event: Envelope
    since: float


class _Queue:
    """A queue of one tenant's Events that wait to be written, each in its newest state, oldest first.

    Args:
        limit: number of Events that are written concurrently.
    """

    def __init__(self, limit: int) -> None:
        self.waiting: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()
        self.limit = limit
        self.writers = 0

    def put(self, event: Envelope) -> bool:
        """Add an Event. Return whether the oldest one was dropped for it."""
        self.waiting[event.key] = _Waiting(event, time.monotonic())
        self.waiting.move_to_end(event.key)
        if len(self.waiting) <= BACKLOG:
            return False
        self.waiting.popitem(last=False)
        return True


_Queues = dict[str, _Queue]
"""Cluster key -> queue, for tenants with Events that wait or are being written."""


class TenantEvents:
    """Copies Events about tenants' objects from a super cluster to the tenants.

    Events that existed before the watch began are written one at a time: after a restart most have been copied already,
    and other work is more urgent.

    Args:
        client: client of the super cluster.
        owner: returns the cluster key of the tenant whose object an Event may be about; "" if there is none.
        translate: returns the destination of an Event; None if its object belongs to no tenant. Raises NotYet while that
            is unknown.
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
        self._recent: _Queues = {}
        self._earlier: _Queues = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.dropped = 0
        self.written = 0
        self.reflector = Reflector(client, EVENTS, sink=self._take, keep=False)

    async def run(self) -> None:
        """Watch and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self.begin(tasks)
            await self.reflector.run()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Write the waiting Events and all later ones, in tasks of this group."""
        self._tasks = tasks
        for queues in (self._recent, self._earlier):
            for tenant in queues:
                self._start(queues, tenant)

    def _take(self, change: Change) -> None:
        """Queue the newest state of an Event that concerns a tenant."""
        event = change.new
        if event is None:
            return
        tenant = self._owner(event)
        listing = self.reflector.listing
        if tenant and not (listing and _old(event)):
            if (earlier := self._earlier.get(tenant)) is not None:
                earlier.waiting.pop(event.key, None)
            queues, limit = (self._earlier, 1) if listing else (self._recent, WRITERS)
            self.dropped += queues.setdefault(tenant, _Queue(limit)).put(event)
            self._start(queues, tenant)

    def _start(self, queues: _Queues, tenant: str) -> None:
        """Start one more writer for a tenant's Events, unless it has the largest number already."""
        queue = queues[tenant]
        if self._tasks is not None and queue.writers < queue.limit:
            queue.writers += 1
            self._tasks.create_task(self._write_all(queues, tenant))

    async def _write_all(self, queues: _Queues, tenant: str) -> None:
        queue = queues[tenant]
        try:
            while queue.waiting:
                await self._write_first(queue)
        finally:
            queue.writers -= 1
            if not queue.writers and not queue.waiting:
                del queues[tenant]

    async def _write_first(self, queue: _Queue) -> None:
        key, waiting = queue.waiting.popitem(last=False)
        try:
            destination = self._translate(waiting.event)
        except NotYet:
            if time.monotonic() - waiting.since > PATIENCE_SECONDS:
                self.dropped += 1
            else:
                queue.waiting.setdefault(key, waiting)
                await asyncio.sleep(NOT_YET_SECONDS)
            return
        except Exception:
            # An error with one Event must not affect other Events.
            log.exception("event cannot be translated", about="/".join(key))
            self.dropped += 1
            return
        if destination is not None:
            await self._write(destination)

    async def _write(self, destination: Destination) -> None:
        try:
            await _write_event(destination.client, destination.event)
            self.written += 1
        except (Forbidden, NotFound):
            # The namespace is being deleted.
            self.dropped += 1
        except ApiError as error:
            self.dropped += 1
            log.warning(
                "event not written", tenant=destination.tenant, about=destination.event.name, error=str(error)
            )
        except KubeError:
            self.dropped += 1
        except Exception:
            # The tenant's session and client may have ended meanwhile, which must not affect other tenants.
            self.dropped += 1
            log.exception("event not written", tenant=destination.tenant, about=destination.event.name)


def _old(event: Envelope) -> bool:
    seen = event_time(event)
    return seen is not None and datetime.now(UTC) - seen > MAX_AGE


async def _write_event(client: Client, event: TenantEvent) -> None:
    """Create the Event, or update the existing one."""
    if event.repeated:
        try:
            await client.patch(EVENTS, event.name, event.update, event.namespace)
        except NotFound:
            await client.create(EVENTS, event.body, event.namespace)
        return
    # If the Event exists, an earlier syncer has written it.
    with suppress(AlreadyExists):
        await client.create(EVENTS, event.body, event.namespace)
