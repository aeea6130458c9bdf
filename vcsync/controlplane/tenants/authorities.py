"""The authorities of all tenants as a folder in which OpenSSL looks one up when a client shows a certificate of it.

Reading ten thousand of them into a TLS context takes seconds, and each further one sorts them all anew. Here each is
a file named by the hash of its subject, as `openssl rehash` names them, and nothing is read before it is needed.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509


class AuthorityFolder:
    """The files in it; all of them are ours."""

    def __init__(self, path: Path) -> None:
        """Take the folder; it is made if it is not there.

        Raises:
            OSError: it cannot be made.
        """
        path.mkdir(exist_ok=True, mode=0o700)
        self.path = path

    def fill(self, certificates: Iterable[bytes]) -> None:
        """Let it hold these (PEM), and no others.

        Raises:
            OSError: files cannot be read or written.
        """
        wanted: dict[str, bytes] = defaultdict(bytes)
        for each in certificates:
            wanted[file_name(each)] += each
        for path in self.path.iterdir():
            if wanted.get(path.name) == path.read_bytes():
                del wanted[path.name]
            else:
                path.unlink()
        for name, content in wanted.items():
            self._write(name, content)

    def add(self, certificate: bytes) -> None:
        """Let it hold one more. Those that are worth nothing any more stay until it is filled again.

        Whoever shows a certificate of one of those is told so by an answer (401), not by the end of the connection.

        Raises:
            OSError: the file cannot be written.
        """
        name = file_name(certificate)
        path = self.path / name
        there = path.read_bytes() if path.exists() else b""
        if certificate not in there:
            self._write(name, there + certificate)

    def _write(self, name: str, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(self.path / name, flags, 0o600), "wb") as file:
            file.write(content)


def file_name(certificate: bytes) -> str:
    """Return the name under which OpenSSL looks for a certificate (PEM).

    It is the SHA-1 of the subject's canonical form: without the outermost frame, as UTF-8, in lower case. Names of
    tenants' authorities have that form from the start.
    """
    subject = x509.load_pem_x509_certificate(certificate).subject.public_bytes()
    frame = 2 if subject[1] < 0x80 else 2 + (subject[1] & 0x7F)
    digest = hashlib.sha1(subject[frame:], usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}.0"
