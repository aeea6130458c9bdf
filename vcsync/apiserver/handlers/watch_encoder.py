"""Encodes the events of one watch. Watches of the same kind share the encoded events.

Upstream's counterpart is the `watchEncoder` in apiserver's `endpoints/handlers/response.go`.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.tenant_marks import TenantMark
from vcsync.apimachinery.wire import encode, partial, protobuf
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.handlers.responses import TABLE, ResponseEncoder, mark_tenant, table_objects
from vcsync.apiserver.request.request_info import Query
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.watch.watcher import Bookmark, Failed, WatchEvent
from vcsync.process.loop_turns import turn

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial list."""
_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode


class WatchEncoder:
    """Encodes the events of one watch.

    Args:
        encoder: Encodes the objects.
        kind: Kind of the objects.
        representation: Form of the answer.
        query: Query of the request, for Tables.
        mark: How objects name their tenants.

    Raises:
        StatusError: 400 for an unknown `includeObject`.
    """

    def __init__(
        self,
        encoder: ResponseEncoder,
        kind: Kind,
        representation: Representation,
        query: Query,
        mark: TenantMark,
    ) -> None:
        self._include = table_objects(representation, query)
        self._headers = True
        self._encoder = encoder
        self._kind = kind
        self._representation = representation
        self._mark = mark
        self._shared = representation.target != TABLE and (not kind.resource.custom or kind.direct)
        resource = kind.resource
        self._columns = hash(tuple(kind.columns)) if self._representation.target == TABLE else 0
        self._keys = {
            change: f"{change} {mark} {resource.api_version} {representation}"
            for change in ("ADDED", "MODIFIED", "DELETED")
        }

    def encode_at_once(self, events: Sequence[WatchEvent]) -> bytes | None:
        """Encode events without waiting.

        Returns None if encoding may wait for a conversion, or depends on the events before, as in Tables.
        """
        if not self._shared:
            return None
        return b"".join([self._cached(each) or run_at_once(self.event(each)) for each in events])

    def _cached(self, event: WatchEvent) -> bytes | None:
        found: bytes | None = (
            event.event.forms.get(self._keys[event.type]) if event.event is not None else None
        )
        return found

    async def event(self, event: WatchEvent) -> bytes:
        """Encode one event."""
        if self._representation.target == TABLE:
            return await self._event_table(event)
        found = self._cached(event) if self._shared else None
        if found is None:
            value = mark_tenant(event.key, event.value, self._mark)
            if self._representation.format == "protobuf":
                obj = await self._encoder.encode_protobuf(
                    self._kind, value, event.revision, self._representation
                )
                found = protobuf.watch_frame(event.type, obj)
            else:
                obj = await self._encoder.encode_json(self._kind, value, event.revision, self._representation)
                found = encode.watch_event(event.type, obj)
            if self._shared and event.event is not None:
                event.event.forms.put(self._keys[event.type], found, len(found))
        return found

    async def _event_table(self, event: WatchEvent) -> bytes:
        """Encode a Table with the object of an event, once for all watches that ask in the same second.

        Columns of custom resources may take long. Other tasks run before, so that many watches do not follow each other.
        """
        found = self._known_table(event)
        if found is None and event.event is not None:
            await turn()
            found = self._known_table(event)
        if found is None:
            value = mark_tenant(event.key, event.value, self._mark)
            objects = await self._encoder.internal(self._kind, [(value, event.revision)])
            found = self._table(event.type, objects[0])
            if event.event is not None:
                event.event.forms.put(self._table_key(event), (self._encoder.second(), found), len(found))
        self._headers = False
        return found

    def _known_table(self, event: WatchEvent) -> bytes | None:
        """Return the Table of an event if a watch of the same form has encoded it in this second."""
        known: tuple[int, bytes] | None = None
        if event.event is not None:
            known = event.event.forms.get(self._table_key(event))
        return known[1] if known is not None and known[0] == self._encoder.second() else None

    def _table_key(self, event: WatchEvent) -> str:
        return f"{self._keys[event.type]} {self._include} {self._headers} {self._columns}"

    def bookmark(self, bookmark: Bookmark) -> bytes:
        """Encode a bookmark."""
        metadata: dict[str, Any] = {"resourceVersion": str(bookmark.revision)}
        if bookmark.initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._kind.resource
        kind, api_version = resource.kind, resource.api_version
        if self._representation.target.startswith(partial.KIND):
            kind, api_version = partial.KIND, f"{partial.GROUP}/{self._representation.version}"
        obj = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._representation.target == TABLE:
            found = self._table("BOOKMARK", obj)
            self._headers = False
            return found
        return self._frame("BOOKMARK", obj)

    def failed(self, failed: Failed) -> bytes:
        """Encode the error that ends a watch."""
        return self._frame("ERROR", failed.error.status())

    def _table(self, change: str, obj: Object) -> bytes:
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._encoder.table(
            self._kind,
            [obj],
            metadata,
            self._representation,
            self._include,
            headers=self._headers,
            tenants=self._mark.shown,
        )
        return self._frame(change, table)

    def _frame(self, change: str, obj: Object) -> bytes:
        if self._representation.format == "protobuf":
            return protobuf.watch_frame(change, protobuf.encode(obj))
        return encode.watch_event(change, _encode(obj))


def run_at_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that does not wait.

    Raises:
        RuntimeError: It does wait.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    work.close()
    raise RuntimeError("a coroutine that must not wait has waited")
