"""Clients leave no connection open, even if the server does not complete the TLS shutdown."""

import asyncio
import base64
import gc
import json
import os
import socket
import ssl
import struct
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import aiohttp
import pytest
import uvloop
from aiohttp.client_proto import ResponseHandler

from vcsync.apiserver.tenants import pki
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.connector import Connector
from vcsync.kube.errors import Timeout
from vcsync.kube.resources import CONFIG_MAPS

HOST = "127.0.0.1"
RESETS = 1000
"""Connections that are reset. In more than one of ten, the reset arrives at the critical moment."""


@contextmanager
def silent(folder: Path, *, shakes_hands: bool = True) -> Iterator[bytes]:
    """Accept connections, with or without a TLS handshake, never respond, and yield a kubeconfig."""
    authority = pki.new_authority("silent", time.time())
    pair = pki.issue_serving(authority, [HOST], time.time())
    (folder / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        accepted = []

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError):  # the client may leave during the handshake
                    accepted.append(context.wrap_socket(peer, server_side=True) if shakes_hands else peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            port = listener.getsockname()[1]
            data = base64.b64encode(authority.certificate.encode()).decode()
            cluster = {"server": f"https://{HOST}:{port}", "certificate-authority-data": data}
            yield json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "t0ken"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            ).encode()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in accepted:
                peer.close()


async def out_of_time(kubeconfig: bytes) -> None:
    async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name="silent", timeout=0.3) as client:
        with pytest.raises(Timeout):
            await client.get(CONFIG_MAPS, "one", "a")


async def cancelled_as_it_connects(kubeconfig: bytes) -> None:
    """Cancel the call in the moment that its TLS handshake completes."""
    connected = ResponseHandler.connection_made
    async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name="silent") as client:
        call = asyncio.create_task(client.get(CONFIG_MAPS, "one", "a"))

        def connection_made(protocol: ResponseHandler, transport: asyncio.BaseTransport) -> None:
            connected(protocol, transport)
            call.cancel()

        with (
            patch.object(ResponseHandler, "connection_made", connection_made),
            pytest.raises(asyncio.CancelledError),
        ):
            await call


async def cancelled(kubeconfig: bytes) -> None:
    async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name="silent") as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get(CONFIG_MAPS, "one", "a")


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@LOOPS
@pytest.mark.parametrize("calls", [out_of_time, cancelled])
@pytest.mark.parametrize("shakes_hands", [True, False])
def test_a_call_without_response_leaves_no_connection(
    tmp_path: Path, calls, loop, shakes_hands: bool
) -> None:
    with silent(tmp_path, shakes_hands=shakes_hands) as kubeconfig:
        assert unclosed_connections(calls, kubeconfig, loop) == []


@LOOPS
def test_a_call_that_is_cancelled_as_it_connects_leaves_no_connection(tmp_path: Path, loop) -> None:
    with silent(tmp_path) as kubeconfig:
        assert unclosed_connections(cancelled_as_it_connects, kubeconfig, loop) == []


@LOOPS
def test_refused_handshakes_close_no_file_of_others(loop) -> None:
    """A socket that Python and uvloop both close takes the file that has got its number in between."""
    with resetting() as port, asyncio.Runner(loop_factory=loop) as runner:
        runner.run(handshakes(port))


async def handshakes(port: int) -> None:
    async with aiohttp.ClientSession(connector=Connector(ssl=ssl.create_default_context())) as session:
        for _ in range(RESETS):
            try:
                await session.get(f"https://{HOST}:{port}")
            except aiohttp.ClientError as error:
                others = os.pipe()
                traceback.clear_frames(error.__traceback__)
            for each in others:
                os.close(each)


@contextmanager
def resetting() -> Iterator[int]:
    """Accept connections and reset them at once, as the kernel does for a server that was killed; yields the port."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def unclosed_connections(calls, kubeconfig: bytes, loop) -> list[str]:
    """Make the calls in a loop of their own, and return the warnings of unclosed connections."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(calls(kubeconfig))
        gc.collect()
    return [str(warning.message) for warning in caught]
