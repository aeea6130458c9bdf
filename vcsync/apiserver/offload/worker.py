"""The offload process: runs writes for the control plane's process, which has the store, the listeners and the credentials."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from vcsync.api import served
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds.core.service_claims import Network
from vcsync.apimachinery.wire import encode
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.admission.assemble import admission
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.apiextensions.conversion import Reach
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.authorization.rights import Rights
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.egress.client import Call
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.refusals import refusal
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.handlers.verbs import Verbs
from vcsync.apiserver.offload.jobs import Job, JobResult, Setup
from vcsync.apiserver.offload.link import Link, Procedure
from vcsync.apiserver.offload.remote_storage import RemoteStore
from vcsync.apiserver.operator.defaults import SERVICE_CIDR
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.offloading import THREAD_BYTES
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.service_allocation import ServiceClaims
from vcsync.apiserver.registry.storage_limit import StorageLimit
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.storage.interface import Change, StoreError, tenant_of
from vcsync.apiserver.storage.listeners import notify
from vcsync.apiserver.watch.cacher import Cacher
from vcsync.apiserver.watch.watcher import Watches
from vcsync.process import logs, loop, watchdog
from vcsync.process.marks import marked

PIECE = 128 * 1024
"""Size of the pieces in which long texts go from one process to the other, in bytes."""
NICENESS = 10
"""Increment of the niceness, so that other processes come first where processors are short."""
_log = structlog.get_logger(__name__)


def main(descriptor: int, stall_seconds: float, reports: Path | None) -> None:
    """Run jobs until the other end of the socket is closed.

    Args:
        descriptor: Inherited file descriptor of the socket.
        stall_seconds: Processor time for which the event loop may stand.
        reports: Folder of reports of stalls. None: they go to standard error.
    """
    watchdog.LIMITS.end, watchdog.LIMITS.folder = stall_seconds, reports
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the parent process closes the socket when it ends
    logs.configure("warning", "json")
    os.umask(0o077)
    os.nice(NICENESS)
    loop.run(_serve(socket.socket(fileno=descriptor)))


async def _serve(connected: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connected)
    worker = Worker()
    procedures: dict[str, Procedure] = {"setup": worker.setup, "write": worker.write, "encode": worker.encode}
    worker.link = Link(reader, writer, procedures, worker.changed)
    await worker.link.run()


class Worker:
    """The procedures that the parent process calls. It calls `setup` first.

    Attributes:
        link: Connection to the parent process. Set it before the link runs.
    """

    def __init__(self) -> None:
        self.link: Link
        self._backend: _WriteBackend | None = None

    async def setup(self, setup: Setup) -> None:
        """Create what writes need."""
        self._backend = _WriteBackend(self.link, setup)
        loop.tune_gc()
        loop.started()

    def changed(self, changes: Sequence[Change]) -> None:
        """Update what is cached of the store."""
        if self._backend is not None:
            self._backend.changed(changes)

    async def write(self, job: Job, number: int, long: bool) -> JobResult:
        """Run a write.

        Args:
            job: The write.
            number: Identifies the transfer of long bodies and responses.
            long: The body of the request is transferred in pieces instead of with the job.

        Returns:
            The result. A response that is longer than `PIECE` is transferred in pieces instead.
        """
        backend = self._backend
        assert backend is not None  # noqa: S101 - `setup` is called first
        whole = replace(job, body=await self._receive(number)) if long else job
        result = await marked("request", job.tenant, backend.write(whole), job.info.path)
        if result.reply is None or sum(map(len, result.reply.body)) <= PIECE:
            return result
        await self._send(number, result.reply.body)
        return replace(result, reply=replace(result.reply, body=()))

    async def encode(self, number: int, representation: Representation) -> None:
        """Convert a response from JSON to another representation. It is transferred in pieces, both ways."""
        data = await self._receive(number)
        await self._send(number, [await asyncio.to_thread(encode.written, data, representation)])

    async def _receive(self, number: int) -> bytes:
        """Fetch a long text from the parent process."""
        pieces = []
        while piece := await self.link.call("next_piece", number):
            pieces.append(piece)
        return b"".join(pieces)

    async def _send(self, number: int, text: Sequence[bytes]) -> None:
        """Send a long text to the parent process."""
        for piece in split(text, PIECE):
            await self.link.call("add_piece", number, piece)


class _WriteBackend:
    """The part of `assembly.server.assemble` that writes need."""

    def __init__(self, link: Link, setup: Setup) -> None:
        store, reach = RemoteStore(link), _reach(link)
        # The parent process has found the kind of each write: here, all tenants may have all kinds.
        self._catalogue = Catalogue(
            reach=reach,
            shared=served.established(served.GRANTS if setup.tenant_grants else ()),
            of_pool=served.established(served.NETWORKS),
        )
        self._authorizer = Authorizer(store, lambda _: True)
        admitted = admission(store, Rights(self._authorizer), self._catalogue, reach, setup.plugins)
        self._configurations = admitted.configurations
        self._tenant_policies = admitted.tenant_policies
        self._tenant_quotas = admitted.tenant_quotas
        self._spaces = Spaces(self._catalogue, store)
        self._storage_limit = StorageLimit(store, setup.storage_bytes, setup.storage_objects)
        registry = Registry(
            store,
            admitted.admit,
            ServiceClaims(store, Network(SERVICE_CIDR)),
            validate=admitted.validate,
            charges=admitted.charges,
            storage_limit=self._storage_limit,
        )
        reader = Reader(store, list)
        watches = Watches(Cacher(store), reader, time.monotonic)
        self._encoder = ResponseEncoder()
        self._verbs = Verbs(Backend(registry, reader, watches, Deleter(registry), self._encoder))

    def changed(self, changes: Sequence[Change]) -> None:
        notify(
            (
                self._authorizer.changed,
                self._configurations.changed,
                self._tenant_policies.changed,
                self._tenant_quotas.changed,
                self._storage_limit.changed,
                self._apply_definitions,
            ),
            changes,
            self._on_failed_change,
        )

    def _apply_definitions(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._catalogue.apply(change)

    def _on_failed_change(self, change: Change, error: Exception) -> None:
        """Drop what is cached of a tenant after a listener failed on one of its changes.

        The parent process counts the defect.
        """
        tenant = tenant_of(change.key)
        _log.error("a listener could not take a change", tenant=tenant, key=change.key, exc_info=error)
        self._authorizer.forget(tenant)
        self._configurations.forget(tenant)
        self._tenant_policies.forget()
        self._tenant_quotas.missed()
        self._storage_limit.missed()
        self._catalogue.forget(tenant)

    async def write(self, job: Job) -> JobResult:
        await self._spaces.prepare(job.tenant)
        info = job.info
        kind = self._spaces.kind(job.tenant, info.group, info.version, info.resource)
        if kind is None:
            raise StoreError(f"{info.resource} are not known yet")
        if hasattr(kind, "compiled"):
            await kind.compiled()
        request = job.request(kind)
        request.scope.size = THREAD_BYTES + 1  # run the steps on a thread: only expensive writes come here
        try:
            return JobResult.of(request.scope, await self._verbs.write(request), None)
        except StatusError as error:
            if (
                len(error.message) > THREAD_BYTES and not job.level
            ):  # the parent process records the error in the audit log
                reply = refusal(error, job.headers.accept, self._encoder.encode_status)
                return JobResult.of(request.scope, reply, None)
            return JobResult.of(request.scope, None, vars(error))


def split(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Split pieces so that none is longer than `size` bytes; omit empty ones."""
    return (piece[at : at + size] for piece in pieces for at in range(0, len(piece), size))


def _reach(link: Link) -> Reach:
    """Return a function that lets the parent process call a webhook."""

    async def reach(call: Call) -> bytes:
        body = None if call.body is None else call.body()
        found: bytes = await link.call("call", replace(call, body=None), body)
        return found

    return reach


def call_procedure(reach: Reach) -> Procedure:
    """Return the procedure that calls webhooks for the offload process."""

    async def call_webhook(call: Call, body: bytes | None) -> bytes:
        return await reach(call if body is None else replace(call, body=lambda: body))

    return call_webhook
