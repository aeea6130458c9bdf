"""The HTTP protocol of one connection. What its peer may send before anybody knows who it is, is limited in bytes and time.

Input that is not HTTP, or too long, is refused once, and nothing more is read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web, web_protocol
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http import WebSocketReader
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from vcsync.process.listener import source_of
from vcsync.process.shared_bytes import SharedBytes

PARSED_BYTES = 32 * 1024
"""Bytes that are parsed in one step. A parse error in a larger piece would take milliseconds to report."""
MAX_FIELDS = 64 * 1024
"""Most bytes of all headers of a request, its first line apart. kube-apiserver has 1 MiB with the first line."""
MAX_FRAMING = 16 * 1024
"""Most bytes of a chunked body that are no data: extensions and trailers, as with Go's net/http."""
FRAMING_PER_BYTE = 32
"""Bytes of framing that belong to each byte of data, so that even chunks of one byte are never too much."""
HEAD_SECONDS = 32.0
"""Time for the head of a request from its first byte on, as with kube-apiserver."""
LINGER_SECONDS = 0.5
"""Time for the client to read a refusal before the connection closes, as with kube-apiserver."""
QUEUED_REQUESTS = 2
"""Requests of a connection that are read while an earlier one is answered."""
FREE_HEAD = 8 * 1024
"""Bytes of an unfinished head that do not count against `HEADS`, so that usual requests never meet its limit."""
HEADS = SharedBytes(64 * 1024 * 1024)
"""Bytes of the unfinished heads of all connections of this process."""
TOO_MANY_HEADERS = "Too many headers received"
"""Message of aiohttp's parser."""

vars(web_protocol)["MAX_MSG_QUEUE_SIZE"] = QUEUED_REQUESTS  # aiohttp reads 32, each with a whole head


class BoundedHandler(RequestHandler):
    """aiohttp's handler of a connection, with limits, which stops reading at the first malformed request."""

    __slots__ = (
        "_body",
        "_fields",
        "_framing",
        "_head",
        "_head_timer",
        "_in_body",
        "_in_line",
        "_refused",
        "_seen",
        "_shared",
        "_source",
        "_unparsed",
    )

    _source: str
    _refused: bool
    _in_line: bool
    """Whether the first line of an unfinished head has not ended."""
    _head: int
    """Bytes of the unfinished head. Those that arrived together with the end of the previous request do not count."""
    _fields: int
    """Bytes of it after the first line."""
    _shared: int
    """Bytes of it that were taken from `HEADS`."""
    _head_timer: asyncio.TimerHandle | None
    _body: StreamReader
    _in_body: bool
    _seen: int
    """Bytes of the body that have been compared with the bytes received."""
    _unparsed: int
    """Bytes received since then."""
    _framing: int
    """Bytes of the body that were no data, and for which it has not had enough data."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a connection that has sent nothing."""
        self._source = source_of(transport.get_extra_info("peername"))
        self._refused = False
        self._shared = 0
        self._head_timer = None
        self._end_head(EMPTY_PAYLOAD)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget what was received."""
        self._end_head(EMPTY_PAYLOAD)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless the connection has sent a malformed request."""
        while len(data) > PARSED_BYTES and not self._reading_paused and not self._buffer_paused:
            self._parse(data[:PARSED_BYTES])
            data = data[PARSED_BYTES:]
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._refused:
            return
        before = self._request_count
        super().data_received(data)
        self._check_framing()
        # aiohttp reports malformed requests only in this queue.
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._stop_reading()
        elif self._request_count != before:
            self._end_head(self._messages[-1][1])
        elif self._in_body:
            self._count_framing(len(data))
            self._in_body = not self._body.is_eof()
        elif data and not self._upgraded and self._payload_parser is None:
            self._count_head(data)

    def set_parser(self, parser: WebSocketReader, data_received_cb: Callable[[], None] | None = None) -> None:
        """Pass everything further to `parser`, as it is no HTTP any more. aiohttp sees upgrades to WebSocket alone."""
        self._end_head(EMPTY_PAYLOAD)
        super().set_parser(parser, data_received_cb)

    def _end_head(self, body: StreamReader) -> None:
        """Begin to read a body, and the next head after it."""
        if self._shared:
            HEADS.give_back(self._source, self._shared)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._in_line = True
        self._head = self._fields = self._shared = 0
        self._body, self._in_body = body, not body.is_eof()
        self._seen, self._unparsed, self._framing = body.total_bytes, 0, 0

    def _count_head(self, data: bytes) -> None:
        """Count bytes of a head that has not ended."""
        size = len(data)
        line = 0
        if self._in_line:
            end = data.find(b"\n")
            self._in_line = end < 0
            line = size if self._in_line else end + 1
        self._head += size
        self._fields += size - line
        if self._fields > MAX_FIELDS:
            error = LineTooLong(b"headers", MAX_FIELDS)
            self._messages.append((_ErrInfo(431, error, error.message), EMPTY_PAYLOAD))
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
            self._stop_reading()
            return
        if self._head > FREE_HEAD:
            if not HEADS.take(self._source, size):
                self._abort()
                return
            self._shared += size
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._abort)

    def _count_framing(self, size: int) -> None:
        """Count bytes of a body that are no data."""
        self._unparsed += size
        if self._reading_paused:  # The parser keeps an unknown part of them.
            return
        data = self._body.total_bytes - self._seen
        self._framing = max(0, self._framing + self._unparsed - FRAMING_PER_BYTE * data)
        self._seen, self._unparsed = self._body.total_bytes, 0
        if self._framing > MAX_FRAMING:
            self._abort()

    def _stop_reading(self) -> None:
        self._refused = True
        self._end_head(EMPTY_PAYLOAD)
        self._parser = None  # It keeps what it has read of a head.
        self._pause_transport_reading()

    def _abort(self) -> None:
        self._stop_reading()
        if self.transport is not None:
            self.transport.abort()

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

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of an answer. After an upgrade that was declined, nothing more is read: it may be no HTTP."""
        if self._upgraded and self._payload_parser is None:
            self._message_tail = b""
            self._stop_reading()
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

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


class BoundedServer(web.Server):
    """An HTTP server whose connections are `BoundedHandler`s."""

    def __call__(self) -> RequestHandler:
        """Return the handler of a new connection."""
        return BoundedHandler(self, loop=self._loop, **self._kwargs)


def _refusal(status: HTTPStatus) -> bytes:
    text = f"{status.value} {status.phrase}"
    return (
        f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}"
    ).encode()
