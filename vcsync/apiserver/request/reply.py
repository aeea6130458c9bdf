"""Responses before they are encoded as HTTP. Pure."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vcsync.streams.duplex import BytesIn, BytesOut


@dataclass(slots=True)
class Reply:
    """A response that ends.

    Attributes:
        status: HTTP status code.
        body: Pieces of the body.
        content_type: Content-Type header, or nothing.
        headers: Further headers.
        rest: Yields the pieces after `body`, so that a long list is never in memory as a whole.
        verbatim: Whether the body is sent as it is, because another server has decided whether to compress it.
    """

    status: int
    body: Sequence[bytes]
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: AsyncIterator[bytes] | None = None
    verbatim: bool = False


def _not_open(_: bytes) -> bool:
    return False


@dataclass(slots=True)
class Outlet:
    """A direct way to the client of a stream, so that the stream's task is not woken for every piece.

    Attributes:
        write: Sends a piece. Returns False if the piece cannot be sent now and must go through the stream. It may be
            called only while the consumer of the stream waits for the next piece, so that pieces stay in order.
    """

    write: Callable[[bytes], bool] = _not_open


@dataclass(slots=True)
class Stream:
    """A response without a fixed end. Every piece is sent at once.

    Attributes:
        outlet: Direct way to the client, which the sender of the pieces opens if it can.
        headers: Further headers.
    """

    content_type: str
    pieces: AsyncIterator[bytes]
    outlet: Outlet = field(default_factory=Outlet)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Tunnel(Stream):
    """A response after which the connection carries another protocol.

    Attributes:
        head: Head of the response, including the empty line.
        carry: Called with the client's source and sink; carries bytes both ways until either side ends.
    """

    head: bytes = b""
    carry: Callable[[BytesIn, BytesOut], Coroutine[None, None, None]] | None = None


def headers_by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name. Repetitions are joined by commas, which means the same (RFC 9110, section 5.3)."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in pairs:
        known = names.setdefault(name.lower(), name)
        found[known] = f"{found[known]}, {value}" if known in found else value
    return found


def text(status: int, said: str) -> Reply:
    """Return a plain text response whose type browsers must not guess."""
    return Reply(status, [said.encode()], "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})
