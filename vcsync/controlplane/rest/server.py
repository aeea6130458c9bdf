"""The HTTP server: connections, TLS, bodies, streams; everything else is `way`."""

import asyncio
import io
import logging
import ssl
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import structlog
from aiohttp import HttpVersion11, StreamReader, web, web_response
from aiohttp.http_exceptions import HttpProcessingError

from vcsync.controlplane import errors
from vcsync.controlplane.audit.service import AuditLog
from vcsync.controlplane.flow.budget import LIGHT
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.connections import Connections, Stalls
from vcsync.controlplane.rest.counting import Metrics, count
from vcsync.controlplane.rest.inside import MAX_BODY, Inside
from vcsync.controlplane.rest.limits import Limits
from vcsync.controlplane.rest.listener import Listener, Pace
from vcsync.controlplane.rest.reply import Reply, Stream, Tunnel
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.rest.warning_headers import warning_headers
from vcsync.controlplane.rest.way import Incoming, Outgoing, Way
from vcsync.kube.takeover import Taken, take_over

GZIP_FROM = 128 * 1024
CHUNK = 64 * 1024
FULL = 64 * 1024
"""Bytes on the way to one client beyond which pieces of a stream wait for room."""
HELD = 8 * 1024
"""Bytes of a body, twice as many at most, that are taken before they are asked for; of tiny chunks far fewer."""
KEEPALIVE_SECONDS = 120.0
STOP_SECONDS = 5.0
BODY_SECONDS = 60.0
CHUNKS_SECONDS = 0.0002
"""How long chunks of a body, each of which may be of one byte, are taken at once."""
REST, MAX_REST_SECONDS = 4, 0.005
"""So many times as long as it took to take them others have their turn, at most so long."""
TURN_SECONDS = 0.0005
"""How long pieces of a body are taken before others have their turn."""
GENTLE_FROM, GENTLE_RATE = 256 * 1024, 16 * 2**20
"""Bytes of a body from which on it is read at so many a second."""
DRAIN_SECONDS = LINGER_SECONDS = 1.0
"""How long what nobody wants of a body is read before a refusal, and after one."""
_log = structlog.get_logger()

vars(web_response)["SERVER_SOFTWARE"] = "vcsync"  # which versions serve is nobody's business


class _Defects(logging.Filter):
    """Lets through what is the server's own fault: a client could fill the disk with what is its fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_Defects())


class Server:
    """Listens, and hands requests to the way."""

    def __init__(self, way: Way, metrics: Metrics, limits: Limits) -> None:
        """Take the way, and how many connections there may be."""
        self._limits = limits
        self._stalls = Stalls()
        self._sweeper: asyncio.Task[None] | None = None
        self._way = way
        self._metrics = metrics
        self._runner: web.ServerRunner | None = None
        self._server: Connections | None = None
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Begin to listen; `port` 0: any, told by `self.port`."""
        server = Connections(
            self._handle,
            limit=self._limits.connections,
            access_log=None,
            logger=_http_log,
            # kube-apiserver reads no packed bodies, and a small one could unpack to anything.
            auto_decompress=False,
            handler_cancellation=True,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            read_bufsize=HELD,
            max_line_size=16384,
            max_field_size=16384,
        )
        self._server = server
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await self._runner.setup()
        await Listener(self._runner, host, port, tls, pace=Pace(self._limits.connection_rate)).start()
        self._sweeper = asyncio.create_task(self._stalls.run(), name="stalls")
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Answer what is in flight, then close."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began = time.perf_counter()
        raw_path, _, query = request.raw_path.partition("?")

        async def body(weigh: Callable[[int], Awaitable[None]]) -> bytes:
            return await _body(request, weigh)

        incoming = Incoming(request.method, raw_path, query, request.headers, _certificate(request), body)
        incoming.audit_id, incoming.remote = auditing.audit_id(request.headers), request.remote or ""
        incoming.cut = request.transport.abort if request.transport is not None else None
        try:
            outgoing = await self._way.go(incoming)
            count(self._metrics, incoming, outgoing)
            outgoing.last = not self._kept(request, incoming.tenant)
            if incoming.seat is not None and isinstance(outgoing.answer, Stream):
                incoming.seat.leave()  # what lasts is counted otherwise
            return await self._audited(request, incoming, outgoing, began)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 - a defect ends one request, not the server
            self._metrics.defects.inc()
            known = uuid.uuid4().hex[:12]
            _log.exception("request failed", id=known, method=request.method, path=raw_path)
            error = errors.internal(f"unexpected error, id {known}")
            refused = self._way.refused(error, request.headers.get("Accept", ""))
            if self._way.auditor is not None:
                self._way.auditor.panicked(incoming.audit, f"unexpected error, id {known}")
            return await self._send(request, Outgoing(refused, [], audit_id=incoming.audit_id), began)
        finally:
            if incoming.seat is not None:
                incoming.seat.end()
            if incoming.open is not None:
                incoming.open.end()

    def _kept(self, request: web.BaseRequest, tenant: str) -> bool:
        """Tell whether a connection may be kept for a next request: a tenant has only so many of them."""
        return not tenant or self._server is None or self._server.belongs(request.protocol, tenant)

    def inside(self, tls: ssl.SSLContext | None) -> Inside:
        """Return the server for clients of this process."""
        return Inside(self._way, self._metrics, tls)

    def audit(self, log: AuditLog) -> None:
        """Tell an audit log of all requests."""
        self._way.auditor = log.auditor
        log.register(self._metrics.registry)

    async def _audited(
        self, request: web.BaseRequest, incoming: Incoming, outgoing: Outgoing, began: float
    ) -> web.StreamResponse:
        """Send an answer; the audit log is told when it is out, or cut off."""
        outgoing.audit_id = incoming.audit_id
        auditor = self._way.auditor
        if auditor is None or not incoming.audit.level:
            return await self._send(request, outgoing, began)
        if auditing.lasting(outgoing.info):
            auditor.started(incoming.audit)
        try:
            return await self._send(request, outgoing, began)
        finally:
            auditor.complete(incoming.audit)

    async def _send(self, request: web.BaseRequest, outgoing: Outgoing, began: float) -> web.StreamResponse:
        verb = outgoing.info.verb if outgoing.info and outgoing.info.resource_request else "path"
        answer = outgoing.answer
        headers = {
            auditing.HEADER: outgoing.audit_id,
            "Cache-Control": "no-cache, private",
            **outgoing.headers,
        }
        if isinstance(answer, Tunnel):
            self._metrics.requests.labels(verb, "101").inc()
            return await self._tunnel(request, answer)
        if isinstance(answer, Stream):
            self._metrics.requests.labels(verb, "200").inc()
            return await self._stream(request, answer, headers, outgoing.warnings)
        headers.update(answer.headers)
        self._metrics.requests.labels(verb, str(answer.status)).inc()
        transport = request.transport
        self._stalls.begin(transport)
        try:
            response = await self._whole(request, answer, headers, outgoing)
        finally:
            self._stalls.end(transport)
        self._metrics.seconds.labels(verb).observe(time.perf_counter() - began)
        return response

    async def _whole(
        self, request: web.BaseRequest, answer: Reply, headers: dict[str, str], outgoing: Outgoing
    ) -> web.StreamResponse:
        size = sum(map(len, answer.body))
        packed = (
            (size > GZIP_FROM or answer.rest is not None)
            and "Content-Encoding" not in headers
            and "gzip" in request.headers.get("Accept-Encoding", "")
        )
        if answer.content_type:
            headers["Content-Type"] = answer.content_type
        if packed:
            headers["Content-Encoding"] = "gzip"
            headers["Vary"] = "Accept-Encoding"
        if answer.rest is not None:
            stream = web.StreamResponse(status=answer.status, headers=headers)
            _finish(stream, outgoing)
            return await self._long(request, stream, answer.rest)
        if size <= CHUNK:
            response = web.Response(status=answer.status, body=b"".join(answer.body), headers=headers)
            _finish(response, outgoing)
            await response.prepare(request)
            await response.write_eof()
            return response
        stream = web.StreamResponse(status=answer.status, headers=headers)
        _finish(stream, outgoing)
        if packed:
            body: Sequence[bytes] = await asyncio.to_thread(_packed, answer.body)
        else:
            body = answer.body
        stream.content_length = sum(map(len, body))
        await stream.prepare(request)
        for chunk in _chunks(body):
            self._stalls.begin(request.transport)
            await stream.write(chunk)
            await turn()
        await stream.write_eof()
        return stream

    async def _long(
        self, request: web.BaseRequest, stream: web.StreamResponse, pieces: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Send an answer that is made while it is sent; one that cannot be ended is cut off."""
        packed = "Content-Encoding" in stream.headers
        packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS) if packed else None
        stream.enable_chunked_encoding()
        await stream.prepare(request)
        try:
            async for piece in pieces:
                told = await asyncio.to_thread(packer.compress, piece) if packer else piece
                if told:
                    await self._write(request, stream, told)
            if packer:
                await stream.write(packer.flush())
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            if not isinstance(error, errors.StatusError):
                self._metrics.defects.inc()
                _log.exception("answer cut off", path=request.path)
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionAbortedError("the answer cannot be ended") from error
        await stream.write_eof()
        return stream

    async def _write(self, request: web.BaseRequest, stream: web.StreamResponse, piece: bytes) -> None:
        """Send a piece; no more of it is on the way at once than a client reads."""
        for part in (piece,) if len(piece) <= CHUNK else _chunks((piece,)):
            self._stalls.begin(request.transport)
            await stream.write(part)
            self._stalls.end(request.transport)
            if len(piece) > CHUNK:
                await turn()

    async def _stream(
        self, request: web.BaseRequest, answer: Stream, headers: dict[str, str], warnings: Sequence[str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**headers, "Content-Type": answer.content_type})
        _warn(response, warnings)
        response.enable_chunked_encoding()
        self._metrics.watches.inc()
        transport = request.transport
        try:
            await response.prepare(request)
            if transport is not None:
                answer.outlet.write = _straight(transport)
            async for piece in answer.pieces:
                await self._write(request, response, piece)
            await response.write_eof()
        finally:
            self._stalls.end(transport)
            self._metrics.watches.dec()
            await answer.pieces.aclose()  # type: ignore[attr-defined]
        return response

    async def _tunnel(self, request: web.BaseRequest, answer: Tunnel) -> web.StreamResponse:
        """Let the connection carry something else."""
        client = take_over(request)
        self._metrics.watches.inc()
        try:
            await client.write(answer.head)
            if answer.carry is not None:
                await answer.carry(client, client)
        finally:
            self._metrics.watches.dec()
            await answer.pieces.aclose()  # type: ignore[attr-defined]
        return Taken()


async def _body(request: web.BaseRequest, weigh: Callable[[int], Awaitable[None]]) -> bytes:
    """Read a request's body, once there is memory for what may become of it.

    Raises:
        StatusError: 413, 408, 429.
    """
    if not request.can_read_body:
        return b""
    too_large = errors.too_large(f"limit is {MAX_BODY}")
    if (request.content_length or 0) > MAX_BODY:
        await _drained(request)
        raise too_large
    # Its buffer becomes the value: a copy of three megabytes, in new memory, takes two milliseconds.
    body, size, weight = io.BytesIO(), 0, request.content_length or MAX_BODY
    if request.content_length and weight > LIGHT:
        await weigh(weight)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await _ask_for_it(request)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in _pieces(request):
                if size <= LIGHT < size + len(chunk) and not request.content_length:
                    await weigh(weight)
                size += body.write(chunk)
                if size > MAX_BODY:
                    await _drained(request)
                    raise too_large
    except web.RequestPayloadError:
        raise errors.bad_request("the request's body is malformed") from None
    except TimeoutError:
        raise errors.StatusError(408, "Timeout", "the request's body did not come") from None
    return body.getvalue()


async def _ask_for_it(request: web.BaseRequest) -> None:
    """Tell a client that waits with its body until it is wanted to send it (RFC 9110, 10.1.1)."""
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer has not begun


async def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Give what comes of a body; the more of it, the more others get their turn in between."""
    content, chunked, size, busy = request.content, not request.content_length, 0, 0.0
    while True:
        before = time.thread_time()
        chunk = await (_chunks_of(content) if chunked else content.readany())
        if not chunk:
            return
        spent = time.thread_time() - before
        yield chunk
        size += len(chunk)
        rest = len(chunk) / GENTLE_RATE if size > GENTLE_FROM else 0.0
        if chunked and size > LIGHT:
            rest = max(rest, min(MAX_REST_SECONDS, REST * spent))
        busy += spent
        if rest:
            await asyncio.sleep(rest)
        elif busy > TURN_SECONDS:
            await turn()
            busy = 0.0


async def _chunks_of(content: StreamReader) -> bytes:
    """Take what came in chunks, for a short while; nothing: that was all."""
    found, since = [], time.perf_counter()
    while True:
        data, ended = await content.readchunk()
        if data:
            found.append(data)
        if (data and time.perf_counter() - since > CHUNKS_SECONDS) or not (data or ended):
            return b"".join(found)


async def _drained(request: web.BaseRequest) -> None:
    """Read, without haste, what comes of a body that nobody wants: else the client could not read the answer."""
    with suppress(TimeoutError, web.RequestPayloadError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in _pieces(request):
                pass


def _straight(transport: asyncio.Transport) -> Callable[[bytes], bool]:
    """Return what writes one piece of a chunked answer to a connection that has room for it."""

    def write(piece: bytes) -> bool:
        if transport.get_write_buffer_size() > FULL or transport.is_closing():
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    return write


def _certificate(request: web.BaseRequest) -> bytes | None:
    transport = request.transport
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    found: bytes | None = tls.getpeercert(binary_form=True) if tls is not None else None
    return found


def _finish(response: web.StreamResponse, outgoing: Outgoing) -> None:
    _warn(response, outgoing.warnings)
    if outgoing.last:
        response.force_close()


def _warn(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    for each in warning_headers(warnings):
        response.headers.add("Warning", each)


def _packed(pieces: Sequence[bytes]) -> Sequence[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return [*(part for each in pieces if (part := packer.compress(each))), packer.flush()]


def _chunks(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """Join short pieces and cut long ones, so that each is about `CHUNK` long."""
    current = bytearray()
    for piece in pieces:
        for at in range(0, len(piece), CHUNK):
            current += piece[at : at + CHUNK] if len(piece) > CHUNK else piece
            if len(current) >= CHUNK:
                yield bytes(current)
                current = bytearray()
    if current:
        yield bytes(current)
