"""Serves the placement webhook for as long as the role runs, with the certificate that the meta cluster holds for it."""

import asyncio
import ssl
import time
from collections.abc import Callable

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.kube.tls import load_identity, serving_context
from vcsync.podscheduler.settings import WebhookSettings
from vcsync.podscheduler.webhook_callers import Callers
from vcsync.podscheduler.webhook_server import WebhookServer
from vcsync.tenancy.secrets import BadSecret, read_secret

READ_SECONDS = 60.0
"""Seconds between two reads of the certificate..."""
RETRY_SECONDS = 10.0
"""...and while the webhook is not served."""
CERTIFICATE, KEY = "tls.crt", "tls.key"
_WHERE = f"Secret {names.SYSTEM_NAMESPACE}/{names.PLACEMENT_TLS_SECRET}"
_log = structlog.get_logger(__name__)


class NotServed(Exception):
    """The webhook cannot be served. The text says why."""


class WebhookService:
    """The placement webhook of one process.

    Args:
        meta: client of the meta cluster.
        settings: the operator's settings.
        callers: returns the tenants that may ask; None: this process does not lead.

    Attributes:
        server: the server.
        state: where it is served, or why it is not.
    """

    def __init__(
        self, meta: Client, settings: WebhookSettings, callers: Callable[[], Callers | None]
    ) -> None:
        self._meta = meta
        self._settings = settings
        self._tls: ssl.SSLContext | None = None
        self._identity = b""
        self.server = WebhookServer(callers, time.monotonic)
        self.state = "not served yet"

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                    self.state = f"served at {self._settings.host}, port {self.server.port}"
                except (KubeError, BadSecret, NotServed, ValueError) as error:
                    self._note(str(error))
                await asyncio.sleep(RETRY_SECONDS if self._tls is None else READ_SECONDS)
        finally:
            await self.server.stop()

    async def _follow(self) -> None:
        """Serve with the present certificate. One that replaces it is used for new connections."""
        found = await read_secret(self._meta, names.PLACEMENT_TLS_SECRET, names.SYSTEM_NAMESPACE)
        if found is None:
            raise NotServed(
                f"{_WHERE} does not exist; 'vcsync tenant renew NAME --placement-webhook HOST:PORT' makes it"
            )
        identity = found.get(CERTIFICATE, b"") + b"\n" + found.get(KEY, b"")
        if identity == self._identity:
            return
        try:
            context = serving_context(identity)
        except ValueError as error:
            raise NotServed(f"{_WHERE}: {error}") from error
        if self._tls is not None:
            load_identity(self._tls, identity)
            self._identity = identity
            return
        try:
            await self.server.start(self._settings.host, self._settings.port, context)
        except OSError as error:
            raise NotServed(
                f"{self._settings.host}, port {self._settings.port}: {error.strerror or error}"
            ) from error
        self._tls, self._identity = context, identity
        _log.info("the placement webhook is served", host=self._settings.host, port=self.server.port)

    def _note(self, problem: str) -> None:
        """Note a problem. What is served stays so."""
        text = f"served with the former certificate: {problem}" if self._tls is not None else problem
        if text != self.state:
            _log.warning("the placement webhook is not served as it should be", error=problem)
        self.state = text
