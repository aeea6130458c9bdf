"""Upgraded connections to external API servers: exec, attach, port-forward and proxied WebSockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from vcsync.apimachinery.errors import StatusError, too_many_requests
from vcsync.apiserver.handlers.connect import tunnel
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.gateway.failures import RETRY_SECONDS, unreachable
from vcsync.gateway.headers import Pairs, response_headers
from vcsync.gateway.upstreams import CONNECT_SECONDS, MAX_CONNECTIONS, Pool, connected
from vcsync.streams.limits import UNLIMITED
from vcsync.streams.raw_response import (
    MAX_ERROR_BYTES,
    MAX_HEAD_BYTES,
    RESPONSE_SECONDS,
    RawResponse,
    keep_alive,
    read_head,
)
from vcsync.streams.upgrade_headers import forwarded_upgrade

UNAUTHORIZED = 401
MIN_REFUSAL, MAX_REFUSAL = 400, 600
MAX_DIGITS = 6
"""Digits of the length of a refusal's body."""
UPGRADED = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources that may be upgraded."""


async def upgraded(  # noqa: PLR0917 - one request
    pool: Pool,
    method: str,
    target: str,
    headers: Mapping[str, str],
    protocol: str,
    own: Pairs,
    refused: Callable[[], StatusError],
) -> Reply | Stream:
    """Forward a request that upgrades its connection, and return the answer.

    Args:
        pool: Connections of the tenant.
        method: Method of the request.
        target: Path and query below the API server.
        headers: Headers of the client.
        protocol: The protocol to which the connection is upgraded.
        own: Headers to send besides those of the upgrade.
        refused: Returns the error if the API server refuses the credential.

    Raises:
        StatusError: 401, the API server refuses the client's own token; 503 or 504, the API server cannot be reached.
    """
    lines = [*forwarded_upgrade(headers, protocol), *(f"{name}: {value}" for name, value in own)]
    if method != "GET":
        lines.append("Content-Length: 0")
    stack = AsyncExitStack()
    try:
        opened = await stack.enter_async_context(_opened(pool, f"{method} {_path(pool)}{target}", lines))
        if opened.status == 101:
            return tunnel(stack, opened, UNLIMITED)
        answer = await _refusal(opened, refused)
    except BaseException:
        await stack.aclose()
        raise
    await stack.aclose()
    return answer


@asynccontextmanager
async def _opened(pool: Pool, request: str, lines: Sequence[str]) -> AsyncIterator[RawResponse]:
    if len(pool.streams) >= MAX_CONNECTIONS:
        raise too_many_requests("too many streams are open, please try again later", RETRY_SECONDS)
    writer = None
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await connected(pool, MAX_HEAD_BYTES)
            pool.streams.add(writer.transport.abort)
            keep_alive(writer.get_extra_info("socket"))
            head = [f"{request} HTTP/1.1", f"Host: {urlsplit(pool.url).netloc}", *lines, "", ""]
            writer.write("\r\n".join(head).encode())
            status, headers = await read_head(reader)
        except (OSError, TimeoutError) as error:
            raise unreachable(error) from error
        yield RawResponse(status, headers, reader, writer)
    finally:
        if writer is not None:
            pool.streams.discard(writer.transport.abort)
            writer.transport.abort()


def _path(pool: Pool) -> str:
    return urlsplit(pool.url).path


async def _refusal(opened: RawResponse, refused: Callable[[], StatusError]) -> Reply:
    """Return an answer that is not an upgrade.

    Raises:
        StatusError: The API server refuses the credential, or the body is not as short and plain as a Status.
    """
    if opened.status == UNAUTHORIZED:
        raise refused()
    length = opened.header("content-length")
    if not length.isdecimal() or len(length) > MAX_DIGITS or int(length) > MAX_ERROR_BYTES:
        status = opened.status if MIN_REFUSAL <= opened.status < MAX_REFUSAL else 502
        raise StatusError(status, "", "the API server of this control plane did not upgrade the connection")
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            body = await opened.reader.readexactly(int(length))
    except (OSError, EOFError, TimeoutError) as error:
        raise unreachable(error) from error
    return Reply(opened.status, [body], opened.header("content-type"), dict(response_headers(opened.headers)))
