"""The kubelets' server: logs, exec, attach and port-forward for every node of a hollow cluster.

Paths and messages: Kubernetes' `pkg/kubelet/server/server.go`. Callers must present the certificate of an API server.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import structlog
from aiohttp import WSMsgType, web

from vcsync.api import names
from vcsync.kube.upgraded_connection import HijackedResponse, take_over
from vcsync.objects.envelope import Envelope
from vcsync.process.http_connection import BoundedServer
from vcsync.simulate import canned, channels, sessions
from vcsync.simulate.canned import ContainerRun, LogOptions
from vcsync.simulate.channels import ChannelSocket
from vcsync.simulate.container_runs import Refused, container_run, log_options, running
from vcsync.simulate.sessions import Channels, SpdyStreams
from vcsync.simulate.spdy import Pipe, Session, SpdyError, Stream

CALLER = "kube-apiserver-kubelet-client"
SPDY = "SPDY/3.1"
PORT_FORWARD = "portforward.k8s.io"
TUNNELLED = f"{SPDY}+{PORT_FORWARD}"
PROTOCOLS = "Sec-WebSocket-Protocol"
MAX_PORTS = 100
"""Most ports of a port-forward over channels, whose numbers are one byte."""
MAX_DIGITS = 5
OPEN_SECONDS = 30.0
"""Seconds that a client may take to open its streams."""
MAX_LINE_BYTES = 256 * 1024
"""Longest path with query: each argument of a command is a parameter."""
STOP_SECONDS = 1.0
ASKED = {"input": sessions.STDIN, "output": sessions.STDOUT, "error": sessions.STDERR}

FindPod = Callable[[str, str], Envelope | None]
Clock = Callable[[], datetime]

_log = structlog.get_logger(__name__)


class KubeletServer:
    """Serves requests for all kubelets of a hollow cluster.

    Args:
        find: returns a Pod by namespace and name, if its kubelet works.
        clock: the clock.
    """

    def __init__(self, find: FindPod, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self._find = find
        self._clock = clock
        self._runner: web.ServerRunner | None = None
        self._served = {
            "containerLogs": self._logs,
            "exec": self._exec,
            "attach": self._attach,
            "portForward": self._port_forward,
        }

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Start to serve; return the port.

        Raises:
            OSError: the address cannot be used.
        """
        server = BoundedServer(
            self._handle, access_log=None, handler_cancellation=True, max_line_size=MAX_LINE_BYTES
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=tls).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _is_api_server(request):
            return _text(403, "Forbidden")
        parts = request.path.strip("/").split("/")
        if parts == ["healthz"]:
            return _text(200, "ok")
        serve = self._served.get(parts[0])
        if serve is None or len(parts) != (3 if parts[0] == "portForward" else 4):
            return _text(404, "404 page not found")
        pod = self._find(parts[1], parts[2])
        if pod is None:
            return _text(404, f'pod "{parts[2]}" does not exist')
        try:
            return await serve(request, pod, parts[-1])
        except Refused as refused:
            return _text(refused.status, str(refused))

    # ---- Logs ----------------------------------------------------------------------------

    async def _logs(self, request: web.BaseRequest, pod: Envelope, container: str) -> web.StreamResponse:
        query = request.query
        life = container_run(pod, container, previous=query.get("previous") == "true")
        options = log_options(query.get, self._clock())
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        left = options.limit
        now = self._clock()
        for line in canned.past(life, now, options):
            left = await _write(response, canned.written(line, timestamps=options.timestamps), left)
        if query.get("follow") == "true":
            await self._follow(response, (pod, container), life, options, left)
        await response.write_eof()
        return response

    async def _follow(
        self,
        response: web.StreamResponse,
        whose: tuple[Envelope, str],
        life: ContainerRun,
        options: LogOptions,
        left: int | None,
    ) -> None:
        """Follow a log until the container ends."""
        number = canned.count(life, self._clock())
        while life.until is None and (left is None or left > 0):
            await self._sleep_until(canned.next_at(life, number))
            life = self._again(whose, life)
            for line in canned.lines(life, number, self._clock()):
                number += 1
                left = await _write(response, canned.written(line, timestamps=options.timestamps), left)
            number = max(number, canned.count(life, self._clock()))

    def _again(self, whose: tuple[Envelope, str], life: ContainerRun) -> ContainerRun:
        """Return the current state of a container."""
        pod, container = whose
        found = self._find(pod.namespace, pod.name)
        with suppress(Refused):
            if found is not None and found.uid == pod.uid:
                now = container_run(found, container, previous=False)
                if now.began == life.began:
                    return now
        return ContainerRun(life.pod, life.container, life.began, self._clock(), life.command)

    async def _sleep_until(self, at: datetime) -> None:
        seconds = (at - self._clock()).total_seconds()
        await asyncio.sleep(min(max(seconds, 0.0), canned.LINE_SECONDS) or canned.LINE_SECONDS)

    # ---- Exec and attach -----------------------------------------------------------------

    async def _exec(self, request: web.BaseRequest, pod: Envelope, container: str) -> web.StreamResponse:
        running(pod, container)
        command = request.query.getall("command", [])
        stdin, tty = request.query.get("input") == "1", request.query.get("tty") == "1"

        async def serve(streams: sessions.Streams) -> None:
            await sessions.execute(streams, command, pod.name, stdin=stdin, tty=tty)

        return await self._streamed(request, serve)

    async def _attach(self, request: web.BaseRequest, pod: Envelope, container: str) -> web.StreamResponse:
        life = running(pod, container)

        async def serve(streams: sessions.Streams) -> None:
            reading = asyncio.create_task(_drained(streams))
            try:
                number = canned.count(life, self._clock())
                now = life
                while now.until is None and not reading.done():
                    await self._sleep_until(canned.next_at(now, number))
                    now = self._again((pod, container), now)
                    for line in canned.lines(now, number, self._clock()):
                        number += 1
                        await streams.write(sessions.STDOUT, canned.written(line, timestamps=False))
                await streams.write(sessions.ERROR, b'{"metadata":{},"status":"Success"}')
            finally:
                reading.cancel()

        return await self._streamed(request, serve)

    async def _streamed(self, request: web.BaseRequest, serve: Any) -> web.StreamResponse:
        upgrade = request.headers.get("Upgrade", "").lower()
        wanted = frozenset(channel for name, channel in ASKED.items() if request.query.get(name) == "1")
        wanted |= {sessions.ERROR}
        if upgrade == "websocket":
            socket = await _accepted(request, channels.TERMINALS)
            streams = Channels(ChannelSocket(socket), wanted)
            await streams.begin()
            await _until_either(serve(streams), streams.listen())
            await socket.close()
            return socket
        if upgrade == SPDY.lower():
            return await self._spdy(request, wanted, serve)
        raise Refused(400, "you must specify at least 1 of stdin, stdout, stderr, by an upgrade request")

    async def _spdy(self, request: web.BaseRequest, wanted: frozenset[int], serve: Any) -> web.StreamResponse:
        client = take_over(request)
        await client.write(_switching(sessions.V4))
        streams: dict[int, Stream] = {}
        complete = asyncio.Event()

        async def opened(stream: Stream) -> None:
            kind = sessions.NAMES.get(stream.headers.get("streamtype", ""))
            if kind is not None:
                streams[kind] = stream
            if wanted <= streams.keys():
                complete.set()

        reading = asyncio.create_task(_until_end(Session(client, opened)))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await complete.wait()
            there = SpdyStreams(streams)
            await serve(there)
            await there.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.shield(reading)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            reading.cancel()
        return HijackedResponse()

    # ---- Port-forward --------------------------------------------------------------------

    async def _port_forward(self, request: web.BaseRequest, pod: Envelope, _: str) -> web.StreamResponse:
        upgrade = request.headers.get("Upgrade", "").lower()
        if upgrade == "websocket":
            offered = request.headers.get(PROTOCOLS, "")
            asked = [] if TUNNELLED in offered else _ports(request.query.getall("port", []))
            socket = await _accepted(request, (TUNNELLED, *channels.PORTS))
            if socket.ws_protocol == TUNNELLED:
                await _forwarded(_SocketPipe(socket), pod)
            else:
                await _forwarded_in_channels(ChannelSocket(socket), asked, pod)
            await socket.close()
            return socket
        if upgrade == SPDY.lower():
            client = take_over(request)
            await client.write(_switching(PORT_FORWARD))
            await _forwarded(client, pod)
            return HijackedResponse()
        raise Refused(400, "unable to upgrade: missing upgrade headers in request")


class _SocketPipe:
    """A WebSocket whose messages are plain bytes."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


async def _accepted(request: web.BaseRequest, protocols: tuple[str, ...]) -> web.WebSocketResponse:
    """Accept the handshake of a WebSocket.

    Raises:
        Refused: 403, the client offers other protocols only.
    """
    if not channels.offers(request.headers.get(PROTOCOLS, ""), protocols):
        raise Refused(403, "the protocols of the request are not supported")
    socket = web.WebSocketResponse(protocols=protocols)
    await socket.prepare(request)
    return socket


def _ports(parameters: list[str]) -> list[int]:
    """Return the ports of a request (`NewV4Options` of Kubernetes' `cri-streaming/pkg/streaming/portforward/websocket.go`).

    Raises:
        Refused: 400, there are none, or one is no port.
    """
    if not parameters:
        raise Refused(400, 'query parameter "port" is required')
    found = []
    for each in (part for parameter in parameters for part in parameter.split(",")):
        if not (each.isascii() and each.isdecimal() and len(each) <= MAX_DIGITS and 0 < int(each) < 1 << 16):
            raise Refused(400, f'unable to parse "{each}" as a port')
        found.append(int(each))
    return found[:MAX_PORTS]


async def _forwarded_in_channels(socket: ChannelSocket, ports: list[int], pod: Envelope) -> None:
    """Answer the first input to each port. Each has a channel for data and one for errors, which begin with its number."""
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await socket.send(channel, port.to_bytes(2, "little"))
    waiting = dict(zip(range(0, 2 * len(ports), 2), ports, strict=True))
    while waiting and (message := await socket.receive()) is not None:
        channel, data = message
        if data and channel in waiting:
            await socket.send(channel, _page(pod, waiting.pop(channel)))


async def _forwarded(pipe: Pipe, pod: Envelope) -> None:
    """Answer the first input to any port, like a web server."""
    async with asyncio.TaskGroup() as tasks:

        async def opened(stream: Stream) -> None:
            if stream.headers.get("streamtype") == "data":
                tasks.create_task(_answered(session, stream, pod))
            else:
                await stream.close()

        session = Session(pipe, opened)
        await _until_end(session)


async def _answered(session: Session, stream: Stream, pod: Envelope) -> None:
    with suppress(ConnectionError):
        if await stream.read():
            await stream.write(_page(pod, stream.headers.get("port", "")))
        await stream.close()
    session.forget(stream)


def _page(pod: Envelope, port: object) -> bytes:
    """Return what a port answers, which names the Pod and the port."""
    # A copy of a tenant's Pod knows no other namespace than the tenant's.
    namespace = pod.annotations.get(names.NAMESPACE) or pod.namespace
    body = f"{namespace}/{pod.name} port {port}\n".encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


async def _until_either(*works: Coroutine[Any, Any, None]) -> None:
    """Run several coroutines until one of them ends."""
    tasks = [asyncio.create_task(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _until_end(session: Session) -> None:
    try:
        await session.run()
    except (SpdyError, ConnectionError) as error:
        _log.debug("a stream ended", error=str(error))


async def _drained(streams: sessions.Streams) -> None:
    while await streams.read():
        pass
    await asyncio.Event().wait()


async def _write(response: web.StreamResponse, data: bytes, left: int | None) -> int | None:
    if left is None:
        await response.write(data)
        return None
    if left > 0:
        await response.write(data[:left])
    return left - len(data)


def _switching(protocol: str) -> bytes:
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {SPDY}",
        f"X-Stream-Protocol-Version: {protocol}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def _is_api_server(request: web.BaseRequest) -> bool:
    """Return whether the caller is the API server; TLS has verified that its certificate is from the cluster's CA."""
    shown = request.get_extra_info("peercert") or {}
    return any(pair == ("commonName", CALLER) for group in shown.get("subject", ()) for pair in group)


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", content_type="text/plain")
