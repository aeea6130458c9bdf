"""Requests from the same process: the same way as through HTTP, without sockets; what `vcsync.kube.local` finds."""

import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import structlog
from multidict import CIMultiDict

from vcsync.controlplane import errors
from vcsync.controlplane.flow.budget import LIGHT
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.counting import Metrics, count
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.way import Incoming, Outgoing, Way
from vcsync.kube.local import Answer

MAX_BODY = 3 * 2**20
REMOTE = "127.0.0.1"
_log = structlog.get_logger()


class Inside:
    """A server for clients in its own process.

    Attributes:
        tls: what it shakes hands with, as the one that listens.
    """

    def __init__(self, way: Way, metrics: Metrics, tls: ssl.SSLContext | None) -> None:
        """Take the way of all requests, and where they are counted."""
        self.tls = tls
        self._way = way
        self._metrics = metrics

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        certificate: bytes | None,
    ) -> Answer:
        """Answer a request; see `vcsync.kube.local.Server`."""
        began = time.perf_counter()
        path, _, query = target.partition("?")

        async def read(weigh: Callable[[int], Awaitable[None]]) -> bytes:
            if body is None:
                return b""
            if len(body) > MAX_BODY:
                raise errors.too_large(f"limit is {MAX_BODY}")
            if len(body) > LIGHT:
                await weigh(len(body))
            return body

        incoming = Incoming(method, path, query, CIMultiDict(headers), certificate, read)
        incoming.audit_id, incoming.remote = auditing.audit_id(headers), REMOTE
        lasts = False
        try:
            outgoing = await self._way.go(incoming)
            count(self._metrics, incoming, outgoing)
            answer = outgoing.answer
            if isinstance(answer, Stream):
                lasts = True
                if incoming.seat is not None:
                    incoming.seat.leave()  # what lasts is counted otherwise
                return Answer(200, source=self._source(incoming, outgoing, answer))
            return await self._whole(incoming, outgoing, answer, began)
        except (ConnectionError, errors.StatusError):
            raise
        except Exception:  # noqa: BLE001 - a defect ends one request, not the client
            return self._defect(incoming, headers)
        finally:
            if incoming.seat is not None and not lasts:
                incoming.seat.end()

    async def _whole(self, incoming: Incoming, outgoing: Outgoing, answer: Reply, began: float) -> Answer:
        verb = _verb(outgoing)
        self._metrics.requests.labels(verb, str(answer.status)).inc()
        try:
            pieces = list(answer.body)
            if answer.rest is not None:
                pieces += [piece async for piece in answer.rest]
        except errors.StatusError as error:  # as through a connection that is cut: the answer cannot be ended
            raise ConnectionAbortedError("the answer cannot be ended") from error
        finally:
            self._complete(incoming)
        self._metrics.seconds.labels(verb).observe(time.perf_counter() - began)
        return Answer(answer.status, answer.headers, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _source(self, incoming: Incoming, outgoing: Outgoing, answer: Stream) -> "Lasting":
        self._metrics.requests.labels(_verb(outgoing), "200").inc()
        self._metrics.watches.inc()
        auditor = self._way.auditor
        if auditor is not None and incoming.audit.level and auditing.lasting(outgoing.info):
            auditor.started(incoming.audit)

        def over() -> None:
            self._metrics.watches.dec()
            self._complete(incoming)
            if incoming.seat is not None:
                incoming.seat.end()

        return Lasting(answer.pieces, over)

    def _defect(self, incoming: Incoming, headers: Mapping[str, str]) -> Answer:
        self._metrics.defects.inc()
        known = uuid.uuid4().hex[:12]
        _log.exception("request failed", id=known, method=incoming.method, path=incoming.path)
        told = f"unexpected error, id {known}"
        if self._way.auditor is not None:
            self._way.auditor.panicked(incoming.audit, told)
            self._complete(incoming)
        refused = self._way.refused(errors.internal(told), headers.get("Accept", ""))
        return Answer(refused.status, refused.headers, b"".join(refused.body))

    def _complete(self, incoming: Incoming) -> None:
        if self._way.auditor is not None and incoming.audit.level:
            self._way.auditor.complete(incoming.audit)


class Lasting:
    """What a watch gives, piece by piece."""

    def __init__(self, pieces: AsyncIterator[bytes], over: Callable[[], None]) -> None:
        """Take the pieces, and what is to be told once of their end."""
        self._pieces = pieces
        self._over: Callable[[], None] | None = over

    async def read(self) -> bytes:
        """Return the next piece, empty at the end.

        Raises:
            ConnectionAbortedError: a defect ended it.
        """
        try:
            return await anext(self._pieces, b"")
        except Exception as error:
            _log.exception("watch cut off")
            raise ConnectionAbortedError("the watch was cut off") from error

    async def close(self) -> None:
        """End it."""
        if self._over is not None:
            over, self._over = self._over, None
            try:
                await self._pieces.aclose()  # type: ignore[attr-defined]
            finally:
                over()


def _verb(outgoing: Outgoing) -> str:
    return outgoing.info.verb if outgoing.info and outgoing.info.resource_request else "path"
