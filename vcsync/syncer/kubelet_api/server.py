"""The kubelet API of one tenant's virtual nodes on one super cluster.

Paths, parameters and messages: Kubernetes' `pkg/kubelet/server/server.go`.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.kube.upgraded_connection import HijackedResponse, take_over
from vcsync.process.listener import Listener
from vcsync.streams import refusals
from vcsync.streams.budget import ConnectionBudget
from vcsync.streams.connections import Server
from vcsync.streams.limits import StreamLimits
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.refusals import Refused
from vcsync.streams.super_request import CONNECT_SECONDS, SuperRequest, answered, dialled
from vcsync.streams.tunnel import PIECE_BYTES, Traffic, carry, switching_head
from vcsync.streams.upgrade_headers import UNSUPPORTED, forwarded_upgrade, wanted_protocol
from vcsync.syncer.kubelet_api.access import Access, NoDecision, User, user_of
from vcsync.syncer.kubelet_api.requests import KubeletRequest, parse
from vcsync.syncer.metrics_api.server import MetricsServer
from vcsync.syncer.metrics_api.tenant_usage import REPORT

MAX_STREAMS = 1000
"""Logs and streams of one tenant that are open at the same time."""
MAX_HANDSHAKES = 100
"""TLS handshakes with one tenant that are under way at the same time."""
STOP_SECONDS = 0.1
"""Seconds that streams get to end."""
MAX_LINE_BYTES = 256 * 1024
"""Longest path with query: each argument of a command is a parameter."""
MAX_PARAMETERS = 2_000
"""Most parameters of a query, as in the API of embedded control planes."""
METHODS = {"GET": "get", "POST": "create"}
_SILENT = logging.Logger("kubelet-api")
"""aiohttp logs a malformed request with a traceback. Whoever has a certificate could fill the log with them."""
_SILENT.addHandler(logging.NullHandler())
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SuperPod:
    """Place of a tenant's Pod: name of its virtual node, and the super namespace."""

    node: str
    namespace: str


FindPod = Callable[[str, str], SuperPod | None]
"""Returns where the tenant's Pod with this namespace and name runs, if it does on this super cluster."""


class KubeletServer:
    """Serves the kubelet API of one tenant.

    Args:
        tenant: Cluster key.
        super_id: Id of the super cluster.
        connection: Address and credentials of the super cluster.
        find: Finds the tenant's Pods.
        access: Decides who may call.
        budget: Limits the connections.
        limits: When exec, attach and port-forward end.
        metrics: Serves the resource metrics API.

    Attributes:
        open: Logs and streams that are open.
        traffic: Bytes of all of them, and of those that have ended.
    """

    def __init__(
        self,
        tenant: str,
        super_id: str,
        connection: Connection,
        find: FindPod,
        *,
        access: Access,
        budget: ConnectionBudget,
        limits: StreamLimits,
        metrics: MetricsServer,
    ) -> None:
        self._tenant = tenant
        self._super_id = super_id
        self._connection = connection
        self._find = find
        self._access = access
        self._budget = budget
        self._limits = limits
        self._metrics = metrics
        self.traffic = Traffic()
        self.open = 0
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        """Start to serve.

        Args:
            host: Address to listen on.
            port: Port to listen on.
            tls: It must require certificates of the tenant's control plane.

        Raises:
            OSError: The address cannot be used.
        """
        server = Server(
            self._tenant,
            self._budget,
            self._handle,
            access_log=None,
            logger=_SILENT,
            handler_cancellation=True,
            max_line_size=MAX_LINE_BYTES,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS, handle_signals=False)
        await self._runner.setup()
        try:
            await Listener(self._runner, host, port, tls, handshakes=MAX_HANDSHAKES).start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End all streams, and serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Exception:  # noqa: BLE001 - the last resort: it is logged as a defect
            _log.exception("a request to the kubelet API failed", tenant=self._tenant)
            return _text(500, "Internal Server Error")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.rel_url.raw_query_string.count("&") >= MAX_PARAMETERS:
            return _text(400, f"the request has more than {MAX_PARAMETERS} query parameters")
        if request.rel_url.raw_path.startswith("/apis/"):
            return await self._metrics.answer(request)
        return await self._answer_as_kubelet(request)

    async def _answer_as_kubelet(self, request: web.BaseRequest) -> web.StreamResponse:
        path, verb = request.rel_url.raw_path, METHODS.get(request.method)
        user = user_of(request.get_extra_info("peercert"))
        if user is None:
            return _text(401, "Unauthorized")
        if (path, verb) == (f"/{REPORT}", "get"):
            return await self._refusal(user, "get", "") or await self._metrics.report()
        asked = parse(path, list(request.rel_url.query.items()))
        if asked is None or verb is None or (asked.action == "log" and verb != "get"):
            return _text(404, "404 page not found")
        pod = self._find(asked.namespace, asked.pod)
        if refusal := await self._refusal(user, verb, pod.node if pod is not None else ""):
            return refusal
        try:
            if pod is None:
                raise refusals.not_there(asked.pod)
            if self.open >= MAX_STREAMS:
                raise refusals.too_many()
            self.open += 1
            try:
                return await self._served(request, asked, pod)
            finally:
                self.open -= 1
        except Refused as refused:
            return _text(_shown(refused.code, asked.action), refused.message)

    async def _refusal(self, user: User, verb: str, node: str) -> web.Response | None:
        """Return the answer if a user may not use `nodes/proxy` of a virtual node."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                allowed = await self._access.allows(user, verb, node)
        except (KubeError, NoDecision, TimeoutError) as error:
            _log.warning(
                "a caller of the kubelet API cannot be checked", tenant=self._tenant, error=str(error)
            )
            return _text(500, "Authorization error: the control plane did not answer")
        if not allowed:
            return _text(
                403, f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[proxy])"
            )
        return None

    async def _served(
        self, request: web.BaseRequest, asked: KubeletRequest, pod: SuperPod
    ) -> web.StreamResponse:
        lines: list[str] = []
        version = "1.0"
        if asked.action != "log":
            protocol = wanted_protocol(request.headers)
            if protocol is None:
                return _text(400, UNSUPPORTED)
            if not protocol:
                return _text(400, "Upgrade request required")
            version = "1.1"
            lines = forwarded_upgrade(request.headers, protocol, extensions=False)
            if request.method == "POST":
                lines.append("Content-Length: 0")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                opened = await dialled(self._connection, self._super_id)
        except TimeoutError:
            raise refusals.unreachable(self._super_id) from None
        sent = SuperRequest(
            self._super_id,
            pod.namespace,
            asked.pod,
            asked.action,
            asked.query,
            request.method,
            version,
            lines,
        )
        async with answered(opened, sent, self._tenant) as answer:
            if asked.action == "log":
                return await self._log_response(request, answer)
            client = take_over(request)
            await client.write(switching_head(answer))
            await carry(client, client, answer, self._limits, self.traffic)
            return HijackedResponse()

    async def _log_response(self, request: web.BaseRequest, answer: RawResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        try:
            await response.prepare(request)
            while piece := await answer.piece(PIECE_BYTES):
                self.traffic.bytes_out += len(piece)
                await response.write(piece)
            await response.write_eof()
        except OSError:
            # One of the connections broke. The body has no end then, so that the client notices.
            if request.transport is not None:
                request.transport.abort()
        return response


def _shown(code: int, action: str) -> int:
    """Return the status of a refusal with which kube-apiserver shows its text to the user.

    In answers to requests for logs it reads the text of 400 and 500 only (`pkg/registry/generic/rest/response_checker.go`).
    """
    if action != "log":
        return code
    return 500 if code >= 500 else 400


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", content_type="text/plain")
