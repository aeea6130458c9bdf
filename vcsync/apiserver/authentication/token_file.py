"""Static tokens of a file, which is read again when it changes. Its lines are `token,user,uid,"group,group"[,tenant]`.

A token without a tenant, as in kube-apiserver's format, belongs to the system space.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.watched_file import WatchedFile
from vcsync.apiserver.request.caller import MASTERS, SYSTEM

_COLUMNS = 3


class TokenFileError(ValueError):
    """The file is invalid. The message names the line."""


@dataclass(frozen=True, slots=True)
class Known:
    """The user and tenant of a token."""

    user: User
    tenant: str


def parse(lines: Iterable[str]) -> dict[bytes, Known]:
    """Parse tokens. Returns users by the digest of their token.

    Raises:
        TokenFileError: A line is invalid.
    """
    found: dict[bytes, Known] = {}
    reader = csv.reader(lines, skipinitialspace=True)
    for row in reader:
        if not row or row[0].lstrip().startswith("#"):
            continue
        if len(row) < _COLUMNS or not row[0] or not row[1]:
            raise TokenFileError(f'line {reader.line_num}: give token,user,uid,"group,group"[,tenant]')
        tenant = row[4].strip() if len(row) > _COLUMNS + 1 else ""
        listed = row[3].split(",") if len(row) > _COLUMNS else []
        groups = [group.strip() for group in listed if group.strip()]
        tenant = tenant or SYSTEM
        kept = tuple(group for group in groups if tenant == SYSTEM or group != MASTERS)
        found[digest(row[0])] = Known(User(row[1], row[2], kept), tenant)
    return found


def digest(token: str) -> bytes:
    """Return the digest by which a token is looked up, so that the time of the look-up reveals nothing about the token."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


class TokenFile:
    """The tokens of a file. A file that does not exist has none."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        """Read the file.

        Args:
            path: The file.
            clock: Returns seconds.

        Raises:
            TokenFileError: The file is invalid.
            OSError: The file cannot be read.
        """
        self._file: WatchedFile[dict[bytes, Known]] = WatchedFile(path, _read, clock, {})

    def get(self, token: str) -> Known | None:
        """Return the user and tenant of a token, or None."""
        self._file.refresh()
        return self._file.content.get(digest(token))


def _read(path: Path) -> dict[bytes, Known]:
    with path.open(encoding="utf-8", newline="") as lines:
        return parse(lines)
