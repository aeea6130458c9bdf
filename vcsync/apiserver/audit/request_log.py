"""Records the steps of a request in its audit trail: caller, impersonation, decision, request and response."""

import base64
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import protobuf
from vcsync.apiserver.audit.auditor import OTHERS, Auditor, Origin
from vcsync.apiserver.audit.events import LARGEST_EVENT, TRUNCATED
from vcsync.apiserver.request.audit_trail import Body, Level, Trail
from vcsync.apiserver.request.caller import ALL, GRANTS_EXTRA, HOME_EXTRA, SYSTEM, Caller
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.request.scope import Scope

HEADER = "Audit-Id"
MAX_ID = 512
RECORDED = frozenset({"patch", "delete", "deletecollection"})
"""Verbs whose bodies are recorded as they were sent."""
LONG_RUNNING_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Long-running subresources, for which the start of the response is recorded."""
DISCOVERY = ("/api", "/apis")
"""Paths, and prefixes of paths, whose responses are objects."""
_MAX_STATUS = 64 * 1024
_encode = msgspec.json.Encoder().encode


class Incoming(Protocol):
    """The parts of a request that are recorded; see `handlers.exchange.Incoming`."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    audit_id: str
    remote: str
    audit: Trail


def audit_id(headers: Mapping[str, str]) -> str:
    """Return the audit id of a request: that of the client, or a new one."""
    given = headers.get(HEADER, "")
    return given[:MAX_ID] if given and given.isascii() and given.isprintable() else str(uuid.uuid4())


def begin(
    auditor: Auditor,
    incoming: Incoming,
    info: RequestInfo,
    caller: Caller | None,
    exists: Callable[[str], bool],
) -> None:
    """Begin the trail of a request. `caller` is None if the credentials were refused."""

    def origin_of() -> Origin:
        headers = incoming.headers
        uri = f"{incoming.path}?{incoming.query}" if incoming.query else incoming.path
        forwarded, real = headers.get("X-Forwarded-For", ""), headers.get("X-Real-Ip", "")
        return Origin(incoming.audit_id, uri, headers.get("User-Agent", ""), forwarded, real, incoming.remote)

    user = None if caller is None else caller.user
    incoming.audit = auditor.begin(_log_of(info, caller, exists), user, info, origin_of)


def _log_of(info: RequestInfo, caller: Caller | None, exists: Callable[[str], bool]) -> str:
    """Return the log of a request. Callers never write into the log of another tenant."""
    if caller is None:
        return OTHERS
    tenant = info.tenant or caller.tenant
    if caller.system:
        return tenant if tenant != ALL and exists(tenant) else SYSTEM
    return tenant if tenant == caller.tenant and exists(tenant) else OTHERS


def admitted(trail: Trail, caller: Caller) -> None:
    """Record the home tenant and the grants of a guest."""
    trail.annotate(HOME_EXTRA, caller.home)
    trail.annotate(GRANTS_EXTRA, ",".join(each.name for each in caller.grants))


def impersonated(incoming: Incoming, caller: Caller) -> None:
    """Record the impersonated user."""
    if incoming.audit.level and caller.impersonated:
        incoming.audit.impersonated, incoming.audit.constraint = caller.user, caller.constraint


def decided(trail: Trail, *, allowed: bool, reason: str) -> None:
    """Record the decision of the authorizer (apiserver's `endpoints/filters/authorization.go`)."""
    if trail.level:
        trail.annotate("authorization.k8s.io/decision", "allow" if allowed else "forbid")
        trail.annotate("authorization.k8s.io/reason", reason)


def issued(trail: Trail, answer: Object) -> None:
    """Record the id of an issued token (`registry/core/serviceaccount/storage/token.go`)."""
    if trail.level:
        _, _, rest = str((answer.get("status") or {}).get("token") or "").partition(".")
        payload = rest.partition(".")[0]
        found = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)) or b"{}")
        trail.annotate("authentication.kubernetes.io/issued-credential-id", f"JTI={found.get('jti', '')}")


def recorded(
    incoming: Incoming, info: RequestInfo, read: Callable[[], Awaitable[bytes]]
) -> Callable[[], Awaitable[bytes]]:
    """Return a function that reads the body, and records it if it is a patch or the options of a deletion.

    Bodies for programs in Pods (`proxy`) are neither, whatever the method.
    """
    trail = incoming.audit
    if trail.level < Level.REQUEST or info.verb not in RECORDED or info.subresource == "proxy":
        return read

    async def body() -> bytes:
        data = await read()
        if data:
            form = incoming.headers.get("Content-Type", "") or "application/json"
            trail.request = Body(data, form)
        return data

    return body


def sent(scope: Scope, obj: Object) -> None:
    """Record the object of a request; from level Request on with the defaults of its kind."""
    trail = scope.audit
    if not trail.level:
        return
    whole = None
    if trail.level >= Level.REQUEST:
        whole = _encode(scope.kind.served(scope.kind.working(copied(obj))))
    trail.sent(obj["metadata"], whole)


def sent_other(scope: Scope, obj: Object) -> None:
    """Record an object of another kind than the resource, such as a review, a binding or a scale."""
    trail = scope.audit
    if trail.level:
        trail.sent(obj["metadata"], _encode(obj) if trail.level >= Level.REQUEST else None)


def failed(trail: Trail, error: StatusError) -> None:
    """Record why a request was refused. A 406 is recorded with its code only."""
    if trail.level:
        status = {"metadata": {}, "code": 406} if error.code == 406 else error.status()
        trail.status = {key: value for key, value in status.items() if key not in ("kind", "apiVersion")}


def answered(trail: Trail, info: RequestInfo, answer: Reply | Stream) -> None:
    """Record the response."""
    if not trail.level:
        return
    if isinstance(answer, Stream):
        trail.status = {"metadata": {}, "code": 200}
        return
    if trail.status is None and (info.verb == "delete" or info.subresource in ("binding", "eviction")):
        trail.status = _status_in(answer)
    is_object = info.resource_request or info.path in DISCOVERY or info.path.startswith(("/api/", "/apis/"))
    with_body = is_object and answer.status != 406
    if with_body and trail.level >= Level.REQUEST_RESPONSE and _is_long(answer):
        trail.annotate(TRUNCATED, "true")
        with_body = False
    trail.answered(answer.status, answer.body if with_body else (), answer.content_type if with_body else "")


def _is_long(answer: Reply) -> bool:
    """Return whether a response is streamed or too large to be recorded."""
    return answer.rest is not None or sum(map(len, answer.body)) > LARGEST_EVENT


def _status_in(answer: Reply) -> Object | None:
    """Return the Status of a response, or None if it is another object."""
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
    status = {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
    return {**status, "code": answer.status}


def is_long_running(info: RequestInfo | None) -> bool:
    """Return whether the audit log records the start of the response too: for watches and streams."""
    return info is not None and (info.verb == "watch" or info.subresource in LONG_RUNNING_SUBRESOURCES)
