"""Sends a request for the log, a stream or a port of a Pod to the API server of a super cluster."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from vcsync.kube.connection import Connection, Credentials
from vcsync.kube.errors import CredentialsError, KubeError
from vcsync.kube.resources import PODS
from vcsync.streams import refusals
from vcsync.streams.connection import open_connection
from vcsync.streams.error_frames import ErrorFrames
from vcsync.streams.proxied_links import Links, PageTranslator
from vcsync.streams.raw_response import (
    MAX_ERROR_BYTES,
    MAX_HEAD_BYTES,
    RESPONSE_SECONDS,
    RawResponse,
    keep_alive,
    read_head,
)
from vcsync.streams.refusals import Refused

CONNECT_SECONDS = 4.0
"""Time in which a Pod must be found and its super cluster connected."""
PROGRAM_SECONDS = 300.0
"""Timeout until a program in a Pod answers."""
SWITCHING = 101
BAD_REQUEST = 400
COMPRESSED = frozenset({"gzip", "deflate"})
TERMINALS = frozenset({"exec", "attach"})
"""Subresources whose WebSockets have an error channel."""
TUNNELLED = "SPDY/3.1+"
"""Beginning of the protocols whose messages are the bytes of SPDY."""
USER_AGENT = "vcsync-streams"
MAX_LOGGED = 1000
"""Characters of a refusal that are logged."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SuperRequest:
    """A request for the log, a stream or a port of a super cluster's Pod.

    Attributes:
        super_id: Id of the super cluster.
        namespace: Super namespace.
        pod: Name of the Pod.
        action: Subresource: `log`, `exec`, `attach`, `portforward` or `proxy`.
        query: Percent-encoded query without the question mark.
        method: HTTP method.
        version: HTTP version: `1.0` for answers that are not upgraded, whose bodies then have no chunks.
        headers: Further header lines: those of the upgrade, or of a request for `proxy`. A Host header among them is that of the
            client: programs in Pods must not learn the address of their API server.
        target: Name of the Pod as a URL for `proxy` has it, with scheme and port. Empty: the name alone.
        path: Percent-encoded path after the subresource.
        body: Body of the request.
        shown: Path up to the subresource that the client of a request for `proxy` has used.
    """

    super_id: str
    namespace: str
    pod: str
    action: str
    query: str
    method: str
    version: str
    headers: Sequence[str]
    target: str = ""
    path: str = ""
    body: bytes = b""
    shown: str = ""

    @property
    def url_path(self) -> str:
        """Percent-encoded path at the API server."""
        named = PODS.path(namespace=self.namespace, name=self.target or self.pod, subresource=self.action)
        return named + self.path

    @property
    def links(self) -> Links:
        """Translates links of pages to a port of the Pod."""
        below = f"{PODS.path(namespace=self.namespace)}/{self.target or self.pod}/{self.action}"
        return Links(below, self.shown)


Dialled = tuple[asyncio.StreamReader, asyncio.StreamWriter, Credentials]
"""An open connection, and the credentials to send on it."""


async def dialled(connection: Connection, super_id: str) -> Dialled:
    """Open a connection to the API server of a super cluster; return it with the credentials to send.

    Raises:
        Refused: 503, it cannot be reached.
    """
    try:
        credentials = await connection.credentials()
        if credentials.proxy:
            raise CredentialsError("field cluster.proxy-url: streams do not pass a proxy; leave it out")
        parts = urlsplit(credentials.url)
        host, tls = parts.hostname or "", credentials.tls
        reader, writer = await open_connection(
            host,
            parts.port or (443 if tls else 80),
            tls=tls,
            server_hostname=credentials.server_name or host,
            limit=MAX_HEAD_BYTES,
        )
    except (OSError, KubeError) as error:
        _log.warning("a super cluster cannot be reached", super_cluster=super_id, error=str(error))
        raise refusals.unreachable(super_id) from error
    keep_alive(writer.get_extra_info("socket"))
    return reader, writer, credentials


@asynccontextmanager
async def answered(opened: Dialled, request: SuperRequest, tenant: str) -> AsyncIterator[RawResponse]:
    """Send a request on a connection, yield the answer that grants it, and close the connection.

    Args:
        opened: Result of `dialled`.
        request: The request.
        tenant: Name or key of the tenant, for logs.

    Raises:
        Refused: The super cluster refuses it, or gives no answer.
    """
    reader, writer, credentials = opened
    super_id = request.super_id
    try:
        writer.write(_head(credentials, request) + request.body)
        proxied = request.action == "proxy"
        try:
            status, headers = await read_head(reader, PROGRAM_SECONDS if proxied else RESPONSE_SECONDS)
        except (OSError, TimeoutError) as error:
            if proxied and isinstance(error, TimeoutError):
                raise refusals.too_late() from error
            _log.warning("a super cluster gives no answer", super_cluster=super_id, error=str(error))
            raise refusals.unreachable(super_id) from error
        answer = RawResponse(status, headers, reader, writer)
        if (refused := await _refusal(answer, request)) is not None:
            reason, text = refused
            _log.info(
                "a super cluster refused a stream",
                super_cluster=super_id,
                tenant=tenant,
                status=status,
                answer=text[:MAX_LOGGED],
            )
            raise reason
        protocol = answer.header("sec-websocket-protocol")
        ports = request.action == "portforward" and not protocol.startswith(TUNNELLED)
        if (ports or request.action in TERMINALS) and answer.header("upgrade").lower() == "websocket":
            failed = refusals.failed(super_id)
            answer.change = ErrorFrames(request.namespace, failed, protocol, ports=ports).feed
        if proxied:
            _translate_links(answer, request.links)
        yield answer
    finally:
        writer.transport.abort()


async def _refusal(answer: RawResponse, request: SuperRequest) -> tuple[Refused, str] | None:
    """Return the refusal that an answer is, and the answer's text. None: it grants the request.

    What a program answers to a request for `proxy` is no refusal, whatever its status.
    """
    status = answer.status
    if request.action == "proxy":
        if status < BAD_REQUEST:
            return None
        text = (await answer.beginning(MAX_ERROR_BYTES)).decode(errors="replace")
        refused = refusals.proxy_refusal(request.super_id, status, text, request.pod, request.namespace)
        return None if refused is None else (refused, text)
    if 200 <= status <= 206 if request.action == "log" else status == SWITCHING:
        return None
    text = await answer.text()
    return refusals.refusal(request.super_id, status, text, request.pod), text


def _translate_links(answer: RawResponse, links: Links) -> None:
    """Have the links of pages and redirects lead through the client's path.

    Raises:
        Refused: 502, the page is compressed in a way that the API server understands, so that its links may have been changed.
    """
    answer.headers = [
        (name, links.location(value) if name.lower() == "location" else value)
        for name, value in answer.headers
    ]
    if answer.header("content-type").partition(";")[0].strip().lower() != "text/html":
        return
    if answer.header("content-encoding") in COMPRESSED:
        raise refusals.compressed()
    answer.change = PageTranslator(links).feed


def _head(credentials: Credentials, request: SuperRequest) -> bytes:
    parts = urlsplit(credentials.url)
    path = parts.path + request.url_path
    url = f"{path}?{request.query}" if request.query else path
    lines = [f"{request.method} {url} HTTP/{request.version}"]
    given = {line.partition(":")[0].lower() for line in request.headers}
    own = (("Host", parts.netloc), ("User-Agent", USER_AGENT))
    lines += [f"{name}: {value}" for name, value in own if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in credentials.headers.items()]
    # Headers of clients are decoded like this; see aiohttp's HTTP parser.
    return "\r\n".join([*lines, *request.headers, "", ""]).encode("utf-8", "surrogateescape")
