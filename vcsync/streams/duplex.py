"""Protocols of what carries bytes in one direction or both."""

from typing import Protocol


class BytesIn(Protocol):
    """A source of bytes."""

    async def read(self) -> bytes:
        """Return the next bytes, or nothing at the end."""
        ...


class BytesOut(Protocol):
    """A sink of bytes."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until there is room for more."""
        ...


class Duplex(BytesIn, BytesOut, Protocol):
    """A connection."""
