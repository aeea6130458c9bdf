"""Sends one request to a server and returns the answer as plain data."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hack.parity.corpus import Step
from vcsync.apimachinery.wire import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
TIMEOUT_SECONDS = 180.0
"""Time limit of a request. Servers answer within a minute; a busy machine may take several times as long."""
IDLE_SECONDS = 5.0
"""Seconds after which an idle connection is not reused, because the server may just be closing it."""


@dataclass(frozen=True)
class Credentials:
    """A user's credentials at one server: a bearer token, or a client certificate in the context; neither: anonymous."""

    context: ssl.SSLContext
    token: str = ""


@dataclass(frozen=True)
class Side:
    """One of the servers. `url` may contain a path that prefixes the path of every request."""

    name: str
    url: str
    users: Mapping[str, Credentials]


@dataclass(frozen=True)
class Answer:
    """An answer of a server. Its body is a JSON value, or the text if it is not JSON, or the list of a watch's events."""

    code: int
    content_type: str
    warnings: tuple[str, ...]
    body: Any


def once(side: Side, step: Step, known: Mapping[str, str]) -> Answer:
    """Send a request; `known`: values of `{...}`."""
    path = filled(step.path, known)
    headers = {"Accept": "application/json", "User-Agent": "parity/1"}
    body: bytes | None = None
    if step.raw is not None:
        body = filled(step.raw, known).encode()
    elif step.body is not None:
        body = filled(json.dumps(step.body, separators=(",", ":")), known).encode()
    if body is not None:
        headers["Content-Type"] = step.content
    headers |= {key: filled(text, known) for key, text in step.headers.items()}
    with _asked(side, step, path, body, headers) as response:
        kind = response.headers.get("Content-Type", "")
        warnings = tuple(response.headers.get_all("Warning") or ())
        if step.events and response.status == 200:
            found: Any = [json.loads(response.readline()) for _ in range(step.events)]
        else:
            found = _value(response.read(), kind)
        return Answer(response.status, kind, warnings, found)


def opened(side: Side, path: str) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
    """Send a GET request of the administrator whose answer may take any time. The caller closes the connection."""
    where, credentials = urlsplit(side.url), side.users["admin"]
    headers = {"Accept": "application/json", "User-Agent": "parity/1"}
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, timeout=TIMEOUT_SECONDS, context=credentials.context
    )
    connection.request("GET", where.path + path, headers=headers)
    response = connection.getresponse()
    if connection.sock is not None:
        connection.sock.settimeout(None)
    return connection, response


@contextmanager
def _asked(
    side: Side, step: Step, path: str, body: bytes | None, headers: dict[str, str]
) -> Iterator[http.client.HTTPResponse]:
    where = urlsplit(side.url)
    credentials = side.users[step.user]
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    connection = _connection(side, step.user, credentials, where.hostname or "", where.port)
    try:
        connection.request(step.verb, where.path + path, body, headers)
        with connection.getresponse() as response:
            yield response
            again = response.isclosed()
    except BaseException as error:
        connection.close()
        error.add_note(f"{side.name}: {step.name}: {step.verb} {path}")
        raise
    if again and connection.sock is not None:
        _IDLE.connections[side.url, step.user] = (time.monotonic(), connection)
    else:
        connection.close()


class _Idle(threading.local):
    """This thread's idle connections, each with the time of its last request."""

    def __init__(self) -> None:
        self.connections: dict[tuple[str, str], tuple[float, http.client.HTTPSConnection]] = {}


_IDLE = _Idle()


def _connection(
    side: Side, user: str, credentials: Credentials, host: str, port: int | None
) -> http.client.HTTPSConnection:
    since, connection = _IDLE.connections.pop((side.url, user), (0.0, None))
    if connection is not None:
        if time.monotonic() - since < IDLE_SECONDS:
            return connection
        connection.close()
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=credentials.context)


def filled(text: str, known: Mapping[str, str]) -> str:
    """Replace every `{variable}` in a text by its value."""
    for variable, value in known.items():
        text = text.replace("{" + variable + "}", value)
    return text


def _value(raw: bytes, kind: str) -> Any:
    if kind.startswith(PROTOBUF):
        # The encoder may write or omit zeros: the decoded values are equal, and clients see no difference.
        return protobuf.decode(raw)
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")
