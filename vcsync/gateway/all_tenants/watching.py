"""One watch over all control planes: one stream that is merged from theirs.

The versions that a client has reached go with bookmarks. Events keep the resource versions of their own control planes,
so that objects can be compared and written; a client without bookmarks gets the versions with every event instead.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from vcsync.apimachinery.errors import StatusError, expired, unavailable
from vcsync.apiserver.request.paging import TOO_OLD
from vcsync.gateway.all_tenants.event_queue import EventQueue
from vcsync.gateway.all_tenants.events import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    Change,
    EventMarker,
    EventWriter,
    listed_object,
    read_event,
)
from vcsync.gateway.all_tenants.followers import Follower, State
from vcsync.gateway.all_tenants.known_objects import Budget, KnownObjects
from vcsync.gateway.all_tenants.list_request import ListRequest, watch_start
from vcsync.gateway.all_tenants.listing import PIECE_BYTES, embedded_items, external_items, survey
from vcsync.gateway.all_tenants.shapes import Malformed, Template
from vcsync.gateway.all_tenants.sources import Absent, Expired, ExternalSource, Unreadable
from vcsync.gateway.all_tenants.versions import ABSENT, PARTIAL, Versions, encode_versions
from vcsync.process.loop_turns import turn

EMBEDDED_EVENTS = 500
"""Events of all embedded control planes that are sent before the external ones have their turn."""
ROUND_EVENTS = 500
"""Events of external control planes that are sent before other tasks run."""
CHECK_SECONDS = 1.0
"""Interval in which a watch looks for control planes that were connected or taken away."""


class Planes(Protocol):
    """Knows the external control planes; see `service.AllTenantsHandler`."""

    @property
    def changes(self) -> int:
        """Number of their changes."""
        ...

    @property
    def budget(self) -> Budget:
        """Counts what is remembered."""
        ...

    def sources(self, request: ListRequest) -> list[ExternalSource]:
        """Return those that a request includes."""
        ...

    def settle(self, request: ListRequest, unread: Mapping[str, str], warnings: list[str]) -> None:
        """Refuse a request because of what cannot be read, or warn."""
        ...

    def recall(self, request: ListRequest, token: str) -> dict[bytes, KnownObjects]:
        """Return what a client knows that has a token."""
        ...

    def keep(self, request: ListRequest, token: str, known: Mapping[bytes, KnownObjects]) -> None:
        """Remember what a client knows that has a token."""
        ...


@dataclass(slots=True)
class _Plane:
    """One external control plane of a watch."""

    follower: Follower
    task: asyncio.Task[None] | None = None


class Watching:
    """One watch.

    Args:
        service: Knows the external control planes.
        request: The request.
        warnings: Texts of Warning headers.
    """

    def __init__(self, service: Planes, request: ListRequest, warnings: list[str]) -> None:
        self._service = service
        self._request = request
        self._warnings = warnings
        self._wake = asyncio.Event()
        self._planes: dict[bytes, _Plane] = {}
        self._embedded = 0
        self._changes = service.changes
        self._token = ""
        self._sent_since = False
        self._first = 0
        self._retired: list[asyncio.Task[None]] = []
        self._template: Template
        self._writer: EventWriter
        self._lost: tuple[str, ...] = ()

    async def open(self) -> AsyncGenerator[bytes, None]:
        """Return the stream.

        Raises:
            StatusError: 400, 406 or 410, the watch cannot begin; 503, a control plane cannot be read.
        """
        request, options = self._request, self._request.options
        first = await request.embedded.page({}, 1)
        self._template = first.template
        self._writer = EventWriter(self._template, request.shape)
        sources = self._service.sources(request)
        start = watch_start(options.resource_version)
        initial = options.send_initial_events
        if initial is None:
            initial = start is None
        if start is None or initial:
            found = await survey(first.version, sources)
            self._service.settle(request, found.unread, self._warnings)
            versions = found.versions
        else:
            versions = start
        self._embedded = versions.embedded
        known = {} if initial else self._service.recall(request, options.resource_version)
        for source in sources:
            self._add(
                source, None if initial else versions.external.get(source.id), known.pop(source.id, None)
            )
        if not initial:
            self._remove_missing(versions, known)
        stream = await self._open_embedded(versions.embedded)
        return self._stream(stream, versions if initial else None)

    async def _open_embedded(self, version: int) -> AsyncIterator[bytes]:
        parameters = {"resourceVersion": str(version), "allowWatchBookmarks": "true"}
        if self._request.options.timeout_seconds:
            parameters["timeoutSeconds"] = str(self._request.options.timeout_seconds)
        return (await self._request.embedded.watch(parameters)).pieces

    def _add(self, source: ExternalSource, version: int | None, known: KnownObjects | None) -> None:
        """Follow a control plane from a version. None: the client has been told nothing of it."""
        if known is None:
            budget = self._service.budget
            known = (KnownObjects if version in (None, ABSENT) else KnownObjects.unknown)(budget, source.id)
        queue, state = EventQueue(self._wake), State(version, known)
        self._planes[source.id] = _Plane(
            Follower(source, state, queue, self._template, self._request.shape, self._wake)
        )

    def _remove_missing(self, versions: Versions, known: dict[bytes, KnownObjects]) -> None:
        """Refuse to continue for a client that knows objects of control planes that are gone.

        Raises:
            StatusError: 410.
        """
        for each in known.values():
            each.release()
        if versions.external.keys() - self._planes.keys() or not versions.embedded:
            raise expired(TOO_OLD)

    async def _stream(
        self, embedded: AsyncIterator[bytes], initial: Versions | None
    ) -> AsyncGenerator[bytes, None]:
        queue = EventQueue(self._wake)
        reader: asyncio.Task[None] | None = None
        try:
            if initial is not None:
                async for piece in self._initial(initial):
                    yield piece
            reader = asyncio.create_task(_read(embedded, queue))
            reader.add_done_callback(lambda _: self._wake.set())
            self._start_followers()
            while True:
                self._wake.clear()
                pieces, ended = self._round(queue)
                if pieces:
                    yield b"".join(pieces)
                if ended:
                    return
                if reader.done() and queue.empty:
                    reader.result()
                    return
                if pieces:
                    await turn()
                    continue
                try:
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        except StatusError as error:
            yield self._writer.failed(error)
        finally:
            tasks = [*self._retired, *(each.task for each in self._planes.values() if each.task is not None)]
            tasks += [reader] if reader is not None else []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await embedded.aclose()  # type: ignore[attr-defined]
            self._remember()

    def _round(self, embedded: EventQueue) -> tuple[list[bytes], bool]:
        """Return the lines of the events that are there, a few of each control plane; and whether they are the last."""
        pieces, due = self._membership()
        sent = bool(pieces)
        try:
            for change in embedded.take(EMBEDDED_EVENTS):
                if change.type == ERROR:
                    pieces.append(b'{"type":"ERROR","object":%b}\n' % _bytes(change))
                    return pieces, True
                self._embedded = max(self._embedded, change.version)
                due = due or change.type == BOOKMARK
                if change.type != BOOKMARK:
                    pieces.append(self._line(change))
                    sent = True
            sent = self._take_turns(pieces) or sent
        except StatusError as error:
            pieces.append(self._writer.failed(error))
            return pieces, True
        if not embedded.empty or not all(each.follower.queue.empty for each in self._planes.values()):
            self._wake.set()
        lost = tuple(p.follower.source.tenant for p in self._planes.values() if p.follower.state.lost)
        due, self._lost = due or lost != self._lost, lost
        if self._request.options.bookmarks and (sent or due):
            pieces.append(self._bookmark())
        return pieces, False

    def _take_turns(self, pieces: list[bytes]) -> bool:
        """Add the lines of the external control planes whose turn it is. Return whether the client is told anything.

        Raises:
            StatusError: The watch must end.
        """
        planes = list(self._planes.values())
        sent, taken = False, 0
        for at in range(len(planes)):
            follower = planes[(self._first + at) % len(planes)].follower
            changes = follower.queue.take()
            taken += len(changes)
            for change in changes:
                sent = self._tell(follower.state, change, pieces) or sent
            if follower.state.failed is not None:
                raise follower.state.failed
            if taken >= ROUND_EVENTS:
                self._first = (self._first + at + 1) % len(planes)
                break
        return sent

    def _tell(self, state: State, change: Change, pieces: list[bytes]) -> bool:
        """Add the line of a change of an external control plane. Return whether the client is told anything."""
        before, state.version = state.version, change.version
        if change.type == BOOKMARK:
            # The end of a list is told: before it, the client could not continue from here.
            return before in (None, PARTIAL)
        if change.type == DELETED:
            state.known.remove(change.seen)
        else:
            state.known.add(change.seen)
        pieces.append(self._line(change))
        return True

    def _line(self, change: Change) -> bytes:
        self._sent_since = True
        return self._writer.change(change, "" if self._request.options.bookmarks else self._reached())

    def _bookmark(self, *, initial: bool = False) -> bytes:
        return self._writer.bookmark(self._reached(), initial=initial, lost=self._lost)

    def _reached(self) -> str:
        """Return the resource version of what the client has been told."""
        external = {
            key: plane.follower.state.version
            for key, plane in self._planes.items()
            if plane.follower.state.version is not None
        }
        self._token, self._sent_since = encode_versions(Versions(self._embedded, external)), False
        return self._token

    async def _initial(self, versions: Versions) -> AsyncIterator[bytes]:
        """Yield the events of the initial list, several at a time."""
        batch, size = [], 0
        async for line in self._initial_lines(versions):
            batch.append(line)
            size += len(line)
            if size > PIECE_BYTES:
                yield b"".join(batch)
                batch, size = [], 0
        if batch:
            yield b"".join(batch)

    async def _initial_lines(self, versions: Versions) -> AsyncIterator[bytes]:
        """Yield the events of the initial list. A part that is not whole has no version to continue from."""
        request = self._request
        self._embedded = 0
        try:
            async for item in embedded_items(request.embedded, versions.embedded, "", 0, []):
                yield self._line(Change(ADDED, 0, listed_object(item.value, self._template, request.shape)))
        except Expired:
            raise expired(TOO_OLD) from None
        self._embedded = versions.embedded
        for key, plane in self._planes.items():
            version, state, source = versions.external.get(key), plane.follower.state, plane.follower.source
            if version is None:
                continue
            marker = EventMarker(self._template, request.shape, source.tenant)
            lines: list[bytes] = []
            try:
                async for value, seen in external_items(source, self._template, request.shape, version):
                    self._tell(state, marker.listed(ADDED, PARTIAL, value, seen), lines)
                    yield lines.pop()
            except (Expired, Absent):
                raise expired(TOO_OLD) from None
            except (Unreadable, Malformed) as error:
                raise unavailable(f'tenant "{source.tenant}" {error}', 1) from None
            state.version = version
        if request.options.bookmarks:
            yield self._bookmark(initial=bool(request.options.send_initial_events))

    def _start_followers(self) -> None:
        for plane in self._planes.values():
            if plane.task is None:
                plane.follower.resume()
                plane.task = asyncio.create_task(plane.follower.run())

    def _membership(self) -> tuple[list[bytes], bool]:
        """Follow control planes that were connected, and tell that the objects of others are gone.

        Returns:
            The lines of the events; and whether the versions have changed.

        Raises:
            StatusError: 410, it is not known which objects are gone.
        """
        if self._service.changes == self._changes:
            return [], False
        self._changes = self._service.changes
        sources = {each.id: each for each in self._service.sources(self._request)}
        pieces: list[bytes] = []
        gone = [key for key in self._planes if key not in sources]
        for key in gone:
            plane = self._planes.pop(key)
            if plane.task is not None:
                plane.task.cancel()
                self._retired.append(plane.task)
            state, tenant = plane.follower.state, plane.follower.source.tenant
            if not state.known.whole:
                raise expired(f'tenant "{tenant}" is no longer among those that are read')
            marker = EventMarker(self._template, self._request.shape, tenant)
            pieces += [self._line(marker.gone(0, seen)) for seen in state.known.objects.values()]
            state.known.release()
        for key, source in sources.items():
            if key not in self._planes:
                self._add(source, None, None)
        self._start_followers()
        return pieces, bool(gone)

    def _remember(self) -> None:
        """Keep what the client knows, for the watch that continues this one."""
        if self._token and not self._sent_since:
            states = {key: plane.follower.state for key, plane in self._planes.items()}
            kept = {key: each.known for key, each in states.items() if each.version not in (None, PARTIAL)}
            self._service.keep(self._request, self._token, kept)
            self._planes = {key: plane for key, plane in self._planes.items() if key not in kept}
        self.release()

    def release(self) -> None:
        """Forget what the client knows."""
        for plane in self._planes.values():
            plane.follower.state.known.release()
        self._planes = {}


async def _read(pieces: AsyncIterator[bytes], queue: EventQueue) -> None:
    """Put the events of the embedded control planes into their lane."""
    async for piece in pieces:
        for line in piece.splitlines():
            change, _ = read_event(line)
            await queue.put(change, len(line))


def _bytes(change: Change) -> bytes:
    if not isinstance(change.obj, bytes):
        raise Malformed("an error has been read as an object")
    return change.obj
