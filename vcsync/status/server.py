"""The HTTP server of /, /healthz, /readyz, /metrics, /status and /timeline: read only, on loopback by default."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from vcsync import __version__
from vcsync.fairqueue import ObjectName
from vcsync.objects.times import time_text
from vcsync.status.page import POLICY, page
from vcsync.status.sources import StatusSource, readiness, registry, statuses, timelines

DEFAULT_LISTEN = "127.0.0.1:10550"
"""Loopback: the endpoint has no authentication of its own."""
MAX_HEADERS, MAX_FIELD_BYTES = 64, 4096
"""Limits of the headers of a request, of which browsers send some twenty."""


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


class StatusServer:
    """Serves the state of roles over HTTP while its context is open.

    Args:
        listen: Address to listen on, ``HOST:PORT``.
        sources: The roles by name, for instance ``syncer/r1``. Each request reads the mapping, so callers may add and
            remove roles while the server runs.
        option: Command-line option that sets the address, for messages.

    Raises:
        ListenAddressError: The address is malformed (at construction) or cannot be bound (at entry).
    """

    def __init__(self, listen: str, sources: Mapping[str, StatusSource], *, option: str = "--listen") -> None:
        self._host, self._port = parse_listen(listen)
        self._sources = sources
        self._option = option
        self._registry = registry(sources)
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """The ``HOST:PORT`` of the server, with the actual port if the address has port 0."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def __aenter__(self) -> Self:
        """Start to listen."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/status", self._status),
                web.get("/timeline", self._timeline),
            ]
        )
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=2.0,
            max_headers=MAX_HEADERS,
            max_field_size=MAX_FIELD_BYTES,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            msg = f"cannot listen on {self.address}: {error.strerror or error}; choose another with {self._option}"
            raise ListenAddressError(msg) from error
        self._runner = runner
        self._port = int(runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening. Requests in progress have two seconds to finish."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        is_ready, lines = readiness(self._sources)
        return web.Response(status=200 if is_ready else 503, text="\n".join([*lines, ""]))

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _page(self, _request: web.Request) -> web.Response:
        headers = {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return web.Response(text=page(await self._state()), content_type="text/html", headers=headers)

    async def _status(self, _request: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(await self._state()), indent=1)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _timeline(self, request: web.Request) -> web.Response:
        """Serve `?tenant=NAME&object=RESOURCE/NAMESPACE/NAME`. `tenant` may be repeated."""
        tenants, parts = request.query.getall("tenant", []), request.query.get("object", "").split("/")
        if not tenants or len(parts) != 3 or not parts[0] or not parts[2]:
            text = "give tenant=NAME and object=RESOURCE/NAMESPACE/NAME, for instance object=pods/default/web-0\n"
            return web.Response(status=400, text=text)
        found = timelines(self._sources, tenants, ObjectName(*parts))
        return web.json_response({"transitions": found})

    async def _state(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "startedAt": time_text(self._started_at),
            "uptimeSeconds": round(time.monotonic() - self._started),
            "roles": await statuses(self._sources),
        }
