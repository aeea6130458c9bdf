"""One watch: where it begins, what of the hub's events it is given, bookmarks, and how it ends.

Behaviour: apiserver's `storage/cacher` and `endpoints/handlers/watch.go`.
"""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from vcsync.controlplane.errors import StatusError, expired
from vcsync.controlplane.rest import paging
from vcsync.controlplane.rest.hub import Event, Hub, Topic
from vcsync.controlplane.rest.options import ListOptions
from vcsync.controlplane.rest.reading import Listed, Reader, narrowed
from vcsync.controlplane.rest.requestinfo import ALL
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.selection import Selection, fields_of, metadata_fields
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.store.interface import Compacted, Record

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
MIN_SECONDS = 1800.0
"""A watch without timeoutSeconds lasts this long up to twice as long (`--min-request-timeout`)."""
BOOKMARK_SECONDS = 60.0
BOOKMARK_BEFORE_END = 2.0
BATCH = 100
"""Objects of the initial list that are given at once."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event that a watch is given; `event` None: it is of the initial list."""

    type: EventType
    value: bytes
    revision: int
    tenant: str
    key: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to a revision has been given. `initial`: the initial list ends here."""

    revision: int
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The watch ends with this Status."""

    error: StatusError


Item = Told | Bookmark | Failed
Push = Callable[[Sequence[Told]], bool]
"""Sends events past the stream while that is being waited for; False: it cannot."""


def _no_push(_: Sequence[Told]) -> bool:
    return False


class Watches:
    """Opens watches."""

    def __init__(self, hub: Hub, reader: Reader, clock: Callable[[], float]) -> None:
        """Take a clock that gives seconds, of any origin."""
        self._hub = hub
        self._reader = reader
        self._clock = clock

    async def open(
        self, scope: Scope, options: ListOptions, selection: Selection, push: Push = _no_push
    ) -> AsyncIterator[list[Item]]:
        """Begin a watch; iterate what is returned. What `push` takes is not in it.

        Raises:
            StatusError: 400, 504; what goes wrong later is an item of the stream.
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
        resource = scope.kind.resource
        topic: Topic = (scope.tenant, resource.key_group or "core", resource.plural)
        seconds = float(options.timeout_seconds) or MIN_SECONDS * (1 + random.random())  # noqa: S311
        end = self._clock() + seconds
        watcher = self._hub.subscribe(topic)
        chosen = _Chosen(scope, selection)
        try:
            position = version or watcher.base
            if initial:
                async for items, revision in self._initial(scope, options, selection):
                    position = revision
                    yield items
            async for events in self._hub.history(topic, position, watcher.base):
                if items := await chosen.told(events, position):
                    yield items
            begun = position

            def sink(events: list[Event]) -> bool:
                told = chosen.at_once(events, begun)
                return told is not None and (not told or push(told))

            bookmark = self._clock() + BOOKMARK_SECONDS
            last = options.bookmarks
            while not watcher.closed:
                now = self._clock()
                if now >= end:
                    return
                due = options.bookmarks and (now >= bookmark or (last and now >= end - BOOKMARK_BEFORE_END))
                reached = self._hub.position
                if items := await chosen.told(watcher.take(), position):
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
            self._hub.unsubscribe(topic, watcher)

    async def _initial(
        self, scope: Scope, options: ListOptions, selection: Selection
    ) -> AsyncIterator[tuple[list[Item], int]]:
        listed = await self._reader.collection(scope, ListOptions(), selection)
        async for records in _batches(listed):
            yield (
                [
                    Told("ADDED", each.value, each.revision, each.key.partition("/")[0], each.key)
                    for each in records
                ],
                listed.revision,
            )
        if options.send_initial_events and options.bookmarks:
            yield [Bookmark(listed.revision, initial=True)], listed.revision
        else:
            yield [], listed.revision


async def _batches(listed: Listed) -> AsyncIterator[list[Record]]:
    """Give the records of a list, few at a time; others have their turn between them."""
    for at in range(0, len(listed.records), BATCH):
        if at or listed.rest is not None:
            await turn()
        yield listed.records[at : at + BATCH]
    if listed.rest is not None:
        async for records in listed.rest:
            for at in range(0, len(records), BATCH):
                await turn()
                yield records[at : at + BATCH]


class _Chosen:
    """Which events one watch is given, and as what."""

    def __init__(self, scope: Scope, selection: Selection) -> None:
        resource = scope.kind.resource
        self._kind = scope.kind
        self._selection = selection
        self._namespace = scope.namespace if resource.namespaced else ""
        self._prefix = "" if scope.tenant == ALL else scope.collection

    async def told(self, events: list[Event], after: int) -> list[Item]:
        """Turn events after a revision into what this watch is told."""
        events = self._about(events, after)
        for event, before in self._unknown(events):
            value = event.change.previous if before else event.change.value
            event.fields[self._which(before=before)] = await fields_of(self._kind, value or b"")
        return [told for event in events if (told := self._one(event)) is not None]

    def at_once(self, events: list[Event], after: int) -> list[Told] | None:
        """Do the same without waiting; None: it cannot be done so."""
        events = self._about(events, after)
        if self._unknown(events):
            return None
        return [told for event in events if (told := self._one(event)) is not None]

    def _about(self, events: list[Event], after: int) -> list[Event]:
        return [each for each in events if each.change.revision > after and self._within(each.change.key)]

    def _within(self, key: str) -> bool:
        if self._prefix:
            return key.startswith(self._prefix)
        return not self._namespace or key.split("/", 4)[3] == self._namespace

    def _which(self, *, before: bool) -> tuple[str, str, bool]:
        resource = self._kind.resource
        return resource.group, resource.version, before

    def _unknown(self, events: list[Event]) -> list[tuple[Event, bool]]:
        """Return the sides of events whose fields this watch selects by and nobody has read yet."""
        if self._selection.metadata_only:
            return []
        return [
            (event, before)
            for event in events
            for before, value in ((True, event.change.previous), (False, event.change.value))
            if value is not None and self._which(before=before) not in event.fields
        ]

    def _one(self, event: Event) -> Told | None:
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
        return Told(kind, value or b"", change.revision, event.tenant, change.key, event)

    def _matches(self, event: Event, *, before: bool) -> bool:
        selection = self._selection
        if selection.labels is not None and not selection.labels.matches(event.labels(before=before)):
            return False
        if selection.fields is None:
            return True
        fields = metadata_fields(self._kind, event.change.key)
        if not selection.metadata_only:
            fields = {**fields, **event.fields[self._which(before=before)]}
        return selection.fields.matches(fields)
