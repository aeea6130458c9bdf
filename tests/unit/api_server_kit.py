"""An API server for tests: answers requests by their path, and records them byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import yaml

from vcsync.kube.connection import Connection

Objects = dict[str, Any]


class ApiServer:
    """Answers GET with the object at a path, and other requests with `answers`, in order.

    Attributes:
        objects: Objects by path; a number is the status of a refusal.
        answers: Raw answers by the last segment of the path. After one of HTTP/1.0 the connection is closed at once.
        heads: Heads of the requests.
        received: Bytes after the heads of requests that `answers` answered.
        url: Address.
    """

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.answers: dict[str, bytes] = {}
        self.heads: list[str] = []
        self.received = b""
        self.url = ""
        self.open = 0

    def kubeconfig(self, token: str = "secret-token") -> bytes:
        """Return a kubeconfig for it."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return yaml.safe_dump(config).encode()

    def connection(self) -> Connection:
        """Return address and credentials."""
        return Connection.from_kubeconfig_bytes(self.kubeconfig())

    def lines(self) -> list[str]:
        """Return the request lines."""
        return [head.partition("\r\n")[0] for head in self.heads]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self.open += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode(errors="surrogateescape"):
                self.heads.append(head)
                path = head.split(" ", 2)[1].partition("?")[0]
                raw = self.answers.get(path.rsplit("/", 1)[-1])
                if raw is not None:
                    writer.write(raw)
                    if not raw or raw.startswith(b"HTTP/1.0 "):
                        return
                    self.received += await reader.read(100)
                    return
                writer.write(_answer(self.objects.get(path, 404), path))
        except (EOFError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


def _answer(found: Any, path: str) -> bytes:
    code = found if isinstance(found, int) else 200
    if isinstance(found, int):
        found = {"kind": "Status", "code": found, "message": f"{path} at 10.0.0.5"}
    body = msgspec.json.encode(found)
    head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """Run an API server."""
    served = ApiServer()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
