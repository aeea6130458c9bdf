"""What a request's way tells the audit log: the caller, who is impersonated, the decision, what was sent and answered."""

import base64
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from vcsync.controlplane.audit.auditor import OTHERS, Auditor, Came
from vcsync.controlplane.audit.events import LARGEST_EVENT, TRUNCATED
from vcsync.controlplane.audit.trail import Body, Level, Trail
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import ALL, SYSTEM, Caller
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.requestinfo import RequestInfo
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.wire import protobuf

HEADER = "Audit-Id"
MAX_ID = 512
LASTING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose answers last, so that their beginning is told."""
DISCOVERY = ("/api", "/apis")
"""Where paths are answered with objects, and below."""
_MAX_STATUS = 64 * 1024
_encode = msgspec.json.Encoder().encode


class Incoming(Protocol):
    """What is looked at of a request; see `way.Incoming`."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    audit_id: str
    remote: str
    audit: Trail


def audit_id(headers: Mapping[str, str]) -> str:
    """Return a request's audit id: the client's, if it gave one, or a new one."""
    given = headers.get(HEADER, "")
    return given[:MAX_ID] if given and given.isascii() and given.isprintable() else str(uuid.uuid4())


def begin(
    auditor: Auditor,
    incoming: Incoming,
    info: RequestInfo,
    caller: Caller | None,
    exists: Callable[[str], bool],
) -> None:
    """Begin the trail of a request whose caller is known; None: its credentials were refused."""

    def came() -> Came:
        headers = incoming.headers
        uri = f"{incoming.path}?{incoming.query}" if incoming.query else incoming.path
        forwarded, real = headers.get("X-Forwarded-For", ""), headers.get("X-Real-Ip", "")
        return Came(incoming.audit_id, uri, headers.get("User-Agent", ""), forwarded, real, incoming.remote)

    user = None if caller is None else caller.user
    incoming.audit = auditor.begin(_log_of(info, caller, exists), user, info, came)


def _log_of(info: RequestInfo, caller: Caller | None, exists: Callable[[str], bool]) -> str:
    """Return whose log a request goes into: nobody can write into another tenant's."""
    if caller is None:
        return OTHERS
    tenant = info.tenant or caller.tenant
    if caller.system:
        return tenant if tenant != ALL and exists(tenant) else SYSTEM
    return tenant if tenant == caller.tenant and exists(tenant) else OTHERS


def impersonated(incoming: Incoming, caller: Caller) -> None:
    """Tell whom the caller acts as."""
    if incoming.audit.level and caller.impersonated:
        incoming.audit.impersonated, incoming.audit.constraint = caller.user, caller.constraint


def decided(trail: Trail, *, allowed: bool, reason: str) -> None:
    """Tell what authorization said (apiserver's `endpoints/filters/authorization.go`)."""
    if trail.level:
        trail.annotate("authorization.k8s.io/decision", "allow" if allowed else "forbid")
        trail.annotate("authorization.k8s.io/reason", reason)


def issued(trail: Trail, answer: Object) -> None:
    """Tell the id of a token that was made (`registry/core/serviceaccount/storage/token.go`)."""
    if trail.level:
        _, _, rest = str((answer.get("status") or {}).get("token") or "").partition(".")
        payload = rest.partition(".")[0]
        found = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)) or b"{}")
        trail.annotate("authentication.kubernetes.io/issued-credential-id", f"JTI={found.get('jti', '')}")


def recorded(
    incoming: Incoming, info: RequestInfo, read: Callable[[], Awaitable[bytes]]
) -> Callable[[], Awaitable[bytes]]:
    """Return what reads the body, and tells it where it is told as it came: patches and options of deletions."""
    trail = incoming.audit
    if trail.level < Level.REQUEST or info.verb not in ("patch", "delete", "deletecollection"):
        return read

    async def body() -> bytes:
        data = await read()
        if data:
            form = incoming.headers.get("Content-Type", "") or "application/json"
            trail.request = Body(data, form)
        return data

    return body


def sent(scope: Scope, obj: Object) -> None:
    """Tell the object that was sent, with its kind's defaults from level Request on."""
    trail = scope.audit
    if not trail.level:
        return
    whole = None
    if trail.level >= Level.REQUEST:
        whole = _encode(scope.kind.served(scope.kind.working(copied(obj))))
    trail.sent(obj["metadata"], whole)


def sent_other(scope: Scope, obj: Object) -> None:
    """Tell an object that is of another kind than the resource: a review, a binding, a scale."""
    trail = scope.audit
    if trail.level:
        trail.sent(obj["metadata"], _encode(obj) if trail.level >= Level.REQUEST else None)


def failed(trail: Trail, error: StatusError) -> None:
    """Tell why a request was refused; what cannot be said in the form that was asked for has no more than a code."""
    if trail.level:
        status = {"metadata": {}, "code": 406} if error.code == 406 else error.status()
        trail.status = {key: value for key, value in status.items() if key not in ("kind", "apiVersion")}


def answered(trail: Trail, info: RequestInfo, answer: Reply | Stream) -> None:
    """Tell the answer."""
    if not trail.level:
        return
    if isinstance(answer, Stream):
        trail.status = {"metadata": {}, "code": 200}
        return
    if trail.status is None and (info.verb == "delete" or info.subresource in ("binding", "eviction")):
        trail.status = _status_in(answer)
    told = info.resource_request or info.path in DISCOVERY or info.path.startswith(("/api/", "/apis/"))
    told = told and answer.status != 406
    if told and trail.level >= Level.REQUEST_RESPONSE and _is_long(answer):
        trail.annotate(TRUNCATED, "true")
        told = False
    trail.answered(answer.status, answer.body if told else (), answer.content_type if told else "")


def _is_long(answer: Reply) -> bool:
    """Whether an answer is not at hand as a whole, or too large to be told."""
    return answer.rest is not None or sum(map(len, answer.body)) > LARGEST_EVENT


def _status_in(answer: Reply) -> Object | None:
    """Return the Status that an answer is; None: it is another object."""
    data = b"".join(answer.body) if sum(map(len, answer.body)) < _MAX_STATUS else b""
    try:
        if data.startswith(protobuf.MAGIC):
            found = protobuf.decode(data)
        else:
            found = msgspec.json.decode(data) if b'"Status"' in data[:64] else {}
    except (protobuf.ProtobufError, msgspec.DecodeError):
        return None
    if found.get("kind") != "Status":
        return None
    told = {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
    return {**told, "code": answer.status}


def lasting(info: RequestInfo | None) -> bool:
    """Whether the beginning of an answer is told too."""
    return info is not None and (info.verb == "watch" or info.subresource in LASTING)
