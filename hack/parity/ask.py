"""Sends a scenario's steps to one server, in order, and returns each answer as plain data."""

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

from hack.parity.corpus import Scenario, Step
from vcsync.apimachinery.wire import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
TIMEOUT_SECONDS = 180.0
"""Time limit of a request. Servers answer within a minute; a busy machine may take several times as long."""
EVENTUALLY_SECONDS = 120.0
POLL_SECONDS = 0.1
IDLE_SECONDS = 5.0
"""Seconds after which an idle connection is not reused, because the server may just be closing it."""
GROUPS = (
    "/api/v1",
    "/apis/apps/v1",
    "/apis/batch/v1",
    "/apis/networking.k8s.io/v1",
    "/apis/rbac.authorization.k8s.io/v1",
    "/apis/autoscaling/v2",
    "/apis/policy/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/discovery.k8s.io/v1",
    "/apis/events.k8s.io/v1",
    "/apis/storage.k8s.io/v1",
    "/apis/resource.k8s.io/v1",
)
"""API versions in whose collections an earlier replay may have left objects."""


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


def replay(side: Side, scenario: Scenario, variables: Mapping[str, str]) -> Iterator[tuple[Step, Answer]]:
    """Run a scenario's steps in a namespace of its own; `variables`: initial values of `{...}`."""
    namespace = f"parity-{scenario.group}-{scenario.name}".lower()[:60].rstrip("-")
    known = {**variables, "ns": namespace}
    _remove(side, namespace)
    made = _once(
        side, Step("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}), known
    )
    if made.code != 201:
        raise RuntimeError(f"{side.name}: namespace {namespace}: {made.code} {made.body}")
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    _once(side, Step("account", "POST", account, {"metadata": {"name": "default"}}), known)
    for step in scenario.steps:
        answer = _until(side, step, known)
        for variable, path in step.keep.items():
            known[variable] = str(at(answer.body, path))
        yield step, answer


def at(value: Any, path: str) -> Any:
    """Return the value at a path such as `a.b[0].c`; None if it does not exist."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            position = int(part[1:-1])
            value = value[position] if isinstance(value, list) and len(value) > position else None
        elif part:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _remove(side: Side, namespace: str) -> None:
    """Remove the objects of an earlier replay, because no controller runs that would empty the namespace."""
    path = f"/api/v1/namespaces/{namespace}"
    found = _once(side, Step("leftover", "DELETE", path), {})
    if found.code == 404:
        return
    for group in GROUPS:
        for each in at(_once(side, Step("kinds", "GET", group), {}).body, "resources") or ():
            if each["namespaced"] and "deletecollection" in each["verbs"]:
                within = f"{group}/namespaces/{namespace}/{each['name']}"
                _empty(side, within)
    left = _once(side, Step("leftover", "GET", path), {}).body
    _once(side, Step("leftover", "PUT", f"{path}/finalize", {**left, "spec": {"finalizers": []}}), {})


def _empty(side: Side, collection: str) -> None:
    """Delete all objects of a collection immediately, and remove their finalizers."""
    deleted = _once(
        side,
        Step("leftover", "DELETE", f"{collection}?gracePeriodSeconds=0&propagationPolicy=Background"),
        {},
    ).body
    for each in at(deleted, "items") or ():
        metadata = each.get("metadata") or {}
        if metadata.get("finalizers"):
            freed = {"metadata": {"finalizers": None}}
            content = "application/merge-patch+json"
            path = f"{collection}/{metadata['name']}"
            _once(side, Step("leftover", "PATCH", path, freed, content=content), {})


def _until(side: Side, step: Step, known: Mapping[str, str]) -> Answer:
    deadline = time.monotonic() + (EVENTUALLY_SECONDS if step.eventually else 0)
    while True:
        answer = _once(side, step, known)
        reached = all(at(answer.body, path) == value for path, value in step.eventually.items())
        if reached or time.monotonic() > deadline:
            return answer
        time.sleep(POLL_SECONDS)


def _once(side: Side, step: Step, known: Mapping[str, str]) -> Answer:
    path = _filled(step.path, known)
    headers = {"Accept": "application/json", "User-Agent": "parity/1"}
    body: bytes | None = None
    if step.raw is not None:
        body = _filled(step.raw, known).encode()
    elif step.body is not None:
        body = _filled(json.dumps(step.body, separators=(",", ":")), known).encode()
    if body is not None:
        headers["Content-Type"] = step.content
    headers |= {key: _filled(text, known) for key, text in step.headers.items()}
    with _asked(side, step, path, body, headers) as response:
        kind = response.headers.get("Content-Type", "")
        warnings = tuple(response.headers.get_all("Warning") or ())
        if step.events and response.status == 200:
            found: Any = [json.loads(response.readline()) for _ in range(step.events)]
        else:
            found = _value(response.read(), kind)
        return Answer(response.status, kind, warnings, found)


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


def _filled(text: str, known: Mapping[str, str]) -> str:
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
