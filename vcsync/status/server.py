"""The HTTP server of /, /healthz, /livez, /readyz, /metrics, /status and /timeline: read only, on loopback by default.

On loopback it serves plain HTTP to everybody. At other addresses it serves HTTPS, and shows names and states of tenants only to
callers whom the meta cluster lets read them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import structlog
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from vcsync import __version__
from vcsync.api.names import STATUS_API_VERSION, STATUS_KIND
from vcsync.fairqueue import ObjectName
from vcsync.objects.times import time_text
from vcsync.process.listener import ConnectionRate, Listener, source_of
from vcsync.process.open_files import share_of_files
from vcsync.status.access import Access
from vcsync.status.certificate import RENEWAL_SECONDS, ServingCertificate
from vcsync.status.page import POLICY, page
from vcsync.status.sources import StatusSource, readiness, registry, statuses, timelines
from vcsync.streams.budget import ConnectionBudget
from vcsync.streams.connections import Server

DEFAULT_LISTEN = "127.0.0.1:10550"
"""Loopback, where nobody is asked who they are."""
MAX_HEADERS, MAX_FIELD_BYTES = 64, 20 * 1024
"""Limits of the headers of a request, of which browsers send some twenty. The longest token is a little shorter."""
MAX_CONNECTIONS = 500
"""Open connections. No address has more of them than remain free."""
MAX_HANDSHAKES = 200
STOP_SECONDS = 2.0
"""Seconds that requests get to end."""
RETRY_AFTER = {429: "1", 503: "5"}
"""Seconds after which a caller may ask again, by status of the refusal."""
_SILENT = logging.Logger("status")
"""aiohttp logs a malformed request with a traceback. Anybody who reaches the port could fill the log with them."""
_SILENT.addHandler(logging.NullHandler())
_log = structlog.get_logger(__name__)


class ListenAddressError(ValueError):
    """The address to listen on is invalid or cannot be used. The message says how to fix it."""


def parse_listen(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` (an IPv6 host in brackets; an empty host means loopback, port 0 a free port).

    Raises:
        ListenAddressError: The text has another form or the port is out of range.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed):
        msg = f"listen address {text!r}: give HOST:PORT, for instance {DEFAULT_LISTEN} or [::1]:10550"
        raise ListenAddressError(msg)
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        msg = f"listen address {text!r}: {port!r} is not a port; give a number from 0 (any free one) to 65535"
        raise ListenAddressError(msg)
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a server at a host: a loopback address, or `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Protection(NamedTuple):
    """Certificate and access of a status endpoint that other machines reach.

    Attributes:
        access: Decides who may read it; None: everybody may.
        certificate: Its certificate.
    """

    access: Access | None
    certificate: ServingCertificate


class _Route(NamedTuple):
    """A path: the function that answers it, and the path for which a caller needs the right; empty: none."""

    answer: Callable[[web.BaseRequest], Awaitable[web.Response]]
    right: str = ""


class StatusServer:
    """Serves the state of roles over HTTP while its context is open.

    Args:
        listen: Address to listen on, ``HOST:PORT``.
        sources: The roles by name, for instance ``syncer/r1``. Each request reads the mapping, so callers may add and
            remove roles while the server runs.
        option: Command-line option that sets the address, for messages.
        protection: Certificate, and who may read; None: plain HTTP for everybody, on loopback only.

    Raises:
        ListenAddressError: The address is malformed (at construction) or cannot be bound (at entry).
        ValueError: Other machines reach it, and it would let in everybody.
    """

    def __init__(
        self,
        listen: str,
        sources: Mapping[str, StatusSource],
        *,
        option: str = "--listen",
        protection: Protection | None = None,
    ) -> None:
        self._host, self._port = parse_listen(listen)
        self._access = protection.access if protection is not None else None
        if self._access is None and not is_loopback(self._host):
            msg = f"{listen}: other machines reach it; decide who may read it"
            raise ValueError(msg)
        self._certificate = protection.certificate if protection is not None else None
        self._sources = sources
        self._option = option
        self._registry = registry(sources)
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._runner: web.ServerRunner | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._routes: Mapping[str, _Route] = {
            "/": _Route(self._page, "/status"),
            "/healthz": _Route(self._healthz),
            "/livez": _Route(self._healthz),
            "/readyz": _Route(self._readyz),
            "/metrics": _Route(self._metrics, "/metrics"),
            "/status": _Route(self._status, "/status"),
            "/timeline": _Route(self._timeline, "/timeline"),
        }

    @property
    def address(self) -> str:
        """The ``HOST:PORT`` of the server, with the actual port if the address has port 0."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at its end."""
        return f"{'http' if self._certificate is None else 'https'}://{self.address}"

    async def __aenter__(self) -> Self:
        """Start to listen."""
        server = Server(
            lambda transport: source_of(transport.get_extra_info("peername")),
            ConnectionBudget(share_of_files(0.1, MAX_CONNECTIONS)),
            self._handle,
            access_log=None,
            logger=_SILENT,
            handler_cancellation=True,
            auto_decompress=False,
            lingering_time=0,
            max_headers=MAX_HEADERS,
            max_field_size=MAX_FIELD_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await runner.setup()
        rate = ConnectionRate(0) if is_loopback(self._host) else ConnectionRate()
        tls = self._certificate.context if self._certificate is not None else None
        try:
            await Listener(runner, self._host, self._port, tls, rate=rate, handshakes=MAX_HANDSHAKES).start()
        except OSError as error:
            await runner.cleanup()
            msg = f"cannot listen on {self.address}: {error.strerror or error}; choose another with {self._option}"
            raise ListenAddressError(msg) from error
        self._runner = runner
        self._port = int(runner.addresses[0][1])
        if self._certificate is not None:
            self._renewal = asyncio.create_task(self._renew(self._certificate), name="status-certificate")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening. Requests in progress have two seconds to finish."""
        if self._renewal is not None:
            self._renewal.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewal
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @staticmethod
    async def _renew(certificate: ServingCertificate) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            certificate.refresh()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        try:
            return await self._answer(request)
        except Exception:  # noqa: BLE001 - the last resort: it is logged as a defect
            _log.exception("a request to the status endpoint failed")
            return _refusal(500, "Internal Server Error")

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        route = self._routes.get(request.rel_url.raw_path)
        if route is None:
            return _refusal(404, "404 page not found")
        if request.method not in {"GET", "HEAD"}:
            return _refusal(405, "405 method not allowed")
        if self._access is None:
            return await route.answer(request)
        if not route.right:
            answer = await route.answer(request)
            answer.force_close()  # connections of an address are limited in rate, and requests of a connection are not
            return answer
        source = source_of(request.get_extra_info("peername"))
        decision = await self._access.decide(request.headers.get("Authorization", ""), route.right, source)
        if decision.code != 200:
            return _refusal(decision.code, decision.text)
        return await route.answer(request)

    async def _healthz(self, _request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.BaseRequest) -> web.Response:
        is_ready, lines = readiness(self._sources)
        if self._access is not None:  # names and reasons are for readers of /status
            lines = ["ok" if is_ready else "not ready: /status says why"]
        return web.Response(status=200 if is_ready else 503, text="\n".join([*lines, ""]))

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _page(self, _request: web.BaseRequest) -> web.Response:
        headers = {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return web.Response(text=page(await self._state()), content_type="text/html", headers=headers)

    async def _status(self, _request: web.BaseRequest) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(await self._state()), indent=1)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _timeline(self, request: web.BaseRequest) -> web.Response:
        """Serve `?tenant=NAME&object=RESOURCE/NAMESPACE/NAME`. `tenant` may be repeated."""
        tenants, parts = request.query.getall("tenant", []), request.query.get("object", "").split("/")
        if not tenants or len(parts) != 3 or not parts[0] or not parts[2]:
            text = "give tenant=NAME and object=RESOURCE/NAMESPACE/NAME, for instance object=pods/default/web-0\n"
            return web.Response(status=400, text=text)
        found = timelines(self._sources, tenants, ObjectName(*parts))
        return web.json_response({"transitions": found})

    async def _state(self) -> dict[str, Any]:
        return {
            "apiVersion": STATUS_API_VERSION,
            "kind": STATUS_KIND,
            "version": __version__,
            "startedAt": time_text(self._started_at),
            "uptimeSeconds": round(time.monotonic() - self._started),
            "roles": await statuses(self._sources),
        }


def _refusal(status: int, text: str) -> web.Response:
    refused = web.Response(status=status, text=f"{text}\n")
    if status in RETRY_AFTER:
        refused.headers["Retry-After"] = RETRY_AFTER[status]
    if status == 401:
        refused.headers["WWW-Authenticate"] = "Bearer"
    if status == 405:
        refused.headers["Allow"] = "GET, HEAD"
    refused.force_close()  # what else the caller sends is not read
    return refused
