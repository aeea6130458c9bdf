"""What a client leaves open: nothing, whatever its server says when they part."""

import asyncio
import base64
import gc
import json
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from vcsync.controlplane.tenants import pki
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import Timeout
from vcsync.kube.resources import CONFIG_MAPS

HOST = "127.0.0.1"


@contextmanager
def silent(folder: Path) -> Iterator[bytes]:
    """Serve TLS, say nothing, not even farewell; give a kubeconfig."""
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
                with suppress(OSError):  # who has no time for a handshake is gone
                    accepted.append(context.wrap_socket(peer, server_side=True))

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


async def cancelled(kubeconfig: bytes) -> None:
    async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name="silent") as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get(CONFIG_MAPS, "one", "a")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("calls", [out_of_time, cancelled])
def test_a_call_without_an_answer_leaves_no_connection_behind(tmp_path: Path, calls, loop) -> None:
    with silent(tmp_path) as kubeconfig, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(calls(kubeconfig))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
