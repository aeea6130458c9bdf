"""A client that sends arbitrary bytes over TLS and reads all answers."""

import contextlib
import io
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SECONDS = 60.0
"""Timeout of an answer in seconds."""
MAX_ANSWER = 64 * 2**20
VARYING = frozenset({"date", "audit-id"})
"""Headers that differ between any two answers."""


@dataclass(frozen=True)
class Answer:
    """An answer; status 0: the connection was closed without one."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def visible(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """Return everything that a caller can learn from it: status, headers except `VARYING`, body."""
        return self.status, tuple(each for each in self.headers if each[0] not in VARYING), self.body

    @property
    def json(self) -> Any:
        """Return its decoded body."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """Return the message of a Status, or the start of the body."""
        try:
            return str(self.json["message"])
        except (ValueError, KeyError, TypeError):
            return self.body[:300].decode("utf-8", "replace")

    def header(self, name: str) -> str:
        """Return the first header of a lower-case name; empty: none."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(frozen=True)
class Door:
    """The address of a control plane, and a client's credentials: TLS settings, perhaps a token.

    `source`: the address to connect from; empty: any. `server_name`: the name in the TLS handshake; an address: none.
    """

    port: int
    tls: ssl.SSLContext
    token: str = ""
    agent: str = field(default="attacks")
    source: str = ""
    server_name: str = "127.0.0.1"

    def connect(self, seconds: float = SECONDS) -> ssl.SSLSocket:
        """Open a connection.

        Raises:
            OSError: the server refuses it.
        """
        source = (self.source, 0) if self.source else None
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=seconds, source_address=source)
        # HTTP clients set this option, too.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self.tls.wrap_socket(plain, server_hostname=self.server_name)
        except OSError:
            plain.close()
            raise

    def raw(self, *pieces: bytes, answers: int = 1, seconds: float = SECONDS) -> list[Answer]:
        """Send pieces on one connection and read this many answers; fewer if the server closes it."""
        found: list[Answer] = []
        with contextlib.suppress(OSError), self.connect(seconds) as connection:
            for piece in pieces:
                connection.sendall(piece)
            found = answers_of(connection, answers)
        return found or [Answer(0)]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> Answer:
        """Send one request; `path` is sent unchanged, and a body that is not bytes as JSON."""
        return self.raw(self.request(method, path, body, headers), seconds=seconds)[0]

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Format a request for the wire."""
        sent = {"Host": f"127.0.0.1:{self.port}", "User-Agent": self.agent, "Accept": "application/json"}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if body is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        sent |= headers or {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in sent.items())]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + data


def answers_of(connection: ssl.SSLSocket, count: int) -> list[Answer]:
    """Read this many answers, or fewer if the connection ends."""
    found: list[Answer] = []
    with connection.makefile("rb") as stream:
        while len(found) < count:
            try:
                answer = read_answer(stream)
            except (OSError, ValueError):
                break
            if answer is None:
                break
            found.append(answer)
    return found


def read_answer(stream: io.BufferedIOBase) -> Answer | None:
    """Read one answer to a request other than HEAD; None: the connection ended.

    Raises:
        OSError: the connection was cut, or timed out.
        ValueError: the data is not HTTP.
    """
    while True:
        first = stream.readline(65537)
        if not first:
            return None
        version, status, *_ = first.decode("latin-1").split(" ", 2)
        if not version.startswith("HTTP/1."):
            raise ValueError(first[:50])
        headers = _headers(stream)
        if not 100 <= int(status) < 200:
            return Answer(int(status), tuple(headers.items()), _body(stream, int(status), headers))


def _headers(stream: io.BufferedIOBase) -> dict[str, str]:
    headers: dict[str, str] = {}
    while (line := stream.readline(65537)) not in (b"\r\n", b""):
        key, _, value = line.decode("latin-1").partition(":")
        headers[key.strip().lower()] = value.strip()
    return headers


def _body(stream: io.BufferedIOBase, status: int, headers: Mapping[str, str]) -> bytes:
    if status in (204, 304):
        return b""
    if "chunked" not in headers.get("transfer-encoding", ""):
        return stream.read(min(int(headers.get("content-length", "0")), MAX_ANSWER))
    body = b""
    while size := int(stream.readline(100).split(b";")[0], 16):
        body += stream.read(min(size, MAX_ANSWER))
        stream.readline(10)
    stream.readline(10)
    return body
