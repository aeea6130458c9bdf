"""Notices API servers that do not answer at all, while a request waits for its answer.

An answer may take as long as an API server itself allows, a minute. A server that has stopped is not told from a slow one by
waiting, but by whether it answers another request on a new connection.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from vcsync.gateway.upstreams import Pool, connected
from vcsync.streams.raw_response import MAX_HEAD_BYTES

PATIENCE_SECONDS = 2.5
"""Time for which a request waits before the server is asked, and between two questions."""
PROBE_SECONDS = 2.0
"""Time in which the server must answer. With `PATIENCE_SECONDS` it is less than five seconds."""
PROBE = "/version"
"""Path of the question. Any answer will do, also a refusal."""


class Unresponsive(ConnectionError):
    """A server answers nothing."""


async def answer_of(
    pool: Pool, waiting: Coroutine[Any, Any, aiohttp.ClientResponse]
) -> aiohttp.ClientResponse:
    """Return the answer of a request that is being sent, unless its server answers nothing at all.

    Args:
        pool: Connections to the server.
        waiting: The request.

    Raises:
        Unresponsive: The server answers no other request either.
        Exception: What the request raises.
    """
    task = asyncio.create_task(waiting)
    ended = False
    try:
        while not (await asyncio.wait((task,), timeout=PATIENCE_SECONDS))[0]:
            if not await _responds(pool) and not task.done():
                break
        ended = task.done()
    finally:
        if not ended:
            await _drop(task)
    if not ended:
        raise Unresponsive
    return task.result()


async def _drop(task: asyncio.Task[aiohttp.ClientResponse]) -> None:
    """End a request, or close its answer if that has just come."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _responds(pool: Pool) -> bool:
    """Return whether the server answers a request. All requests of a tenant that wait share the question."""
    if pool.probe is None or pool.probe.done():
        pool.probe = asyncio.create_task(_probe(pool))
    return await asyncio.shield(pool.probe)


async def _probe(pool: Pool) -> bool:
    parts = urlsplit(pool.url)
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await connected(pool, MAX_HEAD_BYTES)
            writer.write(f"GET {parts.path}{PROBE} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
            return await reader.read(1) != b""
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
