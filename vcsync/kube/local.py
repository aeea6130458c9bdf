"""Calls an API server in the same process directly, without sockets.

Client and server authenticate each other as on the network: their TLS contexts do a handshake in memory. The server accepts a
client certificate only with its key, and the client accepts a server certificate only from a trusted CA.
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
"""Seconds after which the handshake is repeated."""
_MOST_ROUND_TRIPS = 20


class Source(Protocol):
    """A stream of bytes. It must be closed."""

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end.

        Raises:
            OSError: The stream was interrupted.
        """
        ...

    async def close(self) -> None:
        """Close the stream."""
        ...


@dataclass(slots=True)
class Answer:
    """A response.

    Attributes:
        status: HTTP status.
        headers: Headers.
        body: The body, unless it is a stream.
        source: Stream of the events of a watch, or of a log.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source: Source | None = None


class Server(Protocol):
    """An API server of this process."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of the server. None: the server uses plain HTTP."""
        ...

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        certificate: bytes | None,
    ) -> Answer:
        """Serve a request.

        Args:
            method: HTTP method, in capitals.
            target: Quoted path and query.
            headers: Headers of the request.
            body: Body of the request, if any.
            certificate: Verified certificate of the client in DER, if it has one.
        """
        ...


_servers: dict[str, Server] = {}


@contextmanager
def serving(url: str, server: Server) -> Iterator[None]:
    """Register a server of this process for the host and port of a URL, so that clients call it directly.

    Args:
        url: URL of the server.
        server: The server.
    """
    origin = _origin(url)
    _servers[origin] = server
    try:
        yield
    finally:
        if _servers.get(origin) is server:
            del _servers[origin]


class LocalClient:
    """Sends the requests of one client to a server of this process, if its credentials are for one."""

    def __init__(self) -> None:
        self._credentials: Credentials | None = None
        self._server: Server | None = None
        self._host = self._prefix = self._origin = ""
        self._certificate: bytes | None = None
        self._until = 0.0

    def reaches(self, credentials: Credentials) -> bool:
        """Return whether credentials are for a server of this process. They are used for the next requests."""
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

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send a request to the server. Call this only if `reaches` returned true.

        Raises:
            ssl.SSLError: One side does not trust the other.
        """
        server, credentials = self._server, self._credentials
        if server is None or credentials is None:
            raise RuntimeError("the credentials are not for a server of this process")
        now = time.monotonic()
        if credentials.tls is not None and server.tls is not None and now >= self._until:
            name = credentials.server_name or self._host
            self._certificate = handshake(credentials.tls, server.tls, name)
            self._until = now + HANDSHAKE_SECONDS
        return await server.answer(method, self._prefix + target, headers, body, self._certificate)


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> bytes | None:
    """Do a TLS handshake in memory, and return the certificate of the client in DER, or None if it has none.

    Args:
        client: TLS context of the client.
        server: TLS context of the server.
        name: Name that the certificate of the server must contain.

    Raises:
        ssl.SSLError: One side does not trust the other.
    """
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(down, up, server_hostname=name)
    server_side = server.wrap_bio(up, down, server_side=True)
    left = [client_side, server_side]
    for _ in range(_MOST_ROUND_TRIPS):
        for side in list(left):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(side)
        if not left:
            return server_side.getpeercert(binary_form=True)
    raise ssl.SSLError("the handshake does not end")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
