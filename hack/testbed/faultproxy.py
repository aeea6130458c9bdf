"""A proxy in front of a server, which a test uses to disturb connections and requests.

It runs in the test's event loop. A TCP proxy forwards TLS unchanged. An HTTP proxy terminates TLS with its own
certificate, parses requests, and can answer instead of the server.
"""

import asyncio
import contextlib
import datetime
import re
import socket
import ssl
import struct
import tempfile
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from hack.testbed import http1
from hack.testbed.faults import (
    Answer,
    Cut,
    Fault,
    Request,
    Slow,
    Stall,
    Truncate,
    Truncation,
    When,
    always,
    status_body,
)
from hack.testbed.pki import Authority
from hack.testbed.processes import free_ports

REMEMBERED_REQUESTS = 10_000
SLICES_PER_SECOND = 20
NO_ANSWER = 0
"""Status under which requests without any answer are counted."""

_T = TypeVar("_T")


class FaultProxy:
    """A proxy on a loopback port; use `FaultProxy.tcp` or `FaultProxy.http` with `async with`."""

    def __init__(self, host: str, port: int, *, http: bool, upstream_ca: str | None = None) -> None:
        self._upstream = (host, port)
        self._http = http
        self._server_tls: ssl.SSLContext | None = None
        self._upstream_tls = ssl.create_default_context(cadata=upstream_ca) if upstream_ca else None
        self._authority = (
            Authority("fault-proxy-ca", datetime.datetime.now(datetime.UTC)) if upstream_ca else None
        )
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], StreamWriter] = {}
        self._faults: list[_Injected] = []
        self._changed = asyncio.Event()
        self._answered = asyncio.Event()
        self.port = free_ports(1)[0]
        self.kubeconfig = Path()
        """A kubeconfig with the proxy's address, if `Cluster.proxy` created the proxy."""
        self.requests: deque[Request] = deque(maxlen=REMEMBERED_REQUESTS)
        """The latest requests in order of arrival (HTTP only)."""
        self.seen: Counter[tuple[str, str, int]] = Counter()
        """Answered requests by method, path without query, and status (HTTP only)."""

    @classmethod
    def tcp(cls, host: str, port: int) -> Self:
        """Return a proxy for bytes: faults apply to all connections, and Answer is not possible."""
        return cls(host, port, http=False)

    @classmethod
    def http(cls, host: str, port: int, upstream_ca: str | None = None) -> Self:
        """Return a proxy for HTTP/1.1; with the server's CA (PEM) it uses TLS on both sides."""
        return cls(host, port, http=True, upstream_ca=upstream_ca)

    @property
    def url(self) -> str:
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{self.port}"

    @property
    def ca_pem(self) -> str:
        """CA certificate that clients of the HTTP proxy must trust, PEM; empty without TLS."""
        return self._authority.pair.certificate if self._authority else ""

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        if self._authority:
            self._server_tls = await asyncio.to_thread(_server_context, self._authority)
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Faults.

    def inject(self, fault: Fault, when: When = always, *, times: int | None = None) -> "_Injected":
        """Start a fault; `lift` ends it. If several match a request, the newest one applies.

        Args:
            fault: the fault.
            when: condition for the requests to which it applies.
            times: number of requests to which Cut, Truncate or Answer apply; None: unlimited.
        """
        if not self._http and (isinstance(fault, Answer) or when is not always):
            raise ValueError("a TCP proxy does not parse requests: Answer and conditions are not possible")
        injected = _Injected(fault, when, times)
        self._faults.insert(0, injected)
        self._wake()
        return injected

    def lift(self, injected: "_Injected | None" = None) -> None:
        """End one fault, or all."""
        self._faults = [fault for fault in self._faults if injected is not None and fault is not injected]
        self._wake()

    @contextlib.contextmanager
    def fault(self, fault: Fault, when: When = always, *, times: int | None = None) -> Iterator[None]:
        """Apply a fault during the block."""
        injected = self.inject(fault, when, times=times)
        try:
            yield
        finally:
            self.lift(injected)

    def cut(self) -> None:
        """Reset all open connections, once."""
        for task, writer in list(self._connections.items()):
            _reset(writer)
            task.cancel()

    def refuse(self) -> None:
        """Refuse new connections; open ones stay open."""
        if self._server:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Accept connections (again)."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._protocol, "127.0.0.1", self.port, ssl=self._server_tls, backlog=1024
        )

    # Recorded requests.

    def count(self, path: str = ".*", method: str = "", status: int | None = None) -> int:
        """Return the number of answered requests.

        Args:
            path: regular expression that the whole path matches.
            method: of the requests; empty: any.
            status: of the answers; None: any.
        """
        return sum(
            number
            for (seen_method, seen_path, seen_status), number in self.seen.items()
            if re.fullmatch(path, seen_path) and method in {"", seen_method} and status in {None, seen_status}
        )

    async def until_seen(
        self, count: int = 1, *, path: str = ".*", method: str = "", status: int | None = None
    ) -> None:
        """Wait until this many requests have been answered; the caller sets the timeout."""
        while self.count(path, method, status) < count:
            self._answered.clear()
            await self._answered.wait()

    # Implementation.

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _active(self, request: Request | None) -> "_Injected | None":
        for fault in self._faults:
            if fault.times != 0 and (fault.when is always or (request is not None and fault.when(request))):
                return fault
        return None

    def _protocol(self) -> asyncio.Protocol:
        async def connected(reader: StreamReader, writer: StreamWriter) -> None:
            # Python 3.11 logs the CancelledError of a cancelled handler. A cut is not an error.
            with contextlib.suppress(asyncio.CancelledError):
                await self._connected(_Peer(reader, writer, protocol.gone))

        reader = StreamReader(limit=http1.HEAD_BYTES)
        protocol = _ClosingProtocol(reader, connected, loop=asyncio.get_running_loop())
        return protocol

    async def _connected(self, client: "_Peer") -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - narrows the type; asyncio runs this in a task
        self._connections[task] = client.writer
        serve = self._serve_http if self._http else self._serve_tcp
        try:
            await _while_open(client, serve(client))
        except (OSError, IncompleteReadError, http1.BadMessageError):
            # One side closed its connection: close the other one, too.
            pass
        finally:
            del self._connections[task]
            client.writer.close()

    @contextlib.asynccontextmanager
    async def _upstream_connection(self) -> AsyncIterator["_Peer"]:
        host, port = self._upstream
        loop = asyncio.get_running_loop()
        reader = StreamReader(limit=http1.HEAD_BYTES)
        protocol = _ClosingProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=self._upstream_tls)
        writer = StreamWriter(transport, protocol, reader, loop)
        try:
            yield _Peer(reader, writer, protocol.gone)
        finally:
            writer.close()

    async def _serve_tcp(self, client: "_Peer") -> None:
        await self._gate(client, None)
        async with self._upstream_connection() as upstream:
            await self._exchange(client, upstream, None)

    async def _exchange(self, client: "_Peer", upstream: "_Peer", request: Request | None) -> None:
        """Forward bytes in both directions until one side closes."""
        ways = [
            asyncio.create_task(self._pump(client, upstream, client, request)),
            asyncio.create_task(self._pump(upstream, client, client, request)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, source: "_Peer", sink: "_Peer", client: "_Peer", request: Request | None) -> None:
        answers = sink is client
        truncation = self._truncation(request) if answers else None
        while data := await source.reader.read(http1.PIECE_BYTES):
            data, end = truncation.pass_through(data) if truncation else (data, False)
            await self._send(sink, data, client, request)
            if end:
                return

    async def _serve_http(self, client: "_Peer") -> None:
        async with contextlib.AsyncExitStack() as stack:
            upstream: _Peer | None = None
            while head := await _next_request(client, upstream):
                request = Request.of(head.start[0], head.start[1])
                self.requests.append(request)
                try:
                    await self._gate(client, request)
                except ConnectionAbortedError:
                    self._note(request, NO_ANSWER)
                    raise
                active = self._active(request)
                if active and isinstance(active.fault, Answer):
                    active.use()
                    await self._answer(client, head, request, active.fault)
                    continue
                if upstream is None:
                    upstream = await stack.enter_async_context(self._upstream_connection())
                if not await self._forward(client, upstream, head, request):
                    return

    async def _forward(self, client: "_Peer", upstream: "_Peer", head: http1.Head, request: Request) -> bool:
        """Forward one request and its response; returns whether the connections can be reused."""
        if head.headers.get("expect"):
            await client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await upstream.send(head.without("expect"))
        async for piece in http1.body(client.reader, head, until_close=False):
            await upstream.send(http1.chunk(piece) if head.chunked else piece)
        if head.chunked:
            await upstream.send(http1.chunk(b""))
        response = await http1.read_head(upstream.reader)
        if response is None:
            self._note(request, NO_ANSWER)
            return False
        self._note(request, response.status)
        await self._send(client, response.raw, client, request)
        if response.status == 101:
            await self._exchange(client, upstream, request)
            return False
        if not http1.has_body(request.method, response):
            return not response.closes
        return await self._forward_body(client, upstream, response, request)

    async def _forward_body(
        self, client: "_Peer", upstream: "_Peer", response: http1.Head, request: Request
    ) -> bool:
        truncation = self._truncation(request)
        async for piece in http1.body(upstream.reader, response, until_close=True):
            data, end = truncation.pass_through(piece) if truncation else (piece, False)
            await self._send(
                client, http1.chunk(data) if response.chunked and data else data, client, request
            )
            if end:
                if truncation and truncation.graceful and response.chunked:
                    await client.send(http1.chunk(b""))
                return False
        if response.chunked:
            await client.send(http1.chunk(b""))
        return not response.closes and (response.chunked or response.length is not None)

    async def _answer(self, client: "_Peer", head: http1.Head, request: Request, answer: Answer) -> None:
        async for _ in http1.body(client.reader, head, until_close=False):
            pass
        body = status_body(answer)
        status = 200 if answer.as_event else answer.status
        retry = "" if answer.retry_after is None else f"Retry-After: {answer.retry_after}\r\n"
        lines = f"HTTP/1.1 {status} Fault\r\nContent-Type: application/json\r\n{retry}"
        self._note(request, status)
        lines += f"Content-Length: {len(body)}\r\n\r\n"
        await client.send(lines.encode() + (b"" if request.method == "HEAD" else body))

    def _note(self, request: Request, status: int) -> None:
        self.seen[request.method, request.path, status] += 1
        self._answered.set()

    def _truncation(self, request: Request | None) -> "Truncation | None":
        active = self._active(request)
        if active and isinstance(active.fault, Truncate):
            active.use()
            return Truncation(active.fault)
        return None

    async def _send(self, sink: "_Peer", data: bytes, client: "_Peer", request: Request | None) -> None:
        """Send data according to the current faults."""
        while data:
            speed = await self._gate(client, request)
            count = max(1, int(speed / SLICES_PER_SECOND)) if speed else len(data)
            await sink.send(data[:count])
            data = data[count:]
            if speed:
                await asyncio.sleep(count / speed)

    async def _gate(self, client: "_Peer", request: Request | None) -> float | None:
        """Hold, delay or cut the next data; returns the rate limit in bytes per second, or None.

        Raises:
            ConnectionAbortedError: the connection was reset.
        """
        while (active := self._active(request)) and isinstance(active.fault, Stall):
            await self._changed.wait()
        if active and isinstance(active.fault, Cut):
            active.use()
            _reset(client.writer)
            raise ConnectionAbortedError
        if active and isinstance(active.fault, Slow):
            await asyncio.sleep(active.fault.latency)
            return active.fault.bytes_per_second
        return None


@dataclass(eq=False)
class _Injected:
    fault: Fault
    when: When
    times: int | None

    def use(self) -> None:
        if self.times is not None:
            self.times -= 1


@dataclass(frozen=True)
class _Peer:
    reader: StreamReader
    writer: StreamWriter
    gone: asyncio.Event
    """Set when either side has closed the connection."""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class _ClosingProtocol(asyncio.StreamReaderProtocol):
    """Closes the connection when the peer has closed its half, because the peer will not send more data."""

    def __init__(self, reader: StreamReader, *args: Any, **options: Any) -> None:
        super().__init__(reader, *args, **options)
        self.gone = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.gone.set()

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _next_request(client: _Peer, upstream: _Peer | None) -> http1.Head | None:
    """Return the head of the next request; None if the client, or the server while idle, closes its connection."""
    reading = http1.read_head(client.reader)
    return await (_while_open(upstream, reading) if upstream else reading)


async def _while_open(peer: _Peer, work: Coroutine[Any, Any, _T]) -> _T:
    """Run `work` until it is done; closing the connection cancels it.

    Raises:
        ConnectionResetError: the connection was closed.
    """
    working, closed = asyncio.create_task(work), asyncio.create_task(peer.gone.wait())
    try:
        await asyncio.wait((working, closed), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ConnectionResetError
    finally:
        for task in (working, closed):
            task.cancel()
        await asyncio.gather(working, closed, return_exceptions=True)


def _reset(writer: StreamWriter) -> None:
    """Close a connection by RST instead of FIN, as after a crashed host or a dropped NAT entry."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _server_context(authority: Authority) -> ssl.SSLContext:
    pair = authority.server("fault-proxy", "127.0.0.1", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        # The ssl module reads certificates only from files.
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_text(pair.certificate + pair.key)
        context.load_cert_chain(file)
    context.set_alpn_protocols(["http/1.1"])
    return context
