"""The other process: does writes for the first, which has the store, the listeners and the callers' credentials."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import structlog

from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.crd.convert import Reach
from vcsync.controlplane.egress.client import Call
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.authorizer import Authorizer
from vcsync.controlplane.kinds.service_claims import Network
from vcsync.controlplane.lane.jobs import Done, Job, Setup
from vcsync.controlplane.lane.link import Answer, Link
from vcsync.controlplane.lane.store import LinkedStore
from vcsync.controlplane.rest.admitting import admission
from vcsync.controlplane.rest.answers import Answers
from vcsync.controlplane.rest.deletion import Deleter
from vcsync.controlplane.rest.heavy import LARGE
from vcsync.controlplane.rest.hub import Hub
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.refusals import refusal
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.reply import Reply
from vcsync.controlplane.rest.rights import Rights
from vcsync.controlplane.rest.services import ServiceClaims
from vcsync.controlplane.rest.space import Spaces
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.rest.verbs import Request, Verbs
from vcsync.controlplane.rest.watching import Watches
from vcsync.controlplane.store.interface import Change, StoreError, tenant_of
from vcsync.controlplane.store.telling import tell
from vcsync.controlplane.tenants.defaults import SERVICE_CIDR
from vcsync.controlplane.wire import encode
from vcsync.controlplane.wire.negotiation import Representation
from vcsync.kube import logs, loop

PIECE = 128 * 1024
"""Bytes of a long text that go from one process to the other at once."""
NICER = 10
"""Others come first where processors are short."""
_log = structlog.get_logger(__name__)


def main(descriptor: int) -> None:
    """Work until the other end of a socket is gone."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the first process says when it is over
    logs.configure("warning", "json")
    os.umask(0o077)
    os.nice(NICER)
    loop.run(_serve(socket.socket(fileno=descriptor)))


async def _serve(connected: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connected)
    worker = Worker()
    answers: dict[str, Answer] = {"setup": worker.setup, "do": worker.do, "written": worker.written}
    worker.link = Link(reader, writer, answers, worker.changed)
    await worker.link.run()


class Worker:
    """What does jobs; `setup` makes it ready."""

    def __init__(self) -> None:
        """Begin with nothing; `link` is to be set before anything is asked."""
        self.link: Link
        self._parts: _Parts | None = None

    async def setup(self, wanted: Setup) -> None:
        """Make the parts."""
        self._parts = _Parts(self.link, wanted)
        loop.tune_gc()

    def changed(self, changes: Sequence[Change]) -> None:
        """Follow changes of what is kept in memory."""
        if self._parts is not None:
            self._parts.changed(changes)

    async def do(self, job: Job, number: int, long: bool) -> Done:
        """Do a job; what is refused is told as it would be. A long body or answer comes and goes as a text."""
        parts = self._parts
        assert parts is not None  # noqa: S101 - `setup` comes first
        done = await parts.do(replace(job, body=await self._asked(number)) if long else job)
        if done.reply is None or sum(map(len, done.reply.body)) <= PIECE:
            return done
        await self._told(number, done.reply.body)
        return replace(done, reply=replace(done.reply, body=()))

    async def written(self, number: int, how: Representation) -> None:
        """Write a text of JSON in another form."""
        data = await self._asked(number)
        await self._told(number, [await asyncio.to_thread(encode.written, data, how)])

    async def _asked(self, number: int) -> bytes:
        """Take a text of the first process, piece by piece."""
        pieces = []
        while piece := await self.link.ask("piece", number):
            pieces.append(piece)
        return b"".join(pieces)

    async def _told(self, number: int, text: Sequence[bytes]) -> None:
        """Give it one."""
        for piece in cut(text, PIECE):
            await self.link.ask("told", number, piece)


class _Parts:
    """What writes need; see `assemble`."""

    def __init__(self, link: Link, wanted: Setup) -> None:
        store, reach = LinkedStore(link), _reach(link)
        self._catalogue = Catalogue(reach=reach)
        self._authorizer = Authorizer(store, lambda _: True)
        admitted = admission(store, Rights(self._authorizer), self._catalogue, reach, wanted.plugins)
        self._configurations = admitted.configurations
        self._spaces = Spaces(self._catalogue, store)
        self._room = StorageLimit(store, wanted.storage_bytes, wanted.storage_objects)
        registry = Registry(
            store,
            admitted.admit,
            ServiceClaims(store, Network(SERVICE_CIDR)),
            validate=admitted.validate,
            charges=admitted.charges,
            room=self._room,
        )
        reader = Reader(store, list)
        watches = Watches(Hub(store), reader, time.monotonic)
        self._answers = Answers()
        self._verbs = Verbs(registry, reader, watches, Deleter(registry), self._answers)

    def changed(self, changes: Sequence[Change]) -> None:
        tell(
            (self._authorizer.changed, self._configurations.changed, self._room.changed, self._defined),
            changes,
            self._doubt,
        )

    def _defined(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._catalogue.apply(change)

    def _doubt(self, change: Change, error: Exception) -> None:
        """Read a tenant anew of which some change could not be taken; the first process counts the defect."""
        tenant = tenant_of(change.key)
        _log.error("a listener could not take a change", tenant=tenant, key=change.key, exc_info=error)
        self._authorizer.forget(tenant)
        self._configurations.forget(tenant)
        self._room.missed()
        self._catalogue.forget(tenant)

    async def do(self, job: Job) -> Done:
        await self._spaces.prepare(job.tenant)
        info = job.info
        kind = self._spaces.kind(job.tenant, info.group, info.version, info.resource)
        if kind is None:
            raise StoreError(f"{info.resource} are not known yet")
        if hasattr(kind, "compiled"):
            await kind.compiled()
        request = job.request(kind)
        request.scope.size = LARGE + 1  # it would not be here if it were not
        try:
            return Done.of(request.scope, await self._answer(request), None)
        except StatusError as error:
            if len(error.message) > LARGE and not job.level:  # the audit log is told of it there
                told = refusal(error, job.headers.accept, self._answers.error)
                return Done.of(request.scope, told, None)
            return Done.of(request.scope, None, vars(error))

    async def _answer(self, request: Request) -> Reply:
        verbs = self._verbs
        write = {
            "create": verbs.create,
            "update": verbs.update,
            "patch": verbs.patch,
            "delete": verbs.delete,
        }[request.info.verb]
        return await write(request)


def cut(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut what is longer than `size`; nothing is empty."""
    return (piece[at : at + size] for piece in pieces for at in range(0, len(piece), size))


def _reach(link: Link) -> Reach:
    async def reach(call: Call) -> bytes:
        body = None if call.body is None else call.body()
        found: bytes = await link.ask("call", replace(call, body=None), body)
        return found

    return reach


def told_call(reach: Reach) -> Any:
    """Return what answers the calls of the other process."""

    async def answer(call: Call, body: bytes | None) -> bytes:
        return await reach(call if body is None else replace(call, body=lambda: body))

    return answer
