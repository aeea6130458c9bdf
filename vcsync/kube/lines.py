"""Cutting a byte stream into lines of any sensible length."""

from collections.abc import Sequence

LONGEST_LINE = (
    64 * 1024 * 1024
)  # bytes; etcd takes objects of 1.5 MiB, so this is only to stop a hostile server


class LineTooLong(ValueError):
    """A line grew beyond all reason."""


class LineSplitter:
    """Collects chunks and gives back whole lines; what follows the last line break stays pending.

    Args:
        longest: bytes a line may have.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun but not ended."""
        return self._size

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Take a chunk; return the lines it completes, without line breaks and without empty ones.

        Raises:
            LineTooLong: the pending line has outgrown the limit.
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
