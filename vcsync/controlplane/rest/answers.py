"""Turns what is stored into the bytes that a client asked for: JSON, YAML, protobuf, Tables, partial objects."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.heavy import costly_to_write
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.reading import Listed
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.rest.watching import Bookmark, Failed, Told
from vcsync.controlplane.store.interface import Record
from vcsync.controlplane.wire import encode, partial, protobuf, tables
from vcsync.controlplane.wire.negotiation import Representation

AT_ONCE = 20
"""Items of a list that are encoded before others in the event loop get their turn: 2 ms of the costliest kinds."""
CHEAP_AT_ONCE = 200
"""Items that are encoded by no more than copying, likewise."""
BYTES_AT_ONCE, CHEAP_BYTES_AT_ONCE = 64 * 1024, 256 * 1024
"""Of the same items."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
TABLE = "Table"
Query = Mapping[str, Sequence[str]]
_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode
Write = Callable[[Sequence[bytes], Representation], Awaitable[Sequence[bytes]]]
"""Writes long JSON, of which it is given the pieces, in another form."""


async def _on_a_thread(data: Sequence[bytes], how: Representation) -> Sequence[bytes]:
    return [await asyncio.to_thread(lambda: encode.written(b"".join(data), how))]


class Answers:
    """Encodes. `now` is asked for the ages in Tables."""

    def __init__(
        self, now: Callable[[], datetime] = lambda: datetime.now(UTC), write: Write = _on_a_thread
    ) -> None:
        """Take a clock, and what writes what is too long for the event loop."""
        self._now = now
        self._write = write

    def document(self, obj: Object, how: Representation) -> bytes:
        """Encode a whole object that is no stored one: a Status, a review, discovery."""
        return encode.document(obj, how)

    def error(self, error: StatusError, how: Representation) -> bytes:
        """Encode a refusal."""
        return encode.document(error.status(), how)

    async def served(self, kind: Kind, value: bytes, revision: int) -> Object:
        """Return a stored object in the version of the request."""
        resource = kind.resource
        obj = stored.unpack(value, revision, resource.kind, resource.storage_api_version)
        return kind.served((await kind.load([obj]))[0])

    async def one(
        self, kind: Kind, value: bytes, revision: int, how: Representation, query: Query
    ) -> Sequence[bytes]:
        """Encode one stored object, in pieces.

        Raises:
            StatusError: 406, it cannot be had so.
        """
        if how.target == partial.LIST_KIND:
            raise partial.no_object(_internal(kind, ""))
        if how.target == TABLE:
            table = await self._table(kind, [(value, revision)], _of(revision), how, query)
            return [encode.document(table, how)]
        if how.format == "protobuf":
            return [await self.enveloped(kind, value, revision, how)]
        return await self._written([await self.json(kind, value, revision, how)], how)

    async def listed(
        self, kind: Kind, listed: Listed, how: Representation, query: Query
    ) -> tuple[Sequence[bytes], AsyncIterator[bytes] | None]:
        """Encode a list: the pieces that are at hand, and those to come while it is sent, if it is a long one.

        Raises:
            StatusError: 406, it cannot be had so; 410, what had to be read first is gone.
        """
        if how.target == partial.KIND:
            raise partial.no_list(_internal(kind, "List"))
        resource, metadata = (
            kind.resource,
            encode.list_metadata(listed.revision, listed.continue_, listed.remaining),
        )
        if resource.custom and not how.target:
            # Lists of custom resources are unstructured: they tell an empty continuation.
            metadata = {"continue": listed.continue_, **metadata}
        include = tables.include_object(query.get("includeObject", ("",))[0]) if how.target == TABLE else ""
        if how.format == "json" and not how.pretty and not _ordered(kind, how):
            pieces = self._in_json(kind, listed, metadata, how, include)
            return ((), pieces) if listed.rest is not None else ([each async for each in pieces], None)
        if how.format == "protobuf" and how.target != TABLE:
            return await self._protobuf_list(kind, listed, how), None
        await listed.whole()
        if how.target == TABLE:
            objects = await self.working(kind, _items(listed.records, tell_tenant=listed.tell_tenant))
            return [encode.document(self.table(kind, objects, metadata, how, include), how)], None
        whole = [each async for each in self._in_json(kind, listed, metadata, how, include)]
        return await self._written(whole, how), None

    async def _written(self, data: Sequence[bytes], how: Representation) -> Sequence[bytes]:
        """Write JSON in the form asked for; what would take long, above all YAML, beside the event loop."""
        if costly_to_write(data, how):
            return await self._write(data, how)
        return [encode.written(b"".join(data), how)]

    async def _in_json(
        self, kind: Kind, listed: Listed, metadata: Object, how: Representation, include: str
    ) -> AsyncIterator[bytes]:
        nothing = self._empty_list(kind, metadata, how, include)
        if not listed.records:
            yield nothing + b"\n"
            return
        head = nothing.removesuffix(b"[]}").removesuffix(b"null}") + b"["
        cheap = kind.direct and how.target != TABLE
        async for batch in _batches(listed, cheap=cheap):
            items = _items(batch, tell_tenant=listed.tell_tenant)
            if how.target == TABLE:
                objects = await self.working(kind, items)
                table = self.table(kind, objects, metadata, how, include, headers=False)
                parts = [_encode(each) for each in table["rows"] or ()]
            else:
                parts = [await self._part(kind, each, how) for each in items]
            if parts:
                yield head + b",".join(parts)
                head = b","
        yield b"]}\n"

    def _empty_list(self, kind: Kind, metadata: Object, how: Representation, include: str) -> bytes:
        """Return the JSON of a list without items; these are the last of its fields, and none may be null."""
        if how.target == TABLE:
            return _encode(self.table(kind, (), metadata, how, include))
        if how.target == partial.LIST_KIND:
            return partial.partial_list((), metadata, version=how.version)
        resource = kind.resource
        name = resource.list_kind or f"{resource.kind}List"
        return encode.json_list(name, resource.api_version, metadata, ())

    async def _part(self, kind: Kind, item: tuple[bytes, int], how: Representation) -> bytes:
        """Encode an item of a list in JSON."""
        value, revision = item
        if how.target == partial.LIST_KIND:
            return partial.partial_object(value, revision, version=how.version)
        if kind.direct and not kind.resource.custom:
            return stored.item(value, revision)
        return await self._item(kind, value, revision)

    def watch(self, kind: Kind, how: Representation, query: Query, *, tell_tenant: bool) -> "WatchAnswers":
        """Return what encodes one watch."""
        include = tables.include_object(query.get("includeObject", ("",))[0]) if how.target == TABLE else ""
        return WatchAnswers(self, kind, how, include, tell_tenant=tell_tenant)

    async def _table(
        self,
        kind: Kind,
        items: Sequence[tuple[bytes, int]],
        metadata: Object,
        how: Representation,
        query: Query,
    ) -> Object:
        include = tables.include_object(query.get("includeObject", ("",))[0])
        objects = await self.working(kind, items)
        return self.table(kind, objects, metadata, how, include)

    async def working(self, kind: Kind, items: Sequence[tuple[bytes, int]]) -> list[Object]:
        """Return stored objects as Tables are made of them."""
        resource = kind.resource
        objects = [
            stored.unpack(value, revision, resource.kind, resource.storage_api_version)
            for value, revision in items
        ]
        return await kind.load(objects) if resource.custom and not kind.direct else objects

    def table(
        self,
        kind: Kind,
        objects: Sequence[Object],
        metadata: Object,
        how: Representation,
        include: str,
        *,
        headers: bool = True,
    ) -> Object:
        """Make a Table."""
        resource, now = kind.resource, self._now()
        if resource.custom:
            return tables.custom_table(
                kind.columns,
                objects,
                now=now,
                metadata=metadata,
                include=include,
                version=how.version,
                headers=headers,
            )
        return tables.table(
            resource.storage_group,
            resource.kind,
            objects,
            now=now,
            metadata=metadata,
            include=include,
            version=how.version,
            headers=headers,
        )

    async def json(self, kind: Kind, value: bytes, revision: int, how: Representation) -> bytes:
        """Encode one stored object as JSON, whole or its metadata."""
        if how.target.startswith(partial.KIND):
            return partial.partial_object(value, revision, version=how.version)
        resource = kind.resource
        if kind.direct:
            return stored.spliced(value, revision, resource.kind, resource.api_version)
        return _encode(await self.served(kind, value, revision))

    async def enveloped(self, kind: Kind, value: bytes, revision: int, how: Representation) -> bytes:
        """Encode one stored object as protobuf, whole or its metadata."""
        if how.target:
            raw = partial.partial_message(value, revision)
            return protobuf.envelope(f"{partial.GROUP}/{how.version}", partial.KIND, raw)
        resource = kind.resource
        raw = await self._message(kind, value, revision)
        return protobuf.envelope(resource.api_version, resource.kind, raw)

    async def _protobuf_list(self, kind: Kind, listed: Listed, how: Representation) -> list[bytes]:
        """Encode a list in pieces; all of them must be there before the first, which tells how long they are."""
        resource = kind.resource
        api_version, name = resource.api_version, resource.list_kind or f"{resource.kind}List"
        if how.target:
            api_version, name = f"{partial.GROUP}/{how.version}", partial.LIST_KIND
        pieces = []
        async for records in _batches(listed, cheap=False):
            parts = []
            for value, revision in _items(records, tell_tenant=listed.tell_tenant):
                raw = (
                    partial.partial_message(value, revision)
                    if how.target
                    else await self._message(kind, value, revision)
                )
                parts.append(protobuf.list_item(raw))
            pieces.append(b"".join(parts))
        head, tail = protobuf.list_frame(
            api_version,
            name,
            listed.revision,
            sum(map(len, pieces)),
            continuation=listed.continue_,
            remaining=listed.remaining,
        )
        return [head, *pieces, tail]

    async def _message(self, kind: Kind, value: bytes, revision: int) -> bytes:
        resource = kind.resource
        if kind.direct:
            obj = stored.unpack(value, revision, resource.kind, resource.api_version)
        else:
            obj = await self.served(kind, value, revision)
        return protobuf.message(resource.group, resource.version, resource.kind, obj)

    async def _item(self, kind: Kind, value: bytes, revision: int) -> bytes:
        resource = kind.resource
        if kind.direct:
            return stored.spliced(value, revision, resource.kind, resource.api_version)
        obj = await self.served(kind, value, revision)
        if not resource.custom:
            obj = {key: each for key, each in obj.items() if key not in ("kind", "apiVersion")}
        return _encode(obj)


class WatchAnswers:
    """Encodes one watch; what other watches of the same kind have encoded is not encoded again."""

    def __init__(
        self, answers: Answers, kind: Kind, how: Representation, include: str, *, tell_tenant: bool
    ) -> None:
        """Take what is watched, and how; `include`: what rows of Tables carry of their objects."""
        self._include = include
        self._headers = True
        self._answers = answers
        self._kind = kind
        self._how = how
        self._tell_tenant = tell_tenant
        self._shared = how.target != TABLE and (not kind.resource.custom or kind.direct)
        resource = kind.resource
        tenants = "all" if tell_tenant else ""
        self._which = {
            change: f"{change} {tenants} {resource.api_version} {how}"
            for change in ("ADDED", "MODIFIED", "DELETED")
        }

    def at_once(self, events: Sequence[Told]) -> bytes | None:
        """Encode events without waiting; None: it takes what may wait, or depends on what was sent before."""
        if not self._shared:
            return None
        return b"".join([self._known(each) or at_once(self.event(each)) for each in events])

    def _known(self, told: Told) -> bytes | None:
        return told.event.encoded.get(self._which[told.type]) if told.event is not None else None

    async def event(self, told: Told) -> bytes:
        """Encode one event."""
        if self._how.target == TABLE:
            value = _told(told.key, told.value, self._tell_tenant)
            return self._tabled(
                told.type, (await self._answers.working(self._kind, [(value, told.revision)]))[0]
            )
        found = self._known(told) if self._shared else None
        if found is None:
            value = _told(told.key, told.value, self._tell_tenant)
            if self._how.format == "protobuf":
                obj = await self._answers.enveloped(self._kind, value, told.revision, self._how)
                found = protobuf.watch_frame(told.type, obj)
            else:
                obj = await self._answers.json(self._kind, value, told.revision, self._how)
                found = encode.watch_event(told.type, obj)
            if self._shared and told.event is not None:
                told.event.encoded[self._which[told.type]] = found
        return found

    def bookmark(self, mark: Bookmark) -> bytes:
        """Encode a bookmark."""
        metadata: dict[str, Any] = {"resourceVersion": str(mark.revision)}
        if mark.initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._kind.resource
        kind, api_version = resource.kind, resource.api_version
        if self._how.target.startswith(partial.KIND):
            kind, api_version = partial.KIND, f"{partial.GROUP}/{self._how.version}"
        if self._how.target == TABLE:
            return self._tabled("BOOKMARK", {"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return self._frame("BOOKMARK", {"kind": kind, "apiVersion": api_version, "metadata": metadata})

    def failed(self, failed: Failed) -> bytes:
        """Encode the event that ends a watch."""
        return self._frame("ERROR", failed.error.status())

    def _tabled(self, change: str, obj: Object) -> bytes:
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._answers.table(
            self._kind, [obj], metadata, self._how, self._include, headers=self._headers
        )
        self._headers = False
        return self._frame(change, table)

    def _frame(self, change: str, obj: Object) -> bytes:
        if self._how.format == "protobuf":
            return protobuf.watch_frame(change, protobuf.encode(obj))
        return encode.watch_event(change, _encode(obj))


def at_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Return what work that waits for nothing comes to."""
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    work.close()
    raise RuntimeError("what cannot wait waits")


def _of(revision: int) -> Object:
    return {"resourceVersion": str(revision)} if revision else {}


def _told(key: str, value: bytes, tell_tenant: bool) -> bytes:
    return stored.with_tenant(value, key.partition("/")[0]) if tell_tenant else value


def _items(records: Sequence[Record], *, tell_tenant: bool) -> list[tuple[bytes, int]]:
    return [(_told(each.key, each.value, tell_tenant), each.revision) for each in records]


def _ordered(kind: Kind, how: Representation) -> bool:
    """Whether the items of a list stand in another order than that of their keys, so that all must be there first."""
    resource = kind.resource
    return how.target == TABLE and (resource.storage_group, resource.kind) in tables.ORDERS


async def _batches(listed: Listed, *, cheap: bool) -> AsyncIterator[list[Record]]:
    """Give the records of a list, few at a time; others have their turn between them."""
    records, first = listed.records, listed.rest is None
    while True:
        for batch in _few(records, cheap=cheap):
            if not first:
                await turn()
            first = False
            yield batch
        if listed.rest is None:
            return
        try:
            records = await anext(listed.rest)
        except StopAsyncIteration:
            return


def _few(records: list[Record], *, cheap: bool) -> Iterator[list[Record]]:
    number, size = (CHEAP_AT_ONCE, CHEAP_BYTES_AT_ONCE) if cheap else (AT_ONCE, BYTES_AT_ONCE)
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        size -= len(record.value)
        if len(batch) == number or size < 0:
            yield batch
            batch, size = [], CHEAP_BYTES_AT_ONCE if cheap else BYTES_AT_ONCE
    if batch:
        yield batch


def _internal(kind: Kind, suffix: str) -> str:
    group = kind.resource.group.partition(".")[0] or "core"
    return f"{group}.{kind.resource.kind}{suffix}"
