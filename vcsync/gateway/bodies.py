"""The bodies of forwarded requests and of their answers, which are streamed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from vcsync.apimachinery.errors import StatusError

SMALL_BYTES = 64 * 1024
"""Largest body that is passed on in one piece with its headers."""


def arrived_body(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body of an answer if it is small and has arrived whole with the headers; None otherwise.

    It is then sent with one write, which costs less than a stream.
    """
    content = response.content
    if content.exception() is not None or not content.is_eof() or content.total_bytes > SMALL_BYTES:
        return None
    body = content.read_nowait()
    response.release()
    return body


class RequestBody(Payload):
    """A body that is read from the client while it is sent. It can be sent only once.

    aiohttp repeats an idempotent request if its connection turns out to be closed; a second time the body would be empty.

    Args:
        pieces: Returns the pieces of the body.

    Attributes:
        error: Why the body could not be read from the client, or None.
    """

    def __init__(self, pieces: Callable[[], AsyncIterator[bytes]]) -> None:
        super().__init__(pieces, content_type="application/octet-stream")
        self._pieces: Callable[[], AsyncIterator[bytes]] | None = pieces
        self.error: StatusError | None = None

    @property
    def size(self) -> int | None:
        """The length is unknown; a Content-Length header names it if the client did."""
        return None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002 - as in Payload
        """Not supported: the body is not kept."""
        raise TypeError("a streamed body cannot be decoded")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body.

        Raises:
            ConnectionError: The body has been sent before.
            StatusError: The client does not send it.
        """
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            raise ConnectionError("the body has been sent before")
        try:
            async for piece in pieces():
                await writer.write(piece)
        except StatusError as error:
            self.error = error
            raise


class AnswerBody:
    """The body of an API server's answer, piece by piece as it arrives.

    Args:
        response: The answer.
        streams: Functions that end answers; contains that of this one while it is open.
        opened: Closed after the answer. None: nothing is.
        seconds: Time until the answer must have been read. None: there is no limit.
        most: Most bytes of the answer. None: there is no limit.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        streams: set[Callable[[], None]],
        opened: AsyncExitStack | None = None,
        seconds: float | None = None,
        most: int | None = None,
    ) -> None:
        self._left = most
        self._response = response
        self._streams = streams
        self._opened = opened
        self._deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        streams.add(response.close)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Raises:
            ConnectionAbortedError: The connection broke, or the answer is too long, so that it is incomplete.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                piece = await self._response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ConnectionAbortedError("the API server's answer was cut off") from error
        if not piece:
            raise StopAsyncIteration
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0:
                raise ConnectionAbortedError("the API server's answer is too long")
        return piece

    async def aclose(self) -> None:
        """Give the connection back if the answer has been read to its end; otherwise close it."""
        self._streams.discard(self._response.close)
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
        if self._opened is not None:
            await self._opened.aclose()


def whole_body(read: Callable[[], Awaitable[bytes]]) -> Callable[[], AsyncIterator[bytes]]:
    """Return a function that yields a body which is in memory already."""

    async def pieces() -> AsyncIterator[bytes]:
        yield await read()

    return pieces
