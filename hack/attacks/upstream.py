"""An API server behind the door that records the requests that it receives, and whose owner is hostile."""

import contextlib
import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from vcsync.apiserver.tenants import pki

TOKEN = "the-token-of-the-gateway"  # noqa: S105 - of this server
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DENIED = b'HTTP/1.1 201 Created\r\nContent-Length: 28\r\n\r\n{"status":{"allowed":false}}'
"""Answer to the gateway's question whom a user may act as: nobody."""
FIRST_LINE, HEAD = 65_536, 1_000
SECONDS = 30.0
"""Timeout of a connection's next request."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server received it: the lines of its head, and its body."""

    lines: tuple[str, ...]
    body: bytes

    @property
    def target(self) -> str:
        """Return the target of the request line."""
        return self.lines[0].split(" ")[1]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the headers with lower-case names."""
        pairs = (line.partition(":") for line in self.lines[1:])
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def values(self, name: str) -> list[str]:
        """Return the values of all headers of this lower-case name."""
        return [value for key, value in self.headers if key == name]


@dataclass
class Upstream:
    """The server.

    Attributes:
        port: its port on this machine.
        authority: PEM certificate of the authority that signed its own.
        answers: raw answers to requests whose target contains a word; the connection is closed after them.
        received: all requests, without the gateway's own questions.
    """

    port: int
    authority: str
    answers: Mapping[str, bytes] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    @property
    def record(self) -> dict[str, str]:
        """Return its description for the operator's API."""
        return {"server": f"https://127.0.0.1:{self.port}", "token": TOKEN, "authority": self.authority}

    def taken(self) -> list[Received]:
        """Return the requests since the last call."""
        found, self.received[:] = list(self.received), []
        return found

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of a connection: with the target of each, or with raw bytes."""
        connection.settimeout(SECONDS)
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as stream:
            while (found := _read(stream.readline, stream.read)) is not None:
                if found.target == REVIEWS:
                    connection.sendall(DENIED)
                    continue
                self.received.append(found)
                raw = next((answer for word, answer in self.answers.items() if word in found.target), None)
                if raw is not None:
                    connection.sendall(raw)
                    return
                body = json.dumps({"kind": "Status", "apiVersion": "v1", "message": found.target}).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)


def _read(line: Callable[[int], bytes], read: Callable[[int], bytes]) -> Received | None:
    lines: list[str] = []
    while (each := line(FIRST_LINE)) not in (b"\r\n", b""):
        lines.append(each.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1"))
        if len(lines) > HEAD:
            raise ValueError("too many lines")
    if not lines:
        return None
    found = Received(tuple(lines), b"")
    body = b""
    if any("chunked" in each.lower() for each in found.values("transfer-encoding")):
        while size := int(line(100).split(b";")[0], 16):
            body += read(size)
            line(10)
        while line(FIRST_LINE) not in (b"\r\n", b""):
            pass
    elif lengths := found.values("content-length"):
        body = read(int(lengths[0]))
    return Received(found.lines, body)


@cache
def started() -> Upstream:
    """Start the server once in this process; it ends with the process."""
    authority = pki.new_authority("upstream", time.time())
    pair = pki.issue_serving(authority, ["127.0.0.1"], time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with NamedTemporaryFile() as file:
        Path(file.name).write_text(pair.certificate + pair.key)
        context.load_cert_chain(file.name)
    found = Upstream(0, authority.certificate)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), context.wrap_socket(self.request, server_side=True) as secure:
                found.serve(secure)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 100

    server = Server(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return found
