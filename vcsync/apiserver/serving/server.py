"""The HTTP server: passes requests to the filter chain, and sends the answers."""

import asyncio
import logging
import ssl
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import structlog
from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError

from vcsync.apimachinery import errors
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.audit.service import AuditLog
from vcsync.apiserver.filters.chain import FilterChain
from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.metering.counters import milliseconds
from vcsync.apiserver.request.reply import Reply, Stream, Tunnel
from vcsync.apiserver.request.request_info import MAX_LINE
from vcsync.apiserver.serving.connections import Connections, WriteDeadlines
from vcsync.apiserver.serving.http_protocol import delay_refusal, delimit
from vcsync.apiserver.serving.in_process import InProcessServer
from vcsync.apiserver.serving.limits import Limits
from vcsync.apiserver.serving.metered import MeteredConnection, count_usage
from vcsync.apiserver.serving.request_bodies import read_body, stream_body
from vcsync.apiserver.serving.request_counts import RequestMetrics, count_request
from vcsync.apiserver.serving.server_names import server_name
from vcsync.apiserver.serving.warning_headers import warning_headers
from vcsync.kube.upgraded_connection import HijackedResponse, take_over
from vcsync.process.http_connection import MAX_FIELDS
from vcsync.process.listener import ConnectionRate, Listener
from vcsync.process.loop_turns import turn
from vcsync.process.marks import marked
from vcsync.streams.duplex import Duplex

GZIP_BYTES = 128 * 1024
"""Size from which on answers are compressed, as with kube-apiserver."""
CHUNK_BYTES = 64 * 1024
"""Size of the pieces in which answers are sent."""
UNSENT_BYTES = 64 * 1024
"""Unsent bytes of a connection beyond which pieces of a stream wait for room."""
READ_BUFFER_BYTES = 8 * 1024
"""Bytes of a body to buffer before a handler asks for them. aiohttp buffers up to twice as many."""
KEEPALIVE_SECONDS = 120.0
"""Time for which an idle connection is kept."""
STOP_SECONDS = 5.0
"""Time for requests to finish when the server stops."""
LINGER_SECONDS = 1.0
"""Time for which the rest of a body is read after the answer."""
_log = structlog.get_logger()

vars(web_response)["SERVER_SOFTWARE"] = "vcsync"  # the Server header reveals no versions


class _ServerErrors(logging.Filter):
    """Drops log records of errors that clients cause: a client could fill the disk with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_ServerErrors())


class Server:
    """Listens for connections, and passes their requests to the filter chain.

    Args:
        chain: The filter chain.
        metrics: Counts the requests.
        limits: Limits of connections.

    Attributes:
        chain: The filter chain.
        port: Port on which the server listens, once it has started.
    """

    def __init__(self, chain: FilterChain, metrics: RequestMetrics, limits: Limits) -> None:
        self._limits = limits
        self._deadlines = WriteDeadlines()
        self._sweeper: asyncio.Task[None] | None = None
        self._metrics = metrics
        self._runner: web.ServerRunner | None = None
        self._server: Connections | None = None
        self.chain = chain
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Start to listen. `port` 0: any free port.

        Raises:
            OSError: The address cannot be bound.
        """
        server = Connections(
            self._handle,
            limit=self._limits.connections,
            access_log=None,
            logger=_http_log,
            # kube-apiserver does not decompress bodies, and a small body could expand to any size.
            auto_decompress=False,
            handler_cancellation=True,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=MAX_LINE,
            max_field_size=16384,
            max_headers=MAX_FIELDS,  # their bytes are the limit
        )
        self._server = server
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await self._runner.setup()
        rate = ConnectionRate(self._limits.connection_rate)
        await Listener(self._runner, host, port, tls, rate=rate).start()
        self._sweeper = asyncio.create_task(self._deadlines.run(), name="write-deadlines")
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Let running requests finish, then close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        raw_path, _, query = request.raw_path.partition("?")

        async def body(weigh: Callable[[int], Awaitable[None]]) -> bytes:
            return await read_body(request, weigh)

        def pieces() -> AsyncIterator[bytes]:
            return stream_body(request)

        tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        incoming = Incoming(request.method, raw_path, query, request.headers, _certificate(tls), body, pieces)
        incoming.server_name = server_name(tls)
        incoming.audit_id, incoming.remote = request_log.audit_id(request.headers), request.remote or ""
        incoming.abort = request.transport.abort if request.transport is not None else None
        try:
            outgoing = await self.chain.handle(incoming)
            count_request(self._metrics, incoming, outgoing)
            count_usage(incoming, outgoing)
            outgoing.retry_after = incoming.retry_after
            outgoing.last = not self._keeps(request, incoming.tenant)
            if incoming.seat is not None and isinstance(outgoing.answer, Stream):
                incoming.seat.leave()  # open watches have a limit of their own
            sent = self._send_audited(request, incoming, outgoing, started)
            return await marked("answer", incoming.blamed, sent, incoming.method, incoming.path)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 - a defect ends one request, not the server
            self._metrics.defects.inc()
            error_id = uuid.uuid4().hex[:12]
            _log.exception("request failed", id=error_id, method=request.method, path=raw_path)
            error = errors.internal(f"unexpected error, id {error_id}")
            reply = self.chain.refusals.encoded(error, request.headers.get("Accept", ""))
            if self.chain.auditor is not None:
                self.chain.auditor.panicked(incoming.audit, f"unexpected error, id {error_id}")
            return await self._send(request, Outgoing(reply, [], audit_id=incoming.audit_id), started)
        finally:
            received = request.content.total_bytes
            incoming.usage.bytes_in += received
            if incoming.passage is not None:
                incoming.passage.spend(received)
                incoming.passage.end()
            if incoming.seat is not None:
                incoming.seat.end()
            if incoming.long_running is not None:
                incoming.long_running.end()

    def _keeps(self, request: web.BaseRequest, tenant: str) -> bool:
        """Return whether a connection may be kept for the next request; see `Connections.keeps`."""
        return not tenant or self._server is None or self._server.keeps(request.protocol, tenant)

    def in_process(self, tls: ssl.SSLContext | None) -> InProcessServer:
        """Return the server for clients in this process."""
        return InProcessServer(self.chain, self._metrics, tls)

    def attach_audit_log(self, log: AuditLog) -> None:
        """Record all requests in an audit log."""
        self.chain.auditor = log.auditor
        log.register(self._metrics.registry)

    async def _send_audited(
        self, request: web.BaseRequest, incoming: Incoming, outgoing: Outgoing, started: float
    ) -> web.StreamResponse:
        """Send an answer, and complete its audit trail once it is sent or cut off."""
        outgoing.audit_id = incoming.audit_id
        auditor = self.chain.auditor
        if auditor is None or not incoming.audit.level:
            return await self._send(request, outgoing, started)
        if request_log.is_long_running(outgoing.info):
            auditor.started(incoming.audit)
        try:
            return await self._send(request, outgoing, started)
        finally:
            auditor.complete(incoming.audit)

    async def _send(self, request: web.BaseRequest, outgoing: Outgoing, started: float) -> web.StreamResponse:
        verb = outgoing.metrics_verb
        answer = outgoing.answer
        headers = {
            request_log.HEADER: outgoing.audit_id,
            "Cache-Control": "no-cache, private",
            **outgoing.headers,
        }
        if isinstance(answer, Tunnel):
            self._metrics.requests.labels(verb, "101").inc()
            return await self._send_tunnel(request, answer, outgoing)
        if isinstance(answer, Stream):
            self._metrics.requests.labels(verb, "200").inc()
            return await self._send_stream(request, answer, headers, outgoing)
        headers.update(answer.headers)
        self._metrics.requests.labels(verb, str(answer.status)).inc()
        if outgoing.retry_after:
            await delay_refusal(request, outgoing.retry_after)
        transport = request.transport
        self._deadlines.start(transport)
        try:
            response = await self._send_reply(request, answer, headers, outgoing)
        finally:
            self._deadlines.stop(transport)
        self._metrics.seconds.labels(verb).observe(time.perf_counter() - started)
        return response

    async def _send_reply(
        self, request: web.BaseRequest, answer: Reply, headers: dict[str, str], outgoing: Outgoing
    ) -> web.StreamResponse:
        size = sum(map(len, answer.body))
        compress = not answer.verbatim and (
            (size > GZIP_BYTES or answer.rest is not None)
            and "Content-Encoding" not in headers
            and "gzip" in request.headers.get("Accept-Encoding", "")
        )
        if answer.content_type:
            headers["Content-Type"] = answer.content_type
        if compress:
            headers["Content-Encoding"] = "gzip"
            headers["Vary"] = "Accept-Encoding"
        if answer.rest is not None:
            stream = web.StreamResponse(status=answer.status, headers=headers)
            _finish(stream, outgoing)
            return await self._send_rest(request, stream, answer.rest, outgoing, compress=compress)
        if size <= CHUNK_BYTES:
            response = web.Response(status=answer.status, body=b"".join(answer.body), headers=headers)
            _finish(response, outgoing)
            await response.prepare(request)
            await response.write_eof()
            _count_sent(outgoing, size)
            return response
        stream = web.StreamResponse(status=answer.status, headers=headers)
        _finish(stream, outgoing)
        if compress:
            body: Sequence[bytes] = await asyncio.to_thread(_compressed, answer.body)
        else:
            body = answer.body
        stream.content_length = sum(map(len, body))
        await stream.prepare(request)
        for chunk in _chunks(body):
            self._deadlines.start(request.transport)
            await stream.write(chunk)
            _count_sent(outgoing, len(chunk))
            await turn()
        await stream.write_eof()
        return stream

    async def _send_rest(
        self,
        request: web.BaseRequest,
        stream: web.StreamResponse,
        pieces: AsyncIterator[bytes],
        outgoing: Outgoing,
        *,
        compress: bool,
    ) -> web.StreamResponse:
        """Send an answer that is produced while it is sent. Abort the connection if an error ends it early."""
        compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS) if compress else None
        delimit(request, stream)
        try:
            await stream.prepare(request)
            async for piece in pieces:
                data = await asyncio.to_thread(compressor.compress, piece) if compressor else piece
                if data:
                    await self._write(request, stream, data, outgoing)
            if compressor:
                await self._write(request, stream, compressor.flush(), outgoing)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            if not isinstance(error, errors.StatusError):
                self._metrics.defects.inc()
                _log.exception("answer cut off", path=request.path)
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionAbortedError("the answer cannot be completed") from error
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        await stream.write_eof()
        return stream

    async def _write(
        self, request: web.BaseRequest, stream: web.StreamResponse, piece: bytes, outgoing: Outgoing
    ) -> None:
        """Write a piece in parts. Each part waits until the client has read the previous one, and for the limit of bytes."""
        for part in (piece,) if len(piece) <= CHUNK_BYTES else _chunks((piece,)):
            self._deadlines.start(request.transport)
            await stream.write(part)
            self._deadlines.stop(request.transport)
            _count_sent(outgoing, len(part))
            if outgoing.passage is not None:
                await outgoing.passage.pace()
            if len(piece) > CHUNK_BYTES:
                await turn()

    async def _send_stream(
        self, request: web.BaseRequest, answer: Stream, headers: dict[str, str], outgoing: Outgoing
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={**headers, "Content-Type": answer.content_type, **answer.headers}
        )
        _add_warnings(response, outgoing.warnings)
        delimit(request, response)
        self._metrics.long_running.inc()
        usage, watches = outgoing.usage, outgoing.metrics_verb == "watch"
        if watches:
            usage.watch_opened(milliseconds())
        transport = request.transport
        try:
            await response.prepare(request)
            if transport is not None:
                answer.outlet.write = _direct_write(transport, outgoing)
            async for piece in answer.pieces:
                await self._write(request, response, piece, outgoing)
            await response.write_eof()
        finally:
            if watches:
                usage.watch_closed(milliseconds())
            self._deadlines.stop(transport)
            self._metrics.long_running.dec()
            await answer.pieces.aclose()  # type: ignore[attr-defined]
        return response

    async def _send_tunnel(
        self, request: web.BaseRequest, answer: Tunnel, outgoing: Outgoing
    ) -> web.StreamResponse:
        """Hand the connection over to another protocol."""
        connection: Duplex = take_over(request)
        usage, watches = outgoing.usage, outgoing.metrics_verb == "watch"
        if watches:
            usage.watch_opened(milliseconds())
            connection = self._deadlines.guarded(connection, request.transport)
        client = MeteredConnection(connection, usage, outgoing.passage)
        self._metrics.long_running.inc()
        try:
            await client.write(answer.head)
            if answer.carry is not None:
                await answer.carry(client, client)
        finally:
            if watches:
                usage.watch_closed(milliseconds())
            self._metrics.long_running.dec()
            await answer.pieces.aclose()  # type: ignore[attr-defined]
        return HijackedResponse()


def _count_sent(outgoing: Outgoing, size: int) -> None:
    outgoing.usage.bytes_out += size
    if outgoing.passage is not None:
        outgoing.passage.spend(size)


def _direct_write(transport: asyncio.Transport, outgoing: Outgoing) -> Callable[[bytes], bool]:
    """Return a function that writes a piece of a chunked answer, unless the connection or a limit has no room for it."""
    usage, passage = outgoing.usage, outgoing.passage

    def write(piece: bytes) -> bool:
        if transport.get_write_buffer_size() > UNSENT_BYTES or transport.is_closing():
            return False
        if passage is not None:
            if passage.debt:
                return False
            passage.spend(len(piece))
        transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        usage.bytes_out += len(piece)
        return True

    return write


def _certificate(tls: ssl.SSLObject | None) -> bytes | None:
    return tls.getpeercert(binary_form=True) if tls is not None else None


def _finish(response: web.StreamResponse, outgoing: Outgoing) -> None:
    _add_warnings(response, outgoing.warnings)
    if outgoing.last:
        response.force_close()


def _add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    for each in warning_headers(warnings):
        response.headers.add("Warning", each)


def _compressed(pieces: Sequence[bytes]) -> Sequence[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return [*(part for each in pieces if (part := compressor.compress(each))), compressor.flush()]


def _chunks(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """Join short pieces and split long ones, so that each is about `CHUNK_BYTES` long."""
    current = bytearray()
    for piece in pieces:
        for at in range(0, len(piece), CHUNK_BYTES):
            current += piece[at : at + CHUNK_BYTES] if len(piece) > CHUNK_BYTES else piece
            if len(current) >= CHUNK_BYTES:
                yield bytes(current)
                current = bytearray()
    if current:
        yield bytes(current)
