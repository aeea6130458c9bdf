"""A kubelet for tests: exec runs real commands on this machine; logs, attach and port-forward are those of hollow nodes."""

import asyncio
import ssl
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vcsync.objects.envelope import Envelope
from vcsync.simulate import sessions
from vcsync.simulate.kubelet_server import KubeletServer

NODE = f"kubelet-{uuid.uuid4().hex[:8]}"
POD, CONTAINER = "web", "c"
PIECE = 64 * 1024
START_SECONDS = 60.0
GOODBYE_SECONDS = 0.25


def node() -> dict[str, Any]:
    """Return the Node of the kubelet."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}


def node_status(port: int) -> dict[str, Any]:
    """Return the part of the Node's status that leads to the kubelet."""
    return {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }


def pod(namespace: str) -> dict[str, Any]:
    """Return a Pod on the Node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "namespace": namespace},
        "spec": {"nodeName": NODE, "containers": [{"name": CONTAINER, "image": "example.org/web:1"}]},
    }


def pod_status() -> dict[str, Any]:
    """Return the status of the Pod, which runs."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = {
        "name": CONTAINER, "image": "example.org/web:1", "imageID": "", "ready": True, "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }  # fmt: skip
    return {"phase": "Running", "containerStatuses": [running]}


@contextmanager
def kubelet(folder: Path, pair: tuple[str, str], authorities: Sequence[str]) -> Iterator[int]:
    """Run a kubelet in a thread, in whose containers every Pod's commands run in a folder; yield its port.

    Args:
        folder: working folder of all commands.
        pair: serving certificate and key, PEM.
        authorities: certificate authorities of the API servers that may call it, PEM.
    """
    certificate, key = folder / "kubelet.crt", folder / "kubelet.key"
    certificate.write_text(pair[0])
    key.touch(mode=0o600)
    key.write_text(pair[1])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata="".join(authorities))
    status = msgspec.json.encode(pod_status())

    def find(namespace: str, name: str) -> Envelope:
        return Envelope(
            name, namespace, "uid", spec=msgspec.json.encode(pod(namespace)["spec"]), status=status
        )

    loop = _Loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = KubeletServer(find)

    async def execute(
        streams: sessions.Streams, command: Sequence[str], _: str, *, stdin: bool, tty: bool
    ) -> None:
        assert not tty, "the kubelet of the tests has no terminals"
        await _run(streams, command, folder, stdin=stdin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "execute", execute)
        try:
            started = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0, tls), loop)
            yield started.result(START_SECONDS)
            asyncio.run_coroutine_threadsafe(_stop(server), loop).result(START_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose server does not wait long for clients to end their TLS connections."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:  # type: ignore[override]
        return await super().create_server(*args, **options, ssl_shutdown_timeout=GOODBYE_SECONDS)


async def _stop(server: KubeletServer) -> None:
    """Stop the server, and wait until all connections are closed: their timers end before this one."""
    await server.stop()
    await asyncio.sleep(2 * GOODBYE_SECONDS)


async def _run(streams: sessions.Streams, command: Sequence[str], folder: Path, *, stdin: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    feeding = asyncio.create_task(_feed(streams, process)) if stdin else None
    try:
        async with asyncio.TaskGroup() as tasks:
            for channel, source in ((sessions.STDOUT, process.stdout), (sessions.STDERR, process.stderr)):
                assert source is not None
                tasks.create_task(_copy(source, streams, channel))
        code = await process.wait()
    finally:
        if feeding is not None:
            feeding.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    await streams.write(sessions.ERROR, msgspec.json.encode(sessions.status(code)))


async def _copy(source: asyncio.StreamReader, streams: sessions.Streams, channel: int) -> None:
    while piece := await source.read(PIECE):
        await streams.write(channel, piece)


async def _feed(streams: sessions.Streams, process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    try:
        while piece := await streams.read():
            process.stdin.write(piece)
            await process.stdin.drain()
        process.stdin.close()
    except ConnectionError:  # the command has ended
        pass
