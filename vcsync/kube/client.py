"""A client of one API server: the verbs of the Kubernetes API in terms of envelopes."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

import vcsync
from vcsync.kube.breaker import BreakerState
from vcsync.kube.connection import Connection
from vcsync.kube.errors import UNREADABLE, KubeError, Unreachable, api_error
from vcsync.kube.lines import LineSplitter, LineTooLong
from vcsync.kube.resources import Resource
from vcsync.kube.transport import ClientStatistics, Transport
from vcsync.objects.envelope import (
    Envelope,
    ErrorEvent,
    ListPage,
    WatchEvent,
    encode,
    named,
    parse,
    parse_event,
    split_list,
)

Body = Mapping[str, Any] | bytes
PatchKind = Literal["merge", "strategic", "json", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]

_DEFAULT_SILENCE = 100.0
"""Default seconds without a byte after which a watch counts as dead. Servers send bookmarks about every minute."""
_PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Client:
    """A client of one API server. Use it as an async context manager, or call `close` at the end.

    Every call raises the errors of `vcsync.kube.errors`. The client retries only requests that are safe to repeat: those
    that failed before anything was sent, 429 with a short Retry-After, and for GET also 5xx and lost answers. Retries are
    limited by the endpoint's budget. A write whose answer was lost raises `Unreachable`; read the object, then decide.

    Args:
        connection: Address and credentials.
        name: Name of the endpoint in errors, logs and metrics.
        user_agent: The User-Agent header.
        field_manager: The field manager of writes.
        timeout: Seconds one call may take, connection set-up included.
        qps: Calls per second at most (one second's worth may burst); None for no limit.
        max_connections: Connections for calls; watches have their own.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        user_agent: str = f"vcsync/{vcsync.__version__}",
        field_manager: str = "vcsync",
        timeout: float = 30.0,
        qps: float | None = None,
        max_connections: int = 64,
    ) -> None:
        self.name = name
        self.connection = connection
        self._transport = Transport(
            connection,
            name=name,
            user_agent=user_agent,
            timeout=timeout,
            qps=qps,
            max_connections=max_connections,
        )
        self._manager = {"fieldManager": field_manager}
        self._prefix = ""
        self._across = False
        self._partial = False

    def below(self, prefix: str) -> Self:
        """Return a view of this client whose paths all begin with `prefix`, such as `/tenants/acme`.

        It shares connections, breaker and budget with this client, which alone is to be closed.
        """
        view = copy.copy(self)
        view._prefix = self._prefix + prefix
        return view

    def across_tenants(self) -> Self:
        """Return a view of this client of an embedded control plane that reads the objects of all its tenants.

        Paths of resources name the tenants as in Arktos, so that each object has the field `metadata.tenant`.
        """
        view = copy.copy(self)
        view._across = True
        return view

    def metadata_only(self) -> Self:
        """Return a view of this client that reads only the metadata of objects (gets, lists, watches)."""
        view = copy.copy(self)
        view._partial = True
        return view

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Calls in progress fail, and later calls raise RuntimeError."""
        await self._transport.close()

    def on_state(self, callback: Callable[[BreakerState], None]) -> None:
        """Register a callback for each new state of the circuit breaker. It must be quick."""
        self._transport.on_state(callback)

    def on_unauthorized(self, callback: Callable[[], None]) -> None:
        """Register a callback for requests that are finally refused with 401 Unauthorized. It must be quick."""
        self._transport.on_unauthorized(callback)

    def statistics(self) -> ClientStatistics:
        """Return the counters and the state."""
        return self._transport.statistics()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - aiohttp's own timer is cheaper than a scope
    ) -> bytes:
        """Make one call and return the answer's body.

        Args:
            method: The HTTP verb, in capitals.
            path: The quoted path, from `Resource.path`.
            params: Query parameters.
            body: The body; None for none.
            content_type: Media type of the body.
            accept: Media type of the answer; empty for JSON.
            timeout: Seconds for each attempt; that of the client by default.
        """
        located = self._prefix + (_across_tenants(path) if self._across else path)
        target = f"{located}?{urlencode(params)}" if params else located
        return await self._transport.request(
            method,
            target,
            body=body,
            content_type="" if body is None else content_type,
            accept=accept,
            timeout=timeout,
        )

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Envelope:
        """Read one object (or its subresource)."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        found = self._parse(await self.request("GET", path, accept=self._accept()), path)
        if not found.name:
            raise self._invalid_answer(path, ValueError("it has no name"))
        return found

    async def get_raw(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """Read one object, and return its JSON, with the fields that an envelope loses."""
        return await self.request("GET", resource.path(namespace=namespace, name=name))

    async def create(
        self, resource: Resource, body: Body, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> Envelope:
        """Create an object, or a subresource of the object `name`, such as `binding` or `eviction`.

        A mapping without apiVersion and kind gets those of the resource.
        """
        raw = await self.create_raw(resource, body, namespace, name=name, subresource=subresource)
        return self._parse(raw, resource.plural)

    async def create_raw(
        self, resource: Resource, body: Body, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bytes:
        """Create an object like `create`, and return the body of the answer, for example of a TokenRequest."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        if not subresource:
            body = _typed(resource, body)
        return await self.request("POST", path, params=self._manager, body=_encoded(body))

    async def replace(
        self, resource: Resource, name: str, body: Body, namespace: str = "", *, subresource: str = ""
    ) -> Envelope:
        """Replace an object (PUT); a `metadata.resourceVersion` in the body is a precondition."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        if not subresource or subresource == "status":
            body = _typed(resource, body)
        return self._parse(await self.request("PUT", path, params=self._manager, body=_encoded(body)), path)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any] | bytes,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        force: bool = False,
        field_manager: str | None = None,
    ) -> Envelope:
        """Patch an object. `metadata.uid` or `metadata.resourceVersion` in the patch are preconditions.

        Args:
            resource: The object's type.
            name: Its name.
            patch: The patch, or its JSON.
            namespace: Its namespace.
            kind: One of merge (RFC 7396), strategic, json (RFC 6902) and apply (server-side).
            subresource: `status` for example.
            force: With apply: take over fields that belong to other managers.
            field_manager: The field manager to record; that of the client by default.
        """
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        params = self._manager if field_manager is None else {"fieldManager": field_manager}
        if kind == "apply":
            params = {**params, "force": "true"} if force else params
            if not isinstance(patch, bytes) and isinstance(patch, Mapping):
                patch = _typed(resource, patch)
        raw = patch if isinstance(patch, bytes) else encode(patch)
        answer = await self.request("PATCH", path, params=params, body=raw, content_type=_PATCH_TYPES[kind])
        return self._parse(answer, path)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> Envelope | None:
        """Delete an object.

        Args:
            resource: The object's type.
            name: Its name.
            namespace: Its namespace.
            uid: UID of the object as a precondition; otherwise the server answers Conflict.
            resource_version: Version of the object as a precondition; otherwise the server answers Conflict.
            grace_seconds: Grace period of a Pod; the Pod's own by default.
            propagation: How objects that it owns are deleted.

        Returns:
            The object if it still exists because of finalizers or a grace period, None if it is gone.
        """
        path = resource.path(namespace=namespace, name=name)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {
            key: value
            for key, value in (("uid", uid), ("resourceVersion", resource_version))
            if value is not None
        }
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        left = self._parse(await self.request("DELETE", path, body=encode(options)), path)
        gone = left.deletion_timestamp is None or (left.deletion_grace_seconds == 0 and not left.finalizers)
        return None if gone else left

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, propagation: Propagation = "Background"
    ) -> None:
        """Delete all objects of a collection. Objects with finalizers or a grace period still exist for a while."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        await self.request("DELETE", resource.path(namespace=namespace), body=encode(options))

    async def version(self) -> dict[str, Any]:
        """Return the server's version (`major`, `minor`, `gitVersion`)."""
        path = "/version"
        body = await self.request("GET", path)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except UNREADABLE as error:
            raise self._invalid_answer(path, error) from error

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str | None = None,
        on_unreadable: Callable[[Envelope, str], None] | None = None,
    ) -> AsyncGenerator[ListPage, None]:
        """List a collection page by page. Other tasks run between two pages.

        Args:
            resource: The type of the objects.
            namespace: Their namespace; empty for all.
            label_selector: Labels that the objects must have.
            field_selector: Fields that the objects must have.
            limit: Objects in each page; 0 requests all in one page. If a server returns more, they are yielded in pages
                of this size.
            resource_version: The oldest acceptable version; `0` for any version, None for the newest.
            on_unreadable: Called with the name of an object that cannot be parsed, as far as it can be read, and the
                reason. The object is left out. With None such an object is an error.

        Raises:
            Gone: The continue token has expired; list again.
        """
        path = resource.path(namespace=namespace)
        selection = _selection(label_selector, field_selector)
        params = dict(selection)
        if limit:
            params["limit"] = str(limit)
        if resource_version is not None:
            params["resourceVersion"] = resource_version
            params["resourceVersionMatch"] = "NotOlderThan"
        while True:
            body = await self.request("GET", path, params=params, accept=self._accept("List"))
            try:
                raw = split_list(body)
                portion = limit or 500
                for start in range(0, max(len(raw.items), 1), portion):
                    items = list(_parsed(raw.items[start : start + portion], on_unreadable))
                    last = start + portion >= len(raw.items)
                    yield ListPage(
                        items, raw.resource_version, raw.continue_token, raw.remaining if last else None
                    )
                    await asyncio.sleep(0)
            except UNREADABLE as error:
                raise self._invalid_answer(path, error) from error
            if not raw.continue_token:
                return
            params = {**selection, "limit": str(limit), "continue": raw.continue_token}

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str | None = None,
        most_pages: int | None = None,
    ) -> list[Envelope]:
        """List a whole collection. The arguments are those of `pages`.

        `most_pages` ends the list after that number of pages, for servers whose lists may be endless.
        """
        pages = self.pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            resource_version=resource_version,
        )
        found: list[Envelope] = []
        async with aclosing(pages) as each:
            number = 0
            async for page in each:
                found += page.items
                number += 1
                if number == most_pages:
                    break
        return found

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        send_initial_events: bool = False,
        silence: float = _DEFAULT_SILENCE,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch a collection, event by event. Arguments and errors are those of `watch_batches`."""
        batches = self.watch_batches(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
            silence=silence,
        )
        async with aclosing(batches) as each:
            async for batch in each:
                for event in batch:
                    yield event

    async def watch_batches(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        send_initial_events: bool = False,
        silence: float = _DEFAULT_SILENCE,
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Watch a collection. Yield an empty batch when the stream is open, then the events in batches as they arrive.

        The iteration ends when the server ends the stream. Close the generator (`contextlib.aclosing`) to stop earlier.

        Args:
            resource: The type of the objects.
            namespace: Their namespace; empty for all.
            resource_version: The version to start after; empty for now, `0` for any version.
            label_selector: Labels that the objects must have.
            field_selector: Fields that the objects must have.
            timeout_seconds: Seconds after which the server ends the stream.
            send_initial_events: Whether to begin with an ADDED event for each object and a bookmark (streaming list).
            silence: Seconds without a byte after which the stream counts as dead.

        Raises:
            Gone: The version is too old; list again.
            Timeout: No byte arrived for `silence` seconds.
            Unreachable: The connection broke. An incomplete event is dropped.
        """
        params = _selection(label_selector, field_selector)
        params |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_seconds)}
        if resource_version or send_initial_events:
            params["resourceVersion"] = resource_version
        if send_initial_events:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = resource.path(namespace=namespace)
        located = self._prefix + (_across_tenants(path) if self._across else path)
        target = f"{located}?{urlencode(params)}"
        splitter = LineSplitter()
        stream = await self._transport.open_stream(target, silence=silence, accept=self._accept())
        try:
            yield ()
            while chunk := await stream.read():
                events, failure = self._events(splitter.feed(chunk), path)
                if events:
                    yield events
                if failure is not None:
                    raise failure
            if splitter.pending:
                raise Unreachable(f"WATCH {path}: cut in the middle of an event", endpoint=self.name)
        except LineTooLong as error:
            raise Unreachable(f"WATCH {path}: {error}", endpoint=self.name) from error
        finally:
            await stream.close()

    def _accept(self, list_: str = "") -> str:
        return f"application/json;as=PartialObjectMetadata{list_};g=meta.k8s.io;v=v1" if self._partial else ""

    def _events(self, lines: Sequence[bytes], path: str) -> tuple[Sequence[WatchEvent], KubeError | None]:
        """Parse lines up to the first error. Return the events before it, and the error."""
        events = []
        try:
            for line in lines:
                events.append(parse_event(line))  # noqa: PERF401 - an error must leave those before it
        except ErrorEvent as error:
            refusal = api_error(0, error.status, endpoint=self.name, request=f"WATCH {path}")
            self._transport.counters.failed(refusal)
            return events, refusal
        except UNREADABLE as error:
            return events, self._invalid_answer(path, error)
        return events, None

    def _parse(self, raw: bytes, path: str) -> Envelope:
        try:
            return parse(raw)
        except UNREADABLE as error:
            raise self._invalid_answer(path, error) from error

    def _invalid_answer(self, path: str, error: Exception) -> KubeError:
        """Return the error for an answer that is not a Kubernetes object."""
        invalid = KubeError(f"{path}: the answer is not a Kubernetes object: {error}", endpoint=self.name)
        self._transport.counters.failed(invalid)
        return invalid


def _parsed(
    items: Sequence[Raw], on_unreadable: Callable[[Envelope, str], None] | None
) -> Iterator[Envelope]:
    for item in items:
        try:
            yield parse(item)
        except UNREADABLE as error:
            if on_unreadable is None:
                raise
            on_unreadable(named(item), str(error))


def _across_tenants(path: str) -> str:
    """Return the path below which an embedded control plane serves something of all tenants."""
    match path.split("/", 5):
        case ["", "api", version, *rest] if rest:
            return f"/api/{version}/tenants/all/{'/'.join(rest)}"
        case ["", "apis", group, version, *rest] if rest:
            return f"/apis/{group}/{version}/tenants/all/{'/'.join(rest)}"
    return f"/tenants/all{path}"


def _selection(label_selector: str, field_selector: str) -> dict[str, str]:
    pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return {name: text for name, text in pairs if text}


def _typed(resource: Resource, body: Body) -> Body:
    """Add the apiVersion and kind of the resource to a mapping that has none."""
    if isinstance(body, bytes) or "kind" in body:
        return body
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _encoded(body: Body) -> bytes:
    return body if isinstance(body, bytes) else encode(body)
