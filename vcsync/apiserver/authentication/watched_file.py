"""A configuration file that is read again when it changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

CHECK_SECONDS = 1.0
"""Minimum time between two checks of a file."""

_log = structlog.get_logger(__name__)
_Content = TypeVar("_Content")


class WatchedFile(Generic[_Content]):
    """The content of a file. If the file becomes invalid, the last valid content stays in effect.

    Attributes:
        content: The last valid content.
    """

    def __init__(
        self, path: Path, read: Callable[[Path], _Content], clock: Callable[[], float], gone: _Content | None
    ) -> None:
        """Read the file. `gone` is the content of a missing file; None: the last valid content.

        Raises:
            OSError: The file cannot be read.
            ValueError: `read` refuses its content.
        """
        self.path = path
        self._read = read
        self._clock = clock
        self._gone = gone
        self._checked = clock()
        self._stamp = self._stat()
        self.content = read(path)

    def refresh(self) -> bool:
        """Read the file if it has changed. Returns whether `content` is new."""
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
