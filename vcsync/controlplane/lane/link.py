"""Two processes that ask each other, over one socket: pickled messages, each behind its length.

Both ends are this program's own, and nobody else has the socket.
"""

import asyncio
import pickle
import traceback
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.store.interface import StoreError, StoreFull, StoreUnavailable

HEADER = 8
MOST_UNREAD = 256 * 2**20
"""Bytes that may wait for the other end; it is stuck if there are more."""
_STORE_ERRORS: Mapping[str, type[StoreError]] = {
    each.__name__: each for each in (StoreError, StoreFull, StoreUnavailable)
}

Answer = Callable[..., Awaitable[Any]]


class LinkLost(Exception):
    """The other end is gone; what it was asked may have been done or not."""


class Defect(Exception):
    """Something unexpected happened at the other end; the message is its traceback."""


class Link:
    """One end. `run` it while it is used."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: Mapping[str, Answer],
        told: Callable[[Any], None] = lambda _: None,
    ) -> None:
        """Take the socket, what answers each question of the other end, and what takes what it merely tells."""
        self._reader = reader
        self._writer = writer
        self._answers = answers
        self._told = told
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._lost = False

    async def ask(self, what: str, *arguments: Any) -> Any:
        """Return the other end's answer; who waits no longer lets it stop.

        Raises:
            LinkLost: there is none.
            Defect: it failed unexpectedly.
            StatusError, StoreError, CallFailed: as it failed there.
        """
        if self._lost:
            raise LinkLost
        number = next(self._numbers)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(("ask", number, what, arguments))
        try:
            return await future
        except asyncio.CancelledError:
            self._send(("stop", number))
            raise
        finally:
            del self._asked[number]

    def tell(self, what: Any) -> None:
        """Tell the other end something, in order with all else."""
        self._send(("tell", what))

    async def run(self) -> None:
        """Answer, and take answers, until the other end is gone or this is cancelled."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(HEADER), "big")
                self._take(pickle.loads(await self._reader.readexactly(size)))  # noqa: S301 - our own process
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._lost = True
            for task in self._answering.values():
                task.cancel()
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(LinkLost())
            self._writer.close()

    def close(self) -> None:
        """End it; the other end notices."""
        self._writer.close()

    def _take(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("ask", number, what, arguments):
                self._answering[number] = asyncio.create_task(self._answer(number, what, arguments))
            case ("stop", number):
                if number in self._answering:
                    self._answering[number].cancel()
            case ("answer", number, value):
                if (future := self._asked.get(number)) is not None and not future.done():
                    future.set_result(value)
            case ("failed", number, kind, fields):
                if (future := self._asked.get(number)) is not None and not future.done():
                    future.set_exception(_error(kind, fields))
            case ("tell", what):
                self._told(what)

    async def _answer(self, number: int, what: str, arguments: tuple[Any, ...]) -> None:
        try:
            self._send(("answer", number, await self._answers[what](*arguments)))
        except asyncio.CancelledError:
            pass  # nobody waits for it
        except Exception as error:  # noqa: BLE001 - who asked is told
            self._send(("failed", number, *_failure(error)))
        finally:
            del self._answering[number]

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._lost or self._writer.is_closing():
            return
        data = pickle.dumps(message, protocol=5)
        self._writer.write(len(data).to_bytes(HEADER, "big"))
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > MOST_UNREAD:
            self._writer.transport.abort()


def _failure(error: Exception) -> tuple[str, Any]:
    if isinstance(error, StatusError):
        return "StatusError", vars(error)
    if isinstance(error, CallFailed):
        return "CallFailed", (str(error), error.code)
    if isinstance(error, StoreError):
        return type(error).__name__, str(error)
    return "Defect", "".join(traceback.format_exception(error))


def _error(kind: str, fields: Any) -> Exception:
    if kind == "StatusError":
        return StatusError(**fields)
    if kind == "CallFailed":
        return CallFailed(*fields)
    return Defect(fields) if kind == "Defect" else _STORE_ERRORS.get(kind, StoreError)(fields)
