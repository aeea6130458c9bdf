"""Encodes stored objects as the client asked: JSON, YAML, protobuf, Tables or partial objects.

Upstream's counterpart is apiserver's `endpoints/handlers/responsewriters`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import tables as builtin_tables
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.tenant_marks import TenantMark, with_tenant
from vcsync.apimachinery.wire import encode, partial, protobuf, tables
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.registry.offloading import is_expensive, is_expensive_to_encode
from vcsync.apiserver.registry.reading import Listed
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.request_info import Query
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.storage.interface import Record
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest, turn

BATCH = 20
BATCH_BYTES = 64 * 1024
"""Items of a list to encode before other tasks run: number and bytes. The costliest kinds take 2 ms."""
DIRECT_BATCH = 200
DIRECT_BATCH_BYTES = 256 * 1024
"""The same for items whose stored form is copied into the answer."""
TABLE = "Table"
_encode = msgspec.json.Encoder().encode
Transcode = Callable[[Sequence[bytes], Representation], Awaitable[Sequence[bytes]]]
"""Takes a long JSON document in pieces, and returns it in another form."""


async def _transcode_on_thread(data: Sequence[bytes], representation: Representation) -> Sequence[bytes]:
    return [await asyncio.to_thread(lambda: encode.written(b"".join(data), representation))]


class ResponseEncoder:
    """Encodes answers.

    Args:
        now: Returns the time, for the ages in Tables.
        transcode: Turns long JSON documents into another form, outside the event loop.
    """

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        transcode: Transcode = _transcode_on_thread,
    ) -> None:
        self._now = now
        self._transcode = transcode

    def second(self) -> int:
        """Return the time of Tables in whole seconds: the ages in two Tables of the same second are equal."""
        return int(self._now().timestamp())

    def encode_document(self, obj: Object, representation: Representation) -> bytes:
        """Encode an object that is not stored: a Status, a review, a discovery document."""
        return encode.document(obj, representation)

    def encode_status(self, error: StatusError, representation: Representation) -> bytes:
        """Encode the Status of an error."""
        return encode.document(error.status(), representation)

    async def versioned(self, kind: Kind, value: bytes, revision: int) -> Object:
        """Return a stored object in the version of the request."""
        resource = kind.resource
        obj = stored.unpack(value, revision, resource.kind, resource.storage_api_version)
        return kind.served((await kind.load([obj]))[0])

    async def encode_object(
        self, kind: Kind, value: bytes, revision: int, representation: Representation, query: Query
    ) -> Sequence[bytes]:
        """Encode one stored object, in pieces.

        Raises:
            StatusError: 406 if the representation is one of lists.
        """
        if representation.target == partial.LIST_KIND:
            raise partial.no_object(_internal_kind(kind, ""))
        if representation.target == TABLE:
            metadata = {"resourceVersion": str(revision)} if revision else {}
            include = table_objects(representation, query)
            objects = await self.internal(kind, [(value, revision)])
            table = self.table(kind, objects, metadata, representation, include)
            return await self._in_form([_encode(table)], representation)
        whole = not representation.target and is_expensive(value)
        if representation.format == "protobuf" and not whole:
            return [await self.encode_protobuf(kind, value, revision, representation)]
        return await self._in_form(
            [await self.encode_json(kind, value, revision, representation)], representation
        )

    async def encode_list(
        self,
        kind: Kind,
        listed: Listed,
        representation: Representation,
        query: Query,
        mark: TenantMark = TenantMark.NONE,
    ) -> tuple[Sequence[bytes], AsyncIterator[bytes] | None]:
        """Encode a list: the pieces at hand and, for a long list, those that are produced while it is sent.

        Args:
            kind: Kind of the objects.
            listed: The objects.
            representation: Form of the answer.
            query: Query of the request, for Tables.
            mark: How objects name their tenants.

        Raises:
            StatusError: 406 if the representation is one of objects, 410 if the list expired while it was read.
        """
        if representation.target == partial.KIND:
            raise partial.no_list(_internal_kind(kind, "List"))
        metadata = encode.list_metadata(listed.revision, listed.continue_, listed.remaining)
        if kind.resource.custom and not representation.target:
            # Lists of custom resources are unstructured, so they have a `continue` field even if it is empty.
            metadata = {"continue": listed.continue_, **metadata}
        include = table_objects(representation, query)
        if (
            representation.format == "json"
            and not representation.pretty
            and not _is_sorted(kind, representation)
        ):
            pieces = self._json_list(kind, listed, metadata, representation, include, mark)
            return ((), pieces) if listed.rest is not None else ([each async for each in pieces], None)
        if representation.format == "protobuf" and representation.target != TABLE:
            return await self._protobuf_list(kind, listed, representation, mark), None
        await listed.whole()
        if _is_sorted(kind, representation):
            objects = await self.internal(kind, _items(listed.records, mark))
            table = self.table(kind, objects, metadata, representation, include, tenants=mark.shown)
            return [encode.document(table, representation)], None
        whole = [
            each async for each in self._json_list(kind, listed, metadata, representation, include, mark)
        ]
        return await self._in_form(whole, representation), None

    async def _in_form(self, data: Sequence[bytes], representation: Representation) -> Sequence[bytes]:
        """Turn JSON into the form of the representation, outside the event loop if that takes long."""
        if is_expensive_to_encode(data, representation):
            return await self._transcode(data, representation)
        return [encode.written(b"".join(data), representation)]

    async def _json_list(  # noqa: PLR0917 - what a list consists of, each of its own type
        self,
        kind: Kind,
        listed: Listed,
        metadata: Object,
        representation: Representation,
        include: str,
        mark: TenantMark,
    ) -> AsyncIterator[bytes]:
        empty = self._empty_list(kind, metadata, representation, include, mark)
        if not listed.records:
            yield empty + b"\n"
            return
        head = empty.removesuffix(b"[]}").removesuffix(b"null}") + b"["
        direct = kind.direct and representation.target != TABLE
        budget = Budget("a Table")
        async for batch in _batches(listed, direct=direct):
            items = _items(batch, mark)
            if representation.target == TABLE:
                parts = []
                how = {"headers": False, "tenants": mark.shown}
                for objects in _rows(kind, await self.internal(kind, items)):
                    await rest(budget)
                    table = self.table(kind, objects, metadata, representation, include, budget=budget, **how)
                    parts += [_encode(each) for each in table["rows"] or ()]
            else:
                parts = [await self._json_item(kind, each, representation) for each in items]
            if parts:
                yield head + b",".join(parts)
                head = b","
        yield b"]}\n"

    def _empty_list(
        self, kind: Kind, metadata: Object, representation: Representation, include: str, mark: TenantMark
    ) -> bytes:
        """Return the JSON of a list without items. The items are its last field, which may be null."""
        if representation.target == TABLE:
            return _encode(self.table(kind, (), metadata, representation, include, tenants=mark.shown))
        if representation.target == partial.LIST_KIND:
            return partial.partial_list((), metadata, version=representation.version)
        resource = kind.resource
        name = resource.list_kind or f"{resource.kind}List"
        return encode.json_list(name, resource.api_version, metadata, ())

    async def _json_item(self, kind: Kind, item: tuple[bytes, int], representation: Representation) -> bytes:
        """Encode an item of a list as JSON. Items of built-in kinds have no kind and apiVersion."""
        value, revision = item
        if representation.target == partial.LIST_KIND:
            return partial.partial_object(value, revision, version=representation.version)
        resource = kind.resource
        if kind.direct and not resource.custom:
            return stored.item(value, revision)
        if kind.direct:
            return stored.spliced(value, revision, resource.kind, resource.api_version)
        obj = await self.versioned(kind, value, revision)
        if not resource.custom:
            obj = {key: each for key, each in obj.items() if key not in ("kind", "apiVersion")}
        return _encode(obj)

    async def internal(self, kind: Kind, items: Sequence[tuple[bytes, int]]) -> Sequence[Object]:
        """Return stored objects in the internal version, from which Tables are made."""
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
        representation: Representation,
        include: str,
        *,
        headers: bool = True,
        tenants: bool = False,
        budget: Budget | None = None,
    ) -> Object:
        """Return a Table of objects.

        Args:
            kind: The kind of the objects.
            objects: The objects, in the internal version.
            metadata: Metadata of the Table.
            representation: Gives the version of the Table.
            include: What rows contain of their objects; see `table_objects`.
            headers: Whether to include the column definitions.
            tenants: Whether the first column names the tenants of the objects.
            budget: Spent for the rows of custom resources, whose columns may take long.
        """
        resource, now = kind.resource, self._now()
        if resource.custom:
            return tables.custom_table(
                kind.columns,
                objects,
                now=now,
                metadata=metadata,
                include=include,
                version=representation.version,
                headers=headers,
                tenants=tenants,
                budget=budget,
            )
        return builtin_tables.table(
            resource.storage_group,
            resource.kind,
            objects,
            now=now,
            metadata=metadata,
            include=include,
            version=representation.version,
            headers=headers,
            tenants=tenants,
        )

    async def encode_json(
        self, kind: Kind, value: bytes, revision: int, representation: Representation
    ) -> bytes:
        """Encode one stored object, or its metadata, as JSON."""
        if representation.target.startswith(partial.KIND):
            return partial.partial_object(value, revision, version=representation.version)
        resource = kind.resource
        if kind.direct:
            return stored.spliced(value, revision, resource.kind, resource.api_version)
        return _encode(await self.versioned(kind, value, revision))

    async def encode_protobuf(
        self, kind: Kind, value: bytes, revision: int, representation: Representation
    ) -> bytes:
        """Encode one stored object, or its metadata, as protobuf in its envelope."""
        if representation.target:
            raw = partial.partial_message(value, revision)
            return protobuf.envelope(f"{partial.GROUP}/{representation.version}", partial.KIND, raw)
        resource = kind.resource
        raw = await self._message(kind, value, revision)
        return protobuf.envelope(resource.api_version, resource.kind, raw)

    async def _protobuf_list(
        self, kind: Kind, listed: Listed, representation: Representation, mark: TenantMark
    ) -> Sequence[bytes]:
        """Encode a list in pieces. The first piece contains the length of the others, so all must be at hand."""
        resource = kind.resource
        api_version, name = resource.api_version, resource.list_kind or f"{resource.kind}List"
        if representation.target:
            api_version, name = f"{partial.GROUP}/{representation.version}", partial.LIST_KIND
        pieces = []
        async for records in _batches(listed, direct=False):
            parts = []
            for value, revision in _items(records, mark):
                raw = (
                    partial.partial_message(value, revision)
                    if representation.target
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
            obj = await self.versioned(kind, value, revision)
        return protobuf.message(resource.group, resource.version, resource.kind, obj)


def table_objects(representation: Representation, query: Query) -> str:
    """Return what rows of a Table contain of their objects; empty for other representations.

    Raises:
        StatusError: 400 for an unknown `includeObject`.
    """
    if representation.target != TABLE:
        return ""
    return tables.include_object(query.get("includeObject", ("",))[0])


def mark_tenant(key: str, value: bytes, mark: TenantMark) -> bytes:
    """Return a stored object that names its tenant as `mark` says."""
    return value if not mark.shown else with_tenant(value, key.partition("/")[0], mark)


def _items(records: Sequence[Record], mark: TenantMark) -> Sequence[tuple[bytes, int]]:
    return [(mark_tenant(each.key, each.value, mark), each.revision) for each in records]


def _is_sorted(kind: Kind, representation: Representation) -> bool:
    """Tell whether the items of a list are not in the order of their keys, so that all must be at hand."""
    resource = kind.resource
    return representation.target == TABLE and builtin_tables.ordered(resource.storage_group, resource.kind)


async def _batches(listed: Listed, *, direct: bool) -> AsyncIterator[Sequence[Record]]:
    """Yield the records of a list in batches; other tasks run in between."""
    records, first = listed.records, listed.rest is None
    while True:
        for batch in _split(records, direct=direct):
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


def _split(records: Sequence[Record], *, direct: bool) -> Iterator[Sequence[Record]]:
    number, size = (DIRECT_BATCH, DIRECT_BATCH_BYTES) if direct else (BATCH, BATCH_BYTES)
    batch: list[Record] = []
    left = size
    for record in records:
        batch.append(record)
        left -= len(record.value)
        if len(batch) == number or left < 0:
            yield batch
            batch, left = [], size
    if batch:
        yield batch


def _rows(kind: Kind, objects: Sequence[Object]) -> Iterator[Sequence[Object]]:
    """Split the objects of a Table. Other tasks may run between the parts."""
    return ((each,) for each in objects) if kind.resource.custom else iter((objects,))


def _internal_kind(kind: Kind, suffix: str) -> str:
    """Return the name of a kind in upstream's error messages."""
    group = kind.resource.group.partition(".")[0] or "core"
    return f"{group}.{kind.resource.kind}{suffix}"
