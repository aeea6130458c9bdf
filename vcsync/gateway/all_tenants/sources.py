"""The control planes that an answer is put together from: pages of their lists, and the lines of their watches."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol
from urllib.parse import quote, urlencode

import aiohttp

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError, qualified
from vcsync.apiserver.audit.request_log import HEADER
from vcsync.apiserver.handlers.exchange import Embedded
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.tenants.registry import Readable
from vcsync.gateway.all_tenants.pages import Page, read_page
from vcsync.gateway.all_tenants.shapes import Malformed, Shape
from vcsync.gateway.bodies import AnswerBody
from vcsync.gateway.failures import credential_refused, unreachable
from vcsync.gateway.headers import Pairs
from vcsync.gateway.requests import credential, logged, request
from vcsync.gateway.upstreams import Pool, Upstreams

PAGE = 200
"""Objects in one request to a control plane."""
PAGE_BYTES = 4 * 2**20
"""Most bytes of one answer to a list. A longer one is asked for again with fewer objects."""
FEWER = 10
"""Factor by which they are fewer."""
PAGE_SECONDS = 30.0
"""Timeout of one request of a list."""
OPEN_SECONDS = 10.0
"""Time until a watch begins."""
SILENCE_SECONDS = 180.0
"""Time after which a watch without any event has failed: API servers send a bookmark every minute."""
WATCH_SECONDS = 900
"""Duration of a watch of one control plane, which another one then continues."""
LINE_BYTES = 4 * 2**20
"""Longest event of a watch."""
SELECTING = ("labelSelector", "fieldSelector", "includeObject")
"""Parameters of the client that each control plane gets."""
Parameters = Mapping[str, str]


class Unreadable(Exception):
    """An external control plane cannot be read now. The message completes a sentence that begins with its name."""


class Expired(Exception):
    """A control plane no longer has the changes since a version, or the rest of a list."""


class Absent(Exception):
    """A control plane does not have the resource."""


class Source(Protocol):
    """A control plane, or all embedded ones."""

    @property
    def id(self) -> bytes:
        """Its id in tokens; empty for the embedded ones."""
        ...

    async def page(self, parameters: Parameters, limit: int) -> Page:
        """Read one page of a list, with at most `limit` objects.

        Raises:
            Unreadable, Expired, Absent: It cannot be read.
            StatusError: The request cannot be answered at all.
        """
        ...


class EmbeddedSource:
    """All embedded control planes.

    Args:
        embedded: Answers requests for them.
        info: The request of the client.
        query: Its query.
        shape: Shape of the answer.
    """

    id = b""

    def __init__(self, embedded: Embedded, info: RequestInfo, query: Query, shape: Shape) -> None:
        self._embedded = embedded
        self._info = info
        self._selecting = {key: query[key][:1] for key in SELECTING if query.get(key)}
        self._shape = shape

    async def page(self, parameters: Parameters, limit: int) -> Page:
        """Read one page of a list. See `Source`."""
        info = replace(self._info, verb="list", by_path=False)
        query = {key: [value] for key, value in {**parameters, "limit": str(limit)}.items()}
        try:
            answer = await self._embedded(info, {**self._selecting, **query}, self._shape.accept(watch=False))
        except StatusError as error:
            if error.code == 410:
                raise Expired from error
            raise
        if not isinstance(answer, Reply):
            raise TypeError("a list is answered by a Reply")
        pieces = list(answer.body)
        if answer.rest is not None:
            pieces += [each async for each in answer.rest]
        return read_page(b"".join(pieces))

    async def watch(self, parameters: Parameters) -> Stream:
        """Open a watch.

        Raises:
            StatusError: It is refused.
        """
        info = replace(self._info, verb="watch", by_path=False)
        query = {key: [value] for key, value in {**parameters, "watch": "1"}.items()}
        answer = await self._embedded(info, {**self._selecting, **query}, self._shape.accept(watch=True))
        if not isinstance(answer, Stream):
            raise TypeError("a watch is answered by a Stream")
        return answer


class ExternalSource:
    """One external control plane, read as the user that its administrator has admitted.

    Args:
        upstreams: Connections to the API servers.
        readable: The control plane.
        info: The request of the client.
        query: Its query.
        shape: Shape of the answer.
        audit_id: Identifies the request in audit logs.
    """

    def __init__(  # noqa: PLR0917 - one request
        self,
        upstreams: Upstreams,
        readable: Readable,
        info: RequestInfo,
        query: Query,
        shape: Shape,
        audit_id: str,
    ) -> None:
        self._upstreams = upstreams
        self._path = collection_path(info)
        self._resource = qualified(info.resource, info.group)
        self._selecting = {key: query[key][0] for key in SELECTING if query.get(key)}
        self._shape = shape
        self._audit_id = audit_id
        self.id = readable.id
        self.tenant = readable.tenant

    async def page(self, parameters: Parameters, limit: int) -> Page:
        """Read one page of a list. See `Source`."""
        while True:
            query = {**self._selecting, **parameters, "limit": str(limit)}
            try:
                async with asyncio.timeout(PAGE_SECONDS):
                    _, response = await self._open(query, watch=False)
                    async with response:
                        data = await _read(response)
                if data is not None:
                    return read_page(data)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise Unreadable(_why(unreachable(error))) from error
            except Malformed as error:
                raise Unreadable(f"sends what it should not: {error}") from error
            if limit == 1:
                raise Unreadable(f"has an object of more than {PAGE_BYTES} bytes")
            limit = max(1, limit // FEWER)

    async def watch(self, version: int) -> AsyncIterator[bytes]:
        """Yield the lines of a watch from a version, until its server ends it.

        Raises:
            Unreadable, Expired, Absent: It cannot be read.
        """
        query = {
            **self._selecting,
            "watch": "1",
            "resourceVersion": str(version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                pool, response = await self._open(query, watch=True)
            body = AnswerBody(response, pool.streams)
            try:
                async for line in _lines(body):
                    yield line
            finally:
                await body.aclose()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreadable(_why(unreachable(error))) from error

    async def _open(self, query: Parameters, *, watch: bool) -> tuple[Pool, aiohttp.ClientResponse]:
        """Send a request and return the answer if it is a list or a watch."""
        try:
            pool = await self._upstreams.pool(self.tenant)
            if pool is None:
                raise Unreadable("is no longer reached through this server")
            response = await logged(pool, self._sent(pool, query, watch=watch))
        except StatusError as error:
            raise Unreadable(_why(error)) from error
        if response.status == 200 and not response.headers.get("Content-Encoding"):
            return pool, response
        response.close()
        if response.status == 404:
            raise Absent
        if response.status == 410:
            raise Expired
        if response.status == 403:
            raise Unreadable(
                f"does not let the gateway read {self._resource}; connect it again with --readable {self._resource}"
            )
        raise Unreadable(f"answers with the status {response.status}")

    async def _sent(self, pool: Pool, query: Parameters, *, watch: bool) -> aiohttp.ClientResponse:
        headers: Pairs = [
            *credential(pool),
            ("Impersonate-User", names.TENANT_READER),
            ("Impersonate-Group", names.TENANT_READERS),
            ("Accept", self._shape.accept(watch=watch)),
            ("User-Agent", "vcsync-gateway"),
            (HEADER, self._audit_id),
        ]
        try:
            response = await request(pool, "GET", f"{self._path}?{urlencode(query)}", headers)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(error) from error
        if response.status == 401:
            response.close()
            raise credential_refused()
        return response


def collection_path(info: RequestInfo) -> str:
    """Return the path of the collection that a request names, below the API server."""
    parts: Sequence[str] = (
        info.prefix,
        *([info.group] if info.group else []),
        info.version,
        *(["namespaces", info.namespace] if info.namespace and info.resource != "namespaces" else []),
        info.resource,
    )
    return "/" + "/".join(quote(each, safe="") for each in parts)


def _why(error: StatusError) -> str:
    """Return what a message about one control plane says without a subject."""
    return error.message.removeprefix("the API server of ").removeprefix("this control plane ")


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body of an answer, or None if it is too long."""
    body = bytearray()
    while piece := await response.content.readany():
        body += piece
        if len(body) > PAGE_BYTES:
            response.close()
            return None
    return bytes(body)


async def _lines(body: AnswerBody) -> AsyncIterator[bytes]:
    """Yield the lines of a watch.

    Raises:
        TimeoutError: Nothing comes.
        Unreadable: A line is too long.
    """
    rest = bytearray()
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(body)
        except StopAsyncIteration:
            return
        *whole, last = piece.split(b"\n")
        for line in whole:
            rest += line
            if rest.strip():
                yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > LINE_BYTES:
            raise Unreadable(f"has an object of more than {LINE_BYTES} bytes")
