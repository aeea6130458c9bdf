"""Answers AdmissionReviews of external control planes over HTTP: authenticates the caller, limits it, and asks its session."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from vcsync.api import names
from vcsync.podscheduler.admission_reviews import BadReview, answer, read_review
from vcsync.podscheduler.webhook_callers import Caller, Callers
from vcsync.process.listener import Listener, source_of
from vcsync.process.open_files import share_of_files
from vcsync.streams.budget import ConnectionBudget
from vcsync.streams.connections import Server
from vcsync.tenancy.rounds import Rounds

ANSWER_SECONDS = 0.05
"""Seconds from the end of a request to the decision, after which the Pod is created without a super cluster."""
BODY_SECONDS = 0.8
"""Timeout for the body of a request. The control plane itself waits for one second."""
MAX_BODY = 256 * 1024
"""Largest body in bytes. Kubernetes stores larger Pods, which are placed when they are seen."""
MAX_CALLS = 512
"""Calls of all tenants whose bodies are read at the same time, into 128 MiB at most. No tenant has more of them than remain
free..."""
MOST_CALLS = 128
"""...or than this. A kube-apiserver sends each call when it has to, and changes at most 200 objects at a time by default."""
CALLS_AT_ONCE = 1000
"""Calls of one tenant that are answered without a pause..."""
CALLS_PER_SECOND = 100.0
"""...and in each second after that. Pods beyond are created without a super cluster, and placed when they are seen."""
NOBODY = ""
"""Stands for all callers of a process that does not lead, which knows none of them."""
MAX_CONNECTIONS = 2000
MAX_HANDSHAKES = 200
MAX_LINE_BYTES = 1024
MAX_FIELD_BYTES = 4096
STOP_SECONDS = 1.0
"""Seconds that calls get to end."""
LEADER_PATH = "/leader"
"""Answers 200 if this process leads, and 503 if not, for load balancers."""
_SILENT = logging.Logger("placement-webhook")
"""aiohttp logs a malformed request with a traceback. Anybody who reaches the port could fill the log with them."""
_SILENT.addHandler(logging.NullHandler())
_log = structlog.get_logger(__name__)


class WebhookServer:
    """The server of the placement webhook.

    A process that does not lead allows every Pod, places none, and closes the connection: control planes keep connections for
    as long as they are used, also those to a leader that has been replaced.

    Args:
        callers: returns the tenants that may ask; None: this process does not lead.
        clock: monotonic seconds.
    """

    def __init__(self, callers: Callable[[], Callers | None], clock: Callable[[], float]) -> None:
        self._callers = callers
        self._clock = clock
        self._calls = ConnectionBudget(MAX_CALLS, MOST_CALLS)
        self._rounds = Rounds(CALLS_AT_ONCE, CALLS_PER_SECOND)
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        """Start to serve.

        Raises:
            OSError: the address cannot be used.
        """
        budget = ConnectionBudget(share_of_files(0.5, MAX_CONNECTIONS))
        server = Server(
            lambda transport: source_of(transport.get_extra_info("peername")),
            budget,
            self._handle,
            access_log=None,
            logger=_SILENT,
            handler_cancellation=True,
            auto_decompress=False,
            lingering_time=0,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await self._runner.setup()
        try:
            await Listener(self._runner, host, port, tls, handshakes=MAX_HANDSHAKES).start()
        except BaseException:
            await self.stop()
            raise
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Exception:  # noqa: BLE001 - the last resort: it is logged as a defect
            _log.exception("a call of the placement webhook failed")
            return _refusal(500, "Internal Server Error")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, callers = request.rel_url.raw_path, self._callers()
        if path == LEADER_PATH:
            return _refusal(200, "leads") if callers is not None else _refusal(503, "does not lead")
        token = path.removeprefix(names.PLACEMENT_PATH)
        if token == path or request.method != "POST":
            return _refusal(404, "404 page not found")
        if callers is None:
            with self._calling(NOBODY) as may:
                return await self._unplaced(request) if may else _refusal(429, "too many calls")
        caller = callers.find(token)
        if caller is None:
            callers.counts["refused"] += 1
            return _refusal(404, "404 page not found")
        with self._calling(caller.tenant) as may:
            if not may or self._rounds.take(caller.tenant, self._clock()) > 0:
                callers.counts["limited"] += 1
                return _refusal(429, "too many calls of this control plane")
            return await self._of_caller(request, callers, caller)

    @contextmanager
    def _calling(self, tenant: str) -> Iterator[bool]:
        """Count a call while it is answered. Yield whether the tenant may have one more."""
        may = self._calls.take(tenant)
        try:
            yield may
        finally:
            if may:
                self._calls.give_back(tenant)

    async def _unplaced(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            asked = read_review(await _body(request))
        except _Refused as refused:
            return refused.response
        except BadReview as error:
            return _refusal(400, str(error))
        allowed = _sent(answer(asked.uid))
        allowed.force_close()  # a control plane would go on asking here, while its next connection may lead to the leader
        return allowed

    async def _of_caller(
        self, request: web.BaseRequest, callers: Callers, caller: Caller
    ) -> web.StreamResponse:
        counts = callers.counts
        try:
            body = await _body(request)
            until = self._clock() + ANSWER_SECONDS
            asked = read_review(body)
        except _Refused as refused:
            counts["refused"] += 1
            return refused.response
        except BadReview as error:
            counts["refused"] += 1
            return _refusal(400, str(error))
        pod = asked.pod
        if pod is None or self._clock() > until:
            return _sent(answer(asked.uid))
        promise, repeated = caller.replays.answer(asked.uid, lambda: caller.ask(pod))
        gone = request.transport is None or request.transport.is_closing()
        if gone or self._clock() > until:
            # Nobody waits for the answer any more. One that was given before may have arrived.
            if not repeated:
                caller.replays.withdraw(asked.uid)
            counts["late"] += 1
            return _sent(answer(asked.uid))
        super_id = "" if promise is None else promise.super_id
        counts["repeated" if repeated else "placed" if super_id else "left"] += 1
        return _sent(answer(asked.uid, super_id, pod.marked, keeps_name=pod.keeps_name))


class _Refused(Exception):
    """A body is not read to its end."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.response = _refusal(status, text)


async def _body(request: web.BaseRequest) -> bytes:
    """Read a body.

    Raises:
        _Refused: it is too large, or slow.
    """
    if (request.content_length or 0) > MAX_BODY:
        raise _Refused(413, f"the review has more than {MAX_BODY} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > MAX_BODY:
                    raise _Refused(413, f"the review has more than {MAX_BODY} bytes")
    except TimeoutError:
        raise _Refused(408, f"the review did not arrive within {BODY_SECONDS:g} s") from None
    except (ClientError, HttpProcessingError, OSError):
        raise _Refused(400, "the body is malformed, or was cut off") from None
    return bytes(body)


def _sent(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _refusal(status: int, text: str) -> web.Response:
    response = web.Response(status=status, text=f"{text}\n", content_type="text/plain")
    if status >= 400:
        response.force_close()  # the rest of the body is not read
    return response
