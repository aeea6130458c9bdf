"""What goes back to a client, before it is HTTP. Pure."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Reply:
    """A whole answer; an empty `content_type`: it tells none.

    `body` is sent piece by piece, then what `rest` gives: a long list is never at hand as a whole.
    """

    status: int
    body: Sequence[bytes]
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: AsyncIterator[bytes] | None = None


def _not_open(_: bytes) -> bool:
    return False


@dataclass(slots=True)
class Outlet:
    """A short cut to the client of a stream, so that its task need not be woken for every piece.

    Attributes:
        write: sends a piece; False: it cannot go now, and belongs into the stream. Only to be called while the
            stream's consumer waits for the next piece: whatever came before is on its way then.
    """

    write: Callable[[bytes], bool] = _not_open


@dataclass(slots=True)
class Stream:
    """An answer that goes on: every piece is sent at once.

    Attributes:
        outlet: opened by whoever sends the pieces, if it can.
    """

    content_type: str
    pieces: AsyncIterator[bytes]
    outlet: Outlet = field(default_factory=Outlet)


class BytesIn(Protocol):
    """Where bytes come from."""

    async def read(self) -> bytes:
        """Return the next ones; none: the end."""
        ...


class BytesOut(Protocol):
    """Where bytes go."""

    async def write(self, data: bytes) -> None:
        """Send them, and wait for room."""
        ...


@dataclass(slots=True)
class Tunnel(Stream):
    """An answer after which the connection carries another protocol.

    Attributes:
        head: of the answer, with its last empty line.
        carry: carries bytes both ways until either side ends; it is called with the client's.
    """

    head: bytes = b""
    carry: Callable[[BytesIn, BytesOut], Coroutine[None, None, None]] | None = None


def text(status: int, said: str) -> Reply:
    """Answer with a text that no browser shall take for anything else."""
    return Reply(status, [said.encode()], "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})
