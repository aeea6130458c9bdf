"""Carries bytes between a client and an upgraded connection, in both directions."""

import asyncio

from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.upgrade_headers import RETURNED

PIECE_BYTES = 64 * 1024
"""Largest piece to read from a connection."""


def switching_head(answer: RawResponse) -> bytes:
    """Return the head, with its empty line, that tells a client that its connection is upgraded as `answer` says."""
    lines = [f"{name}: {value}" for name, value in answer.headers if name.lower() in RETURNED]
    return "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode("latin-1")


async def carry(source: BytesIn, sink: BytesOut, answer: RawResponse) -> None:
    """Pass bytes in both directions until one side ends its connection.

    Args:
        source: The client's bytes.
        sink: The way to the client.
        answer: The other connection.
    """
    copies = [
        asyncio.create_task(_from_client(source, answer)),
        asyncio.create_task(_to_client(answer, sink)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in copies:
            each.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _from_client(source: BytesIn, answer: RawResponse) -> None:
    while piece := await source.read():
        answer.writer.write(piece)
        await answer.writer.drain()


async def _to_client(answer: RawResponse, sink: BytesOut) -> None:
    while piece := await answer.piece(PIECE_BYTES):
        await sink.write(piece)
