"""A request as bytes on the wire, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        number: its number in the run; the same seed and number produce the same request.
        pieces: the bytes, sent one piece after the other.
        pause: seconds between pieces.
        method: of the request; it determines whether the answer has a body.
        lenient: whether it is malformed HTTP, so that closing the connection or a plain 400 is acceptable.
    """

    number: int
    pieces: tuple[bytes, ...]
    method: str = "GET"
    pause: float = 0.0
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; status 0: the connection was closed without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    streamed: bool = False


def http(number: int, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Request:
    """Return a well-formed request; the target is unchanged, except for bytes that a request line cannot contain."""
    safe = b"".join(
        b"%%%02X" % each if each <= 0x20 or each >= 0x7F else bytes((each,)) for each in target.encode()
    )
    lines = [method.encode() + b" " + safe + b" HTTP/1.1", b"Host: fuzz"]
    lines += [f"{key}: {value}".encode("utf-8", "replace") for key, value in headers.items()]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return Request(number, (b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""),), method)
