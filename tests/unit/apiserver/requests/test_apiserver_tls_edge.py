"""What anybody may send to a control plane over TLS, before and after the handshake."""

import asyncio
import ssl
import time
from contextlib import suppress

import pytest
from asked_plane import Everybody

from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.tenants import pki
from vcsync.kube.tls import serving_context

HEAD = b"GET /version HTTP/1.1\r\nHost: x\r\n"
FIELD = b"X: " + b"a" * 997 + b"\r\n"


@pytest.fixture
async def port(store):
    pair = pki.issue_serving(pki.new_authority("server", time.time()), ["127.0.0.1"], time.time())
    made = assemble(store, Everybody())
    await made.start("127.0.0.1", 0, serving_context((pair.certificate + pair.key).encode()))
    yield made.server.port
    await made.stop()


async def sent(port: int, data: bytes) -> bytes:
    """Send bytes on a new connection, and return the first line of the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(data)
        line = await reader.readline()
    writer.transport.abort()
    return line.rstrip()


async def test_headers_are_limited_in_sum(port: int) -> None:
    assert await sent(port, HEAD + FIELD * 50 + b"\r\n") == b"HTTP/1.1 200 OK"
    assert await sent(port, HEAD + FIELD * 120) == b"HTTP/1.1 431 Request Header Fields Too Large"
    long = b"GET /version?a=" + b"a" * 140_000 + b" HTTP/1.1\r\nHost: x\r\n"
    assert await sent(port, long + FIELD * 120) == b"HTTP/1.1 431 Request Header Fields Too Large"
    assert await sent(port, long + FIELD * 50 + b"\r\n") == b"HTTP/1.1 414 Request-URI Too Long"


async def test_what_is_no_handshake_ends_the_connection(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(20):
        with suppress(ConnectionError):
            writer.write(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + b"a" * 60_000)
            while await reader.read(4096):
                pass
    writer.close()
