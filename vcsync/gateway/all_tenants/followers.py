"""Follows the changes of one external control plane, and lists it again when they are no longer all known."""

import asyncio
import random
import time
from dataclasses import dataclass, field

import structlog

from vcsync.apimachinery.errors import StatusError, expired, unavailable
from vcsync.apiserver.registry.reading import TURN_SECONDS
from vcsync.gateway.all_tenants.event_queue import EventQueue
from vcsync.gateway.all_tenants.events import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    Change,
    EventMarker,
    read_event,
)
from vcsync.gateway.all_tenants.known_objects import KnownObjects, ObjectState
from vcsync.gateway.all_tenants.listing import external_items, version_of
from vcsync.gateway.all_tenants.shapes import Malformed, Shape, Template
from vcsync.gateway.all_tenants.sources import Absent, Expired, ExternalSource, Unreadable
from vcsync.gateway.all_tenants.versions import ABSENT, PARTIAL
from vcsync.process.loop_turns import turn

FIRST_RETRY, LAST_RETRY = 0.5, 30.0
"""Seconds until a control plane that cannot be read is tried again, first and at most."""
LOST_SECONDS = 5.0
"""Time for which a control plane is retried before the client is told that its changes do not arrive."""
ITEM_BYTES = 4096
"""Bytes that an item of a list counts as in the queue of events."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class State:
    """State of the client's view of one control plane.

    Attributes:
        version: Version that the client has reached. None: it has been told nothing.
        known: The objects that it knows.
        lost: Why changes do not arrive, or an empty text.
        failed: The error that ends the client's watch, or None.
    """

    version: int | None
    known: KnownObjects
    lost: str = ""
    failed: StatusError | None = field(default=None)


class Follower:
    """Puts the changes of one external control plane into its queue.

    Args:
        source: The control plane.
        state: What the client knows, which the reader of the queue keeps up to date.
        queue: Gets the changes.
        template: What all parts of the answer have in common.
        shape: Shape of the answer.
        wake: Set when the state has changed.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        source: ExternalSource,
        state: State,
        queue: EventQueue,
        template: Template,
        shape: Shape,
        wake: asyncio.Event,
    ) -> None:
        self.source = source
        self.state = state
        self.queue = queue
        self._template = template
        self._shape = shape
        self._wake = wake
        self._marker = EventMarker(template, shape, source.tenant)
        self._at = state.version
        self._failing_since: float | None = None
        self._retry = FIRST_RETRY

    def resume(self) -> None:
        """Begin at the version that the client has reached."""
        self._at = self.state.version

    async def run(self) -> None:
        """Follow the control plane until the client's watch must end, or the task is cancelled."""
        try:
            while self.state.failed is None:
                await self._attempt()
                if self.state.failed is None:
                    await asyncio.sleep(self._retry * random.uniform(0.5, 1))  # noqa: S311 - spreads retries
        except Exception:  # noqa: BLE001 - a defect must end this watch, and not leave it silent
            _log.exception("a watch over all tenants has failed", tenant=self.source.tenant)
            self._end(unavailable("the watch cannot be continued because of a defect", 1))
        finally:
            self._failing_since = None

    async def _attempt(self) -> None:
        """Follow the control plane until its server ends the watch, or an error does."""
        try:
            if self._at in (None, ABSENT, PARTIAL):
                await self._list_again()
                self._reached()
            await self._follow()
        except Expired:
            self._at = None
            if not self.state.known.whole:
                await self.queue.drained()
                self._end(expired(f'too old resource version of tenant "{self.source.tenant}"'))
        except Absent:
            await self._gone()
            self._reached()
            self._retry = LAST_RETRY
        except (Unreadable, Malformed) as error:
            self._failing(str(error))

    async def _follow(self) -> None:
        """Tell the changes from the version that is reached, until the server ends the watch."""
        since = time.perf_counter()
        async for line in self.source.watch(self._at or 0):
            change, code = read_event(line)
            if change.type == ERROR:
                if code == 410:
                    raise Expired
                raise Unreadable(f"ends its watch with the status {code}")
            if change.type != BOOKMARK:
                change = self._marker.marked(change)
            self._reached()
            self._at = change.version
            await self.queue.put(change, len(line))
            if time.perf_counter() - since > TURN_SECONDS:
                await turn()
                since = time.perf_counter()
        self._reached()

    async def _list_again(self) -> None:
        """List the control plane, and tell how it differs from what the client knows.

        Until all differences are told, the client's version is one from which it cannot be continued without them.

        Raises:
            Expired: The client knows objects that are not remembered.
        """
        await self.queue.drained()
        known = self.state.known
        if not known.whole:
            raise Expired
        version = await version_of(self.source)
        reached = self.state.version or PARTIAL
        missing = dict(known.objects)
        async for value, seen in external_items(self.source, self._template, self._shape, version):
            for kind, before in differences(missing.pop(seen.key, None) if seen else None, seen):
                if kind == DELETED and before is not None:
                    await self.queue.put(self._marker.gone(reached, before), ITEM_BYTES)
                elif not isinstance(value, bytes):
                    await self.queue.put(self._marker.listed(kind, reached, value, seen), ITEM_BYTES)
        for seen in missing.values():
            await self.queue.put(self._marker.gone(reached, seen), ITEM_BYTES)
        await self.queue.put(Change(BOOKMARK, version), 0)
        self._at = version
        if version == ABSENT:
            raise Absent

    async def _gone(self) -> None:
        """Tell that a control plane no longer has the resource."""
        await self.queue.drained()
        if self.state.version == ABSENT:
            return
        if not self.state.known.whole:
            self._end(expired(f'tenant "{self.source.tenant}" no longer has this resource'))
            return
        for seen in list(self.state.known.objects.values()):
            await self.queue.put(self._marker.gone(self.state.version or PARTIAL, seen), ITEM_BYTES)
        await self.queue.put(Change(BOOKMARK, ABSENT), 0)
        self._at = ABSENT

    def _failing(self, why: str) -> None:
        loop = asyncio.get_running_loop()
        if self._failing_since is None:
            self._failing_since = loop.time()
            loop.call_later(LOST_SECONDS, self._tell_lost, self._failing_since, why)
        else:
            self._retry = min(2 * self._retry, LAST_RETRY)

    def _tell_lost(self, since: float, why: str) -> None:
        if self._failing_since == since:
            _log.warning("a watch over all tenants has lost one", tenant=self.source.tenant, reason=why)
            self.state.lost = why
            self._wake.set()

    def _reached(self) -> None:
        """Note that the control plane can be read."""
        self._failing_since, self._retry = None, FIRST_RETRY
        if self.state.lost:
            _log.info("a watch over all tenants follows one again", tenant=self.source.tenant)
            self.state.lost = ""
            self._wake.set()

    def _end(self, error: StatusError) -> None:
        self.state.failed = error
        self._wake.set()


def differences(before: ObjectState | None, now: ObjectState | None) -> list[tuple[str, ObjectState | None]]:
    """Return the events that tell a client the present state of an object, of which it knows an earlier one."""
    if before is None:
        return [(ADDED, None)]
    if now == before:
        return []
    if now is not None and now.uid == before.uid:
        return [(MODIFIED, None)]
    return [(DELETED, before), (ADDED, None)]
