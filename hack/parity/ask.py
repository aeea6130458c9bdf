"""Ask one server: a scenario's steps in order, each answer as plain data."""

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hack.parity.corpus import Scenario, Step
from vcsync.controlplane.wire import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
TIMEOUT_SECONDS = 20.0
EVENTUALLY_SECONDS = 20.0
POLL_SECONDS = 0.1
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
"""Where a replay may have left something."""


@dataclass(frozen=True)
class Credentials:
    """How one user is known to one server: a bearer token or a client certificate in the context; none: nobody."""

    context: ssl.SSLContext
    token: str = ""


@dataclass(frozen=True)
class Side:
    """One of the two servers. `url` may have a path that goes before every request's."""

    name: str
    url: str
    users: Mapping[str, Credentials]


@dataclass(frozen=True)
class Answer:
    """What a server said: a JSON value or, if it was none, the text; of a watch the list of its events."""

    code: int
    content_type: str
    warnings: tuple[str, ...]
    body: Any


def replay(side: Side, scenario: Scenario, given: Mapping[str, str]) -> Iterator[tuple[Step, Answer]]:
    """Do a scenario's steps in a namespace of its own; `given`: what is known from the start."""
    namespace = f"parity-{scenario.group}-{scenario.name}".lower()[:60].rstrip("-")
    known = {**given, "ns": namespace}
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
    """Follow `a.b[0].c`; None where it ends early."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            position = int(part[1:-1])
            value = value[position] if isinstance(value, list) and len(value) > position else None
        elif part:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _remove(side: Side, namespace: str) -> None:
    """Take away what an earlier replay left; no controller runs that would empty the namespace."""
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
    """Delete all of a collection at once, whoever would have to finish something first."""
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
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, timeout=TIMEOUT_SECONDS, context=credentials.context
    )
    try:
        connection.request(step.verb, where.path + path, body, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def _filled(text: str, known: Mapping[str, str]) -> str:
    for variable, value in known.items():
        text = text.replace("{" + variable + "}", value)
    return text


def _value(raw: bytes, kind: str) -> Any:
    if kind.startswith(PROTOBUF):
        # Zeros may be written or not: what was read tells no difference, and clients see none.
        return protobuf.decode(raw)
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")
