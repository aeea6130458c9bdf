"""Encodes AdmissionReviews for webhooks, and validates their responses. Pure.

Source: apiserver's `pkg/admission/plugin/webhook/{request,errors}`.
"""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apimachinery.schema import scalars
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, gojson
from vcsync.apiserver.egress.failure import CallFailed

GROUP = "admission.k8s.io"
KNOWN = ("v1", "v1beta1")
JSON_PATCH = "JSONPatch"
MOST_WARNINGS = 100
"""Warnings of one response that are passed on."""


class _Status(msgspec.Struct):
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    response: _Response | None = None


_decode = msgspec.json.Decoder(_Review).decode
_TYPES = {
    (f"{GROUP}/v1", "AdmissionReview"): "v1.AdmissionReview",
    (f"{GROUP}/v1beta1", "AdmissionReview"): "v1beta1.AdmissionReview",
    ("v1", "Status"): "v1.Status",
}
"""Other types that the client of kube-apiserver can decode."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A valid response of a webhook.

    Attributes:
        patch: Operations of a JSON patch.
        patch_type: Type of the patch.
        annotations: Audit annotations.
        warnings: Texts of Warning headers.
        refusal: Error that refuses the request, or None if it is allowed.
    """

    patch: list[Any] = field(default_factory=list)
    patch_type: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    refusal: StatusError | None = None


def version_for(reviews: tuple[str, ...]) -> str:
    """Return the first version of AdmissionReview that is supported by both sides.

    Raises:
        CallFailed: There is none.
    """
    for each in reviews:
        if each in KNOWN:
            return each
    raise CallFailed("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def written(version: str, uid: str, request: Object, new: msgspec.Raw, old: msgspec.Raw) -> bytes:
    """Encode an AdmissionReview. The objects are encoded already."""
    first = {"uid": uid, **request}
    options = first.pop("options")
    dry_run = first.pop("dryRun")
    whole = {**first, "object": new, "oldObject": old, "dryRun": dry_run, "options": options}
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": whole}
    )


def read(body: bytes, version: str, uid: str, hook: str, *, mutating: bool) -> Answer:
    """Decode and validate a response.

    Args:
        body: Body of the response.
        version: Version of the AdmissionReview that was sent.
        uid: UID that was sent.
        hook: Name of the webhook.
        mutating: Whether the webhook may change the object.

    Raises:
        CallFailed: The response is invalid. The message says why, without a prefix.
    """
    try:
        review = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise CallFailed(f"failed to call webhook: {_syntax(why, body)}") from why
    response = review.response
    other = (review.api_version, review.kind)
    if other in _TYPES and other != (f"{GROUP}/{version}", "AdmissionReview"):
        problem = f"converting ({_TYPES[other]}) to ({version}.AdmissionReview): unknown conversion"
        raise CallFailed(f"failed to call webhook: {problem}")
    if response is None:
        raise _invalid("webhook response was absent")
    patch = _patch_bytes(response.patch)
    patch_type = response.patch_type
    if version == "v1":
        _check(review, response, uid, patch, mutating=mutating)
    elif patch:
        patch_type = JSON_PATCH
    return Answer(
        _operations(patch) if mutating and response.allowed else [],
        patch_type or "",
        response.audit_annotations or {},
        (response.warnings or [])[:MOST_WARNINGS],
        None if response.allowed else refused(hook, response.status),
    )


def _syntax(why: Exception, body: bytes) -> str:
    if problem := decode.no_object(body):
        return problem
    if isinstance(why, msgspec.ValidationError):
        return f"json: cannot unmarshal: {why}"
    return f"couldn't get version/kind; json parse error: {why}"


def _check(review: _Review, response: _Response, uid: str, patch: bytes, *, mutating: bool) -> None:
    if (response.uid or "") != uid:
        raise _invalid(f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.uid or '')}")
    said = f"{review.api_version or '/'}, Kind={review.kind or ''}"
    expected = f"{GROUP}/v1, Kind=AdmissionReview"
    if said != expected:
        raise _invalid(f"expected webhook response of {expected}, got {said}")
    typed = response.patch_type is not None
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if typed:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and not typed:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif typed and not patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif typed and not response.patch_type:
        raise _invalid('webhook returned invalid response.patchType of ""')


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


def _patch_bytes(text: str | None) -> bytes:
    try:
        return base64.b64decode(scalars.base64_text(text or ""))
    except scalars.InvalidScalar as why:
        raise CallFailed(f"failed to call webhook: {why}") from why


def _operations(patch: bytes) -> list[Any]:
    if not patch:
        return []
    try:
        found = gojson.loads(patch)
    except gojson.NotJSON as why:
        raise CallFailed(f"received undecodable patch in webhook response: {why}") from why
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        problem = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise CallFailed(f"received undecodable patch in webhook response: {problem}")
    return found


def refused(hook: str, status: _Status | None) -> StatusError:
    """Return the error of a webhook that refuses a request (upstream's `ToStatusErr`)."""
    status = status or _Status()
    denied = f"admission webhook {json.dumps(hook, ensure_ascii=False)} denied the request"
    reason = status.message or status.reason
    code = status.code or 0
    details = dict(status.details or {})
    causes = details.pop("causes", None) or ()
    retry = details.pop("retryAfterSeconds", None)
    return StatusError(
        code if 400 <= code <= 599 else 400 if code < 400 else 500,
        status.reason or "",
        f"{denied}: {reason}" if reason else f"{denied} without explanation",
        {name: str(value) for name, value in details.items() if name in ("name", "group", "kind", "uid")},
        tuple(
            Cause(str(each.get("reason") or ""), str(each.get("message") or ""), str(each.get("field") or ""))
            for each in causes
            if isinstance(each, dict)
        ),
        retry_after=retry if isinstance(retry, int) and 0 < retry < 1 << 31 else None,
    )
