"""Static tokens by file: `token,user,uid,"group,group"[,tenant]`, read anew when it changes.

Without a tenant (kube-apiserver's form) a token is of the operator's own space.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.caller import MASTERS, SYSTEM
from vcsync.controlplane.identity.watched_file import WatchedFile

_COLUMNS = 3


class TokenFileError(ValueError):
    """The file cannot be used; the text names the line."""


@dataclass(frozen=True, slots=True)
class Known:
    """Whom a token stands for."""

    user: User
    tenant: str


def parse(lines: Iterable[str]) -> dict[bytes, Known]:
    """Read tokens, by the digest of each.

    Raises:
        TokenFileError: a line has another form.
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
    """Return what a token is kept and looked up by, so that looking up tells nothing of its content."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


class TokenFile:
    """The tokens of a file, as it is now; one that is gone has none."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        """Read the file.

        Raises:
            TokenFileError: it has another form.
            OSError: it cannot be read.
        """
        self._file: WatchedFile[dict[bytes, Known]] = WatchedFile(path, _read, clock, {})

    def get(self, token: str) -> Known | None:
        """Return whom a token stands for."""
        self._file.refresh()
        return self._file.content.get(digest(token))


def _read(path: Path) -> dict[bytes, Known]:
    with path.open(encoding="utf-8", newline="") as lines:
        return parse(lines)
