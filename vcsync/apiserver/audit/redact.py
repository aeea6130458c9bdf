"""Redacts audit events: removes the data of Secrets and tokens, whatever the policy says. Pure.

The content of a Secret appears not only in its data but also in patches, lists, kubectl's last-applied annotation, messages
that repeat the request, and annotations of a tenant's policies and webhooks.
"""

from collections.abc import Mapping
from typing import Any

REDACTED = "REDACTED"
_SECRETS = ("", "secrets", "")
_TOKENS: Mapping[tuple[str, str, str], tuple[str, str]] = {
    ("authentication.k8s.io", "tokenreviews", ""): ("spec", "token"),
    ("", "serviceaccounts", "token"): ("status", "token"),
}
"""(group, plural, subresource) -> path of the token."""
_KEPT = frozenset(
    {
        "kind",
        "apiVersion",
        "type",
        "immutable",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
    }
)
"""Recorded fields of Secrets and of DeleteOptions."""
_KEPT_METADATA = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "finalizers",
        "ownerReferences",
        "managedFields",
    }
)
_HARMLESS_CODES = frozenset({401, 404, 405, 406, 409, 410, 415, 429})
"""Status codes whose messages never repeat the request."""
_HARMLESS_KEYS = (
    "authorization.k8s.io/",
    "authentication.k8s.io/",
    "authentication.kubernetes.io/",
    "audit.k8s.io/",
    "k8s.io/",
    "mutation.webhook.admission.k8s.io/",
)
"""Prefixes of annotations that the server writes."""


def may_contain_secrets(reference: Mapping[str, str] | None) -> bool:
    """Return whether a request is for a resource that may contain secrets."""
    return reference is not None and (_is_secret(reference) or _which(reference) in _TOKENS)


def body(reference: Mapping[str, str], value: Any, *, is_response: bool = False) -> Any:
    """Return a body without secrets.

    Args:
        reference: The `objectRef` of the request.
        value: The decoded body.
        is_response: Whether the body is that of the response. A Status in a response has no secrets.
    """
    if is_response and isinstance(value, dict) and value.get("kind") == "Status":
        return value
    if _is_secret(reference):
        return _secret(value)
    place = _TOKENS.get(_which(reference))
    if place is None or not isinstance(value, dict):
        return value
    part = value.get(place[0])
    if not isinstance(part, dict) or not part.get(place[1]):
        return value
    return {**value, place[0]: {**part, place[1]: REDACTED}}


def status(value: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the Status of a request for secrets without messages that may repeat them."""
    harmless = value.get("code") in _HARMLESS_CODES or not value.get("message")
    if harmless or annotations.get("authorization.k8s.io/decision") == "forbid":
        return value
    shown = {**value, "message": REDACTED}
    details = value.get("details")
    if isinstance(details, dict) and details.get("causes"):
        shown["details"] = {
            **details,
            "causes": [{**each, "message": REDACTED} for each in details["causes"]],
        }
    return shown


def annotations(found: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a request for secrets. Only those of the server keep their values."""
    return {
        key: value if key.startswith(_HARMLESS_KEYS) else REDACTED for key, value in sorted(found.items())
    }


def without_managed_fields(value: Any) -> Any:
    """Return an object, list or Table without metadata.managedFields."""
    if not isinstance(value, dict):
        return value
    bare = dict(value)
    if isinstance(bare.get("metadata"), dict):
        bare["metadata"] = {key: each for key, each in bare["metadata"].items() if key != "managedFields"}
    return _each(bare, without_managed_fields)


def _which(reference: Mapping[str, str]) -> tuple[str, str, str]:
    return reference.get("apiGroup", ""), reference.get("resource", ""), reference.get("subresource", "")


def _is_secret(reference: Mapping[str, str]) -> bool:
    return _which(reference)[:2] == _SECRETS[:2]


def _secret(value: Any) -> Any:
    if isinstance(value, list):
        return [_operation(each) for each in value]
    if value is None:
        return None
    if not isinstance(value, dict):
        return REDACTED
    return {key: _field(key, each) for key, each in value.items()}


def _operation(value: Any) -> Any:
    """Return an operation of a JSON patch without its value."""
    if not isinstance(value, dict):
        return REDACTED
    return {key: each if key in ("op", "path", "from") else REDACTED for key, each in value.items()}


def _field(key: str, value: Any) -> Any:
    if key in _KEPT and not isinstance(value, dict | list):
        return value
    if key == "metadata" and isinstance(value, dict):
        return {name: each if name in _KEPT_METADATA else _values(each) for name, each in value.items()}
    if key == "items" and isinstance(value, list):
        return [_secret(each) for each in value]
    if key == "rows" and isinstance(value, list):
        return [_row(each) for each in value]
    return _values(value)


def _row(value: Any) -> Any:
    """Return a row of a Table with its object redacted. Cells only show the number of a Secret's keys."""
    if not isinstance(value, dict):
        return REDACTED
    return {key: _secret(each) if key == "object" else REDACTED for key, each in value.items()}


def _values(value: Any) -> Any:
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED


def _each(value: dict[str, Any], change: Any) -> dict[str, Any]:
    """Apply a change to every object of a list or Table."""
    changed = dict(value)
    if isinstance(value.get("items"), list):
        changed["items"] = [change(each) for each in value["items"]]
    if isinstance(value.get("rows"), list):
        changed["rows"] = [
            {**row, "object": change(row["object"])} if isinstance(row, dict) and row.get("object") else row
            for row in value["rows"]
        ]
    return changed
