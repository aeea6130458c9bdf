"""Connections that lose no data at their end, on both event loops."""

import asyncio
import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop

from hack.testbed.pki import Authority
from vcsync.streams.connection import open_connection

SIZE = 3_000_000
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """The TLS context of a server."""
    pair = Authority("a", datetime.now(UTC)).server("server", "127.0.0.1")
    file = tmp_path / "server.pem"
    file.write_text(pair.certificate + pair.key)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(file)
    return found


def client() -> ssl.SSLContext:
    found = ssl.create_default_context()
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    return found


def serve(listener: socket.socket, context: ssl.SSLContext, *, notify: bool) -> None:
    """Send many bytes and close the connection at once, with or without TLS' own end."""
    accepted, _ = listener.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        connection.recv(100)
        connection.sendall(b"x" * SIZE)
        if notify:
            connection.setblocking(False)
            with contextlib.suppress(ssl.SSLError, OSError):
                connection.unwrap()


async def received(port: int, pause: float) -> int:
    reader, writer = await open_connection(
        "127.0.0.1", port, tls=client(), server_hostname="server", limit=4096
    )
    writer.write(b"begin")
    size = 0
    while piece := await reader.read(65536):
        size += len(piece)
        await asyncio.sleep(pause)
    writer.transport.abort()
    return size


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("notify", [True, False], ids=["notified", "cut"])
@pytest.mark.parametrize("pause", [0, 0.001])
def test_all_data_arrives_before_the_end(
    loop: type[asyncio.AbstractEventLoop], notify: bool, pause: float, context: ssl.SSLContext
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, context), kwargs={"notify": notify})
        thread.start()
        with asyncio.Runner(loop_factory=loop) as runner:
            assert runner.run(received(listener.getsockname()[1], pause)) == SIZE
        thread.join()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_slows_the_server_down(
    loop: type[asyncio.AbstractEventLoop], context: ssl.SSLContext
) -> None:
    sent = [0]

    def flood(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.settimeout(0.5)
            try:
                while sent[0] < 100 * SIZE:
                    sent[0] += connection.send(b"x" * 65536)
            except TimeoutError:
                pass

    async def idle(port: int) -> None:
        _, writer = await open_connection(
            "127.0.0.1", port, tls=client(), server_hostname="server", limit=4096
        )
        await asyncio.to_thread(thread.join)
        writer.transport.abort()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=flood, args=(listener,))
        thread.start()
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(idle(listener.getsockname()[1]))
    assert sent[0] < 50 * SIZE


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_without_tls_is_an_error(loop: type[asyncio.AbstractEventLoop]) -> None:
    async def refused() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match=r".*"):
            await open_connection("127.0.0.1", port, tls=client(), server_hostname="server", limit=4096)
        server.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(refused())
