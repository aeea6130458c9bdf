"""The audit log's files: one for each tenant, rotated by size, dropped by number, age and total size.

Calls block; a thread makes them. Names are those of kube-apiserver's log: `acme.log`, rotated
`acme-2026-01-31T12-00-00.000.log`.
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
    """How much is kept.

    Attributes:
        size: bytes of a file before it is rotated.
        backups: rotated files of one log.
        days: that a file is kept after it was last written to.
        total: bytes of all files together.
    """

    size: int = 100 * 2**20
    backups: int = 10
    days: int = 30
    total: int = 10 * 2**30


class Files:
    """Appends to logs in one folder; for one thread."""

    def __init__(self, folder: Path, bounds: Bounds, clock: Callable[[], float]) -> None:
        """Take the folder, made if it is not there, and what gives seconds since 1970.

        Raises:
            OSError: it cannot be used.
        """
        self._folder = folder
        self._bounds = bounds
        self._clock = clock
        self._sizes: dict[str, int] = {}
        self._total = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sweep()

    def append(self, log: str, lines: Sequence[bytes]) -> None:
        """Append lines to a log, a new file for what does not fit.

        Raises:
            OSError: they could not be written; what was before is whole.
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
        """Return the size of a log's file; the first time, end a line that a crash has cut."""
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
            self._sizes.pop(log, None)  # a part may stand there: look anew
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
        """Drop what is too old, and count what there is."""
        oldest = self._clock() - self._bounds.days * _DAY
        for path in list(self._logs()):
            if path.stat().st_mtime < oldest:
                self._remove(path)
        self._total = sum(path.stat().st_size for path in self._logs())
        self._sizes.clear()
        self._shrink()

    def _shrink(self) -> None:
        """Drop the oldest files of whoever has most, until everything together is small enough."""
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
    """Order the files of one log: rotated ones by their time, the one that is written to last."""
    return sorted(paths, key=lambda path: (_BACKUP.fullmatch(path.name) is None, path.name))
