"""The transport to one API server: sessions, credentials, limits, retries and circuit breaker.

Failures are raised as `vcsync.kube.errors`. The transport uses HTTP, or calls the server directly if it runs in this process
(`local`).
"""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout
from yarl import URL

from vcsync.kube import local
from vcsync.kube.breaker import Breaker, BreakerState, RetryBudget, backoff
from vcsync.kube.connection import Connection, Credentials
from vcsync.kube.connector import Connector
from vcsync.kube.errors import (
    ApiError,
    CircuitOpen,
    KubeError,
    ServerError,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    api_error,
)
from vcsync.kube.stream_limiter import StreamLimiter

_CONNECT_TIMEOUT = 10.0
"""Seconds for the TCP connection and the TLS handshake."""
_LONGEST_ANSWER = 1024 * 1024 * 1024
"""Most bytes of a response, as a limit for hostile servers."""
_LONGEST_ERROR = 64 * 1024
"""Most bytes of an error response that are read."""
_RETRIES = 3
"""Most retries of a call."""
_LONGEST_WAIT = 10.0
"""Longest Retry-After in seconds that the client waits for. With a longer one, the call fails."""
_BUFFER = 128 * 1024
"""Bytes that a connection reads ahead."""


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """Counters of a client and the state of its endpoint. Times are seconds since 1970.

    Attributes:
        requests: Number of attempts by (verb, `2xx` ... `5xx`, or `error` if there was no answer).
        retries: Number of attempts beyond the first of each call.
        watches: Number of open streams.
        breaker: State of the circuit breaker.
        last_error: Text of the last error.
        last_error_at: Time of the last error.
        last_success_at: Time of the last answer below 500.
    """

    requests: dict[tuple[str, str], int]
    retries: int
    watches: int
    breaker: BreakerState
    last_error: str | None
    last_error_at: float | None
    last_success_at: float | None


@dataclass(slots=True)
class _Counters:
    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    retries: int = 0
    watches: int = 0
    last_error: str | None = None
    last_error_at: float | None = None
    last_success_at: float | None = None

    def count(self, verb: str, outcome: str) -> None:
        key = (verb, outcome)
        self.requests[key] = self.requests.get(key, 0) + 1

    def answered(self, verb: str, status: int) -> None:
        self.count(verb, f"{status // 100}xx")
        if status < 500:
            self.last_success_at = time.time()

    def failed(self, error: KubeError) -> None:
        self.last_error = str(error)
        self.last_error_at = time.time()


class RateLimiter:
    """Limits the rate of calls, with bursts of up to one second (generic cell rate algorithm). Pure.

    Args:
        per_second: Calls per second.
    """

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._burst = max(1.0 - self._interval, 0.0)
        self._ideal = 0.0

    def delay(self, now: float) -> float:
        """Count one call at `now` (seconds). Return the seconds that the call must wait."""
        ideal = max(self._ideal, now)
        self._ideal = ideal + self._interval
        return max(ideal - self._burst - now, 0.0)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Its `str` is for messages.

    Attributes:
        method: The HTTP method.
        target: Quoted path and query.
        limits: Timeouts.
        body: The body; None for none.
        content_type: Media type of the body.
        stream: Whether it is a watch, whose answer has no end.
        accept: Media type of the answer; empty for JSON.
    """

    method: str
    target: str
    limits: ClientTimeout
    body: bytes | None = field(default=None, repr=False)
    content_type: str = ""
    stream: bool = False
    accept: str = ""

    @property
    def verb(self) -> str:
        """The method, or WATCH."""
        return "WATCH" if self.stream else self.method

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class Stream:
    """The answer to a watch: an endless stream of bytes. It must be closed."""

    def __init__(self, transport: "Transport", request: Request, source: local.Source) -> None:
        self._transport = transport
        self._request = request
        self._source = source
        transport.counters.watches += 1

    async def read(self) -> bytes:
        """Return the next bytes; empty if the server has ended the stream.

        Raises:
            Timeout: No byte arrived for too long.
            Unreachable: The connection broke.
        """
        try:
            return await self._source.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._transport.lost(self._request, error) from error

    async def close(self) -> None:
        """Close the stream."""
        self._transport.counters.watches -= 1
        await self._source.close()


class _Sent:
    """The body of an HTTP response as a `local.Source`."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response

    async def read(self) -> bytes:
        return await self._response.content.readany()

    async def close(self) -> None:
        self._response.close()


class Transport:
    """The transport to one API server, shared by all clients of that server.

    Args:
        connection: Address and credentials.
        name: Name of the endpoint in errors.
        user_agent: The User-Agent header.
        timeout: Seconds one attempt of a call may take.
        qps: Calls per second at most; None for no limit.
        max_connections: Connections for calls; streams have their own, without a limit.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        user_agent: str,
        timeout: float,
        qps: float | None,
        max_connections: int,
    ) -> None:
        self.name = name
        self.connection = connection
        self.counters = _Counters()
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._limits = ClientTimeout(total=timeout, sock_connect=_CONNECT_TIMEOUT)
        self._max_connections = max_connections
        # Limits calls to a server in this process. Other calls are limited by their connections.
        self._calls = asyncio.Semaphore(max_connections)
        self._local = local.LocalClient()
        self._rate_limiter = None if qps is None else RateLimiter(qps)
        self._sessions: dict[bool, ClientSession] = {}
        self._limiter = StreamLimiter()
        self._budget = RetryBudget()
        self._breaker = Breaker(on_state=self._state_changed)
        self._on_state: list[Callable[[BreakerState], None]] = []
        self._on_unauthorized: list[Callable[[], None]] = []
        self._closed = False

    async def close(self) -> None:
        """Close all connections. Calls in progress fail, and later calls raise RuntimeError."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        await asyncio.sleep(0)  # the event loop closes the transports in its next iteration

    def on_state(self, callback: Callable[[BreakerState], None]) -> None:
        """Register a callback for each new state of the circuit breaker. It must be quick."""
        self._on_state.append(callback)

    def on_unauthorized(self, callback: Callable[[], None]) -> None:
        """Register a callback for requests that are finally refused with 401 Unauthorized. It must be quick."""
        self._on_unauthorized.append(callback)

    def statistics(self) -> ClientStatistics:
        """Return the counters and the state."""
        counters = self.counters
        return ClientStatistics(
            dict(counters.requests),
            counters.retries,
            counters.watches,
            self._breaker.state,
            counters.last_error,
            counters.last_error_at,
            counters.last_success_at,
        )

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - aiohttp's own timer is cheaper
    ) -> bytes:
        """Make one call, with retries if they are safe, and return the answer's body.

        Args:
            method: The HTTP verb, in capitals.
            target: Quoted path and query.
            body: The body; None for none.
            content_type: Media type of the body.
            accept: Media type of the answer; empty for JSON.
            timeout: Seconds for each attempt; that of the client by default.
        """
        limits = self._limits if timeout is None else _limits(total=timeout)
        request = Request(method, target, limits, body, content_type, accept=accept)
        self._budget.call()
        if self._rate_limiter is not None and (delay := self._rate_limiter.delay(time.monotonic())) > 0:
            await asyncio.sleep(delay)
        credentials = self.connection.current() or await self._credentials()
        for attempt in range(_RETRIES):
            try:
                return await self._attempt(request, credentials)
            except Unauthorized:
                # The request had no effect, and the token may have been rotated: retry once with the current one.
                fresh = await self._credentials(refused=credentials)
                if attempt or fresh == credentials:
                    self._unauthorized()
                    raise
                credentials = fresh
            except KubeError as error:
                pause = retry_pause(request, error, attempt, random.random())  # noqa: S311
                if pause is None or not self._budget.take(time.monotonic()):
                    raise
                await asyncio.sleep(pause)
                credentials = self.connection.current() or await self._credentials()
            self.counters.retries += 1
        return await self._attempt(request, credentials)

    async def open_stream(self, target: str, *, silence: float, accept: str = "") -> Stream:
        """Open a long-lived GET.

        Args:
            target: Quoted path and query.
            silence: Seconds without a byte after which reading fails with Timeout.
            accept: Media type of the answer; empty for JSON.
        """
        request = Request("GET", target, _limits(silence=silence), stream=True, accept=accept)
        credentials = self.connection.current() or await self._credentials()
        try:
            return await self._open(request, credentials)
        except Unauthorized:
            fresh = await self._credentials(refused=credentials)
            if fresh == credentials:
                self._unauthorized()
                raise
            return await self._open(request, fresh)

    async def _attempt(self, request: Request, credentials: Credentials) -> bytes:
        wait = self._breaker.admit(time.monotonic())
        if wait:
            raise CircuitOpen(
                f"{request}: not sent, because the endpoint keeps failing; next attempt in {wait:.1f} s",
                endpoint=self.name,
                retry_after=wait,
            )
        try:
            if self._local.reaches(credentials):
                async with self._calls, asyncio.timeout(request.limits.total):
                    reply = await self._send_locally(request, credentials)
                    answer = reply.body if reply.source is None else await _drained(reply.source)
                status = reply.status
                if status >= 300:
                    self._breaker.succeeded()
                    raise self._refused(request, status, answer, reply.headers.get("Retry-After"))
            else:
                response = await self._send(request, credentials)
                status = response.status
                try:
                    if status >= 300:
                        refusal = await self._refusal(response, request)
                        self._breaker.succeeded()
                        raise refusal
                    answer = await _read(response, _LONGEST_ANSWER)
                finally:
                    response.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._breaker.failed(time.monotonic())
            raise self.lost(request, error) from error
        else:
            self._breaker.succeeded()
        finally:
            # After a cancellation or a defect, too: otherwise a probe would stay in progress forever.
            self._breaker.abandoned(time.monotonic())
        self.counters.answered(request.verb, status)
        return answer

    async def _open(self, request: Request, credentials: Credentials) -> Stream:
        try:
            if self._local.reaches(credentials):
                reply = await self._send_locally(request, credentials)
                if reply.source is None:
                    raise self._refused(request, reply.status, reply.body, reply.headers.get("Retry-After"))
                self._breaker.succeeded()
                self.counters.answered(request.verb, 200)
                return Stream(self, request, reply.source)
            async with self._limiter.slot(), asyncio.timeout(self._limits.total):
                response = await self._send(request, credentials)
            if response.status == 200:
                self._breaker.succeeded()
                self.counters.answered(request.verb, 200)
                return Stream(self, request, _Sent(response))
            try:
                refusal = await self._refusal(response, request)
            finally:
                response.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self.lost(request, error) from error
        raise refusal

    def lost(self, request: Request, error: Exception) -> Unreachable:
        """Convert a failure of the connection to an `Unreachable`, and count it."""
        sent = not isinstance(error, _NOT_SENT)
        kind = Timeout if isinstance(error, TimeoutError) else Unreachable
        lost = kind(f"{request}: {_explain(error)}", endpoint=self.name, sent=sent)
        self.counters.count(request.verb, "error")
        self.counters.failed(lost)
        return lost

    async def _refusal(self, response: ClientResponse, request: Request) -> ApiError:
        body = await _read(response, _LONGEST_ERROR)
        return self._refused(request, response.status, body, response.headers.get("Retry-After"))

    def _refused(self, request: Request, status: int, body: bytes, retry_after: str | None) -> ApiError:
        self.counters.answered(request.verb, status)
        error = api_error(
            status, body, endpoint=self.name, request=str(request), retry_after=_seconds(retry_after)
        )
        if isinstance(error, ServerError | Unauthorized | TooManyRequests):
            self.counters.failed(error)
        return error

    async def _send_locally(self, request: Request, credentials: Credentials) -> local.Answer:
        if self._closed:
            raise RuntimeError(f"{self.name}: the client is closed")
        headers = {**self._headers, **_headers(request, credentials)}
        # A GET may complete without waiting, so let other tasks run first.
        if request.method == "GET":
            await asyncio.sleep(0)
        return await self._local.send(request.method, request.target, headers, request.body)

    async def _send(self, request: Request, credentials: Credentials) -> ClientResponse:
        headers = _headers(request, credentials)
        return await self._session(request.stream).request(
            request.method,
            URL(credentials.url + request.target, encoded=True),
            data=request.body,
            headers=headers,
            timeout=request.limits,
            ssl=credentials.tls or True,
            server_hostname=credentials.server_name,
            proxy=credentials.proxy,
            allow_redirects=False,  # a redirect would send the token to a host of the server's choice
        )

    def _session(self, stream: bool) -> ClientSession:
        session = self._sessions.get(stream)
        if session is None:
            if self._closed:
                raise RuntimeError(f"{self.name}: the client is closed")
            limit = 0 if stream else self._max_connections
            session = self._sessions[stream] = ClientSession(
                connector=Connector(limit=limit, keepalive_timeout=60.0),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                read_bufsize=_BUFFER,
            )
        return session

    async def _credentials(self, *, refused: Credentials | None = None) -> Credentials:
        try:
            return await self.connection.credentials(refused=refused)
        except KubeError as error:
            named = type(error)(str(error), endpoint=self.name)
            self.counters.failed(named)
            raise named from None

    def _unauthorized(self) -> None:
        for callback in self._on_unauthorized:
            callback()

    def _state_changed(self, state: BreakerState) -> None:
        for callback in self._on_state:
            callback(state)


def retry_pause(request: Request, error: KubeError, attempt: int, jitter: float) -> float | None:
    """Return the seconds until a failed attempt may be retried, or None if it may not be retried. Pure.

    Args:
        request: The request.
        error: Error of the attempt.
        attempt: Number of earlier retries.
        jitter: A random number in [0, 1).
    """
    wait = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
    if wait > _LONGEST_WAIT or not _repeatable(request, error):
        return None
    return wait + backoff(attempt, base=0.1, cap=2.0, jitter=jitter)


def _repeatable(request: Request, error: KubeError) -> bool:
    """Return whether a retry is safe and may succeed.

    A request with any verb may be retried if nothing was sent, or after 429, which means that the request had no effect. The
    429 of an eviction is an exception, because the reason may last for hours.
    """
    # A timeout has used all the time that the caller allowed.
    if isinstance(error, CircuitOpen | Timeout):
        return False
    if isinstance(error, TooManyRequests):
        return error.retry_after is not None and not request.path.endswith("/eviction")
    if isinstance(error, Unreachable):
        return request.method == "GET" or not error.sent
    return isinstance(error, ServerError) and request.method == "GET"


def _limits(*, total: float | None = None, silence: float | None = None) -> ClientTimeout:
    return ClientTimeout(total=total, sock_connect=_CONNECT_TIMEOUT, sock_read=silence)


def _headers(request: Request, credentials: Credentials) -> dict[str, str]:
    headers = credentials.headers
    if request.content_type:
        headers = {**headers, "Content-Type": request.content_type}
    if request.accept:
        headers = {**headers, "Accept": request.accept}
    return headers


async def _read(response: ClientResponse, limit: int) -> bytes:
    try:
        return await _joined(response.content.readany, limit)
    except aiohttp.ClientPayloadError:
        response.close()
        raise


async def _drained(source: local.Source) -> bytes:
    """Read a stream to its end, such as a log that is not followed."""
    try:
        return await _joined(source.read, _LONGEST_ANSWER)
    finally:
        await source.close()


async def _joined(read: Callable[[], Awaitable[bytes]], limit: int) -> bytes:
    """Read pieces until an empty one.

    Raises:
        ClientPayloadError: They have more bytes than `limit`.
    """
    pieces = []
    size = 0
    while piece := await read():
        size += len(piece)
        if size > limit:
            raise aiohttp.ClientPayloadError(f"the answer is longer than {limit} bytes")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _seconds(text: str | None) -> float | None:
    """Parse a Retry-After header. Kubernetes sends seconds; a date is ignored."""
    return float(text) if text is not None and text.isdecimal() and len(text) < 10 else None


_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, ssl.SSLError)
_EXPLANATIONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.SocketTimeoutError, "no data arrived for too long"),
    (TimeoutError, "no response in time"),
    (aiohttp.ServerDisconnectedError, "the server closed the connection"),
    (aiohttp.ClientHttpProxyError, "the proxy refused the connection"),
)


def _explain(error: Exception) -> str:
    """Describe the failure of a connection, without the URL of a proxy, which may contain a password."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"TLS: {getattr(error.certificate_error, 'verify_message', error.certificate_error)}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {_cause(error.os_error)}"
    for kind, text in _EXPLANATIONS:
        if isinstance(error, kind):
            return text
    return f"the connection broke ({type(error).__name__})"


def _cause(error: Any) -> str:
    return str(error.strerror or error)
