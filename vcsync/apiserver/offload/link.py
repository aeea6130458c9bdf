"""Remote procedure calls between two processes over one socket, in both directions.

Messages are pickled and preceded by their length. That is safe because both ends are this program and no other process
has the socket.
"""

import asyncio
import pickle
import traceback
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.storage.assumptions import AssumptionFailed
from vcsync.apiserver.storage.interface import StoreError, StoreFull, StoreUnavailable

HEADER = 8
"""Bytes of the length that precedes each message, big endian."""
MAX_UNREAD = 256 * 2**20
"""Bytes that may wait in the send buffer. The connection is aborted beyond that: the other end is stuck."""
_STORE_ERRORS: Mapping[str, type[StoreError]] = {
    each.__name__: each for each in (AssumptionFailed, StoreError, StoreFull, StoreUnavailable)
}

Procedure = Callable[..., Awaitable[Any]]


class LinkLost(Exception):
    """The other end is gone. It is not known whether it has done what it was called for."""


class Defect(Exception):
    """The call raised an unexpected error at the other end; the message is its traceback."""


class Link:
    """One end of the connection. `run` it while it is used.

    Args:
        reader, writer: The socket.
        procedures: What the other end may call, by name.
        on_notification: Called with what the other end sends without waiting for a result.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        procedures: Mapping[str, Procedure],
        on_notification: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._procedures = procedures
        self._on_notification = on_notification
        self._call_ids = count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._lost = False

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call a procedure of the other end and return its result. Cancelling the call cancels it at the other end.

        Raises:
            LinkLost: The connection ended before the result arrived.
            Defect: The procedure raised an unexpected error.
            StatusError, StoreError, CallFailed: The procedure raised this error.
        """
        if self._lost:
            raise LinkLost
        number = next(self._call_ids)
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        self._send(("call", number, name, arguments))
        try:
            return await future
        except asyncio.CancelledError:
            self._send(("cancel", number))
            raise
        finally:
            del self._pending[number]

    def notify(self, message: Any) -> None:
        """Send a message to the other end without waiting for it. It arrives in order with calls."""
        self._send(("notify", message))

    async def run(self) -> None:
        """Process incoming messages until the other end is gone or this is cancelled."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(HEADER), "big")
                self._receive(pickle.loads(await self._reader.readexactly(size)))  # noqa: S301 - our own process
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._lost = True
            for task in self._running.values():
                task.cancel()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(LinkLost())
            self._writer.close()

    def close(self) -> None:
        """Close the connection; `run` of both ends returns."""
        self._writer.close()

    def _receive(self, received: tuple[Any, ...]) -> None:
        match received:
            case ("call", number, name, arguments):
                self._running[number] = asyncio.create_task(self._execute(number, name, arguments))
            case ("cancel", number):
                if number in self._running:
                    self._running[number].cancel()
            case ("result", number, value):
                if (future := self._pending.get(number)) is not None and not future.done():
                    future.set_result(value)
            case ("failed", number, kind, fields):
                if (future := self._pending.get(number)) is not None and not future.done():
                    future.set_exception(_error(kind, fields))
            case ("notify", message):
                self._on_notification(message)

    async def _execute(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            self._send(("result", number, await self._procedures[name](*arguments)))
        except asyncio.CancelledError:
            pass  # the caller no longer waits for the result
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._send(("failed", number, *_failure(error)))
        finally:
            del self._running[number]

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._lost or self._writer.is_closing():
            return
        data = pickle.dumps(message, protocol=5)
        self._writer.write(len(data).to_bytes(HEADER, "big"))
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
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
