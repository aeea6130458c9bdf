"""Turns what is stored into the bytes that a client asked for: JSON, YAML, protobuf, Tables, partial objects."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.reading import Listed
from vcsync.controlplane.rest.watching import Bookmark, Failed, Told
from vcsync.controlplane.wire.negotiation import Representation

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_encode = msgspec.json.Encoder().encode


class Answers:
    """Encodes. `now` is asked for the ages in Tables."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Take a clock."""
        self._now = now

    def document(self, obj: Object, how: Representation) -> bytes:
        """Encode a whole object that is no stored one: a Status, a review, discovery."""
        return _encode(obj) + b"\n"

    async def served(self, kind: Kind, value: bytes, revision: int, tenant: str = "") -> Object:
        """Return a stored object in the version of the request."""
        resource = kind.resource
        obj = stored.unpack(value, revision, resource.kind, resource.storage_api_version, tenant)
        return kind.served((await kind.load([obj]))[0])

    async def one(
        self, kind: Kind, value: bytes, revision: int, how: Representation, query: Mapping[str, Sequence[str]]
    ) -> bytes:
        """Encode one stored object."""
        return await self.json(kind, value, revision, "") + b"\n"

    async def listed(
        self, kind: Kind, listed: Listed, how: Representation, query: Mapping[str, Sequence[str]]
    ) -> list[bytes]:
        """Encode a list, in pieces."""
        resource = kind.resource
        metadata: dict[str, Any] = {"resourceVersion": str(listed.revision)}
        if listed.continue_:
            metadata["continue"] = listed.continue_
        if listed.remaining is not None:
            metadata["remainingItemCount"] = listed.remaining
        name = resource.list_kind or f"{resource.kind}List"
        head = {"kind": name, "apiVersion": resource.api_version, "metadata": metadata}
        pieces = [_encode(head)[:-1] + b',"items":[']
        for at, record in enumerate(listed.records):
            tenant = record.key.partition("/")[0] if listed.tell_tenant else ""
            if at:
                pieces.append(b",")
            if kind.direct and not resource.custom:
                pieces.append(stored.item(record.value, record.revision, tenant))
            else:
                pieces.append(await self.json(kind, record.value, record.revision, tenant))
        pieces.append(b"]}\n")
        return pieces

    def watch(
        self, kind: Kind, how: Representation, query: Mapping[str, Sequence[str]], *, tell_tenant: bool
    ) -> "WatchAnswers":
        """Return what encodes one watch."""
        return WatchAnswers(self, kind, how, tell_tenant)

    def error(self, error: StatusError, how: Representation) -> bytes:
        """Encode a refusal."""
        return self.document(error.status(), how)

    async def json(self, kind: Kind, value: bytes, revision: int, tenant: str) -> bytes:
        """Encode one stored object as JSON."""
        resource = kind.resource
        if kind.direct:
            return stored.spliced(value, revision, resource.kind, resource.api_version, tenant)
        return _encode(await self.served(kind, value, revision, tenant))


class WatchAnswers:
    """Encodes one watch; what other watches of the same kind have encoded is not encoded again."""

    def __init__(self, answers: Answers, kind: Kind, how: Representation, tell_tenant: bool) -> None:
        """Take what is watched, and how."""
        self._answers = answers
        self._kind = kind
        self._how = how
        self._tell_tenant = tell_tenant
        self._shared = not kind.resource.custom or kind.direct

    async def event(self, told: Told) -> bytes:
        """Encode one event."""
        kind, resource = self._kind, self._kind.resource
        tenant = told.tenant if self._tell_tenant else ""
        which = (resource.group, resource.version, resource.kind, self._how, told.type, tenant)
        cache = told.event.encoded if told.event is not None and self._shared else {}
        found = cache.get(which)
        if found is None:
            obj = await self._answers.json(kind, told.value, told.revision, tenant)
            found = cache[which] = b'{"type":"%b","object":%b}\n' % (told.type.encode(), obj)
        return found

    def bookmark(self, mark: Bookmark) -> bytes:
        """Encode a bookmark."""
        metadata: dict[str, Any] = {"resourceVersion": str(mark.revision)}
        if mark.initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._kind.resource
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return b'{"type":"BOOKMARK","object":%b}\n' % _encode(obj)

    def failed(self, failed: Failed) -> bytes:
        """Encode the event that ends a watch."""
        return b'{"type":"ERROR","object":%b}\n' % _encode(failed.error.status())
