"""One request as bytes on the wire, and what was read in answer."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent.

    Attributes:
        number: which one of the run; the same seed and number make the same request.
        pieces: sent one after the other.
        pause: seconds between pieces.
        method: decides whether the answer has a body.
        lenient: whether it is malformed HTTP, so that closing the connection or a plain 400 is an answer too.
    """

    number: int
    pieces: tuple[bytes, ...]
    method: str = "GET"
    pause: float = 0.0
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status 0 when the connection was closed without an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    streamed: bool = False


def http(number: int, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Request:
    """Write a well-formed request; the target is sent as it is, but for what no request line may hold."""
    safe = b"".join(
        b"%%%02X" % each if each <= 0x20 or each >= 0x7F else bytes((each,)) for each in target.encode()
    )
    lines = [method.encode() + b" " + safe + b" HTTP/1.1", b"Host: fuzz"]
    lines += [f"{key}: {value}".encode("utf-8", "replace") for key, value in headers.items()]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return Request(number, (b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""),), method)
