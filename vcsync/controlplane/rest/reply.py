"""What goes back to a client, before it is HTTP. Pure."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field


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
