"""The way to an API server in the same process: requests are handed over as they are, not sent through sockets.

Who we are is proved as on the wire: the two TLS contexts shake hands once, in memory, so that a certificate counts only
with its key, and the server's counts only when we trust who signed it.
"""

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from vcsync.kube.connection import Credentials

HANDSHAKE_SECONDS = 600.0
"""How long a handshake counts, as a connection would that is kept."""
_MOST_TURNS = 20


class Source(Protocol):
    """Bytes that come one after another. Close it."""

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end.

        Raises:
            OSError: the stream was cut.
        """
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


@dataclass(slots=True)
class Answer:
    """An answer: `body`, or where a watch was asked for what `source` gives."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source: Source | None = None


class Server(Protocol):
    """An API server of this process."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What it shakes hands with; None: it speaks plain HTTP."""
        ...

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        certificate: bytes | None,
    ) -> Answer:
        """Answer a request.

        Args:
            method: in capitals.
            target: quoted path and query.
            headers: of the request.
            body: None: none.
            certificate: of the client, in DER, whose key it has shown to have; None: it showed none.
        """
        ...


_servers: dict[str, Server] = {}


@contextmanager
def serving(url: str, server: Server) -> Iterator[None]:
    """Have the clients of this process that look for a URL's host and port find a server there."""
    origin = _origin(url)
    _servers[origin] = server
    try:
        yield
    finally:
        if _servers.get(origin) is server:
            del _servers[origin]


class Visitor:
    """One client's way to servers of its process, if what it looks for is one."""

    def __init__(self) -> None:
        self._credentials: Credentials | None = None
        self._server: Server | None = None
        self._host = self._prefix = self._origin = ""
        self._certificate: bytes | None = None
        self._until = 0.0

    def finds(self, credentials: Credentials) -> bool:
        """Whether credentials are for a server of this process."""
        if credentials is not self._credentials:
            self._credentials, self._until = credentials, 0.0
            parts = urlsplit(credentials.url)
            self._host, self._prefix = parts.hostname or "", parts.path
            self._origin = _origin(credentials.url)
            self._server = None
        if not _servers or credentials.proxy:
            return False
        server = _servers.get(self._origin)
        if server is not self._server:
            self._server, self._until = server, 0.0
        return server is not None and (server.tls is None) == (credentials.tls is None)

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Have a request answered; only where `finds` has said yes.

        Raises:
            ssl.SSLError: one side does not trust the other.
        """
        server, credentials = self._server, self._credentials
        if server is None or credentials is None:
            raise RuntimeError("there is no server of this process to ask")
        now = time.monotonic()
        if credentials.tls is not None and server.tls is not None and now >= self._until:
            name = credentials.server_name or self._host
            self._certificate = introduced(credentials.tls, server.tls, name)
            self._until = now + HANDSHAKE_SECONDS
        return await server.answer(method, self._prefix + target, headers, body, self._certificate)


def introduced(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> bytes | None:
    """Let two TLS contexts shake hands; return the client's certificate in DER, None: it has none.

    Args:
        client: of whoever asks.
        server: of whoever answers.
        name: that the server's certificate must carry.

    Raises:
        ssl.SSLError: one does not trust the other.
    """
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(down, up, server_hostname=name)
    answering = server.wrap_bio(up, down, server_side=True)
    left = [asking, answering]
    for _ in range(_MOST_TURNS):
        for side in list(left):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(side)
        if not left:
            return answering.getpeercert(binary_form=True)
    raise ssl.SSLError("the handshake does not come to an end")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
