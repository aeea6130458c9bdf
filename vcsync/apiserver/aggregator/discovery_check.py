"""Asks aggregated API servers for their discovery documents, which shows whether they are available.

Behaviour: kube-aggregator's `pkg/controllers/status/remote`. Upstream asks five times at once; here, every endpoint that may
be called is asked once. One good answer suffices.
"""

import asyncio
from contextlib import AsyncExitStack

import aiohttp

from vcsync.apiserver.aggregator.remote_user import CHECKER, remote_user_headers
from vcsync.apiserver.aggregator.resource_lists import UNREADABLE, openapi_query, resources_of
from vcsync.apiserver.aggregator.servers import Request, Servers, url_of
from vcsync.apiserver.discovery.remote_api_services import RemoteApiService, Served
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.services import Endpoint

CHECK_SECONDS = 5.0
"""Time for one answer."""
MAX_DOCUMENT_BYTES = 512 << 10
"""Largest discovery document that is read."""
GOOD = range(200, 300)
OK = 200
OPENAPI = "/openapi/v3"
HEADERS = [("Accept", "application/json"), ("User-Agent", "kube-aggregator"), *remote_user_headers(CHECKER)]


async def check(servers: Servers, service: RemoteApiService, seconds: float = CHECK_SECONDS) -> Served:
    """Return what the server of an APIService serves.

    Args:
        servers: Sends requests.
        service: The APIService.
        seconds: Time for one answer.

    Raises:
        CallFailed: The server is not available. The message is that of kube-aggregator, with the name of the Service as host.
        StoreError: The store cannot be read.
    """
    path = f"/apis/{service.group}/{service.version}"
    try:
        endpoints = await servers.endpoints(service)
        found = await asyncio.gather(
            *(_discovery(servers, service, each, path, seconds) for each in endpoints), return_exceptions=True
        )
    except CallFailed as error:
        raise CallFailed(f"failing or missing response from {url_of(service, path)}: {error}") from error
    for endpoint, document in zip(endpoints, found, strict=True):
        if isinstance(document, bytes):
            return await _served(servers, service, endpoint, document, seconds)
    raise next(each for each in found if isinstance(each, BaseException))


async def _discovery(
    servers: Servers, service: RemoteApiService, endpoint: Endpoint, path: str, seconds: float
) -> bytes:
    """Return the body of a good answer, or nothing if it is too long.

    Raises:
        CallFailed: There is no good answer.
    """
    url = url_of(service, path)
    try:
        status, body = await _asked(servers, service, endpoint, path, seconds)
    except CallFailed as error:
        raise CallFailed(f"failing or missing response from {url}: {error}") from error
    if status not in GOOD:
        raise CallFailed(f"failing or missing response from {url}: bad status from {url}: {status}")
    return body if status == OK else b""


async def _served(
    servers: Servers, service: RemoteApiService, endpoint: Endpoint, document: bytes, seconds: float
) -> Served:
    try:
        resources = await asyncio.to_thread(resources_of, document, service.group, service.version)
    except UNREADABLE:
        return Served()
    query = None
    try:
        status, body = await _asked(servers, service, endpoint, OPENAPI, seconds)
        if status == OK:
            query = openapi_query(body, f"apis/{service.group}/{service.version}")
    except (CallFailed, *UNREADABLE):
        query = None
    return Served(resources, current=True, openapi=query)


async def _asked(
    servers: Servers, service: RemoteApiService, endpoint: Endpoint, path: str, seconds: float
) -> tuple[int, bytes]:
    """Return status code and body of an answer; the body is empty if it is too long.

    Raises:
        CallFailed: There is no answer in time.
    """
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            response = await servers.send(stack, service, Request("GET", path, HEADERS), [endpoint])
            return response.status, await _read(response)
    except TimeoutError:
        raise CallFailed("context deadline exceeded") from None
    except (aiohttp.ClientError, OSError) as error:
        raise CallFailed("unexpected EOF") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while piece := await response.content.readany():
        body += piece
        if len(body) > MAX_DOCUMENT_BYTES:
            return b""
    response.release()
    return bytes(body)
