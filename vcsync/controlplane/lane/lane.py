"""The first process' end of the slow lane: starts the other when it is needed, gives it jobs, ends it."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import structlog

import vcsync
from vcsync.controlplane import errors
from vcsync.controlplane.crd.convert import Reach
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.hands import put_down
from vcsync.controlplane.lane.jobs import Done, Job, Setup
from vcsync.controlplane.lane.link import Link, LinkLost
from vcsync.controlplane.lane.store import answers
from vcsync.controlplane.lane.worker import PIECE, cut, told_call
from vcsync.controlplane.rest.reply import Reply
from vcsync.controlplane.rest.verbs import Request
from vcsync.controlplane.store.interface import Change, Store
from vcsync.controlplane.tenants.records import TENANTS
from vcsync.controlplane.wire.negotiation import Representation

IDLE_SECONDS = 300.0
"""How long the other process is kept without a job."""
END_SECONDS = 5.0
FOLLOWED = (
    "/apiextensions.k8s.io/",
    "/admissionregistration.k8s.io/",
    "/rbac.authorization.k8s.io/",
    TENANTS,
)
"""What the other process keeps in memory stands at keys with these: it is told of their changes."""
_log = structlog.get_logger(__name__)


class Lane:
    """Writes in another process."""

    def __init__(self, store: Store, reach: Reach, setup: Setup) -> None:
        """Take the store, what calls webhooks, and what the other process is told when it begins."""
        self._answers = {
            **answers(store),
            "call": told_call(reach),
            "piece": self._piece,
            "told": self._piece_told,
        }
        self._texts: dict[int, tuple[Iterator[bytes], list[bytes]]] = {}
        self._numbers = count()
        self._setup = setup
        self._link: Link | None = None
        self._starting: asyncio.Task[Link] | None = None
        self._running: asyncio.Task[None] | None = None
        self._jobs = 0
        self._idle: asyncio.TimerHandle | None = None

    def changed(self, changes: Sequence[Change]) -> None:
        """Tell the other process of changes; costs nothing while there is none."""
        if self._link is None:
            return
        wanted = [each for each in changes if any(mark in each.key for mark in FOLLOWED)]
        if wanted:
            self._link.tell(wanted)

    async def do(self, request: Request, body: bytes) -> Reply:
        """Do a write there.

        Raises:
            StatusError: it is refused.
            LinkLost, Defect: nobody knows what came of it.
        """
        long = len(body) > PIECE
        with self._text([body] if long else []) as (number, told):
            done: Done = await self._ask("do", Job.of(request, b"" if long else body), number, long)
        done.told(request.scope)
        if done.reply is None:
            raise _error(done)
        return replace(done.reply, body=told) if told else done.reply

    async def written(self, data: Sequence[bytes], how: Representation) -> Sequence[bytes]:
        """Write pieces of JSON in another form there; see `encode.written`. What is long comes and goes in pieces.

        Raises:
            LinkLost, Defect: it failed.
        """
        with self._text(data) as (number, told):
            await self._ask("written", number, how)
        return told

    @contextmanager
    def _text(self, data: Sequence[bytes]) -> Iterator[tuple[int, list[bytes]]]:
        """Let the other process have a text while it asks for it by a number, and tell one."""
        number, told = next(self._numbers), list[bytes]()
        self._texts[number] = (cut(data, PIECE), told)
        try:
            yield number, told
        finally:
            del self._texts[number]

    async def _piece(self, number: int) -> bytes:
        """Give the other process more of a text; nothing: that was all, or nobody waits for it any more."""
        pieces, _ = self._texts.get(number, (iter(()), []))
        return next(pieces, b"")

    async def _piece_told(self, number: int, piece: bytes) -> None:
        """Take what the other process has written."""
        _, told = self._texts.get(number, (iter(()), []))
        told.append(piece)

    async def _ask(self, what: str, *arguments: Any) -> Any:
        put_down()
        self._jobs += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            return await (await self._connected()).ask(what, *arguments)
        finally:
            self._jobs -= 1
            if not self._jobs:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.forget)

    async def _connected(self) -> Link:
        if self._link is not None:
            return self._link
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="lane")
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, _: asyncio.Task[Link]) -> None:
        self._starting = None

    async def _start(self) -> Link:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "vcsync.controlplane.lane", str(theirs.fileno()),
                    pass_fds=[theirs.fileno()], stdin=asyncio.subprocess.DEVNULL, env=_environment(),
                )  # fmt: skip
            except OSError as error:
                ours.close()
                _log.warning("the slow lane's process cannot be started", error=str(error))
                raise errors.unavailable(
                    "what takes long cannot be done now, please try again later"
                ) from None
        reader, writer = await asyncio.open_connection(sock=ours)
        link = Link(reader, writer, self._answers)
        self._running = asyncio.create_task(self._run(link, process), name="lane link")
        # From here on it is told of every change: what it reads later is never older than what it was told.
        self._link = link
        await link.ask("setup", self._setup)
        return link

    async def _run(self, link: Link, process: asyncio.subprocess.Process) -> None:
        try:
            await link.run()
        finally:
            if self._link is link:
                self._link = None
            link.close()
            with suppress(ProcessLookupError):
                try:
                    code = await asyncio.wait_for(process.wait(), END_SECONDS)
                except TimeoutError:
                    process.kill()
                    code = await process.wait()
                if code:
                    _log.warning("the slow lane's process ended", code=code)

    def forget(self) -> None:
        """Let the other process end: it is not needed, or may have missed changes; jobs that it has are lost."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def stop(self) -> None:
        """End it."""
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self.forget()
        if self._running is not None:
            await asyncio.wait([self._running])


def _error(done: Done) -> Exception:
    fields = done.error
    return errors.internal("no answer") if fields is None else StatusError(**fields)  # type: ignore[arg-type]


def _environment() -> dict[str, str]:
    root = str(Path(vcsync.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


__all__ = ["Lane", "LinkLost"]
