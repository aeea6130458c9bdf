"""Faults of the proxy, and the requests to which they apply: values and pure functions."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    """The parts of a request that the condition of a fault can check."""

    method: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def of(cls, method: str, target: str) -> "Request":
        """Parse the method and target of a request line."""
        parts = urlsplit(target)
        return cls(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)))

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in {"1", "true"}


When = Callable[[Request], bool]
"""Returns whether a fault applies to a request."""


def always(_: Request) -> bool:
    """Every request."""
    return True


def watches(request: Request) -> bool:
    """Match requests that open a watch."""
    return request.is_watch


def reads(request: Request) -> bool:
    """Match gets and lists, but not watches."""
    return request.method == "GET" and not request.is_watch


def writes(request: Request) -> bool:
    """Match requests that change objects."""
    return request.method in {"POST", "PUT", "PATCH", "DELETE"}


def next_pages(request: Request) -> bool:
    """Match lists that request a page after the first one."""
    return request.method == "GET" and bool(request.query.get("continue"))


def on(path: str, *methods: str) -> When:
    """Return a condition for requests whose whole path matches a regular expression, with any or one of `methods`."""
    pattern = re.compile(path)
    return lambda request: (
        bool(pattern.fullmatch(request.path)) and (not methods or request.method in methods)
    )


def both(*conditions: When) -> When:
    """Return a condition for requests that meet all of the conditions."""
    return lambda request: all(condition(request) for condition in conditions)


@dataclass(frozen=True)
class Cut:
    """Reset the connection: instead of an answer, or in the middle of one."""


@dataclass(frozen=True)
class Stall:
    """Keep the connection open and forward nothing until the fault is lifted; then continue."""


@dataclass(frozen=True)
class Slow:
    """Forward late and slowly."""

    latency: float = 0.0
    """Seconds before each piece of data."""
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Truncate:
    """End the answer after a number of bytes of its body, or in the middle of the line after a number of lines."""

    after_bytes: int | None = None
    after_lines: int | None = None
    graceful: bool = False
    """Whether to end a chunked body as if it were complete, instead of closing the connection without its last chunk."""

    def __post_init__(self) -> None:
        if (self.after_bytes is None) == (self.after_lines is None):
            raise ValueError("give either after_bytes or after_lines")


@dataclass(frozen=True)
class Answer:
    """Answer instead of the server, with a Kubernetes Status."""

    status: int
    reason: str = ""
    message: str = "refused by the fault proxy"
    retry_after: int | None = None
    """Seconds, for the header and the details of the Status."""
    as_event: bool = False
    """Whether to answer 200 with an ERROR event that contains the Status, as API servers do for 410 in watches."""


Fault = Cut | Stall | Slow | Truncate | Answer


def too_many_requests(retry_after: int | None = 1) -> Answer:
    """Return a 429, the answer of priority and fairness and of servers that are shutting down."""
    return Answer(429, "TooManyRequests", "too many requests, please try again later", retry_after)


def unavailable(retry_after: int | None = None) -> Answer:
    """Return a 503, the answer of a server without its store."""
    return Answer(
        503, "ServiceUnavailable", "the server is currently unable to handle the request", retry_after
    )


def expired(*, as_event: bool = False) -> Answer:
    """Return a 410, the answer to a list that continues from a compacted revision, or a watch from a too old one."""
    return Answer(410, "Expired", "too old resource version", as_event=as_event)


def status_body(answer: Answer) -> bytes:
    """Return the Status object of an answer, or the watch event that contains it; JSON with a newline."""
    details = {} if answer.retry_after is None else {"details": {"retryAfterSeconds": answer.retry_after}}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": answer.message,
        "reason": answer.reason,
        "code": answer.status,
        **details,
    }
    return json.dumps({"type": "ERROR", "object": status} if answer.as_event else status).encode() + b"\n"


class Truncation:
    """The progress of an answer that will be truncated."""

    def __init__(self, fault: Truncate) -> None:
        self._fault = fault
        self._bytes = 0
        self._lines = 0

    @property
    def graceful(self) -> bool:
        return self._fault.graceful

    def pass_through(self, data: bytes) -> tuple[bytes, bool]:
        """Return the part of the next piece of the body to forward, and whether the answer ends after it."""
        if self._fault.after_bytes is not None:
            passed = data[: self._fault.after_bytes - self._bytes]
            self._bytes += len(passed)
            return passed, self._bytes >= self._fault.after_bytes
        return self._pass_lines(data, self._fault.after_lines or 0)

    def _pass_lines(self, data: bytes, limit: int) -> tuple[bytes, bool]:
        start = 0
        while self._lines < limit:
            newline = data.find(b"\n", start)
            if newline < 0:
                return data, False
            self._lines, start = self._lines + 1, newline + 1
        while data[start : start + 1] == b"\n":  # an empty line has no middle
            start += 1
        rest = data[start:].split(b"\n", 1)[0]
        if not rest:
            return data[:start], False
        return data[: start + max(1, len(rest) // 2)], True
