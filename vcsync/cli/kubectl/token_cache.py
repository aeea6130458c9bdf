"""Keeps the tokens of logins in files that only their user can read, one for each issuer and client."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from vcsync.cli.kubectl.oidc_tokens import LoginError, Tokens

DEFAULT = Path("~/.kube/cache/vcsync/login")
"""The folder of the files, beside kubectl's own caches."""


class TokenCache:
    """The file of one issuer and client.

    Args:
        folder: Folder of the files, which is made when tokens are kept.
        key: What the tokens depend on: issuer, client, scopes.
    """

    def __init__(self, folder: Path, key: Sequence[str]) -> None:
        digest = hashlib.sha256(msgspec.json.encode(list(key))).hexdigest()
        self._folder = folder.expanduser()
        self._path = self._folder / f"{digest}.json"

    def read(self) -> Tokens | None:
        """Return the tokens, or None if there are none, or the file is damaged."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Tokens)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        except OSError as error:
            raise _failed(self._path, error) from error

    def write(self, tokens: Tokens) -> None:
        """Keep tokens in place of earlier ones.

        Raises:
            LoginError: The file cannot be written.
        """
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            # A file that a killed process left would keep the mode that it has.
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.encode(tokens))
            temporary.replace(self._path)
        except OSError as error:
            raise _failed(self._path, error) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file: one process at a time logs in, and the others find its tokens.

        Raises:
            LoginError: The folder cannot be used.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise _failed(self._folder, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def forget(folder: Path) -> int:
    """Delete the tokens of all logins, and return their number.

    Raises:
        LoginError: A file cannot be deleted.
    """
    count = 0
    for path in folder.expanduser().glob("*.json"):
        try:
            with suppress(FileNotFoundError):
                path.unlink()
                count += 1
        except OSError as error:
            raise _failed(path, error) from error
    return count


def _failed(path: Path, error: OSError) -> LoginError:
    return LoginError(f"{path}: {error.strerror}; --token-cache-dir names another folder")
