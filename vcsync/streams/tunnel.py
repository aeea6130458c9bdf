"""Carries bytes between a client and an upgraded connection, in both directions."""

import asyncio
from dataclasses import dataclass

from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.limits import StreamLimits
from vcsync.streams.pings import is_ping
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.upgrade_headers import RETURNED

PIECE_BYTES = 64 * 1024
"""Largest piece to read from a connection."""


@dataclass(slots=True)
class Traffic:
    """Bytes that have passed.

    Attributes:
        bytes_in: Bytes of clients.
        bytes_out: Bytes for clients.
    """

    bytes_in: int = 0
    bytes_out: int = 0


def switching_head(answer: RawResponse) -> bytes:
    """Return the head, with its empty line, that tells a client that its connection is upgraded as `answer` says."""
    lines = [f"{name}: {value}" for name, value in answer.headers if name.lower() in RETURNED]
    return "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode("latin-1")


async def carry(
    source: BytesIn,
    sink: BytesOut,
    answer: RawResponse,
    limits: StreamLimits,
    traffic: Traffic | None = None,
) -> None:
    """Pass bytes in both directions until one side ends its connection, or a limit is reached.

    Args:
        source: The client's bytes.
        sink: The way to the client.
        answer: The other connection.
        limits: When the connection ends by itself.
        traffic: Counts the bytes.
    """
    await _Tunnel(source, sink, answer, traffic or Traffic()).run(limits)


class _Tunnel:
    def __init__(self, source: BytesIn, sink: BytesOut, answer: RawResponse, traffic: Traffic) -> None:
        self._source = source
        self._sink = sink
        self._answer = answer
        self._traffic = traffic
        self._now = asyncio.get_running_loop().time
        self._active = self._now()

    async def run(self, limits: StreamLimits) -> None:
        began = self._now()
        copies = [asyncio.create_task(self._from_client()), asyncio.create_task(self._to_client())]
        try:
            left = limits.left(began, self._active, began)
            while left is None or left > 0:
                done, _ = await asyncio.wait(copies, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    break
                left = limits.left(began, self._active, self._now())
        finally:
            for each in copies:
                each.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _from_client(self) -> None:
        while piece := await self._source.read():
            self._traffic.bytes_in += len(piece)
            self._note(piece)
            self._answer.writer.write(piece)
            await self._answer.writer.drain()

    async def _to_client(self) -> None:
        while piece := await self._answer.piece(PIECE_BYTES):
            self._traffic.bytes_out += len(piece)
            self._note(piece)
            await self._sink.write(piece)

    def _note(self, piece: bytes) -> None:
        if not is_ping(piece):
            self._active = self._now()
