"""Resource versions and continue tokens of answers over several control planes. Pure.

Each control plane counts its changes by itself. So the resource version of such an answer holds one version for each:
that of the embedded ones, which share a store, and those of the external ones, by their ids.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vcsync.apiserver.tenants.registry import READABLE_ID_BYTES

ABSENT = 0
"""Version of a control plane that does not have the resource: there was nothing to tell."""
PARTIAL = 1
"""Version of a control plane whose objects have been told in part. No object ever has it: the first one of a store is 2."""
MAX_CONTROL_PLANES = 1000
"""Most external control planes in one token, so that it fits into the query of a URL."""
MAX_TOKEN = 16 * 1024
"""Longest token in characters."""
MAX_POSITION = 1024
"""Longest continue token of one control plane in bytes."""
MAX_VERSION = 2**63
PREFIX = "x"
"""Begins all tokens: no number of one control plane does."""
_VERSION, _POSITION = 1, 2
_CHECK_BYTES = 4


class BadToken(ValueError):
    """A text is no token, or not one of this kind. The message completes a sentence that names the parameter."""


@dataclass(frozen=True, slots=True)
class Versions:
    """One version for each control plane.

    Attributes:
        embedded: Revision of the store of all embedded control planes. 0: nothing can be continued from here.
        external: Version by the id of the control plane; see `ABSENT` and `PARTIAL`.
    """

    embedded: int
    external: Mapping[bytes, int] = field(default_factory=dict)

    def with_external(self, identifier: bytes, version: int) -> "Versions":
        """Return the versions with another one of an external control plane."""
        return replace(self, external={**self.external, identifier: version})


@dataclass(frozen=True, slots=True)
class Position:
    """Beginning of the next page of a list.

    Attributes:
        versions: Versions at which the whole list is read.
        source: Id of the control plane; empty: the embedded ones.
        token: Its own continue token; empty: its first page.
    """

    versions: Versions
    source: bytes = b""
    token: str = ""


def encode_versions(versions: Versions) -> str:
    """Return versions as a resource version."""
    return _sealed(_VERSION, _packed(versions))


def decode_versions(text: str) -> Versions:
    """Read a resource version.

    Raises:
        BadToken: It is none of `encode_versions`.
    """
    versions, rest = _unpacked(_opened(_VERSION, text))
    if rest:
        raise BadToken("it has more than versions")
    return versions


def encode_position(position: Position) -> str:
    """Return a position as a continue token."""
    token = position.token.encode()
    if len(token) > MAX_POSITION:
        raise BadToken("the continue token of a control plane is too long")
    source = bytes([len(position.source)]) + position.source
    return _sealed(_POSITION, _packed(position.versions) + source + token)


def decode_position(text: str) -> Position:
    """Read a continue token.

    Raises:
        BadToken: It is none of `encode_position`.
    """
    versions, rest = _unpacked(_opened(_POSITION, text))
    length = rest[0] if rest else -1
    if length not in (0, READABLE_ID_BYTES) or len(rest) <= length:
        raise BadToken("its position is malformed")
    try:
        token = rest[1 + length :].decode()
    except UnicodeDecodeError:
        raise BadToken("its position is malformed") from None
    if len(token) > MAX_POSITION or not token.isprintable():
        raise BadToken("its position is malformed")
    return Position(versions, rest[1 : 1 + length], token)


def parse_number(text: object) -> int:
    """Read the resource version of one control plane, which must be a number.

    Raises:
        BadToken: It is not.
    """
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 19:
        number = int(text)
        if number < MAX_VERSION:
            return number
    raise BadToken("a resource version is not a number")


def _sealed(kind: int, body: bytes) -> str:
    data = bytes([kind]) + body
    data += zlib.crc32(data).to_bytes(_CHECK_BYTES, "big")
    return PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _opened(kind: int, text: str) -> bytes:
    """Return the body of a token. The check tells tokens that were damaged; it protects nothing."""
    if not text.startswith(PREFIX) or len(text) > MAX_TOKEN or not text.isascii():
        raise BadToken("it is not a token of this server")
    encoded = text[len(PREFIX) :]
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadToken("it is not a token of this server") from None
    body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if len(data) < _CHECK_BYTES + 1 or zlib.crc32(body).to_bytes(_CHECK_BYTES, "big") != check:
        raise BadToken("it is damaged")
    if body[0] != kind:
        raise BadToken("it is a token of another parameter, or of another version of this server")
    return body[1:]


def _packed(versions: Versions) -> bytes:
    if len(versions.external) > MAX_CONTROL_PLANES:
        raise BadToken("it would hold too many control planes")
    parts = [_number(versions.embedded), _number(len(versions.external))]
    for identifier in sorted(versions.external):
        parts += [identifier, _number(versions.external[identifier])]
    return b"".join(parts)


def _unpacked(data: bytes) -> tuple[Versions, bytes]:
    embedded, data = _read_number(data)
    count, data = _read_number(data)
    if count > MAX_CONTROL_PLANES:
        raise BadToken("it holds too many control planes")
    external: dict[bytes, int] = {}
    last = b""
    for _ in range(count):
        identifier, data = data[:READABLE_ID_BYTES], data[READABLE_ID_BYTES:]
        if len(identifier) < READABLE_ID_BYTES or identifier <= last:
            raise BadToken("its control planes are malformed")
        external[identifier], data = _read_number(data)
        last = identifier
    return Versions(embedded, external), data


def _number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_number(data: bytes) -> tuple[int, bytes]:
    number = 0
    for at, byte in enumerate(data[:9]):
        number |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            if at and not byte:
                break
            return number, data[at + 1 :]
    raise BadToken("its numbers are malformed")
