"""A file of the operator's that is read anew when it changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

CHECK_SECONDS = 1.0
"""A file is looked at no more often than this."""

_log = structlog.get_logger(__name__)
_Content = TypeVar("_Content")


class WatchedFile(Generic[_Content]):
    """What a file says, as it is now; one that breaks leaves what was known.

    Attributes:
        content: as it was last read.
    """

    def __init__(
        self, path: Path, read: Callable[[Path], _Content], clock: Callable[[], float], gone: _Content | None
    ) -> None:
        """Read the file. `gone`: what holds when the file is away; None: what was known.

        Raises:
            OSError: it cannot be read.
            ValueError: `read` cannot make sense of it.
        """
        self.path = path
        self._read = read
        self._clock = clock
        self._gone = gone
        self._checked = clock()
        self._stamp = self._stat()
        self.content = read(path)

    def refresh(self) -> bool:
        """Read the file if it changed; return whether `content` is another now."""
        now = self._clock()
        if 0 <= now - self._checked < CHECK_SECONDS:
            return False
        self._checked = now
        try:
            stamp = self._stat()
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self.content = self._read(self.path)
        except FileNotFoundError:
            if self._gone is None or self._stamp == (0, 0, 0):
                return False
            self.content, self._stamp = self._gone, (0, 0, 0)
        except (OSError, ValueError) as error:
            _log.warning("file cannot be used", file=str(self.path), error=str(error))
            return False
        return True

    def _stat(self) -> tuple[int, int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
