"""An API server in memory with the parts of a client that schedulers use, including lists and watches."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.kube.breaker import BreakerState
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound, Status
from vcsync.kube.resources import Resource
from vcsync.kube.transport import ClientStatistics
from vcsync.objects.envelope import Envelope, ListPage, WatchEvent, parse
from vcsync.objects.merge_patch import create_merge_patch, merge_patch
from vcsync.objects.selectors import Selector, parse_selector

Key = tuple[str, str, str]
"""(plural, namespace, name)."""


@dataclass(frozen=True)
class _Connection:
    """The connection of a client of the cluster."""

    url: str

    async def credentials(self) -> "_Connection":
        return self


class MemoryCluster:
    """A cluster's objects by plural, namespace and name; watches report every write.

    Attributes:
        before: called with verb, plural and name before each call; may raise the call's error.
        after: called with the same arguments after each call has had its effect.
        fields: plural -> field selector of the last watch.
        raw: subresource -> function of namespace, name and body that answers its creations.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[Key, dict[str, Any]] = {}
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self.after: Callable[[str, str, str], None] = lambda *_: None
        self.fields: dict[str, str] = {}
        self.callbacks: list[Callable[[], None]] = []
        self.connection = _Connection(f"https://{name}:6443")
        self.raw: dict[str, Callable[[str, str, dict[str, Any]], bytes]] = {}
        self._versions = itertools.count(1)
        self._applied: dict[tuple[Key, str], dict[str, Any]] = {}  # by field manager: what it applied last
        self._watches: list[tuple[str, str, Selector, asyncio.Queue[WatchEvent]]] = []

    # For tests

    def put(self, resource: Resource, name: str, namespace: str = "", **body: Any) -> None:
        """Create or replace an object."""
        key = (resource.plural, namespace, name)
        known = key in self.objects
        metadata = {"uid": f"uid-{name}", **body.pop("metadata", {}), "name": name}
        if namespace:
            metadata["namespace"] = namespace
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[key] = {**body, "metadata": metadata}
        self._notify("MODIFIED" if known else "ADDED", key)

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Remove an object, even if it has finalizers."""
        key = (resource.plural, namespace, name)
        self.objects[key]["metadata"]["resourceVersion"] = str(next(self._versions))
        self._notify("DELETED", key)
        del self.objects[key]

    def found(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object, or None if it does not exist."""
        return self.objects.get((resource.plural, namespace, name))

    def all(self, resource: Resource) -> list[dict[str, Any]]:
        """Return all objects of a type."""
        return [body for key, body in self.objects.items() if key[0] == resource.plural]

    def _notify(self, kind: Any, key: Key) -> None:
        for plural, namespace, selector, queue in self._watches:
            if plural == key[0] and namespace in ("", key[1]) and self._selected(key, selector):
                queue.put_nowait(WatchEvent(kind, self._envelope(key)))

    def _selected(self, key: Key, selector: Selector) -> bool:
        return selector.matches(self.objects[key]["metadata"].get("labels") or {})

    def _envelope(self, key: Key) -> Envelope:
        return parse(msgspec.json.encode(self.objects[key]))

    def _stored(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        found = self.found(resource, name, namespace)
        if found is None:
            raise NotFound(Status(404, "NotFound", f"{resource.plural} {name} not found"), endpoint=self.name)
        return found

    # For clients

    def on_unauthorized(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def statistics(self) -> ClientStatistics:
        return ClientStatistics({}, 0, 0, BreakerState.CLOSED, None, None, 1.0)

    async def __aenter__(self) -> "MemoryCluster":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def metadata_only(self) -> "MemoryCluster":
        return self

    async def version(self) -> dict[str, Any]:
        return {}

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        self.before("get", resource.plural, name)
        self._stored(resource, name, namespace)
        return self._envelope((resource.plural, namespace, name))

    async def get_raw(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        self.before("get", resource.plural, name)
        return json.dumps(self._stored(resource, name, namespace)).encode()

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", **_: object
    ) -> list[Envelope]:
        self.before("list", resource.plural, "")
        selector = parse_selector(label_selector)
        return [
            self._envelope(key)
            for key in self.objects
            if key[0] == resource.plural and namespace in ("", key[1]) and self._selected(key, selector)
        ]

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> Envelope:
        name = body["metadata"]["name"]
        self.before("create", resource.plural, name)
        if self.found(resource, name, namespace) is not None:
            raise AlreadyExists(Status(409, "AlreadyExists", name), endpoint=self.name)
        self.put(resource, name, namespace, **body)
        self.after("create", resource.plural, name)
        return self._envelope((resource.plural, namespace, name))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: dict[str, Any],
        namespace: str = "",
        *,
        kind: str = "merge",
        subresource: str = "",
        force: bool = False,
        field_manager: str = "",
    ) -> Envelope:
        assert kind in ("merge", "strategic", "apply")
        self.before("patch", resource.plural, name)
        if kind == "apply":
            assert force
            return self._apply(resource, name, namespace, patch, field_manager)
        found = self._stored(resource, name, namespace)
        for condition in ("resourceVersion", "uid"):
            if (
                patch.get("metadata", {}).get(condition, found["metadata"][condition])
                != found["metadata"][condition]
            ):
                raise Conflict(Status(409, "Conflict", condition), endpoint=self.name)
        changed = {
            field: value
            for field, value in patch.items()
            if field == "metadata" or (field == "status") == (subresource == "status")
        }
        body = merge_patch(found, changed)
        self.put(resource, name, namespace, **body)
        metadata = self.objects[resource.plural, namespace, name]["metadata"]
        answer = self._envelope((resource.plural, namespace, name))
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(resource, name, namespace)
        self.after("patch", resource.plural, name)
        return answer

    def _apply(
        self, resource: Resource, name: str, namespace: str, body: dict[str, Any], manager: str
    ) -> Envelope:
        """Apply as a server does: fields that the manager applied before and does not any more are removed."""
        key = (resource.plural, namespace, name)
        found = self.found(resource, name, namespace)
        uid = body["metadata"].get("uid")
        if uid is not None and (found is None or found["metadata"]["uid"] != uid):
            raise Conflict(Status(409, "Conflict", "uid"), endpoint=self.name)
        before = self._applied.get((key, manager), {}) if found is not None else {}
        self._applied[key, manager] = body
        removed = create_merge_patch(before, body) or {}
        self.put(resource, name, namespace, **merge_patch(merge_patch(found or {}, removed), body))
        self.after("patch", resource.plural, name)
        return self._envelope(key)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        **_: object,
    ) -> Envelope | None:
        self.before("delete", resource.plural, name)
        metadata = self._stored(resource, name, namespace)["metadata"]
        if uid not in (None, metadata["uid"]) or resource_version not in (None, metadata["resourceVersion"]):
            raise Conflict(Status(409, "Conflict", name), endpoint=self.name)
        if metadata.get("finalizers"):
            body = merge_patch(
                self.objects[resource.plural, namespace, name],
                {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            )
            self.put(resource, name, namespace, **body)
            return self._envelope((resource.plural, namespace, name))
        self.remove(resource, name, namespace)
        return None

    async def create_raw(
        self,
        resource: Resource,
        body: dict[str, Any],
        namespace: str = "",
        *,
        name: str,
        subresource: str,
    ) -> bytes:
        self.before(subresource, resource.plural, name)
        return self.raw[subresource](namespace, name, body)

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        **_: object,
    ) -> AsyncIterator[ListPage]:
        found = await self.list(resource, namespace, label_selector=label_selector)
        yield ListPage(found, str(next(self._versions)), "", None)

    async def watch_batches(
        self, resource: Resource, namespace: str = "", *, send_initial_events: bool = False, **options: Any
    ) -> AsyncIterator[Any]:
        self.fields[resource.plural] = options.get("field_selector", "")
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        labels = options.get("label_selector", "")
        watch = (resource.plural, namespace, parse_selector(labels), queue)
        self._watches.append(watch)
        try:
            if send_initial_events:
                for found in await self.list(resource, namespace, label_selector=labels):
                    yield [WatchEvent("ADDED", found)]
                end = {"k8s.io/initial-events-end": "true"}
                yield [
                    WatchEvent(
                        "BOOKMARK", Envelope("", resource_version=str(next(self._versions)), annotations=end)
                    )
                ]
            yield ()
            while True:
                yield [await queue.get()]
        finally:
            self._watches.remove(watch)


async def endless_pages(*_: object, **__: object) -> AsyncIterator[ListPage]:
    """Answer a list with pages without end, in place of `MemoryCluster.pages`."""
    while True:
        yield ListPage([], "1", "more", None)


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until the condition returns a true value, and return that."""
    async with asyncio.timeout(10):
        while not (said := condition()):
            await asyncio.sleep(0.002)
    return said
