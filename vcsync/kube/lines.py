"""Splits a stream of bytes into lines. Pure."""

from collections.abc import Sequence

LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of a line. etcd limits objects to 1.5 MiB, so only a hostile server exceeds it."""


class LineTooLong(ValueError):
    """A line exceeds the limit."""


class LineSplitter:
    """Collects chunks, and returns complete lines. The bytes after the last line break stay pending.

    Args:
        longest: Most bytes of a line.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes of the incomplete line."""
        return self._size

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Add a chunk. Return the lines that it completes, without line breaks and empty lines.

        Raises:
            LineTooLong: The pending line exceeds the limit.
        """
        head, *lines = chunk.split(b"\n")
        if not lines:
            return self._keep(head)
        if self._parts:
            self._parts.append(head)
            head = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        tail = lines.pop()
        lines.insert(0, head)
        self._keep(tail)
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> Sequence[bytes]:
        if part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > self._longest:
                raise LineTooLong(f"a line of more than {self._longest} bytes")
        return ()
