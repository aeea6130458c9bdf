"""Takes connections: TLS handshakes are bounded in number and, for one address, in pace.

A handshake takes a millisecond or two of the loop's time before anybody knows whose it is. Connections that come faster
than an address may open them wait their turn; whoever has one is served meanwhile.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, cast

import structlog
from aiohttp import web, web_runner

from vcsync.controlplane.rest.connections import source_of

HANDSHAKE_SECONDS = 10.0
"""How long a handshake may take, and wait for its turn."""
FAREWELL_SECONDS = 1.0
"""How long a connection that ends waits for the other end's farewell; what it has sent takes memory until then."""
MAX_HANDSHAKES = 2000
"""That are under way, or wait, at once; nobody has more of them than what it leaves to others."""
RATE, BURST = 50.0, 100
"""Connections that one address opens per second, and how many at once before that counts."""
MAX_REMEMBERED = 10_000
RETRY_SECONDS = 0.1
_log = structlog.get_logger(__name__)


class Pace:
    """How long each address has to wait for its next connection."""

    def __init__(self, rate: float = RATE, burst: int = BURST) -> None:
        """Take how many there may be per second, 0: any number, and how many at once."""
        self._rate = rate
        self._burst = burst
        self._next: dict[str, float] = {}

    def delay(self, source: str, now: float) -> float:
        """Count one connection; return after how many seconds it is its turn."""
        if not self._rate:
            return 0.0
        if len(self._next) >= MAX_REMEMBERED:
            self._next = {each: at for each, at in self._next.items() if at > now}
        at = max(self._next.get(source, 0.0), now - (self._burst - 1) / self._rate)
        self._next[source] = at + 1 / self._rate
        return max(0.0, at - now)

    def undo(self, source: str) -> None:
        """Count a connection no more that did not get its turn."""
        if source in self._next:
            self._next[source] -= 1 / self._rate


class Listener(web_runner.BaseSite):
    """Listens on a TCP port."""

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        pace: Pace | None = None,
        handshakes: int = MAX_HANDSHAKES,
    ) -> None:
        """Take where to listen; `port` 0: any."""
        super().__init__(runner, ssl_context=tls, backlog=1024)
        self._host = host
        self._port = port
        self._pace = pace or Pace()
        self._limit = handshakes
        self._coming: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """Where it listens."""
        return f"{'https' if self._ssl_context else 'http'}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Begin.

        Raises:
            OSError: it cannot listen there.
        """
        await super().start()
        sockets = await _listening(self._host, self._port, self._backlog)
        for each in sockets:
            self._begin(self._accept(each))
        self._server = cast("asyncio.AbstractServer", _Listening(sockets, self._tasks))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:  # too many open files: there will be fewer
                _log.warning("a connection cannot be taken", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            source = source_of(peer)
            delay = self._pace.delay(source, loop.time())
            if delay > HANDSHAKE_SECONDS or self._coming[source] >= self._limit - self._coming.total():
                self._pace.undo(source)
                connection.close()
                continue
            self._coming[source] += 1
            self._begin(self._welcome(connection, source, delay))
            await asyncio.sleep(0)  # of a thousand that wait, others have their turn in between

    async def _welcome(self, connection: socket.socket, source: str, delay: float) -> None:
        """Do the handshake when it is its turn."""
        handler = self._runner.server
        assert handler is not None  # noqa: S101 - the runner is set up
        try:
            if delay:
                await asyncio.sleep(delay)
            await asyncio.get_running_loop().connect_accepted_socket(
                handler,
                connection,
                ssl=self._ssl_context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._ssl_context else None,
                ssl_shutdown_timeout=FAREWELL_SECONDS if self._ssl_context else None,
            )
            _acknowledge(connection)
        except (OSError, TimeoutError):  # what the other end does wrong is nobody's business
            connection.close()
        except BaseException:
            connection.close()
            raise
        finally:
            self._coming[source] -= 1
            if not self._coming[source]:
                del self._coming[source]


class _Listening:
    """Sockets that are listened on, as the runner wants them."""

    def __init__(self, sockets: Sequence[socket.socket], tasks: set[asyncio.Task[None]]) -> None:
        self.sockets = sockets
        self._tasks = tasks

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for each in self.sockets:
            each.close()


def _acknowledge(connection: socket.socket) -> None:
    """Acknowledge the end of a handshake, which is not answered: some clients send nothing before that is done."""
    option = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
    if option is not None:
        with suppress(OSError):  # it has ended already
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
