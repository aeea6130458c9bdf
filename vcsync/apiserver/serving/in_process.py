"""Serves clients in the same process: their requests pass the same filter chain, without sockets.

`vcsync.kube.local` finds this server by its URL.
"""

import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import structlog
from multidict import CIMultiDict

from vcsync.apimachinery import errors
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.filters.chain import FilterChain
from vcsync.apiserver.flow.memory_budget import LIGHT
from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.serving.request_counts import RequestMetrics, count_request
from vcsync.kube.local import Answer

MAX_BODY_BYTES = 3 * 2**20
"""Largest body of a request, as with kube-apiserver."""
REMOTE = "127.0.0.1"
"""Address of the client in the audit log."""
_log = structlog.get_logger()


class InProcessServer:
    """Answers requests of clients in its own process.

    Args:
        chain: The filter chain.
        metrics: Counts the requests.
        tls: TLS settings of the server that listens, or None if it speaks plain HTTP.

    Attributes:
        tls: The same settings; clients verify them in place of a handshake.
    """

    def __init__(self, chain: FilterChain, metrics: RequestMetrics, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self._chain = chain
        self._metrics = metrics

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        certificate: bytes | None,
    ) -> Answer:
        """Answer a request; see `vcsync.kube.local.Server`.

        Raises:
            ConnectionAbortedError: The answer cannot be completed.
        """
        started = time.perf_counter()
        path, _, query = target.partition("?")

        async def read(weigh: Callable[[int], Awaitable[None]]) -> bytes:
            if body is None:
                return b""
            if len(body) > MAX_BODY_BYTES:
                raise errors.too_large(f"limit is {MAX_BODY_BYTES}")
            if len(body) > LIGHT:
                await weigh(len(body))
            return body

        incoming = Incoming(method, path, query, CIMultiDict(headers), certificate, read)
        incoming.audit_id, incoming.remote, incoming.local = request_log.audit_id(headers), REMOTE, True
        streaming = False
        try:
            outgoing = await self._chain.handle(incoming)
            count_request(self._metrics, incoming, outgoing)
            answer = outgoing.answer
            if isinstance(answer, Stream):
                streaming = True
                if incoming.seat is not None:
                    incoming.seat.leave()  # open watches have a limit of their own
                return Answer(200, source=self._open(incoming, outgoing, answer))
            return await self._whole(incoming, outgoing, answer, started)
        except (ConnectionError, errors.StatusError):
            raise
        except Exception:  # noqa: BLE001 - a defect ends one request, not the client
            return self._internal_error(incoming, headers)
        finally:
            if incoming.seat is not None and not streaming:
                incoming.seat.end()

    async def _whole(self, incoming: Incoming, outgoing: Outgoing, answer: Reply, started: float) -> Answer:
        verb = outgoing.metrics_verb
        self._metrics.requests.labels(verb, str(answer.status)).inc()
        try:
            pieces = list(answer.body)
            if answer.rest is not None:
                pieces += [piece async for piece in answer.rest]
        except errors.StatusError as error:
            # A remote client would see its connection cut: the status line is already out.
            raise ConnectionAbortedError("the answer cannot be completed") from error
        finally:
            if answer.rest is not None:
                await answer.rest.aclose()  # type: ignore[attr-defined]
            self._complete(incoming)
        self._metrics.seconds.labels(verb).observe(time.perf_counter() - started)
        return Answer(answer.status, answer.headers, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _open(self, incoming: Incoming, outgoing: Outgoing, answer: Stream) -> "StreamSource":
        self._metrics.requests.labels(outgoing.metrics_verb, "200").inc()
        self._metrics.long_running.inc()
        auditor = self._chain.auditor
        if auditor is not None and incoming.audit.level and request_log.is_long_running(outgoing.info):
            auditor.started(incoming.audit)

        def on_end() -> None:
            self._metrics.long_running.dec()
            self._complete(incoming)
            if incoming.seat is not None:
                incoming.seat.end()

        return StreamSource(answer.pieces, on_end)

    def _internal_error(self, incoming: Incoming, headers: Mapping[str, str]) -> Answer:
        """Log an unexpected error, and answer with an id that finds it in the log."""
        self._metrics.defects.inc()
        error_id = uuid.uuid4().hex[:12]
        _log.exception("request failed", id=error_id, method=incoming.method, path=incoming.path)
        message = f"unexpected error, id {error_id}"
        if self._chain.auditor is not None:
            self._chain.auditor.panicked(incoming.audit, message)
            self._complete(incoming)
        reply = self._chain.refusals.encoded(errors.internal(message), headers.get("Accept", ""))
        return Answer(reply.status, reply.headers, b"".join(reply.body))

    def _complete(self, incoming: Incoming) -> None:
        if self._chain.auditor is not None and incoming.audit.level:
            self._chain.auditor.complete(incoming.audit)


class StreamSource:
    """The pieces of a stream, which the client reads one by one.

    Args:
        pieces: The pieces.
        on_end: Called once when the client closes the stream.
    """

    def __init__(self, pieces: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        self._pieces = pieces
        self._on_end: Callable[[], None] | None = on_end

    async def read(self) -> bytes:
        """Return the next piece, or nothing at the end.

        Raises:
            ConnectionAbortedError: An unexpected error ended the stream.
        """
        try:
            return await anext(self._pieces, b"")
        except Exception as error:
            _log.exception("watch cut off")
            raise ConnectionAbortedError("the watch was cut off") from error

    async def close(self) -> None:
        """Close the stream. A second call does nothing."""
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            try:
                await self._pieces.aclose()  # type: ignore[attr-defined]
            finally:
                on_end()
