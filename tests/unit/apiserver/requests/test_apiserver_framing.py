"""Framings of requests that the HTTP parser reads more generously than the next server may."""

import asyncio
import re

import pytest

from vcsync.process import http_connection

CHUNKED = (
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: admin\r\nWarning: b\r\n\r\n"
)
NEXT = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def answers(plane, data: bytes) -> list[bytes]:
    """Return the status codes of all answers on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
    writer.write(data)
    async with asyncio.timeout(20):
        got = await reader.read()
    writer.close()
    return re.findall(rb"HTTP/1\.1 (\d+) ", got)


async def test_a_trailer_is_no_header_of_the_next_request(plane) -> None:
    """The parser keeps the last trailer for the next request; so there is none."""
    [first] = await answers(plane, CHUNKED + NEXT)
    assert first != b"200"


async def test_a_connection_continues_after_a_body_with_a_length(plane) -> None:
    post = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    assert len(await answers(plane, post + post + NEXT)) == 3


async def test_a_client_of_an_earlier_version_gets_a_stream_without_chunks(plane) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
    writer.write(b"GET /api/v1/namespaces?watch=1&timeoutSeconds=1 HTTP/1.0\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(20):
        head, _, _ = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.split()[1] == b"200"
    assert b"chunked" not in head.lower()


@pytest.mark.parametrize(
    "header", [b"Transfer-Encoding:", b"Transfer-Encoding:  ", b"transfer-encoding:\t", b"TRANSFER-ENCODING:"]
)
async def test_a_coding_without_a_value_is_malformed(plane, monkeypatch, header: bytes) -> None:
    monkeypatch.setattr(http_connection, "LINGER_SECONDS", 0.0)
    post = b"POST /api HTTP/1.1\r\nHost: x\r\n" + header + b"\r\nContent-Length: 2\r\n\r\n{}"
    assert await answers(plane, NEXT.replace(b"Connection: close\r\n", b"") + post + NEXT) == [
        b"200",
        b"400",
    ]


@pytest.mark.parametrize(
    "headers",
    [
        b"Transfer-Encoding: chunked\r\nContent-Length: 2",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Transfer-Encoding: identity\r\nContent-Length: 2",
        b"Transfer-Encoding: chunked, identity",
        b"Content-Length: +2",
        b"Content-Length : 2",
    ],
)
async def test_a_body_has_one_length(plane, monkeypatch, headers: bytes) -> None:
    monkeypatch.setattr(http_connection, "LINGER_SECONDS", 0.0)
    post = b"POST /api HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n{}"
    assert await answers(plane, post + NEXT) == [b"400"]


async def test_nothing_follows_an_upgrade_that_was_declined(plane) -> None:
    """What follows could be no HTTP, and would be parsed without these checks."""
    upgrade = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert await answers(plane, upgrade + CHUNKED + NEXT) == [b"200"]
