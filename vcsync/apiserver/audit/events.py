"""Encodes audit events: an `audit.k8s.io/v1` Event per line, in JSON. Pure.

Fields and their order are those of kube-apiserver's log (apiserver's `pkg/apis/audit/v1`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from vcsync.apimachinery.strategy import User
from vcsync.apimachinery.wire import goyaml, protobuf
from vcsync.apiserver.audit import redact
from vcsync.apiserver.request.audit_trail import MAX_KEY, RECEIVED, Body, Level, Trail, cut

LEVELS = {Level.METADATA: "Metadata", Level.REQUEST: "Request", Level.REQUEST_RESPONSE: "RequestResponse"}
MAX_LISTED = 256
"""Groups, and values of an extra, that are recorded of a user."""
LARGEST_EVENT = 2**20
"""Default limit of the bytes of an event. Larger events are recorded without bodies."""
TRUNCATED = "audit.k8s.io/truncated"
"""Annotation of an event that was too large to be recorded with its bodies."""
MOMENT_COST = 1024
"""Estimated bytes of an event without bodies."""
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(slots=True)
class Moment:
    """One stage of a request, as queued for the writer.

    Attributes:
        trail: Trail of the request.
        stage: The stage.
        at: Time in nanoseconds since 1970.
        annotations: Annotations at that time.
        cost: Estimated bytes of memory.
    """

    trail: Trail
    stage: str
    at: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    cost: int = MOMENT_COST


def line(moment: Moment, limit: int) -> bytes:
    """Return the line of the log. Bodies that make it longer than `limit` bytes are left out."""
    event = _event(moment)
    text = _written(event)
    if len(text) > limit:
        for name in ("requestObject", "responseObject"):
            event.pop(name, None)
        event["annotations"] = {**event.get("annotations", {}), TRUNCATED: "true"}
        text = _written(event)
    if len(text) > limit:
        status = event.get("responseStatus") or {}
        event["responseStatus"] = {"metadata": {}, "code": status.get("code", 0)}
        event["annotations"] = {TRUNCATED: "true"}
        text = _written(event)
    return text + b"\n"


def _written(event: Mapping[str, Any]) -> bytes:
    try:
        return _encode(event)
    except UnicodeEncodeError:
        # A header or path of the client was not UTF-8.
        return _encode(_readable(event))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, list | tuple) else value


def _event(moment: Moment) -> dict[str, Any]:
    trail, begun = moment.trail, moment.trail.begun
    received = moment.stage == RECEIVED
    hidden = redact.may_contain_secrets(begun.reference)
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": LEVELS[trail.level],
        "auditID": begun.audit_id,
        "stage": moment.stage,
        "requestURI": begun.uri,
        "verb": begun.verb,
        "user": _user(begun.user),
    }
    if not received and trail.impersonated is not None:
        event["impersonatedUser"] = _user(trail.impersonated)
        if trail.constraint:
            event["authenticationMetadata"] = {"impersonationConstraint": trail.constraint}
    if begun.addresses:
        event["sourceIPs"] = begun.addresses
    if begun.agent:
        event["userAgent"] = begun.agent
    if begun.reference is not None:
        event["objectRef"] = _reference(begun.reference, {} if received else trail.found)
    if not received:
        _add_answer(event, moment, hidden=hidden)
    event["requestReceivedTimestamp"] = micro_time(begun.received)
    event["stageTimestamp"] = micro_time(moment.at)
    if moment.annotations:
        found = moment.annotations
        event["annotations"] = redact.annotations(found) if hidden else dict(sorted(found.items()))
    return event


def _add_answer(event: dict[str, Any], moment: Moment, *, hidden: bool) -> None:
    trail, begun = moment.trail, moment.trail.begun
    if trail.status is not None:
        event["responseStatus"] = status = (
            redact.status(trail.status, moment.annotations) if hidden else trail.status
        )
    for name, body in (("requestObject", trail.request), ("responseObject", trail.response)):
        if body is None:
            continue
        failed = name == "responseObject" and "message" in (trail.status or {})
        if failed:
            event[name] = {"kind": "Status", "apiVersion": "v1", **status}
            continue
        value = _read(body)
        if value is None:
            continue
        if hidden:
            value = redact.body(begun.reference or {}, value, is_response=name == "responseObject")
        event[name] = redact.without_managed_fields(value) if begun.bare else value


def _read(body: Body) -> Any:
    """Return the value of a body, or None if JSON cannot represent it."""
    form = body.form.partition(";")[0]
    try:
        if form == "application/vnd.kubernetes.protobuf":
            return protobuf.decode(body.data)
        if form.endswith("yaml"):
            return goyaml.loads(body.data).value
        return msgspec.json.decode(body.data) if form.endswith("json") else None
    except (msgspec.DecodeError, goyaml.NotYAML, protobuf.ProtobufError, ValueError, RecursionError):
        return None


def _reference(reference: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    names = (
        "resource",
        "namespace",
        "name",
        "uid",
        "apiGroup",
        "apiVersion",
        "resourceVersion",
        "subresource",
    )
    both = {**found, **{name: value for name, value in reference.items() if value}}
    return {name: cut(both[name], MAX_KEY) for name in names if both.get(name)}


def _user(user: User | None) -> dict[str, Any]:
    if user is None:
        return {}
    info: dict[str, Any] = {"username": cut(user.name, MAX_KEY), "uid": cut(user.uid, MAX_KEY)}
    info["groups"] = _some(user.groups)
    info["extra"] = {cut(key, MAX_KEY): _some(user.extra[key]) for key in sorted(user.extra)[:MAX_LISTED]}
    return {key: value for key, value in info.items() if value}


def _some(texts: Any) -> list[str]:
    return [cut(each, MAX_KEY) for each in list(texts)[:MAX_LISTED]]


def micro_time(nanoseconds: int) -> str:
    """Return a time as Kubernetes' MicroTime."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_whole(seconds)}.{rest // 1000:06d}Z"


@lru_cache(16)
def _whole(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
