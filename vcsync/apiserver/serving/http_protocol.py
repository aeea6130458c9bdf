"""The HTTP protocol of one connection. Input that is not HTTP is refused once, and nothing more is read."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import HttpVersion11, web
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from vcsync.apiserver.serving.retry_delay import RetryDelay

PARSED_BYTES = 32 * 1024
"""Bytes that are parsed in one step. A parse error in a larger piece would take milliseconds to report."""
LINGER_SECONDS = 0.5
"""Time for the client to read a refusal before the connection closes, as with kube-apiserver."""
MOST_JITTER = 1.5
"""Factor by which the delay of a refusal grows at most."""
TOO_MANY_HEADERS = "Too many headers received"
"""Message of aiohttp's parser."""


class Handler(RequestHandler):
    """aiohttp's handler of a connection, which stops reading at the first malformed request.

    Attributes:
        retry_delay: Delays refusals by limits of requests.
    """

    __slots__ = ("_refused", "retry_delay")

    _refused: bool
    retry_delay: RetryDelay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a connection that has sent nothing malformed."""
        self._refused = False
        self.retry_delay = RetryDelay()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless the connection has sent a malformed request."""
        while len(data) > PARSED_BYTES and not self._reading_paused:
            self._parse(data[:PARSED_BYTES])
            data = data[PARSED_BYTES:]
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        self._check_framing()
        # aiohttp reports malformed requests only in this queue.
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._refused = True
            self._pause_transport_reading()

    def _check_framing(self) -> None:
        """Check the requests that were received and are not handled yet.

        The parser takes the last trailer of a chunked body for a header of the next request, so that there is none: the
        connection ends. It also ignores a Transfer-Encoding without a value, which another server may not.
        """
        for index, (message, payload) in enumerate(self._messages):
            if isinstance(message, _ErrInfo):
                return
            if message.chunked:
                self._messages[index] = message._replace(should_close=True), payload
            elif TRANSFER_ENCODING in message.headers:
                malformed = BadHttpMessage("Transfer-Encoding has no value")
                self._messages[index] = _ErrInfo(400, malformed, malformed.message), payload
                while len(self._messages) > index + 1:
                    self._messages.pop()
                return

    def _resume_transport_reading(self) -> None:
        if not self._refused:
            super()._resume_transport_reading()

    def _make_error_handler(
        self, err_info: _ErrInfo
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Return the handler that answers a malformed request, after the requests before it."""
        too_large = isinstance(err_info.exc, LineTooLong) or err_info.message == TOO_MANY_HEADERS
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_large else HTTPStatus.BAD_REQUEST

        async def refuse(_: web.BaseRequest) -> web.StreamResponse:
            transport = self.transport
            if transport is not None:
                transport.write(_refusal(status))
                await asyncio.sleep(LINGER_SECONDS)
                transport.abort()
            raise ConnectionAbortedError("malformed request")

        return refuse


async def delay_refusal(request: web.BaseRequest, retry_after: float) -> None:
    """Wait before a refusal is sent if the client did not wait for the Retry-After of the last one on its connection."""
    if isinstance(request.protocol, Handler):
        delay = request.protocol.retry_delay.next(retry_after, time.monotonic())
        # Without jitter, clients that were refused at once would all be answered at once, again and again.
        await asyncio.sleep(delay * random.uniform(1, MOST_JITTER))  # noqa: S311


def delimit(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Send the body of an answer in chunks or, to a client of HTTP/1.0, until the end of the connection."""
    if request.version >= HttpVersion11:
        response.enable_chunked_encoding()
    else:
        response.force_close()


def _refusal(status: HTTPStatus) -> bytes:
    text = f"{status.value} {status.phrase}"
    return (
        f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}"
    ).encode()
