"""Keeps built documents, within a limit of bytes in all and for each tenant that had them built."""

import gzip
from dataclasses import dataclass
from threading import Lock

MAX_BYTES = 64 * 2**20
"""Most bytes of all kept documents, compressed."""
MAX_OWNER_BYTES = 24 * 2**20
"""Most bytes of the documents that one tenant had built. 32 MiB of definitions, the most that it may store, are some 2 MiB."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its ETag.

    Attributes:
        gzipped: The document, compressed.
        etag: SHA-512 in upper-case hexadecimal digits, with the quotes of the header.
    """

    gzipped: bytes
    etag: str

    @property
    def body(self) -> bytes:
        """The document without compression."""
        return gzip.decompress(self.gzipped)


class KeptDocuments:
    """Documents by key, for all threads.

    Args:
        most: Most bytes.
        most_of_owner: Most bytes of one owner. A larger document is not kept.
    """

    def __init__(self, most: int = MAX_BYTES, most_of_owner: int = MAX_OWNER_BYTES) -> None:
        self._most = most
        self._most_of_owner = most_of_owner
        self._owners: dict[str, dict[str, Document]] = {}
        self._owner_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._lock = Lock()

    def get(self, key: str) -> Document | None:
        """Return a document that is kept."""
        with self._lock:
            owner = self._owner_of.get(key)
            if owner is None:
                return None
            own = self._owners[owner]
            own[key] = found = own.pop(key)  # the most recently used one is the last
            return found

    def put(self, key: str, owner: str, document: Document) -> None:
        """Keep a document. Older ones of the same owner make room for it, then those of the owner that has most bytes."""
        size = len(document.gzipped)
        if size > self._most_of_owner:
            return
        with self._lock:
            if key in self._owner_of:
                return
            self._owners.setdefault(owner, {})[key] = document
            self._owner_of[key] = owner
            self._sizes[owner] = self._sizes.get(owner, 0) + size
            while self._sizes[owner] > self._most_of_owner:
                self._drop(owner)
            while sum(self._sizes.values()) > self._most:
                self._drop(max(self._sizes, key=self._sizes.__getitem__))

    def _drop(self, owner: str) -> None:
        own = self._owners[owner]
        key = next(iter(own))
        self._sizes[owner] -= len(own.pop(key).gzipped)
        del self._owner_of[key]
        if not own:
            del self._owners[owner], self._sizes[owner]
