"""The parent's side of the offload process: starts it when it is needed, gives it jobs, and ends it."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import structlog

import vcsync
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.admission.tenant_policies import following as tenant_policies
from vcsync.apiserver.apiextensions.conversion import Reach
from vcsync.apiserver.flow.write_limiter import release_current_slot
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.offload.jobs import Job, JobResult, Setup
from vcsync.apiserver.offload.link import Link, LinkLost
from vcsync.apiserver.offload.remote_storage import store_procedures
from vcsync.apiserver.offload.worker import PIECE, call_procedure, split
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.storage.interface import Change, Store, StoreError
from vcsync.apiserver.tenants.quota_records import QUOTAS
from vcsync.process import watchdog
from vcsync.process.end_signal import END_SIGNAL
from vcsync.process.stall_report import Suspects, suspects
from vcsync.process.tasks import retrieve

IDLE_SECONDS = 300.0
"""Time after which the offload process is ended if it has no job."""
END_SECONDS = 5.0
"""Time that the offload process has to end before it is killed."""
FOLLOWED = (
    "/apiextensions.k8s.io/",
    "/admissionregistration.k8s.io/",
    "/rbac.authorization.k8s.io/",
    *tenant_policies.FOLLOWED,
    QUOTAS,
)
"""Parts of the keys whose objects the offload process caches. It is notified of their changes."""
Stalled = Callable[[Suspects], Awaitable[None]]
"""Records whose work stalled the offload process. Raises StoreError if the store cannot be read or written."""
_log = structlog.get_logger(__name__)


class OffloadProcess:
    """Runs expensive writes in another process.

    Args:
        store: The store, which the offload process uses through this one.
        reach: Calls webhooks for the offload process.
        setup: Configuration of the offload process.
        stalled: Called with whose work made the offload process end because its event loop stood.
    """

    def __init__(self, store: Store, reach: Reach, setup: Setup, stalled: Stalled | None = None) -> None:
        self._stalled = stalled
        self._procedures = {
            **store_procedures(store),
            "call": call_procedure(reach),
            "next_piece": self._next_piece,
            "add_piece": self._add_piece,
        }
        self._transfers: dict[int, tuple[Iterator[bytes], list[bytes]]] = {}
        self._transfer_ids = count()
        self._setup = setup
        self._link: Link | None = None
        self._starting: asyncio.Task[Link] | None = None
        self._running: asyncio.Task[None] | None = None
        self._jobs = 0
        self._idle: asyncio.TimerHandle | None = None

    def changed(self, changes: Sequence[Change]) -> None:
        """Notify the offload process of changes. Does nothing while there is no such process."""
        if self._link is None:
            return
        wanted = [each for each in changes if any(mark in each.key for mark in FOLLOWED)]
        if wanted:
            self._link.notify(wanted)

    async def write(self, request: Request, body: bytes) -> Reply:
        """Run a write in the offload process.

        Raises:
            StatusError: The write is refused.
            LinkLost, Defect: It is not known whether the write was committed.
        """
        long = len(body) > PIECE
        with self._transfer([body] if long else []) as (number, received):
            job = Job.of(request, b"" if long else body)
            result: JobResult = await self._call("write", job, number, long)
        result.apply_to(request.scope)
        if result.reply is None:
            raise _error(result)
        return replace(result.reply, body=received) if received else result.reply

    async def encode(self, data: Sequence[bytes], representation: Representation) -> Sequence[bytes]:
        """Convert pieces of JSON to another representation in the offload process; see `encode.written`.

        Raises:
            LinkLost, Defect: The conversion failed.
        """
        with self._transfer(data) as (number, received):
            await self._call("encode", number, representation)
        return received

    @contextmanager
    def _transfer(self, data: Sequence[bytes]) -> Iterator[tuple[int, list[bytes]]]:
        """Let the offload process fetch a long text and send one back while the block runs.

        Yields:
            The number by which the offload process names the transfer, and the pieces that it has sent.
        """
        number, received = next(self._transfer_ids), list[bytes]()
        self._transfers[number] = (split(data, PIECE), received)
        try:
            yield number, received
        finally:
            del self._transfers[number]

    async def _next_piece(self, number: int) -> bytes:
        """Return the next piece of a text. Empty: the text is complete, or its transfer was cancelled."""
        pieces, _ = self._transfers.get(number, (iter(()), []))
        return next(pieces, b"")

    async def _add_piece(self, number: int, piece: bytes) -> None:
        """Add a piece to the text that the offload process sends."""
        _, received = self._transfers.get(number, (iter(()), []))
        received.append(piece)

    async def _call(self, name: str, *arguments: Any) -> Any:
        release_current_slot()
        self._jobs += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            return await (await self._connected()).call(name, *arguments)
        finally:
            self._jobs -= 1
            if not self._jobs:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.forget)

    async def _connected(self) -> Link:
        if self._link is not None:
            return self._link
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="offload start")
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, start: asyncio.Task[Link]) -> None:
        self._starting = None
        retrieve(start)

    async def _start(self) -> Link:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "vcsync.apiserver.offload", str(theirs.fileno()), *_stall_limits(),
                    pass_fds=[theirs.fileno()], stdin=asyncio.subprocess.DEVNULL, env=_environment(),
                )  # fmt: skip
            except OSError as error:
                ours.close()
                _log.warning("the offload process cannot be started", error=str(error))
                raise errors.unavailable(
                    "expensive requests cannot be served now, please try again later"
                ) from None
        reader, writer = await asyncio.open_connection(sock=ours)
        link = Link(reader, writer, self._procedures)
        self._running = asyncio.create_task(self._run(link, process), name="offload link")
        # From here on it is notified of every change, so that nothing it reads later is older than a change it missed.
        self._link = link
        await link.call("setup", self._setup)
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
                    _log.warning("the offload process ended", code=code)
                if code == -END_SIGNAL:
                    await self._record_stall()

    async def _record_stall(self) -> None:
        folder = _reports()
        if self._stalled is None or folder is None:
            return
        try:
            await self._stalled(suspects(await asyncio.to_thread(watchdog.left_report, folder)))
        except (OSError, StoreError) as error:
            _log.warning("a stall cannot be recorded", error=str(error))

    def forget(self) -> None:
        """End the offload process because it is idle or may have missed changes. Its jobs fail with LinkLost."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def stop(self) -> None:
        """End the offload process and wait until it is gone."""
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self.forget()
        if self._running is not None:
            await asyncio.wait([self._running])


def _error(result: JobResult) -> Exception:
    fields = result.error
    if fields is None:
        return errors.internal("the offload process returned no answer")
    return StatusError(**fields)  # type: ignore[arg-type]


def _reports() -> Path | None:
    """Return the folder of the offload process's reports of stalls, if this process has one for its own."""
    own = watchdog.LIMITS.folder
    return None if own is None else own / "offload"


def _stall_limits() -> tuple[str, ...]:
    """Return the arguments of the offload process that limit stalls."""
    folder = _reports()
    return (str(watchdog.LIMITS.end), *(() if folder is None else (str(folder),)))


def _environment() -> dict[str, str]:
    root = str(Path(vcsync.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


__all__ = ["LinkLost", "OffloadProcess"]
