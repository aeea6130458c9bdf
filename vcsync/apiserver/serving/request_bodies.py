"""Reads the bodies of requests within limits of memory, time and time on the event loop."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from aiohttp import HttpVersion11, StreamReader, web

from vcsync.apimachinery import errors
from vcsync.apiserver.flow.memory_budget import LIGHT
from vcsync.apiserver.serving.in_process import MAX_BODY_BYTES
from vcsync.process.loop_turns import turn

BODY_SECONDS = 60.0
"""Timeout of a whole body."""
CHUNKS_SECONDS = 0.0002
"""Time for which chunks are collected before they are handled together: each may be a single byte."""
PAUSE_FACTOR, MAX_PAUSE_SECONDS = 4, 0.005
"""Pause after a chunked read, as a multiple of the time the read took, and its upper bound."""
TURN_SECONDS = 0.0005
"""Time spent on a body after which other tasks run."""
FULL_SPEED_BYTES, BYTES_PER_SECOND = 256 * 1024, 16 * 2**20
"""Bytes of a body that are read at full speed, and the rate after them."""
DRAIN_SECONDS = 1.0
"""Time for which the rest of a refused body is read, so that the client sees the answer."""


async def read_body(request: web.BaseRequest, weigh: Callable[[int], Awaitable[None]]) -> bytes:
    """Read a request's body, once `weigh` has reserved memory for it.

    Raises:
        StatusError: 400, 408, 413 or 429.
    """
    if not request.can_read_body:
        return b""
    too_large = errors.too_large(f"limit is {MAX_BODY_BYTES}")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        await _drain(request)
        raise too_large
    # The buffer becomes the value: copying three megabytes into new memory takes two milliseconds.
    body, size, weight = io.BytesIO(), 0, request.content_length or MAX_BODY_BYTES
    if request.content_length and weight > LIGHT:
        await weigh(weight)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await _continue(request)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in _pieces(request):
                if size <= LIGHT < size + len(chunk) and not request.content_length:
                    await weigh(weight)
                size += body.write(chunk)
                if size > MAX_BODY_BYTES:
                    await _drain(request)
                    raise too_large
    except web.RequestPayloadError:
        raise errors.bad_request("the request's body is malformed") from None
    except TimeoutError:
        raise errors.StatusError(408, "Timeout", "timed out waiting for the request's body") from None
    return body.getvalue()


async def stream_body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Yield the pieces of a request's body as they arrive. The consumer limits how fast they are read.

    Raises:
        StatusError: 400, the body is malformed; 408, a piece does not arrive within `BODY_SECONDS`.
    """
    if not request.can_read_body:
        return
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await _continue(request)
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await request.content.readany()
        except web.RequestPayloadError:
            raise errors.bad_request("the request's body is malformed") from None
        except TimeoutError:
            raise errors.StatusError(408, "Timeout", "timed out waiting for the request's body") from None
        if not piece:
            return
        yield piece
        await turn()


async def _continue(request: web.BaseRequest) -> None:
    """Ask a client that waits before its body to send it (RFC 9110, 10.1.1)."""
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The final response has not begun.
    request.writer.output_size = 0


async def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Yield the pieces of a body as they arrive. The longer the body, the more often other tasks run in between."""
    content, chunked, size, busy = request.content, not request.content_length, 0, 0.0
    while True:
        before = time.thread_time()
        chunk = await (_chunks(content) if chunked else content.readany())
        if not chunk:
            return
        spent = time.thread_time() - before
        yield chunk
        size += len(chunk)
        pause = len(chunk) / BYTES_PER_SECOND if size > FULL_SPEED_BYTES else 0.0
        if chunked and size > LIGHT:
            pause = max(pause, min(MAX_PAUSE_SECONDS, PAUSE_FACTOR * spent))
        busy += spent
        if pause:
            await asyncio.sleep(pause)
        elif busy > TURN_SECONDS:
            await turn()
            busy = 0.0


async def _chunks(content: StreamReader) -> bytes:
    """Collect the chunks that arrive within a short time. Nothing: the body has ended."""
    found, since = [], time.perf_counter()
    while True:
        data, ended = await content.readchunk()
        if data:
            found.append(data)
        if (data and time.perf_counter() - since > CHUNKS_SECONDS) or not (data or ended):
            return b"".join(found)


async def _drain(request: web.BaseRequest) -> None:
    """Discard the rest of a body for a while: a client that is still sending could not read the answer."""
    with suppress(TimeoutError, web.RequestPayloadError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in _pieces(request):
                pass
