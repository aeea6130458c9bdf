"""A door over HTTP, and an API server behind it that records every byte it receives."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.assembly.server import ControlPlane
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority, Upstream

TOKENS = """\
alice-token,alice,u-1,"dev",umbrella
admin-token,admin,,"vcsync:tenant-admins",umbrella
masters-token,eve,,"system:nodes",umbrella
ann-token,ann,,"",acme
boss-token,boss,,"vcsync:tenant-admins",acme
operator-token,root,,"system:masters"
"""
CREDENTIAL = "the-gateways-token"
OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"kind":"X"}\n'
SECONDS = 20.0


@dataclass
class Received:
    """One request as the API server received it."""

    head: bytes
    body: bytes = b""

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode().split("\r\n")[1:-2]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass
class ApiServer:
    """A TLS server. Each connection's requests are answered by `answer`, which writes raw bytes.

    Attributes:
        received: All requests, whose bodies are complete.
        reviews: Bodies of SubjectAccessReviews. They are answered by `allowed`, and are not among `received`.
        connections: Number of connections that were accepted.
        keys: JSON Web Key Set of its ServiceAccount tokens, or empty if it returns none.
        key_reads: How often the keys were read, by whom. Such requests are not among `received`.
        refuses: Whether every other request gets 401.
    """

    port: int = 0
    authority: Authority | None = None
    received: list[Received] = field(default_factory=list)
    reviews: list[dict] = field(default_factory=list)  # type: ignore[type-arg]
    connections: int = 0
    keys: bytes = b""
    key_reads: list[str] = field(default_factory=list)
    refuses: bool = False
    answer: Callable[[Received, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None = None
    allowed: Callable[[dict], bool] = lambda _: False  # type: ignore[type-arg]
    _server: asyncio.Server | None = None
    _context: ssl.SSLContext | None = None

    async def start(self, folder: Path, port: int = 0) -> None:
        if self._context is None:
            self.authority = pki.new_authority("upstream", time.time())
            pair = pki.issue_serving(self.authority, ["127.0.0.1"], time.time())
            file = folder / "upstream.pem"
            file.write_text(pair.certificate + pair.key)
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(file)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()

    @property
    def upstream(self) -> Upstream:
        assert self.authority is not None
        return Upstream(f"https://127.0.0.1:{self.port}", CREDENTIAL, self.authority.certificate)

    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with suppress(OSError, EOFError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = Received(head)
                if found.line.startswith("POST /apis/authorization.k8s.io/v1/subjectaccessreviews "):
                    await self._review(await _body(found, reader), writer)
                    continue
                if found.line.startswith("GET /openid/v1/jwks "):
                    self.key_reads += found.header("authorization")
                    writer.write(_answer(200, self.keys) if self.keys else _answer(403, b"{}"))
                    continue
                if self.answer is not None:
                    self.received.append(found)
                    await self.answer(found, reader, writer)
                    break
                found.body = await _body(found, reader)
                self.received.append(found)
                writer.write(_answer(401, b"{}") if self.refuses else OK)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    async def _review(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        review = msgspec.json.decode(body)
        self.reviews.append(review["spec"])
        answer = msgspec.json.encode({"status": {"allowed": self.allowed(review["spec"])}})
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()


def _answer(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


async def _body(found: Received, reader: asyncio.StreamReader) -> bytes:
    if found.header("transfer-encoding") == ["chunked"]:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readline()
        return body
    return await reader.readexactly(int((found.header("content-length") or ["0"])[0]))


@dataclass
class Door:
    """A control plane that listens on plain HTTP, with the tenants acme (embedded) and umbrella (external)."""

    plane: ControlPlane
    identity: Identity
    upstream: ApiServer
    meter: Meter

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.plane.server.port)

    async def raw(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own, and return all bytes of the answer."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            async with asyncio.timeout(SECONDS):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def request(
        self,
        line: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        token: str = "alice-token",
        host: str = "door",
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request, and return status, headers and body of the answer."""
        lines = [f"{line} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        head, _, rest = (await self.raw("\r\n".join([*lines, "", ""]).encode() + body)).partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        found = {name.lower(): value for name, _, value in (each.partition(": ") for each in others)}
        return int(first.split()[1]), found, _unchunked(rest) if "transfer-encoding" in found else rest


def _unchunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return body
