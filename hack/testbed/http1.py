"""The part of HTTP/1.1 that is necessary to forward messages and to cut them at any point (RFC 9112)."""

from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE_BYTES = 64 << 10
HEAD_BYTES = 64 << 10
"""Maximum length of a message's head; the readers must have at least this limit."""


class BadMessageError(Exception):
    """The peer does not speak HTTP/1.1."""


@dataclass(frozen=True)
class Head:
    """Start line and headers of a message."""

    raw: bytes
    start: tuple[str, str, str]
    """The three words of the start line: method, target, version; or version, status, reason."""
    headers: dict[str, str]
    """Lower-case name -> value; the last one of repeated headers."""

    @property
    def status(self) -> int:
        return int(self.start[1])

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        """Length of the body in bytes; None if the headers do not state it."""
        text = self.headers.get("content-length")
        return None if text is None else int(text)

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this message."""
        return "close" in self.headers.get("connection", "").lower()

    def without(self, header: str) -> bytes:
        """The raw head without one header."""
        lines = self.raw.split(b"\r\n")
        return b"\r\n".join(line for line in lines if not line.lower().startswith(header.encode() + b":"))


async def read_head(reader: StreamReader) -> Head | None:
    """Return the next message's head; None if the peer has closed the connection before it.

    Raises:
        BadMessageError: the data is not a head, or the head is too long.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except IncompleteReadError:
        return None
    except LimitOverrunError as error:
        raise BadMessageError("head too long") from error
    return parse_head(raw)


def parse_head(raw: bytes) -> Head:
    """Parse a head.

    Raises:
        BadMessageError: it is malformed.
    """
    first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ", 2)
    if len(words) < 2:
        raise BadMessageError(f"not a start line: {first!r}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Head(raw, (words[0], words[1], words[2] if len(words) > 2 else ""), headers)


async def body(reader: StreamReader, head: Head, *, until_close: bool) -> AsyncIterator[bytes]:
    """Yield the pieces of a message's body, without chunk framing.

    Args:
        reader: of the message.
        head: of the message.
        until_close: whether a body without a stated length lasts until the connection closes (responses) or is empty
            (requests).

    Raises:
        IncompleteReadError: the connection closed in the middle of the body.
    """
    if head.chunked:
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
    elif head.length is not None:
        left = head.length
        while left:
            piece = await reader.read(min(left, PIECE_BYTES))
            if not piece:
                raise IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
    elif until_close:
        while piece := await reader.read(PIECE_BYTES):
            yield piece


def has_body(method: str, response: Head) -> bool:
    """Return whether the response to a request with this method has a body."""
    return method != "HEAD" and response.status not in {204, 304} and response.status >= 200


def chunk(data: bytes) -> bytes:
    """Return data framed as one chunk; empty data is the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
