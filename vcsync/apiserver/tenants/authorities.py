"""The certificate authorities of all tenants as a folder, from which OpenSSL loads one when a client presents a certificate.

Loading ten thousand authorities into a TLS context takes seconds, and each additional one sorts all of them again. In the
folder each authority is a file named by the hash of its subject, as by `openssl rehash`, and is read when it is needed.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509


class AuthorityFolder:
    """A folder that contains nothing but authorities.

    Args:
        path: The folder. It is created if it does not exist.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True, mode=0o700)
        self.path = path

    def fill(self, certificates: Iterable[bytes]) -> None:
        """Write certificates in PEM form, and remove all other files.

        Raises:
            OSError: Files cannot be read or written.
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
        """Add a certificate in PEM form. Outdated certificates stay until the next `fill`.

        A client with a certificate of an outdated authority therefore gets a response (401) instead of a TLS error.

        Raises:
            OSError: The file cannot be written.
        """
        name = file_name(certificate)
        path = self.path / name
        present = path.read_bytes() if path.exists() else b""
        if certificate not in present:
            self._write(name, present + certificate)

    def _write(self, name: str, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(self.path / name, flags, 0o600), "wb") as file:
            file.write(content)


def file_name(certificate: bytes) -> str:
    """Return the file name under which OpenSSL looks for a certificate in PEM form.

    The name is the SHA-1 of the subject's canonical form: without the outermost DER header, as UTF-8, in lower case. The
    subjects of tenants' authorities have that form already.
    """
    subject = x509.load_pem_x509_certificate(certificate).subject.public_bytes()
    frame = 2 if subject[1] < 0x80 else 2 + (subject[1] & 0x7F)
    digest = hashlib.sha1(subject[frame:], usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}.0"
