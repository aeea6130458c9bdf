"""One connection's requests, and an early end of what is no request: it is refused once, and read no further."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, _ErrInfo  # no other way to what a parser has refused

AT_ONCE = 32 * 1024
"""Bytes that are parsed at once: what is wrong with more of them takes milliseconds to be told."""
READ_SECONDS = 0.5
"""How long a client may read its refusal before the connection ends, as with kube-apiserver."""
TOO_MANY = "Too many headers received"


class Handler(RequestHandler):
    """What aiohttp does with a connection, until something comes on it that is no request."""

    __slots__ = ("_refused",)

    _refused: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._refused = False
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless nothing more is wanted."""
        while len(data) > AT_ONCE and not self._reading_paused:
            self._parse(data[:AT_ONCE])
            data = data[AT_ONCE:]
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._refused = True
            self._pause_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not self._refused:
            super()._resume_transport_reading()

    def _make_error_handler(
        self, err_info: _ErrInfo
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Return what answers in place of a handler, when all that came before is answered."""
        refused = isinstance(err_info.exc, LineTooLong) or err_info.message == TOO_MANY
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if refused else HTTPStatus.BAD_REQUEST

        async def refuse(_: web.BaseRequest) -> web.StreamResponse:
            transport = self.transport
            if transport is not None:
                transport.write(_refusal(status))
                await asyncio.sleep(READ_SECONDS)
                transport.abort()
            raise ConnectionAbortedError("no request")

        return refuse


def _refusal(status: HTTPStatus) -> bytes:
    told = f"{status.value} {status.phrase}"
    return (
        f"HTTP/1.1 {told}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
        f"Content-Length: {len(told)}\r\n\r\n{told}"
    ).encode()
