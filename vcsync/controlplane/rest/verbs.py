"""The verbs of every resource: from a request that may proceed to its answer.

Behaviour: apiserver's `endpoints/handlers/{get,create,update,patch,delete}.go`.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from vcsync.controlplane import errors
from vcsync.controlplane.audit.trail import Level
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.cel import patience
from vcsync.controlplane.rest import deletion, meta
from vcsync.controlplane.rest.answers import Answers, WatchAnswers
from vcsync.controlplane.rest.bodies import read_object, read_options
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.deletion import Deleter, status_of
from vcsync.controlplane.rest.heavy import Tried, costly, heavily
from vcsync.controlplane.rest.options import delete_options, list_options, write_options
from vcsync.controlplane.rest.patching import defaulted, patched
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.registry import Registry, Written
from vcsync.controlplane.rest.reply import Outlet, Reply, Stream
from vcsync.controlplane.rest.requestinfo import ALL, Query, RequestInfo
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.selection import selection
from vcsync.controlplane.rest.selectors import Selectors
from vcsync.controlplane.rest.tracking import track
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.rest.watching import Bookmark, Failed, Item, Told, Watches
from vcsync.controlplane.wire import negotiation
from vcsync.controlplane.wire.negotiation import Representation

ReadBody = Callable[[], Awaitable[bytes]]
COLLECTION_PAGE = 10_000
PIECE, TURN_SECONDS = 64 * 1024, 0.0005
"""How much of what a watch is told is encoded before others have their turn: bytes, and how long."""


@dataclass(slots=True)
class Request:
    """One request for a resource, after authorization."""

    info: RequestInfo
    query: Query
    headers: "Headers"
    body: ReadBody
    scope: Scope
    how: Representation


@dataclass(frozen=True, slots=True)
class Headers:
    """Those that verbs look at. `all`: for who asks for another protocol."""

    content_type: str = ""
    accept: str = ""
    agent: str = ""
    all: Mapping[str, str] = field(default_factory=dict)


class Elsewhere(Protocol):
    """Who does heavy writes; `lane.Lane` will do."""

    async def do(self, request: Request, body: bytes) -> Reply:
        """Do a write; raises StatusError."""


class Verbs:
    """Does what a request asks."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        registry: Registry,
        reader: Reader,
        watches: Watches,
        deleter: Deleter,
        answers: Answers,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Take the parts; `elsewhere` None: heavy writes are done here."""
        self._elsewhere = elsewhere
        self._tried = Tried()
        self._registry = registry
        self._reader = reader
        self._watches = watches
        self._deleter = deleter
        self._answers = answers

    async def get(self, request: Request) -> Reply:
        """Answer one object."""
        version = request.query.get("resourceVersion", ("",))[0]
        record = await self._reader.get(request.scope, version)
        return await self._object(request, Written(record.value, record.revision))

    async def collection(self, request: Request) -> Reply | Stream:
        """Answer a collection, or watch it."""
        by_path = request.info.verb == "watch" and request.info.by_path
        options = list_options(request.query, watch=by_path)
        scope = request.scope
        chosen = selection(scope.kind, _selectors(request), scope.name)
        if options.watch:
            # What encodes is made first: it may refuse, which no stream that has begun could tell.
            all_tenants = scope.tenant == ALL
            writer = self._answers.watch(scope.kind, request.how, request.query, tell_tenant=all_tenants)
            outlet = Outlet()

            def push(events: Sequence[Told]) -> bool:
                piece = writer.at_once(events)
                return piece is not None and outlet.write(piece)

            stream = await self._watches.open(scope, options, chosen, push)
            return Stream(request.how.stream_type, self._pieces(writer, stream), outlet)
        listed = await self._reader.collection(scope, options, chosen)
        if scope.audit.level >= Level.REQUEST_RESPONSE:
            await listed.whole()
        body, rest = await self._answers.listed(scope.kind, listed, request.how, request.query)
        return Reply(200, body, request.how.content_type, rest=rest)

    @staticmethod
    async def _pieces(writer: WatchAnswers, stream: AsyncIterator[list[Item]]) -> AsyncIterator[bytes]:
        async for items in stream:
            pieces, size, since = [], 0, time.perf_counter()
            for item in items:
                if isinstance(item, Bookmark):
                    piece = writer.bookmark(item)
                elif isinstance(item, Failed):
                    piece = writer.failed(item)
                else:
                    piece = await writer.event(item)
                pieces.append(piece)
                size += len(piece)
                if size > PIECE or time.perf_counter() - since > TURN_SECONDS:
                    yield b"".join(pieces)
                    await turn()
                    pieces, size, since = [], 0, time.perf_counter()
            if pieces:
                yield b"".join(pieces)

    async def create(self, request: Request) -> Reply:
        """Create an object."""
        return await self._write(request, self._create)

    async def update(self, request: Request) -> Reply:
        """Replace an object."""
        return await self._write(request, self._update)

    async def patch(self, request: Request) -> Reply:
        """Change an object by a patch."""
        return await self._write(request, self._patch)

    async def _write(self, request: Request, here: Callable[[Request, bytes], Awaitable[Reply]]) -> Reply:
        """Do a write, elsewhere if it is heavy."""
        elsewhere, scope = self._elsewhere, request.scope
        body = await request.body()
        if elsewhere is None:
            return await here(request, body)
        info = request.info
        writes = (scope.tenant, info.verb, info.group, info.resource)
        if costly(body, request.headers.content_type) or self._tried.in_vain(writes, len(body)):
            return await elsewhere.do(request, body)
        warned = len(scope.warnings)
        try:
            with patience.moving():
                return await here(request, body)
        except patience.TooLong as why:
            if not isinstance(why, patience.TooLarge):
                self._tried.told(writes, len(body))
            del scope.warnings[warned:]
            return await elsewhere.do(request, body)

    async def _create(self, request: Request, body: bytes) -> Reply:
        scope = request.scope
        options = write_options(request.query, "CreateOptions")
        scope.size = len(body)
        served = await heavily(
            scope, partial(read_object, scope, body, request.headers.content_type, options.validation)
        )
        metadata = served["metadata"]
        meta.wipe(metadata)
        if scope.name and metadata.get("name") in (None, ""):
            metadata["name"] = scope.name
        scope.name = metadata.get("name") or ""
        meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
        scope.warn(meta.drop_duplicate_owners(metadata))
        if scope.kind.resource.namespaced and not scope.namespace:
            raise errors.bad_request("namespace is required")
        if scope.kind.refusal:
            raise scope.kind.refusal
        served = await heavily(scope, partial(defaulted, scope, served))
        await heavily(scope, partial(track, scope, None, served, options.manager))
        written = await self._registry.create(scope, served, options)
        return await self._object(request, written)

    async def _update(self, request: Request, body: bytes) -> Reply:
        scope = request.scope
        options = write_options(request.query, "UpdateOptions")
        scope.size = len(body)
        served = await heavily(
            scope, partial(read_object, scope, body, request.headers.content_type, options.validation)
        )
        metadata = served["metadata"]
        meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
        meta.check_name(metadata, scope.name, scope.namespace)
        uid = metadata.get("uid") or ""
        scope.warn(meta.drop_duplicate_owners(metadata))
        served = await heavily(scope, partial(defaulted, scope, served))

        async def change(live: Object | None) -> Object:
            new = copied(served)
            await heavily(scope, partial(track, scope, live, new, options.manager))
            return new

        written = await self._registry.update(scope, change, options, uid=uid)
        return await self._object(request, written)

    async def _patch(self, request: Request, body: bytes) -> Reply:
        scope = request.scope
        form = negotiation.patch_type(request.headers.content_type, custom=scope.kind.resource.custom)
        apply = form == negotiation.APPLY_PATCH
        options = write_options(request.query, "PatchOptions", apply=apply)
        scope.size = len(body)
        change = await heavily(scope, partial(patched, scope, form, body, options))
        written = await self._registry.update(scope, change, options, may_create=apply)
        return await self._object(request, written)

    async def delete(self, request: Request) -> Reply:
        """Delete an object."""
        return await self._write(request, self._delete)

    async def _delete(self, request: Request, body: bytes) -> Reply:
        scope = request.scope
        options = delete_options(request.query, read_options(body, request.headers.content_type))
        scope.warn(deletion.warnings(scope, options))
        deleted = await self._deleter.delete(scope, options)
        status = 202 if not deleted.gone and options.orphan is False else 200
        if deleted.value is None:
            told = self._answers.document(status_of(scope, deleted), request.how)
            return Reply(status, [told], request.how.content_type)
        return replace(await self._object(request, Written(deleted.value, deleted.revision)), status=status)

    async def deletecollection(self, request: Request) -> Reply:
        """Delete what is selected of a collection; the answer is the list of it."""
        scope = request.scope
        listing = list_options(request.query)
        chosen = selection(scope.kind, _selectors(request))
        body = read_options(await request.body(), request.headers.content_type)
        options = delete_options(request.query, body)
        if scope.kind.resource.namespaced and not scope.namespace:
            raise errors.method_not_allowed()
        scope.warn(deletion.warnings(scope, options))
        listed = await self._reader.collection(scope, listing, chosen)
        await listed.whole()
        names = [record.key.rpartition("/")[2] for record in listed.records]
        await self._deleter.delete_all(scope, [(scope.namespace, name) for name in names], options)
        told, _ = await self._answers.listed(scope.kind, listed, request.how, request.query)
        return Reply(200, told, request.how.content_type)

    async def _object(self, request: Request, written: Written) -> Reply:
        told = await self._answers.one(
            request.scope.kind, written.value, written.revision, request.how, request.query
        )
        return Reply(201 if written.created else 200, told, request.how.content_type)


def _selectors(request: Request) -> Selectors:
    """Return what a request selects by, as it was authorized."""
    if request.info.selectors is None:
        raise AssertionError("selectors are read before a request is authorized")
    return request.info.selectors
