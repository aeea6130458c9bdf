"""Patches that say how a document changes: JSON patch, merge patch, strategic merge patch. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.gotext import json_type
from vcsync.controlplane.patch import jsonpatch, merge, strategic
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.wire import gojson

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_MAX_DEPTH = 200
_NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type"
    ' struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def apply_patch(content_type: str, live: Object, patch: Any, schema: Schema | None = None) -> Object:
    """Return what the object becomes by the patch.

    Args:
        content_type: JSON, MERGE or STRATEGIC.
        live: the object in the request's version, with kind and apiVersion.
        patch: the request's body, or what it holds.
        schema: of whole objects in that version; only strategic merge patches need it.

    Raises:
        StatusError: 400 the patch is malformed, 413 too many operations, 422 it does not apply to this object,
            500 a strategic merge patch that kube-apiserver fails on too (it tells why).

    """
    decoded = _decode(content_type, patch)
    if content_type == JSON:
        changed = _json(live, decoded)
    elif content_type == MERGE:
        changed = merge.apply(live, decoded)
    else:
        changed = _strategic(live, decoded, schema)
    if not isinstance(changed, dict):
        text = msgspec.json.encode(changed).decode()
        finding = errors.wrong("patch", text, _NO_OBJECT)
        raise errors.invalid("", "", "", [finding])
    return changed


def _decode(content_type: str, patch: Any) -> Any:
    said = "" if content_type == STRATEGIC else "error decoding patch: "
    try:
        decoded = _loaded(patch) if isinstance(patch, bytes) else patch
    except (gojson.NotJSON, RecursionError) as failure:
        raise errors.bad_request(f"{said}{failure}") from None
    if too_deep(decoded):
        raise errors.bad_request(f"{said}exceeded max depth")
    if decoded is None:
        return _nothing(content_type)
    if content_type != JSON:
        if not isinstance(decoded, dict):
            raise errors.bad_request(said + mismatch(decoded, "map[string]interface {}"))
    elif not isinstance(decoded, list):
        raise errors.bad_request(said + mismatch(decoded, "[]handlers.jsonPatchOp"))
    else:
        for each in decoded:
            if each is not None and not isinstance(each, dict):
                raise errors.bad_request(said + mismatch(each, "handlers.jsonPatchOp"))
    return decoded


def _loaded(patch: bytes) -> Any:
    """Return what a patch holds; bytes that are no UTF-8 become U+FFFD, as in Go.

    Raises:
        NotJSON: it is no JSON; in Go's words.
    """
    try:
        return msgspec.json.decode(patch)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return gojson.loads(patch)


def mismatch(value: Any, into: str) -> str:
    """Say as Go's decoder does that a JSON value is not of the wanted type."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {into}"


def _nothing(content_type: str) -> Any:
    """Say what the patch `null` means."""
    if content_type == MERGE:
        raise errors.bad_request("Invalid JSON Patch")
    return [] if content_type == JSON else {}


def too_deep(value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Say whether a JSON value is nested deeper than `depth`."""
    level: list[Any] = [value]
    for _ in range(depth):
        level = [below for each in level for below in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _json(live: Object, operations: list[dict[str, Any] | None]) -> Any:
    if len(operations) > jsonpatch.MAX_OPERATIONS:
        raise errors.too_large(
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {jsonpatch.MAX_OPERATIONS}, got {len(operations)}"
        )
    try:
        return jsonpatch.apply(live, operations)
    except jsonpatch.DoesNotApply:
        raise unprocessable() from None


def _strategic(live: Object, patch: Object, schema: Schema | None) -> Any:
    if schema is None:
        raise errors.bad_request("strategic merge patch format is not supported")
    try:
        return strategic.apply(live, patch, schema)
    except strategic.BadFormat as failure:
        raise errors.bad_request(str(failure)) from None
    except strategic.ListOfLists:
        raise unprocessable() from None
    except strategic.PatchError as failure:
        raise errors.StatusError(500, "", str(failure)) from None


def unprocessable() -> errors.StatusError:
    """Make the 422 of a patch that does not apply; the real server does not tell why either."""
    return errors.StatusError(
        422, "Invalid", "the server rejected our request due to an error in our request", empty_details=True
    )
