"""The files of the audit log: one per tenant, rotated by size, and deleted by number, age and total size.

Calls block and are made by a thread. File names follow kube-apiserver: `acme.log`, and
`acme-2026-01-31T12-00-00.000.log` once rotated.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_BACKUP = re.compile(r"(?P<log>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}(\.\d+)?\.log")
_DAY = 86400.0


@dataclass(frozen=True)
class Bounds:
    """Limits of the files.

    Attributes:
        size: Bytes of a file before it is rotated.
        backups: Rotated files of one log.
        days: Days for which a file is kept after its last write.
        total: Bytes of all files together.
    """

    size: int = 100 * 2**20
    backups: int = 10
    days: int = 30
    total: int = 10 * 2**30


class Files:
    """Appends to the logs in a folder. Only one thread may use it.

    Args:
        folder: The folder. It is created if it does not exist.
        bounds: Limits of the files.
        clock: Returns seconds since 1970.

    Raises:
        OSError: The folder cannot be used.
    """

    def __init__(self, folder: Path, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._bounds = bounds
        self._clock = clock
        self._sizes: dict[str, int] = {}
        self._total = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sweep()

    def append(self, log: str, lines: Sequence[bytes]) -> None:
        """Append lines to a log. Rotates the file if they do not fit.

        Raises:
            OSError: The lines could not be written. Earlier lines are intact.
        """
        batch: list[bytes] = []
        size = self._size(log)
        for line in lines:
            if size and size + len(line) > self._bounds.size:
                self._write(log, batch)
                self._rotate(log)
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        self._write(log, batch)
        if self._total > self._bounds.total:
            self._shrink()

    def _path(self, log: str) -> Path:
        return self._folder / f"{log}.log"

    def _size(self, log: str) -> int:
        """Return the size of a log's file. The first call completes a line that a crash has truncated."""
        found = self._sizes.get(log)
        if found is not None:
            return found
        path, size = self._path(log), 0
        if path.exists():
            with path.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
                        size += 1
        self._sizes[log] = size
        return size

    def _write(self, log: str, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        data = b"".join(lines)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(self._path(log), flags, 0o600)
        try:
            with open(descriptor, "wb", buffering=0, closefd=False) as file:
                written = 0
                while written < len(data):
                    written += file.write(data[written:]) or 0
        except OSError:
            self._sizes.pop(log, None)  # a part of the lines may have been written
            raise
        finally:
            os.close(descriptor)
        self._sizes[log] = self._sizes.get(log, 0) + len(data)
        self._total += len(data)

    def _rotate(self, log: str) -> None:
        now = datetime.fromtimestamp(self._clock(), UTC)
        stem = f"{log}-{now.strftime('%Y-%m-%dT%H-%M-%S')}.{now.microsecond // 1000:03d}"
        target, number = self._folder / f"{stem}.log", 0
        while target.exists():
            number += 1
            target = self._folder / f"{stem}.{number}.log"
        self._path(log).rename(target)
        self._sizes[log] = 0
        backups = [path for path in self._logs() if _log_of(path) == log and path != self._path(log)]
        for path in _oldest_first(backups)[: max(0, len(backups) - self._bounds.backups)]:
            self._remove(path)

    def sweep(self) -> None:
        """Delete files that are too old or too many, and count the remaining ones."""
        oldest = self._clock() - self._bounds.days * _DAY
        for path in list(self._logs()):
            if path.stat().st_mtime < oldest:
                self._remove(path)
        self._total = sum(path.stat().st_size for path in self._logs())
        self._sizes.clear()
        self._shrink()

    def _shrink(self) -> None:
        """Delete the oldest files of the log with the most bytes, until the total is within the limit."""
        if self._total <= self._bounds.total:
            return
        by_log: dict[str, list[Path]] = {}
        sizes: Counter[str] = Counter()
        for path in self._logs():
            by_log.setdefault(_log_of(path), []).append(path)
            sizes[_log_of(path)] += path.stat().st_size
        left = {log: _oldest_first(paths) for log, paths in by_log.items()}
        while self._total > self._bounds.total and left:
            most = max(left, key=lambda log: sizes[log])
            path = left[most].pop(0)
            sizes[most] -= path.stat().st_size
            self._remove(path)
            if not left[most]:
                del left[most]

    def _remove(self, path: Path) -> None:
        self._total -= path.stat().st_size
        path.unlink()
        self._sizes.pop(path.name.removesuffix(".log"), None)

    def _logs(self) -> Iterator[Path]:
        return (path for path in self._folder.glob("*.log") if path.is_file() and not path.is_symlink())


def _log_of(path: Path) -> str:
    match = _BACKUP.fullmatch(path.name)
    return match["log"] if match else path.name.removesuffix(".log")


def _oldest_first(paths: Sequence[Path]) -> list[Path]:
    """Sort the files of one log: rotated files by time, and the current one last."""
    return sorted(paths, key=lambda path: (_BACKUP.fullmatch(path.name) is None, path.name))
