"""Sends a request for the log or a stream of a Pod to the API server of a super cluster."""

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
from vcsync.streams.raw_response import MAX_HEAD_BYTES, RawResponse, keep_alive, read_head

CONNECT_SECONDS = 4.0
"""Time in which a Pod must be found and its super cluster connected."""
SWITCHING = 101
TERMINALS = frozenset({"exec", "attach"})
"""Subresources whose WebSockets have an error channel."""
USER_AGENT = "vcsync-streams"
MAX_LOGGED = 1000
"""Characters of a refusal that are logged."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SuperRequest:
    """A request for the log or a stream of a super cluster's Pod.

    Attributes:
        super_id: Id of the super cluster.
        namespace: Super namespace.
        pod: Name of the Pod.
        action: Subresource: `log`, `exec`, `attach` or `portforward`.
        query: Percent-encoded query without the question mark.
        method: HTTP method.
        version: HTTP version: `1.0` for logs, whose bodies then have no chunks.
        headers: Further header lines: those of the upgrade.
    """

    super_id: str
    namespace: str
    pod: str
    action: str
    query: str
    method: str
    version: str
    headers: Sequence[str]


async def dialled(
    connection: Connection, super_id: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Credentials]:
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
async def answered(
    opened: tuple[asyncio.StreamReader, asyncio.StreamWriter, Credentials], request: SuperRequest, tenant: str
) -> AsyncIterator[RawResponse]:
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
        writer.write(_head(credentials, request))
        try:
            status, headers = await read_head(reader)
        except (OSError, TimeoutError) as error:
            _log.warning("a super cluster gives no answer", super_cluster=super_id, error=str(error))
            raise refusals.unreachable(super_id) from error
        answer = RawResponse(status, headers, reader, writer)
        granted = 200 <= status <= 206 if request.action == "log" else status == SWITCHING
        if not granted:
            text = await answer.text()
            _log.info(
                "a super cluster refused a stream",
                super_cluster=super_id,
                tenant=tenant,
                status=status,
                answer=text[:MAX_LOGGED],
            )
            raise refusals.refusal(super_id, status, text, request.pod)
        if request.action in TERMINALS and answer.header("upgrade").lower() == "websocket":
            answer.change = ErrorFrames(request.namespace, refusals.failed(super_id)).feed
        yield answer
    finally:
        writer.transport.abort()


def _head(credentials: Credentials, request: SuperRequest) -> bytes:
    parts = urlsplit(credentials.url)
    path = parts.path + PODS.path(namespace=request.namespace, name=request.pod, subresource=request.action)
    url = f"{path}?{request.query}" if request.query else path
    lines = [
        f"{request.method} {url} HTTP/{request.version}",
        f"Host: {parts.netloc}",
        f"User-Agent: {USER_AGENT}",
    ]
    lines += [f"{name}: {value}" for name, value in credentials.headers.items()]
    return "\r\n".join([*lines, *request.headers, "", ""]).encode("latin-1")
