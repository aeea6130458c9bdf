"""The way to one API server: sessions, credentials, limits, retries, breaker; failures become our errors.

The way is HTTP, or none at all where the server runs in this process (`local`).
"""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

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

_CONNECT_TIMEOUT = 10.0  # seconds for TCP and TLS
_LONGEST_ANSWER = 1024 * 1024 * 1024  # bytes; a hostile server could send without end
_LONGEST_ERROR = 64 * 1024  # bytes of an error's body that are read
_RETRIES = 3  # per call
_LONGEST_WAIT = 10.0  # seconds of Retry-After we wait ourselves; beyond, the caller has better things to do
_BUFFER = 128 * 1024  # bytes read ahead per connection
_SETUPS = 64  # streams that connect at once in the whole process: a start must not shake a thousand hands
_SETUPS_PER_ENDPOINT = 8  # so that a dead endpoint leaves turns for the others

_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """What a client has done and how its endpoint fares. Times are unix seconds.

    Attributes:
        requests: number of attempts by (verb, `2xx` ... `5xx`, or `error` when no answer came).
        retries: attempts beyond the first of a call.
        watches: streams open now.
    """

    requests: dict[tuple[str, str], int]
    retries: int
    watches: int
    breaker: BreakerState
    last_error: str | None
    last_error_at: float | None
    last_success_at: float | None


@dataclass(slots=True)
class _Tally:
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


class Pace:
    """Lets calls through at a rate; a second's worth may burst (generic cell rate algorithm). Pure.

    Args:
        per_second: the rate.
    """

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._burst = max(1.0 - self._interval, 0.0)
        self._ideal = 0.0

    def delay(self, now: float) -> float:
        """Count one call at `now` (seconds); return the seconds it has to wait first."""
        ideal = max(self._ideal, now)
        self._ideal = ideal + self._interval
        return max(ideal - self._burst - now, 0.0)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as it goes out; its str is for messages.

    Attributes:
        target: quoted path and query.
        stream: it is a watch, whose answer has no end.
        accept: the form of the answer; empty: plain JSON.
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
    """The answer to a watch: bytes without end. Close it."""

    def __init__(self, transport: "Transport", ask: Ask, source: local.Source) -> None:
        self._transport = transport
        self._ask = ask
        self._source = source
        transport.tally.watches += 1

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end in good order.

        Raises:
            Timeout: nothing came for too long.
            Unreachable: the stream was cut.
        """
        try:
            return await self._source.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._transport.lost(self._ask, error) from error

    async def close(self) -> None:
        """Hang up."""
        self._transport.tally.watches -= 1
        await self._source.close()


class _Sent:
    """What comes through a connection."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response

    async def read(self) -> bytes:
        return await self._response.content.readany()

    async def close(self) -> None:
        self._response.close()


class Transport:
    """The way to one API server, shared by everything that speaks to it.

    Args:
        connection: where the server is and who we are.
        name: what to call the endpoint in errors.
        user_agent: the User-Agent header.
        timeout: seconds one attempt of a call may take.
        qps: calls per second at most; None for no limit.
        max_connections: connections for calls; streams have their own, without a limit.
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
        self.tally = _Tally()
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._limits = ClientTimeout(total=timeout, sock_connect=_CONNECT_TIMEOUT)
        self._max_connections = max_connections
        self._calls = asyncio.Semaphore(
            max_connections
        )  # under way in this process; elsewhere connections bound them
        self._visitor = local.Visitor()
        self._pace = None if qps is None else Pace(qps)
        self._sessions: dict[bool, ClientSession] = {}
        self._setups = asyncio.Semaphore(_SETUPS_PER_ENDPOINT)
        self._budget = RetryBudget()
        self._breaker = Breaker(on_state=self._state_changed)
        self._on_state: list[Callable[[BreakerState], None]] = []
        self._on_unauthorized: list[Callable[[], None]] = []
        self._closed = False

    async def close(self) -> None:
        """Close all connections; calls under way fail, later ones raise RuntimeError."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        await asyncio.sleep(0)  # the loop tells transports of their end in its next turn

    def on_state(self, callback: Callable[[BreakerState], None]) -> None:
        """Have the callback called with each new state of the circuit breaker. It must be quick."""
        self._on_state.append(callback)

    def on_unauthorized(self, callback: Callable[[], None]) -> None:
        """Have the callback called whenever a request is refused as Unauthorized for good. It must be quick."""
        self._on_unauthorized.append(callback)

    def statistics(self) -> ClientStatistics:
        """Return what has happened so far."""
        tally = self.tally
        return ClientStatistics(
            dict(tally.requests),
            tally.retries,
            tally.watches,
            self._breaker.state,
            tally.last_error,
            tally.last_error_at,
            tally.last_success_at,
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
        """Make one call, retrying what is safe to retry, and return the answer's body.

        Args:
            method: the HTTP verb, in capitals.
            target: quoted path and query.
            body: what to send.
            content_type: its type.
            accept: the form of the answer; empty: plain JSON.
            timeout: seconds each attempt may take; default the client's.
        """
        limits = self._limits if timeout is None else _limits(total=timeout)
        ask = Ask(method, target, limits, body, content_type, accept=accept)
        self._budget.call()
        if self._pace is not None and (delay := self._pace.delay(time.monotonic())) > 0:
            await asyncio.sleep(delay)
        credentials = self.connection.current() or await self._credentials()
        for attempt in range(_RETRIES):
            try:
                return await self._attempt(ask, credentials)
            except Unauthorized:
                # Nothing was done, and the token may have been rotated: once more with what holds now.
                fresh = await self._credentials(refused=credentials)
                if attempt or fresh == credentials:
                    self._unauthorized()
                    raise
                credentials = fresh
            except KubeError as error:
                pause = retry_pause(ask, error, attempt, random.random())  # noqa: S311
                if pause is None or not self._budget.take(time.monotonic()):
                    raise
                await asyncio.sleep(pause)
                credentials = self.connection.current() or await self._credentials()
            self.tally.retries += 1
        return await self._attempt(ask, credentials)

    async def open_stream(self, target: str, *, silence: float, accept: str = "") -> Stream:
        """Open a long-lived GET.

        Args:
            target: quoted path and query.
            silence: seconds without a byte after which reading fails with Timeout.
            accept: the form of the answer; empty: plain JSON.
        """
        ask = Ask("GET", target, _limits(silence=silence), stream=True, accept=accept)
        credentials = self.connection.current() or await self._credentials()
        try:
            return await self._open(ask, credentials)
        except Unauthorized:
            fresh = await self._credentials(refused=credentials)
            if fresh == credentials:
                self._unauthorized()
                raise
            return await self._open(ask, fresh)

    async def _attempt(self, ask: Ask, credentials: Credentials) -> bytes:
        wait = self._breaker.admit(time.monotonic())
        if wait:
            raise CircuitOpen(
                f"{ask}: not tried, the endpoint keeps failing; next try in {wait:.1f} s",
                endpoint=self.name,
                retry_after=wait,
            )
        try:
            if self._visitor.finds(credentials):
                async with self._calls, asyncio.timeout(ask.limits.total):
                    given = await self._visit(ask, credentials)
                status, answer = given.status, given.body
                if status >= 300:
                    self._breaker.succeeded()
                    raise self._refused(ask, status, answer, given.headers.get("Retry-After"))
            else:
                response = await self._send(ask, credentials)
                status = response.status
                try:
                    if status >= 300:
                        refusal = await self._refusal(response, ask)
                        self._breaker.succeeded()
                        raise refusal
                    answer = await _read(response, _LONGEST_ANSWER)
                finally:
                    response.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._breaker.failed(time.monotonic())
            raise self.lost(ask, error) from error
        else:
            self._breaker.succeeded()
        finally:  # cancelled, or a defect of ours: a probe must not count as under way for ever
            self._breaker.abandoned(time.monotonic())
        self.tally.answered(ask.verb, status)
        return answer

    async def _open(self, ask: Ask, credentials: Credentials) -> Stream:
        try:
            if self._visitor.finds(credentials):
                given = await self._visit(ask, credentials)
                if given.source is None:
                    raise self._refused(ask, given.status, given.body, given.headers.get("Retry-After"))
                self._breaker.succeeded()
                self.tally.answered(ask.verb, 200)
                return Stream(self, ask, given.source)
            # Whoever has a turn must answer as soon as a call would: others wait for it.
            async with self._setups, _turn(), asyncio.timeout(self._limits.total):
                response = await self._send(ask, credentials)
            if response.status == 200:
                self._breaker.succeeded()
                self.tally.answered(ask.verb, 200)
                return Stream(self, ask, _Sent(response))
            try:
                refusal = await self._refusal(response, ask)
            finally:
                response.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self.lost(ask, error) from error
        raise refusal

    def lost(self, ask: Ask, error: Exception) -> Unreachable:
        """Turn a failure of the connection into our error, and count it."""
        sent = not isinstance(error, _NOT_SENT)
        kind = Timeout if isinstance(error, TimeoutError) else Unreachable
        lost = kind(f"{ask}: {_explain(error)}", endpoint=self.name, sent=sent)
        self.tally.count(ask.verb, "error")
        self.tally.failed(lost)
        return lost

    async def _refusal(self, response: ClientResponse, ask: Ask) -> ApiError:
        body = await _read(response, _LONGEST_ERROR)
        return self._refused(ask, response.status, body, response.headers.get("Retry-After"))

    def _refused(self, ask: Ask, status: int, body: bytes, retry_after: str | None) -> ApiError:
        self.tally.answered(ask.verb, status)
        error = api_error(
            status, body, endpoint=self.name, request=str(ask), retry_after=_seconds(retry_after)
        )
        if isinstance(error, ServerError | Unauthorized | TooManyRequests):
            self.tally.failed(error)
        return error

    async def _visit(self, ask: Ask, credentials: Credentials) -> local.Answer:
        if self._closed:
            raise RuntimeError(f"{self.name}: the client is closed")
        headers = {**self._headers, **_headers(ask, credentials)}
        if (
            ask.method == "GET"
        ):  # which may be answered without waiting for anything: others get their turn first
            await asyncio.sleep(0)
        return await self._visitor.ask(ask.method, ask.target, headers, ask.body)

    async def _send(self, ask: Ask, credentials: Credentials) -> ClientResponse:
        headers = _headers(ask, credentials)
        return await self._session(ask.stream).request(
            ask.method,
            URL(credentials.url + ask.target, encoded=True),
            data=ask.body,
            headers=headers,
            timeout=ask.limits,
            ssl=credentials.tls or True,
            server_hostname=credentials.server_name,
            proxy=credentials.proxy,
            allow_redirects=False,  # a redirect would carry the token to wherever the server says
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
            self.tally.failed(named)
            raise named from None

    def _unauthorized(self) -> None:
        for callback in self._on_unauthorized:
            callback()

    def _state_changed(self, state: BreakerState) -> None:
        for callback in self._on_state:
            callback(state)


def retry_pause(ask: Ask, error: KubeError, attempt: int, jitter: float) -> float | None:
    """Say whether a failed attempt may be repeated, and after how many seconds; None if not. Pure.

    Args:
        ask: what was asked.
        error: what came of it.
        attempt: number of repetitions before.
        jitter: a random number in [0, 1).
    """
    wait = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
    if wait > _LONGEST_WAIT or not _repeatable(ask, error):
        return None
    return wait + backoff(attempt, base=0.1, cap=2.0, jitter=jitter)


def _repeatable(ask: Ask, error: KubeError) -> bool:
    """Whether repeating does no harm and may help.

    Every verb may be repeated when nothing was sent, or after 429, which promises that nothing was done; but
    an eviction's 429 says "not now" and may say so for hours.
    """
    if isinstance(error, CircuitOpen | Timeout):
        return False  # a timeout has had all the time the caller wanted to give
    if isinstance(error, TooManyRequests):
        return error.retry_after is not None and not ask.path.endswith("/eviction")
    if isinstance(error, Unreachable):
        return ask.method == "GET" or not error.sent
    return isinstance(error, ServerError) and ask.method == "GET"


def _limits(*, total: float | None = None, silence: float | None = None) -> ClientTimeout:
    return ClientTimeout(total=total, sock_connect=_CONNECT_TIMEOUT, sock_read=silence)


def _headers(ask: Ask, credentials: Credentials) -> dict[str, str]:
    headers = credentials.headers
    if ask.content_type:
        headers = {**headers, "Content-Type": ask.content_type}
    if ask.accept:
        headers = {**headers, "Accept": ask.accept}
    return headers


def _turn() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = asyncio.Semaphore(_SETUPS)
    return turns


async def _read(response: ClientResponse, limit: int) -> bytes:
    content = response.content
    chunks = []
    size = 0
    while chunk := await content.readany():
        size += len(chunk)
        if size > limit:
            response.close()
            raise aiohttp.ClientPayloadError(f"the answer is longer than {limit} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _seconds(text: str | None) -> float | None:
    """Parse a Retry-After header; Kubernetes sends seconds, a date is ignored."""
    return float(text) if text is not None and text.isdecimal() and len(text) < 10 else None


_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, ssl.SSLError)
_EXPLANATIONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.SocketTimeoutError, "nothing came for too long"),
    (TimeoutError, "no answer in time"),
    (aiohttp.ServerDisconnectedError, "the server hung up"),
    (aiohttp.ClientHttpProxyError, "the proxy refused"),
)


def _explain(error: Exception) -> str:
    """Say what went wrong on a connection, without the URL of a proxy (it may hold a password)."""
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
