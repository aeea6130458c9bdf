"""The file of an archive: gzip of JSON lines, namely a header, one object a line, and an end with a checksum.

A file is untrusted. It is read a line at a time, and no line may be longer than `MAX_LINE`.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from vcsync.patterns.linear import linear

FORMAT: Final = "vcsync-tenant"
VERSION: Final = 1
MAX_LINE: Final = 8 * 1024 * 1024
"""Longest line in bytes. An API server accepts objects of at most 3 MiB."""
MAX_OBJECTS: Final = 2_000_000
ENDS: Final = b'{"end":'

_API_VERSION = linear(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9a-z]+")
_KIND = linear(r"[A-Z][A-Za-z0-9]*")
_MAX_NAME = 253
_NAME = linear(rf"[^/%\x00-\x1f\x7f]{{1,{_MAX_NAME}}}")
_NAMESPACE = linear(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")

Object = dict[str, Any]


class Header(Struct, frozen=True, kw_only=True, rename="camel", tag_field="format", tag=FORMAT):
    """First line of an archive: its tenant and format.

    Attributes:
        version: version of the format.
        tenant: name of the tenant.
        created: time of the export, in RFC 3339.
        resource_version: version of the store at which everything was listed; empty if the store allows none.
        with_keys: whether Secrets have their contents.
    """

    version: int
    tenant: str
    created: str
    resource_version: str = ""
    with_keys: bool = False


class _Version(Struct):
    format: str = ""
    version: int = 0


class _End(Struct):
    objects: int
    sha256: str


class _Last(Struct):
    end: _End


class BadArchive(Exception):
    """A file is no complete archive of this version; the message says why."""


class Writer:
    """Writes an archive. The file has its name only once it is complete; only its owner may read it.

    Args:
        path: the file; an existing one is replaced.
        header: the header.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._part = path, path.with_name(f".{path.name}.part")
        self._header = header
        self._sum = hashlib.sha256()
        self.count = 0

    def __enter__(self) -> Self:
        self._part.unlink(missing_ok=True)
        handle = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._raw = os.fdopen(handle, "wb")
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", filename="", mtime=0)
        self._write(msgspec.json.encode(self._header))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._raw:
            if kind is None:
                end = _Last(_End(self.count, self._sum.hexdigest()))
                self._file.write(msgspec.json.encode(end) + b"\n")
            self._file.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
        if kind is None:
            self._part.replace(self._path)
        else:
            with suppress(OSError):
                self._part.unlink()

    def add(self, found: Object) -> None:
        """Write an object."""
        self._write(msgspec.json.encode(found))
        self.count += 1

    def _write(self, line: bytes) -> None:
        self._sum.update(line + b"\n")
        self._file.write(line + b"\n")


def check(path: Path) -> tuple[Header, int]:
    """Read a whole archive, and return its header and the number of its objects.

    Raises:
        BadArchive: it is cut, of another version, or not well formed.
        OSError: the file cannot be read.
    """
    digest, count, header, last = hashlib.sha256(), 0, None, b""
    for number, line in enumerate(_lines(path), 1):
        if last:
            raise BadArchive(f"line {number}: there is more after the end")
        if header is None:
            header = _header(line)
        elif line.startswith(ENDS):
            last = line
            continue
        else:
            _object(line, number)
            count += 1
            if count > MAX_OBJECTS:
                raise BadArchive(f"the archive has more than {MAX_OBJECTS} objects")
        digest.update(line)
    if header is None:
        raise BadArchive("the file is empty")
    if not last:
        raise BadArchive("the file is cut: its end is missing; export the tenant again")
    end = _decode(last, _Last, "the end").end
    if (end.objects, end.sha256) != (count, digest.hexdigest()):
        raise BadArchive("the file is damaged: its checksum is wrong; export the tenant again")
    return header, count


def objects(path: Path, without: Collection[int] = ()) -> Iterator[tuple[int, Object]]:
    """Yield the objects of an archive with the numbers of their lines.

    Args:
        path: the archive.
        without: numbers of lines to leave out.

    Raises:
        BadArchive: the file has changed since it was checked.
        OSError: the file cannot be read.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.startswith(ENDS):
            return
        if number > 1 and number not in without:
            yield number, _object(line, number)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise BadArchive(f"line {number} is longer than {MAX_LINE} bytes")
                yield line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadArchive(f"the file is cut or no archive: {error}") from error


def _header(line: bytes) -> Header:
    found = _decode(line, _Version, "the first line")
    if found.format != FORMAT:
        raise BadArchive("the file is no archive of a tenant: 'vcsync tenant export -o FILE' makes one")
    if found.version != VERSION:
        raise BadArchive(f"the archive has version {found.version}; this program reads version {VERSION}")
    header: Header = _decode(line, Header, "the first line")
    return header


def _object(line: bytes, number: int) -> Object:
    found: Object = _decode(line, dict[str, Any], f"line {number}")
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        raise BadArchive(f"line {number}: the object has no metadata")
    for what, value, form in (
        ("apiVersion", found.get("apiVersion"), _API_VERSION),
        ("kind", found.get("kind"), _KIND),
        ("metadata.name", metadata.get("name"), _NAME),
        ("metadata.namespace", metadata.get("namespace", ""), _NAMESPACE),
        ("metadata.uid", metadata.get("uid", "none"), _NAME),
    ):
        if not isinstance(value, str) or not form.fullmatch(value) or value in (".", ".."):
            raise BadArchive(f"line {number}: the object's {what} is invalid")
    owners = metadata.get("ownerReferences") or []
    if not isinstance(owners, list) or not all(
        isinstance(owner, dict) and isinstance(owner.get("uid"), str) for owner in owners
    ):
        raise BadArchive(f"line {number}: the object's metadata.ownerReferences are invalid")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise BadArchive(f"line {number}: the object's metadata.{field} are invalid")
    for field in ("spec", "status", "data"):
        if found["kind"] in _PLAIN and not isinstance(found.get(field) or {}, dict):
            raise BadArchive(f"line {number}: the object's {field} is invalid")
    return found


_PLAIN: Final = frozenset(
    {"Pod", "Job", "Service", "PersistentVolume", "Namespace", "Secret", "ServiceAccount"}
)
"""Kinds whose fields this program reads."""


def _decode(line: bytes, kind: Any, what: str) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadArchive(f"{what} cannot be read: {error}") from error
