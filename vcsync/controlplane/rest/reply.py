"""What goes back to a client, before it is HTTP. Pure."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Reply:
    """A whole answer; `body` is sent piece by piece."""

    status: int
    body: Sequence[bytes]
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Stream:
    """An answer that goes on: every piece is sent at once."""

    content_type: str
    pieces: AsyncIterator[bytes]
