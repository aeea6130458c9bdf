"""A minimal HTTP/1.1 client, which sends arbitrary bytes and reads the answer. One request at a time."""

import asyncio
import contextlib
import ssl
from asyncio import StreamReader, StreamWriter

from hack.fuzz.request import Answer, Request

STREAM_SECONDS = 0.05
MALFORMED_SECONDS = 0.5
MAX_HEAD = 2**20


class HangError(Exception):
    """The server did not answer in time."""


class Client:
    """One connection, which is reopened after the server or a malformed request has ended it.

    Args:
        port: of the server on this machine.
        tls: settings with the client's certificate.
        bound: seconds that an answer may take.
    """

    def __init__(self, port: int, tls: ssl.SSLContext, bound: float) -> None:
        """Store the arguments; `send` connects."""
        self._port, self._tls, self._bound = port, tls, bound
        self._open: tuple[StreamReader, StreamWriter] | None = None

    async def send(self, request: Request) -> Answer:
        """Send a request and read its answer.

        Raises:
            HangError: there was no answer in time.
            OSError: the server refuses the connection.
        """
        for fresh in (False, True):
            reused = self._open is not None
            if fresh or request.lenient:
                await self.close()
            try:
                async with asyncio.timeout(self._bound):
                    answer = await self._exchange(request)
            except TimeoutError:
                await self.close()
                raise HangError(f"no answer within {self._bound:g} s") from None
            if answer.status or request.lenient or not reused:
                return answer
        return answer

    async def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open[1].close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await self._open[1].wait_closed()
            self._open = None

    async def _exchange(self, request: Request) -> Answer:
        if self._open is None:
            self._open = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, limit=MAX_HEAD)
        reader, writer = self._open
        try:
            for at, piece in enumerate(request.pieces):
                if at:
                    await asyncio.sleep(request.pause)
                writer.write(piece)
            sending = asyncio.ensure_future(_drain(writer))
            answer = await self._answer(reader, request)
            sending.cancel()
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            ConnectionError,
            ssl.SSLError,
            ValueError,
        ):
            answer = Answer(0, {}, b"")
        ends = answer.headers.get("connection", "").lower() == "close"
        if not answer.status or answer.streamed or request.lenient or ends:
            await self.close()
        return answer

    async def _answer(self, reader: StreamReader, request: Request) -> Answer:
        if request.lenient:
            # After a malformed request the server may wait for more data, until its own time limit.
            try:
                async with asyncio.timeout(MALFORMED_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
            except TimeoutError:
                return Answer(0, {}, b"")
        else:
            head = await reader.readuntil(b"\r\n\r\n")
        status, headers = _parsed(head)
        if 100 <= status < 200:
            status, headers = _parsed(await reader.readuntil(b"\r\n\r\n"))
        if request.method == "HEAD" or status in (204, 304):
            return Answer(status, headers, b"")
        if "chunked" in headers.get("transfer-encoding", ""):
            return Answer(status, headers, await _some(reader), streamed=True)
        return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _drain(writer: StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.drain()


async def _some(reader: StreamReader) -> bytes:
    """Read the data that arrives on a stream within `STREAM_SECONDS`."""
    read = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STREAM_SECONDS):
            while piece := await reader.read(65536):
                read += piece
                if piece.endswith(b"0\r\n\r\n"):
                    break
    return read


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        key, _, value = line.partition(":")
        headers[key.strip().lower()] = value.strip()
    return int(first.split(" ", 2)[1]), headers
