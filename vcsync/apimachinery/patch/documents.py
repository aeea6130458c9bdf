"""Patches of documents: JSON patch, merge patch, strategic merge patch. Pure."""

from collections.abc import Iterable
from typing import Any

from vcsync.apimachinery import errors, numbers
from vcsync.apimachinery.gotext import json_type
from vcsync.apimachinery.patch import jsonpatch, merge, strategic
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import gojson

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_MAX_DEPTH = 200
_NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type"
    ' struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def apply_patch(
    content_type: str, live: Object, patch: Any, schema: Schema | None = None, *, typed: bool = False
) -> Object:
    """Return the patched object.

    Args:
        content_type: JSON, MERGE or STRATEGIC.
        live: The object in the version of the request, with kind and apiVersion.
        patch: The body of the request, or its decoded form.
        schema: Schema of objects in that version. Only strategic merge patches need it.
        typed: Whether the result of a JSON or merge patch is decoded to a Go type. Then numbers keep their texts; see
            `numbers.Written`.

    Raises:
        StatusError: 400 if the patch is malformed, 413 if it has too many operations, 422 if it does not apply to this
            object, 500 for a strategic merge patch on which kube-apiserver fails, too (with the reason).
    """
    decoded = _decode(content_type, patch, written=typed and content_type != STRATEGIC)
    if content_type == JSON:
        changed = _json(live, decoded)
    elif content_type == MERGE:
        changed = merge.apply(live, decoded)
    else:
        changed = _strategic(live, decoded, schema)
    if not isinstance(changed, dict):
        text = numbers.encoded(changed).decode()
        finding = errors.wrong("patch", text, _NO_OBJECT)
        raise errors.invalid("", "", "", [finding])
    return changed


def _decode(content_type: str, patch: Any, *, written: bool) -> Any:
    prefix = "" if content_type == STRATEGIC else "error decoding patch: "
    try:
        decoded = _loaded(patch, written=written) if isinstance(patch, bytes) else patch
    except (gojson.NotJSON, RecursionError) as failure:
        raise errors.bad_request(f"{prefix}{failure}") from None
    if too_deep(decoded):
        raise errors.bad_request(f"{prefix}exceeded max depth")
    if decoded is None:
        return _nothing(content_type)
    if content_type != JSON:
        if not isinstance(decoded, dict):
            raise errors.bad_request(prefix + mismatch(decoded, "map[string]interface {}"))
    elif not isinstance(decoded, list):
        raise errors.bad_request(prefix + mismatch(decoded, "[]handlers.jsonPatchOp"))
    else:
        for each in decoded:
            if each is not None and not isinstance(each, dict):
                raise errors.bad_request(prefix + mismatch(each, "handlers.jsonPatchOp"))
    return decoded


def _loaded(patch: bytes, *, written: bool) -> Any:
    """Decode a patch. `written`: its numbers keep their texts.

    Raises:
        NotJSON: The patch is not JSON. The message is that of Go.
    """
    return gojson.loads_written(patch)[0] if written else gojson.loads(patch)


def mismatch(value: Any, into: str) -> str:
    """Return the message of Go's decoder about a JSON value of a wrong type."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {into}"


def _nothing(content_type: str) -> Any:
    """Return the patch that `null` means."""
    if content_type == MERGE:
        raise errors.bad_request("Invalid JSON Patch")
    return [] if content_type == JSON else {}


def too_deep(value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Return whether a JSON value is nested deeper than `depth`."""
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
    """Return the 422 for a patch that does not apply. kube-apiserver does not give the reason either."""
    return errors.StatusError(
        422, "Invalid", "the server rejected our request due to an error in our request", empty_details=True
    )
