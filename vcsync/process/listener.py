"""Accepts connections. TLS handshakes are limited in number and, for each address, in rate.

A handshake takes one or two milliseconds of the event loop before the caller is known. Connections that an address opens
faster than it may are delayed; connections that are already open are served meanwhile.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import structlog
from aiohttp import web, web_runner

from vcsync.process.handshakes import MAX_HANDSHAKE, USUAL_HANDSHAKE, BoundedHandshake

HANDSHAKE_SECONDS = 10.0
"""Timeout of a handshake, and longest delay before it."""
SHUTDOWN_SECONDS = 1.0
"""Time to wait for the peer's TLS close_notify. Data that the peer has sent occupies memory until then."""
MAX_HANDSHAKES = 2000
"""Handshakes under way or delayed. No address has more of them than remain free."""
CONNECTIONS_PER_SECOND = 50.0
"""Connections that one address may open per second."""
CONNECTIONS_BURST = 100
"""Connections that one address may open in a burst before the rate applies."""
MAX_REMEMBERED = 10_000
"""Addresses to remember before those without a delay are forgotten."""
RETRY_SECONDS = 0.1
_log = structlog.get_logger(__name__)


class ConnectionRate:
    """Limits the rate at which each address opens connections.

    Args:
        rate: Connections per second. 0: unlimited.
        burst: Connections in a burst before the rate applies.
    """

    def __init__(self, rate: float = CONNECTIONS_PER_SECOND, burst: int = CONNECTIONS_BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._next: dict[str, float] = {}

    def delay(self, source: str, now: float) -> float:
        """Count a connection, and return the seconds to wait before its handshake."""
        if not self._rate:
            return 0.0
        if len(self._next) >= MAX_REMEMBERED:
            self._next = {each: at for each, at in self._next.items() if at > now}
        at = max(self._next.get(source, 0.0), now - (self._burst - 1) / self._rate)
        self._next[source] = at + 1 / self._rate
        return max(0.0, at - now)

    def charge(self, source: str, connections: int) -> None:
        """Count an expensive handshake as further connections, which delay later ones."""
        if self._rate and source in self._next:
            self._next[source] += connections / self._rate

    def undo(self, source: str) -> None:
        """Stop counting a connection that was refused."""
        if source in self._next:
            self._next[source] -= 1 / self._rate


class Listener(web_runner.BaseSite):
    """Listens on a TCP port.

    Args:
        runner: Serves the connections.
        host: Address to listen on.
        port: Port to listen on. 0: any free port.
        tls: TLS settings, or None for plain HTTP.
        rate: Limits the rate of each address.
        handshakes: Handshakes under way or delayed.
    """

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        rate: ConnectionRate | None = None,
        handshakes: int = MAX_HANDSHAKES,
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=1024)
        self._host = host
        self._port = port
        self._rate = rate or ConnectionRate()
        self._limit = handshakes
        self._pending: Counter[str] = Counter()
        self._delayed: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: Sequence[socket.socket] = ()

    @property
    def name(self) -> str:
        """URL of the address."""
        return f"{'https' if self._ssl_context else 'http'}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Start to accept connections.

        Raises:
            OSError: The address cannot be bound.
        """
        await super().start()
        self._sockets = await _listening(self._host, self._port, self._backlog)
        for each in self._sockets:
            self._resume(each)
        self._server = cast("asyncio.AbstractServer", _Listening(self._sockets, self._close))

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection. The loop calls it again, after its other callbacks, while more are waiting."""
        loop = asyncio.get_running_loop()
        try:
            connection, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # too many open files: some will be closed
            _log.warning("cannot accept a connection", error=str(error))
            loop.remove_reader(listening)
            loop.call_later(RETRY_SECONDS, self._resume, listening)
            return
        connection.setblocking(False)
        source = source_of(peer)
        delay = self._rate.delay(source, loop.time())
        if delay > HANDSHAKE_SECONDS or self._pending[source] >= self._limit - self._pending.total():
            self._rate.undo(source)
            connection.close()
            return
        self._pending[source] += 1
        self._delayed.add(connection)
        task = loop.create_task(self._shake_hands(connection, source, delay))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: socket.socket, source: str, delay: float) -> None:
        """Do the handshake of a connection after its delay. From then on the event loop owns the socket, and closes it."""
        handler = self._runner.server
        assert handler is not None  # noqa: S101 - the runner is set up
        try:
            if delay:
                await asyncio.sleep(delay)
            self._delayed.discard(connection)
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                handler,
                connection,
                ssl=self._ssl_context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._ssl_context else None,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS if self._ssl_context else None,
            )
            _acknowledge(connection)
            tls = transport.get_extra_info("ssl_object")
            if isinstance(tls, BoundedHandshake):
                self._rate.charge(source, tls.handshake_bytes // USUAL_HANDSHAKE)
        except ssl.SSLError:  # a peer's mistake is not worth a log line
            self._rate.charge(source, MAX_HANDSHAKE // USUAL_HANDSHAKE)
        except (OSError, TimeoutError):
            pass
        finally:
            self._pending[source] -= 1
            if not self._pending[source]:
                del self._pending[source]

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
            each.close()
        self._sockets = ()
        for task in self._tasks:
            task.cancel()
        for connection in self._delayed:
            connection.close()
        self._delayed.clear()


class _Listening:
    """Listening sockets, in the form that the runner closes."""

    def __init__(self, sockets: Sequence[socket.socket], close: Callable[[], None]) -> None:
        self.sockets = sockets
        self.close = close


def _acknowledge(connection: socket.socket) -> None:
    """Acknowledge the last message of a handshake immediately, because some clients send nothing before that."""
    option = getattr(socket, "TCP_QUICKACK", None)  # Linux only
    if option is not None:
        with suppress(OSError):  # the connection is already closed
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)


async def _listening(host: str, port: int, backlog: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(made)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(backlog)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


def source_of(peer: Any) -> str:
    """Return the address under which a connection is counted.

    For IPv6 that is the /64 network, because the owner of one address usually has the whole network.
    """
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
