"""One watch: where it begins, which events it sends, its bookmarks, and how it ends.

Behaviour: apiserver's `storage/cacher` and `endpoints/handlers/watch.go`.
"""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from vcsync.apimachinery.errors import StatusError, expired
from vcsync.apiserver.registry.reading import Listed, Reader, narrowed
from vcsync.apiserver.registry.selection import Selection, fields_of, metadata_fields
from vcsync.apiserver.request import paging
from vcsync.apiserver.request.options import ListOptions
from vcsync.apiserver.request.request_info import ALL
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compacted, Record
from vcsync.apiserver.watch.cacher import Cacher, CacheWatcher, Event, Topic
from vcsync.process.loop_turns import turn

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
MIN_SECONDS = 1800.0
"""Shortest duration of a watch without `timeoutSeconds`; the longest is twice that (`--min-request-timeout`)."""
BOOKMARK_SECONDS = 60.0
"""Time between bookmarks."""
BOOKMARK_BEFORE_END = 2.0
"""Seconds before the end of a watch at which the last bookmark is sent."""
BATCH = 100
"""Objects of the initial list to send before other tasks run."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch.

    Attributes:
        value: The object in stored form.
        event: The change that caused the event, or None if it belongs to the initial list.
    """

    type: EventType
    value: bytes
    revision: int
    tenant: str
    key: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to a revision have been sent. `initial` marks the end of the initial list."""

    revision: int
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The watch ends with this error."""

    error: StatusError


Item = WatchEvent | Bookmark | Failed
Push = Callable[[Sequence[WatchEvent]], bool]
"""Sends events directly while the stream waits for the next ones. Returns False if it cannot."""


def _no_push(_: Sequence[WatchEvent]) -> bool:
    return False


class Watches:
    """Opens watches.

    Args:
        cacher: Provides the changes.
        reader: Reads the initial lists.
        clock: Returns seconds since any moment.
        is_current: Returns whether the kind of a scope is still the one that its tenant has. If not, its watch ends.
    """

    def __init__(
        self,
        cacher: Cacher,
        reader: Reader,
        clock: Callable[[], float],
        is_current: Callable[[Scope], bool] = lambda _: True,
    ) -> None:
        self._cacher = cacher
        self._reader = reader
        self._clock = clock
        self._is_current = is_current

    async def open(
        self, scope: Scope, options: ListOptions, selection: Selection, push: Push = _no_push
    ) -> AsyncIterator[list[Item]]:
        """Open a watch, and return its stream. Events that `push` takes are not in the stream.

        Raises:
            StatusError: 400 or 504. A later error is the last item of the stream.
        """
        scope = narrowed(scope, selection)
        version = paging.parse_version(options.resource_version)
        initial = options.send_initial_events
        if initial is None:
            initial = version == 0
        elif version:
            await self._reader.fresh(version)
        return self._stream(scope, options, selection, version, initial, push)

    async def _stream(  # noqa: PLR0917 - the rest of `open`
        self,
        scope: Scope,
        options: ListOptions,
        selection: Selection,
        version: int,
        initial: bool,
        push: Push,
    ) -> AsyncIterator[list[Item]]:
        topic = _topic(scope)
        seconds = float(options.timeout_seconds) or MIN_SECONDS * (1 + random.random())  # noqa: S311
        end = self._clock() + seconds
        watcher = self._subscribe(topic, scope)
        event_filter = _EventFilter(scope, selection)
        try:
            position = version or watcher.base
            if initial:
                async for items, revision in self._initial(scope, options, selection):
                    position = revision
                    yield items
            async for events in self._cacher.history(topic, position, watcher.base):
                if items := await event_filter.select(events, position):
                    yield items
            sent = position

            def sink(events: list[Event]) -> bool:
                selected = event_filter.select_at_once(events, sent)
                return selected is not None and (not selected or push(selected))

            bookmark = self._clock() + BOOKMARK_SECONDS
            last = options.bookmarks
            while watcher.continues:
                now = self._clock()
                if now >= end:
                    return
                due = options.bookmarks and (now >= bookmark or (last and now >= end - BOOKMARK_BEFORE_END))
                reached = self._cacher.position
                if items := await event_filter.select(watcher.take(), position):
                    yield items
                position = max(position, reached)
                if due:
                    bookmark, last = now + BOOKMARK_SECONDS, last and now < end - BOOKMARK_BEFORE_END
                    yield [Bookmark(position)]
                deadlines = [
                    end,
                    *(
                        [bookmark, *([end - BOOKMARK_BEFORE_END] if last else [])]
                        if options.bookmarks
                        else []
                    ),
                ]
                await watcher.wait(max(0.0, min(deadlines) - now), sink)
        except Compacted as error:
            message = f"too old resource version: {version} ({error.oldest})"
            yield [Failed(expired(message))]
        except StatusError as error:
            yield [Failed(error)]
        finally:
            self._cacher.unsubscribe(topic, watcher)

    def _subscribe(self, topic: Topic, scope: Scope) -> CacheWatcher:
        watcher = self._cacher.subscribe(topic)
        if not self._is_current(scope):  # the resource was redefined after the request arrived
            watcher.close("redefined")
        return watcher

    async def _initial(
        self, scope: Scope, options: ListOptions, selection: Selection
    ) -> AsyncIterator[tuple[list[Item], int]]:
        listed = await self._reader.collection(scope, ListOptions(), selection)
        async for records in _batches(listed):
            yield (
                [
                    WatchEvent("ADDED", each.value, each.revision, each.key.partition("/")[0], each.key)
                    for each in records
                ],
                listed.revision,
            )
        if options.send_initial_events and options.bookmarks:
            yield [Bookmark(listed.revision, initial=True)], listed.revision
        else:
            yield [], listed.revision


def _topic(scope: Scope) -> Topic:
    resource = scope.kind.resource
    return scope.tenant, resource.key_group or "core", resource.plural


async def _batches(listed: Listed) -> AsyncIterator[list[Record]]:
    """Yield the records of a list in batches; other tasks run in between."""
    for at in range(0, len(listed.records), BATCH):
        if at or listed.rest is not None:
            await turn()
        yield listed.records[at : at + BATCH]
    if listed.rest is not None:
        async for records in listed.rest:
            for at in range(0, len(records), BATCH):
                await turn()
                yield records[at : at + BATCH]


class _EventFilter:
    """Selects the events of one watch, and converts them for its client."""

    def __init__(self, scope: Scope, selection: Selection) -> None:
        resource = scope.kind.resource
        self._kind = scope.kind
        self._selection = selection
        self._namespace = scope.namespace if resource.namespaced else ""
        self._prefix = "" if scope.tenant == ALL else scope.collection

    async def select(self, events: list[Event], after: int) -> list[Item]:
        """Return the watch events of the changes after a revision."""
        events = self._in_scope(events, after)
        for event, before in self._without_fields(events):
            value = event.change.previous if before else event.change.value
            event.fields[self._fields_key(before=before)] = await fields_of(self._kind, value or b"")
        return [found for event in events if (found := self._watch_event(event)) is not None]

    def select_at_once(self, events: list[Event], after: int) -> list[WatchEvent] | None:
        """Return the same as `select` without waiting, or None if fields must be read first."""
        events = self._in_scope(events, after)
        if self._without_fields(events):
            return None
        return [found for event in events if (found := self._watch_event(event)) is not None]

    def _in_scope(self, events: list[Event], after: int) -> list[Event]:
        return [each for each in events if each.change.revision > after and self._contains(each.change.key)]

    def _contains(self, key: str) -> bool:
        if self._prefix:
            return key.startswith(self._prefix)
        return not self._namespace or key.split("/", 4)[3] == self._namespace

    def _fields_key(self, *, before: bool) -> tuple[str, str, bool]:
        resource = self._kind.resource
        return resource.group, resource.version, before

    def _without_fields(self, events: list[Event]) -> list[tuple[Event, bool]]:
        """Return the events whose selectable fields have not been read yet, and on which side of the change."""
        if self._selection.metadata_only:
            return []
        return [
            (event, before)
            for event in events
            for before, value in ((True, event.change.previous), (False, event.change.value))
            if value is not None and self._fields_key(before=before) not in event.fields
        ]

    def _watch_event(self, event: Event) -> WatchEvent | None:
        """Return the client's event for a change, or None if neither state of the object matches the selectors."""
        change = event.change
        if self._selection.everything:
            before, after = change.previous is not None, change.value is not None
        else:
            before = change.previous is not None and self._matches(event, before=True)
            after = change.value is not None and self._matches(event, before=False)
        kind: EventType = "MODIFIED" if before else "ADDED"
        value = change.value
        if not after:
            kind, value = "DELETED", change.previous
            if not before:
                return None
        return WatchEvent(kind, value or b"", change.revision, event.tenant, change.key, event)

    def _matches(self, event: Event, *, before: bool) -> bool:
        selection = self._selection
        if selection.labels is not None and not selection.labels.matches(event.labels(before=before)):
            return False
        if selection.fields is None:
            return True
        fields = metadata_fields(self._kind, event.change.key)
        if not selection.metadata_only:
            fields = {**fields, **event.fields[self._fields_key(before=before)]}
        return selection.fields.matches(fields)
